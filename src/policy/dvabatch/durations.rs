//! How long stages take: what DVABatch profiles before it serves (section 7.2).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Stage;
use super::slicing::Slicing;
use crate::backend::Step;
use crate::cost::CostModel;
use crate::units::{Nanos, Share};

/// The durations of a network's stages, each worked out when it is first asked for.
pub struct Durations {
    slicing: Arc<Slicing>,
    costs: Arc<dyn CostModel>,
    /// By input and batch.
    known: RefCell<BTreeMap<(u32, u32), Profile>>,
}

/// What is known of batches of one size, padded to one input.
struct Profile {
    /// What each stage takes, and behind that what all from it on take.
    stages: Vec<(Nanos, Nanos)>,
    /// How much of the device such a batch can use: the mean over all that it runs, by the time that this takes.
    demand: Share,
}

impl Durations {
    /// Those of a network on a device.
    pub fn new(slicing: Arc<Slicing>, costs: Arc<dyn CostModel>) -> Durations {
        Durations { slicing, costs, known: RefCell::default() }
    }

    /// What a stage takes for a batch that is padded to this input. In a chain all stages take the same.
    pub fn stage(&self, stage: Stage, batch: u32, input: u32) -> Nanos {
        self.with(batch, input, |known| known.stages[stage.index().min(known.stages.len() - 1)].0)
    }

    /// What the stages from one on take, one behind the other: the paper's T_remain. Chains end where they end, so that there is no such
    /// time for them.
    pub fn from(&self, stage: Stage, batch: u32, input: u32) -> Nanos {
        self.with(batch, input, |known| known.stages.get(stage.index()).map_or(Nanos::ZERO, |(_, rest)| *rest))
    }

    /// How much of the device a batch can use.
    pub fn demand(&self, batch: u32, input: u32) -> Share {
        self.with(batch, input, |known| known.demand)
    }

    /// What a batch takes for all stages up to one.
    pub fn through(&self, stage: Stage, batch: u32, input: u32) -> Nanos {
        match &*self.slicing {
            Slicing::Chain { .. } => self.stage(stage, batch, input).saturating_mul(u64::from(stage.0) + 1),
            Slicing::Network { .. } => {
                self.from(Stage(0), batch, input).saturating_since(self.from(stage.next(), batch, input))
            }
        }
    }

    /// What a batch whose longest query has so many nodes takes for all stages behind one.
    pub fn behind(&self, stage: Stage, batch: u32, input: u32, longest: u32) -> Nanos {
        match &*self.slicing {
            Slicing::Chain { .. } => {
                let left = self.slicing.stages(longest).saturating_sub(stage.index() + 1);
                self.stage(stage, batch, input).saturating_mul(left as u64)
            }
            Slicing::Network { .. } => self.from(stage.next(), batch, input),
        }
    }

    fn with<T>(&self, batch: u32, input: u32, read: impl FnOnce(&Profile) -> T) -> T {
        let mut known = self.known.borrow_mut();
        read(known.entry((input, batch)).or_insert_with(|| self.work_out(batch, input)))
    }

    fn work_out(&self, batch: u32, input: u32) -> Profile {
        let (count, longest) = match &*self.slicing {
            Slicing::Chain { steps, .. } => (1, *steps),
            Slicing::Network { stages, bounds, .. } => (stages.len(), bounds[stages.len()]),
        };
        let mut steps = Vec::new();
        let (mut rest, mut used) = (Nanos::ZERO, 0);
        let takes = |step: &Step| self.costs.cell(step).saturating_mul(u64::from(step.times));
        let mut stages: Vec<(Nanos, Nanos)> = (0..count as u16)
            .rev()
            .map(|stage| {
                self.slicing.steps(Stage(stage), batch, longest, input, &mut steps);
                used += steps
                    .iter()
                    .map(|step| u128::from(takes(step).0) * u128::from(self.costs.demand(step).0))
                    .sum::<u128>();
                let all = steps.iter().map(takes).fold(Nanos::ZERO, Nanos::saturating_add);
                rest = rest.saturating_add(all);
                (all, rest)
            })
            .collect();
        stages.reverse();
        let demand = Share((used / u128::from(rest.0.max(1))).min(u128::from(Share::WHOLE.0)) as u64);
        Profile { stages, demand }
    }
}
