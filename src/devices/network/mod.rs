//! Networks that the CPU computes, in float32.
//!
//! A [`Cell`] computes the states of many nodes at once and knows nothing of requests. The bits of a row do not depend
//! on the other rows, so a batched request can be compared with the same request run alone. Listed networks have
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

use self::by_operator::ByOperator;
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
    /// E, the width of a word's vector.
    pub embedding: u32,
    /// V, the number of words.
    pub vocabulary: u32,
    /// For the words, and for the weights if there is no file.
    pub seed: u64,
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

    /// Messages begin with the key.
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

#[derive(Debug)]
pub struct Network {
    model: Model,
    spec: Spec,
    cells: Vec<Arc<dyn Cell>>,
    state: usize,
    /// Of a listed network, in place of cells.
    operators: Option<Operators>,
    /// For policies that batch below cells.
    pub by_operator: Option<ByOperator>,
}

/// A cell type with its weights.
pub trait Cell: Send + Sync + std::fmt::Debug {
    /// Writes the new state of each row, [`Network::state`] numbers wide, to `out`. A row's bits depend only on this
    /// row. `scratch` belongs to the calling thread.
    fn run(&self, batch: &Batch<'_>, out: &mut [f32], scratch: &mut Scratch);

    fn word(&self, _state: &[f32]) -> Option<u32> {
        None
    }

    /// Replaces the word in a state. Returns how far its score is below the best, in root mean squares of all scores;
    /// infinity if there is no such word.
    fn replace_word(&self, _state: &mut [f32], _word: u32) -> f64 {
        f64::INFINITY
    }

    /// All products, for [`ByOperator`]; none if the cell runs only as a whole.
    fn affines(&self) -> Vec<&Arc<Affine>> {
        Vec::new()
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    pub rows: usize,
    /// Row after row.
    pub tokens: &'a [u32],
    /// The end of each row's words in `tokens`.
    pub token_ends: &'a [u32],
    /// The words that each row is padded to, if the cell's time depends on it; else 0.
    pub padded_to: u32,
    /// Each [`Network::state`] numbers wide. Some may belong to no row.
    pub states: &'a [f32],
    /// Where in `states` those of each row are, counted in states.
    pub states_at: &'a [Range<u32>],
}

impl Batch<'_> {
    pub fn tokens_of(&self, row: usize) -> Range<usize> {
        let from = row
            .checked_sub(1)
            .map_or(0, |before| self.token_ends[before]);
        from as usize..self.token_ends[row] as usize
    }

    /// Counted in states.
    pub fn states_of(&self, row: usize) -> Range<usize> {
        let Range { start, end } = self.states_at[row];
        start as usize..end as usize
    }

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

/// The values are arbitrary.
pub fn first(buffer: &mut Vec<f32>, length: usize) -> &mut [f32] {
    if buffer.len() < length {
        buffer.resize(length, 0.0);
    }
    &mut buffer[..length]
}

impl Network {
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
        Ok(Network {
            operators,
            ..network
        })
    }

    /// A network of custom cells, in the order of their [`CellId`]s, with states of `state` numbers. `spec` defines the
    /// requests' words.
    pub fn of_cells(
        model: &Model,
        spec: &Spec,
        cells: Vec<Arc<dyn Cell>>,
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

    pub fn cell(&self, cell: CellId) -> &dyn Cell {
        &*self.cells[cell.index()]
    }

    pub fn operators(&self) -> Option<&Operators> {
        self.operators.as_ref()
    }

    /// With its cells also operator by operator; the vectors of words are then in memory twice.
    ///
    /// # Errors
    /// The CPU has only whole cells of this model.
    pub fn with_operators(self) -> Result<Network> {
        let by_operator = Some(ByOperator::new(&self.model, &self.spec, &self.cells)?);
        Ok(Network {
            by_operator,
            ..self
        })
    }

    /// The width of all states; 0 for a listed network.
    pub fn state(&self) -> usize {
        self.state
    }

    /// A binary tree-LSTM has weights for only two children.
    pub fn check(&self, graph: &CellGraph) -> Result<()> {
        let CellGraph::Graph(graph) = graph else {
            return Ok(());
        };
        let too_many = |node: &u32| graph.inputs(*node).len() > CHILDREN;
        match (0..graph.len() as u32).find(too_many) {
            Some(node) if self.model == Model::TreeLstm => Err(Error::input(format!(
                "node {} has {} children, but the cells of {} take at most {}; the model {} takes any number",
                node + 1,
                graph.inputs(node).len(),
                self.model.name(),
                CHILDREN,
                Model::ChildSumTreeLstm.name(),
            ))),
            _ => Ok(()),
        }
    }

    /// The word at a place of a request: a mix of the seed, the request and the place, the same on every platform. The
    /// place is the node's number, or counts the tokens of a request of one cell.
    pub fn token(&self, request: RequestId, place: u32) -> u32 {
        let mixed = split_mix(self.spec.seed ^ split_mix(request.0 << 32 | u64::from(place)));
        // The high half of a product spreads 32 random bits evenly.
        (((mixed >> 32) * u64::from(self.spec.vocabulary)) >> 32) as u32
    }
}
