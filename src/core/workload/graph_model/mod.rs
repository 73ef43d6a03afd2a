//! Models described by a JSON file: cells, and how requests unfold to them (`docs/GRAPHS.md`). Files are checked when
//! read, so that mistakes show before a run. A graph model has costs but no weights.

mod expression;
mod file;
pub(super) mod operators;
mod rule;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use serde::Deserialize;

pub use self::operators::{GraphOperator, GraphOperatorKind};
use self::rule::UnfoldingRule;
use super::cell_graph::{CellGraph, CellRun, Graph};
use super::model::CellType;
use super::shape::Shape;
use crate::base::shipped;
use crate::base::units::CellId;

/// A model that a file describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphModel {
    /// The file's name in the scenario.
    pub given: String,
    pub path: PathBuf,
    pub cells: Vec<GraphCell>,
    unfolding: Unfolding,
    /// Whether each request is a chain: of any two nodes, one has to wait for the other.
    pub is_chain: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphCell {
    pub name: String,
    #[serde(default)]
    pub priority: i32,
    /// The batch sizes with kernels, ascending; empty if all are equally good.
    #[serde(default)]
    pub batches: Vec<u32>,
    #[serde(default)]
    pub operators: Vec<GraphOperator>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Unfolding {
    Rule(UnfoldingRule),
    Graphs(Vec<GivenGraph>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct GivenGraph {
    nodes: Vec<CellId>,
    edges: Vec<(u32, u32)>,
    /// How often the graph is drawn, relative to others.
    weight: u32,
}

/// The shapes that a model unfolds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Takes {
    /// The shapes `chain:N`.
    #[serde(rename = "chain")]
    Chains,
    /// The shapes `seq2seq:S>T`.
    #[serde(rename = "seq2seq")]
    Pairs,
    /// The shapes `tree:PARENTS`.
    #[serde(rename = "tree")]
    Trees,
    /// The shapes `graph:K`, each one of the model's own graphs.
    #[serde(skip)]
    Graphs,
}

impl GraphModel {
    pub fn read(given: &str, path: &Path) -> Result<GraphModel, String> {
        let text = shipped::text(path).map_err(|error| error.to_string())?;
        GraphModel::parse(given, path, &text)
            .map_err(|problem| format!("{}: {problem}", path.display()))
    }

    /// Reads a model, as [`GraphModel::read`], from a text; messages lack the file's name.
    pub fn parse(given: &str, path: &Path, text: &str) -> Result<GraphModel, String> {
        let (cells, unfolding) = file::parse(text)?;
        let is_chain = match &unfolding {
            Unfolding::Rule(rule) => rule.is_chain,
            Unfolding::Graphs(graphs) => graphs.iter().all(|given| given.as_chain().is_some()),
        };
        Ok(GraphModel {
            given: given.to_string(),
            path: path.to_path_buf(),
            cells,
            unfolding,
            is_chain,
        })
    }

    pub fn cell_types(&self) -> Vec<CellType> {
        let mut types = Vec::with_capacity(self.cells.len());
        for cell in &self.cells {
            types.push(CellType {
                batches: cell.batches.clone(),
                ..CellType::new(&cell.name, cell.priority, self.is_chain)
            });
        }
        types
    }

    pub fn takes(&self) -> Takes {
        match &self.unfolding {
            Unfolding::Rule(rule) => rule.takes,
            Unfolding::Graphs(_) => Takes::Graphs,
        }
    }

    /// Whether requests are the same sequence of chains except for lengths, the first of which is the shape's. Such
    /// requests can be padded.
    pub fn is_sequence(&self) -> bool {
        matches!(&self.unfolding, Unfolding::Rule(rule) if rule.is_sequence())
    }

    /// The weights of the graphs that the file lists.
    pub fn weights(&self) -> Vec<u32> {
        match &self.unfolding {
            Unfolding::Rule(_) => Vec::new(),
            Unfolding::Graphs(graphs) => graphs.iter().map(|given| given.weight).collect(),
        }
    }

    /// The cell graph of a request; `None` for a shape that the model does not take.
    pub fn unfold(&self, shape: &Shape) -> Option<Result<CellGraph, String>> {
        let unfolded = match (&self.unfolding, shape) {
            (Unfolding::Rule(rule), shape) => rule.unfold(shape)?,
            (Unfolding::Graphs(graphs), Shape::Graph(number)) => {
                match (*number as usize)
                    .checked_sub(1)
                    .and_then(|at| graphs.get(at))
                {
                    Some(given) if self.is_chain => {
                        Ok(given.as_chain().expect("all of its graphs are chains"))
                    }
                    Some(given) => Ok(CellGraph::Graph(given.graph().into())),
                    None => Err(format!(
                        "there is no graph {number}; the file has {}",
                        graphs.len()
                    )),
                }
            }
            _ => return None,
        };
        Some(unfolded.map_err(|problem| format!("{}: {problem}", self.path.display())))
    }
}

impl GivenGraph {
    fn graph(&self) -> Graph {
        Graph::new(self.nodes.clone(), &self.edges)
            .expect("the graph was made when its file was read")
    }

    /// The graph as a chain, if it is one.
    fn as_chain(&self) -> Option<CellGraph> {
        let graph = self.graph();
        let mut order: Vec<usize> = (0..graph.len()).collect();
        order.sort_by_key(|node| graph.depths()[*node]);
        let depth_is_place = (0u32..)
            .zip(&order)
            .all(|(place, node)| graph.depths()[*node] == place);
        let runs = order.into_iter().map(|node| CellRun {
            cell: self.nodes[node],
            length: 1,
            input: 0,
        });
        depth_is_place.then(|| CellGraph::chains(runs))
    }
}
