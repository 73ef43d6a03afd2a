//! The performance model on the paper's GPU.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::measured::Size;
use crate::base::error::{Error, Result};
use crate::base::precision::Precision;
use crate::base::shipped::Shipped;
use crate::base::units::Nanos;
use crate::core::cost::grnn::{
    DataSheet, KernelLaunches, KernelTimes, PersistentTimes, RankedMapping, RecurrentCell, Rnn,
    Space, rank,
};
use crate::core::cost::roofline::{Roofline, RooflineKernels};
use crate::core::workload::model::Model as Network;
use crate::core::workload::operator::Sizes;

/// The device file of the paper's GPU.
pub const TITAN_V: &str = "titan-v";

/// On a Titan V, which runs all sizes of the paper. Times are in ms.
pub struct Model {
    device: DataSheet,
    times: KernelTimes,
    roofline: Arc<Roofline>,
}

impl Model {
    pub fn new() -> Result<Model> {
        let files = Shipped::Device.all();
        let text = files
            .iter()
            .find(|one| one.name == TITAN_V)
            .expect("a file of the Titan V")
            .text;
        let device = DataSheet::parse(text, TITAN_V)?;
        let times = device
            .constants
            .time
            .clone()
            .ok_or_else(|| Error::failed("the device has no times"))?;
        Ok(Model {
            device,
            times,
            roofline: Arc::new(Roofline::parse(text, TITAN_V, Precision::F32)?),
        })
    }

    /// The ranked mappings and the number of launches; with several, the mappings of the largest part.
    pub fn ranked(
        &self,
        Size {
            cell,
            hidden,
            batch,
            ..
        }: Size,
    ) -> (Vec<RankedMapping>, usize) {
        let space = Space::default();
        let ranked = rank(cell, hidden, batch, &self.device, &space);
        if !ranked.is_empty() {
            return (ranked, 1);
        }
        let launches = KernelLaunches::new(cell, hidden, &self.device, &space);
        let parts: Vec<u32> = launches.of(batch).map(|(runs_as, _)| *runs_as).collect();
        let largest = parts.iter().copied().max().unwrap_or(0);
        (
            rank(cell, hidden, largest, &self.device, &space),
            parts.len(),
        )
    }

    /// In persistent kernels, each with the mapping of least cost.
    pub fn sequence(
        &self,
        Size {
            cell,
            hidden,
            batch,
            steps,
        }: Size,
    ) -> f64 {
        // Ranking all mappings takes long, and six exhibits ask for the same ones.
        static KNOWN: Mutex<BTreeMap<(RecurrentCell, u32), PersistentTimes>> =
            Mutex::new(BTreeMap::new());
        let mut known = KNOWN.lock().expect("ranking does not panic");
        let launches = || KernelLaunches::new(cell, hidden, &self.device, &Space::default());
        let new = || {
            PersistentTimes::new(launches(), &self.device).expect("the registers hold the weights")
        };
        known
            .entry((cell, hidden))
            .or_insert_with(new)
            .runs(batch, steps)
            .as_millis_f64()
    }

    /// All layers of an LSTM network in one persistent kernel, by batch.
    pub fn layers(&self, hidden: u32, layers: u32, steps: u32) -> impl Fn(u32) -> f64 {
        let kernels = PersistentTimes::of_layers(hidden, layers, &self.device)
            .expect("the registers hold the weights");
        move |batch| kernels.runs(batch, steps).as_millis_f64()
    }

    /// The cost of a step and a sequence's time with the best mapping of one kernel.
    pub fn kernel(&self, kernel: Rnn, size: Size) -> [f64; 2] {
        let (ranked, launches) = self.ranked(size);
        let best = ranked
            .iter()
            .find(|one| one.rnn == kernel)
            .expect("a mapping is valid");
        [best.cost.total(), self.mapped(best, size.steps)].map(|one| one * launches as f64)
    }

    /// One launch.
    pub fn mapped(&self, one: &RankedMapping, steps: u32) -> f64 {
        let steps = self
            .times
            .step(one.rnn, one.cost.total())
            .saturating_mul(steps.into());
        self.times.launch.saturating_add(steps).as_millis_f64()
    }

    /// An LSTM's sequence in traditional kernels by the data sheet: two products and one elementwise kernel a step.
    pub fn traditional(
        &self,
        Size {
            hidden,
            batch,
            steps,
            ..
        }: Size,
    ) -> f64 {
        let operators = Network::Lstm.operators(&Sizes::square(hidden));
        let kernels = RooflineKernels::of_cell(&self.roofline, &operators[0], true)
            .expect("an LSTM has operators");
        let step: Nanos = kernels.at(batch, 0);
        step.saturating_mul(steps.into()).as_millis_f64()
    }
}
