//! The costs of a model's cells on a device.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::cost::curve::{Best, Curve};
use crate::cost::decoder::Decoder;
use crate::cost::persistent::Persistent;
use crate::cost::roofline::Kernels;
use crate::cost::{CostModel, Extra, MemberKind, Runs, operators};
use crate::task::Step;
use crate::units::{CellId, Nanos, Share};

#[derive(Clone, Debug)]
pub struct TableModel {
    pub(super) batches: Vec<Vec<u32>>,
    pub(super) steps: StepCosts,
    pub(super) whole_steps: StepCosts,
    pub(super) whole: Curve,
    pub(super) copy: Curve,
    /// Of states that a task takes from other workers, by their number.
    pub transfer: Option<Curve>,
    pub(super) empty: Curve,
    pub(super) task: Curve,
    pub(super) gather: Curve,
    pub(super) launch: Curve,
    pub(super) operators: Vec<OperatorCosts>,
    pub(super) kernel: Curve,
    pub(super) persistent: Option<Arc<Persistent>>,
    pub(super) kv_tokens: Option<u64>,
}

/// By cell.
#[derive(Clone, Debug, Default)]
pub(super) struct StepCosts {
    cells: Vec<CellCosts>,
    /// Extra time after a cell of another type.
    switches: Vec<Option<CellCosts>>,
}

impl StepCosts {
    pub(super) fn push(&mut self, (costs, switch): (CellCosts, Option<CellCosts>)) {
        self.cells.push(costs);
        self.switches.push(switch);
    }
}

#[derive(Clone, Debug)]
pub(super) enum OperatorCosts {
    Own(CellCosts),
    Share(operators::Share),
}

impl TableModel {
    /// Batches measured at every input size.
    pub fn measured(&self, cell: CellId) -> RangeInclusive<u32> {
        let (costs, scale) = self.costs(cell);
        let range = costs.measured();
        range.start().saturating_mul(scale)..=range.end().saturating_mul(scale)
    }

    /// Of a step, or of the cell whose share it takes; and its rows for each node of that cell.
    fn costs(&self, step: CellId) -> (&CellCosts, u32) {
        match self.operator(step) {
            None => (&self.steps.cells[step.index()], 1),
            Some(OperatorCosts::Own(costs)) => (costs, 1),
            Some(OperatorCosts::Share(share)) => (&self.steps.cells[share.cell.index()], share.rows_of_node),
        }
    }

    fn operator(&self, step: CellId) -> Option<&OperatorCosts> {
        self.operators.get(step.index().checked_sub(self.steps.cells.len())?)
    }

    fn of(&self, members: MemberKind) -> &StepCosts {
        if members == MemberKind::Requests { &self.whole_steps } else { &self.steps }
    }

    fn run(&self, costs: &StepCosts, step: &Step) -> Nanos {
        match self.operator(step.cell) {
            Some(costs) => self.operator_at(costs, step),
            None => costs.cells[step.cell.index()].at(step),
        }
    }

    fn operator_at(&self, costs: &OperatorCosts, step: &Step) -> Nanos {
        let time = match costs {
            OperatorCosts::Own(rows) => rows.at(step),
            OperatorCosts::Share(share) => {
                let of_cell = Step { cell: share.cell, batch: share.nodes(step.batch), ..*step };
                let (own, all) = share.at(step.batch);
                let time = self.whole_steps.cells[share.cell.index()].at(&of_cell);
                // At most the cell's own time, rounded half up.
                Nanos(((2 * u128::from(time.0) * u128::from(own) + u128::from(all)) / (2 * u128::from(all))) as u64)
            }
        };
        time.max(self.kernel.at(step.batch))
    }

    /// In any kind of task, in batches up to `largest` and the table's largest.
    pub fn best(&self, cell: CellId, input: u32, largest: u32) -> Best {
        let [steps, whole] =
            [&self.steps, &self.whole_steps].map(|costs| costs.cells[cell.index()].best(input, largest));
        self.persistent.iter().fold(steps.or(whole), |best, kernels| best.or(kernels.best(largest)))
    }

    /// As [`TableModel::measured`], in tasks of whole requests and of parts.
    pub fn measured_of_several_steps(&self, cell: CellId) -> RangeInclusive<u32> {
        match &self.persistent {
            Some(kernels) if self.operator(cell).is_none() => kernels.measured(),
            _ => self.measured(cell),
        }
    }

    /// The [preferred batch](crate::cost::curve::preferred) of a cell; `None` for operators.
    pub fn preferred(&self, cell: CellId, input: u32) -> Option<u32> {
        self.steps.cells.get(cell.index()).map(|costs| costs.preferred(input))
    }
}

impl CostModel for TableModel {
    fn cell(&self, step: &Step) -> Nanos {
        self.run(&self.steps, step)
    }

    #[inline]
    fn runs(&self, step: &Step, members: MemberKind) -> Runs {
        if members != MemberKind::Nodes
            && let Some(kernels) = &self.persistent
            && self.operator(step.cell).is_none()
        {
            let time = kernels.runs(step.batch, step.times);
            return Runs { time, persistent: true, moves_states: kernels.moves_states() };
        }
        Runs::repeated(self.run(self.of(members), step), step)
    }

    #[inline]
    fn extra(&self, extra: Extra<'_>) -> Nanos {
        match extra {
            Extra::Task(batch) => self.task.at(batch),
            Extra::Launch(batch) => self.launch.at(batch),
            Extra::Gather(batch) => self.gather.at(batch),
            Extra::Requests(requests) => self.whole.at(requests),
            Extra::Switch(step, members) => {
                let switch = self.of(members).switches.get(step.cell.index());
                switch.and_then(Option::as_ref).map_or(Nanos::ZERO, |costs| costs.at(step))
            }
            Extra::Copy(rows) => self.copy.at(rows),
            Extra::EmptyCall => self.empty.at(1),
        }
    }

    /// By the preferred batch; an operator without rows has its cell's.
    fn demand(&self, step: &Step) -> Share {
        let (costs, rows_of_node) = self.costs(step.cell);
        Share::of(step.batch.div_ceil(rows_of_node), costs.preferred(step.input))
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        self.batches.get(cell.index()).map_or(&[], |sizes| sizes)
    }

    fn kv_tokens(&self) -> Option<u64> {
        self.kv_tokens
    }
}

#[derive(Clone, Debug)]
pub enum CellCosts {
    Rows(Rows),
    Computed(Arc<Kernels>),
    Persistent(Arc<Persistent>),
    /// By the tokens fed (batch) and the context read (input).
    Grid(Rows),
    Decoder(Arc<Decoder>),
}

/// A cell's curves by input size, ascending; without sizes one curve at 0.
#[derive(Clone, Debug)]
pub struct Rows {
    pub by_input: Vec<(u32, Curve)>,
}

impl Rows {
    fn from(&self, input: u32) -> &[(u32, Curve)] {
        let fitting = self.by_input.partition_point(|(size, _)| *size < input).min(self.by_input.len() - 1);
        &self.by_input[fitting..]
    }

    /// Linear between the two next inputs, and beyond the last two; flat below the first. Rounded half up.
    fn between(&self, batch: u32, input: u32) -> Nanos {
        let next = self.by_input.partition_point(|(size, _)| *size < input).min(self.by_input.len() - 1);
        let ((low, before), (high, after)) = (&self.by_input[next.max(1) - 1], &self.by_input[next.max(1)]);
        let [from, to] = [before, after].map(|curve| i128::from(curve.at(batch).0));
        let span = i128::from(high - low);
        let scaled = from * span + (to - from) * i128::from(input.saturating_sub(*low));
        Nanos((2 * scaled + span).div_euclid(2 * span).clamp(0, u64::MAX.into()) as u64)
    }

    pub fn measured(&self) -> RangeInclusive<u32> {
        let ranges = || self.by_input.iter().map(|(_, curve)| curve.measured());
        let smallest = ranges().map(|range| *range.start()).max().unwrap_or(0);
        smallest..=ranges().map(|range| *range.end()).min().unwrap_or(u32::MAX)
    }
}

impl CellCosts {
    /// A smaller input is padded to the next measured size.
    pub fn at(&self, step: &Step) -> Nanos {
        match self {
            CellCosts::Rows(rows) => rows.from(step.input)[0].1.at(step.batch),
            CellCosts::Computed(kernels) => kernels.at(step.batch, step.input),
            CellCosts::Persistent(kernels) => kernels.runs(step.batch, 1),
            CellCosts::Grid(rows) => rows.between(step.batch, step.input),
            CellCosts::Decoder(decoder) => decoder.iteration(step.batch, step.input),
        }
    }

    pub fn preferred(&self, input: u32) -> u32 {
        match self {
            CellCosts::Rows(rows) => rows.from(input)[0].1.preferred(),
            CellCosts::Computed(kernels) => kernels.preferred(input),
            CellCosts::Persistent(kernels) => kernels.preferred(),
            CellCosts::Grid(_) | CellCosts::Decoder(_) => 1,
        }
    }

    pub fn best(&self, input: u32, largest: u32) -> Best {
        match self {
            CellCosts::Rows(rows) | CellCosts::Grid(rows) => {
                let of_each = rows.from(input).iter().map(|(_, curve)| curve.best(largest));
                of_each.reduce(Best::or).expect("a cell has a curve")
            }
            CellCosts::Computed(kernels) => kernels.best(input, largest),
            CellCosts::Persistent(kernels) => kernels.best(largest),
            CellCosts::Decoder(decoder) => Best::of(1, decoder.iteration(1, 1)),
        }
    }

    pub fn measured(&self) -> RangeInclusive<u32> {
        match self {
            CellCosts::Rows(rows) | CellCosts::Grid(rows) => rows.measured(),
            CellCosts::Computed(_) | CellCosts::Decoder(_) => 1..=u32::MAX,
            CellCosts::Persistent(kernels) => kernels.measured(),
        }
    }
}
