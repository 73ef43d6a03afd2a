//! A worker: one GPU with the network, the pool of states and the streams.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cells::{Cell, Sequences, States};
use super::compile::Kernels;
use super::cublas::Cublas;
use super::driver::{Gpu, size};
use super::memory::{Mapped, Memory};
use super::stream::StreamState;
use crate::base::precision::Precision;
use crate::base::units::StreamId;
use crate::devices::cuda::device::{Fault, Shape, Slot};

/// The percentage of free memory for states; streams, graphs and libraries need the rest later.
const STATES_SHARE: usize = 75;

/// The most slots; kernels use the next number for "none".
const MOST_SLOTS: u64 = u32::MAX as u64;

/// The worker. Fields are dropped in order: users before what they use.
#[derive(Debug)]
pub(super) struct Worker {
    pub streams: BTreeMap<StreamId, StreamState>,
    pub pool: Option<Memory>,
    /// For each slot whether a NaN or an infinity was stored there.
    pub non_finite: Mapped<u32>,
    pub slots: u32,
    /// [`super::cells::stride`].
    pub stride: u32,
    pub cells: Vec<Box<dyn Cell>>,
    /// The same cells in persistent kernels.
    pub sequences: Option<Sequences>,
    /// The stream that last launched a persistent kernel.
    pub persistent: Option<StreamId>,
    pub kernels: Kernels,
    pub cublas: Cublas,
    pub gpu: Arc<Gpu>,
}

impl Worker {
    pub fn cell_of(&self, shape: &Shape) -> &dyn Cell {
        cell_of(&self.cells, &self.sequences, shape)
    }

    /// Which of a stream's working memories a shape uses: that of its cell type, the first if all cells share it, or
    /// the last for persistent kernels.
    pub fn memory_of(&self, shape: &Shape) -> usize {
        match shape.steps {
            0 if self.cells[shape.cell.index()].shares_memory() => 0,
            0 => shape.cell.index(),
            _ => self.cells.len(),
        }
    }

    /// Makes the memory of an open stream large enough for a shape; returns whether it has moved. After a fault the old
    /// one stays.
    pub fn fit_stream(&mut self, shape: &Shape, precision: Precision) -> Result<bool, Fault> {
        let memory = self.memory_of(shape);
        let Worker {
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

    /// Makes an open stream wait for the persistent kernel of another stream. All blocks of such a kernel must be
    /// resident, so the blocks of two could wait for each other's places.
    pub fn one_at_a_time(&mut self, stream: StreamId) -> Result<(), Fault> {
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

    /// Makes room for this number of states, or for as many as fit. Returns whether the pool has moved, which invalidates
    /// all plans. No work may be queued.
    pub fn fit(&mut self, states: u64) -> Result<bool, Fault> {
        let wanted = states.clamp(1, MOST_SLOTS);
        if wanted <= u64::from(self.slots) {
            return Ok(false);
        }
        let (free, total) = self.gpu.memory()?;
        let bytes = self.stride as usize * size_of::<f32>();
        let held = self.slots as usize * bytes;
        let fits = (free + held) / 100 * STATES_SHARE / bytes;
        if fits == 0 {
            return Err(Fault::survived(format!(
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
        self.pool = Some(Memory::new(&self.gpu, slots as usize * bytes, "states")?);
        self.slots = slots;
        Ok(true)
    }

    /// Resets signals, events and flags. No work may be queued.
    pub fn reset(&mut self) -> Result<(), Fault> {
        for slot in 0..self.slots as usize {
            self.non_finite
                .at(slot)
                .store(0, std::sync::atomic::Ordering::Relaxed);
        }
        self.streams.values_mut().try_for_each(StreamState::reset)
    }

    pub fn states(&self, words: u64) -> States {
        let pool = self.pool.as_ref().map_or(0, Memory::address);
        States {
            pool,
            width: self.stride,
            non_finite: self.non_finite.address(0),
            words,
        }
    }

    pub fn state(&self, slot: Slot) -> Result<u64, Fault> {
        if slot.0 >= self.slots {
            return Err(Fault::survived(format!(
                "slot {} of {}",
                slot.0, self.slots
            )));
        }
        let offset = u64::from(slot.0) * u64::from(self.stride) * size_of::<f32>() as u64;
        Ok(self.states(0).pool + offset)
    }
}

fn cell_of<'w>(
    cells: &'w [Box<dyn Cell>],
    sequences: &'w Option<Sequences>,
    shape: &Shape,
) -> &'w dyn Cell {
    match sequences {
        Some(sequences) if shape.steps > 0 => sequences,
        _ => &*cells[shape.cell.index()],
    }
}
