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

use crate::task::Dispatch;
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
