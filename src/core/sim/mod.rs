//! The simulated backend: a virtual clock, and workers whose tasks take the time that the cost model predicts. No host
//! time enters, so a run repeats to the byte.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::base::units::{CellId, Nanos, Share, TaskId};
use crate::core::backend::Backend;
use crate::core::cost::timing::{Start, Timing};
use crate::core::task::{Completion, MemberList, Task};

/// The simulated backend for a policy that uses this number of streams of each worker.
pub fn backend<'t, T: Timing + 't>(
    workers: usize,
    streams: u16,
    timing: T,
) -> Box<dyn Backend + 't> {
    match streams {
        0 | 1 => Box::new(Sim::new(workers, timing)),
        _ => Box::new(SharedSim::new(workers, streams, timing)),
    }
}

/// Completions that the driver does not know of: when it is told, the finish, the task, the start.
type Told = BinaryHeap<Reverse<(Nanos, Nanos, TaskId, Nanos)>>;

/// The next completion that the driver is told of until then. The clock advances.
fn next(now: &mut Nanos, told: &mut Told, until: Option<Nanos>) -> Option<Completion> {
    match told.peek() {
        Some(Reverse((at, ..))) if until.is_none_or(|until| *at <= until) => {
            let Reverse((at, finish, task, start)) = told.pop()?;
            *now = (*now).max(at);
            Some(Completion {
                task,
                start,
                finish,
            })
        }
        _ => {
            *now = until.unwrap_or(*now);
            None
        }
    }
}

/// Workers with one stream each. Only [`Timing::start`] puts gaps between a worker's tasks.
pub struct Sim<T> {
    timing: T,
    now: Nanos,
    free_at: Vec<Nanos>,
    last: Vec<Option<CellId>>,
    running: Told,
}

impl<T: Timing> Sim<T> {
    pub fn new(workers: usize, timing: T) -> Self {
        let (free_at, last) = (vec![Nanos::ZERO; workers], vec![None; workers]);
        Sim {
            timing,
            now: Nanos::ZERO,
            free_at,
            last,
            running: BinaryHeap::new(),
        }
    }
}

impl<T: Timing> Backend for Sim<T> {
    fn now(&self) -> Nanos {
        self.now
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>, _: Option<MemberList>) {
        let free = &mut self.free_at[task.worker.index()];
        let start = self
            .timing
            .start(task, self.now, *free <= self.now)
            .at(*free);
        let last = &mut self.last[task.worker.index()];
        let time = self.timing.duration(task, *last);
        let finish = start.saturating_add(self.timing.disturbed(time, start));
        *last = task.steps.last().map(|step| step.cell);
        *free = finish;
        self.running.push(Reverse((
            finish.saturating_add(self.timing.completion_delay()),
            finish,
            id,
            start,
        )));
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        self.timing.batches(cell)
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        // The clock does not go back, even if the driver asks for an earlier instant.
        let until = until.map(|until| until.max(self.now));
        next(&mut self.now, &mut self.running, until)
    }
}

/// Simulated workers whose streams share a device.
///
/// The first tasks of a worker's streams run at the same time. Each has the time that it takes alone and a demand, the
/// share of the device that it can use. While the demands fit, all run at full speed; above that, one factor slows all
/// down so that they use exactly the whole device.
///
/// As all tasks of a worker run at one speed, one virtual clock at that speed is enough: a task ends when it has
/// advanced by the task's time alone. Speeds are rounded down to 2^-32 of full speed, and a task ends at the first
/// whole nanosecond at which its work is done.
pub struct SharedSim<T> {
    timing: T,
    now: Nanos,
    workers: Vec<Worker>,
    done: Told,
}

/// In 2^-32 of a nanosecond at full speed. All of time takes 96 bits.
type Work = u128;

#[derive(Default)]
struct Worker {
    streams: Vec<Stream>,
    /// Streams whose first tasks wait for their start, by that instant.
    waiting: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// Streams whose first tasks run, by the virtual clock at their end.
    running: BinaryHeap<Reverse<(Work, usize)>>,
    /// Of the running tasks, in units of [`Share`].
    demands: u64,
    /// The virtual clock at the instant `read`.
    clock: Work,
    read: Nanos,
    /// When the next task begins or ends, unless another is submitted before.
    next: Nanos,
}

#[derive(Default)]
struct Stream {
    /// The first runs, or waits for its start.
    tasks: VecDeque<Queued>,
    /// When the last completed task ended.
    free: Nanos,
    last: Option<CellId>,
}

struct Queued {
    id: TaskId,
    start: Start,
    /// Once it is the first of its stream.
    began: Nanos,
    alone: Nanos,
    demand: Share,
    completion_delay: Nanos,
}

/// The share of full speed at which tasks with this sum of demands run.
fn speed(demands: u64) -> Share {
    if demands <= Share::WHOLE.0 {
        Share::WHOLE
    } else {
        Share(((1u128 << 64) / u128::from(demands)) as u64)
    }
}

impl<T: Timing> SharedSim<T> {
    pub fn new(workers: usize, streams: u16, timing: T) -> Self {
        let streams = || (0..streams).map(|_| Stream::default()).collect();
        let worker = |_| Worker {
            streams: streams(),
            next: Nanos::MAX,
            ..Worker::default()
        };
        let workers = (0..workers).map(worker).collect();
        SharedSim {
            timing,
            now: Nanos::ZERO,
            workers,
            done: BinaryHeap::new(),
        }
    }

    /// Up to `until` or the next report to the driver.
    fn advance(&mut self, until: Nanos) {
        loop {
            let told = self
                .done
                .peek()
                .map_or(Nanos::MAX, |Reverse((told, ..))| *told);
            // A task that ends at the instant of a report may have to be reported before it.
            let next = self
                .workers
                .iter()
                .filter(|worker| worker.is_busy())
                .map(|worker| worker.next)
                .min();
            let Some(next) = next.filter(|next| *next <= until.min(told)) else {
                return;
            };
            for worker in self
                .workers
                .iter_mut()
                .filter(|worker| worker.is_busy() && worker.next == next)
            {
                worker.step(next, &mut self.done);
            }
        }
    }
}

impl Worker {
    fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || !self.running.is_empty()
    }

    fn wait_for(&mut self, stream: usize) {
        let Stream { tasks, free, .. } = &mut self.streams[stream];
        if let Some(first) = tasks.front_mut() {
            first.began = first.start.at(*free);
            self.waiting.push(Reverse((first.began, stream)));
        }
    }

    /// All tasks end at the end of time.
    fn step(&mut self, at: Nanos, done: &mut Told) {
        self.clock +=
            Work::from(speed(self.demands).0) * Work::from(at.saturating_since(self.read).0);
        self.read = at;
        loop {
            if let Some(&Reverse((target, stream))) = self.running.peek()
                && (target <= self.clock || at == Nanos::MAX)
            {
                self.running.pop();
                let task = self.streams[stream]
                    .tasks
                    .pop_front()
                    .expect("a stream runs its first task");
                self.streams[stream].free = at;
                self.demands -= task.demand.0;
                done.push(Reverse((
                    at.saturating_add(task.completion_delay),
                    at,
                    task.id,
                    task.began,
                )));
                self.wait_for(stream);
            } else if let Some(&Reverse((start, stream))) = self.waiting.peek()
                && start <= at
            {
                self.waiting.pop();
                let task = &self.streams[stream].tasks[0];
                self.demands += task.demand.0;
                self.running.push(Reverse((
                    self.clock + (Work::from(task.alone.0) << 32),
                    stream,
                )));
            } else {
                break;
            }
        }
        self.look_ahead();
    }

    fn look_ahead(&mut self) {
        let finish = self
            .running
            .peek()
            .map_or(Nanos::MAX, |Reverse((target, _))| {
                let left = (target - self.clock).div_ceil(Work::from(speed(self.demands).0));
                Nanos(u64::try_from(Work::from(self.read.0) + left).unwrap_or(u64::MAX))
            });
        let start = self
            .waiting
            .peek()
            .map_or(Nanos::MAX, |Reverse((start, _))| *start);
        self.next = finish.min(start);
    }
}

impl<T: Timing> Backend for SharedSim<T> {
    fn now(&self) -> Nanos {
        self.now
    }

    /// # Panics
    /// On a stream that the worker does not have: the policy has declared how many it uses.
    fn submit(&mut self, id: TaskId, task: &Task<'_>, _: Option<MemberList>) {
        let (worker, stream) = (&mut self.workers[task.worker.index()], task.stream.index());
        let streams = worker.streams.len();
        assert!(
            stream < streams,
            "a policy that uses {streams} streams submitted a task to stream {stream}"
        );
        if worker.is_busy() && worker.next <= self.now {
            // A task that was submitted at this instant and takes no time has ended.
            worker.step(self.now, &mut self.done);
        }
        let Stream { tasks, last, free } = &mut worker.streams[stream];
        let start = self.timing.start(task, self.now, tasks.is_empty());
        let alone = self.timing.duration(task, *last);
        let alone = self.timing.disturbed(alone, start.at(*free));
        let demand = self.timing.demand(task).min(Share::WHOLE);
        let completion_delay = self.timing.completion_delay();
        *last = task.steps.last().map(|step| step.cell);
        tasks.push_back(Queued {
            id,
            start,
            began: Nanos::ZERO,
            alone,
            demand,
            completion_delay,
        });
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
        next(&mut self.now, &mut self.done, until)
    }
}

#[cfg(test)]
mod tests;
