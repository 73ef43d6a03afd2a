//! The queue of a cell type whose subgraphs are chains.
//!
//! A chain has exactly one ready node at any time: the one behind the last that was submitted. A task takes the chains
//! that stand first in the queue, one node each, so a chain that has once been taken stays in every task until it ends.
//! All that has to be known of it is the task that will be its last. So a worker holds its chains as a [`Window`], a
//! heap by that task's number, and a task costs what joins and leaves, not what stays: a chain's cost does not grow
//! with its length.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::Handle;
use super::identity::MemberSet;
use crate::units::{NodeId, WorkerId};

/// A chain that waits to be taken, in the order of release.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    /// Its place in the order of release, over all queues.
    pub released: u64,
    /// The request that it belongs to.
    pub live: Handle,
    /// Its last node.
    pub last: NodeId,
    /// How many of its nodes have not been submitted.
    pub left: u32,
    /// None of its nodes has been submitted.
    pub fresh: bool,
}

/// A chain in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seat {
    /// The window's task behind its last one. First, so that seats are ordered by it, and those that end together by
    /// their release, which is their order in the task.
    end: u64,
    released: u64,
    /// The request that it belongs to.
    pub live: Handle,
    /// Its last node.
    pub last: NodeId,
}

/// The chains that a worker runs together, or last ran.
#[derive(Debug, Default)]
struct Window {
    /// Tasks taken from this window so far.
    step: u64,
    seats: BinaryHeap<Reverse<Seat>>,
    members: MemberSet,
    /// No seat was released after this one.
    newest: u64,
}

/// The chains of one cell type that have nodes to submit.
#[derive(Debug)]
pub struct ChainQueue {
    /// In the order of release. All of them were released after those in any window, but for the moments at which two
    /// windows are free at once; [`ChainQueue::begin`] restores that.
    waiting: VecDeque<Chain>,
    /// Windows whose tasks are done: their chains are pinned to no worker.
    free: Vec<Window>,
    /// The window of each worker that has unfinished tasks of this type.
    held: Vec<Option<Window>>,
    spare: Vec<Window>,
    /// Chains that are pinned to no worker.
    unpinned: usize,
}

impl ChainQueue {
    /// An empty queue for so many workers.
    pub fn new(workers: usize) -> Self {
        ChainQueue {
            waiting: VecDeque::new(),
            free: Vec::new(),
            held: (0..workers).map(|_| None).collect(),
            spare: Vec::new(),
            unpinned: 0,
        }
    }

    /// Puts a released chain at the end.
    pub fn push(&mut self, chain: Chain) {
        self.waiting.push_back(chain);
        self.unpinned += 1;
    }

    /// The ready nodes for an idle worker: one for each chain that is not pinned to another.
    pub fn ready(&self) -> usize {
        self.unpinned
    }

    /// Gives an idle worker a window of all that has run and is pinned nowhere.
    pub fn begin(&mut self, worker: WorkerId) {
        debug_assert!(self.held[worker.index()].is_none(), "an idle worker holds no window");
        let alone =
            self.free.len() == 1 && self.waiting.front().is_none_or(|chain| chain.released > self.free[0].newest);
        let window = if alone { self.free.pop() } else { None };
        if window.is_none() {
            self.return_to_line();
        }
        let window = window.or_else(|| self.spare.pop()).unwrap_or_default();
        self.unpinned -= window.seats.len();
        self.held[worker.index()] = Some(window);
    }

    /// Dissolves the free windows: their chains go back into the line, each at its place. Needed only when windows of
    /// several workers have come free, for then the order of release runs through more than one of them.
    fn return_to_line(&mut self) {
        let mut back: Vec<Chain> = Vec::new();
        for mut window in self.free.drain(..) {
            let step = window.step;
            back.extend(window.seats.drain().map(|Reverse(seat)| Chain {
                released: seat.released,
                live: seat.live,
                last: seat.last,
                left: (seat.end - step) as u32,
                fresh: false,
            }));
            window.members = MemberSet::default();
            window.newest = 0;
            self.spare.push(window);
        }
        let newest = back.iter().map(|chain| chain.released).max().unwrap_or(0);
        while self.waiting.front().is_some_and(|chain| chain.released < newest) {
            back.extend(self.waiting.pop_front());
        }
        back.sort_unstable_by_key(|chain| chain.released);
        for chain in back.into_iter().rev() {
            self.waiting.push_front(chain);
        }
    }

    /// The size that the worker's next task would have.
    pub fn next_size(&self, worker: WorkerId, max: usize) -> usize {
        (self.window(worker).seats.len() + self.waiting.len()).min(max)
    }

    /// Lets waiting chains into the worker's window, up to `max` in all; appends those that were never taken before.
    pub fn join(&mut self, worker: WorkerId, max: usize, fresh: &mut Vec<Handle>) {
        let window = self.held[worker.index()].as_mut().expect("begin gave the worker a window");
        while window.seats.len() < max {
            let Some(chain) = self.waiting.pop_front() else { break };
            window.seats.push(Reverse(Seat {
                end: window.step + u64::from(chain.left),
                released: chain.released,
                live: chain.live,
                last: chain.last,
            }));
            window.members.add(chain.released, 1);
            window.newest = window.newest.max(chain.released);
            self.unpinned -= 1;
            if chain.fresh {
                fresh.push(chain.live);
            }
        }
    }

    /// Which chains the next task holds.
    pub fn members(&self, worker: WorkerId) -> MemberSet {
        self.window(worker).members
    }

    /// The chains of the next task, in no order.
    pub fn seats(&self, worker: WorkerId) -> impl Iterator<Item = &Seat> {
        self.window(worker).seats.iter().map(|Reverse(seat)| seat)
    }

    /// Appends the nodes of the next task in their order.
    pub fn list(&self, worker: WorkerId, out: &mut Vec<(Handle, NodeId)>) {
        let step = self.window(worker).step;
        let mut seats: Vec<&Seat> = self.seats(worker).collect();
        seats.sort_unstable_by_key(|seat| seat.released);
        out.extend(seats.into_iter().map(|seat| (seat.live, NodeId(seat.last.0 - (seat.end - step - 1) as u32))));
    }

    /// Takes the next task: appends the chains that end with it, in their order.
    pub fn advance(&mut self, worker: WorkerId, ended: &mut Vec<Seat>) {
        let window = self.held[worker.index()].as_mut().expect("begin gave the worker a window");
        window.step += 1;
        while let Some(Reverse(seat)) = window.seats.peek().copied().filter(|Reverse(seat)| seat.end == window.step) {
            window.seats.pop();
            window.members.remove(seat.released, 1);
            ended.push(seat);
        }
    }

    /// The worker's last task of this type is done: its chains are pinned no longer.
    pub fn release(&mut self, worker: WorkerId) {
        let window = self.held[worker.index()].take().expect("the worker held a window");
        self.unpinned += window.seats.len();
        if window.seats.is_empty() {
            self.spare.push(window);
        } else {
            self.free.push(window);
        }
    }

    fn window(&self, worker: WorkerId) -> &Window {
        self.held[worker.index()].as_ref().expect("begin gave the worker a window")
    }
}
