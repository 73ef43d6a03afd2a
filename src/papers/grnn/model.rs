//! The performance model on the paper's GPU.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::measured::SequenceSize;
use crate::base::error::{Error, Result};
use crate::base::precision::Precision;
use crate::base::shipped::Shipped;
use crate::core::cost::grnn::{
    DataSheet, KernelLaunches, KernelTimes, PersistentTimes, RankedMapping, RecurrentCell, Rnn,
    Space, rank,
};
use crate::core::cost::roofline::{Roofline, RooflineKernels};
use crate::core::workload::model::Model;
use crate::core::workload::operator::Sizes;

/// The device file of the paper's GPU.
pub const TITAN_V: &str = "titan-v";

/// The performance model of a Titan V, which runs all sizes of the paper. Times are in milliseconds.
pub struct PerformanceModel {
    device: DataSheet,
    times: KernelTimes,
    roofline: Arc<Roofline>,
}

impl PerformanceModel {
    pub fn new() -> Result<PerformanceModel> {
        let files = Shipped::Device.all();
        let file = files.iter().find(|file| file.name == TITAN_V);
        let text = file.expect("a file of the Titan V").text;
        let device = DataSheet::parse(text, TITAN_V)?;
        let Some(times) = device.constants.time.clone() else {
            return Err(Error::failure("the device has no times"));
        };
        let roofline = Arc::new(Roofline::parse(text, TITAN_V, Precision::F32)?);
        Ok(PerformanceModel {
            device,
            times,
            roofline,
        })
    }

    /// The ranked mappings and the number of launches. With several launches, the mappings are those of the largest
    /// part.
    pub fn rank(&self, size: SequenceSize) -> (Vec<RankedMapping>, usize) {
        let SequenceSize {
            cell,
            hidden,
            batch,
            ..
        } = size;
        let space = Space::default();
        let ranked = rank(cell, hidden, batch, &self.device, &space);
        if !ranked.is_empty() {
            return (ranked, 1);
        }
        let launches = KernelLaunches::new(cell, hidden, &self.device, &space);
        let parts: Vec<u32> = launches
            .kernels(batch)
            .map(|(runs_as, _)| *runs_as)
            .collect();
        let largest = parts.iter().copied().max().unwrap_or(0);
        let ranked = rank(cell, hidden, largest, &self.device, &space);
        (ranked, parts.len())
    }

    /// The time of a sequence in persistent kernels, each with the mapping of least cost.
    pub fn sequence(&self, size: SequenceSize) -> f64 {
        // Ranking all mappings takes long, and six exhibits ask for the same ones.
        static KNOWN: Mutex<BTreeMap<(RecurrentCell, u32), PersistentTimes>> =
            Mutex::new(BTreeMap::new());
        let mut known = KNOWN.lock().expect("ranking does not panic");
        let kernels = known
            .entry((size.cell, size.hidden))
            .or_insert_with(|| self.persistent_kernels(size.cell, size.hidden));
        kernels.runs(size.batch, size.steps).as_millis_f64()
    }

    fn persistent_kernels(&self, cell: RecurrentCell, hidden: u32) -> PersistentTimes {
        let launches = KernelLaunches::new(cell, hidden, &self.device, &Space::default());
        PersistentTimes::new(launches, &self.device).expect("the registers hold the weights")
    }

    /// The time of all layers of an LSTM network in one persistent kernel, by batch.
    pub fn layers(&self, hidden: u32, layers: u32, steps: u32) -> impl Fn(u32) -> f64 {
        let kernels = PersistentTimes::from_layers(hidden, layers, &self.device)
            .expect("the registers hold the weights");
        move |batch| kernels.runs(batch, steps).as_millis_f64()
    }

    /// The cost of a step and the time of a sequence with the best mapping of one kernel.
    pub fn best_of_kernel(&self, kernel: Rnn, size: SequenceSize) -> [f64; 2] {
        let (ranked, launches) = self.rank(size);
        let best = ranked
            .iter()
            .find(|one| one.rnn == kernel)
            .expect("a mapping is valid");
        let launches = launches as f64;
        let cost = best.cost.total() * launches;
        let time = self.launch(best, size.steps) * launches;
        [cost, time]
    }

    /// The time of one launch of a mapping.
    pub fn launch(&self, mapping: &RankedMapping, steps: u32) -> f64 {
        let step = self.times.step(mapping.rnn, mapping.cost.total());
        let all = step.saturating_mul(steps.into());
        self.times.launch.saturating_add(all).as_millis_f64()
    }

    /// The time of an LSTM's sequence in traditional kernels by the data sheet: two products and one elementwise kernel
    /// a step.
    pub fn traditional(&self, size: SequenceSize) -> f64 {
        let operators = Model::Lstm.operators(&Sizes::square(size.hidden));
        let kernels = RooflineKernels::from_operators(&self.roofline, &operators[0], true)
            .expect("an LSTM has operators");
        let step = kernels.time(size.batch, 0);
        step.saturating_mul(size.steps.into()).as_millis_f64()
    }
}
