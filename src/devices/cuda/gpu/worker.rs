//! A worker: one GPU with the network, the pool of states and the streams.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cells::{GpuCell, Sequences, StatePool};
use super::compile::LoadedKernels;
use super::cublas::Cublas;
use super::driver::{Gpu, size};
use super::memory::{GpuMemory, Mapped};
use super::stream::StreamState;
use crate::base::precision::Precision;
use crate::base::units::StreamId;
use crate::devices::cuda::device::{BatchShape, DeviceFault, StateSlot};

/// The percentage of free memory for states; streams, graphs and libraries need the rest later.
const STATES_SHARE: usize = 75;

/// The most slots; kernels use the next number for "none".
const MOST_SLOTS: u64 = u32::MAX as u64;

/// A worker on its GPU. Fields are dropped in order: users before what they use.
#[derive(Debug)]
pub(super) struct GpuWorker {
    pub streams: BTreeMap<StreamId, StreamState>,
    pub pool: Option<GpuMemory>,
    /// For each slot whether a NaN or an infinity was stored there.
    pub non_finite: Mapped<u32>,
    /// The number of states in the pool.
    pub slots: u32,
    /// The distance of two states, as [`super::cells::stride`] gives it.
    pub stride: u32,
    pub cells: Vec<Box<dyn GpuCell>>,
    /// The same cells in persistent kernels, if the GPU's registers hold the weights.
    pub sequences: Option<Sequences>,
    /// The stream that last launched a persistent kernel.
    pub persistent: Option<StreamId>,
    pub kernels: LoadedKernels,
    pub cublas: Cublas,
    pub gpu: Arc<Gpu>,
}

impl GpuWorker {
    /// The cell of a shape, in traditional or persistent kernels.
    pub fn cell_of(&self, shape: &BatchShape) -> &dyn GpuCell {
        cell_of(&self.cells, &self.sequences, shape)
    }

    /// The index of the working memory of a stream that a shape uses: that of its cell type, the first if all cells
    /// share it, or the last for persistent kernels.
    pub fn memory_of(&self, shape: &BatchShape) -> usize {
        match shape.steps {
            0 if self.cells[shape.cell.index()].shares_memory() => 0,
            0 => shape.cell.index(),
            _ => self.cells.len(),
        }
    }

    /// Opens a new stream.
    pub fn open_stream(&mut self, id: StreamId, precision: Precision) -> Result<(), DeviceFault> {
        let opened = StreamState::open(
            &self.gpu,
            &self.cublas,
            &self.kernels,
            self.cells.len(),
            precision,
        )?;
        self.streams.insert(id, opened);
        Ok(())
    }

    /// Makes the memory of an open stream large enough for a shape; returns whether it has moved. After a fault the old
    /// memory stays.
    pub fn fit_stream(
        &mut self,
        shape: &BatchShape,
        precision: Precision,
    ) -> Result<bool, DeviceFault> {
        let memory = self.memory_of(shape);
        let GpuWorker {
            streams,
            cells,
            sequences,
            ..
        } = self;
        let stream = streams
            .get_mut(&shape.stream.id)
            .expect("the stream is open");
        stream.fit(memory, cell_of(cells, sequences, shape), shape, precision)
    }

    /// The largest number of steps of `rows` chains in one launch; 0 without persistent kernels.
    pub fn most_steps(&self, rows: u32) -> u32 {
        match &self.sequences {
            Some(sequences) => sequences.most_steps(rows),
            None => 0,
        }
    }

    /// Makes an open stream wait for the persistent kernel of another stream. All blocks of such a kernel must be
    /// resident at the same time, so two kernels that share the GPU could wait for each other forever.
    pub fn one_at_a_time(&mut self, stream: StreamId) -> Result<(), DeviceFault> {
        if let Some(other) = self.persistent.filter(|other| *other != stream) {
            let other = self.streams.get_mut(&other).expect("it has been used");
            let number = other.record()?;
            let event = other.event(number);
            // SAFETY: events live as long as their streams, which are never closed.
            unsafe { self.streams[&stream].wait(event) }?;
        }
        self.persistent = Some(stream);
        Ok(())
    }

    /// Makes room for this number of states, or for as many as fit. Returns whether the pool has moved, which
    /// invalidates all plans. No work may be queued.
    pub fn fit(&mut self, states: u64) -> Result<bool, DeviceFault> {
        let wanted = states.clamp(1, MOST_SLOTS);
        if wanted <= u64::from(self.slots) {
            return Ok(false);
        }
        let (free, total) = self.gpu.memory()?;
        let bytes = self.stride as usize * size_of::<f32>();
        let held = self.slots as usize * bytes;
        let fits = (free + held) / 100 * STATES_SHARE / bytes;
        if fits == 0 {
            return Err(DeviceFault::survivable(format!(
                "{} has no memory for states: one takes {}, {} of {} are free; a smaller hidden width takes less, and the \
                 cpu backend none",
                self.gpu,
                size(bytes),
                size(free),
                size(total)
            )));
        }
        let slots = wanted.min(fits as u64) as u32;
        if slots <= self.slots {
            return Ok(false);
        }
        // The old pool is freed first: both may not fit.
        self.slots = 0;
        self.pool = None;
        self.non_finite = Mapped::new(&self.gpu, slots as usize, "a note for each state")?;
        self.pool = Some(GpuMemory::new(&self.gpu, slots as usize * bytes, "states")?);
        self.slots = slots;
        Ok(true)
    }

    /// Resets signals, events and flags. No work may be queued.
    pub fn reset(&mut self) -> Result<(), DeviceFault> {
        for slot in 0..self.slots as usize {
            self.non_finite
                .get(slot)
                .store(0, std::sync::atomic::Ordering::Relaxed);
        }
        self.streams.values_mut().try_for_each(StreamState::reset)
    }

    pub fn states(&self, words: u64) -> StatePool {
        let pool = self.pool.as_ref().map_or(0, GpuMemory::address);
        StatePool {
            pool,
            width: self.stride,
            non_finite: self.non_finite.address(0),
            words,
        }
    }

    pub fn state(&self, slot: StateSlot) -> Result<u64, DeviceFault> {
        if slot.0 >= self.slots {
            return Err(DeviceFault::survivable(format!(
                "slot {} of {}",
                slot.0, self.slots
            )));
        }
        let offset = u64::from(slot.0) * u64::from(self.stride) * size_of::<f32>() as u64;
        Ok(self.states(0).pool + offset)
    }
}

fn cell_of<'w>(
    cells: &'w [Box<dyn GpuCell>],
    sequences: &'w Option<Sequences>,
    shape: &BatchShape,
) -> &'w dyn GpuCell {
    match sequences {
        Some(sequences) if shape.steps > 0 => sequences,
        _ => &*cells[shape.cell.index()],
    }
}
