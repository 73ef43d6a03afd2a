//! Models of one's own: cells and how requests unfold to them, read from a JSON file (`docs/GRAPHS.md`).
//!
//! What a file says is checked when it is read, with the place in it, so that a run never meets a mistake that could have been
//! found before. A graph model is a description: it has costs, but no weights.

mod expression;
mod file;
mod rule;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

pub use self::file::{Operator, OperatorKind};
use self::rule::Rule;
use super::cell_graph::{CellGraph, Graph, Run};
use super::model::CellType;
use super::shape::Shape;
use crate::units::CellId;

/// A model that a file describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphModel {
    given: String,
    path: PathBuf,
    /// In the order of their names.
    cells: Vec<Cell>,
    unfolding: Unfolding,
}

/// A cell type of a graph model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The name, as in cost tables.
    pub name: String,
    /// Higher runs first where a policy has priorities.
    pub priority: i32,
    /// The batch sizes that there are kernels for, ascending; empty where every size is as good as another.
    pub batches: Vec<u32>,
    /// What the cell consists of, each operator behind those that it takes.
    pub operators: Vec<Operator>,
}

/// How requests become cell graphs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Unfolding {
    /// By a rule, from the sizes of a shape.
    Rule(Rule),
    /// The graphs are given.
    Graphs(Vec<Given>),
}

/// One of a list of graphs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Given {
    /// The cell of each node.
    nodes: Vec<CellId>,
    /// From a node to one that needs it, 0-based.
    edges: Vec<(u32, u32)>,
    /// How often it is drawn, beside the others.
    weight: u32,
}

/// The requests that a graph model takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Sequences: `chain:N`.
    Chains,
    /// Pairs of sequences: `seq2seq:S>T`.
    Pairs,
    /// Trees: `tree:PARENTS`.
    Trees,
    /// Its own graphs, by number: `graph:K`.
    Graphs,
}

impl GraphModel {
    /// Reads a model; `given` is how the user names the file.
    ///
    /// # Errors
    /// A file that can't be read, or what is wrong in it, as `FILE: line 3: …` or `FILE: cells[0].name: …`.
    pub fn read(given: &str, path: &Path) -> Result<GraphModel, String> {
        let text = fs::read_to_string(path).map_err(|cause| format!("{}: cannot be read: {cause}", path.display()))?;
        GraphModel::parse(given, path, &text).map_err(|problem| format!("{}: {problem}", path.display()))
    }

    /// Reads a model from the text of its file.
    ///
    /// # Errors
    /// As [`GraphModel::read`], without the file's name.
    pub fn parse(given: &str, path: &Path, text: &str) -> Result<GraphModel, String> {
        let (cells, unfolding) = file::parse(text)?;
        Ok(GraphModel { given: given.to_string(), path: path.to_path_buf(), cells, unfolding })
    }

    /// The file, as the user named it.
    pub fn given(&self) -> &str {
        &self.given
    }

    /// Where the file was found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its cells, in the order of their names.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Its cells, as a scheduler sees them.
    pub fn cell_types(&self) -> Vec<CellType> {
        let chain = self.is_chain();
        let cell_type = |cell: &Cell| CellType {
            name: cell.name.clone(),
            priority: cell.priority,
            chain,
            sized: false,
            batches: cell.batches.clone(),
        };
        self.cells.iter().map(cell_type).collect()
    }

    /// The requests that it takes.
    pub fn takes(&self) -> Takes {
        match &self.unfolding {
            Unfolding::Rule(rule) => rule.takes(),
            Unfolding::Graphs(_) => Takes::Graphs,
        }
    }

    /// Whether each of its requests is a chain: of any two nodes, one has to wait for the other.
    pub fn is_chain(&self) -> bool {
        match &self.unfolding {
            Unfolding::Rule(rule) => rule.is_chain(),
            Unfolding::Graphs(graphs) => graphs.iter().all(|given| given.as_chain().is_some()),
        }
    }

    /// Whether its requests are runs of cells one behind the other, alike but for their lengths, the first as long as the
    /// request's shape says: what can be padded.
    pub fn is_sequence(&self) -> bool {
        matches!(&self.unfolding, Unfolding::Rule(rule) if rule.is_sequence())
    }

    /// The weights of its graphs, where these are given.
    pub fn weights(&self) -> Option<Vec<u32>> {
        match &self.unfolding {
            Unfolding::Rule(_) => None,
            Unfolding::Graphs(graphs) => Some(graphs.iter().map(|given| given.weight).collect()),
        }
    }

    /// Unfolds a shape; `None` for one of a kind that the model does not take.
    ///
    /// # Errors
    /// A rule that leads in a circle at this size, or to too many nodes; the number of a graph that is not there.
    pub fn unfold(&self, shape: &Shape) -> Option<Result<CellGraph, String>> {
        let unfolded = match (&self.unfolding, shape) {
            (Unfolding::Rule(rule), shape) => rule.unfold(shape)?,
            (Unfolding::Graphs(graphs), Shape::Graph(number)) => {
                match (*number as usize).checked_sub(1).and_then(|at| graphs.get(at)) {
                    Some(given) if self.is_chain() => Ok(given.as_chain().expect("all of its graphs are chains")),
                    Some(given) => Ok(CellGraph::Graph(given.graph().into())),
                    None => Err(format!("there is no graph {number}; the file has {}", graphs.len())),
                }
            }
            _ => return None,
        };
        Some(unfolded.map_err(|problem| format!("{}: {problem}", self.path.display())))
    }
}

impl Given {
    fn graph(&self) -> Graph {
        Graph::new(self.nodes.clone(), &self.edges).expect("the graph was made when its file was read")
    }

    /// The same as runs, if each node has to wait for all that are less deep: then the ways through the graph do not matter
    /// any more.
    fn as_chain(&self) -> Option<CellGraph> {
        let graph = self.graph();
        let mut order: Vec<usize> = (0..graph.len()).collect();
        order.sort_by_key(|node| graph.depths()[*node]);
        let depth_is_place = (0u32..).zip(&order).all(|(place, node)| graph.depths()[*node] == place);
        let runs = order.into_iter().map(|node| Run { cell: self.nodes[node], length: 1, input: 0 });
        depth_is_place.then(|| CellGraph::chains(runs))
    }
}
