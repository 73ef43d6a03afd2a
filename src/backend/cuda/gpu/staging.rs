//! Where the host writes the members of batches for the GPU to read.
//!
//! A gather is queued long before it runs, so that each takes memory of its own until its task is done. The memory is a ring
//! of equal pieces: what was taken first is free first, because a stream's tasks are done in order.

use std::collections::VecDeque;
use std::sync::Arc;

use super::mapped::Mapped;
use super::opened::Gpu;
use crate::backend::cuda::device::{Batch, Fault};

/// The numbers that a row is on the GPU.
pub(super) const ROW: usize = 7;

/// The pieces that a stream begins with. A policy has a few tasks in in_flight; whole requests gather more often.
const PIECES: usize = 32;

/// The ring of one stream.
#[derive(Debug)]
pub(super) struct Staging {
    gpu: Arc<Gpu>,
    blocks: Vec<Mapped<u32>>,
    /// The next to be taken is in front.
    pieces: VecDeque<Piece>,
    /// The numbers in each piece.
    room: usize,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    block: usize,
    begin: usize,
    /// The signal of the task that reads it.
    busy_until: u64,
}

/// A batch, where the GPU finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Staged {
    pub rows: u64,
    pub inputs: u64,
}

impl Staging {
    pub fn new(gpu: &Arc<Gpu>) -> Staging {
        Staging { gpu: Arc::clone(gpu), blocks: Vec::new(), pieces: VecDeque::new(), room: 0 }
    }

    /// Makes pieces large enough for so many rows and inputs. What is taken stays as it is; nothing that is queued may read it.
    ///
    /// # Errors
    /// Memory that can't be pinned.
    pub fn fit(&mut self, rows: usize, inputs: usize) -> Result<(), Fault> {
        let room = ROW * rows + inputs;
        if room <= self.room {
            return Ok(());
        }
        self.room = room.next_power_of_two();
        self.pieces.clear();
        self.blocks.clear();
        self.grow(PIECES)
    }

    /// All pieces are free: nothing that is queued reads them, and signals count from 0.
    pub fn reset(&mut self) {
        self.pieces.iter_mut().for_each(|piece| piece.busy_until = 0);
    }

    /// Writes a batch down for a task that signals with this number. `signalled` is how far the stream's signal has counted.
    ///
    /// # Errors
    /// Memory that can't be pinned, where all pieces are taken.
    pub fn write(&mut self, batch: &Batch<'_>, signal: u64, signalled: u64) -> Result<Staged, Fault> {
        debug_assert!(ROW * batch.rows.len() + batch.inputs.len() <= self.room, "the plan was made for such a batch");
        if self.pieces.front().is_none_or(|piece| piece.busy_until > signalled) {
            self.grow(self.pieces.len().max(PIECES))?;
        }
        let mut piece = self.pieces.pop_front().expect("the ring has grown");
        let block = &mut self.blocks[piece.block];
        let mut at = piece.begin;
        for row in batch.rows {
            let numbers = [row.request.0, row.node, row.last, row.state.0, row.words, row.tokens, row.inputs_end];
            block.write(at, numbers.into_iter());
            at += ROW;
        }
        block.write(at, batch.inputs.iter().map(|slot| slot.0));
        let staged = Staged { rows: block.address(piece.begin), inputs: block.address(at) };
        piece.busy_until = signal;
        self.pieces.push_back(piece);
        Ok(staged)
    }

    /// Adds free pieces, which come first.
    fn grow(&mut self, pieces: usize) -> Result<(), Fault> {
        self.blocks.push(Mapped::new(&self.gpu, pieces * self.room, "the members of batches")?);
        let block = self.blocks.len() - 1;
        for piece in 0..pieces {
            self.pieces.push_front(Piece { block, begin: piece * self.room, busy_until: 0 });
        }
        Ok(())
    }
}
