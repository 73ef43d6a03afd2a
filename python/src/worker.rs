//! Work on a thread of its own, while the calling thread waits for signals of Python.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use batchlab::cli::start_threads;
use batchlab::error::Error;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors::RunError;
use crate::turn;

/// The time between two looks for signals.
const LOOK: Duration = Duration::from_millis(20);

/// The time that interrupted work has to end by itself. Then it is left alone.
const GRACE: Duration = Duration::from_millis(120);

/// The looks between two reports of progress.
const LOOKS_PER_REPORT: u32 = 5;

/// The flags that stop work and are free. A flag lives as long as the process, since work may outlive its caller.
static FREE_FLAGS: Mutex<Vec<&'static AtomicBool>> = Mutex::new(Vec::new());

thread_local! {
    /// Whether panics of this thread become exceptions, so that nothing is printed.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// A flag that stops work, free again when it is dropped.
pub struct StopFlag(pub &'static AtomicBool);

impl StopFlag {
    pub fn new() -> StopFlag {
        let free = FREE_FLAGS.lock().expect(UNBROKEN).pop();
        let flag = free.unwrap_or_else(|| Box::leak(Box::new(AtomicBool::new(false))));
        flag.store(false, Ordering::Relaxed);
        StopFlag(flag)
    }
}

impl Drop for StopFlag {
    fn drop(&mut self) {
        FREE_FLAGS.lock().expect(UNBROKEN).push(self.0);
    }
}

const UNBROKEN: &str = "nothing panics while it holds the flags";

/// Panics in threads of this module become exceptions and print nothing.
pub fn keep_panics_quiet() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !QUIET.get() {
            before(panic);
        }
    }));
}

/// The number of threads with a Python state.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The longest time for which the end of the process waits for threads.
const LONGEST_END: Duration = Duration::from_secs(5);

/// Waits until no thread has a Python state: one that gives it back while the interpreter ends would abort the process.
/// Policies that still run, since an interrupted call has left them alone, are interrupted again.
#[pyfunction]
pub fn finish_threads(py: Python<'_>) {
    let mut waited = Duration::ZERO;
    while THREADS.load(Ordering::Acquire) > 0 && waited < LONGEST_END {
        turn::interrupt_holder(py);
        py.detach(|| std::thread::sleep(PAUSE));
        waited += PAUSE;
    }
}

const PAUSE: Duration = Duration::from_millis(2);

/// Runs the body of a thread that may call Python. The thread keeps its Python state for its whole life: making one
/// for each call would take longer than the call.
pub fn run_thread(body: &mut (dyn FnMut() + Send)) {
    QUIET.set(true);
    THREADS.fetch_add(1, Ordering::AcqRel);
    Python::attach(|py| py.detach(body));
    THREADS.fetch_sub(1, Ordering::AcqRel);
}

/// Asks for the numbers of finished and of all steps.
pub type AskProgress = Box<dyn Fn() -> Option<(u64, u64)> + Send>;

/// Does the work on a thread. Meanwhile, signals are handled within [`LOOK`], and `report` is called with the progress.
/// After an interruption the work is told to stop, and is left alone if it does not within [`GRACE`].
pub fn supervise<T: Send + 'static>(
    py: Python<'_>,
    stop: StopFlag,
    progress: Option<(Py<PyAny>, AskProgress)>,
    work: impl FnOnce(&'static AtomicBool) -> T + Send + 'static,
) -> PyResult<T> {
    turn::refuse_within_policy()?;
    let flag = stop.0;
    let (sender, mut done) = channel();
    let thread = std::thread::Builder::new().name("batchlab".into());
    let spawned = thread.spawn(move || {
        // The flag is free when the work has ended, even if no caller waits for it any more.
        let stop = stop;
        let mut work = Some(work);
        let mut outcome = None;
        run_thread(&mut || {
            let work = work.take().expect("the body runs once");
            outcome = Some(catch_unwind(AssertUnwindSafe(|| work(stop.0))));
        });
        let _ = sender.send(outcome);
    });
    spawned.map_err(|cause| RunError::new_err(format!("a thread can't be started: {cause}")))?;
    let mut looks = 0;
    loop {
        match wait(py, &mut done, LOOK) {
            Ok(Some(Ok(result))) => return Ok(result),
            Ok(Some(Err(panic))) => return Err(RunError::new_err(describe_panic(&*panic))),
            Ok(None) | Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the thread of the work has ended"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let mut interrupt = py.check_signals().err();
        looks += 1;
        if let Some((report, ask)) = &progress
            && looks % LOOKS_PER_REPORT == 0
            && let Some(steps) = ask()
        {
            interrupt = interrupt.or(report.call1(py, steps).err());
        }
        if let Some(interrupt) = interrupt {
            flag.store(true, Ordering::Relaxed);
            let mut waited = Duration::ZERO;
            while waited < GRACE {
                // Another point may have taken the turn meanwhile.
                turn::interrupt_holder(py);
                if !matches!(wait(py, &mut done, LOOK), Err(RecvTimeoutError::Timeout)) {
                    break;
                }
                waited += LOOK;
            }
            return Err(interrupt);
        }
    }
}

/// Waits without holding the interpreter.
fn wait<T: Send>(
    py: Python<'_>,
    done: &mut Receiver<T>,
    time: Duration,
) -> Result<T, RecvTimeoutError> {
    py.detach(move || done.recv_timeout(time))
}

fn describe_panic(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    let text = text.unwrap_or_else(|| "no message".into());
    format!("a defect of batchlab, please report it: {text}")
}

/// A pool of threads that may call Python; as many as the machine has cores if `count` is `None`.
pub fn thread_pool(count: Option<usize>) -> Result<rayon::ThreadPool, Error> {
    start_threads(count.unwrap_or(0), Some(run_thread))
}
