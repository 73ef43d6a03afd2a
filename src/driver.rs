//! The loop: the only one. Simulated and real runs differ in the backend alone.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::backend::{Backend, Task};
use crate::error::{Error, Result};
use crate::metrics::recorder::Recorder;
use crate::policy::{Completed, Dispatch, Outcomes, Policy};
use crate::units::{Nanos, RequestId, StreamId, TaskId, WorkerId};
use crate::workload::arrivals::Source;

/// Runs requests through a policy on a backend until all are served.
///
/// All events of one instant are handled before any scheduling at that instant: completions in the order of their
/// tasks' submission, then arrivals in trace order, then the policy's wake-up. The order is written down here and
/// nowhere else.
///
/// # Errors
/// [`Error::Interrupted`] once `stop` is set.
pub fn drive(
    source: &mut dyn Source,
    policy: &mut dyn Policy,
    backend: &mut dyn Backend,
    recorder: &mut Recorder,
    workers: usize,
    stop: &AtomicBool,
) -> Result<()> {
    let mut tasks = TaskBook::new(workers);
    let mut outcomes = Outcomes::default();
    let mut wake = None;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let arrival = source.peek();
        let until = match (arrival, wake) {
            (Some(arrival), Some(wake)) => Some(arrival.min(wake)),
            (one, other) => one.or(other),
        };
        let first = backend.wait(until);
        if first.is_none() && until.is_none() {
            break; // Nothing runs, nothing will arrive, and nobody wants to be woken.
        }
        let now = first.map_or_else(|| backend.now(), |completion| completion.finish);

        let mut next = first;
        while let Some(completion) = next {
            let done = tasks.close(completion.task);
            recorder.completed(&completion, &done);
            if tasks.unfinished(done.worker) == 0 {
                recorder.idles(done.worker);
            }
            policy.complete(
                &Completed {
                    task: completion.task,
                    worker: done.worker,
                    stream: done.stream,
                    start: completion.start,
                    finish: completion.finish,
                    requests: &done.requests,
                },
                &mut outcomes,
            );
            recorder.delivered(completion.task);
            settle(&mut outcomes, completion.finish, source, backend, recorder);
            tasks.recycle(done);
            next = backend.wait(Some(now));
        }
        let now = now.max(backend.now());
        while source.peek().is_some_and(|arrival| arrival <= now) {
            let request = source.pop();
            recorder.arrived(request.id, request.arrival, now);
            policy.arrive(&request, &mut outcomes);
            settle(&mut outcomes, now, source, backend, recorder);
        }
        recorder.round(now);

        let offered = tasks.some_idle() || policy.works_ahead();
        let clock = offered.then(Instant::now);
        let before = tasks.submitted();
        policy.schedule(&mut Dispatch { backend, tasks: &mut tasks, now, reasons: recorder.reasons() });
        if let Some(clock) = clock.filter(|_| tasks.submitted() > before) {
            recorder.decided(clock.elapsed(), tasks.submitted() - before);
        }
        wake = policy.wake_at().filter(|at| *at > now);
    }
    Ok(())
}

/// Passes on what the policy said of requests.
fn settle(
    outcomes: &mut Outcomes,
    now: Nanos,
    source: &mut dyn Source,
    backend: &mut dyn Backend,
    recorder: &mut Recorder,
) {
    for request in outcomes.finished.drain(..) {
        match backend.failure(request) {
            None => recorder.finished(request, now),
            Some(reason) => recorder.failed(request, now, reason),
        }
        source.left(request, now);
    }
    for request in outcomes.rejected.drain(..) {
        recorder.rejected(request, now);
        source.left(request, now);
    }
}

/// The tasks that are submitted and not finished.
pub struct TaskBook {
    /// In order of submission; a task that finished out of order leaves a gap until those before it have finished.
    open: VecDeque<Option<OpenTask>>,
    first: u64,
    unfinished: Vec<usize>,
    busy_workers: usize,
    /// Request lists of finished tasks, kept for their memory.
    spare: Vec<Vec<RequestId>>,
    spare_steps: Vec<Vec<crate::backend::Step>>,
}

/// What the driver remembers of a task while it runs.
pub struct OpenTask {
    /// Where it runs.
    pub worker: WorkerId,
    /// The stream that it runs on.
    pub stream: StreamId,
    /// What it runs.
    pub steps: Vec<crate::backend::Step>,
    /// The size of the batch, as the task log shows it.
    pub batch: u32,
    /// How many of its cells belong to a request.
    pub useful_cells: u64,
    /// When it was submitted.
    pub submit: Nanos,
    /// The requests that it was submitted with.
    pub requests: Vec<RequestId>,
}

impl TaskBook {
    fn new(workers: usize) -> Self {
        TaskBook {
            open: VecDeque::new(),
            first: 0,
            unfinished: vec![0; workers],
            busy_workers: 0,
            spare: Vec::new(),
            spare_steps: Vec::new(),
        }
    }

    pub(crate) fn workers(&self) -> usize {
        self.unfinished.len()
    }

    pub(crate) fn unfinished(&self, worker: WorkerId) -> usize {
        self.unfinished[worker.index()]
    }

    fn some_idle(&self) -> bool {
        self.busy_workers < self.unfinished.len()
    }

    fn submitted(&self) -> u64 {
        self.first + self.open.len() as u64
    }

    pub(crate) fn open(&mut self, now: Nanos, task: &Task<'_>) -> TaskId {
        let id = TaskId(self.submitted());
        let mut requests = self.spare.pop().unwrap_or_default();
        requests.extend_from_slice(task.requests);
        let mut steps = self.spare_steps.pop().unwrap_or_default();
        steps.extend_from_slice(task.steps);
        let unfinished = &mut self.unfinished[task.worker.index()];
        self.busy_workers += usize::from(*unfinished == 0);
        *unfinished += 1;
        self.open.push_back(Some(OpenTask {
            worker: task.worker,
            stream: task.stream,
            steps,
            batch: task.batch,
            useful_cells: task.useful_cells,
            submit: now,
            requests,
        }));
        id
    }

    fn close(&mut self, id: TaskId) -> OpenTask {
        let done = self
            .open
            .get_mut((id.0 - self.first) as usize)
            .and_then(Option::take)
            .expect("a backend reports each submitted task once");
        while let Some(None) = self.open.front() {
            self.open.pop_front();
            self.first += 1;
        }
        let unfinished = &mut self.unfinished[done.worker.index()];
        *unfinished -= 1;
        self.busy_workers -= usize::from(*unfinished == 0);
        done
    }

    fn recycle(&mut self, mut done: OpenTask) {
        done.requests.clear();
        done.steps.clear();
        self.spare.push(done.requests);
        self.spare_steps.push(done.steps);
    }
}
