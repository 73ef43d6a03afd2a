//! The only event loop. Simulated and real runs differ only in the backend.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::base::clock;
use crate::base::error::{Context as _, Error, Result};
use crate::base::units::{CellId, Nanos, TaskId};
use crate::core::backend::Backend;
use crate::core::policy::{Completed, Outcomes, Policy};
use crate::core::record::Recorder;
use crate::core::task::{Completion, Dispatch, MemberList, Rejections, Task, TaskBook, TaskSink};
use crate::core::workload::arrivals::RequestSource;
use crate::core::workload::trace::Request;

/// Runs requests through a policy on a backend until all are served.
///
/// All events of an instant are handled before any scheduling at that instant: completions in the order of submission,
/// then arrivals in trace order, then the policy's wake-up. The order is defined only here.
///
/// # Errors
/// [`Error::Interrupted`] once `stop` is set, or the recorder's limit is reached; the policy's error if it
/// [fails](Outcomes::fail).
pub fn run(
    source: &mut dyn RequestSource,
    policy: &mut dyn Policy,
    backend: &mut dyn Backend,
    recorder: &mut impl Recorder,
    workers: usize,
    stop: &AtomicBool,
) -> Result<()> {
    let decides_when_idle = policy.decides_when_idle();
    let mut engine = Engine {
        next_arrival: source.peek(),
        source,
        policy,
        backend,
        recorder,
        tasks: TaskBook::new(workers),
        outcomes: Outcomes::default(),
        stop,
    };
    let mut wake = None;
    loop {
        if engine.must_end() {
            return Err(Error::Interrupted);
        }
        if decides_when_idle {
            engine.repeat_iterations(wake);
            engine.admit_until_decision(wake)?;
        }
        let until = engine.next_arrival.into_iter().chain(wake).min();
        let first = engine.backend.wait(until);
        if first.is_none() && until.is_none() {
            // Nothing runs, nothing will arrive, and the policy has set no wake-up.
            engine.recorder.fail_remaining(engine.backend.now());
            return Ok(());
        }
        let now = engine.complete_tasks(first)?;
        engine.admit_requests(now)?;
        engine.recorder.end_round(now);
        engine.schedule(now)?;
        wake = engine.policy.wake_at().filter(|at| *at > now);
    }
}

struct Engine<'a, R> {
    source: &'a mut dyn RequestSource,
    /// The answer of [`RequestSource::peek`], which only an arrival or a departure changes.
    next_arrival: Option<Nanos>,
    policy: &'a mut dyn Policy,
    backend: &'a mut dyn Backend,
    recorder: &'a mut R,
    tasks: TaskBook,
    outcomes: Outcomes,
    stop: &'a AtomicBool,
}

impl<R: Recorder> Engine<'_, R> {
    /// Whether the run is stopped, or the recorder's limit is reached.
    #[inline]
    fn must_end(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.recorder.has_missed()
    }

    /// Handles the first completion, if any, and all others of its instant. Returns the present instant.
    #[inline]
    fn complete_tasks(&mut self, first: Option<Completion>) -> Result<Nanos> {
        let now = match first {
            Some(completion) => completion.finish,
            None => self.backend.now(),
        };
        let mut next = first;
        while let Some(completion) = next {
            self.complete(&completion)?;
            next = self.backend.wait(Some(now));
        }
        Ok(now.max(self.backend.now()))
    }

    #[inline]
    fn complete(&mut self, completion: &Completion) -> Result<()> {
        let worker = self.tasks.end(completion.task);
        let done = self.tasks.task(completion.task);
        self.recorder.complete(completion, done);
        if self.tasks.unfinished_tasks(worker) == 0 {
            self.recorder.idle(worker);
        }
        let completed = Completed {
            task: completion.task,
            worker,
            stream: done.stream,
            start: completion.start,
            finish: completion.finish,
            requests: &done.requests,
            ended: self.recorder.end_sequences(completion, done),
        };
        self.policy.complete(&completed, &mut self.outcomes);
        self.recorder.report(completion.task);
        self.settle(completion.finish)?;
        self.tasks.close(completion.task);
        Ok(())
    }

    /// Passes the requests that have arrived to the policy.
    #[inline(always)]
    fn admit_requests(&mut self, now: Nanos) -> Result<()> {
        while self.next_arrival.is_some_and(|arrival| arrival <= now) {
            let request = self.source.pop();
            self.recorder.arrive(&request, now);
            let shape = &request.shape.without_output();
            let request = Request { shape, ..request };
            self.policy.arrive(&request, &mut self.outcomes);
            self.next_arrival = self.source.peek();
            self.settle(now)?;
        }
        Ok(())
    }

    /// Lets the only running task, in which sequences only decode, be followed by others like it until anything else
    /// happens: an arrival, a wake-up, the end of a sequence, or a plan that the policy has to make in full. Each
    /// iteration is recorded as if it had a round of its own.
    #[inline]
    fn repeat_iterations(&mut self, wake: Option<Nanos>) {
        let Some(task) = self.tasks.only() else {
            return;
        };
        let Some(decode) = task.only_decodes() else {
            return;
        };
        let quiet = self.recorder.quiet_iterations(decode.worker);
        if quiet == 0 || self.recorder.reasons().is_some() {
            return;
        }
        let until = self.next_arrival.into_iter().chain(wake).min();
        let until = until.unwrap_or(Nanos::MAX);
        let Engine {
            policy,
            backend,
            recorder,
            stop,
            ..
        } = self;
        let mut repeats = 0;
        backend.repeat(decode, &mut |completion, now| {
            if repeats == quiet || now >= until || stop.load(Ordering::Relaxed) {
                return None;
            }
            let next = policy.repeat(decode.worker)?;
            recorder.repeat(completion, task, now);
            task.repeat(now, next);
            repeats += 1;
            Some(next)
        });
        if repeats > 0 {
            self.recorder.count_repeats(task, repeats);
            self.tasks.skip_numbers(repeats);
        }
    }

    /// The host's time at the beginning of a decision, if the recorder asks for it.
    fn begin_decision(&self) -> Option<Instant> {
        self.recorder.times_decision().then(clock::now)
    }

    /// Admits the requests that arrive before the next decision of a policy that [decides only when a worker is
    /// idle](Policy::decides_when_idle): before a task ends, if all workers have one. Each arrives at its own instant,
    /// so that nothing differs but the number of rounds.
    #[inline]
    fn admit_until_decision(&mut self, wake: Option<Nanos>) -> Result<()> {
        if self.tasks.some_idle() {
            return Ok(());
        }
        let Some(completion) = self.backend.next_completion() else {
            return Ok(());
        };
        let until = wake.map_or(completion, |wake| wake.min(completion));
        while let Some(arrival) = self.next_arrival
            && arrival < until
            && !self.must_end()
        {
            self.admit_requests(arrival)?;
            self.recorder.end_round(arrival);
        }
        Ok(())
    }

    /// Lets the policy submit tasks. The recorder gets decisions that submit any, with the host's time if it asks for it.
    #[inline]
    fn schedule(&mut self, now: Nanos) -> Result<()> {
        let may_submit = self.tasks.some_idle() || self.policy.works_ahead();
        let began = if may_submit {
            self.begin_decision()
        } else {
            None
        };
        let before = self.tasks.submitted_tasks();
        self.policy.schedule(&mut Dispatch::new(
            &mut Submission {
                backend: self.backend,
            },
            &mut self.tasks,
            now,
            self.recorder.reasons(),
            &mut self.outcomes.rejected,
        ));
        let submitted = self.tasks.submitted_tasks() - before;
        if submitted > 0 {
            let time = began.map(|began| began.elapsed());
            self.recorder.decide(now, time, submitted);
        }
        self.recorder.preempt(&mut self.tasks.preempted);
        self.settle(now)
    }

    /// Records the requests that the policy has finished or rejected.
    #[inline]
    fn settle(&mut self, now: Nanos) -> Result<()> {
        // At most instants no request leaves.
        if self.outcomes.is_empty() {
            return Ok(());
        }
        self.record_outcomes(now)
    }

    fn record_outcomes(&mut self, now: Nanos) -> Result<()> {
        if let Some(error) = self.outcomes.rejected.failure.take() {
            return Err(error).within(now);
        }
        let finished = &mut self.outcomes.finished;
        finished.retain(|request| match self.backend.failure(*request) {
            None => true,
            Some(reason) => {
                self.recorder.fail(*request, now, reason);
                self.source.note_departures(&[*request], now);
                false
            }
        });
        self.recorder.finish(finished, now);
        self.source.note_departures(finished, now);
        finished.clear();
        let Rejections {
            requests, reasons, ..
        } = &mut self.outcomes.rejected;
        for request in requests.iter() {
            self.recorder.reject(*request, now);
        }
        self.source.note_departures(requests, now);
        requests.clear();
        for (request, reason) in reasons.drain(..) {
            self.recorder.explain_rejection(request, now, reason);
        }
        self.next_arrival = self.source.peek();
        Ok(())
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
        let members = if self.backend.wants_members() {
            Some(MemberList::from_task(task, self.backend.spare()))
        } else {
            None
        };
        self.backend.submit(id, task, members);
    }
}
