//! How long tasks take on the simulated device.

pub mod curve;
pub mod decoder;
pub mod grnn;
mod known_tasks;
pub mod noise;
pub mod operators;
pub mod persistent;
pub mod roofline;
pub mod slice;
pub mod table;
pub mod task_times;
pub mod timing;
pub mod traffic;

use crate::base::units::{CellId, Nanos, Share};
use crate::core::task::{Members, Step};
use crate::core::workload::row_names::{GATHER, LAUNCH, TASK, WHOLE};

/// The times of a device. By default only [`CostModel::cell`] takes time. [`table::TableCosts`] combines cost tables,
/// rooflines and GRNN's model.
pub trait CostModel: Send + Sync {
    /// The time of one run of a batched cell, whatever [`Step::times`] is.
    fn cell(&self, step: &Step) -> Nanos;

    /// The time of all [`Step::times`] runs. A device overrides it if a run costs less in a task of whole requests, or
    /// if a persistent kernel does all runs.
    fn runs(&self, step: &Step, _: MemberKind) -> Runs {
        Runs::repeat(self.cell(step), step)
    }

    /// One cost of a task in addition to the runs of its cells. [`Extra`] says what is counted.
    fn extra(&self, _: Extra, _: u32) -> Nanos {
        Nanos::ZERO
    }

    /// The time from the submission to the earliest start on an idle worker.
    fn launch(&self, batch: u32, _gather: bool) -> Nanos {
        self.extra(Extra::Launch, batch)
    }

    /// The extra time of a launch for each further task of the worker's last decision: the host has to handle the ends
    /// of its tasks and the requests that arrived meanwhile.
    fn further_launch(&self, _batch: u32) -> Option<Nanos> {
        None
    }

    /// What it costs that the rows of a step of whole requests are not those of its cell's step before. `earlier` are
    /// the steps of the task before this one.
    fn row_change(&self, _step: &Step, _earlier: &[Step]) -> RowChange {
        RowChange::default()
    }

    /// The time by which a task takes longer if this number of chains joins those whose rows stay in place. `None` if the
    /// device has no such rows: the task then pays [`Extra::Gather`].
    fn change(&self, _joined: u32) -> Option<Nanos> {
        None
    }

    /// The time of one of [`POLICY_ROWS`](crate::core::workload::row_names::POLICY_ROWS), which no device adds to a
    /// task by itself. A policy adds it to the [extra time](crate::core::task::ExtraTime) of its tasks.
    fn policy_row(&self, _name: &str, _count: u32) -> Nanos {
        Nanos::ZERO
    }

    /// The extra time of a step after another cell type, whose weights have replaced its own in the caches.
    fn switch(&self, _: &Step, _: MemberKind) -> Nanos {
        Nanos::ZERO
    }

    /// The share of the device that a run can use: as measured, or min(1, batch / preferred batch). Tasks of several
    /// streams run at full speed while their demands sum to at most 1.
    fn demand(&self, _: &Step) -> Share {
        Share::WHOLE
    }

    /// The batch sizes of the cell, ascending; empty if it runs any.
    fn batches(&self, _: CellId) -> &[u32] {
        &[]
    }

    /// The tokens whose keys and values fit in memory next to a language model's weights; `None` if unknown.
    fn kv_tokens(&self) -> Option<u64> {
        None
    }
}

/// The time of all runs of a step, and how they are launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    pub time: Nanos,
    /// Whether one launch does all runs with the weights on chip, and occupies the whole device.
    pub persistent: bool,
    /// Whether the launch moves the states, so that a task does not pay for [`Extra::Gather`] and [`Extra::Requests`].
    pub moves_states: bool,
}

impl Runs {
    /// Runs that are launched one after another.
    pub fn repeat(one: Nanos, step: &Step) -> Runs {
        Runs {
            time: one.saturating_mul(u64::from(step.times)),
            persistent: false,
            moves_states: false,
        }
    }
}

/// The cost of new rows in a step of whole requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowChange {
    /// The time of the host that queues the step. It is hidden while the device still runs earlier steps.
    pub host: Nanos,
    /// The time of the device that collects the rows.
    pub device: Nanos,
    /// Whether each run of the step has new rows, as in trees, and not only the first.
    pub in_each_run: bool,
}

/// The costs of a task in addition to the runs of its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// The overhead of every task, by batch size.
    Task,
    /// The time from the submission to the earliest start on an idle worker, by batch size.
    Launch,
    /// The time of gathering the states, by batch size.
    Gather,
    /// The time of beginning and ending whole requests, by their number.
    Requests,
}

impl Extra {
    /// The name of each variant's rows in a cost table.
    const ROWS: [&str; 4] = [TASK, LAUNCH, GATHER, WHOLE];
}

/// The kinds of [`Members`] that a task can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberKind {
    Nodes,
    Parts,
    Requests,
}

impl MemberKind {
    pub fn from_members(members: &Members<'_>) -> MemberKind {
        match members {
            Members::Nodes(_) => MemberKind::Nodes,
            Members::Parts(_) => MemberKind::Parts,
            Members::Requests | Members::Operators(_) => MemberKind::Requests,
        }
    }
}
