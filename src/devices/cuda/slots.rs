//! The slots of the GPUs' pools, and the slots that each request holds.
//!
//! A free slot has no queued work, and its non-finite flag has been read and cleared. So a request that takes one need
//! not wait, and a NaN is never attributed to the wrong request.

use smallvec::SmallVec;

use super::device::{Device, GatherRow, StateSlot};
use super::streams::Use;
use crate::base::units::{NodeId, RequestId, WorkerId};
use crate::core::task::NodeRef;
use crate::core::workload::cell_graph::Graph;
use crate::devices::state_places::StatePlaces;
use crate::devices::task_checks::{check_order, run_before, run_twice};

/// The slots of one worker.
#[derive(Debug)]
struct Pool {
    free: Vec<StateSlot>,
    /// The first slot that has never been taken.
    fresh: u32,
    /// The number of slots.
    room: u32,
    /// Why the worker is lost, or `None` if it is not.
    lost: Option<Box<str>>,
}

/// The pools of all workers.
#[derive(Debug)]
pub struct Pools(Vec<Pool>);

impl Pools {
    pub fn new(rooms: Vec<u32>) -> Pools {
        let pools = rooms.into_iter().map(|room| Pool {
            free: Vec::new(),
            fresh: 0,
            room,
            lost: None,
        });
        Pools(pools.collect())
    }

    /// Takes a free slot. Fails if the worker has none.
    pub fn take(&mut self, worker: WorkerId) -> Result<StateSlot, String> {
        let pool = &mut self.0[worker.index()];
        if let Some(slot) = pool.free.pop() {
            return Ok(slot);
        }
        if pool.fresh == pool.room {
            return Err(format!(
                "worker {worker} has no room for more than {} states",
                pool.room
            ));
        }
        pool.fresh += 1;
        Ok(StateSlot(pool.fresh - 1))
    }

    /// Marks a worker and the states that it holds as lost.
    pub fn lose(&mut self, worker: WorkerId, reason: &str) {
        self.0[worker.index()]
            .lost
            .get_or_insert_with(|| reason.into());
    }

    /// Why a worker is lost, or `None` if it is not lost.
    pub fn lost(&self, worker: WorkerId) -> Option<&str> {
        self.0[worker.index()].lost.as_deref()
    }

    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.0
            .iter()
            .map(|pool| pool.fresh as usize - pool.free.len())
            .sum()
    }
}

/// When a slot is used: by which launch, and until which signal.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaunchStamp {
    /// The number of the launch in the run, from 1.
    pub number: u64,
    pub worker: WorkerId,
    /// The stream of the launch, and the signal after it.
    pub used: Use,
}

/// The batch of a launch.
#[derive(Debug, Default)]
pub struct Gathering {
    launch: LaunchStamp,
    pub rows: Vec<GatherRow>,
    /// The input states of the rows.
    pub inputs: Vec<StateSlot>,
    /// The uses by other streams that must be over before the launch.
    pub waits: Vec<Use>,
    /// The states that are copied from other workers.
    pub migrations: Vec<Migration>,
    /// The states that are no longer needed after the launch: the request, and the index of the slot among those that
    /// it holds.
    pub vacated: Vec<(RequestId, u32)>,
}

/// A copy of a state from another worker.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    pub request: RequestId,
    pub from: (WorkerId, StateSlot),
    pub to: StateSlot,
}

impl Gathering {
    pub fn begin(&mut self, launch: LaunchStamp) {
        self.launch = launch;
        self.rows.clear();
        self.inputs.clear();
        self.waits.clear();
        self.migrations.clear();
        self.vacated.clear();
    }

    /// Notes that the launch uses a slot, after the earlier uses of other streams.
    fn note_use(&mut self, held: &mut HeldSlot) {
        if held.used.stream != self.launch.used.stream {
            self.waits.push(held.used);
        }
        held.used = self.launch.used;
    }

    /// Notes that the launch writes a slot.
    fn note_write(&mut self, held: &mut HeldSlot) {
        self.note_use(held);
        held.written = self.launch.number;
    }
}

/// A slot that a request holds.
#[derive(Clone, Copy, Debug)]
pub struct HeldSlot {
    worker: WorkerId,
    pub slot: StateSlot,
    pub used: Use,
    /// The number of the launch that writes it last.
    pub written: u64,
}

impl HeldSlot {
    fn new(pools: &mut Pools, launch: &LaunchStamp) -> Result<HeldSlot, String> {
        let slot = pools.take(launch.worker)?;
        Ok(HeldSlot {
            worker: launch.worker,
            slot,
            used: launch.used,
            written: 0,
        })
    }

    /// Returns a slot that has no queued work to its pool, and reports whether a NaN or an infinity was stored in it.
    pub fn give_back(&self, pools: &mut Pools, device: &mut impl Device) -> bool {
        let non_finite =
            pools.lost(self.worker).is_none() && device.take_non_finite(self.worker, self.slot);
        pools.0[self.worker.index()].free.push(self.slot);
        non_finite
    }

    /// Fails if the state was on a worker that is lost.
    fn check(&self, pools: &Pools) -> Result<(), String> {
        let Some(reason) = pools.lost(self.worker) else {
            return Ok(());
        };
        Err(format!(
            "its state was on worker {}, which is lost: {reason}",
            self.worker
        ))
    }
}

/// The state of a chain: it holds one slot on each worker that it has been on, and its nodes update that slot in place.
#[derive(Debug)]
pub struct ChainSlots {
    /// The tokens of the request, in a listed network.
    pub tokens: u32,
    /// The number of nodes that are queued.
    pub done: u32,
    /// The index in `held` of the slot with the present state.
    at: u32,
    pub held: SmallVec<[HeldSlot; 1]>,
}

impl ChainSlots {
    pub fn new(tokens: u32) -> ChainSlots {
        ChainSlots {
            tokens,
            done: 0,
            at: 0,
            held: SmallVec::new(),
        }
    }

    /// The slot with the present state.
    pub fn current(&self) -> &HeldSlot {
        &self.held[self.at as usize]
    }

    /// Continues to this node without a gather.
    pub fn advance(&mut self, node: NodeId, launch: &LaunchStamp) {
        self.done = node.0 + 1;
        let held = &mut self.held[self.at as usize];
        held.used = launch.used;
        held.written = launch.number;
    }

    /// Finds the slot for the next node, and brings the state there if it is on another worker.
    pub fn take(
        &mut self,
        at: NodeRef,
        pools: &mut Pools,
        batch: &mut Gathering,
    ) -> Result<StateSlot, String> {
        let NodeRef {
            request,
            node: NodeId(node),
        } = at;
        let launch = batch.launch;
        check_order(node, self.done)?;
        let here = match self
            .held
            .iter()
            .position(|held| held.worker == launch.worker)
        {
            Some(here) => here,
            None => {
                self.held.push(HeldSlot::new(pools, &launch)?);
                self.held.len() - 1
            }
        };
        if node > 0 {
            let from = &mut self.held[self.at as usize];
            if from.written == launch.number {
                return Err(run_before(node, node - 1));
            }
            from.check(pools)?;
            if here != self.at as usize {
                batch.note_use(from);
                let from = (from.worker, from.slot);
                batch.migrations.push(Migration {
                    request,
                    from,
                    to: self.held[here].slot,
                });
            }
        }
        let held = &mut self.held[here];
        batch.note_write(held);
        self.at = here as u32;
        self.done = node + 1;
        if node > 0 {
            batch.inputs.push(held.slot);
        }
        Ok(held.slot)
    }
}

/// The slots of a general graph: one for each state that is still needed. Vacant slots are used again.
#[derive(Debug, Default)]
pub struct GraphSlots {
    pub held: Vec<HeldSlot>,
    /// The indices of slots that hold no state that is still needed.
    pub vacant: Vec<u32>,
    /// The place of each node's state, as an index of `held`.
    pub places: StatePlaces,
}

impl GraphSlots {
    /// Begins a request, which holds no slot yet.
    pub fn begin(&mut self, graph: &Graph) {
        self.held.clear();
        self.vacant.clear();
        self.places.begin(graph);
    }

    /// Takes the states that a node needs, and finds a slot for its own state.
    pub fn take(
        &mut self,
        of: &Graph,
        at: NodeRef,
        pools: &mut Pools,
        batch: &mut Gathering,
    ) -> Result<StateSlot, String> {
        let NodeRef {
            request,
            node: NodeId(node),
        } = at;
        let launch = batch.launch;
        if self.places.has_run(node) {
            return Err(run_twice(node));
        }
        for &input in of.inputs(node) {
            let place = self.places.input(node, input)?;
            let held = &mut self.held[place as usize];
            if held.written == launch.number {
                return Err(run_before(node, input));
            }
            held.check(pools)?;
            batch.note_use(held);
            let HeldSlot {
                worker, mut slot, ..
            } = *held;
            if worker != launch.worker {
                let here = self.room(&launch, pools)?;
                let held = &mut self.held[here as usize];
                batch.note_write(held);
                batch.migrations.push(Migration {
                    request,
                    from: (worker, slot),
                    to: held.slot,
                });
                batch.vacated.push((request, here));
                slot = held.slot;
            }
            batch.inputs.push(slot);
            if self.places.take(input) {
                batch.vacated.push((request, place));
            }
        }
        let place = self.room(&launch, pools)?;
        let held = &mut self.held[place as usize];
        batch.note_write(held);
        let slot = held.slot;
        self.places.put(node, place);
        if self.places.left == 0 {
            // The request ends with this launch, so all its other nodes must be over by then.
            self.held.iter_mut().for_each(|held| batch.note_use(held));
        }
        Ok(slot)
    }

    /// The index of a slot on the launch's worker that holds no state that is needed.
    fn room(&mut self, launch: &LaunchStamp, pools: &mut Pools) -> Result<u32, String> {
        match self
            .vacant
            .iter()
            .rposition(|place| self.held[*place as usize].worker == launch.worker)
        {
            Some(found) => Ok(self.vacant.swap_remove(found)),
            None => {
                self.held.push(HeldSlot::new(pools, launch)?);
                Ok(self.held.len() as u32 - 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_full_when_all_slots_are_taken() {
        let mut pools = Pools::new(vec![2, 0]);
        let first = pools.take(WorkerId(0)).unwrap();
        let second = pools.take(WorkerId(0)).unwrap();
        assert_ne!(first, second);
        assert_eq!(
            pools.take(WorkerId(0)).unwrap_err(),
            "worker 0 has no room for more than 2 states"
        );
        assert_eq!(
            pools.take(WorkerId(1)).unwrap_err(),
            "worker 1 has no room for more than 0 states"
        );
        pools.0[0].free.push(first);
        assert_eq!((pools.taken(), pools.take(WorkerId(0))), (1, Ok(first)));
    }
}
