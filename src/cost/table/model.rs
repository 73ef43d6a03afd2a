//! The costs of a table's cells, for one model on one device.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::cost::cell::CellCosts;
use crate::cost::curve::{Best, Curve};
use crate::cost::persistent::Persistent;
use crate::cost::{CostModel, operators};
use crate::task::Step;
use crate::units::{CellId, Nanos, Share};

/// A cost table made ready for one model on one device.
#[derive(Clone, Debug)]
pub struct TableModel {
    /// The batch sizes that the device has for each cell.
    pub(super) batches: Vec<Vec<u32>>,
    pub(super) cells: Vec<CellCosts>,
    /// What comes on top of each cell behind another.
    pub(super) switches: Vec<CellCosts>,
    /// Both inside of tasks of whole requests.
    pub(super) whole_cells: Vec<CellCosts>,
    pub(super) whole_switches: Vec<CellCosts>,
    pub(super) whole: Curve,
    pub(super) copy: Curve,
    pub(super) empty: Curve,
    pub(super) task: Curve,
    pub(super) gather: Curve,
    pub(super) launch: Curve,
    /// What the numbers behind those of the cells stand for.
    pub(super) operators: Vec<OperatorCosts>,
    pub(super) kernel: Curve,
    /// The kernels that run several steps in one launch; only models of one cell have them.
    pub(super) persistent: Option<Arc<Persistent>>,
}

/// Where the costs of an operator come from.
#[derive(Clone, Debug)]
pub(super) enum OperatorCosts {
    Own(CellCosts),
    Share(operators::Share),
}

impl TableModel {
    /// The batches between the smallest and the largest that the table has for a cell, at each of its input sizes.
    pub fn measured(&self, cell: CellId) -> RangeInclusive<u32> {
        let (costs, scale) = match self.operator(cell) {
            None => (&self.cells[cell.index()], 1),
            Some(OperatorCosts::Own(costs)) => (costs, 1),
            Some(OperatorCosts::Share(share)) => (&self.cells[share.cell.index()], share.rows_of_node),
        };
        let range = costs.measured();
        range.start().saturating_mul(scale)..=range.end().saturating_mul(scale)
    }

    /// The costs of a step that is an operator.
    fn operator(&self, step: CellId) -> Option<&OperatorCosts> {
        self.operators.get(step.index().checked_sub(self.cells.len())?)
    }

    fn operator_at(&self, costs: &OperatorCosts, step: &Step) -> Nanos {
        let time = match costs {
            OperatorCosts::Own(rows) => rows.at(step),
            OperatorCosts::Share(share) => {
                let of_cell = Step { cell: share.cell, batch: share.nodes(step.batch), ..*step };
                let (own, all) = share.at(step.batch);
                let time = self.whole_cells[share.cell.index()].at(&of_cell);
                // At most the cell's own time, half up.
                Nanos(((2 * u128::from(time.0) * u128::from(own) + u128::from(all)) / (2 * u128::from(all))) as u64)
            }
        };
        time.max(self.kernel.at(step.batch))
    }

    /// The least that a cell with an input of this size takes, in any kind of task and in batches up to `largest` and up to the
    /// largest of the table.
    pub fn best(&self, cell: CellId, input: u32, largest: u32) -> Best {
        let of_cells =
            self.cells[cell.index()].best(input, largest).or(self.whole_cells[cell.index()].best(input, largest));
        self.persistent.iter().fold(of_cells, |best, kernels| best.or(kernels.best(largest)))
    }

    /// As [`TableModel::measured`], in tasks of whole requests and of parts of them, which may run in persistent kernels.
    pub fn measured_of_several_steps(&self, cell: CellId) -> RangeInclusive<u32> {
        match &self.persistent {
            Some(kernels) if self.operator(cell).is_none() => kernels.measured(),
            _ => self.measured(cell),
        }
    }

    /// The batch of a cell that fills the device, for inputs of this size: the smallest power of two whose doubling takes at least half as
    /// long again. Of operators of cells nothing is said.
    pub fn preferred(&self, cell: CellId, input: u32) -> Option<u32> {
        self.cells.get(cell.index()).map(|costs| costs.preferred(input))
    }
}

impl CostModel for TableModel {
    fn cell(&self, step: &Step) -> Nanos {
        match self.operator(step.cell) {
            Some(costs) => self.operator_at(costs, step),
            None => self.cells[step.cell.index()].at(step),
        }
    }

    /// By the preferred batch of the cell, and of an operator without rows of its own by that of its cell.
    fn demand(&self, step: &Step) -> Share {
        let (costs, batch) = match self.operator(step.cell) {
            None => (&self.cells[step.cell.index()], step.batch),
            Some(OperatorCosts::Own(costs)) => (costs, step.batch),
            Some(OperatorCosts::Share(share)) => (&self.cells[share.cell.index()], share.nodes(step.batch)),
        };
        Share::of(batch, costs.preferred(step.input))
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        // Operators, whose numbers stand behind those of the cells, have no batch sizes of their own.
        self.batches.get(cell.index()).map_or(&[], |sizes| sizes)
    }

    fn switch(&self, step: &Step) -> Nanos {
        self.switches.get(step.cell.index()).map_or(Nanos::ZERO, |costs| costs.at(step))
    }

    fn cell_of_whole(&self, step: &Step) -> Nanos {
        match self.operator(step.cell) {
            Some(costs) => self.operator_at(costs, step),
            None => self.whole_cells[step.cell.index()].at(step),
        }
    }

    fn switch_of_whole(&self, step: &Step) -> Nanos {
        self.whole_switches.get(step.cell.index()).map_or(Nanos::ZERO, |costs| costs.at(step))
    }

    fn persistent(&self, step: &Step) -> Option<Nanos> {
        let kernels = self.persistent.as_ref().filter(|_| self.operator(step.cell).is_none())?;
        Some(kernels.runs(step.batch, step.times))
    }

    fn moves_states(&self, cell: CellId) -> bool {
        self.persistent.as_ref().is_some_and(|kernels| kernels.moves_states()) && self.operator(cell).is_none()
    }

    fn whole(&self, requests: u32) -> Nanos {
        self.whole.at(requests)
    }

    fn copy(&self, rows: u32) -> Nanos {
        self.copy.at(rows)
    }

    fn empty_call(&self) -> Nanos {
        self.empty.at(1)
    }

    fn gather(&self, batch: u32) -> Nanos {
        self.gather.at(batch)
    }

    fn task(&self, batch: u32) -> Nanos {
        self.task.at(batch)
    }

    fn launch(&self, batch: u32) -> Nanos {
        self.launch.at(batch)
    }
}
