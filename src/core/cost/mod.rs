//! How long tasks take on the simulated device.

pub mod curve;
pub mod decoder;
pub mod grnn;
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
    /// One run of a batched cell, whatever [`Step::times`].
    fn cell(&self, step: &Step) -> Nanos;

    /// All [`Step::times`] runs. Overridden if a run costs less in a task of whole requests, or if a persistent kernel
    /// does all runs.
    fn runs(&self, step: &Step, _: MemberKind) -> Runs {
        Runs::repeated(self.cell(step), step)
    }

    /// One cost of a task beside the runs of its cells, by the number that [`Extra`] tells.
    fn extra(&self, _: Extra, _: u32) -> Nanos {
        Nanos::ZERO
    }

    /// The time of one of [`POLICY_ROWS`](crate::core::workload::row_names::POLICY_ROWS), which no device adds to a task
    /// by itself. A policy adds it to the [extra time](crate::core::task::ExtraTime) of its tasks.
    fn policy_row(&self, _name: &str, _count: u32) -> Nanos {
        Nanos::ZERO
    }

    /// Of a step after another cell type, whose weights have replaced its own in the caches.
    fn switch(&self, _: &Step, _: MemberKind) -> Nanos {
        Nanos::ZERO
    }

    /// The share of the device that a run can use: as measured, or min(1, batch / preferred batch). Tasks of several
    /// streams run at full speed while their demands sum to at most 1.
    fn demand(&self, _: &Step) -> Share {
        Share::WHOLE
    }

    /// Ascending batch sizes of the cell; empty if it runs any.
    fn batches(&self, _: CellId) -> &[u32] {
        &[]
    }

    /// The tokens whose keys and values fit beside a language model's weights; `None` if unknown.
    fn kv_tokens(&self) -> Option<u64> {
        None
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    pub time: Nanos,
    /// One launch does all runs with the weights on chip, and occupies the whole device.
    pub persistent: bool,
    /// The launch moves the states: no [`Extra::Gather`] and [`Extra::Requests`].
    pub moves_states: bool,
}

impl Runs {
    pub fn repeated(one: Nanos, step: &Step) -> Runs {
        Runs {
            time: one.saturating_mul(u64::from(step.times)),
            persistent: false,
            moves_states: false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// Of every task, by batch size.
    Task,
    /// From the submission to the earliest start on an idle worker, by batch size.
    Launch,
    /// Of the states, by batch size.
    Gather,
    /// Beginning and end of whole requests, by their number.
    Requests,
}

impl Extra {
    /// The names of its rows in a cost table, by variant.
    const ROWS: [&str; 4] = [TASK, LAUNCH, GATHER, WHOLE];
}

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
            Members::Requests | Members::Operators(_) => MemberKind::Requests,
        }
    }
}
