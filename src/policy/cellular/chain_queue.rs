//! The queue of a cell type whose subgraphs are chains.
//!
//! A chain has exactly one ready node at any time: the one behind the last that was submitted. A task takes the chains
//! that stand first in the queue, one node each, so a chain that has once been taken stays in every task until it ends.
//! All that has to be known of it is the task that will be its last. So a worker holds its chains as a [`Window`],
//! sorted by that task's number, and a task costs what joins and leaves, not what stays: a chain's cost does not grow
//! with its length.

use std::collections::VecDeque;

use super::core::Handle;
use super::identity::MemberSet;
use crate::units::{NodeId, RequestId, WorkerId};

/// A chain that waits to be taken, in the order of release.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    /// Its place in the order of release, over all queues.
    pub released: u64,
    /// The request that it belongs to.
    pub live: Handle,
    /// Its last node.
    pub last: NodeId,
    /// How many tasks will take it: its nodes that have not been submitted, or the chunks of them.
    pub left: u32,
    /// The request, if none of the chain's nodes has been submitted.
    pub begins: Option<RequestId>,
}

/// A chain in a window.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    /// The window's task behind its last one.
    end: u64,
    released: u64,
    /// The request that it belongs to.
    pub live: Handle,
    /// Its last node.
    pub last: NodeId,
}

impl Seat {
    /// Its chain's place in the order of release, over all queues.
    pub fn released(&self) -> u64 {
        self.released
    }
}

/// The chains that a worker runs together, or last ran.
///
/// A timing wheel: the seats that end with one task stand together, in the order of release. A chain that is longer than the
/// wheel is looked at once in each turn.
#[derive(Debug)]
struct Window {
    /// Tasks taken from this window so far.
    step: u64,
    /// Those of them that are not finished.
    unfinished: u32,
    /// The seats whose `end` leaves this remainder.
    wheel: Box<[Vec<Seat>; TURN]>,
    seats: usize,
    members: MemberSet,
    /// No seat was released after this one.
    newest: u64,
}

/// Longer than most sentences; and a wheel that turns is small enough for the processor's nearest cache.
const TURN: usize = 128;

impl Default for Window {
    fn default() -> Self {
        Window {
            step: 0,
            unfinished: 0,
            wheel: Box::new([const { Vec::new() }; TURN]),
            seats: 0,
            members: MemberSet::default(),
            newest: 0,
        }
    }
}

impl Window {
    fn join(&mut self, chain: &Chain) {
        let end = self.step + u64::from(chain.left);
        let seat = Seat { end, released: chain.released, live: chain.live, last: chain.last };
        let seats = &mut self.wheel[end as usize % TURN];
        if chain.released > self.newest {
            seats.push(seat);
            self.newest = chain.released;
        } else {
            // It comes from another worker's window, and stood before some that are here.
            seats.insert(seats.partition_point(|other| other.released < chain.released), seat);
        }
        self.seats += 1;
        self.members.add(chain.released, 1);
    }

    /// Takes the next task: appends the seats that end with it.
    fn advance(&mut self, ended: &mut Vec<Seat>) {
        self.step += 1;
        self.unfinished += 1;
        self.wheel[self.step as usize % TURN].retain(|seat| {
            let stays = seat.end > self.step;
            if !stays {
                self.members.remove(seat.released, 1);
                self.seats -= 1;
                ended.push(*seat);
            }
            stays
        });
    }

    /// The chains as they wait, in no order; the window is as new.
    fn dissolve(&mut self, back: &mut Vec<Chain>) {
        let step = self.step;
        for seat in self.wheel.iter_mut().flat_map(|seats| seats.drain(..)) {
            let left = (seat.end - step) as u32;
            back.push(Chain { released: seat.released, live: seat.live, last: seat.last, left, begins: None });
        }
        (self.seats, self.members, self.newest) = (0, MemberSet::default(), 0);
    }

    fn iter(&self) -> impl Iterator<Item = &Seat> {
        self.wheel.iter().flatten()
    }
}

/// The chains of one cell type that have nodes to submit.
#[derive(Debug)]
pub struct ChainQueue {
    /// In the order of release. All of them were released after those in any free window, but for the moments at which two
    /// windows are free at once; [`ChainQueue::begin`] restores that.
    waiting: VecDeque<Chain>,
    /// Windows whose tasks are done: their chains are pinned to no worker.
    free: Vec<Window>,
    /// The window of each worker that has unfinished tasks of this type.
    held: Vec<Option<Window>>,
    spare: Vec<Window>,
    /// Chains that are pinned to no worker.
    unpinned: usize,
    /// Empty, kept for its memory.
    returning: Vec<Chain>,
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
            returning: Vec::new(),
        }
    }

    /// Puts a released chain at the end.
    pub fn push(&mut self, chain: Chain) {
        self.waiting.push_back(chain);
        self.unpinned += 1;
    }

    /// The ready nodes for a worker: one for each chain that is not pinned to another.
    pub fn ready(&self, worker: WorkerId) -> usize {
        self.unpinned + self.held[worker.index()].as_ref().map_or(0, |window| window.seats)
    }

    /// Gives a worker without unfinished tasks of this type a window of all that has run and is pinned nowhere.
    fn begin(&mut self) -> Window {
        let alone =
            self.free.len() == 1 && self.waiting.front().is_none_or(|chain| chain.released > self.free[0].newest);
        let window = if alone { self.free.pop() } else { None };
        if window.is_none() {
            self.return_to_line();
        }
        let window = window.or_else(|| self.spare.pop()).unwrap_or_default();
        self.unpinned -= window.seats;
        window
    }

    /// Dissolves the free windows: their chains go back into the line, each at its place. Needed only when windows of
    /// several workers have come free, for then the order of release runs through more than one of them.
    fn return_to_line(&mut self) {
        let back = &mut self.returning;
        for mut window in self.free.drain(..) {
            window.dissolve(back);
            self.spare.push(window);
        }
        let newest = back.iter().map(|chain| chain.released).max().unwrap_or(0);
        while self.waiting.front().is_some_and(|chain| chain.released < newest) {
            back.extend(self.waiting.pop_front());
        }
        back.sort_unstable_by_key(|chain| chain.released);
        for chain in back.drain(..).rev() {
            self.waiting.push_front(chain);
        }
    }

    /// Makes the worker's next task, of up to `max` chains: those of its window, and behind them those that wait; appends the
    /// requests of those that were never taken before.
    pub fn join(&mut self, worker: WorkerId, max: usize, begins: &mut Vec<RequestId>) {
        let mut window = match self.held[worker.index()].take() {
            None => self.begin(),
            Some(window) => {
                // What other workers have left can join this one's chains, though these still run.
                if window.seats < max {
                    self.return_to_line();
                }
                window
            }
        };
        let joining = self.waiting.len().min(max - window.seats);
        for chain in self.waiting.drain(..joining) {
            window.join(&chain);
            begins.extend(chain.begins);
        }
        self.unpinned -= joining;
        self.held[worker.index()] = Some(window);
    }

    /// Which chains the next task holds.
    pub fn members(&self, worker: WorkerId) -> MemberSet {
        self.window(worker).members
    }

    /// The chains of the next task, in no order, each with the number of tasks that it is in from that one on.
    pub fn seats(&self, worker: WorkerId) -> impl Iterator<Item = (&Seat, u32)> {
        let window = self.window(worker);
        window.iter().map(|seat| (seat, (seat.end - window.step) as u32))
    }

    /// Appends the nodes of the next task in their order, where it takes one of each chain.
    pub fn list(&self, worker: WorkerId, out: &mut Vec<(Handle, NodeId)>) {
        let mut seats: Vec<(&Seat, u32)> = self.seats(worker).collect();
        seats.sort_unstable_by_key(|(seat, _)| seat.released);
        out.extend(seats.into_iter().map(|(seat, left)| (seat.live, NodeId(seat.last.0 - (left - 1)))));
    }

    /// Takes the next task: appends the chains that end with it, in their order.
    pub fn advance(&mut self, worker: WorkerId, ended: &mut Vec<Seat>) {
        self.held[worker.index()].as_mut().expect("join gave the worker a window").advance(ended);
    }

    /// One of the worker's tasks of this type is done. With the last of them, its chains are pinned no longer.
    pub fn release(&mut self, worker: WorkerId) {
        let held = &mut self.held[worker.index()];
        let running = held.as_mut().expect("the worker held a window");
        running.unfinished -= 1;
        if running.unfinished > 0 {
            return;
        }
        let mut window = held.take().expect("the worker held a window");
        self.unpinned += window.seats;
        if window.seats == 0 {
            window.newest = 0;
            self.spare.push(window);
        } else {
            self.free.push(window);
        }
    }

    fn window(&self, worker: WorkerId) -> &Window {
        self.held[worker.index()].as_ref().expect("join gave the worker a window")
    }
}
