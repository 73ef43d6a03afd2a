//! Networks that compute: the cells of a model with their weights, in float32 on the CPU.
//!
//! A [`Cell`] turns the states of earlier nodes and a node's tokens into the state that the node leaves behind, for many
//! rows at once. It knows neither requests nor batches that come and go: those are the backend's. Every row of a result
//! has the same bits whatever rows stand beside it, which is what lets a test compare a batched request with the same
//! request run alone. A network that a file lists has [`Operators`] in place of cells, of which the same holds.

pub mod cells;
mod elementwise;
#[allow(unsafe_code)]
mod huge_pages;
pub mod operators;
mod product;
pub mod reference;
pub mod spec;
#[cfg(test)]
mod tests;
pub mod tokens;
pub mod weights;

use std::ops::Range;
use std::sync::Arc;

use self::operators::Operators;
pub use self::spec::Spec;
use self::weights::Weights;
use crate::error::{Error, Result};
use crate::units::CellId;
use crate::workload::cell_graph::CellGraph;
use crate::workload::model::Model;

/// A model's cells, ready to run.
#[derive(Debug)]
pub struct Network {
    model: Model,
    spec: Spec,
    cells: Vec<Box<dyn Cell>>,
    state: usize,
    /// What computes a network that a file lists, in place of cells.
    operators: Option<Operators>,
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

    /// Puts another word in the place of the one that a state holds, and says by how much its score is below the best, as a
    /// multiple of the root mean square of all scores: infinite where there is no such word. Only for cells that write text.
    fn replace_word(&self, _state: &mut [f32], _word: u32) -> f64 {
        f64::INFINITY
    }
}

/// Several cell types with one set of weights.
impl<C: Cell> Cell for Arc<C> {
    fn run(&self, batch: &Batch<'_>, out: &mut [f32], scratch: &mut Scratch) {
        (**self).run(batch, out, scratch);
    }

    fn word(&self, state: &[f32]) -> Option<u32> {
        (**self).word(state)
    }

    fn replace_word(&self, state: &mut [f32], word: u32) -> f64 {
        (**self).replace_word(state, word)
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

    /// The word of a row that has one.
    fn token(&self, row: usize) -> u32 {
        self.tokens[self.tokens_of(row).start]
    }

    /// A row's `place`-th input state of `width` numbers, if it has so many.
    fn state(&self, row: usize, place: usize, width: usize) -> Option<&[f32]> {
        self.states_of(row).nth(place).map(|at| &self.states[at * width..(at + 1) * width])
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
    /// A panel of the product's result.
    pub product: Vec<f32>,
    /// For cells that need more than that.
    pub more: Vec<f32>,
}

/// The first `length` numbers of a buffer, which grows if it is too short. They hold whatever was there.
fn first(buffer: &mut Vec<f32>, length: usize) -> &mut [f32] {
    if buffer.len() < length {
        buffer.resize(length, 0.0);
    }
    &mut buffer[..length]
}

impl Network {
    /// The network of a model, with weights from the specification's file or, without one, from its seed.
    ///
    /// # Errors
    /// A size out of range (see [`Spec::check`]); a network in a file that is larger than the memory that is free; a file of weights that can't be read, or lacks a tensor, or has one of
    /// another shape or type, with the name of the file, the tensor, and what it should be.
    pub fn new(model: &Model, spec: &Spec) -> Result<Network> {
        spec.check(model)?;
        if let Some(listed) = model.network() {
            operators::fits(listed)?;
        }
        let weights = Weights::open(model, spec)?;
        let cells = cells::of_model(model, spec, &weights);
        let network = Network::of_cells(model, spec, cells, cells::state(model, spec));
        let operators = match model {
            Model::Network(listed) => Some(Operators::new(listed, spec, &weights)),
            _ => None,
        };
        Ok(Network { operators, ..network })
    }

    /// A network of cells of one's own in place of a model's, in the order of their [`CellId`]s, all of whose states are
    /// `state` numbers wide. The specification gives the words that requests consist of.
    pub fn of_cells(model: &Model, spec: &Spec, cells: Vec<Box<dyn Cell>>, state: usize) -> Network {
        Network { model: model.clone(), spec: spec.clone(), cells, state, operators: None }
    }

    /// The model that it computes.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What decides it beside its model.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The name of a cell type, for messages; its number if the model does not have it.
    pub fn cell_name(&self, cell: CellId) -> String {
        self.model.cell_types().into_iter().nth(cell.index()).map_or_else(|| cell.to_string(), |cell| cell.name)
    }

    /// One of its cells.
    pub fn cell(&self, cell: CellId) -> &dyn Cell {
        &*self.cells[cell.index()]
    }

    /// What computes it in place of cells, if a file lists its operators.
    pub fn operators(&self) -> Option<&Operators> {
        self.operators.as_ref()
    }

    /// The numbers in the state that a node leaves behind, the same for all of its cells; 0 for a network that a file lists, whose
    /// activations have the sizes that its operators and the requests give them.
    pub fn state(&self) -> usize {
        self.state
    }

    /// Whether the network computes a request of this graph. The simulator takes trees of any arity; a binary tree-LSTM
    /// has weights for two children.
    ///
    /// # Errors
    /// Names the node that has too many inputs, and the model that takes any number.
    pub fn check(&self, graph: &CellGraph) -> Result<()> {
        let CellGraph::Graph(graph) = graph else { return Ok(()) };
        let too_many = |node: &u32| graph.inputs(*node).len() > cells::tree::CHILDREN;
        match (0..graph.len() as u32).find(too_many) {
            Some(node) if self.model == Model::TreeLstm => Err(Error::input(format!(
                "node {} has {} children, but the cells of {} take at most {}; the model {} takes any number",
                node + 1,
                graph.inputs(node).len(),
                self.model.name(),
                cells::tree::CHILDREN,
                Model::ChildSumTreeLstm.name(),
            ))),
            _ => Ok(()),
        }
    }
}
