//! Whom a command works for: the user of a terminal, or a program that calls it and reads what it says.

use std::cell::RefCell;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};

use indicatif::{ProgressBar, ProgressDrawTarget};

use crate::base::error::{Error, Result};

thread_local! {
    /// The call on whose behalf this thread runs a command; `None` for the user of a terminal.
    static CALL: RefCell<Option<ActiveCall>> = const { RefCell::new(None) };
}

struct ActiveCall {
    caller: Caller,
    answer: CommandAnswer,
}

/// Runs the body of a thread, which it has to call once.
pub type OnThread = fn(&mut (dyn FnMut() + Send));

/// A program that calls commands.
#[derive(Clone)]
pub struct Caller {
    /// Stops the command once it is set, as Ctrl-C does in a terminal.
    pub stop: &'static AtomicBool,
    /// Runs the body of each thread that the command starts for its simulations. It has to call the body once.
    pub on_thread: OnThread,
    bar: Arc<Mutex<Option<ProgressBar>>>,
}

/// What a command has said.
#[derive(Debug, Default)]
pub struct CommandAnswer {
    /// What a terminal would show as the result.
    pub printed: String,
    /// What a terminal would show beside it, a text for each message.
    pub notes: Vec<String>,
}

impl Caller {
    pub fn new(stop: &'static AtomicBool, on_thread: OnThread) -> Caller {
        Caller {
            stop,
            on_thread,
            bar: Arc::default(),
        }
    }

    /// The number of steps that are done, and that of all steps, once the command knows it. Any thread may ask.
    pub fn progress(&self) -> Option<(u64, u64)> {
        let bar = self.bar();
        let bar = bar.as_ref()?;
        Some((bar.position(), bar.length()?))
    }

    fn bar(&self) -> MutexGuard<'_, Option<ProgressBar>> {
        self.bar
            .lock()
            .expect("nothing panics while it holds the bar")
    }
}

/// Does the work of a command for a caller.
pub(super) fn answer<T>(caller: &Caller, work: impl FnOnce() -> T) -> (CommandAnswer, T) {
    // A command may call another one.
    let outer = CALL.replace(Some(ActiveCall {
        caller: caller.clone(),
        answer: CommandAnswer::default(),
    }));
    let outcome = work();
    let call = CALL.replace(outer);
    (call.map(|call| call.answer).unwrap_or_default(), outcome)
}

/// Gives a result to the caller. Returns false if there is none, so that it has to be printed.
pub(super) fn give_result(text: &str) -> bool {
    with_call(|call| call.answer.printed.push_str(text)).is_some()
}

/// Gives a note to the caller. Returns false if there is none, so that it has to be printed.
pub(super) fn give_note(text: &str) -> bool {
    with_call(|call| call.answer.notes.push(text.to_string())).is_some()
}

/// The flag by which the caller stops the command; `None` in a terminal.
pub(super) fn caller_stop() -> Option<&'static AtomicBool> {
    with_call(|call| call.caller.stop)
}

/// The caller of this command, or one for a user of a terminal, who stops what `stop` stops.
pub(super) fn caller_or_user(stop: &'static AtomicBool) -> Caller {
    with_call(|call| call.caller.clone()).unwrap_or_else(|| Caller::new(stop, |body| body()))
}

/// A bar that shows nothing and that the caller asks for its position; `None` in a terminal.
pub(super) fn caller_bar(steps: usize) -> Option<ProgressBar> {
    with_call(|call| {
        let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::hidden());
        *call.caller.bar() = Some(bar.clone());
        bar
    })
}

/// Threads for simulations, as many as the machine has cores if `count` is 0, within the function of the caller.
pub(super) fn caller_threads(count: usize) -> Result<rayon::ThreadPool> {
    start_threads(count, with_call(|call| call.caller.on_thread))
}

/// Threads for simulations, as many as the machine has cores if `count` is 0. `on_thread` runs the body of each; it has
/// to call the body once.
///
/// # Errors
/// Fails if the machine starts no more threads.
pub fn start_threads(count: usize, on_thread: Option<OnThread>) -> Result<rayon::ThreadPool> {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(count);
    let pool = match on_thread {
        None => builder.build(),
        Some(on_thread) => builder
            .spawn_handler(|thread| {
                let mut thread = Some(thread);
                let body = move || {
                    on_thread(&mut || {
                        if let Some(thread) = thread.take() {
                            thread.run();
                        }
                    });
                };
                std::thread::Builder::new().spawn(body).map(drop)
            })
            .build(),
    };
    let pool =
        pool.map_err(|cause| Error::failure(format!("threads can't be started: {cause}")))?;
    if on_thread.is_some() {
        // The caller may end at any time, and must know of all threads by then. This waits until each has begun.
        pool.broadcast(|_| ());
    }
    Ok(pool)
}

fn with_call<T>(work: impl FnOnce(&mut ActiveCall) -> T) -> Option<T> {
    CALL.with_borrow_mut(|call| call.as_mut().map(work))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_given_what_a_terminal_would_show() {
        static STOP: AtomicBool = AtomicBool::new(false);
        let caller = Caller::new(&STOP, |body| body());
        let (said, threads) = answer(&caller, || {
            assert!(give_result("a table\n") && give_note("a note"));
            let bar = caller_bar(7).unwrap();
            bar.inc(3);
            caller_threads(2).unwrap().current_num_threads()
        });
        assert_eq!(said.printed, "a table\n");
        assert_eq!(said.notes, ["a note"]);
        assert_eq!(threads, 2);
        assert_eq!(caller.progress(), Some((3, 7)));
        assert!(!give_note("for a terminal"));
    }
}
