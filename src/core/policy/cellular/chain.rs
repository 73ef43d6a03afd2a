//! The queue of a cell type whose subgraphs are chains: a timing wheel.
//!
//! A chain is in every task from its first on until it ends, so only its last task matters. A worker holds its chains
//! as a [`RunSet`], sorted by that task: a task costs the chains that join and leave, not those that stay.

use std::collections::VecDeque;
use std::hint::black_box;

use super::batch::{CellBatch, CellWork, MemberSet};
use super::lists::{ListPool, PooledList};
use super::requests::{Chain, EndedChain, LiveRequests};
use crate::base::units::{Nanos, NodeId, WorkerId};
use crate::core::policy::{Completed, Outcomes};
use crate::core::task::{NodeRef, Part};

#[derive(Clone, Copy, Debug)]
struct WaitingChain {
    chain: Chain,
    /// The number of tasks that the chain still needs.
    left: u32,
    /// Whether no node of the chain has been submitted.
    begins: bool,
}

#[derive(Clone, Copy, Debug)]
struct RunningChain {
    chain: Chain,
    /// The set's step after which the chain has ended.
    end: u64,
}

/// Chains that a worker runs together.
#[derive(Debug)]
struct RunSet {
    /// Tells sets apart, and the same set on different workers.
    id: u64,
    /// The worker that has run the set last.
    worker: Option<WorkerId>,
    /// The number of tasks that the set has submitted.
    step: u64,
    /// The number of submitted tasks that are not done.
    unfinished: u32,
    /// The chains by the remainder of `end`. Each slot is in the order of release.
    wheel: Box<[PooledList; SLOTS]>,
    /// The number of chains.
    chains: usize,
    members: MemberSet,
    /// The place of the chain that was released last, or a later place.
    newest: u64,
}

/// The number of no set.
const NO_SET: u64 = 0;

/// The slots of a wheel: more than most sentences have steps, and few enough for the nearest cache.
const SLOTS: usize = 128;

/// The slot of the chains that end after a step.
fn slot_of(step: u64) -> usize {
    step as usize % SLOTS
}

impl Default for RunSet {
    fn default() -> Self {
        RunSet {
            id: NO_SET,
            worker: None,
            step: 0,
            unfinished: 0,
            wheel: Box::new([PooledList::EMPTY; SLOTS]),
            chains: 0,
            members: MemberSet::default(),
            newest: 0,
        }
    }
}

impl RunSet {
    fn join(&mut self, waiting: &WaitingChain, pool: &mut ListPool<RunningChain>) {
        let end = self.step + u64::from(waiting.left);
        let chain = waiting.chain;
        let slot = &mut self.wheel[slot_of(end)];
        let running = RunningChain { chain, end };
        if chain.released > self.newest {
            pool.push(slot, running);
            self.newest = chain.released;
        } else {
            // The chain comes from another worker's set.
            pool.insert_before(slot, running, |other| other.chain.released > chain.released);
        }
        self.chains += 1;
        self.members.add(chain.released, 1);
    }

    /// Counts a submitted task, and moves the chains that end with it to `ended`.
    fn advance(&mut self, ended: &mut Vec<EndedChain>, pool: &mut ListPool<RunningChain>) {
        self.step += 1;
        self.unfinished += 1;
        let slot = &mut self.wheel[slot_of(self.step)];
        pool.retain(slot, |running| {
            let stays = running.end > self.step;
            if !stays {
                let Chain {
                    released,
                    request,
                    key,
                    last,
                    ..
                } = running.chain;
                self.members.remove(released, 1);
                self.chains -= 1;
                ended.push(EndedChain { request, key, last });
            }
            stays
        });
    }

    /// Empties the set: its chains wait again.
    fn dissolve(&mut self, waiting: &mut Vec<WaitingChain>, pool: &mut ListPool<RunningChain>) {
        let step = self.step;
        for slot in &mut self.wheel[..] {
            pool.retain(slot, |running| {
                waiting.push(WaitingChain {
                    chain: running.chain,
                    left: (running.end - step) as u32,
                    begins: false,
                });
                false
            });
        }
        self.chains = 0;
        self.members = MemberSet::default();
        self.newest = 0;
    }

    fn oldest<'a>(&self, pool: &'a ListPool<RunningChain>) -> Option<&'a Chain> {
        self.wheel
            .iter()
            .filter_map(|slot| Some(&pool.iter(slot).next()?.chain))
            .min_by_key(|chain| chain.released)
    }

    /// The chains in no particular order, each with the number of tasks that it still needs.
    fn iter<'a>(
        &'a self,
        pool: &'a ListPool<RunningChain>,
    ) -> impl Iterator<Item = (&'a Chain, u32)> {
        self.wheel
            .iter()
            .flat_map(|slot| pool.iter(slot))
            .map(|running| (&running.chain, (running.end - self.step) as u32))
    }
}

/// The queue of a cell type whose subgraphs are chains.
#[derive(Debug)]
pub struct ChainQueue {
    chunk: u32,
    /// Whether the cell has an input size.
    sized: bool,
    /// The waiting chains in the order of release. [`ChainQueue::begin`] moves the chains of free sets back to it,
    /// unless there is a single free set whose chains come first.
    waiting: VecDeque<WaitingChain>,
    /// The sets without unfinished tasks, whose chains are not pinned.
    free: Vec<RunSet>,
    /// The set of each worker with unfinished tasks.
    held: Vec<Option<RunSet>>,
    /// Empty sets, kept for their memory.
    spare: Vec<RunSet>,
    /// The memory of the wheels of all sets.
    pool: ListPool<RunningChain>,
    /// See [`ChainQueue::joined_nodes`].
    joined: Vec<NodeRef>,
    /// The set of each worker's last task, or [`NO_SET`] if all of its chains have ended.
    last: Vec<u64>,
    /// The number of the last set that a worker began with.
    sets: u64,
    unpinned: usize,
    /// An empty list, kept for its memory.
    returning: Vec<WaitingChain>,
}

impl ChainQueue {
    pub fn new(workers: usize, chunk: u32, sized: bool) -> Self {
        ChainQueue {
            chunk,
            sized,
            waiting: VecDeque::new(),
            free: Vec::new(),
            held: (0..workers).map(|_| None).collect(),
            spare: Vec::new(),
            pool: ListPool::default(),
            joined: Vec::new(),
            last: vec![NO_SET; workers],
            sets: NO_SET,
            unpinned: 0,
            returning: Vec::new(),
        }
    }

    /// Takes a set for a worker. If the worker has not run it last, it counts as another set.
    fn begin(&mut self, worker: WorkerId) -> RunSet {
        let mut set = self.take_set();
        if set.chains == 0 || set.worker != Some(worker) {
            self.sets += 1;
            set.id = self.sets;
            set.worker = Some(worker);
        }
        set
    }

    /// All chains that have run and are not pinned, if they are in one set; otherwise an empty set.
    fn take_set(&mut self) -> RunSet {
        let first = self.waiting.front();
        let in_order = self.free.len() == 1
            && first.is_none_or(|first| first.chain.released > self.free[0].newest);
        if in_order && let Some(set) = self.free.pop() {
            self.unpinned -= set.chains;
            return set;
        }
        self.return_to_line();
        self.spare.pop().unwrap_or_default()
    }

    /// Lets the chains of all free sets wait again, because the order of release runs through all of them.
    fn return_to_line(&mut self) {
        let back = &mut self.returning;
        for mut set in self.free.drain(..) {
            set.dissolve(back, &mut self.pool);
            self.spare.push(set);
        }
        let released = back.iter().map(|waiting| waiting.chain.released);
        let newest = released.max().unwrap_or(0);
        while self
            .waiting
            .front()
            .is_some_and(|first| first.chain.released < newest)
        {
            back.extend(self.waiting.pop_front());
        }
        back.sort_unstable_by_key(|waiting| waiting.chain.released);
        for waiting in back.drain(..).rev() {
            self.waiting.push_front(waiting);
        }
    }

    /// Loads what the next task changes in a set's wheel into the cache: the first chains that may end with it, and
    /// the places of the first `joining` chains that wait. They are far from each other in memory, and no load waits
    /// for another.
    fn load(&self, set: &RunSet, joining: usize) {
        let mut all = 0;
        let mut load = |running: &RunningChain| all ^= running.chain.released ^ running.end;
        let ending = self.pool.first_items(&set.wheel[slot_of(set.step + 1)]);
        ending.iter().for_each(&mut load);
        for waiting in self.waiting.range(..joining) {
            let slot = slot_of(set.step + u64::from(waiting.left));
            self.pool.place_of_next(&set.wheel[slot]).map(&mut load);
        }
        black_box(all);
    }

    /// The set of a worker with a task.
    fn set(&self, worker: WorkerId) -> &RunSet {
        self.held[worker.index()]
            .as_ref()
            .expect("`take` gave the worker a set")
    }

    /// The nodes that the next task runs in a chain that still needs `left` tasks.
    fn part(&self, chain: &Chain, left: u32) -> Part {
        let length = chain.length;
        let end = chain.last.0 + 1;
        let from = end - length + (length.div_ceil(self.chunk) - left) * self.chunk;
        Part {
            request: chain.request,
            from: NodeId(from),
            to: NodeId(end.min(from.saturating_add(self.chunk))),
        }
    }
}

impl ChainQueue {
    #[inline]
    pub fn push(&mut self, chain: Chain) {
        self.waiting.push_back(WaitingChain {
            chain,
            left: chain.length.div_ceil(self.chunk),
            begins: true,
        });
        self.unpinned += 1;
    }

    pub fn unpinned_nodes(&self) -> usize {
        self.unpinned
    }

    pub fn ready(&self, worker: WorkerId) -> usize {
        match &self.held[worker.index()] {
            Some(set) => self.unpinned + set.chains,
            None => self.unpinned,
        }
    }

    pub fn head_arrival(&self, worker: WorkerId) -> Option<Nanos> {
        let sets = self.free.iter().chain(&self.held[worker.index()]);
        let running = sets.filter_map(|set| set.oldest(&self.pool));
        let waiting = self.waiting.front().map(|waiting| &waiting.chain);
        let head = running.chain(waiting).min_by_key(|chain| chain.released)?;
        Some(head.arrival)
    }

    /// Takes the worker's set first, then waiting chains.
    pub fn take(&mut self, worker: WorkerId, max: usize, batch: &mut CellBatch) -> MemberSet {
        let mut set = match self.held[worker.index()].take() {
            None => self.begin(worker),
            Some(set) => {
                // Chains of other workers' sets can join while this one runs.
                if set.chains < max {
                    self.return_to_line();
                }
                set
            }
        };
        let last = std::mem::replace(&mut self.last[worker.index()], set.id);
        batch.follows = last == set.id || (last == NO_SET && set.chains == 0);
        let joining = self.waiting.len().min(max - set.chains);
        batch.joined = joining as u32;
        self.joined.clear();
        self.load(&set, joining);
        for waiting in self.waiting.range(..joining) {
            set.join(waiting, &mut self.pool);
            if waiting.begins {
                batch.begins.push(waiting.chain.request);
            }
            self.joined.push(NodeRef {
                request: waiting.chain.request,
                node: NodeId(waiting.chain.last.0 + 1 - waiting.left),
            });
        }
        self.waiting.drain(..joining);
        self.unpinned -= joining;
        self.held[worker.index()].insert(set).members
    }

    pub fn work(&self, worker: WorkerId, size: u32) -> CellWork {
        if !self.sized && self.chunk == 1 {
            return CellWork::one_step(size);
        }
        let mut work = CellWork {
            steps: 1,
            input: 0,
            useful_cells: 0,
        };
        for (chain, left) in self.set(worker).iter(&self.pool) {
            let part = self.part(chain, left);
            let steps = part.to.0 - part.from.0;
            work.steps = steps.max(work.steps);
            work.input = chain.input.max(work.input);
            work.useful_cells += u64::from(steps) * u64::from(chain.input.max(1));
        }
        work
    }

    pub fn visit_members(&self, worker: WorkerId, visit: &mut dyn FnMut(Part)) {
        let mut chains: Vec<(&Chain, u32)> = self.set(worker).iter(&self.pool).collect();
        chains.sort_unstable_by_key(|(chain, _)| chain.released);
        for (chain, left) in chains {
            visit(self.part(chain, left));
        }
    }

    /// The nodes that the last task runs of chains that joined with it, if tasks run one node of each.
    pub fn joined_nodes(&self) -> &[NodeRef] {
        &self.joined
    }

    pub fn advance(&mut self, worker: WorkerId, batch: &mut CellBatch) {
        let set = self.held[worker.index()]
            .as_mut()
            .expect("`take` gave the worker a set");
        set.advance(&mut batch.ended, &mut self.pool);
        if set.chains == 0 {
            self.last[worker.index()] = NO_SET;
        }
    }

    pub fn complete(
        &mut self,
        completed: &Completed<'_>,
        batch: &CellBatch,
        requests: &mut LiveRequests,
        outcomes: &mut Outcomes,
    ) {
        let held = &mut self.held[completed.worker.index()];
        let set = held
            .as_mut()
            .expect("a worker with unfinished tasks holds a set");
        set.unfinished -= 1;
        if set.unfinished == 0
            && let Some(mut set) = held.take()
        {
            self.unpinned += set.chains;
            if set.chains == 0 {
                set.newest = 0;
                self.spare.push(set);
            } else {
                self.free.push(set);
            }
        }
        requests.load(&batch.ended);
        for (position, chain) in batch.ended.iter().enumerate() {
            requests.complete_chain(chain, completed.task, position, outcomes);
        }
    }
}
