//! The performance model on the paper's GPU.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex};

use crate::cost::grnn::{Cell, Device, Launches, Persistent, Ranked, Rnn, Space, rank};
use crate::cost::roofline::{Kernels, Roofline};
use crate::error::{Error, Result};
use crate::gpu_settings::Precision;
use crate::shipped::Shipped;
use crate::units::Nanos;
use crate::workload::model::Model as Network;
use crate::workload::operator::Sizes;

const TITAN_V: &str = "titan-v";

/// On a Titan V.
pub struct Model {
    device: Device,
    roofline: Arc<Roofline>,
}

impl Model {
    pub fn new() -> Result<Model> {
        let files = Shipped::Device.all();
        let text = files.iter().find(|one| one.name == TITAN_V).expect("a file of the Titan V").text;
        let roofline = Arc::new(Roofline::parse(text, TITAN_V, Precision::F32)?);
        Ok(Model { device: Device::parse(text, TITAN_V)?, roofline })
    }

    /// The ranked mappings and the number of launches; with several, the mappings of the largest part.
    pub fn ranked(&self, cell: Cell, hidden: u32, batch: u32) -> (Vec<Ranked>, usize) {
        let space = Space::default();
        let ranked = rank(cell, hidden, batch, &self.device, &space);
        if !ranked.is_empty() {
            return (ranked, 1);
        }
        let launches = Launches::new(cell, hidden, &self.device, &space);
        let parts: Vec<u32> = launches.of(batch).map(|(runs_as, _)| *runs_as).collect();
        let largest = parts.iter().copied().max().unwrap_or(0);
        (rank(cell, hidden, largest, &self.device, &space), parts.len())
    }

    /// In ms, in persistent kernels, each with the mapping of least cost.
    pub fn sequence(&self, cell: Cell, hidden: u32, batch: u32, steps: u32) -> Result<f64> {
        // Ranking all mappings takes long, and six exhibits ask for the same ones.
        static KNOWN: Mutex<BTreeMap<(Cell, u32), Persistent>> = Mutex::new(BTreeMap::new());
        let mut known = KNOWN.lock().expect("ranking does not panic");
        let kernels = match known.entry((cell, hidden)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Persistent::new(cell, hidden, &self.device)?),
        };
        Ok(kernels.runs(batch, steps).as_millis_f64())
    }

    /// In ms, all of a network's LSTM layers in one persistent kernel.
    pub fn layers(&self, hidden: u32, layers: u32, steps: u32, batches: &[u32]) -> Result<Vec<f64>> {
        let kernels = Persistent::of_layers(hidden, layers, &self.device)?;
        Ok(batches.iter().map(|batch| kernels.runs(*batch, steps).as_millis_f64()).collect())
    }

    /// The cost of a step and a sequence's ms with the best mapping of one kernel.
    pub fn gru(&self, kernel: Rnn, hidden: u32, batch: u32, steps: u32) -> Result<(f64, f64)> {
        let (ranked, launches) = self.ranked(Cell::Gru, hidden, batch);
        let best = ranked.iter().find(|one| one.rnn == kernel);
        let best = best.ok_or_else(|| Error::failed(format!("no mapping of {kernel} is valid")))?;
        let cost = best.cost.total() * launches as f64;
        Ok((cost, self.mapped(best, steps)? * launches as f64))
    }

    /// In ms, one launch.
    pub fn mapped(&self, one: &Ranked, steps: u32) -> Result<f64> {
        let times = self.device.constants.time.as_ref().ok_or_else(|| Error::failed("the device has no times"))?;
        let steps = times.step(one.rnn, one.cost.total()).saturating_mul(steps.into());
        Ok(times.launch.saturating_add(steps).as_millis_f64())
    }

    /// An LSTM's sequence in ms, in traditional kernels by the data sheet: two products and one elementwise kernel a
    /// step.
    pub fn traditional(&self, hidden: u32, batch: u32, steps: u32) -> Result<f64> {
        let operators = Network::Lstm.operators(&Sizes::square(hidden));
        let kernels = Kernels::of_cell(&self.roofline, &operators[0], true);
        let step: Nanos = kernels.ok_or_else(|| Error::failed("an LSTM has no operators"))?.at(batch, 0);
        Ok(step.saturating_mul(steps.into()).as_millis_f64())
    }
}
