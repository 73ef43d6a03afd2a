//! The states' places on the GPUs: a pool for each worker.
//!
//! A slot that is vacant is clean: whatever was queued on it is done, and whether numbers in it were none has been asked. So
//! a request that takes one need not wait for anybody, and is blamed for nobody else's numbers.

use super::device::Slot;
use crate::units::WorkerId;

/// The pool of a worker.
#[derive(Debug)]
struct Pool {
    vacant: Vec<Slot>,
    /// No slot from this one on has ever been taken.
    fresh: u32,
    /// How many slots there are.
    room: u32,
    /// Why the worker can't be used any more.
    lost: Option<Box<str>>,
}

/// The pools of all workers.
#[derive(Debug)]
pub struct Pools(Vec<Pool>);

impl Pools {
    /// Pools of this size for each of the workers, in their order.
    pub fn new(rooms: impl Iterator<Item = u32>) -> Pools {
        Pools(rooms.map(|room| Pool { vacant: Vec::new(), fresh: 0, room, lost: None }).collect())
    }

    /// Takes a slot.
    ///
    /// # Errors
    /// Says that there is none.
    pub fn take(&mut self, worker: WorkerId) -> Result<Slot, String> {
        let pool = &mut self.0[worker.index()];
        if let Some(slot) = pool.vacant.pop() {
            return Ok(slot);
        }
        if pool.fresh == pool.room {
            return Err(format!("worker {worker} has no room for more than {} states", pool.room));
        }
        pool.fresh += 1;
        Ok(Slot(pool.fresh - 1))
    }

    /// Takes a clean slot back.
    pub fn give_back(&mut self, worker: WorkerId, slot: Slot) {
        self.0[worker.index()].vacant.push(slot);
    }

    /// The worker can't be used any more, nor can the states that it holds.
    pub fn lose(&mut self, worker: WorkerId, reason: &str) {
        self.0[worker.index()].lost.get_or_insert_with(|| reason.into());
    }

    /// Why a worker can't be used any more, if it can't.
    pub fn lost(&self, worker: WorkerId) -> Option<&str> {
        self.0[worker.index()].lost.as_deref()
    }

    /// How many slots of all workers are taken.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.0.iter().map(|pool| pool.fresh as usize - pool.vacant.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_full_when_all_slots_are_taken() {
        let mut pools = Pools::new([2, 0].into_iter());
        let (first, second) = (pools.take(WorkerId(0)).unwrap(), pools.take(WorkerId(0)).unwrap());
        assert_ne!(first, second);
        assert_eq!(pools.take(WorkerId(0)).unwrap_err(), "worker 0 has no room for more than 2 states");
        assert_eq!(pools.take(WorkerId(1)).unwrap_err(), "worker 1 has no room for more than 0 states");
        pools.give_back(WorkerId(0), first);
        assert_eq!((pools.taken(), pools.take(WorkerId(0))), (1, Ok(first)));
    }
}
