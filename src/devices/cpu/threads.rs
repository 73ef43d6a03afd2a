//! The threads of a run: each keeps to a core, so that its cache stays warm. Where the system refuses to pin, threads
//! run anywhere.

use std::hint::spin_loop;
use std::num::NonZero;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread::{available_parallelism, yield_now};
use std::time::Instant;

#[cfg(target_os = "linux")]
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
#[cfg(target_os = "linux")]
use nix::unistd::Pid;

use crate::base::clock;
use crate::devices::waiting::LOOKS;

/// Spins until an item arrives, `until` is reached, or the queue is closed, and offers the core to other threads.
pub fn spin<T>(queue: &Receiver<T>, until: Option<Instant>) -> Option<T> {
    loop {
        for _ in 0..LOOKS {
            match queue.try_recv() {
                Ok(item) => return Some(item),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => spin_loop(),
            }
        }
        if until.is_some_and(|until| clock::now() >= until) {
            return None;
        }
        yield_now();
    }
}

/// The cores of a run.
pub struct Cores {
    /// The cores that no thread keeps to yet.
    pub free: std::vec::IntoIter<CpuCore>,
    /// Whether there are more cores than workers, so that a waiting thread may spin.
    pub spare: bool,
}

impl Cores {
    /// The cores on which this process may run. If there are fewer than workers, no thread is pinned.
    pub fn share(workers: usize) -> Cores {
        let mut cores = allowed_cores();
        if cores.len() < workers {
            cores.clear();
        }
        // A container's share of the machine may be less than its cores.
        let usable = available_parallelism().map_or(1, NonZero::get);
        Cores {
            free: cores.into_iter(),
            spare: usable > workers,
        }
    }

    /// Pins the calling thread, which is the engine's, if there is a core to spare. Call this after the workers have
    /// started, because they would inherit the core.
    pub fn pin_engine(&mut self) -> Option<Pinned> {
        if self.spare {
            Pinned::to(self.free.next()?)
        } else {
            None
        }
    }
}

/// The number of a core.
#[derive(Clone, Copy, Debug)]
pub struct CpuCore(usize);

/// The cores that the calling thread may use, or none if the system does not report them.
#[cfg(target_os = "linux")]
fn allowed_cores() -> Vec<CpuCore> {
    let Ok(allowed) = sched_getaffinity(THIS_THREAD) else {
        return Vec::new();
    };
    (0..CpuSet::count())
        .filter(|core| allowed.is_set(*core).unwrap_or(false))
        .map(CpuCore)
        .collect()
}

#[cfg(not(target_os = "linux"))]
fn allowed_cores() -> Vec<CpuCore> {
    Vec::new()
}

/// Pins the calling thread to a core, if the system allows it.
#[cfg(target_os = "linux")]
pub fn keep_to(core: CpuCore) {
    let mut only = CpuSet::new();
    if only.set(core.0).is_ok() {
        let _ = sched_setaffinity(THIS_THREAD, &only);
    }
}

#[cfg(not(target_os = "linux"))]
pub fn keep_to(_: CpuCore) {}

/// A pinned thread, which is unpinned when this is dropped.
pub struct Pinned {
    #[cfg(target_os = "linux")]
    before: CpuSet,
}

impl Pinned {
    #[cfg(target_os = "linux")]
    fn to(core: CpuCore) -> Option<Pinned> {
        let before = sched_getaffinity(THIS_THREAD).ok()?;
        keep_to(core);
        Some(Pinned { before })
    }

    #[cfg(not(target_os = "linux"))]
    fn to(_: CpuCore) -> Option<Pinned> {
        None
    }
}

#[cfg(target_os = "linux")]
impl Drop for Pinned {
    fn drop(&mut self) {
        // The cores may have been taken away (cgroups); the thread then keeps its present core.
        let _ = sched_setaffinity(THIS_THREAD, &self.before);
    }
}

#[cfg(target_os = "linux")]
const THIS_THREAD: Pid = Pid::from_raw(0);
