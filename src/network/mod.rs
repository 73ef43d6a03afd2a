//! Networks that compute: the cells of a model with their weights, in float32 on the CPU.
//!
//! A [`Cell`] turns the states of earlier nodes and a node's tokens into the state that the node leaves behind, for many
//! rows at once. It knows neither requests nor batches that come and go: those are the backend's. Every row of a result
//! has the same bits whatever rows stand beside it, which is what lets a test compare a batched request with the same
//! request run alone.

pub mod cells;
pub mod reference;
pub mod tokens;
pub mod weights;

use std::ops::Range;

use crate::units::CellId;

/// A model's cells, ready to run.
#[derive(Debug)]
pub struct Network {
    cells: Vec<Box<dyn Cell>>,
    state: usize,
    seed: u64,
    vocabulary: u32,
}

/// A cell type with its weights.
pub trait Cell: Send + Sync + std::fmt::Debug {
    /// Computes a batch: for each row the state that it leaves behind, [`Network::state`] numbers wide, into `out`, which
    /// holds as many for each row of the batch, in order.
    ///
    /// A row's bits depend on nothing but this row. `scratch` is the caller's thread's own; what is in it before a call means
    /// nothing.
    fn run(&self, batch: &Batch<'_>, out: &mut [f32], scratch: &mut Scratch);

    /// The word that a state holds, for cells that write text.
    fn word(&self, _state: &[f32]) -> Option<u32> {
        None
    }
}

/// What a batch of one cell type computes on.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// How many nodes run at once.
    pub rows: usize,
    /// The input words of all rows, one row behind the other.
    pub tokens: &'a [u32],
    /// Where each row's words end in `tokens`; the first row's begin at 0.
    pub token_ends: &'a [u32],
    /// The words that each row is padded to, for cells whose time depends on their number, otherwise 0.
    pub padded_to: u32,
    /// The states that the rows take, each [`Network::state`] numbers wide, one row behind the other.
    pub states: &'a [f32],
    /// Where each row's states end, counted in states; the first row's begin at 0. A row without inputs takes none.
    pub state_ends: &'a [u32],
}

impl Batch<'_> {
    /// Where a row's words stand in [`Batch::tokens`].
    pub fn tokens_of(&self, row: usize) -> Range<usize> {
        span(self.token_ends, row)
    }

    /// Which of [`Batch::states`] a row takes.
    pub fn states_of(&self, row: usize) -> Range<usize> {
        span(self.state_ends, row)
    }
}

fn span(ends: &[u32], row: usize) -> Range<usize> {
    let from = row.checked_sub(1).map_or(0, |before| ends[before]);
    from as usize..ends[row] as usize
}

/// A thread's working memory for cells; it grows to the largest batch and stays.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The left operand of the product.
    pub operand: Vec<f32>,
    /// The result of the product.
    pub product: Vec<f32>,
    /// For cells that need more than one product.
    pub more: Vec<f32>,
}

impl Network {
    /// A network of these cells, in the order of their [`CellId`]s, all of whose states are `state` numbers wide. `seed`
    /// and `vocabulary` give the words that requests consist of.
    pub fn of_cells(cells: Vec<Box<dyn Cell>>, state: usize, seed: u64, vocabulary: u32) -> Network {
        Network { cells, state, seed, vocabulary }
    }

    /// One of its cells.
    pub fn cell(&self, cell: CellId) -> &dyn Cell {
        &*self.cells[cell.index()]
    }

    /// The numbers in the state that a node leaves behind, the same for all of its cells.
    pub fn state(&self) -> usize {
        self.state
    }
}
