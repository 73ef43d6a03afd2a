//! How long a task takes on the simulated device.

mod cell;
pub mod curve;
pub mod grnn;
pub mod operators;
pub mod persistent;
pub mod preferred;
pub mod roofline;
pub mod slice;
pub mod table;
pub mod timing;

use crate::task::Step;
use crate::units::{CellId, Nanos, Share};

/// Gives the simulated backend its times. A profiled table is one; a roofline or a performance model can be another.
pub trait CostModel: Send + Sync {
    /// The time of one run of a batched cell; [`Step::times`] plays no part.
    fn cell(&self, step: &Step) -> Nanos;

    /// The batch sizes at which the device runs a cell, ascending; empty where it runs all.
    fn batches(&self, _: CellId) -> &[u32] {
        &[]
    }

    /// How much of the device a run of the cell can use: min(1, batch / preferred batch), where the preferred batch is the smallest that
    /// fills the device. Tasks of several streams run beside each other at full speed as long as their demands fit.
    fn demand(&self, _: &Step) -> Share {
        Share::WHOLE
    }

    /// How much longer a run takes directly behind a cell of another type on the same worker, whose weights have taken the
    /// place of its own in the caches.
    fn switch(&self, _: &Step) -> Nanos {
        Nanos::ZERO
    }

    /// As [`CostModel::cell`], inside a task of whole requests, whose steps follow each other without a hand-over.
    fn cell_of_whole(&self, step: &Step) -> Nanos {
        self.cell(step)
    }

    /// As [`CostModel::switch`], on top of [`CostModel::cell_of_whole`].
    fn switch_of_whole(&self, step: &Step) -> Nanos {
        self.switch(step)
    }

    /// What a task of so many whole requests takes beside its steps and what every task costs: the requests begin and end.
    fn whole(&self, _requests: u32) -> Nanos {
        Nanos::ZERO
    }

    /// The time of all runs of a step in one launch of a kernel that keeps the weights on chip, where the device has one for the cell
    /// ([`grnn`]). Tasks of whole requests, and of parts of them, run their steps so.
    fn persistent(&self, _: &Step) -> Option<Nanos> {
        None
    }

    /// Whether it is part of such launches of a cell that the requests' states come together and go back, so that a task of them pays neither
    /// [`CostModel::gather`] nor [`CostModel::whole`].
    fn moves_states(&self, _: CellId) -> bool {
        false
    }

    /// The time to hand so many results on to the next level of a loop over levels; with none of them it is called all the same.
    fn copy(&self, _rows: u32) -> Nanos {
        Nanos::ZERO
    }

    /// The time of a cell's call on no rows in such a loop.
    fn empty_call(&self) -> Nanos {
        Nanos::ZERO
    }

    /// The time to bring the states of a batch of so many nodes together.
    fn gather(&self, batch: u32) -> Nanos;

    /// What a task of this batch costs beside its cells.
    fn task(&self, batch: u32) -> Nanos;

    /// From the instant at which a task of this batch is submitted to the earliest at which it can start, during which
    /// an idle worker stays idle: the decision, the hand-over, the wake-up.
    fn launch(&self, batch: u32) -> Nanos;
}
