//! The simulated backend: a virtual clock, and workers whose tasks take the time that the cost model predicts. No host
//! time enters, so a run repeats to the byte.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::base::units::{CellId, Nanos, Share, TaskId, WorkerId};
use crate::core::backend::Backend;
use crate::core::cost::timing::{Start, Timing};
use crate::core::task::{Completion, DecodeTask, MemberList, NextDecode, Task};

/// The simulated backend of a policy that uses this number of streams of each worker.
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

/// A completion that the engine does not know yet: the instant of the report, the finish, the task, the start.
type PendingReport = (Nanos, Nanos, TaskId, Nanos);

type PendingReports = BinaryHeap<Reverse<PendingReport>>;

/// The next completion that is reported to the engine up to `until`. The clock advances.
fn next_report(
    now: &mut Nanos,
    reports: &mut PendingReports,
    until: Option<Nanos>,
) -> Option<Completion> {
    match reports.peek() {
        Some(Reverse((at, ..))) if until.is_none_or(|until| *at <= until) => {
            let Reverse((at, finish, task, start)) = reports.pop()?;
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
    /// The end of each worker's last task.
    free_at: Vec<Nanos>,
    /// The cell type of each worker's last step.
    last: Vec<Option<CellId>>,
    running: PendingReports,
}

impl<T: Timing> Sim<T> {
    pub fn new(workers: usize, timing: T) -> Self {
        Sim {
            timing,
            now: Nanos::ZERO,
            free_at: vec![Nanos::ZERO; workers],
            last: vec![None; workers],
            running: BinaryHeap::new(),
        }
    }

    /// Starts a task of this duration. Returns when the engine will learn of its completion.
    #[inline]
    fn run(&mut self, id: TaskId, worker: WorkerId, start: Nanos, time: Nanos) -> PendingReport {
        let finish = start.saturating_add(self.timing.disturb(time, start));
        self.free_at[worker.index()] = finish;
        let at = finish.saturating_add(self.timing.completion_delay());
        (at, finish, id, start)
    }
}

impl<T: Timing> Backend for Sim<T> {
    fn now(&self) -> Nanos {
        self.now
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>, _: Option<MemberList>) {
        let free = self.free_at[task.worker.index()];
        let start = self.timing.start(task, self.now, free <= self.now);
        let last = &mut self.last[task.worker.index()];
        let time = self.timing.duration(task, *last);
        *last = task.steps.last().map(|step| step.cell);
        let report = self.run(id, task.worker, start.instant(free), time);
        self.running.push(Reverse(report));
    }

    fn repeat(
        &mut self,
        mut task: DecodeTask,
        follow: &mut dyn FnMut(&Completion, Nanos) -> Option<NextDecode>,
    ) {
        let Some(Reverse(mut report)) = self.running.pop() else {
            return;
        };
        loop {
            let (at, finish, id, start) = report;
            let completion = Completion {
                task: id,
                start,
                finish,
            };
            let now = self.now.max(at);
            let Some(next) = follow(&completion, now) else {
                break;
            };
            self.now = now;
            task.advance(next);
            let (start, time) = self.timing.decode(&task, now);
            let next = TaskId(id.0 + 1);
            report = self.run(next, task.worker, start.instant(finish), time);
        }
        self.running.push(Reverse(report));
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        self.timing.batches(cell)
    }

    fn next_completion(&self) -> Option<Nanos> {
        let Reverse((report, ..)) = self.running.peek()?;
        Some(*report)
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        // The clock does not go back, even if the engine asks for an earlier instant.
        let until = until.map(|until| until.max(self.now));
        next_report(&mut self.now, &mut self.running, until)
    }
}

/// Simulated workers whose streams share a device.
///
/// The first tasks of a worker's streams run at the same time. Each has the time that it takes alone and a demand, the
/// share of the device that it can use. While the demands fit, all run at full speed; above that, one factor slows all
/// down so that they use exactly the whole device.
///
/// All tasks of a worker run at one speed, so one virtual clock at that speed is enough: a task ends when it has
/// advanced by the task's time alone. Speeds are rounded down to 2^-32 of full speed, and a task ends at the first
/// whole nanosecond at which its work is done.
pub struct SharedSim<T> {
    timing: T,
    now: Nanos,
    workers: Vec<SharedWorker>,
    /// The instants at which busy workers begin or end tasks. An entry that its worker has left behind stays until it
    /// comes first.
    due: BinaryHeap<Reverse<(Nanos, usize)>>,
    done: PendingReports,
}

/// An instant of a virtual clock, in 2^-32 of a nanosecond at full speed. All of time takes 96 bits.
type VirtualTime = u128;

#[derive(Default)]
struct SharedWorker {
    streams: Vec<SharedStream>,
    /// The streams whose first tasks wait, with the instant at which they start.
    waiting: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// The streams whose first tasks run, with the virtual clock at their end.
    running: BinaryHeap<Reverse<(VirtualTime, usize)>>,
    /// The sum of the running tasks' demands, in units of [`Share`].
    demands: u64,
    /// The virtual clock at the instant `read`.
    clock: VirtualTime,
    read: Nanos,
    /// The instant at which the next task begins or ends, unless another is submitted before.
    next: Nanos,
}

#[derive(Default)]
struct SharedStream {
    /// The unfinished tasks. The first one runs, or waits for its start.
    tasks: VecDeque<QueuedTask>,
    /// The end of the last completed task.
    free: Nanos,
    /// The cell type of the last submitted step.
    last: Option<CellId>,
}

struct QueuedTask {
    id: TaskId,
    start: Start,
    /// The instant of the task's start, known once it is the first of its stream.
    began: Nanos,
    /// The task's duration if it runs alone.
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
        SharedSim {
            timing,
            now: Nanos::ZERO,
            workers: (0..workers).map(|_| SharedWorker::new(streams)).collect(),
            due: BinaryHeap::new(),
            done: BinaryHeap::new(),
        }
    }

    /// Advances the workers up to `until` or the next report to the engine.
    fn advance(&mut self, until: Nanos) {
        loop {
            let report = match self.done.peek() {
                Some(Reverse((at, ..))) => *at,
                None => Nanos::MAX,
            };
            // A task that ends at the instant of a report may have to be reported before it.
            match self.next() {
                Some(next) if next <= until.min(report) => self.step(next),
                _ => return,
            }
        }
    }

    /// The next instant at which a task begins or ends.
    fn next(&mut self) -> Option<Nanos> {
        while let Some(&Reverse((at, worker))) = self.due.peek() {
            let worker = &self.workers[worker];
            if worker.is_busy() && worker.next == at {
                return Some(at);
            }
            self.due.pop();
        }
        None
    }

    /// Begins and ends the tasks of this instant on all workers that have any.
    fn step(&mut self, at: Nanos) {
        while self.next() == Some(at)
            && let Some(Reverse((_, place))) = self.due.pop()
        {
            let worker = &mut self.workers[place];
            worker.step(at, &mut self.done);
            if worker.is_busy() {
                self.due.push(Reverse((worker.next, place)));
            }
        }
    }
}

impl SharedWorker {
    fn new(streams: u16) -> SharedWorker {
        SharedWorker {
            streams: (0..streams).map(|_| SharedStream::default()).collect(),
            next: Nanos::MAX,
            ..SharedWorker::default()
        }
    }

    fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || !self.running.is_empty()
    }

    /// Lets the first task of a stream wait for its start.
    fn wait_for(&mut self, stream: usize) {
        let SharedStream { tasks, free, .. } = &mut self.streams[stream];
        if let Some(first) = tasks.front_mut() {
            first.began = first.start.instant(*free);
            self.waiting.push(Reverse((first.began, stream)));
        }
    }

    /// Begins and ends the tasks of this instant. At the end of time all tasks end.
    fn step(&mut self, at: Nanos, done: &mut PendingReports) {
        self.clock += VirtualTime::from(speed(self.demands).0)
            * VirtualTime::from(at.saturating_since(self.read).0);
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
                    self.clock + (VirtualTime::from(task.alone.0) << 32),
                    stream,
                )));
            } else {
                break;
            }
        }
        self.look_ahead();
    }

    /// Computes the instant of the next start or end.
    fn look_ahead(&mut self) {
        let mut finish = Nanos::MAX;
        if let Some(Reverse((target, _))) = self.running.peek() {
            let left = (target - self.clock).div_ceil(VirtualTime::from(speed(self.demands).0));
            let end = VirtualTime::from(self.read.0) + left;
            finish = Nanos(u64::try_from(end).unwrap_or(u64::MAX));
        }
        let mut start = Nanos::MAX;
        if let Some(Reverse((first, _))) = self.waiting.peek() {
            start = *first;
        }
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
        let worker = &mut self.workers[task.worker.index()];
        let stream = task.stream.index();
        let streams = worker.streams.len();
        assert!(
            stream < streams,
            "a policy that uses {streams} streams submitted a task to stream {stream}"
        );
        if worker.is_busy() && worker.next <= self.now {
            // A task that was submitted at this instant and takes no time has ended.
            worker.step(self.now, &mut self.done);
        }
        let SharedStream { tasks, last, free } = &mut worker.streams[stream];
        let start = self.timing.start(task, self.now, tasks.is_empty());
        let alone = self.timing.duration(task, *last);
        let alone = self.timing.disturb(alone, start.instant(*free));
        let demand = self.timing.demand(task).min(Share::WHOLE);
        let completion_delay = self.timing.completion_delay();
        *last = task.steps.last().map(|step| step.cell);
        tasks.push_back(QueuedTask {
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
        self.due.push(Reverse((worker.next, task.worker.index())));
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        self.timing.batches(cell)
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        let until = until.map(|until| until.max(self.now));
        self.advance(until.unwrap_or(Nanos::MAX));
        next_report(&mut self.now, &mut self.done, until)
    }
}

#[cfg(test)]
mod tests;
