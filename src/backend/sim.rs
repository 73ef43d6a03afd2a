//! The simulated backend: a virtual clock, and workers whose tasks take what the cost model says.
//!
//! No time of the host reaches the virtual clock, so that a run repeats to the byte.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::Backend;
use crate::cost::timing::{Start, Timing};
use crate::task::{Completion, MemberList, Task};
use crate::units::{CellId, Nanos, Share, TaskId};

/// The simulated device of a policy that submits to so many streams of each worker.
pub fn device<'t, T: Timing + 't>(workers: usize, streams: u16, timing: T) -> Box<dyn Backend + 't> {
    match streams {
        0 | 1 => Box::new(Sim::new(workers, timing)),
        _ => Box::new(SharedSim::new(workers, streams, timing)),
    }
}

/// Simulated workers with one stream each. A worker runs its tasks one behind the other, without a gap but for what [`Timing::start`] puts
/// there.
pub struct Sim<T> {
    timing: T,
    now: Nanos,
    /// When each worker has nothing left to do.
    free_at: Vec<Nanos>,
    /// The type of the cell that each worker runs last.
    last: Vec<Option<CellId>>,
    /// Running and queued tasks: when the driver is told, the finish, the task, the start. By these, so that those of one
    /// instant come in the order of submission.
    running: BinaryHeap<Reverse<(Nanos, Nanos, TaskId, Nanos)>>,
}

impl<T: Timing> Sim<T> {
    /// Idle workers at time 0.
    pub fn new(workers: usize, timing: T) -> Self {
        let (free_at, last) = (vec![Nanos::ZERO; workers], vec![None; workers]);
        Sim { timing, now: Nanos::ZERO, free_at, last, running: BinaryHeap::new() }
    }
}

impl<T: Timing> Backend for Sim<T> {
    fn now(&self) -> Nanos {
        self.now
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>, _: Option<MemberList>) {
        let free = &mut self.free_at[task.worker.index()];
        let start = self.timing.start(task, self.now, *free <= self.now).at(*free);
        let last = &mut self.last[task.worker.index()];
        let finish = start.saturating_add(self.timing.duration(task, *last));
        *last = task.steps.last().map(|step| step.cell);
        *free = finish;
        self.running.push(Reverse((finish.saturating_add(self.timing.completion_delay()), finish, id, start)));
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        self.timing.batches(cell)
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        // What is told by now is told, even if the driver asks for what came before.
        let until = until.map(|until| until.max(self.now));
        match self.running.peek() {
            Some(Reverse((told, ..))) if until.is_none_or(|until| *told <= until) => {
                let Reverse((told, finish, task, start)) = self.running.pop()?;
                self.now = self.now.max(told);
                Some(Completion { task, start, finish })
            }
            _ => {
                self.now = until.unwrap_or(self.now);
                None
            }
        }
    }
}

/// Simulated workers with several streams each.
pub struct SharedSim<T> {
    timing: T,
    now: Nanos,
    workers: Vec<Worker>,
    /// Tasks that are done: when the driver is told, the finish, the task, the start. By these, as in [`Sim`].
    done: BinaryHeap<Reverse<(Nanos, Nanos, TaskId, Nanos)>>,
}

/// Work in 2^-32 of what a task does in a nanosecond at full speed. All the work that fits between the ends of time takes 96 bits.
type Work = u128;

/// A device with its streams.
struct Worker {
    streams: Vec<Stream>,
    /// The first tasks of streams that do not run yet, by the instant at which they begin.
    waiting: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// Streams whose first tasks run, by what the virtual clock shows when these are done.
    running: BinaryHeap<Reverse<(Work, usize)>>,
    /// The sum of the demands of the tasks that run, in units of [`Share`].
    demands: u64,
    /// The virtual clock, and the instant at which it was read.
    clock: Work,
    read: Nanos,
    /// When the next task begins or is done, unless another is submitted before.
    next: Nanos,
}

/// Tasks that run one behind the other.
#[derive(Default)]
struct Stream {
    /// Those that are not done; the first runs, or waits for its start.
    tasks: VecDeque<Queued>,
    /// When its last task was done.
    free: Nanos,
    /// The type of the cell that it runs last.
    last: Option<CellId>,
}

/// A task that is not done.
struct Queued {
    id: TaskId,
    start: Start,
    /// When it began, once it is the first of its stream.
    began: Nanos,
    alone: Nanos,
    demand: Share,
    completion_delay: Nanos,
}

/// The speed of tasks with these demands in sum: all of it, or so much that they use the whole device.
fn speed(demands: u64) -> Share {
    match demands <= Share::WHOLE.0 {
        true => Share::WHOLE,
        false => Share(((1u128 << 64) / u128::from(demands)) as u64),
    }
}

impl<T: Timing> SharedSim<T> {
    /// Idle workers at time 0, each with so many streams.
    pub fn new(workers: usize, streams: u16, timing: T) -> Self {
        let workers = (0..workers).map(|_| Worker::new(streams)).collect();
        SharedSim { timing, now: Nanos::ZERO, workers, done: BinaryHeap::new() }
    }

    /// Goes on to the next instants at which a task begins or is done, until none is left by `until` or before somebody has to be told.
    fn advance(&mut self, until: Nanos) {
        loop {
            let told = self.done.peek().map_or(Nanos::MAX, |Reverse((told, ..))| *told);
            // What is done at the instant at which something is told may have to be told before it.
            let next = self.workers.iter().filter(|worker| worker.is_busy()).map(|worker| worker.next).min();
            let Some(next) = next.filter(|next| *next <= until.min(told)) else { return };
            for worker in self.workers.iter_mut().filter(|worker| worker.is_busy() && worker.next == next) {
                worker.step(next, &mut self.done);
            }
        }
    }
}

impl Worker {
    fn new(streams: u16) -> Worker {
        Worker {
            streams: (0..streams).map(|_| Stream::default()).collect(),
            waiting: BinaryHeap::new(),
            running: BinaryHeap::new(),
            demands: 0,
            clock: 0,
            read: Nanos::ZERO,
            next: Nanos::MAX,
        }
    }

    fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || !self.running.is_empty()
    }

    /// Puts the first task of a stream where it waits for its start.
    fn wait_for(&mut self, stream: usize) {
        let Stream { tasks, free, .. } = &mut self.streams[stream];
        if let Some(first) = tasks.front_mut() {
            first.began = first.start.at(*free);
            self.waiting.push(Reverse((first.began, stream)));
        }
    }

    /// Lets all happen that happens at this instant. When time ends, so do all tasks.
    fn step(&mut self, at: Nanos, done: &mut BinaryHeap<Reverse<(Nanos, Nanos, TaskId, Nanos)>>) {
        self.clock += Work::from(speed(self.demands).0) * Work::from(at.saturating_since(self.read).0);
        self.read = at;
        loop {
            if let Some(&Reverse((target, stream))) = self.running.peek()
                && (target <= self.clock || at == Nanos::MAX)
            {
                self.running.pop();
                let task = self.streams[stream].tasks.pop_front().expect("a stream runs its first task");
                self.streams[stream].free = at;
                self.demands -= task.demand.0;
                done.push(Reverse((at.saturating_add(task.completion_delay), at, task.id, task.began)));
                self.wait_for(stream);
            } else if let Some(&Reverse((start, stream))) = self.waiting.peek()
                && start <= at
            {
                self.waiting.pop();
                let task = &self.streams[stream].tasks[0];
                self.demands += task.demand.0;
                self.running.push(Reverse((self.clock + (Work::from(task.alone.0) << 32), stream)));
            } else {
                break;
            }
        }
        self.look_ahead();
    }

    /// Finds out when something happens next.
    fn look_ahead(&mut self) {
        let finish = self.running.peek().map_or(Nanos::MAX, |Reverse((target, _))| {
            let left = (target - self.clock).div_ceil(Work::from(speed(self.demands).0));
            Nanos(u64::try_from(Work::from(self.read.0) + left).unwrap_or(u64::MAX))
        });
        let start = self.waiting.peek().map_or(Nanos::MAX, |Reverse((start, _))| *start);
        self.next = finish.min(start);
    }
}

impl<T: Timing> Backend for SharedSim<T> {
    fn now(&self) -> Nanos {
        self.now
    }

    /// # Panics
    /// On a stream that the worker does not have: the policy has said how many it uses.
    fn submit(&mut self, id: TaskId, task: &Task<'_>, _: Option<MemberList>) {
        let (worker, stream) = (&mut self.workers[task.worker.index()], task.stream.index());
        let streams = worker.streams.len();
        assert!(stream < streams, "a policy that uses {streams} streams submitted a task to stream {stream}");
        if worker.is_busy() && worker.next <= self.now {
            // A task that was submitted at this instant and takes no time is done already.
            worker.step(self.now, &mut self.done);
        }
        let Stream { tasks, last, .. } = &mut worker.streams[stream];
        let start = self.timing.start(task, self.now, tasks.is_empty());
        let alone = self.timing.duration(task, *last);
        let demand = self.timing.demand(task).min(Share::WHOLE);
        let completion_delay = self.timing.completion_delay();
        *last = task.steps.last().map(|step| step.cell);
        tasks.push_back(Queued { id, start, began: Nanos::ZERO, alone, demand, completion_delay });
        if tasks.len() == 1 {
            worker.wait_for(stream);
            worker.look_ahead();
        }
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        self.timing.batches(cell)
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        let until = until.map(|until| until.max(self.now));
        self.advance(until.unwrap_or(Nanos::MAX));
        match self.done.peek() {
            Some(Reverse((told, ..))) if until.is_none_or(|until| *told <= until) => {
                let Reverse((told, finish, task, start)) = self.done.pop()?;
                self.now = self.now.max(told);
                Some(Completion { task, start, finish })
            }
            _ => {
                self.now = until.unwrap_or(self.now);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
