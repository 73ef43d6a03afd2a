//! How long stages take: what DVABatch profiles before it serves (section 7.2).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Stage;
use super::slicing::Slicing;
use crate::cost::CostModel;
use crate::units::Nanos;

/// The durations of a network's stages, each worked out when it is first asked for.
pub struct Durations {
    slicing: Arc<Slicing>,
    costs: Arc<dyn CostModel>,
    /// By input and batch: what each stage takes, and behind that what all from it on take.
    known: RefCell<BTreeMap<(u32, u32), Vec<(Nanos, Nanos)>>>,
}

impl Durations {
    /// Those of a network on a device.
    pub fn new(slicing: Arc<Slicing>, costs: Arc<dyn CostModel>) -> Durations {
        Durations { slicing, costs, known: RefCell::default() }
    }

    /// What a stage takes for a batch that is padded to this input. In a chain all stages take the same.
    pub fn stage(&self, stage: Stage, batch: u32, input: u32) -> Nanos {
        self.with(batch, input, |stages| stages[stage.index().min(stages.len() - 1)].0)
    }

    /// What the stages from one on take, one behind the other: the paper's T_remain. Chains end where they end, so that there is no such
    /// time for them.
    pub fn from(&self, stage: Stage, batch: u32, input: u32) -> Nanos {
        self.with(batch, input, |stages| stages.get(stage.index()).map_or(Nanos::ZERO, |(_, rest)| *rest))
    }

    fn with<T>(&self, batch: u32, input: u32, read: impl FnOnce(&[(Nanos, Nanos)]) -> T) -> T {
        let mut known = self.known.borrow_mut();
        read(known.entry((input, batch)).or_insert_with(|| self.work_out(batch, input)))
    }

    fn work_out(&self, batch: u32, input: u32) -> Vec<(Nanos, Nanos)> {
        let (count, longest) = match &*self.slicing {
            Slicing::Chain { steps, .. } => (1, *steps),
            Slicing::Network { stages, bounds, .. } => (stages.len(), bounds[stages.len()]),
        };
        let mut steps = Vec::new();
        let mut rest = Nanos::ZERO;
        let mut durations: Vec<(Nanos, Nanos)> = (0..count as u16)
            .rev()
            .map(|stage| {
                self.slicing.steps(Stage(stage), batch, longest, input, &mut steps);
                let each = steps.iter().map(|step| self.costs.cell(step).saturating_mul(u64::from(step.times)));
                let all = each.fold(Nanos::ZERO, Nanos::saturating_add);
                rest = rest.saturating_add(all);
                (all, rest)
            })
            .collect();
        durations.reverse();
        durations
    }
}
