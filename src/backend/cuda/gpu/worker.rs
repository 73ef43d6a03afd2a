//! A worker: one GPU with the network, the pool of states and the lanes.

use std::sync::Arc;

use super::cells::{Cell, States};
use super::compile::Kernels;
use super::lane::LaneState;
use super::mapped::Mapped;
use super::memory::Memory;
use super::opened::{Gpu, size};
use crate::backend::cuda::device::{Fault, Slot};
use crate::units::CellId;

/// The share of the memory that is free which states may take, in hundredths: lanes, graphs and libraries take theirs later.
const STATES_SHARE: usize = 75;

/// The most slots that have a number; kernels take the one behind for none.
const MOST_SLOTS: u64 = u32::MAX as u64;

/// The worker. What is first uses what stands behind it.
#[derive(Debug)]
pub(super) struct Worker {
    /// By stream.
    pub lanes: Vec<Option<LaneState>>,
    pool: Option<Memory>,
    /// For each slot whether numbers that are none were stored there.
    broken: Mapped<u32>,
    slots: u32,
    /// [`super::cells::stride`].
    stride: u32,
    pub cells: Vec<Box<dyn Cell>>,
    pub kernels: Kernels,
    pub gpu: Arc<Gpu>,
    /// Why the GPU can't be used any more.
    lost: Option<String>,
}

impl Worker {
    pub fn new(gpu: Arc<Gpu>, kernels: Kernels, cells: Vec<Box<dyn Cell>>, stride: u32) -> Result<Worker, Fault> {
        let broken = Mapped::new(&gpu, 0, "a note for each state")?;
        Ok(Worker { lanes: Vec::new(), pool: None, broken, slots: 0, stride, cells, kernels, gpu, lost: None })
    }

    /// Which of a lane's working memories a cell type uses: its own, or the first if it shares it with all others.
    pub fn memory_of(&self, cell: CellId) -> usize {
        if self.cells[cell.index()].shares_memory() { 0 } else { cell.index() }
    }

    /// The cell types that use one of a lane's working memories.
    pub fn users_of(&self, memory: usize) -> Vec<CellId> {
        (0..self.cells.len() as u16).map(CellId).filter(|cell| self.memory_of(*cell) == memory).collect()
    }

    /// The states that there is room for.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Makes room for so many states, or for as many as fit. Says whether the pool has moved, so that no plan holds any more.
    /// Nothing may be queued.
    ///
    /// # Errors
    /// Memory that is not there for a single state, or that is taken by others meanwhile.
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
            return Err(Fault {
                reason: format!(
                    "{} has no memory for states: one takes {}, {} of {} are free; a smaller hidden width takes less, and the \
                     cpu backend none",
                    self.gpu,
                    size(bytes),
                    size(free),
                    size(total)
                ),
                lost: false,
            });
        }
        let slots = wanted.min(fits as u64) as u32;
        if slots <= self.slots {
            return Ok(false);
        }
        // The old pool goes first: both may not fit beside each other.
        self.slots = 0;
        self.pool = None;
        self.broken = Mapped::new(&self.gpu, slots as usize, "a note for each state")?;
        self.pool = Some(Memory::new(&self.gpu, slots as usize * bytes, "states")?);
        self.slots = slots;
        Ok(true)
    }

    /// Forgets what an earlier run left: signals, marks, broken states. Nothing may be queued.
    pub fn reset(&mut self) -> Result<(), Fault> {
        for slot in 0..self.slots as usize {
            self.broken.at(slot).store(0, std::sync::atomic::Ordering::Relaxed);
        }
        self.lanes.iter_mut().flatten().try_for_each(LaneState::reset)
    }

    /// The states, as kernels see them.
    pub fn states(&self, words: u64) -> States {
        let pool = self.pool.as_ref().map_or(0, Memory::address);
        States { pool, width: self.stride, broken: self.broken.address(0), words }
    }

    /// Where a state stands.
    ///
    /// # Errors
    /// There is no such slot.
    pub fn state(&self, slot: Slot) -> Result<u64, Fault> {
        if slot.0 >= self.slots {
            return Err(Fault { reason: format!("slot {} of {}", slot.0, self.slots), lost: false });
        }
        let offset = u64::from(slot.0) * u64::from(self.stride) * size_of::<f32>() as u64;
        Ok(self.states(0).pool + offset)
    }

    /// Whether a slot was broken since this was last asked.
    pub fn broken(&self, slot: Slot) -> bool {
        self.broken.at(slot.0 as usize).swap(0, std::sync::atomic::Ordering::Relaxed) != 0
    }

    /// Whether the GPU can still be used.
    ///
    /// # Errors
    /// Why not.
    pub fn usable(&self) -> Result<(), Fault> {
        match &self.lost {
            None => Ok(()),
            Some(reason) => Err(Fault { reason: reason.clone(), lost: true }),
        }
    }

    /// Keeps in mind why the GPU was lost, if it was.
    pub fn noted<T>(&mut self, outcome: Result<T, Fault>) -> Result<T, Fault> {
        if let Err(Fault { reason, lost: true }) = &outcome {
            self.lost.get_or_insert_with(|| reason.clone());
        }
        outcome
    }
}
