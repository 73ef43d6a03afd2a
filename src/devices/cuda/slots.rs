//! The slots of the GPUs' pools, and the slots that each request holds.
//!
//! A free slot has no queued work, and its non-finite flag has been read and cleared. So a request that takes one need not
//! wait, and a NaN is never attributed to the wrong request.

use smallvec::SmallVec;

use super::device::{Device, Row, Slot};
use super::streams::Use;
use crate::base::units::{NodeId, RequestId, WorkerId};
use crate::core::task::NodeRef;
use crate::core::workload::cell_graph::Graph;
use crate::devices::places::Places;
use crate::devices::shared::{in_order, run_before, run_twice};

#[derive(Debug)]
struct Pool {
    free: Vec<Slot>,
    /// The first slot that has never been taken.
    fresh: u32,
    room: u32,
    lost: Option<Box<str>>,
}

#[derive(Debug)]
pub struct Pools(Vec<Pool>);

impl Pools {
    pub fn new(rooms: Vec<u32>) -> Pools {
        Pools(
            rooms
                .into_iter()
                .map(|room| Pool {
                    free: Vec::new(),
                    fresh: 0,
                    room,
                    lost: None,
                })
                .collect(),
        )
    }

    pub fn take(&mut self, worker: WorkerId) -> Result<Slot, String> {
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
        Ok(Slot(pool.fresh - 1))
    }

    /// Marks a worker and the states that it holds as lost.
    pub fn lose(&mut self, worker: WorkerId, reason: &str) {
        self.0[worker.index()]
            .lost
            .get_or_insert_with(|| reason.into());
    }

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

#[derive(Clone, Copy, Debug, Default)]
pub struct Launch {
    /// Counts the launches of the run, from 1.
    pub number: u64,
    pub worker: WorkerId,
    /// Its stream, and the signal after it.
    pub used: Use,
}

/// The batch of a launch.
#[derive(Debug, Default)]
pub struct Gathering {
    launch: Launch,
    pub rows: Vec<Row>,
    /// The input states of the rows.
    pub inputs: Vec<Slot>,
    /// Uses by other streams that have to be over before.
    pub waits: Vec<Use>,
    pub migrations: Vec<Migration>,
    /// States that are no longer needed after the launch: the request, and the index of the slot among those that it holds.
    pub vacated: Vec<(RequestId, u32)>,
}

#[derive(Clone, Copy, Debug)]
pub struct Migration {
    pub request: RequestId,
    pub from: (WorkerId, Slot),
    pub to: Slot,
}

impl Gathering {
    pub fn begin(&mut self, launch: Launch) {
        self.launch = launch;
        self.rows.clear();
        self.inputs.clear();
        self.waits.clear();
        self.migrations.clear();
        self.vacated.clear();
    }

    fn uses(&mut self, held: &mut Held) {
        if held.used.stream != self.launch.used.stream {
            self.waits.push(held.used);
        }
        held.used = self.launch.used;
    }

    fn writes(&mut self, held: &mut Held) {
        self.uses(held);
        held.written = self.launch.number;
    }
}

/// A slot that a request holds.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    worker: WorkerId,
    pub slot: Slot,
    pub used: Use,
    /// The launch that writes it last.
    pub written: u64,
}

impl Held {
    fn new(pools: &mut Pools, launch: &Launch) -> Result<Held, String> {
        let slot = pools.take(launch.worker)?;
        Ok(Held {
            worker: launch.worker,
            slot,
            used: launch.used,
            written: 0,
        })
    }

    /// Returns a slot without queued work to its pool. Returns whether a NaN or an infinity was stored in it.
    pub fn give_back(&self, pools: &mut Pools, device: &mut impl Device) -> bool {
        let non_finite =
            pools.lost(self.worker).is_none() && device.take_non_finite(self.worker, self.slot);
        pools.0[self.worker.index()].free.push(self.slot);
        non_finite
    }

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
pub struct Chain {
    /// The tokens of the request, in a listed network.
    pub tokens: u32,
    pub done: u32,
    /// Which of its slots has the state after the last of them.
    at: u32,
    pub held: SmallVec<[Held; 1]>,
}

impl Chain {
    pub fn new(tokens: u32) -> Chain {
        Chain {
            tokens,
            done: 0,
            at: 0,
            held: SmallVec::new(),
        }
    }

    /// The slot with the present state.
    pub fn current(&self) -> &Held {
        &self.held[self.at as usize]
    }

    /// Continues to this node without a gather.
    pub fn advance(&mut self, node: NodeId, launch: &Launch) {
        self.done = node.0 + 1;
        let held = &mut self.held[self.at as usize];
        (held.used, held.written) = (launch.used, launch.number);
    }

    /// Finds the slot for the next node, and brings the state there if it is on another worker.
    pub fn take(
        &mut self,
        at: NodeRef,
        pools: &mut Pools,
        batch: &mut Gathering,
    ) -> Result<Slot, String> {
        let (
            NodeRef {
                request,
                node: NodeId(node),
            },
            launch,
        ) = (at, batch.launch);
        in_order(node, self.done)?;
        let here = match self
            .held
            .iter()
            .position(|held| held.worker == launch.worker)
        {
            Some(here) => here,
            None => {
                self.held.push(Held::new(pools, &launch)?);
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
                batch.uses(from);
                let from = (from.worker, from.slot);
                batch.migrations.push(Migration {
                    request,
                    from,
                    to: self.held[here].slot,
                });
            }
        }
        let held = &mut self.held[here];
        batch.writes(held);
        (self.at, self.done) = (here as u32, node + 1);
        if node > 0 {
            batch.inputs.push(held.slot);
        }
        Ok(held.slot)
    }
}

/// The states of a general graph: a slot for each state that is still needed. Free slots are used again.
#[derive(Debug, Default)]
pub struct Nodes {
    pub held: Vec<Held>,
    /// Which of them hold no state that is needed.
    pub vacant: Vec<u32>,
    /// The places are indices of slots.
    pub places: Places,
}

impl Nodes {
    pub fn begin(&mut self, graph: &Graph) {
        self.held.clear();
        self.vacant.clear();
        self.places.begin(graph);
    }

    /// Takes the states that a node needs, and finds a slot for its own.
    pub fn take(
        &mut self,
        of: &Graph,
        at: NodeRef,
        pools: &mut Pools,
        batch: &mut Gathering,
    ) -> Result<Slot, String> {
        let (
            NodeRef {
                request,
                node: NodeId(node),
            },
            launch,
        ) = (at, batch.launch);
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
            batch.uses(held);
            let Held {
                worker, mut slot, ..
            } = *held;
            if worker != launch.worker {
                let here = self.room(&launch, pools)?;
                let held = &mut self.held[here as usize];
                batch.writes(held);
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
        batch.writes(held);
        let slot = held.slot;
        self.places.put(node, place);
        if self.places.left == 0 {
            // The request ends with this launch, so all its other nodes must be over by then.
            self.held.iter_mut().for_each(|held| batch.uses(held));
        }
        Ok(slot)
    }

    /// The index of a slot on the launch's worker that holds no state that is needed.
    fn room(&mut self, launch: &Launch, pools: &mut Pools) -> Result<u32, String> {
        match self
            .vacant
            .iter()
            .rposition(|place| self.held[*place as usize].worker == launch.worker)
        {
            Some(found) => Ok(self.vacant.swap_remove(found)),
            None => {
                self.held.push(Held::new(pools, launch)?);
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
        let (first, second) = (
            pools.take(WorkerId(0)).unwrap(),
            pools.take(WorkerId(0)).unwrap(),
        );
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
