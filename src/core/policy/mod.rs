//! Batching policies.
//!
//! A policy receives arrivals and completions, and submits batched tasks through [`Dispatch`]. It reads no clock, draws
//! no unseeded random number and iterates over no hash map, so the same events give the same tasks on every backend.

pub mod admission;
pub mod closed_batches;
pub mod due_first;
pub mod registry;
pub mod sequences;
pub mod values;
pub mod whole;

pub mod cellular;
pub mod clockwork;
pub mod control_limit;
pub mod dvabatch;
pub mod dynet;
pub mod fold;
pub mod ideal;
pub mod jit;
pub mod late;
pub mod merged;
pub mod nexus;
pub mod operators;
pub mod orca;
pub mod padded;
pub mod request_level;
pub mod sarathi;
pub mod symphony;
pub mod triton;
pub mod unbatched;
pub mod vllm;

/// The imports that the files of policies share.
mod prelude {
    pub use serde::{Deserialize, Serialize};
    pub use smart_default::SmartDefault;

    pub use crate::base::units::{CellId, Nanos, RequestId, WorkerId};
    pub use crate::core::policy::registry::{Batches, PolicyKind, Settings, Setup};
    pub use crate::core::policy::values::require_positive;
    pub use crate::core::policy::{Completed, Outcomes, Policy};
    pub use crate::core::task::{Dispatch, Reason, Step, Task};
    pub use crate::core::workload::cell_graph::CellGraph;
    pub use crate::core::workload::trace::Request;
}

use crate::base::error::Error;
use crate::base::units::{Nanos, RequestId, StreamId, TaskId, WorkerId};
use crate::core::task::{Dispatch, NextDecode, Rejections};
use crate::core::workload::trace::Request;

/// A batching policy.
pub trait Policy {
    /// A request has arrived. Finish or reject it exactly once, now or later.
    fn arrive(&mut self, request: &Request<'_>, outcomes: &mut Outcomes);

    /// A task is done: finish complete requests. The default finishes all requests of the task.
    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        for request in completed.requests {
            outcomes.finish(*request);
        }
    }

    /// Submits tasks, and may reject requests. The engine calls it once for each instant, after all its events; in a
    /// simulation only while a worker is idle, if the policy [decides at no other time](Policy::decides_when_idle). Idle
    /// workers should get work in the order of their numbers.
    fn schedule(&mut self, dispatch: &mut Dispatch<'_>);

    /// The instant at which [`Policy::schedule`] must be called even without events. The engine asks after each
    /// `schedule`, and ignores an instant that is not in the future.
    fn wake_at(&self) -> Option<Nanos> {
        None
    }

    /// Whether [`Policy::schedule`] does nothing unless a worker is idle. A simulation then does not call it at other
    /// instants, which saves most of the work of a busy system.
    fn decides_when_idle(&self) -> bool {
        false
    }

    /// Plans another iteration of a language model like the worker's last one, in which sequences only decoded. In a
    /// simulation the engine asks for it before that one ends, if until then no request arrives and no sequence ends.
    /// It then calls neither [`Policy::complete`] nor [`Policy::schedule`].
    ///
    /// The answer is what these calls would submit. It is `None`, and nothing changes, if they would do anything else.
    /// Only policies that [decide when a worker is idle](Policy::decides_when_idle) are asked, while no other task runs.
    /// Their iterations must take no [extra time](crate::core::task::Task::extra).
    fn repeat(&mut self, _: WorkerId) -> Option<NextDecode> {
        None
    }

    /// Whether the policy also submits to workers with unfinished tasks.
    fn works_ahead(&self) -> bool {
        false
    }
}

/// A task that is done.
#[derive(Clone, Copy, Debug)]
pub struct Completed<'a> {
    pub task: TaskId,
    pub worker: WorkerId,
    pub stream: StreamId,
    pub start: Nanos,
    pub finish: Nanos,
    /// The requests of the task, in the order of its submission.
    pub requests: &'a [RequestId],
    /// The sequences of a language model whose last token the task has generated. A policy learns an output's length
    /// only from this list.
    pub ended: &'a [RequestId],
}

/// The requests that leave.
#[derive(Debug, Default)]
pub struct Outcomes {
    pub(crate) finished: Vec<RequestId>,
    pub(crate) rejected: Rejections,
}

impl Outcomes {
    pub(crate) fn is_empty(&self) -> bool {
        self.finished.is_empty()
            && self.rejected.requests.is_empty()
            && self.rejected.failure.is_none()
    }

    /// Ends the run with this error, for a policy that can't go on. The first error counts.
    pub fn fail(&mut self, error: Error) {
        self.rejected.failure.get_or_insert(error);
    }

    /// Lets a request leave, all of whose nodes must have completed.
    #[inline]
    pub fn finish(&mut self, request: RequestId) {
        self.finished.push(request);
    }

    /// Makes a request leave unserved. It must not be submitted or finished afterwards.
    pub fn reject(&mut self, request: RequestId) {
        self.rejected.requests.push(request);
    }

    /// Makes a request leave unserved, and records the reason. What many requests have in common comes first, and after
    /// a colon what is true of this one only: `prompt above 2048 tokens (max_length): it has 3001`.
    pub fn reject_because(&mut self, request: RequestId, reason: String) {
        self.rejected.push_because(request, reason);
    }
}
