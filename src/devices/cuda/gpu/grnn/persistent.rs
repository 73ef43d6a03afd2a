//! Sequences in a persistent kernel.

use std::sync::Arc;
use std::time::Duration;

use super::kernel::Kernel;
use super::layer::{ARRIVED, BESIDE, HIDDEN, LENGTHS, VECTORS};
use super::{Configuration, GpuHost, Layer};
use crate::base::error::{Error, Result};
use crate::base::precision::Precision;
use crate::core::cost::grnn::{Rnn, RnnSizes};
use crate::devices::cuda::device::DeviceFault;
use crate::devices::cuda::gpu::cublas::Handle;
use crate::devices::cuda::gpu::driver::{Gpu, median};
use crate::devices::cuda::gpu::memory::GpuMemory;
use crate::devices::cuda::gpu::weights::elements;

/// The number of runs that are timed together.
const BEHIND: u32 = 8;

/// The states of some sequences.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SequenceStates {
    /// The h of each sequence, \[batch, hidden\].
    pub h: Vec<f32>,
    /// The c of each sequence, \[batch, hidden\]; empty for a GRU.
    pub c: Vec<f32>,
}

/// A kernel that runs sequences of a network. Fields are dropped in order: users before what they use.
#[derive(Debug)]
pub struct PersistentKernel {
    pub(super) kernel: Kernel,
    products: Handle,
    room: Option<SequenceMemory>,
    layer: Arc<Layer>,
    gpu: Arc<Gpu>,
}

#[derive(Debug)]
struct SequenceMemory {
    steps: u32,
    batch: u32,
    /// The buffers that [`Layer::buffers`] lists.
    buffers: Vec<GpuMemory>,
}

impl SequenceMemory {
    /// Reads numbers of a buffer, after all queued work.
    fn read(&self, buffer: usize, from: usize, count: usize) -> Result<Vec<f32>, DeviceFault> {
        let numbers = self.buffers[buffer].read(from, count)?;
        Ok(numbers.into_iter().map(f32::from_le_bytes).collect())
    }
}

// SAFETY: as for `Gpus`: the driver's handles belong to the process; every call makes its context current first, and
// all handles are reachable only through this value.
unsafe impl Send for PersistentKernel {}

impl PersistentKernel {
    /// Compiles a kernel for a network's weights, or finds it in the cache, and loads it.
    pub fn new(
        host: &GpuHost,
        layer: &Arc<Layer>,
        configuration: Configuration,
    ) -> Result<PersistentKernel> {
        let RnnSizes { rnn, hidden, .. } = configuration.sizes();
        if (rnn == Rnn::Lstm) != layer.has_c() || hidden != layer.hidden {
            let cell = layer.cell.name();
            let width = layer.hidden;
            return Err(Error::input(format!(
                "a kernel {rnn} of {hidden} for the weights of {cell} of {width}"
            )));
        }
        let kernel = Kernel::new(host, configuration)?;
        Ok(PersistentKernel {
            kernel,
            products: Handle::new(&host.gpu, &host.cublas, Precision::F32)
                .map_err(Error::failure)?,
            room: None,
            layer: Arc::clone(layer),
            gpu: Arc::clone(&host.gpu),
        })
    }

    /// Runs each sequence for the steps in `lengths`, and returns the final states. `inputs` are the vectors of all
    /// steps, \[steps, batch, embedding\], for as many steps as the longest sequence has; those after a sequence's end
    /// are ignored. A sequence of no steps keeps its state.
    pub fn run(
        &mut self,
        lengths: &[u32],
        begin: &SequenceStates,
        inputs: &[f32],
    ) -> Result<SequenceStates> {
        if lengths.iter().all(|length| *length == 0) {
            return Ok(begin.clone());
        }
        self.take(lengths, begin, inputs)?;
        self.queue().map_err(Error::failure)?;
        self.final_states().map_err(Error::failure)
    }

    /// The time of a run on the GPU, the inputs' product included: the median of `times` measurements after a warm-up.
    /// Each measurement times several runs that are queued together, so that the host's work overlaps with the GPU's.
    /// The results are discarded.
    pub fn time(
        &mut self,
        lengths: &[u32],
        begin: &SequenceStates,
        inputs: &[f32],
        times: usize,
    ) -> Result<Duration> {
        self.take(lengths, begin, inputs)?;
        let gpu = Arc::clone(&self.gpu);
        median(times, || gpu.time(BEHIND, || self.queue())).map_err(Error::failure)
    }

    /// Checks the sequences, and copies them to the GPU.
    fn take(&mut self, lengths: &[u32], begin: &SequenceStates, inputs: &[f32]) -> Result<()> {
        let sizes = self.kernel.configuration.sizes();
        let batch = lengths.len();
        let hidden = sizes.hidden as usize;
        let most = sizes.batch;
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
        let given = [begin.h.len(), begin.c.len(), inputs.len()];
        let wanted = [batch * hidden, c, vectors];
        if given != wanted {
            let [given, wanted] = [given, wanted]
                .map(|[h, c, inputs]| format!("{h} numbers of h, {c} of c and {inputs} of inputs"));
            return Err(Error::input(format!("{given} for {wanted}")));
        }
        let largest = (steps + 1) as u64 * (batch * hidden) as u64 * u64::from(self.layer.gates());
        if largest > u64::from(u32::MAX) {
            return Err(Error::input(format!(
                "{steps} steps of {batch} sequences have {largest} numbers, and a launch takes up to {}; run fewer steps at a time",
                u32::MAX
            )));
        }
        self.fill(steps as u32, lengths, begin, inputs)
            .map_err(Error::failure)
    }

    /// Copies sequences to the GPU.
    fn fill(
        &mut self,
        steps: u32,
        lengths: &[u32],
        begin: &SequenceStates,
        inputs: &[f32],
    ) -> Result<(), DeviceFault> {
        let batch = lengths.len() as u32;
        // The old memory is freed first, because both may not fit.
        self.room = None;
        let mut room = self.allocate(steps, batch)?;
        let lengths: Vec<u8> = lengths
            .iter()
            .flat_map(|length| length.to_le_bytes())
            .collect();
        room.buffers[VECTORS].write(&elements(&self.layer.inputs(inputs), Precision::F32))?;
        room.buffers[HIDDEN].write(&elements(&begin.h, Precision::F32))?;
        room.buffers[BESIDE].write(&elements(&begin.c, Precision::F32))?;
        room.buffers[LENGTHS].write(&lengths)?;
        // A launch leaves zeros, but one that was aborted may not.
        room.buffers[ARRIVED].clear()?;
        self.room = Some(room);
        Ok(())
    }

    /// The memory of a launch.
    fn allocate(&self, steps: u32, batch: u32) -> Result<SequenceMemory, DeviceFault> {
        let numbers = self.layer.buffers(
            steps as usize,
            batch as usize,
            self.kernel.configuration.extra_numbers(batch),
        );
        let buffers = numbers
            .iter()
            .map(|numbers| GpuMemory::new(&self.gpu, numbers * size_of::<f32>(), "sequences"));
        Ok(SequenceMemory {
            steps,
            batch,
            buffers: buffers.collect::<Result<_, _>>()?,
        })
    }

    /// Queues the product of all inputs, then the kernel.
    fn queue(&mut self) -> Result<(), DeviceFault> {
        let room = self.room.as_ref().expect("sequences were taken");
        let at: Vec<u64> = room.buffers.iter().map(GpuMemory::address).collect();
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
    fn final_states(&self) -> Result<SequenceStates, DeviceFault> {
        let room = self.room.as_ref().expect("sequences were taken");
        let states = room.batch as usize * self.layer.hidden as usize;
        let c = if self.layer.has_c() {
            room.read(BESIDE, 0, states)?
        } else {
            Vec::new()
        };
        Ok(SequenceStates {
            h: room.read(HIDDEN, room.steps as usize * states, states)?,
            c,
        })
    }
}

impl Drop for PersistentKernel {
    /// Waits for queued work before its memory is freed.
    fn drop(&mut self) {
        // There is nothing to wait for on a lost GPU.
        let _ = self.gpu.synchronize();
    }
}
