//! Models: their cells, and how a request's shape unfolds to a graph of cells.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem::{Discriminant, discriminant};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cell_graph::tree::Tree;
use super::cell_graph::{CellGraph, CellRun, Graph, SharedGraph};
use super::dnn::Dnn;
use super::graph_model::{GraphModel, Takes};
use super::shape::Shape;
use super::transformer::Transformer;
use crate::base::units::CellId;

/// The name of the only cell of language models.
pub const ITERATION: &str = "iteration";

/// A rule that unfolds shapes to cell graphs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Model {
    /// A chain of `lstm` cells (BatchMaker, section 7.2).
    Lstm,
    Gru,
    /// A chain of `encoder` cells, then one of `decoder` cells (BatchMaker, figure 12).
    Seq2Seq,
    /// A tree of `internal` cells with `leaf` cells below them (BatchMaker, figure 2).
    TreeLstm,
    /// A tree of `internal` cells, which take any number of children and, as leaves do, a word (JIT dynamic batching,
    /// table 2).
    ChildSumTreeLstm,
    /// A tree with a cell type for each number of children up to this one (`internal1`, `internal2`, …): only nodes
    /// with equal numbers run together.
    ChildSumByArity(u8),
    Graph(Arc<GraphModel>),
    /// A feed-forward network as a single cell, whose time may depend on the tokens.
    Dnn(String),
    /// A feed-forward network as a chain of the operators in its file.
    Network(Arc<Dnn>),
    /// A language model. A task is an iteration of its cell over the tokens that are fed to it; its shape is known if
    /// its file is named.
    Llm(Option<Arc<Transformer>>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellType {
    pub name: String,
    /// A higher priority runs first; later cells have a higher one (BatchMaker, section 4.3).
    pub priority: i32,
    /// Whether every subgraph is a chain, with exactly one ready node.
    pub chain: bool,
    pub sized: bool,
    /// The device's batch sizes, ascending, to which batches are padded; empty if it has all.
    pub batches: Vec<u32>,
}

pub const KNOWN: &str = "lstm, gru, seq2seq, tree-lstm, childsum-tree-lstm, childsum-tree-lstm:N, dnn:NAME, dnn:FILE.csv, graph:FILE, \
     llm, llm:FILE";

/// The ending of a file of operators, which distinguishes it from the name of a cell.
const LISTED: &str = ".csv";

const MAX_ARITY: u8 = 99;

impl CellType {
    /// A cell type whose time does not depend on an input, on a device with all batch sizes.
    pub fn new(name: &str, priority: i32, chain: bool) -> CellType {
        CellType {
            name: name.into(),
            priority,
            chain,
            sized: false,
            batches: Vec::new(),
        }
    }
}

impl Model {
    /// Opens a model by name. `find` gives the path of the file that a name mentions.
    pub fn open(
        name: &str,
        find: &dyn Fn(&str) -> Result<PathBuf, String>,
    ) -> Result<Model, String> {
        match name.split_once(':') {
            None if name == "lstm" => Ok(Model::Lstm),
            None if name == "gru" => Ok(Model::Gru),
            None if name == "seq2seq" => Ok(Model::Seq2Seq),
            None if name == "tree-lstm" => Ok(Model::TreeLstm),
            None if name == "childsum-tree-lstm" => Ok(Model::ChildSumTreeLstm),
            None if name == "llm" => Ok(Model::Llm(None)),
            Some(("graph", file)) => Ok(Model::Graph(Arc::new(GraphModel::read(
                file,
                &find(file)?,
            )?))),
            Some(("llm", file)) => Ok(Model::Llm(Some(Arc::new(Transformer::read(
                file,
                &find(file)?,
            )?)))),
            Some(("dnn", file)) if file.ends_with(LISTED) => {
                Ok(Model::Network(Arc::new(Dnn::read(file, &find(file)?)?)))
            }
            Some(("dnn", cell)) if !cell.is_empty() => Ok(Model::Dnn(cell.to_string())),
            Some(("childsum-tree-lstm", most)) => match most.parse() {
                Ok(most) if (1..=MAX_ARITY).contains(&most) => Ok(Model::ChildSumByArity(most)),
                _ => Err(format!(
                    "childsum-tree-lstm:{most}: \"{most}\" is not a largest number of children, a whole number from 1 to \
                     {MAX_ARITY}"
                )),
            },
            _ => Err(format!("unknown model \"{name}\"; known: {KNOWN}")),
        }
    }

    /// Opens a model by name, as [`Model::open`], where no files are allowed.
    pub fn parse(name: &str) -> Result<Model, String> {
        Model::open(name, &|_| {
            Err(format!(
                "{name} describes a model without weights, allowed only in scenarios and trace gen; take lstm, gru, \
                 seq2seq, tree-lstm, childsum-tree-lstm or dnn:NAME"
            ))
        })
    }

    pub fn name(&self) -> String {
        match self {
            Model::Lstm => "lstm".into(),
            Model::Gru => "gru".into(),
            Model::Seq2Seq => "seq2seq".into(),
            Model::TreeLstm => "tree-lstm".into(),
            Model::ChildSumTreeLstm => "childsum-tree-lstm".into(),
            Model::ChildSumByArity(most) => format!("childsum-tree-lstm:{most}"),
            Model::Graph(graph) => format!("graph:{}", graph.given),
            Model::Dnn(cell) => format!("dnn:{cell}"),
            Model::Network(network) => format!("dnn:{}", network.given),
            Model::Llm(None) => "llm".into(),
            Model::Llm(Some(transformer)) => format!("llm:{}", transformer.given),
        }
    }

    /// The cell types, sorted by name; the place of each is its [`CellId`].
    pub fn cell_types(&self) -> Vec<CellType> {
        let cell = CellType::new;
        match self {
            Model::Lstm => vec![cell("lstm", 0, true)],
            Model::Gru => vec![cell("gru", 0, true)],
            Model::Seq2Seq => vec![cell("decoder", 1, true), cell("encoder", 0, true)],
            Model::TreeLstm | Model::ChildSumTreeLstm => {
                vec![cell("internal", 1, false), cell("leaf", 0, true)]
            }
            Model::ChildSumByArity(most) => {
                let digits = most.to_string().len();
                let mut cells = Vec::with_capacity(usize::from(*most) + 1);
                for children in 1..=*most {
                    cells.push(cell(&format!("internal{children:0digits$}"), 1, false));
                }
                cells.push(cell("leaf", 0, true));
                cells
            }
            Model::Graph(graph) => graph.cell_types(),
            Model::Dnn(name) => vec![CellType {
                sized: true,
                ..cell(name, 0, true)
            }],
            Model::Network(network) => network.cell_types(),
            Model::Llm(_) => vec![cell(ITERATION, 0, false)],
        }
    }

    pub fn is_llm(&self) -> bool {
        matches!(self, Model::Llm(_))
    }

    /// Whether all requests are sequences of cells, which can be padded.
    pub fn is_sequence(&self) -> bool {
        !self.takes_trees()
            && !self.is_llm()
            && self.graph_model().is_none_or(GraphModel::is_sequence)
    }

    /// The shapes that the model unfolds to graphs; `None` for language models, and for feed-forward networks, whose
    /// requests have tokens or one fixed size.
    pub fn unfolds(&self) -> Option<Takes> {
        match self {
            Model::Lstm | Model::Gru => Some(Takes::Chains),
            Model::Seq2Seq => Some(Takes::Pairs),
            Model::TreeLstm | Model::ChildSumTreeLstm | Model::ChildSumByArity(_) => {
                Some(Takes::Trees)
            }
            Model::Graph(graph) => Some(graph.takes()),
            Model::Dnn(_) | Model::Network(_) | Model::Llm(_) => None,
        }
    }

    /// Whether requests are trees whose leaves have one cell type, and whose other nodes have another.
    pub fn has_plain_trees(&self) -> bool {
        matches!(self, Model::TreeLstm | Model::ChildSumTreeLstm)
    }

    pub fn takes_trees(&self) -> bool {
        self.unfolds() == Some(Takes::Trees)
    }

    pub fn network(&self) -> Option<&Dnn> {
        match self {
            Model::Network(network) => Some(network),
            _ => None,
        }
    }

    pub fn file(&self) -> Option<(&str, &Path)> {
        match self {
            Model::Graph(graph) => Some((&graph.given, &graph.path)),
            Model::Network(network) => Some((&network.given, &network.path)),
            Model::Llm(Some(transformer)) => Some((&transformer.given, &transformer.path)),
            _ => None,
        }
    }

    pub fn graph_model(&self) -> Option<&GraphModel> {
        match self {
            Model::Graph(graph) => Some(graph),
            _ => None,
        }
    }

    /// Refuses a tree with a node that has no cell.
    pub fn check_tree(&self, tree: &Tree) -> Result<(), String> {
        let Model::ChildSumByArity(most) = self else {
            return Ok(());
        };
        match tree
            .child_counts()
            .iter()
            .enumerate()
            .find(|(_, children)| **children > u32::from(*most))
        {
            None => Ok(()),
            Some((node, children)) => Err(format!(
                "node {} has {children} children, but {} has cells for at most {most}; name the most children of any node \
                 (up to {MAX_ARITY}), or take {}, whose one cell takes any number",
                node + 1,
                self.name(),
                Model::ChildSumTreeLstm.name()
            )),
        }
    }

    fn takes(&self) -> &'static str {
        match (self.unfolds(), self.network()) {
            (Some(Takes::Chains), _) => "chain:N, tokens:N",
            (Some(Takes::Pairs), _) => "seq2seq:S>T",
            (Some(Takes::Trees), _) => "tree:PARENTS",
            (Some(Takes::Graphs), _) => "graph:K",
            (
                None,
                Some(Dnn {
                    most_tokens: None, ..
                }),
            ) => "fixed",
            (None, Some(_)) => "tokens:N",
            (None, None) if self.is_llm() => "llm:P>O",
            (None, None) => "tokens:N, fixed",
        }
    }
}

/// Unfolds shapes to cell graphs; requests of equal size, or with the same tree, share one graph.
#[derive(Debug)]
pub struct Unfolder<'a> {
    model: &'a Model,
    /// The graphs by the kind of the shape and its sizes, or the address of its tree. The map is never iterated, so
    /// that its order does not matter.
    unfolded: HashMap<(Discriminant<Shape>, (usize, usize)), CellGraph>,
}

impl<'a> Unfolder<'a> {
    pub fn new(model: &'a Model) -> Self {
        Unfolder {
            model,
            unfolded: HashMap::new(),
        }
    }

    /// The cell graph of one request.
    ///
    /// # Errors
    /// The model does not take this kind of shape.
    pub fn unfold(&mut self, shape: &Shape) -> Result<CellGraph, String> {
        let model = self.model;
        match (model, shape) {
            (Model::Lstm | Model::Gru, Shape::Chain(n) | Shape::Tokens(n)) => {
                Ok(CellGraph::chain(CellId(0), *n))
            }
            (Model::Seq2Seq, Shape::Seq2Seq { source, target }) => Ok(CellGraph::chains([
                CellRun {
                    cell: CellId(1),
                    length: *source,
                    input: 0,
                },
                CellRun {
                    cell: CellId(0),
                    length: *target,
                    input: 0,
                },
            ])),
            (Model::TreeLstm | Model::ChildSumTreeLstm, Shape::Tree(tree)) => {
                Ok(CellGraph::Graph(SharedGraph::Tree(Arc::clone(tree))))
            }
            (Model::ChildSumByArity(most), Shape::Tree(tree)) => self.once(shape, || {
                model.check_tree(tree)?;
                // The last cell type is that of leaves.
                let cell = |children: u32| {
                    CellId(match children {
                        0 => u16::from(*most),
                        _ => children as u16 - 1,
                    })
                };
                Ok(CellGraph::Graph(Graph::from_tree(tree, cell).into()))
            }),
            (Model::Dnn(_), Shape::Tokens(n)) => Ok(CellGraph::chains([CellRun {
                cell: CellId(0),
                length: 1,
                input: *n,
            }])),
            (Model::Dnn(_), Shape::Fixed) => Ok(CellGraph::chain(CellId(0), 1)),
            // A chain by a rule is faster to make than to look up.
            (Model::Graph(graph), Shape::Chain(_) | Shape::Tokens(_) | Shape::Seq2Seq { .. })
                if graph.is_chain =>
            {
                graph
                    .unfold(shape)
                    .unwrap_or_else(|| Err(refusal(model, shape)))
            }
            (Model::Graph(graph), _) => self.once(shape, || {
                graph
                    .unfold(shape)
                    .unwrap_or_else(|| Err(refusal(model, shape)))
            }),
            // The graph does not reveal the output's length.
            (Model::Llm(_), Shape::Llm { prompt, .. }) => Ok(CellGraph::chains([CellRun {
                cell: CellId(0),
                length: 1,
                input: *prompt,
            }])),
            (Model::Network(network), _) => self.once(shape, || {
                network
                    .unfold(shape)
                    .unwrap_or_else(|| Err(refusal(model, shape)))
            }),
            _ => Err(refusal(model, shape)),
        }
    }

    /// The graph of a shape, made when the shape first occurs.
    fn once(
        &mut self,
        shape: &Shape,
        make: impl FnOnce() -> Result<CellGraph, String>,
    ) -> Result<CellGraph, String> {
        let sizes = match shape {
            Shape::Chain(n) | Shape::Tokens(n) | Shape::Graph(n) => (*n as usize, 0),
            Shape::Seq2Seq {
                source: a,
                target: b,
            }
            | Shape::Llm {
                prompt: a,
                output: b,
            } => (*a as usize, *b as usize),
            Shape::Tree(tree) => (Arc::as_ptr(tree) as usize, 0),
            Shape::Fixed => (0, 0),
        };
        match self.unfolded.entry((discriminant(shape), sizes)) {
            Entry::Occupied(known) => Ok(known.get().clone()),
            Entry::Vacant(new) => Ok(new.insert(make()?).clone()),
        }
    }
}

fn refusal(model: &Model, shape: &Shape) -> String {
    format!(
        "the model {} takes no {} shapes; it takes: {}",
        model.name(),
        shape.kind(),
        model.takes()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cell_types_stand_in_the_order_of_their_names() {
        for model in [
            "lstm",
            "gru",
            "seq2seq",
            "tree-lstm",
            "childsum-tree-lstm",
            "childsum-tree-lstm:9",
            "childsum-tree-lstm:10",
            "dnn:bert",
            "llm",
        ] {
            let model = Model::parse(model).unwrap();
            let names: Vec<String> = model.cell_types().into_iter().map(|c| c.name).collect();
            assert!(names.is_sorted(), "{names:?}");
            assert_eq!(Model::parse(&model.name()), Ok(model));
        }
    }

    #[test]
    fn nodes_of_equally_many_children_are_cells_of_one_type() {
        let model = Model::parse("childsum-tree-lstm:3").unwrap();
        let names: Vec<String> = model
            .cell_types()
            .into_iter()
            .map(|cell| cell.name)
            .collect();
        assert_eq!(names, ["internal1", "internal2", "internal3", "leaf"]);
        // Node 5 has children 1 to 3, 6 has 4 and 5, 7 only 6, 8 only 7.
        let shape: Shape = "tree:5 5 5 6 6 7 8 0".parse().unwrap();
        let CellGraph::Graph(graph) = Unfolder::new(&model).unfold(&shape).unwrap() else {
            panic!("a graph")
        };
        let cells: Vec<&str> = graph
            .cells()
            .iter()
            .map(|cell| names[cell.index()].as_str())
            .collect();
        let [leaf, one] = ["leaf", "internal1"];
        assert_eq!(
            cells,
            [leaf, leaf, leaf, leaf, "internal3", "internal2", one, one]
        );
        assert_eq!(graph.subgraph_of(), [0, 1, 2, 3, 4, 5, 6, 6]);
    }

    #[test]
    fn too_many_children_are_refused_with_the_way_out() {
        let model = Model::parse("childsum-tree-lstm:2").unwrap();
        let error = Unfolder::new(&model)
            .unfold(&"tree:4 4 4 0".parse().unwrap())
            .unwrap_err();
        assert_eq!(
            error,
            "node 4 has 3 children, but childsum-tree-lstm:2 has cells for at most 2; name the most children of any node \
             (up to 99), or take childsum-tree-lstm, whose one cell takes any number"
        );
        for name in [
            "childsum-tree-lstm:0",
            "childsum-tree-lstm:100",
            "childsum-tree-lstm:",
        ] {
            assert!(
                Model::parse(name)
                    .unwrap_err()
                    .ends_with("a whole number from 1 to 99"),
                "{name}"
            );
        }
    }

    #[test]
    fn a_model_refuses_shapes_that_are_not_its_own() {
        let error = Unfolder::new(&Model::TreeLstm)
            .unfold(&Shape::Chain(3))
            .unwrap_err();
        assert_eq!(
            error,
            "the model tree-lstm takes no chain shapes; it takes: tree:PARENTS"
        );
    }
}
