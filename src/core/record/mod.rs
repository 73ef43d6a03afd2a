//! The record of a run: what happened to each request, and what the workers executed.
//!
//! A [`full::FullRecord`] keeps all requests. A [`compact::CompactRecord`] forgets a request when it has left, and
//! keeps counts, sums and histograms. The module [`summary`](super::summary) computes the metrics from either.

mod options;

pub mod execution;
pub mod tokens;

pub(crate) mod histogram;
mod lives;
pub mod parts;
pub(crate) mod presence;
pub(crate) mod tally;

pub mod compact;
pub mod full;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::execution::Execution;
pub use self::options::{Limit, RecordOptions};
use crate::base::units::{Nanos, RequestId, TaskId, WorkerId};
use crate::core::task::{Completion, OpenTask, Reason};
use crate::core::workload::trace::Request;

/// How a request left the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Served,
    /// The policy turned the request away before its deadline.
    Rejected,
    /// The policy turned the request away at its deadline or later.
    Expired,
    Failed,
    /// The run was stopped, or the policy forgot the request.
    #[default]
    Unfinished,
}

/// A request that was rejected or failed, the instant at which it left, and the reason.
pub type ReasonedDeparture = (RequestId, Nanos, String);

/// The reason of a request that is still in the system when nothing runs or arrives any more.
pub(crate) const LOST: &str = "the policy neither served nor rejected it";

/// What the engine reports about a run. A request arrives, starts with its first task, and leaves: it finishes, is
/// rejected or fails.
pub trait Recorder {
    fn execution(&self) -> &Execution;

    fn execution_mut(&mut self) -> &mut Execution;

    /// Records an arrival. `handled` is the instant at which the engine passes the request to the policy.
    fn arrive(&mut self, request: &Request<'_>, handled: Nanos);

    /// Records the requests of a completed task as started, unless they have started before.
    fn start(&mut self, completion: &Completion, task: &OpenTask);

    /// Records that requests were served.
    fn finish(&mut self, requests: &[RequestId], at: Nanos);

    fn reject(&mut self, request: RequestId, at: Nanos);

    /// Keeps the policy's reason for a rejection.
    fn explain_rejection(&mut self, request: RequestId, at: Nanos, reason: String);

    fn fail(&mut self, request: RequestId, at: Nanos, reason: String);

    /// Records all requests that are still in the system as failed, because nothing runs or arrives any more.
    fn fail_remaining(&mut self, at: Nanos);

    /// Records the tokens of a completed iteration. Returns the sequences that have received their last token.
    fn end_sequences(&mut self, _completion: &Completion, _task: &OpenTask) -> &[RequestId] {
        &[]
    }

    /// The number of iterations of a worker that certainly end no sequence. It may be too low.
    fn quiet_iterations(&self, _: WorkerId) -> u64 {
        0
    }

    /// Records preemptions, and leaves the list empty.
    fn preempt(&mut self, requests: &mut Vec<RequestId>) {
        requests.clear();
    }

    /// Whether the run has reached its limit.
    fn has_missed(&self) -> bool {
        false
    }

    /// The requests that failed, in the order in which they left.
    fn failures(&self) -> &[ReasonedDeparture];

    /// The rejections for which the policy gave a reason.
    fn explained_rejections(&self) -> &[ReasonedDeparture];

    /// Records a task and the start of its requests.
    #[inline]
    fn complete(&mut self, completion: &Completion, task: &OpenTask) {
        self.start(completion, task);
        self.execution_mut().complete(completion, task);
    }

    /// Records that the policy has learned of a completion.
    #[inline]
    fn report(&mut self, task: TaskId) {
        self.execution_mut().report(task);
    }

    /// Records that a worker has no task left.
    #[inline]
    fn idle(&mut self, worker: WorkerId) {
        self.execution_mut().idle(worker);
    }

    /// Records that the policy has learned of all events of this instant.
    #[inline]
    fn end_round(&mut self, now: Nanos) {
        self.execution_mut().end_round(now);
    }

    /// Whether the host time of the next call of the policy that submits tasks is taken.
    #[inline]
    fn times_decision(&self) -> bool {
        self.execution().decision_weight().is_some()
    }

    /// Records a call of the policy that submitted tasks, and the host's time for it if that was taken.
    #[inline]
    fn decide(&mut self, now: Nanos, time: Option<Duration>, tasks: u64) {
        self.execution_mut().decide(now, time, tasks);
    }

    /// Records that a task is done in which sequences only decoded, and that another like it was submitted at this
    /// instant, as a round of its own. No host time is taken: nothing was decided. A record that knows of
    /// [quiet iterations](Recorder::quiet_iterations) records their tokens here.
    #[inline]
    fn repeat(&mut self, completion: &Completion, task: &OpenTask, now: Nanos) {
        self.execution_mut().repeat(completion, task, now);
    }

    /// Counts the tasks that were [repeated](Recorder::repeat), each at the batch of this one.
    #[inline]
    fn count_repeats(&mut self, task: &OpenTask, repeats: u64) {
        self.execution_mut().count_repeats(task, repeats);
    }

    /// The list of reasons for tasks, or `None` if reasons are not kept.
    #[inline]
    fn reasons(&mut self) -> Option<&mut Vec<(TaskId, Reason)>> {
        self.execution_mut().reasons()
    }
}

#[cfg(test)]
pub(crate) mod tests;
