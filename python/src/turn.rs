//! The turn of policies in Python: one point after another calls the interpreter.
//!
//! Two threads that hand the interpreter over at each call take twenty times as long as one thread for both. So a point
//! takes the turn with its first call and keeps it until its policy is dropped. A thread that waits for its turn
//! meanwhile runs other points, such as those of policies in Rust.

use std::cell::Cell;
use std::sync::{Condvar, Mutex};
use std::thread::{self, ThreadId};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

#[derive(Clone, Copy)]
struct Holder {
    thread: ThreadId,
    /// The number of policies of this thread that have the turn.
    policies: usize,
    /// The thread as Python numbers it.
    ident: u64,
}

static HOLDER: Mutex<Option<Holder>> = Mutex::new(None);
static RELEASED: Condvar = Condvar::new();

thread_local! {
    /// Whether a policy's method runs on this thread.
    static WITHIN_POLICY: Cell<bool> = const { Cell::new(false) };
    /// The number of points that this thread runs while it waits.
    static WAITING: Cell<usize> = const { Cell::new(0) };
}

/// The most points that a thread begins while it waits for its turn, since each takes some of its stack.
const MOST_WAITING: usize = 32;

const UNBROKEN: &str = "nothing panics while it holds the turn's lock";

/// The turn, until it is dropped.
pub struct Turn(());

impl Turn {
    /// Waits for the turn, which the calling thread may have already.
    pub fn take() -> Turn {
        loop {
            if Turn::try_take() {
                return Turn(());
            }
            let waiting = WAITING.get();
            if waiting < MOST_WAITING {
                WAITING.set(waiting + 1);
                let yielded = rayon::yield_now();
                WAITING.set(waiting);
                if yielded == Some(rayon::Yield::Executed) {
                    continue;
                }
            }
            let holder = HOLDER.lock().expect(UNBROKEN);
            if holder.is_some() {
                drop(RELEASED.wait(holder).expect(UNBROKEN));
            }
        }
    }

    fn try_take() -> bool {
        let thread = thread::current().id();
        let mut holder = HOLDER.lock().expect(UNBROKEN);
        match &mut *holder {
            Some(held) if held.thread == thread => held.policies += 1,
            Some(_) => return false,
            None => {
                *holder = Some(Holder {
                    thread,
                    policies: 1,
                    ident: 0,
                });
            }
        }
        true
    }

    /// Tells which of Python's threads has the turn, so that its code can be interrupted.
    pub fn set_ident(&self, ident: u64) {
        if let Some(holder) = &mut *HOLDER.lock().expect(UNBROKEN) {
            holder.ident = ident;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut holder = HOLDER.lock().expect(UNBROKEN);
        if let Some(held) = &mut *holder {
            held.policies -= 1;
            if held.policies == 0 {
                *holder = None;
                RELEASED.notify_all();
            }
        }
    }
}

/// Raises `KeyboardInterrupt` in the policy that runs, which may be in an endless loop.
pub fn interrupt_holder(py: Python<'_>) {
    let holder = *HOLDER.lock().expect(UNBROKEN);
    if let Some(ident) = holder
        .map(|holder| holder.ident)
        .filter(|ident| *ident != 0)
    {
        let _ = py
            .import("batchlab._interrupt")
            .and_then(|module| module.call_method1("interrupt", (ident,)));
    }
}

/// Marks this thread as one that runs a policy's method.
pub fn within_policy<T>(work: impl FnOnce() -> T) -> T {
    let before = WITHIN_POLICY.replace(true);
    let result = work();
    WITHIN_POLICY.set(before);
    result
}

/// Refuses calls of a policy that would wait for the policy's own turn.
pub fn refuse_within_policy() -> PyResult<()> {
    if WITHIN_POLICY.get() {
        return Err(PyRuntimeError::new_err(
            "a policy can't run simulations: it is called within one; do it in __init__'s caller, before the run",
        ));
    }
    Ok(())
}
