//! Waiting on a queue without going to sleep.

use std::hint::spin_loop;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread::yield_now;
use std::time::Instant;

use crate::backend::pace::LOOKS;

/// Spins until something comes, `until` has come, or nobody is left who could send. Between glances at the clock the core
/// is offered to other threads, which costs little where there are none.
pub fn spin<T>(queue: &Receiver<T>, until: Option<Instant>) -> Option<T> {
    loop {
        for _ in 0..LOOKS {
            match queue.try_recv() {
                Ok(item) => return Some(item),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => spin_loop(),
            }
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return None;
        }
        yield_now();
    }
}
