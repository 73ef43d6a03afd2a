//! The scheduling core: what a batching policy is, and what it may know.
//!
//! A policy is told of arrivals and completions and submits batched tasks through [`Dispatch`]. It reads no clock of
//! its own, draws no unseeded random number and iterates no hash map, so that the same events give the same tasks,
//! whichever backend the events came from.

pub mod admission;
pub mod registry;
pub mod values;

pub mod cellular;
pub mod dvabatch;
pub mod dynet;
mod first_come;
pub mod fold;
pub mod ideal;
pub mod immediate;
pub mod jit;
pub mod late;
mod levels;
pub mod merged;
pub mod operators;
pub mod padded;

use crate::backend::{Backend, MemberList, Step, Task};
use crate::units::{Nanos, RequestId, StreamId, TaskId, WorkerId};
use crate::workload::trace::Request;

/// A batching policy.
pub trait Policy {
    /// A request has arrived. It is finished or rejected exactly once, now or later.
    fn arrive(&mut self, request: &Request<'_>, outcomes: &mut Outcomes);

    /// A task is done. Requests that are complete with it are finished through `outcomes`: all of the task's, unless a policy
    /// that runs less than whole requests says otherwise.
    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        completed.requests.iter().for_each(|request| outcomes.finish(*request));
    }

    /// Submits whatever should run now. Called once for each instant at which something happened, when all that
    /// happened is known; idle workers are to be offered work in the order of their numbers.
    fn schedule(&mut self, dispatch: &mut Dispatch<'_>);

    /// When the policy wants [`Policy::schedule`] to be called though nothing else happens, for batch windows and
    /// time-outs. Asked after each `schedule`; a time that is not in the future counts as none.
    fn wake_at(&self) -> Option<Nanos> {
        None
    }

    /// Whether it also submits to workers that have unfinished tasks. What decisions take is measured wherever there can be one.
    fn works_ahead(&self) -> bool {
        false
    }
}

/// A task that is done.
#[derive(Clone, Copy, Debug)]
pub struct Completed<'a> {
    /// The task.
    pub task: TaskId,
    /// The worker that ran it.
    pub worker: WorkerId,
    /// The stream that it ran on.
    pub stream: StreamId,
    /// When it began to execute.
    pub start: Nanos,
    /// When it was done.
    pub finish: Nanos,
    /// The requests that the task was submitted with, in that order.
    pub requests: &'a [RequestId],
}

/// Where a policy says what became of requests.
#[derive(Debug, Default)]
pub struct Outcomes {
    pub(crate) finished: Vec<RequestId>,
    pub(crate) rejected: Vec<RequestId>,
}

impl Outcomes {
    /// All nodes of the request have completed; it leaves.
    pub fn finish(&mut self, request: RequestId) {
        self.finished.push(request);
    }

    /// The request leaves without being served.
    pub fn reject(&mut self, request: RequestId) {
        self.rejected.push(request);
    }
}

/// Why a policy submitted a task, each in a clause for a reader (`batchlab explain`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reason {
    /// Why this cell type, or this group of requests: "decoder: at least max_batch (512) nodes are ready".
    pub what: String,
    /// Why so many: "all 37 ready nodes", "max_batch (512) of 801 ready nodes".
    pub size: String,
    /// Why at this instant: "worker 0 has nothing left to do".
    pub when: String,
}

/// A policy's hand on the workers during one [`Policy::schedule`].
pub struct Dispatch<'a> {
    pub(crate) backend: &'a mut dyn Backend,
    pub(crate) tasks: &'a mut crate::driver::TaskBook,
    pub(crate) now: Nanos,
    /// Where reasons go, if somebody wants to know them.
    pub(crate) reasons: Option<&'a mut Vec<(TaskId, Reason)>>,
}

impl Dispatch<'_> {
    /// The present instant.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// The workers, in the order of their numbers.
    pub fn workers(&self) -> impl Iterator<Item = WorkerId> + use<> {
        (0..self.tasks.workers() as u16).map(WorkerId)
    }

    /// Whether a worker has no unfinished task.
    pub fn is_idle(&self, worker: WorkerId) -> bool {
        self.tasks.unfinished(worker) == 0
    }

    /// How many tasks of a worker are not finished.
    pub fn unfinished(&self, worker: WorkerId) -> usize {
        self.tasks.unfinished(worker)
    }

    /// Submits a task to its worker's stream, behind those that are there already. Where the device has a cell at some batch
    /// sizes alone, its steps are padded to these.
    ///
    /// # Panics
    /// On a task without work: an empty batch is a mistake of the policy.
    pub fn submit(&mut self, task: &Task<'_>) -> TaskId {
        assert!(task.steps.iter().any(|s| s.batch > 0 && s.times > 0), "a policy submitted an empty batch");
        let any_size = task.steps.iter().all(|step| self.backend.batches(step.cell).is_empty());
        if !any_size {
            let padded: Vec<Step> =
                task.steps.iter().flat_map(|step| step.padded(self.backend.batches(step.cell))).collect();
            return self.pass_on(&Task { steps: &padded, ..*task });
        }
        self.pass_on(task)
    }

    fn pass_on(&mut self, task: &Task<'_>) -> TaskId {
        let id = self.tasks.open(self.now, task);
        let members = self.backend.wants_members().then(|| MemberList::of(task, self.backend.spare()));
        self.backend.submit(id, task, members);
        id
    }

    /// The same, with the reason, which is put into words only if somebody wants to know it.
    ///
    /// # Panics
    /// As [`Dispatch::submit`].
    pub fn submit_because(&mut self, task: &Task<'_>, reason: impl FnOnce() -> Reason) -> TaskId {
        let id = self.submit(task);
        if let Some(reasons) = &mut self.reasons {
            reasons.push((id, reason()));
        }
        id
    }
}
