//! The costs of a model's cells on a device.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::base::units::{CellId, Nanos, Share};
use crate::core::cost::curve::{Best, Curve, on_line};
use crate::core::cost::decoder::Decoder;
use crate::core::cost::persistent::Persistent;
use crate::core::cost::roofline::Kernels;
use crate::core::cost::traffic::Traffic;
use crate::core::cost::{CostModel, Extra, MemberKind, Runs, operators};
use crate::core::task::Step;
use crate::core::workload::row_names::POLICY_ROWS;

#[derive(Clone, Debug)]
pub struct TableModel {
    pub(super) batches: Vec<Vec<u32>>,
    /// By cell.
    pub(super) steps: Vec<StepCosts>,
    pub(super) whole_steps: Vec<StepCosts>,
    /// By [`Extra`].
    pub(super) extras: [Option<Curve>; Extra::ROWS.len()],
    /// The curves of [`POLICY_ROWS`].
    pub(super) policy_rows: [Option<Curve>; POLICY_ROWS.len()],
    /// Of states that a task takes from other workers, by their number.
    pub transfer: Option<Curve>,
    pub(super) operators: Vec<OperatorCosts>,
    pub(super) kernel: Option<Curve>,
    pub(super) persistent: Option<Arc<Persistent>>,
    pub(super) kv_tokens: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct StepCosts {
    pub run: CellCosts,
    /// Extra time after a cell of another type.
    pub switch: Option<CellCosts>,
    /// The demands that were measured, in units of [`PARTS`].
    pub demand: Option<Rows>,
    pub traffic: Option<Arc<Traffic>>,
}

/// The whole device: rows of demands are in parts per million of it.
pub(super) const PARTS: u32 = 1_000_000;

impl StepCosts {
    /// The share of the device that the step uses: that of the rows of demands. Without such rows it follows from the
    /// preferred batch, and is at least what the step moves in its time if the device's bandwidth is known.
    fn demand(&self, step: &Step) -> Share {
        if let Some(rows) = &self.demand {
            return Share::of(rows.held(step), PARTS);
        }
        let share = Share::of(step.batch, self.run.preferred(step.input));
        let moved =
            |traffic: &Arc<Traffic>| traffic.share(step.batch, step.input, self.run.at(step));
        self.traffic
            .as_ref()
            .map_or(share, |traffic| share.max(moved(traffic)))
    }
}

#[derive(Clone, Debug)]
pub(super) enum OperatorCosts {
    Own(Box<StepCosts>),
    Share(operators::Share),
}

impl TableModel {
    /// Batches measured at every input size.
    pub fn measured(&self, cell: CellId) -> RangeInclusive<u32> {
        let (costs, scale) = self.costs(cell);
        let range = costs.run.measured();
        range.start().saturating_mul(scale)..=range.end().saturating_mul(scale)
    }

    /// Of a step, or of the cell whose share it takes; and its rows for each node of that cell.
    fn costs(&self, step: CellId) -> (&StepCosts, u32) {
        match self.operator(step) {
            None => (&self.steps[step.index()], 1),
            Some(OperatorCosts::Own(costs)) => (costs, 1),
            Some(OperatorCosts::Share(share)) => {
                (&self.steps[share.cell.index()], share.rows_of_node)
            }
        }
    }

    fn operator(&self, step: CellId) -> Option<&OperatorCosts> {
        self.operators
            .get(step.index().checked_sub(self.steps.len())?)
    }

    fn of(&self, members: MemberKind) -> &[StepCosts] {
        if members == MemberKind::Requests {
            &self.whole_steps
        } else {
            &self.steps
        }
    }

    fn run(&self, costs: &[StepCosts], step: &Step) -> Nanos {
        let time = match self.operator(step.cell) {
            None => return costs[step.cell.index()].run.at(step),
            Some(OperatorCosts::Own(costs)) => costs.run.at(step),
            Some(OperatorCosts::Share(share)) => {
                let of_cell = Step {
                    cell: share.cell,
                    batch: share.nodes(step.batch),
                    ..*step
                };
                let (own, all) = share.at(step.batch);
                let time = self.whole_steps[share.cell.index()].run.at(&of_cell);
                // At most the cell's own time, rounded half up.
                Nanos(
                    ((2 * u128::from(time.0) * u128::from(own) + u128::from(all))
                        / (2 * u128::from(all))) as u64,
                )
            }
        };
        time.max(
            self.kernel
                .as_ref()
                .map_or(Nanos::ZERO, |least| least.at(step.batch)),
        )
    }

    /// In any kind of task, in batches up to `largest` and the table's largest.
    pub fn best(&self, cell: CellId, input: u32, largest: u32) -> Best {
        let [steps, whole] = [&self.steps, &self.whole_steps]
            .map(|costs| costs[cell.index()].run.best(input, largest));
        self.persistent
            .iter()
            .fold(steps.or(whole), |best, kernels| {
                best.or(kernels.best(largest))
            })
    }

    /// As [`TableModel::measured`], in tasks of whole requests and of parts.
    pub fn measured_of_several_steps(&self, cell: CellId) -> RangeInclusive<u32> {
        match &self.persistent {
            Some(kernels) if self.operator(cell).is_none() => kernels.measured(),
            _ => self.measured(cell),
        }
    }

    /// The smallest in the rows of a cell's demands, as a fraction of the device; `None` without such rows.
    pub fn least_demand(&self, cell: CellId) -> Option<f64> {
        let rows = self.costs(cell).0.demand.as_ref()?;
        let least = rows.by_input.iter().map(|(_, curve)| curve.least()).min()?;
        Some(least.0 as f64 / f64::from(PARTS))
    }

    /// The [preferred batch](crate::core::cost::curve::preferred) of a cell; `None` for operators.
    pub fn preferred(&self, cell: CellId, input: u32) -> Option<u32> {
        self.steps
            .get(cell.index())
            .map(|costs| costs.run.preferred(input))
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
            return Runs {
                time,
                persistent: true,
                moves_states: kernels.moves_states(),
            };
        }
        Runs::repeated(self.run(self.of(members), step), step)
    }

    #[inline]
    fn extra(&self, extra: Extra, count: u32) -> Nanos {
        self.extras[extra as usize]
            .as_ref()
            .map_or(Nanos::ZERO, |curve| curve.at(count))
    }

    fn policy_row(&self, name: &str, count: u32) -> Nanos {
        let place = POLICY_ROWS.iter().position(|row| *row == name);
        match place.and_then(|place| self.policy_rows[place].as_ref()) {
            Some(curve) => curve.at(count),
            None => Nanos::ZERO,
        }
    }

    fn switch(&self, step: &Step, members: MemberKind) -> Nanos {
        let costs = self.of(members).get(step.cell.index());
        costs
            .and_then(|costs| costs.switch.as_ref())
            .map_or(Nanos::ZERO, |switch| switch.at(step))
    }

    /// An operator without rows has its cell's.
    fn demand(&self, step: &Step) -> Share {
        let (costs, rows_of_node) = self.costs(step.cell);
        costs.demand(&Step {
            batch: step.batch.div_ceil(rows_of_node),
            ..*step
        })
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
        let fitting = self
            .by_input
            .partition_point(|(size, _)| *size < input)
            .min(self.by_input.len() - 1);
        &self.by_input[fitting..]
    }

    /// Between the rows of the next size; outside, the value of the nearest row.
    fn held(&self, step: &Step) -> u32 {
        let curve = &self.from(step.input)[0].1;
        curve.at(step.batch.min(*curve.measured().end())).0 as u32
    }

    /// Linear between the two next inputs, and beyond the last two; flat below the first. Rounded half up.
    fn between(&self, batch: u32, input: u32) -> Nanos {
        let next = self
            .by_input
            .partition_point(|(size, _)| *size < input)
            .min(self.by_input.len() - 1);
        let points = [next.max(1) - 1, next.max(1)].map(|place| &self.by_input[place]);
        on_line(
            points.map(|(input, curve)| (*input, curve.at(batch).0)),
            input.max(points[0].0),
        )
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
                let of_each = rows
                    .from(input)
                    .iter()
                    .map(|(_, curve)| curve.best(largest));
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
