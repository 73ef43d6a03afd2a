//! Networks that the CPU computes, in float32.
//!
//! A [`NetworkCell`] computes the states of many nodes at once and knows nothing of requests. The bits of a row do not
//! depend on the other rows, so a batched request can be compared with the same request run alone. Listed networks have
//! [`Operators`] in place of cells.

pub mod by_operator;
pub mod cells;
mod elementwise;
#[allow(unsafe_code)]
mod huge_pages;
pub mod operators;
mod product;
pub mod reference;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod row_tiles;
#[cfg(test)]
mod tests;
pub mod weights;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use self::by_operator::OperatorPrograms;
use self::cells::Affine;
use self::cells::gated::CHILDREN;
use self::operators::Operators;
use self::weights::Weights;
use crate::base::error::{Error, Result};
use crate::base::units::{CellId, RequestId};
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::model::Model;
use crate::core::workload::operator::Sizes;
use crate::core::workload::random::split_mix;

/// The sizes of a network and the source of its weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// H, the width of the hidden state.
    pub hidden: u32,
    /// E, the width of an embedding.
    pub embedding: u32,
    /// V, the number of words.
    pub vocabulary: u32,
    /// The seed of the words, and of the weights if there is no file.
    pub seed: u64,
    /// The safetensors file with the weights.
    pub weights: Option<PathBuf>,
}

impl Spec {
    pub fn sizes(&self) -> Sizes {
        Sizes {
            hidden: self.hidden,
            embedding: self.embedding,
            vocabulary: self.vocabulary,
        }
    }

    /// Checks the sizes for a model. Error messages begin with the key.
    pub fn check(&self, model: &Model) -> Result<()> {
        if model.graph_model().is_some() {
            return Err(Error::input(format!(
                "model: {} describes cells and graphs, and has no weights to compute with; run it with batchlab sim, or \
                 take lstm, gru, seq2seq, tree-lstm, childsum-tree-lstm, dnn:NAME or dnn:FILE.csv",
                model.name()
            )));
        }
        if model.is_llm() {
            return Err(Error::input(
                "model: language models are simulated only; run this scenario with batchlab sim",
            ));
        }
        if let Some(network) = model.network() {
            return operators::check(network);
        }
        for (key, value, most) in [
            ("hidden", self.hidden, Sizes::MAX_WIDTH),
            ("embedding", self.embedding, Sizes::MAX_WIDTH),
            ("vocabulary", self.vocabulary, Sizes::MAX_VOCABULARY),
        ] {
            if !(1..=most).contains(&value) {
                return Err(Error::input(format!(
                    "{key}: {value} is out of range; from 1 to {most}"
                )));
            }
        }
        if matches!(model, Model::Dnn(_)) && self.embedding != self.hidden {
            return Err(Error::input(format!(
                "embedding: {} is not the hidden width {}, which the model {} adds it to; leave it out",
                self.embedding,
                self.hidden,
                model.name(),
            )));
        }
        Ok(())
    }
}

/// A network with its weights.
#[derive(Debug)]
pub struct Network {
    model: Model,
    spec: Spec,
    cells: Vec<Arc<dyn NetworkCell>>,
    state: usize,
    /// The operators of a listed network, which has no cells.
    operators: Option<Operators>,
    /// The cells operator by operator, for policies that batch below cells.
    pub by_operator: Option<OperatorPrograms>,
}

/// A cell type with its weights.
pub trait NetworkCell: Send + Sync + std::fmt::Debug {
    /// Writes the new state of each row, [`Network::state`] numbers wide, to `out`. A row's bits depend only on this
    /// row. `scratch` belongs to the calling thread.
    fn run(&self, batch: &BatchInputs<'_>, out: &mut [f32], scratch: &mut Scratch);

    /// The word in a state, for cells that write one.
    fn word(&self, _state: &[f32]) -> Option<u32> {
        None
    }

    /// Replaces the word in a state. Returns how far the new word's score is below the best, in root mean squares of
    /// all scores; infinity if there is no such word.
    fn replace_word(&self, _state: &mut [f32], _word: u32) -> f64 {
        f64::INFINITY
    }

    /// All products of the cell, for [`OperatorPrograms`]; empty if the cell runs only as a whole.
    fn affines(&self) -> Vec<&Arc<Affine>> {
        Vec::new()
    }
}

/// The inputs of a batch of nodes.
#[derive(Clone, Copy, Debug)]
pub struct BatchInputs<'a> {
    pub rows: usize,
    /// The words of the rows, row after row.
    pub tokens: &'a [u32],
    /// The end of each row's words in `tokens`.
    pub token_ends: &'a [u32],
    /// The number of words to which each row is padded, if the cell's time depends on it; otherwise 0.
    pub padded_to: u32,
    /// The input states, each [`Network::state`] numbers wide. Some may belong to no row.
    pub states: &'a [f32],
    /// The range of each row's input states in `states`, counted in states.
    pub states_at: &'a [Range<u32>],
}

impl BatchInputs<'_> {
    /// The range of a row's words in `tokens`.
    pub fn tokens_of(&self, row: usize) -> Range<usize> {
        let from = row
            .checked_sub(1)
            .map_or(0, |before| self.token_ends[before]);
        from as usize..self.token_ends[row] as usize
    }

    /// The range of a row's input states, counted in states.
    pub fn states_of(&self, row: usize) -> Range<usize> {
        let Range { start, end } = self.states_at[row];
        start as usize..end as usize
    }

    /// The first word of a row.
    fn token(&self, row: usize) -> u32 {
        self.tokens[self.tokens_of(row).start]
    }

    /// A row's `place`-th input state, if it has one.
    fn state(&self, row: usize, place: usize, width: usize) -> Option<&[f32]> {
        self.states_of(row)
            .nth(place)
            .map(|at| &self.states[at * width..(at + 1) * width])
    }

    /// Copies the beginning of a row's `place`-th input state, or zeros.
    fn copy_state(&self, row: usize, place: usize, width: usize, into: &mut [f32]) {
        match self.state(row, place, width) {
            Some(state) => into.copy_from_slice(&state[..into.len()]),
            None => into.fill(0.0),
        }
    }
}

/// A thread's working memory, which grows to the largest batch.
#[derive(Debug, Default)]
pub struct Scratch {
    pub operand: Vec<f32>,
    pub product: Vec<f32>,
    pub more: Vec<f32>,
}

/// The first `length` numbers of a buffer, which grows if it is too short. Their values are arbitrary.
pub fn first(buffer: &mut Vec<f32>, length: usize) -> &mut [f32] {
    if buffer.len() < length {
        buffer.resize(length, 0.0);
    }
    &mut buffer[..length]
}

impl Network {
    /// A network with the weights that `spec` names. Fails if the model can't be computed, or if memory is short.
    pub fn new(model: &Model, spec: &Spec) -> Result<Network> {
        spec.check(model)?;
        if let Some(listed) = model.network() {
            operators::fits(listed)?;
        }
        let weights = Weights::open(model, spec)?;
        let cells = cells::build_cells(model, spec, &weights);
        let network = Network::from_cells(model, spec, cells, cells::state(model, spec));
        let operators = match model {
            Model::Network(listed) => Some(Operators::new(listed, spec, &weights)),
            _ => None,
        };
        Ok(Network {
            operators,
            ..network
        })
    }

    /// A network of custom cells, in the order of their [`CellId`]s, with states of `state` numbers. `spec` defines the
    /// requests' words.
    pub fn from_cells(
        model: &Model,
        spec: &Spec,
        cells: Vec<Arc<dyn NetworkCell>>,
        state: usize,
    ) -> Network {
        Network {
            model: model.clone(),
            spec: spec.clone(),
            cells,
            state,
            operators: None,
            by_operator: None,
        }
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    pub fn cell_name(&self, cell: CellId) -> String {
        self.model
            .cell_types()
            .into_iter()
            .nth(cell.index())
            .map_or_else(|| cell.to_string(), |cell| cell.name)
    }

    pub fn cell(&self, cell: CellId) -> &dyn NetworkCell {
        &*self.cells[cell.index()]
    }

    pub fn operators(&self) -> Option<&Operators> {
        self.operators.as_ref()
    }

    /// Also prepares operator-by-operator execution. Embeddings are then held twice.
    ///
    /// # Errors
    /// Fails if the CPU has only whole cells of this model.
    pub fn with_operators(self) -> Result<Network> {
        let by_operator = Some(OperatorPrograms::new(&self.model, &self.spec, &self.cells)?);
        Ok(Network {
            by_operator,
            ..self
        })
    }

    /// The width of all states; 0 for a listed network.
    pub fn state(&self) -> usize {
        self.state
    }

    /// Checks that the cells take a request's graph: a binary tree-LSTM has weights for only two children.
    pub fn check(&self, graph: &CellGraph) -> Result<()> {
        let CellGraph::Graph(graph) = graph else {
            return Ok(());
        };
        if self.model != Model::TreeLstm {
            return Ok(());
        }
        for node in 0..graph.len() as u32 {
            let children = graph.inputs(node).len();
            if children > CHILDREN {
                return Err(Error::input(format!(
                    "node {} has {children} children, but the cells of {} take at most {CHILDREN}; the model {} takes any number",
                    node + 1,
                    self.model.name(),
                    Model::ChildSumTreeLstm.name(),
                )));
            }
        }
        Ok(())
    }

    /// The word at a place of a request: a mix of the seed, the request and the place, the same on every platform. The
    /// place is the node's number, or counts the tokens of a request of one cell.
    pub fn token(&self, request: RequestId, place: u32) -> u32 {
        let mixed = split_mix(self.spec.seed ^ split_mix(request.0 << 32 | u64::from(place)));
        // The high half of a product spreads 32 random bits evenly.
        (((mixed >> 32) * u64::from(self.spec.vocabulary)) >> 32) as u32
    }
}
