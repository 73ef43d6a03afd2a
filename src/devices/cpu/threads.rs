//! The threads of a run: each keeps to a core, so that its cache stays warm. Where the system refuses to pin, threads
//! run anywhere.

use std::hint::spin_loop;
use std::num::NonZero;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread::{available_parallelism, yield_now};
use std::time::Instant;

use core_affinity::CoreId;

use crate::base::clock;
use crate::devices::shared::LOOKS;

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

pub struct Cores {
    /// The cores that no thread has yet.
    pub free: std::vec::IntoIter<CoreId>,
    /// More cores than workers, so a waiting thread may spin.
    pub spare: bool,
}

impl Cores {
    /// With fewer cores than workers, no thread is pinned.
    pub fn share(workers: usize) -> Cores {
        let mut cores = core_affinity::get_core_ids().unwrap_or_default();
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

    /// Pins the calling thread, the driver's, if there is a core to spare. Call it after the start of the workers,
    /// which would inherit the core.
    pub fn pin_driver(&mut self) -> Option<Pinned> {
        if self.spare {
            Pinned::to(self.free.next()?)
        } else {
            None
        }
    }
}

pub fn keep_to(core: CoreId) {
    let _ = core_affinity::set_for_current(core);
}

/// Unpins the thread when dropped.
pub struct Pinned {
    #[cfg(target_os = "linux")]
    before: nix::sched::CpuSet,
}

impl Pinned {
    #[cfg(target_os = "linux")]
    fn to(core: CoreId) -> Option<Pinned> {
        let before = nix::sched::sched_getaffinity(THIS_THREAD).ok()?;
        keep_to(core);
        Some(Pinned { before })
    }

    /// Elsewhere a pin could not be undone, because the system does not say where a thread may run.
    #[cfg(not(target_os = "linux"))]
    fn to(_: CoreId) -> Option<Pinned> {
        None
    }
}

#[cfg(target_os = "linux")]
impl Drop for Pinned {
    fn drop(&mut self) {
        // If the system no longer allows these cores, it has a reason.
        let _ = nix::sched::sched_setaffinity(THIS_THREAD, &self.before);
    }
}

#[cfg(target_os = "linux")]
const THIS_THREAD: nix::unistd::Pid = nix::unistd::Pid::from_raw(0);
