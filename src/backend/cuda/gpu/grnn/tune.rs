//! Measuring mappings, and keeping the fastest (GRNN, section 7.2: the model takes the space down to a few, and these are run).

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::layer::model;
use super::{Configuration, HEADERS, Host, Layer, Persistent, States};
use crate::backend::cuda::gpu::cache::Key;
use crate::cost::grnn::{Cell, Mapping, Ranked, Rnn, Sizes};
use crate::error::{Error, Result};
use crate::network::weights::Weights;
use crate::network::{Network, Spec};
use crate::units::{CellId, RequestId};
use crate::workload::cell_graph::CellGraph;

/// The words that inputs are drawn from.
const WORDS: u32 = 64;

/// The steps after which a kernel's states are held against the CPU's, and how near they have to be: sums of float32 numbers
/// around 1, in another order.
const CHECKED: u32 = 4;
const TOLERANCE: f32 = 1e-4;

/// The name of cache entries.
const ENTRY: &str = "grnn-tuned";

/// The mapping that was fastest on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tuned {
    /// The kernel.
    pub rnn: Rnn,
    /// Its mapping.
    pub mapping: Mapping,
    /// The steps that it was measured with.
    pub steps: u32,
    /// The time of a run of these, the inputs' product included, in nanoseconds.
    pub nanoseconds: u64,
}

impl Tuned {
    /// The mapping that was kept for a GPU and these sizes, by these kernels.
    pub fn recall(host: &Host, cell: Cell, hidden: u32, batch: u32) -> Option<Tuned> {
        serde_json::from_slice(&host.cache.get(ENTRY, Tuned::key(host, cell, hidden, batch))?).ok()
    }

    fn key(host: &Host, cell: Cell, hidden: u32, batch: u32) -> Key {
        let Host { gpu, nvrtc, .. } = host;
        let kernels = cell.kernels().iter().map(|rnn| Configuration::source_of(*rnn).1);
        let (name, multiprocessors, architecture, version) =
            (&gpu.name, gpu.multiprocessors, gpu.architecture, nvrtc.version);
        let of = format!("{name} {multiprocessors} {architecture} {version:?} {} {hidden} {batch}", cell.name());
        Key::of(&[of.as_str()].into_iter().chain(HEADERS.map(|(_, text)| text)).chain(kernels).collect::<Vec<_>>())
    }
}

/// Sequences of a network whose inputs are as wide as its state, on a GPU and on the CPU.
#[derive(Debug)]
pub struct Tuner {
    host: Host,
    layer: Arc<Layer>,
    cell: Cell,
    batch: u32,
    steps: u32,
    /// The vectors of all steps.
    inputs: Vec<f32>,
    /// What each sequence comes to on the CPU after [`CHECKED`] steps, or all if these are fewer.
    alone: Vec<Vec<f32>>,
}

impl Tuner {
    /// Takes a network with weights from a seed to a GPU, and so many sequences of so many steps.
    ///
    /// # Errors
    /// A width that networks can't have; memory that is not there.
    pub fn new(host: Host, cell: Cell, hidden: u32, batch: u32, steps: u32) -> Result<Tuner> {
        let spec = Spec { hidden, embedding: hidden, vocabulary: WORDS, seed: 1, weights: None };
        let (network, weights) = (Network::new(&model(cell), &spec)?, Weights::open(&model(cell), &spec)?);
        let layer = Arc::new(Layer::new(&host, cell, &weights, &spec)?);
        let (table, width) = (weights.take("embedding.weight"), hidden as usize);
        let places = (0..steps).flat_map(|step| (0..batch).map(move |sequence| (sequence, step)));
        let words = places.map(|(sequence, step)| network.token(RequestId(sequence), step) as usize);
        let inputs = words.flat_map(|word| &table[word * width..][..width]).copied().collect();
        let graph = CellGraph::chain(CellId(0), CHECKED.min(steps));
        let alone = (0..batch).map(|sequence| network.alone(RequestId(sequence), &graph).state).collect();
        Ok(Tuner { host, layer, cell, batch, steps, inputs, alone })
    }

    /// The mapping that was kept for this GPU and these sizes, by these kernels.
    pub fn recall(&self) -> Option<Tuned> {
        Tuned::recall(&self.host, self.cell, self.layer.hidden, self.batch)
    }

    /// Keeps a mapping for the next time.
    pub fn keep(&self, tuned: &Tuned) {
        let entry = serde_json::to_vec(tuned).expect("numbers and names are JSON");
        let key = Tuned::key(&self.host, self.cell, self.layer.hidden, self.batch);
        self.host.cache.put(ENTRY, key, &entry);
    }

    /// Compiles a mapping's kernel.
    ///
    /// # Errors
    /// A mapping that this GPU can't run.
    pub fn kernel(&self, ranked: &Ranked) -> Result<Persistent> {
        let sizes = Sizes { rnn: ranked.rnn, hidden: self.layer.hidden, batch: self.batch };
        Persistent::new(&self.host, &self.layer, Configuration::new(sizes, ranked.mapping)?)
    }

    /// Checks what a kernel computes, and gives the median time of a run, out of so many.
    ///
    /// # Errors
    /// A kernel that computes something else than the CPU; a GPU that broke off.
    pub fn measure(&self, kernel: &mut Persistent, times: usize) -> Result<Duration> {
        self.check(kernel)?;
        kernel.time(&vec![self.steps; self.batch as usize], &self.zeros(), &self.inputs, times)
    }

    fn zeros(&self) -> States {
        let zeros = vec![0.0; self.batch as usize * self.layer.hidden as usize];
        States { c: if self.cell == Cell::Lstm { zeros.clone() } else { Vec::new() }, h: zeros }
    }

    /// Runs a few steps, and holds all states against the CPU's.
    fn check(&self, kernel: &mut Persistent) -> Result<()> {
        let (steps, hidden) = (CHECKED.min(self.steps), self.layer.hidden as usize);
        let inputs = &self.inputs[..steps as usize * self.batch as usize * hidden];
        let left = kernel.run(&vec![steps; self.batch as usize], &self.zeros(), inputs)?;
        for (sequence, alone) in self.alone.iter().enumerate() {
            let of_sequence = |states: &[f32]| states.chunks_exact(hidden).nth(sequence).unwrap_or_default().to_vec();
            let found = [of_sequence(&left.h), of_sequence(&left.c)].concat();
            // What is no number is near to nothing.
            let near = |(found, alone): (&f32, &f32)| (found - alone).abs() <= TOLERANCE;
            if let Some(at) = found.iter().zip(alone).position(|pair| !near(pair)) {
                return Err(Error::failed(format!(
                    "{} with {:?} computes {} where the CPU computes {}, in number {at} of sequence {sequence} after {steps} steps",
                    kernel.configuration().sizes().rnn,
                    kernel.configuration().mapping(),
                    found[at],
                    alone[at]
                )));
            }
        }
        Ok(())
    }
}
