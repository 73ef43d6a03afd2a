//! How long stages take: what DVABatch profiles before it serves (section 7.2).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Stage;
use super::slicing::Slicing;
use crate::cost::CostModel;
use crate::cost::timing::{Of, mean_demand};
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
    /// What all stages from each one on take.
    rest: Vec<Nanos>,
    /// How much of the device such a batch can use: the mean over all that it runs, by the time that this takes.
    demand: Share,
}

impl Durations {
    /// Those of a network of operators on a device. Chains have none: requests end in different stages.
    pub fn new(slicing: Arc<Slicing>, costs: Arc<dyn CostModel>) -> Durations {
        Durations { slicing, costs, known: RefCell::default() }
    }

    /// What the stages from one on take, one behind the other: the paper's T_remain.
    pub fn from(&self, stage: Stage, batch: u32, input: u32) -> Nanos {
        self.with(batch, input, |known| known.rest.get(stage.index()).copied().unwrap_or(Nanos::ZERO))
    }

    /// What a batch takes for all stages up to one.
    pub fn through(&self, stage: Stage, batch: u32, input: u32) -> Nanos {
        self.from(Stage(0), batch, input).saturating_since(self.from(stage.next(), batch, input))
    }

    /// How much of the device a batch can use.
    pub fn demand(&self, batch: u32, input: u32) -> Share {
        self.with(batch, input, |known| known.demand)
    }

    fn with<T>(&self, batch: u32, input: u32, read: impl FnOnce(&Profile) -> T) -> T {
        let mut known = self.known.borrow_mut();
        read(known.entry((input, batch)).or_insert_with(|| self.work_out(batch, input)))
    }

    fn work_out(&self, batch: u32, input: u32) -> Profile {
        let (mut all, mut steps, mut rest) = (Vec::new(), Vec::new(), vec![Nanos::ZERO; self.slicing.stages(0)]);
        let mut sum = Nanos::ZERO;
        for (stage, rest) in rest.iter_mut().enumerate().rev() {
            self.slicing.steps(Stage(stage as u32), batch, 0, input, &mut steps);
            let times = steps.iter().map(|step| Of::Parts.runs(&*self.costs, step).0);
            sum = times.fold(sum, Nanos::saturating_add);
            *rest = sum;
            all.append(&mut steps);
        }
        Profile { rest, demand: mean_demand(&*self.costs, &all, Of::Parts) }
    }
}
