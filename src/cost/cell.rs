use std::ops::RangeInclusive;
use std::sync::Arc;

use super::curve::{Best, Curve};
use super::persistent::Persistent;
use super::roofline::Kernels;
use crate::task::Step;
use crate::units::Nanos;

/// The times of one cell.
#[derive(Clone, Debug)]
pub enum CellCosts {
    /// From rows of the table.
    Rows(Rows),
    /// Computed from its operators.
    Computed(Arc<Kernels>),
    /// Each step is a launch of the persistent kernel.
    Persistent(Arc<Persistent>),
}

/// The curves of one cell by input size, ascending. A cell without sizes has one curve, at 0.
#[derive(Clone, Debug)]
pub struct Rows {
    pub by_input: Vec<(u32, Curve)>,
}

impl Rows {
    /// The curves for inputs of at least this size; the last one for larger inputs.
    fn from(&self, input: u32) -> &[(u32, Curve)] {
        let fitting = self.by_input.partition_point(|(size, _)| *size < input).min(self.by_input.len() - 1);
        &self.by_input[fitting..]
    }

    /// The batches between the smallest and the largest of every curve.
    pub fn measured(&self) -> RangeInclusive<u32> {
        let ranges = || self.by_input.iter().map(|(_, curve)| curve.measured());
        let smallest = ranges().map(|range| *range.start()).max().unwrap_or(0);
        smallest..=ranges().map(|range| *range.end()).min().unwrap_or(u32::MAX)
    }
}

impl CellCosts {
    /// A cell that takes no time.
    pub fn nothing() -> CellCosts {
        CellCosts::Rows(Rows { by_input: vec![(0, Curve::constant(Nanos::ZERO))] })
    }

    /// The time of a step. In a table, a smaller input is padded to the next measured size.
    pub fn at(&self, step: &Step) -> Nanos {
        match self {
            CellCosts::Rows(rows) => rows.from(step.input)[0].1.at(step.batch),
            CellCosts::Computed(kernels) => kernels.at(step.batch, step.input),
            CellCosts::Persistent(kernels) => kernels.runs(step.batch, 1),
        }
    }

    /// The batch that fills the device, for inputs of this size.
    pub fn preferred(&self, input: u32) -> u32 {
        match self {
            CellCosts::Rows(rows) => rows.from(input)[0].1.preferred(),
            CellCosts::Computed(kernels) => kernels.preferred(input),
            CellCosts::Persistent(kernels) => kernels.preferred(),
        }
    }

    /// The least cost of a step with this input, which may run padded to a larger one.
    pub fn best(&self, input: u32, largest: u32) -> Best {
        match self {
            CellCosts::Rows(rows) => {
                let of_each = rows.from(input).iter().map(|(_, curve)| curve.best(largest));
                of_each.reduce(Best::or).expect("a cell has a curve")
            }
            CellCosts::Computed(kernels) => kernels.best(input, largest),
            CellCosts::Persistent(kernels) => kernels.best(largest),
        }
    }

    /// The batches whose times are not extrapolated.
    pub fn measured(&self) -> RangeInclusive<u32> {
        match self {
            CellCosts::Rows(rows) => rows.measured(),
            CellCosts::Computed(_) => 1..=u32::MAX,
            CellCosts::Persistent(kernels) => kernels.measured(),
        }
    }
}
