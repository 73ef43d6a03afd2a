//! Sequences in a persistent kernel, and the search for the fastest mapping (GRNN, section 7.2: the model reduces the
//! space to a few mappings, which are measured).

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::kernel::Kernel;
use super::layer::{ARRIVED, BESIDE, HIDDEN, LENGTHS, VECTORS};
use super::{Configuration, Host, Layer, headers};
use crate::base::error::{Error, Result};
use crate::base::precision::Precision;
use crate::base::units::{CellId, RequestId};
use crate::core::cost::grnn::{Mapping, RankedMapping, RecurrentCell, Rnn, RnnSizes};
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::model::Model;
use crate::devices::cuda::device::Fault;
use crate::devices::cuda::gpu::compile::Key;
use crate::devices::cuda::gpu::cublas::Handle;
use crate::devices::cuda::gpu::driver::{Gpu, median};
use crate::devices::cuda::gpu::memory::Memory;
use crate::devices::cuda::gpu::weights::elements;
use crate::devices::network::weights::Weights;
use crate::devices::network::{Network, Spec};

const BEHIND: u32 = 8;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct States {
    /// \[batch, hidden\].
    pub h: Vec<f32>,
    /// \[batch, hidden\], or empty.
    pub c: Vec<f32>,
}

/// A kernel that runs sequences of a network. Fields are dropped in order: users before what they use.
#[derive(Debug)]
pub struct Persistent {
    kernel: Kernel,
    products: Handle,
    room: Option<Room>,
    layer: Arc<Layer>,
    gpu: Arc<Gpu>,
}

#[derive(Debug)]
struct Room {
    steps: u32,
    batch: u32,
    /// Those of [`Layer::buffers`].
    buffers: Vec<Memory>,
}

// SAFETY: as for `Gpus`: the driver's handles belong to the process; every call makes its context current first, and
// all handles are reachable only through this value.
unsafe impl Send for Persistent {}

impl Persistent {
    /// Compiles a kernel for a network's weights, or finds it in the cache, and loads it.
    pub fn new(
        host: &Host,
        layer: &Arc<Layer>,
        configuration: Configuration,
    ) -> Result<Persistent> {
        let RnnSizes { rnn, hidden, .. } = configuration.sizes();
        if (rnn == Rnn::Lstm) != layer.has_c() || hidden != layer.hidden {
            let (cell, width) = (layer.cell.name(), layer.hidden);
            return Err(Error::input(format!(
                "a kernel {rnn} of {hidden} for the weights of {cell} of {width}"
            )));
        }
        let kernel = Kernel::new(host, configuration)?;
        Ok(Persistent {
            kernel,
            products: Handle::new(&host.gpu, &host.cublas, Precision::F32)
                .map_err(Error::failed)?,
            room: None,
            layer: Arc::clone(layer),
            gpu: Arc::clone(&host.gpu),
        })
    }

    /// Runs each sequence for the steps in `lengths`, and returns the final states. `inputs` are the vectors of all
    /// steps, \[steps, batch, embedding\], for as many steps as the longest sequence has; those after a sequence's end
    /// are ignored. A sequence of no steps keeps its state.
    pub fn run(&mut self, lengths: &[u32], begin: &States, inputs: &[f32]) -> Result<States> {
        if lengths.iter().all(|length| *length == 0) {
            return Ok(begin.clone());
        }
        self.take(lengths, begin, inputs)?;
        self.queue().map_err(Error::failed)?;
        self.left().map_err(Error::failed)
    }

    /// The time of a run on the GPU, the inputs' product included: the median of `times` measurements after a warm-up.
    /// Each times some runs queued together, so that the host's work overlaps with the GPU's. The results are
    /// discarded.
    pub fn time(
        &mut self,
        lengths: &[u32],
        begin: &States,
        inputs: &[f32],
        times: usize,
    ) -> Result<Duration> {
        self.take(lengths, begin, inputs)?;
        let gpu = Arc::clone(&self.gpu);
        median(times, || gpu.time(BEHIND, || self.queue())).map_err(Error::failed)
    }

    fn take(&mut self, lengths: &[u32], begin: &States, inputs: &[f32]) -> Result<()> {
        let sizes = self.kernel.configuration.sizes();
        let (batch, hidden, most) = (lengths.len(), sizes.hidden as usize, sizes.batch);
        let steps = lengths.iter().copied().max().unwrap_or(0) as usize;
        let c = if self.layer.has_c() {
            batch * hidden
        } else {
            0
        };
        let vectors = steps * batch * self.layer.embedding as usize;
        if batch > most as usize || steps == 0 {
            return Err(Error::input(format!(
                "{steps} steps of {batch} sequences for a kernel of up to {most}"
            )));
        }
        let (given, wanted) = (
            [begin.h.len(), begin.c.len(), inputs.len()],
            [batch * hidden, c, vectors],
        );
        if given != wanted {
            let numbers = |[h, c, inputs]: [usize; 3]| {
                format!("{h} numbers of h, {c} of c and {inputs} of inputs")
            };
            return Err(Error::input(format!(
                "{} for {}",
                numbers(given),
                numbers(wanted)
            )));
        }
        let largest = (steps + 1) as u64 * (batch * hidden) as u64 * u64::from(self.layer.gates());
        if largest > u64::from(u32::MAX) {
            return Err(Error::input(format!(
                "{steps} steps of {batch} sequences have {largest} numbers, and a launch takes up to {}; run fewer steps at a time",
                u32::MAX
            )));
        }
        self.fill(steps as u32, lengths, begin, inputs)
            .map_err(Error::failed)
    }

    fn fill(
        &mut self,
        steps: u32,
        lengths: &[u32],
        begin: &States,
        inputs: &[f32],
    ) -> Result<(), Fault> {
        let batch = lengths.len() as u32;
        // The old memory goes first: both may not fit.
        self.room = None;
        let mut room = self.room(steps, batch)?;
        let bytes = |numbers: &[f32]| elements(numbers, Precision::F32);
        let lengths: Vec<u8> = lengths
            .iter()
            .flat_map(|length| length.to_le_bytes())
            .collect();
        room.buffers[VECTORS].write(&bytes(&self.layer.inputs(inputs)))?;
        room.buffers[HIDDEN].write(&bytes(&begin.h))?;
        room.buffers[BESIDE].write(&bytes(&begin.c))?;
        room.buffers[LENGTHS].write(&lengths)?;
        // A launch leaves zeros, but one that was aborted may not.
        room.buffers[ARRIVED].clear()?;
        self.room = Some(room);
        Ok(())
    }

    fn room(&self, steps: u32, batch: u32) -> Result<Room, Fault> {
        let numbers = self.layer.buffers(
            steps as usize,
            batch as usize,
            self.kernel.configuration.beside(batch),
        );
        let buffers = numbers
            .iter()
            .map(|numbers| Memory::new(&self.gpu, numbers * size_of::<f32>(), "sequences"));
        Ok(Room {
            steps,
            batch,
            buffers: buffers.collect::<Result<_, _>>()?,
        })
    }

    /// Queues the product of all inputs, then the kernel.
    fn queue(&mut self) -> Result<(), Fault> {
        let room = self.room.as_ref().expect("sequences were taken");
        let at: Vec<u64> = room.buffers.iter().map(Memory::address).collect();
        let (product, mut call) = self.kernel.launch(room.steps, room.batch, &self.layer, &at);
        self.gpu.bind()?;
        // SAFETY: the memory is as large as steps and batch say, and lives until its users have been waited for; the
        // arguments are those of both kernels.
        unsafe {
            self.products.multiply(&product)?;
            call.queue("a persistent kernel", &self.products.stream)
        }
    }

    /// The final states, after all queued work.
    fn left(&self) -> Result<States, Fault> {
        let room = self.room.as_ref().expect("sequences were taken");
        let states = room.batch as usize * self.layer.hidden as usize;
        let read = |buffer: usize, from| -> Result<Vec<f32>, Fault> {
            Ok(room.buffers[buffer]
                .read(from, states)?
                .into_iter()
                .map(f32::from_le_bytes)
                .collect())
        };
        let c = if self.layer.has_c() {
            read(BESIDE, 0)?
        } else {
            Vec::new()
        };
        Ok(States {
            h: read(HIDDEN, room.steps as usize * states)?,
            c,
        })
    }
}

impl Drop for Persistent {
    /// Waits for queued work before its memory is freed.
    fn drop(&mut self) {
        // There is nothing to wait for on a lost GPU.
        let _ = self.gpu.synchronize();
    }
}

const WORDS: u32 = 64;

/// The steps after which a kernel's states are compared with the CPU's, and the tolerance: sums of float32 numbers
/// around 1, in another order.
const CHECKED: u32 = 4;
const TOLERANCE: f32 = 1e-4;

const ENTRY: &str = "grnn-tuned";

/// The mapping that was fastest on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tuned {
    pub rnn: Rnn,
    pub mapping: Mapping,
    pub steps: u32,
    /// The time of a run of these steps, the inputs' product included, in nanoseconds.
    pub nanoseconds: u64,
}

impl Tuned {
    /// The mapping that was stored for a GPU, these sizes and these kernels.
    pub fn recall(host: &Host, cell: RecurrentCell, hidden: u32, batch: u32) -> Option<Tuned> {
        serde_json::from_slice(
            &host
                .cache
                .get(ENTRY, Tuned::key(host, cell, hidden, batch))?,
        )
        .ok()
    }

    fn key(host: &Host, cell: RecurrentCell, hidden: u32, batch: u32) -> Key {
        let Host { gpu, nvrtc, .. } = host;
        let kernels = cell
            .kernels()
            .iter()
            .map(|rnn| Configuration::source_of(*rnn).1);
        let (name, multiprocessors, architecture, version) = (
            &gpu.name,
            gpu.multiprocessors,
            gpu.architecture,
            nvrtc.version,
        );
        let of = format!(
            "{name} {multiprocessors} {architecture} {version:?} {} {hidden} {batch}",
            cell.name()
        );
        Key::of(
            &[of.as_str()]
                .into_iter()
                .chain(headers().map(|(_, text)| text))
                .chain(kernels)
                .collect::<Vec<_>>(),
        )
    }
}

/// Sequences of a network whose inputs are as wide as its state, on a GPU and on the CPU.
#[derive(Debug)]
pub struct Tuner {
    host: Host,
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
        host: Host,
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
        let (network, weights) = (Network::new(&model, &spec)?, Weights::open(&model, &spec)?);
        let layer = Arc::new(Layer::new(&host, cell, &weights, &spec, Precision::F32)?);
        let (table, width) = (weights.take("embedding.weight"), hidden as usize);
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

    pub fn recall(&self) -> Option<Tuned> {
        Tuned::recall(&self.host, self.layer.cell, self.layer.hidden, self.batch)
    }

    pub fn keep(&self, tuned: &Tuned) {
        let entry = serde_json::to_vec(tuned).expect("numbers and names are JSON");
        let key = Tuned::key(&self.host, self.layer.cell, self.layer.hidden, self.batch);
        self.host.cache.put(ENTRY, key, &entry);
    }

    /// Compiles a mapping's kernel. Fails if this GPU can't run it.
    pub fn kernel(&self, ranked: &RankedMapping) -> Result<Persistent> {
        let sizes = RnnSizes {
            rnn: ranked.rnn,
            hidden: self.layer.hidden,
            batch: self.batch,
        };
        Persistent::new(
            &self.host,
            &self.layer,
            Configuration::new(sizes, ranked.mapping)?,
        )
    }

    /// Checks a kernel's results, and returns the median time of a run out of `times`.
    pub fn measure(&self, kernel: &mut Persistent, times: usize) -> Result<Duration> {
        self.check(kernel)?;
        kernel.time(
            &vec![self.steps; self.batch as usize],
            &self.zeros(),
            &self.inputs,
            times,
        )
    }

    fn zeros(&self) -> States {
        let zeros = vec![0.0; self.batch as usize * self.layer.hidden as usize];
        States {
            c: if self.layer.has_c() {
                zeros.clone()
            } else {
                Vec::new()
            },
            h: zeros,
        }
    }

    /// Runs a few steps, and compares all states with the CPU's.
    fn check(&self, kernel: &mut Persistent) -> Result<()> {
        let (steps, hidden) = (CHECKED.min(self.steps), self.layer.hidden as usize);
        let inputs = &self.inputs[..steps as usize * self.batch as usize * hidden];
        let left = kernel.run(&vec![steps; self.batch as usize], &self.zeros(), inputs)?;
        for (sequence, alone) in self.alone.iter().enumerate() {
            let of_sequence = |states: &[f32]| {
                states
                    .chunks_exact(hidden)
                    .nth(sequence)
                    .unwrap_or_default()
                    .to_vec()
            };
            let found = [of_sequence(&left.h), of_sequence(&left.c)].concat();
            // A NaN is not near any number.
            let near = |(found, alone): (&f32, &f32)| (found - alone).abs() <= TOLERANCE;
            if let Some(at) = found.iter().zip(alone).position(|pair| !near(pair)) {
                return Err(Error::failed(format!(
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
