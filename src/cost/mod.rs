//! How long tasks take on the simulated device.

pub mod curve;
pub mod grnn;
pub mod operators;
pub mod persistent;
pub mod roofline;
pub mod slice;
pub mod table;
pub mod timing;

use crate::task::{Members, Step};
use crate::units::{CellId, Nanos, Share};

/// The times of a device. Only [`CostModel::cell`] is needed; by default nothing else takes time. Cost tables, rooflines and GRNN's
/// model are combined in [`table::TableModel`].
pub trait CostModel: Send + Sync {
    /// The time of one run of a batched cell. It does not depend on [`Step::times`].
    fn cell(&self, step: &Step) -> Nanos;

    /// All [`Step::times`] runs of a step in a task of these members. Devices override this if a run costs less in a task of whole
    /// requests, or if a persistent kernel does all runs in one launch.
    fn runs(&self, step: &Step, _: MemberKind) -> Runs {
        Runs::repeated(self.cell(step), step)
    }

    /// One cost of a task beside the runs of its cells.
    fn extra(&self, _: Extra<'_>) -> Nanos {
        Nanos::ZERO
    }

    /// The share of the device that one run of the cell can use: min(1, batch / preferred batch), where the preferred batch is the
    /// smallest that fills the device. Tasks of several streams run at full speed as long as their demands sum to at most 1.
    fn demand(&self, _: &Step) -> Share {
        Share::WHOLE
    }

    /// The batch sizes for which the device has the cell, ascending; empty if it runs any size.
    fn batches(&self, _: CellId) -> &[u32] {
        &[]
    }
}

/// All runs of a step within a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    pub time: Nanos,
    /// One launch of a kernel that keeps the weights on chip does them all. It occupies the whole device.
    pub persistent: bool,
    /// The launch gathers the states and writes them back, so that the task pays neither [`Extra::Gather`] nor [`Extra::Requests`].
    pub moves_states: bool,
}

impl Runs {
    /// The runs of a step, each of which takes `one`.
    pub fn repeated(one: Nanos, step: &Step) -> Runs {
        Runs { time: one.saturating_mul(u64::from(step.times)), persistent: false, moves_states: false }
    }
}

/// What a task costs beside the runs of its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra<'a> {
    /// Every task of this batch size.
    Task(u32),
    /// From the submission of a task of this batch size to its earliest start: the decision, the hand-over, the wake-up. An idle
    /// worker stays idle during this time.
    Launch(u32),
    /// Gathering the states of a batch of this size.
    Gather(u32),
    /// The beginning and end of this number of requests, in a task of whole requests.
    Requests(u32),
    /// A step directly after a cell of another type on the same worker, whose weights have replaced its own in the caches.
    Switch(&'a Step, MemberKind),
    /// Passing this number of results, possibly 0, to the next level of a loop over levels.
    Copy(u32),
    /// Calling a cell on no rows in such a loop.
    EmptyCall,
}

/// The members of a task, as far as its time depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberKind {
    Nodes,
    Parts,
    Requests,
}

impl MemberKind {
    pub fn of(members: &Members<'_>) -> MemberKind {
        match members {
            Members::Nodes(_) => MemberKind::Nodes,
            Members::Parts(_) => MemberKind::Parts,
            Members::Requests => MemberKind::Requests,
        }
    }
}
