//! The search for the fastest mapping (GRNN, section 7.2: the performance model reduces the space to a few mappings,
//! which are measured).

use std::sync::Arc;
use std::time::Duration;

use super::persistent::{PersistentKernel, SequenceStates};
use super::tuned_mapping::Tuned;
use super::{Configuration, GpuHost, Layer};
use crate::base::error::{Error, Result};
use crate::base::precision::Precision;
use crate::base::units::{CellId, RequestId};
use crate::core::cost::grnn::{RankedMapping, RecurrentCell, RnnSizes};
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::model::Model;
use crate::devices::network::weights::Weights;
use crate::devices::network::{Network, Spec};

/// The number of words in the network's vocabulary.
const WORDS: u32 = 64;

/// The steps after which a kernel's states are compared with the CPU's.
const CHECKED: u32 = 4;

/// The tolerance of the comparison, for sums of float32 numbers around 1 in another order.
const TOLERANCE: f32 = 1e-4;

/// Measures mappings with the sequences of a network whose inputs are as wide as its state.
#[derive(Debug)]
pub struct Tuner {
    host: GpuHost,
    layer: Arc<Layer>,
    batch: u32,
    steps: u32,
    inputs: Vec<f32>,
    /// The state of each sequence on the CPU after [`CHECKED`] steps, or after all if there are fewer.
    alone: Vec<Vec<f32>>,
}

impl Tuner {
    /// Copies a network with seeded weights to a GPU, with sequences of this number of steps.
    pub fn new(
        host: GpuHost,
        cell: RecurrentCell,
        hidden: u32,
        batch: u32,
        steps: u32,
    ) -> Result<Tuner> {
        let spec = Spec {
            hidden,
            embedding: hidden,
            vocabulary: WORDS,
            seed: 1,
            weights: None,
        };
        let model = Model::parse(cell.name()).expect("a cell has the name of its model");
        let network = Network::new(&model, &spec)?;
        let weights = Weights::open(&model, &spec)?;
        let layer = Arc::new(Layer::new(&host, cell, &weights, &spec, Precision::F32)?);
        let table = weights.take("embedding.weight");
        let width = hidden as usize;
        let places = (0..steps).flat_map(|step| (0..batch).map(move |sequence| (sequence, step)));
        let words =
            places.map(|(sequence, step)| network.token(RequestId(sequence.into()), step) as usize);
        let inputs = words
            .flat_map(|word| &table[word * width..][..width])
            .copied()
            .collect();
        let graph = CellGraph::chain(CellId(0), CHECKED.min(steps));
        let alone = (0..batch)
            .map(|sequence| network.alone(RequestId(sequence.into()), &graph).state)
            .collect();
        Ok(Tuner {
            host,
            layer,
            batch,
            steps,
            inputs,
            alone,
        })
    }

    /// The mapping that was stored for this GPU, these sizes and these kernels.
    pub fn recall(&self) -> Option<Tuned> {
        Tuned::recall(&self.host, self.layer.cell, self.layer.hidden, self.batch)
    }

    /// Stores the fastest mapping.
    pub fn keep(&self, tuned: &Tuned) {
        tuned.store(&self.host, self.layer.cell, self.layer.hidden, self.batch);
    }

    /// Compiles a mapping's kernel. Fails if this GPU can't run it.
    pub fn kernel(&self, ranked: &RankedMapping) -> Result<PersistentKernel> {
        let sizes = RnnSizes {
            rnn: ranked.rnn,
            hidden: self.layer.hidden,
            batch: self.batch,
        };
        PersistentKernel::new(
            &self.host,
            &self.layer,
            Configuration::new(sizes, ranked.mapping)?,
        )
    }

    /// Checks a kernel's results, and returns the median time of a run out of `times`.
    pub fn measure(&self, kernel: &mut PersistentKernel, times: usize) -> Result<Duration> {
        self.check(kernel)?;
        kernel.time(
            &vec![self.steps; self.batch as usize],
            &self.zeros(),
            &self.inputs,
            times,
        )
    }

    fn zeros(&self) -> SequenceStates {
        let zeros = vec![0.0; self.batch as usize * self.layer.hidden as usize];
        SequenceStates {
            c: if self.layer.has_c() {
                zeros.clone()
            } else {
                Vec::new()
            },
            h: zeros,
        }
    }

    /// Runs a few steps, and compares all states with the CPU's.
    fn check(&self, kernel: &mut PersistentKernel) -> Result<()> {
        let steps = CHECKED.min(self.steps);
        let hidden = self.layer.hidden as usize;
        let inputs = &self.inputs[..steps as usize * self.batch as usize * hidden];
        let left = kernel.run(&vec![steps; self.batch as usize], &self.zeros(), inputs)?;
        for (sequence, alone) in self.alone.iter().enumerate() {
            let [h, c] = [&left.h, &left.c].map(|states| {
                let mut of_sequences = states.chunks_exact(hidden);
                of_sequences.nth(sequence).unwrap_or_default()
            });
            let found = [h, c].concat();
            let mut pairs = found.iter().zip(alone);
            // A NaN is not near any number.
            let is_far = |(found, alone): (&f32, &f32)| {
                let distance = (found - alone).abs();
                distance.is_nan() || distance > TOLERANCE
            };
            if let Some(at) = pairs.position(is_far) {
                return Err(Error::failure(format!(
                    "{} with {:?} computes {} where the CPU computes {}, in number {at} of sequence {sequence} after {steps} steps",
                    kernel.kernel.configuration.sizes().rnn,
                    kernel.kernel.configuration.mapping(),
                    found[at],
                    alone[at]
                )));
            }
        }
        Ok(())
    }
}
