//! Models: which cells a network has, and how a shape unfolds to a graph of them.

use std::collections::HashMap;
use std::sync::Arc;

use super::cell_graph::{CellGraph, Graph, Run};
use super::shape::{Shape, Tree};
use crate::units::CellId;

/// The network that requests run through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Model {
    /// A chain of `lstm` cells, one for each step (BatchMaker, section 7.2).
    Lstm,
    /// A chain of `gru` cells.
    Gru,
    /// `encoder` cells over the source, then `decoder` cells, fed back (BatchMaker, figure 12).
    Seq2Seq,
    /// `leaf` cells under `internal` cells (BatchMaker, figure 2).
    TreeLstm,
    /// `leaf` cells under `internal` cells that take any number of children and, as leaves do, a word (JIT dynamic
    /// batching, table 2).
    ChildSumTreeLstm,
    /// A feed-forward network: one cell of its own name, whose time may depend on the number of tokens.
    Dnn(String),
}

/// One cell type of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellType {
    /// The name, as in cost tables.
    pub name: String,
    /// Higher runs first where a policy has priorities: what stands later in the graph (BatchMaker, section 4.3).
    pub priority: i32,
    /// Every subgraph of this type is a chain, so that it always has exactly one ready node.
    pub chain: bool,
    /// The time of a cell depends on the size of its input.
    pub sized: bool,
}

/// The names of the models, for messages.
pub const KNOWN: &str = "lstm, gru, seq2seq, tree-lstm, childsum-tree-lstm, dnn:NAME";

impl Model {
    /// The model of this name.
    ///
    /// # Errors
    /// Lists the known names.
    pub fn parse(name: &str) -> Result<Model, String> {
        match name {
            "lstm" => Ok(Model::Lstm),
            "gru" => Ok(Model::Gru),
            "seq2seq" => Ok(Model::Seq2Seq),
            "tree-lstm" => Ok(Model::TreeLstm),
            "childsum-tree-lstm" => Ok(Model::ChildSumTreeLstm),
            _ => match name.strip_prefix("dnn:") {
                Some(cell) if !cell.is_empty() => Ok(Model::Dnn(cell.to_string())),
                _ => Err(format!("unknown model \"{name}\"; known: {KNOWN}")),
            },
        }
    }

    /// The model's name, as a scenario gives it.
    pub fn name(&self) -> String {
        match self {
            Model::Lstm => "lstm".into(),
            Model::Gru => "gru".into(),
            Model::Seq2Seq => "seq2seq".into(),
            Model::TreeLstm => "tree-lstm".into(),
            Model::ChildSumTreeLstm => "childsum-tree-lstm".into(),
            Model::Dnn(cell) => format!("dnn:{cell}"),
        }
    }

    /// The model's cell types in the order of their names, which is that of their [`CellId`]s.
    pub fn cell_types(&self) -> Vec<CellType> {
        let cell = |name: &str, priority, chain, sized| CellType { name: name.into(), priority, chain, sized };
        match self {
            Model::Lstm => vec![cell("lstm", 0, true, false)],
            Model::Gru => vec![cell("gru", 0, true, false)],
            Model::Seq2Seq => vec![cell("decoder", 1, true, false), cell("encoder", 0, true, false)],
            Model::TreeLstm | Model::ChildSumTreeLstm => {
                vec![cell("internal", 1, false, false), cell("leaf", 0, true, false)]
            }
            Model::Dnn(name) => vec![cell(name, 0, true, true)],
        }
    }

    /// Whether its requests are trees.
    pub fn takes_trees(&self) -> bool {
        matches!(self, Model::TreeLstm | Model::ChildSumTreeLstm)
    }

    /// The kinds of shape that the model takes.
    fn takes(&self) -> &'static str {
        match self {
            Model::Lstm | Model::Gru => "chain:N, tokens:N",
            Model::Seq2Seq => "seq2seq:S>T",
            Model::TreeLstm | Model::ChildSumTreeLstm => "tree:PARENTS",
            Model::Dnn(_) => "tokens:N, fixed",
        }
    }
}

/// Unfolds shapes to cell graphs; requests that share a tree share its graph.
#[derive(Debug)]
pub struct Unfolder<'a> {
    model: &'a Model,
    // Looked up, never iterated: its order reaches no result.
    trees: HashMap<*const Tree, Arc<Graph>>,
}

impl<'a> Unfolder<'a> {
    /// An unfolder for one model.
    pub fn new(model: &'a Model) -> Self {
        Unfolder { model, trees: HashMap::new() }
    }

    /// The cell graph of one request.
    ///
    /// # Errors
    /// A shape that the model does not take; the message names those that it does.
    pub fn unfold(&mut self, shape: &Shape) -> Result<CellGraph, String> {
        match (self.model, shape) {
            (Model::Lstm | Model::Gru, Shape::Chain(n) | Shape::Tokens(n)) => Ok(CellGraph::chain(CellId(0), *n)),
            (Model::Seq2Seq, Shape::Seq2Seq { source, target }) => Ok(CellGraph::chains([
                Run { cell: CellId(1), length: *source, input: 0 },
                Run { cell: CellId(0), length: *target, input: 0 },
            ])),
            (Model::TreeLstm | Model::ChildSumTreeLstm, Shape::Tree(tree)) => {
                let graph = self
                    .trees
                    .entry(Arc::as_ptr(tree))
                    .or_insert_with(|| Arc::new(Graph::from_tree(tree, CellId(1), CellId(0))));
                Ok(CellGraph::Graph(Arc::clone(graph)))
            }
            (Model::Dnn(_), Shape::Tokens(n)) => Ok(CellGraph::chains([Run { cell: CellId(0), length: 1, input: *n }])),
            (Model::Dnn(_), Shape::Fixed) => Ok(CellGraph::chain(CellId(0), 1)),
            (model, shape) => {
                Err(format!("the model {} takes no {} shapes; it takes: {}", model.name(), shape.kind(), model.takes()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cell_types_stand_in_the_order_of_their_names() {
        for model in ["lstm", "gru", "seq2seq", "tree-lstm", "childsum-tree-lstm", "dnn:bert"] {
            let model = Model::parse(model).unwrap();
            let names: Vec<String> = model.cell_types().into_iter().map(|c| c.name).collect();
            assert!(names.is_sorted(), "{names:?}");
            assert_eq!(Model::parse(&model.name()), Ok(model));
        }
    }

    #[test]
    fn a_model_refuses_shapes_that_are_not_its_own() {
        let error = Unfolder::new(&Model::TreeLstm).unfold(&Shape::Chain(3)).unwrap_err();
        assert_eq!(error, "the model tree-lstm takes no chain shapes; it takes: tree:PARENTS");
    }
}
