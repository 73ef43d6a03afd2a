//! The queue of a cell type whose subgraphs are chains: a timing wheel.
//!
//! A chain is in every task from its first on until it ends, so only its last task matters. A worker holds its chains
//! as a [`RunSet`], sorted by that task: a task costs the chains that join and leave, not those that stay.

use std::collections::VecDeque;

use super::batch::{CellBatch, CellWork, MemberSet};
use super::requests::{EndedChain, Released, RequestKey, RequestState, RequestStates};
use crate::base::units::{NodeId, RequestId, WorkerId};
use crate::core::policy::{Completed, Outcomes};
use crate::core::task::Part;

#[derive(Clone, Copy, Debug)]
struct WaitingChain {
    /// The chain's place in the order of release, over all queues.
    released: u64,
    key: RequestKey,
    last: NodeId,
    /// The number of tasks that it still needs.
    left: u32,
    /// The request, until a node of the chain has been submitted.
    begins: Option<RequestId>,
}

#[derive(Clone, Copy, Debug)]
struct RunningChain {
    /// The set's step after which the chain has ended.
    end: u64,
    released: u64,
    key: RequestKey,
    last: NodeId,
}

/// The chains that a worker runs together.
#[derive(Debug)]
struct RunSet {
    step: u64,
    unfinished: u32,
    /// By the remainder of `end`; each slot in the order of release.
    wheel: Box<[Vec<RunningChain>; SLOTS]>,
    chains: usize,
    members: MemberSet,
    /// No chain of the set was released after this one.
    newest: u64,
}

/// More than most sentences have steps; fits the nearest cache.
const SLOTS: usize = 128;

impl Default for RunSet {
    fn default() -> Self {
        RunSet {
            step: 0,
            unfinished: 0,
            wheel: Box::new([const { Vec::new() }; SLOTS]),
            chains: 0,
            members: MemberSet::default(),
            newest: 0,
        }
    }
}

impl RunSet {
    fn join(&mut self, chain: &WaitingChain) {
        let end = self.step + u64::from(chain.left);
        let running = RunningChain {
            end,
            released: chain.released,
            key: chain.key,
            last: chain.last,
        };
        let slot = &mut self.wheel[end as usize % SLOTS];
        if chain.released > self.newest {
            slot.push(running);
            self.newest = chain.released;
        } else {
            // It comes from another worker's set.
            slot.insert(
                slot.partition_point(|other| other.released < chain.released),
                running,
            );
        }
        self.chains += 1;
        self.members.add(chain.released, 1);
    }

    fn advance(&mut self, ended: &mut Vec<EndedChain>) {
        self.step += 1;
        self.unfinished += 1;
        self.wheel[self.step as usize % SLOTS].retain(|running| {
            let stays = running.end > self.step;
            if !stays {
                self.members.remove(running.released, 1);
                self.chains -= 1;
                ended.push(EndedChain {
                    key: running.key,
                    last: running.last,
                });
            }
            stays
        });
    }

    fn dissolve(&mut self, waiting: &mut Vec<WaitingChain>) {
        let step = self.step;
        for running in self.wheel.iter_mut().flat_map(|slot| slot.drain(..)) {
            let RunningChain {
                end,
                released,
                key,
                last,
            } = running;
            waiting.push(WaitingChain {
                released,
                key,
                last,
                left: (end - step) as u32,
                begins: None,
            });
        }
        (self.chains, self.members, self.newest) = (0, MemberSet::default(), 0);
    }

    fn oldest(&self) -> Option<&RunningChain> {
        self.wheel
            .iter()
            .filter_map(|slot| slot.first())
            .min_by_key(|running| running.released)
    }

    /// In no order, each with the number of tasks left.
    fn iter(&self) -> impl Iterator<Item = (&RunningChain, u32)> {
        self.wheel
            .iter()
            .flatten()
            .map(|running| (running, (running.end - self.step) as u32))
    }
}

#[derive(Debug)]
pub struct ChainQueue {
    chunk: u32,
    sized: bool,
    /// In the order of release, after the chains of a single free set; [`ChainQueue::begin`] restores that.
    waiting: VecDeque<WaitingChain>,
    /// Without unfinished tasks: their chains are not pinned.
    free: Vec<RunSet>,
    held: Vec<Option<RunSet>>,
    spare: Vec<RunSet>,
    unpinned: usize,
    /// Empty, kept for its memory.
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
            unpinned: 0,
            returning: Vec::new(),
        }
    }

    /// All chains that have run and are not pinned.
    fn begin(&mut self) -> RunSet {
        let in_order = self.free.len() == 1
            && self
                .waiting
                .front()
                .is_none_or(|chain| chain.released > self.free[0].newest);
        let set = if in_order { self.free.pop() } else { None };
        if set.is_none() {
            self.return_to_line();
        }
        let set = set.or_else(|| self.spare.pop()).unwrap_or_default();
        self.unpinned -= set.chains;
        set
    }

    /// Needed if several sets are free: the order of release runs through all of them.
    fn return_to_line(&mut self) {
        let back = &mut self.returning;
        for mut set in self.free.drain(..) {
            set.dissolve(back);
            self.spare.push(set);
        }
        let newest = back.iter().map(|chain| chain.released).max().unwrap_or(0);
        while self
            .waiting
            .front()
            .is_some_and(|chain| chain.released < newest)
        {
            back.extend(self.waiting.pop_front());
        }
        back.sort_unstable_by_key(|chain| chain.released);
        for chain in back.drain(..).rev() {
            self.waiting.push_front(chain);
        }
    }

    fn set(&self, worker: WorkerId) -> &RunSet {
        self.held[worker.index()]
            .as_ref()
            .expect("`take` gave the worker a set")
    }

    fn part(&self, chain: &RunningChain, left: u32, state: &RequestState) -> Part {
        let (length, end) = (state.run().0, chain.last.0 + 1);
        let from = end - length + (length.div_ceil(self.chunk) - left) * self.chunk;
        Part {
            request: state.request,
            from: NodeId(from),
            to: NodeId(end.min(from.saturating_add(self.chunk))),
        }
    }
}

impl ChainQueue {
    pub fn push(&mut self, released: &Released<'_>) {
        let Released {
            order,
            key,
            subgraph,
            state,
        } = *released;
        self.waiting.push_back(WaitingChain {
            released: order,
            key,
            last: state.last_node(subgraph),
            left: state.run().0.div_ceil(self.chunk),
            begins: Some(state.request),
        });
        self.unpinned += 1;
    }

    pub fn unpinned(&self) -> usize {
        self.unpinned
    }

    pub fn ready(&self, worker: WorkerId) -> usize {
        self.unpinned
            + self.held[worker.index()]
                .as_ref()
                .map_or(0, |set| set.chains)
    }

    pub fn head(&self, worker: WorkerId) -> Option<RequestKey> {
        let running = self
            .free
            .iter()
            .chain(&self.held[worker.index()])
            .filter_map(RunSet::oldest);
        let waiting = self
            .waiting
            .front()
            .map(|chain| (chain.released, chain.key));
        running
            .map(|running| (running.released, running.key))
            .chain(waiting)
            .min()
            .map(|(_, key)| key)
    }

    /// First the worker's set, then waiting chains.
    pub fn take(&mut self, worker: WorkerId, max: usize, batch: &mut CellBatch) -> MemberSet {
        let mut set = match self.held[worker.index()].take() {
            None => self.begin(),
            Some(set) => {
                // Chains of other workers' sets can join while this one runs.
                if set.chains < max {
                    self.return_to_line();
                }
                set
            }
        };
        let joining = self.waiting.len().min(max - set.chains);
        for chain in self.waiting.drain(..joining) {
            set.join(&chain);
            batch.begins.extend(chain.begins);
        }
        self.unpinned -= joining;
        self.held[worker.index()].insert(set).members
    }

    pub fn work(&self, worker: WorkerId, size: u32, requests: &RequestStates) -> CellWork {
        if !self.sized && self.chunk == 1 {
            return CellWork::one_step(size);
        }
        let mut work = CellWork {
            steps: 1,
            input: 0,
            useful_cells: 0,
        };
        for (chain, left) in self.set(worker).iter() {
            let state = &requests[chain.key];
            let (part, input) = (self.part(chain, left, state), state.run().1);
            let steps = part.to.0 - part.from.0;
            work.steps = steps.max(work.steps);
            work.input = input.max(work.input);
            work.useful_cells += u64::from(steps) * u64::from(input.max(1));
        }
        work
    }

    pub fn visit_members(
        &self,
        worker: WorkerId,
        requests: &RequestStates,
        visit: &mut dyn FnMut(Part),
    ) {
        let mut chains: Vec<(&RunningChain, u32)> = self.set(worker).iter().collect();
        chains.sort_unstable_by_key(|(chain, _)| chain.released);
        chains
            .into_iter()
            .for_each(|(chain, left)| visit(self.part(chain, left, &requests[chain.key])));
    }

    pub fn advance(&mut self, worker: WorkerId, batch: &mut CellBatch) {
        self.held[worker.index()]
            .as_mut()
            .expect("`take` gave the worker a set")
            .advance(&mut batch.ended);
    }

    pub fn complete(
        &mut self,
        completed: &Completed<'_>,
        batch: &CellBatch,
        requests: &mut RequestStates,
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
            requests.chain_done(chain, completed.task, position, outcomes);
        }
    }
}
