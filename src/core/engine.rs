//! The only event loop. Simulated and real runs differ only in the backend.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::clock;
use crate::base::error::{Error, Result};
use crate::base::units::{CellId, Nanos, TaskId};
use crate::core::backend::Backend;
use crate::core::policy::{Completed, Outcomes, Policy};
use crate::core::record::Recorder;
use crate::core::task::{
    Completion, Dispatch, MemberList, OpenTask, Rejections, Task, TaskBook, TaskSink,
};
use crate::core::workload::arrivals::RequestSource;
use crate::core::workload::trace::Request;

/// Runs requests through a policy on a backend until all are served.
///
/// All events of an instant are handled before any scheduling at that instant: completions in the order of submission, then
/// arrivals in trace order, then the policy's wake-up. The order is defined only here.
///
/// # Errors
/// [`Error::Interrupted`] once `stop` is set, or the recorder's limit is reached.
pub fn run(
    source: &mut dyn RequestSource,
    policy: &mut dyn Policy,
    backend: &mut dyn Backend,
    recorder: &mut impl Recorder,
    workers: usize,
    stop: &AtomicBool,
) -> Result<()> {
    let mut tasks = TaskBook::new(workers);
    let mut outcomes = Outcomes::default();
    let mut wake = None;
    loop {
        if stop.load(Ordering::Relaxed) || recorder.has_missed() {
            return Err(Error::Interrupted);
        }
        let until = source.peek().into_iter().chain(wake).min();
        let first = backend.wait(until);
        if first.is_none() && until.is_none() {
            recorder.fail_remaining(backend.now());
            return Ok(()); // Nothing runs, nothing will arrive, and the policy has set no wake-up.
        }
        let now = first.map_or_else(|| backend.now(), |completion| completion.finish);

        let mut next = first;
        while let Some(completion) = next {
            let done = tasks.close(completion.task);
            recorder.complete(&completion, &done);
            if tasks.unfinished(done.worker) == 0 {
                recorder.idle(done.worker);
            }
            let ended = recorder.end_sequences(&completion, &done);
            let Completion {
                task,
                start,
                finish,
            } = completion;
            let OpenTask {
                worker,
                stream,
                ref requests,
                ..
            } = done;
            policy.complete(
                &Completed {
                    task,
                    worker,
                    stream,
                    start,
                    finish,
                    requests,
                    ended,
                },
                &mut outcomes,
            );
            recorder.report(task);
            settle(&mut outcomes, finish, source, backend, recorder);
            tasks.recycle(done);
            next = backend.wait(Some(now));
        }
        let now = now.max(backend.now());
        while source.peek().is_some_and(|arrival| arrival <= now) {
            let request = source.pop();
            recorder.arrive(&request, now);
            let shape = &request.shape.without_output();
            policy.arrive(&Request { shape, ..request }, &mut outcomes);
            settle(&mut outcomes, now, source, backend, recorder);
        }
        recorder.end_round(now);

        let clock = (tasks.some_idle() || policy.works_ahead()).then(clock::now);
        let before = tasks.submitted();
        let (mut sink, rejected) = (Submission { backend }, &mut outcomes.rejected);
        policy.schedule(&mut Dispatch::new(
            &mut sink,
            &mut tasks,
            now,
            recorder.reasons(),
            rejected,
        ));
        if let Some(clock) = clock.filter(|_| tasks.submitted() > before) {
            recorder.decide(clock.elapsed(), tasks.submitted() - before);
        }
        recorder.preempt(&mut tasks.preempted);
        settle(&mut outcomes, now, source, backend, recorder);
        wake = policy.wake_at().filter(|at| *at > now);
    }
}

/// Passes a policy's tasks on to the backend.
struct Submission<'a> {
    backend: &'a mut dyn Backend,
}

impl TaskSink for Submission<'_> {
    fn batches(&self, cell: CellId) -> &[u32] {
        self.backend.batches(cell)
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>) {
        let members = self
            .backend
            .wants_members()
            .then(|| MemberList::of(task, self.backend.spare()));
        self.backend.submit(id, task, members);
    }
}

/// Records the requests that the policy has finished or rejected.
#[inline]
fn settle(
    outcomes: &mut Outcomes,
    now: Nanos,
    source: &mut dyn RequestSource,
    backend: &mut dyn Backend,
    recorder: &mut impl Recorder,
) {
    // At most instants no request leaves.
    if !outcomes.is_empty() {
        record(outcomes, now, source, backend, recorder);
    }
}

fn record(
    outcomes: &mut Outcomes,
    now: Nanos,
    source: &mut dyn RequestSource,
    backend: &mut dyn Backend,
    recorder: &mut impl Recorder,
) {
    recorder.prefetch(&outcomes.finished);
    for request in outcomes.finished.drain(..) {
        match backend.failure(request) {
            None => recorder.finish(request, now),
            Some(reason) => recorder.fail(request, now, reason),
        }
        source.left(request, now);
    }
    let Rejections { requests, reasons } = &mut outcomes.rejected;
    for request in requests.drain(..) {
        recorder.reject(request, now);
        source.left(request, now);
    }
    for (request, reason) in reasons.drain(..) {
        recorder.explain_rejection(request, now, reason);
    }
}
