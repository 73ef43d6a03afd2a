//! The slots of the GPUs' pools, and the slots that each request holds.
//!
//! A free slot has no queued work, and its non-finite flag has been read and cleared. So a request that takes one need
//! not wait, and a NaN is never attributed to the wrong request.
//!
//! A chain holds one slot on each worker that it has been on; its nodes update it in place. The states of a general
//! graph lie side by side, each at the place of its node, and no node overwrites another's. So nothing is looked for
//! when a node is queued, and nothing is freed before the request ends.

use smallvec::SmallVec;

use super::device::{Device, GatherRow, StateSlot};
use super::streams::Use;
use crate::base::units::{NodeId, RequestId, WorkerId};
use crate::core::task::NodeRef;
use crate::core::workload::cell_graph::Graph;
use crate::devices::task_checks::{check_order, run_before, run_twice};

/// The number of slots of a page where requests are general graphs. Requests take pages, so that a pool whose free
/// slots are scattered still has room for any request.
pub const GRAPH_PAGE: u32 = 8;

/// The slots of one worker.
#[derive(Debug)]
struct Pool {
    /// The first slots of free pages.
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
pub struct Pools {
    pools: Vec<Pool>,
    /// The number of slots that are taken together.
    page: u32,
}

impl Pools {
    pub fn new(rooms: Vec<u32>, page: u32) -> Pools {
        let pools = rooms.into_iter().map(|room| Pool {
            free: Vec::new(),
            fresh: 0,
            room,
            lost: None,
        });
        Pools {
            pools: pools.collect(),
            page,
        }
    }

    /// Takes a free page, and returns its first slot. Fails if the worker has none.
    pub fn take(&mut self, worker: WorkerId) -> Result<StateSlot, String> {
        let pool = &mut self.pools[worker.index()];
        if let Some(slot) = pool.free.pop() {
            return Ok(slot);
        }
        if pool.room - pool.fresh < self.page {
            return Err(format!(
                "worker {worker} has no room for more than {} states",
                pool.room
            ));
        }
        pool.fresh += self.page;
        Ok(StateSlot(pool.fresh - self.page))
    }

    /// Returns a page that has no queued work, and reports whether a NaN or an infinity was stored in it.
    pub fn give_back(
        &mut self,
        worker: WorkerId,
        first: StateSlot,
        device: &mut impl Device,
    ) -> bool {
        let pool = &mut self.pools[worker.index()];
        pool.free.push(first);
        let mut non_finite = false;
        if pool.lost.is_none() {
            for slot in first.0..first.0 + self.page {
                non_finite |= device.take_non_finite(worker, StateSlot(slot));
            }
        }
        non_finite
    }

    /// Marks a worker and the states that it holds as lost.
    pub fn lose(&mut self, worker: WorkerId, reason: &str) {
        self.pools[worker.index()]
            .lost
            .get_or_insert_with(|| reason.into());
    }

    /// Why a worker is lost, or `None` if it is not lost.
    pub fn lost(&self, worker: WorkerId) -> Option<&str> {
        self.pools[worker.index()].lost.as_deref()
    }

    /// Fails if a state on this worker is lost.
    fn check(&self, worker: WorkerId) -> Result<(), String> {
        match self.lost(worker) {
            Some(reason) => Err(format!(
                "its state was on worker {worker}, which is lost: {reason}"
            )),
            None => Ok(()),
        }
    }

    #[cfg(test)]
    pub fn used_slots(&self) -> usize {
        let taken = |pool: &Pool| pool.fresh as usize - pool.free.len() * self.page as usize;
        self.pools.iter().map(taken).sum()
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
    }

    /// Makes the launch wait for an earlier use, if that is by another stream.
    fn wait_for(&mut self, used: Use) {
        if used.stream != self.launch.used.stream {
            self.waits.push(used);
        }
    }
}

/// A slot that a chain holds.
#[derive(Clone, Copy, Debug)]
pub struct HeldSlot {
    pub worker: WorkerId,
    pub slot: StateSlot,
    pub used: Use,
}

/// A row of one of the [`ChainRows`](super::rows::ChainRows).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPlace {
    /// The index of the rows.
    pub rows: u32,
    pub at: u32,
}

/// The state of a chain: it holds one slot on each worker that it has been on, and its nodes update that slot in place.
#[derive(Debug)]
pub struct ChainSlots {
    /// The row in which the chain goes on from launch to launch. The other fields are then as the row was joined.
    pub row: Option<RowPlace>,
    /// The tokens of the request, in a listed network.
    pub tokens: u32,
    /// The number of nodes that are queued.
    pub done: u32,
    /// The index in `held` of the slot with the present state.
    at: u32,
    /// The number of the launch that writes the state last.
    launch: u64,
    pub held: SmallVec<[HeldSlot; 1]>,
}

impl ChainSlots {
    pub fn new(tokens: u32) -> ChainSlots {
        ChainSlots {
            row: None,
            tokens,
            done: 0,
            at: 0,
            launch: 0,
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
        self.launch = launch.number;
        self.held[self.at as usize].used = launch.used;
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
                self.held.push(HeldSlot {
                    worker: launch.worker,
                    slot: pools.take(launch.worker)?,
                    used: launch.used,
                });
                self.held.len() - 1
            }
        };
        if node > 0 {
            if self.launch == launch.number {
                return Err(run_before(node, node - 1));
            }
            let from = &mut self.held[self.at as usize];
            pools.check(from.worker)?;
            if here != self.at as usize {
                batch.wait_for(from.used);
                from.used = launch.used;
                let from = (from.worker, from.slot);
                batch.migrations.push(Migration {
                    request,
                    from,
                    to: self.held[here].slot,
                });
            }
        }
        let held = &mut self.held[here];
        batch.wait_for(held.used);
        held.used = launch.used;
        self.at = here as u32;
        self.done = node + 1;
        self.launch = launch.number;
        if node > 0 {
            batch.inputs.push(held.slot);
        }
        Ok(held.slot)
    }
}

/// The states of a general graph.
#[derive(Debug, Default)]
pub struct GraphSlots {
    nodes: Vec<NodeState>,
    /// The number of nodes that are not queued.
    pub left: u32,
    /// The workers that the request has been on.
    homes: Vec<WorkerId>,
    /// The first slot of each page on each of these workers, one worker after the other; [`NO_PAGE`] before it is
    /// needed.
    pages: Vec<StateSlot>,
    /// The last use of the request's slots by each stream.
    pub uses: Vec<Use>,
}

/// The state of a node.
#[derive(Clone, Copy, Debug, Default)]
struct NodeState {
    /// The number of the launch that writes the state, or 0 if none is queued.
    launch: u64,
    /// The last use of the state.
    used: Use,
    slot: StateSlot,
    /// The index of its worker in [`GraphSlots::homes`].
    home: u32,
}

/// The first slot of a page that is not needed yet.
const NO_PAGE: StateSlot = StateSlot(u32::MAX);

impl GraphSlots {
    /// Begins a request, which holds no slot yet.
    pub fn begin(&mut self, graph: &Graph) {
        self.nodes.clear();
        self.nodes.resize(graph.len(), NodeState::default());
        self.left = graph.len() as u32;
        self.homes.clear();
        self.pages.clear();
        self.uses.clear();
    }

    /// The slot with the state of a node that is queued.
    pub fn slot(&self, node: u32) -> StateSlot {
        self.nodes[node as usize].slot
    }

    /// Takes the states that a node needs, and finds the slot for its own state.
    pub fn take(
        &mut self,
        graph: &Graph,
        at: NodeRef,
        pools: &mut Pools,
        batch: &mut Gathering,
    ) -> Result<StateSlot, String> {
        let node = at.node.0;
        let launch = batch.launch;
        if self.nodes[node as usize].launch > 0 {
            return Err(run_twice(node));
        }
        let here = self.home(launch.worker);
        for &input in graph.inputs(node) {
            let state = &mut self.nodes[input as usize];
            if state.launch == 0 || state.launch == launch.number {
                return Err(run_before(node, input));
            }
            batch.wait_for(state.used);
            state.used = launch.used;
            let mut slot = state.slot;
            if state.home != here {
                slot = self.migrate(at.request, input, here, pools, batch)?;
            }
            batch.inputs.push(slot);
        }
        let slot = self.place(here, node, pools)?;
        self.nodes[node as usize] = NodeState {
            launch: launch.number,
            used: launch.used,
            slot,
            home: here,
        };
        self.left -= 1;
        if self.left == 0 {
            // The request ends with this launch, so its work on other streams must be over by then.
            self.uses.iter().for_each(|used| batch.wait_for(*used));
        }
        self.note_use(launch.used);
        Ok(slot)
    }

    /// Copies the state of a node from its worker to another home, and returns its slot there.
    fn migrate(
        &mut self,
        request: RequestId,
        node: u32,
        to: u32,
        pools: &mut Pools,
        batch: &mut Gathering,
    ) -> Result<StateSlot, String> {
        let NodeState { slot, home, .. } = self.nodes[node as usize];
        let worker = self.homes[home as usize];
        pools.check(worker)?;
        let copy = self.place(to, node, pools)?;
        batch.migrations.push(Migration {
            request,
            from: (worker, slot),
            to: copy,
        });
        let state = &mut self.nodes[node as usize];
        state.slot = copy;
        state.home = to;
        Ok(copy)
    }

    /// The slot of a node at a home, whose page is taken if necessary.
    fn place(&mut self, home: u32, node: u32, pools: &mut Pools) -> Result<StateSlot, String> {
        let first = home as usize * self.pages_each();
        let page = &mut self.pages[first + (node / GRAPH_PAGE) as usize];
        if *page == NO_PAGE {
            *page = pools.take(self.homes[home as usize])?;
        }
        Ok(StateSlot(page.0 + node % GRAPH_PAGE))
    }

    /// The number of pages at each home.
    fn pages_each(&self) -> usize {
        self.nodes.len().div_ceil(GRAPH_PAGE as usize)
    }

    /// The index of the home on a worker.
    fn home(&mut self, worker: WorkerId) -> u32 {
        let known = self.homes.iter().position(|home| *home == worker);
        let here = known.unwrap_or_else(|| {
            self.homes.push(worker);
            let pages = self.homes.len() * self.pages_each();
            self.pages.resize(pages, NO_PAGE);
            self.homes.len() - 1
        });
        here as u32
    }

    fn note_use(&mut self, used: Use) {
        for known in &mut self.uses {
            if known.stream == used.stream {
                *known = used;
                return;
            }
        }
        self.uses.push(used);
    }

    /// Returns all pages, which have no queued work, and reports whether a NaN or an infinity was stored in them.
    pub fn give_back(&self, pools: &mut Pools, device: &mut impl Device) -> bool {
        let mut non_finite = false;
        let of_homes = self.pages.chunks(self.pages_each());
        for (worker, pages) in self.homes.iter().zip(of_homes) {
            for page in pages.iter().filter(|page| **page != NO_PAGE) {
                non_finite |= pools.give_back(*worker, *page, device);
            }
        }
        non_finite
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_full_when_all_pages_are_taken() {
        for page in [1, GRAPH_PAGE] {
            let mut pools = Pools::new(vec![2 * page + page / 2, page - 1], page);
            let first = pools.take(WorkerId(0)).unwrap();
            let second = pools.take(WorkerId(0)).unwrap();
            assert_eq!((first, second), (StateSlot(0), StateSlot(page)));
            for (worker, room) in [(0, 2 * page + page / 2), (1, page - 1)] {
                assert_eq!(
                    pools.take(WorkerId(worker)).unwrap_err(),
                    format!("worker {worker} has no room for more than {room} states")
                );
            }
            pools.pools[0].free.push(first);
            assert_eq!(pools.used_slots(), page as usize);
            assert_eq!(pools.take(WorkerId(0)), Ok(first));
        }
    }
}
