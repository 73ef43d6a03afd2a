//! The costs of a model's cells and operators on a device.

use std::cmp::Ordering;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::cell_time::{CellTime, CurvesByInput};
use crate::base::units::{CellId, Nanos, Share};
use crate::core::cost::curve::{Best, Curve};
use crate::core::cost::persistent::PersistentKernels;
use crate::core::cost::traffic::Traffic;
use crate::core::cost::{CostModel, Extra, MemberKind, RowChange, Runs, operators};
use crate::core::task::Step;
use crate::core::workload::row_names::POLICY_ROWS;

/// The cost model that a [`CostTable`](super::CostTable) gives for the cells of one model.
#[derive(Clone, Debug)]
pub struct TableCosts {
    /// The supported batch sizes of each cell.
    pub(super) batches: Vec<Vec<u32>>,
    /// The costs of each cell's steps in tasks of nodes or parts.
    pub(super) steps: Vec<StepCosts>,
    /// The costs of each cell's steps in tasks of whole requests.
    pub(super) whole_steps: Vec<StepCosts>,
    /// The curve of each [`Extra`].
    pub(super) extras: [Option<Curve>; Extra::ROWS.len()],
    pub(super) launches: LaunchCosts,
    pub(super) row_changes: Option<RowChangeCosts>,
    /// The time of chains that join, by their number.
    pub(super) change: Option<Curve>,
    /// The curves of [`POLICY_ROWS`].
    pub(super) policy_rows: [Option<Curve>; POLICY_ROWS.len()],
    /// The time of copying states from other workers, by their number.
    pub transfer: Option<Curve>,
    /// The costs of each operator, if steps may be operators.
    pub(super) operators: Vec<OperatorCosts>,
    /// The least time of a launch of operators, by rows.
    pub(super) kernel: Option<Curve>,
    pub(super) persistent: Option<Arc<PersistentKernels>>,
    pub(super) kv_tokens: Option<u64>,
}

/// The costs of launches that depend on more than the batch.
#[derive(Clone, Debug, Default)]
pub(super) struct LaunchCosts {
    /// The launch of a task that gathers, if it differs from that of others.
    pub gather: Option<Curve>,
    /// The extra time for each further task of the last decision.
    pub further: Option<Curve>,
}

/// The costs of new rows in steps of whole requests.
#[derive(Clone, Debug)]
pub(super) struct RowChangeCosts {
    /// Whether the rows of each cell stay from step to step.
    pub stays: Vec<bool>,
    pub shrink: Option<Curve>,
    pub grow: Option<Curve>,
    pub host: Option<Curve>,
}

impl RowChangeCosts {
    fn change(&self, step: &Step, earlier: &[Step]) -> RowChange {
        let Some(stays) = self.stays.get(step.cell.index()) else {
            return RowChange::default();
        };
        let before = earlier.iter().rev().find(|other| other.cell == step.cell);
        let device = match before.map(|before| step.batch.cmp(&before.batch)) {
            None => None,
            Some(Ordering::Equal) if *stays => return RowChange::default(),
            Some(Ordering::Equal) => None,
            Some(Ordering::Less) => self.shrink.as_ref(),
            Some(Ordering::Greater) => self.grow.as_ref(),
        };
        let time =
            |curve: Option<&Curve>| curve.map_or(Nanos::ZERO, |curve| curve.time(step.batch));
        RowChange {
            host: time(self.host.as_ref()),
            device: time(device),
            in_each_run: !stays,
        }
    }
}

/// The costs of a step.
#[derive(Clone, Debug)]
pub(super) struct StepCosts {
    pub run: CellTime,
    /// The extra time after a cell of another type.
    pub switch: Option<CellTime>,
    /// The demands that were measured, in units of [`PARTS`].
    pub demand: Option<CurvesByInput>,
    pub traffic: Option<Arc<Traffic>>,
}

/// The whole device: rows of demands are in parts per million of it.
pub(super) const PARTS: u32 = 1_000_000;

impl StepCosts {
    /// The share of the device that the step uses: that of the rows of demands. Without such rows it follows from the
    /// preferred batch, and is at least what the step moves in its time if the device's bandwidth is known.
    fn demand(&self, step: &Step) -> Share {
        if let Some(demands) = &self.demand {
            return Share::from_ratio(demands.clamped_value(step), PARTS);
        }
        let by_batch = Share::from_ratio(step.batch, self.run.preferred_batch(step.input));
        match &self.traffic {
            None => by_batch,
            Some(traffic) => {
                by_batch.max(traffic.share(step.batch, step.input, self.run.time(step)))
            }
        }
    }
}

/// The costs of an operator.
#[derive(Clone, Debug)]
pub(super) enum OperatorCosts {
    /// The rows of the operator itself.
    Own(Box<StepCosts>),
    /// A share of its cell's time.
    Share(operators::OperatorShare),
}

impl TableCosts {
    /// Whether a launch waits for the further tasks of the last decision.
    #[inline]
    pub fn has_further_launches(&self) -> bool {
        self.launches.further.is_some()
    }

    /// The batches that were measured at every input size.
    pub fn measured_batches(&self, cell: CellId) -> RangeInclusive<u32> {
        let (costs, scale) = self.costs(cell);
        let range = costs.run.measured_batches();
        range.start().saturating_mul(scale)..=range.end().saturating_mul(scale)
    }

    /// The costs of a cell or an operator, or of the cell whose time the operator shares; and the operator's rows for
    /// each node of that cell.
    fn costs(&self, step: CellId) -> (&StepCosts, u32) {
        match self.operator(step) {
            None => (&self.steps[step.index()], 1),
            Some(OperatorCosts::Own(costs)) => (costs, 1),
            Some(OperatorCosts::Share(share)) => {
                (&self.steps[share.cell.index()], share.rows_of_node)
            }
        }
    }

    /// The costs of the operator with this id, or `None` for a cell.
    fn operator(&self, step: CellId) -> Option<&OperatorCosts> {
        self.operators
            .get(step.index().checked_sub(self.steps.len())?)
    }

    /// The costs of each cell's steps in tasks with such members.
    fn steps_of(&self, members: MemberKind) -> &[StepCosts] {
        if members == MemberKind::Requests {
            &self.whole_steps
        } else {
            &self.steps
        }
    }

    /// The time of one run of a step, whose cell has these costs.
    fn run(&self, costs: &[StepCosts], step: &Step) -> Nanos {
        let time = match self.operator(step.cell) {
            None => return costs[step.cell.index()].run.time(step),
            Some(OperatorCosts::Own(costs)) => costs.run.time(step),
            Some(OperatorCosts::Share(share)) => self.share_of_cell(share, step),
        };
        match &self.kernel {
            None => time,
            Some(least) => time.max(least.time(step.batch)),
        }
    }

    /// The operator's share of the time of its cell, rounded half up. It is at most that time.
    fn share_of_cell(&self, share: &operators::OperatorShare, step: &Step) -> Nanos {
        let cell_step = Step {
            cell: share.cell,
            batch: share.nodes(step.batch),
            ..*step
        };
        let cell_time = self.whole_steps[share.cell.index()].run.time(&cell_step);
        let (own, all) = share.fraction(step.batch);
        let (own, all) = (u128::from(own), u128::from(all));
        Nanos(((2 * u128::from(cell_time.0) * own + all) / (2 * all)) as u64)
    }

    /// The least times of a cell in any kind of task, in batches up to `largest` and the table's largest.
    pub fn best(&self, cell: CellId, input: u32, largest: u32) -> Best {
        let in_parts = self.steps[cell.index()].run.best(input, largest);
        let in_whole = self.whole_steps[cell.index()].run.best(input, largest);
        let best = in_parts.or(in_whole);
        match &self.persistent {
            None => best,
            Some(kernels) => best.or(kernels.best(largest)),
        }
    }

    /// The measured batches, as [`TableCosts::measured_batches`], in tasks of whole requests and of parts.
    pub fn measured_of_several_steps(&self, cell: CellId) -> RangeInclusive<u32> {
        match &self.persistent {
            Some(kernels) if self.operator(cell).is_none() => kernels.measured_batches(),
            _ => self.measured_batches(cell),
        }
    }

    /// The smallest demand in the rows of a cell, as a fraction of the device; `None` without such rows.
    pub fn least_demand(&self, cell: CellId) -> Option<f64> {
        let demands = self.costs(cell).0.demand.as_ref()?;
        let least = demands
            .curves
            .iter()
            .map(|(_, curve)| curve.least())
            .min()?;
        Some(least.0 as f64 / f64::from(PARTS))
    }

    /// The [preferred batch](crate::core::cost::curve::preferred_batch) of a cell; `None` for operators.
    pub fn preferred_batch(&self, cell: CellId, input: u32) -> Option<u32> {
        let costs = self.steps.get(cell.index())?;
        Some(costs.run.preferred_batch(input))
    }
}

impl CostModel for TableCosts {
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
        Runs::repeat(self.run(self.steps_of(members), step), step)
    }

    #[inline]
    fn extra(&self, extra: Extra, count: u32) -> Nanos {
        match &self.extras[extra as usize] {
            None => Nanos::ZERO,
            Some(curve) => curve.time(count),
        }
    }

    #[inline]
    fn launch(&self, batch: u32, gather: bool) -> Nanos {
        match &self.launches.gather {
            Some(curve) if gather => curve.time(batch),
            _ => self.extra(Extra::Launch, batch),
        }
    }

    #[inline]
    fn further_launch(&self, batch: u32) -> Option<Nanos> {
        let curve = self.launches.further.as_ref()?;
        Some(curve.time(batch))
    }

    #[inline]
    fn row_change(&self, step: &Step, earlier: &[Step]) -> RowChange {
        match &self.row_changes {
            None => RowChange::default(),
            Some(costs) => costs.change(step, earlier),
        }
    }

    fn change(&self, joined: u32) -> Option<Nanos> {
        let change = self.change.as_ref()?;
        Some(if joined == 0 {
            Nanos::ZERO
        } else {
            change.time(joined)
        })
    }

    fn policy_row(&self, name: &str, count: u32) -> Nanos {
        let place = POLICY_ROWS.iter().position(|row| *row == name);
        match place.and_then(|place| self.policy_rows[place].as_ref()) {
            Some(curve) => curve.time(count),
            None => Nanos::ZERO,
        }
    }

    #[inline]
    fn switch(&self, step: &Step, members: MemberKind) -> Nanos {
        let costs = self.steps_of(members).get(step.cell.index());
        match costs.and_then(|costs| costs.switch.as_ref()) {
            None => Nanos::ZERO,
            Some(switch) => switch.time(step),
        }
    }

    /// The demand of the step. An operator without rows has the demand of its cell.
    fn demand(&self, step: &Step) -> Share {
        let (costs, rows_of_node) = self.costs(step.cell);
        costs.demand(&Step {
            batch: step.batch.div_ceil(rows_of_node),
            ..*step
        })
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        match self.batches.get(cell.index()) {
            None => &[],
            Some(sizes) => sizes,
        }
    }

    fn kv_tokens(&self) -> Option<u64> {
        self.kv_tokens
    }
}
