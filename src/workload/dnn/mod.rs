//! Staged networks: a list of operators with the shapes of their products, read from a CSV file (`docs/NETWORKS.md`).
//!
//! A request is the chain of the network's operators, and each operator is a cell type, because cells of one type share their
//! weights: operators of equal shape in two layers can't run as one batch. An operator that the file has in several places under
//! one name is one cell type, and is the same operator again.

mod file;
mod size;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

pub use self::size::Size;
use super::cell_graph::{CellGraph, Run};
use super::model::CellType;
use super::shape::Shape;
use crate::units::{CellId, NodeId};

/// A network that a file lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dnn {
    given: String,
    path: PathBuf,
    takes: Takes,
    /// In the order of their names, which is that of their ids.
    operators: Vec<Operator>,
    /// The operators in the order in which they run.
    chain: Vec<CellId>,
}

/// The requests that a network takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// `tokens:N`, up to this many.
    Tokens(u32),
    /// `fixed`.
    Fixed,
}

/// An operator of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// The name, as in cost tables.
    pub name: String,
    /// The cell type that it is.
    pub cell: CellId,
    /// What it computes.
    pub form: Form,
}

/// What an operator computes for one query, as a function of the tokens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Form {
    /// How it meets the other queries of a batch.
    pub kind: Kind,
    /// The number of products.
    pub count: Size,
    /// The rows of a product.
    pub rows: Size,
    /// The numbers that are added up for each of its elements.
    pub inner: Size,
    /// The columns of a product.
    pub columns: Size,
    /// The numbers that are read and written for each query, weights apart.
    pub elements: Size,
}

/// What an operator does with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Products with weights, which are fetched once; the rows of all queries stand below each other: `[batch·rows, inner] × [inner, columns]`.
    Matmul,
    /// Products of a query's own matrices: `count·batch` of them.
    BatchedMatmul,
    /// No products: what it moves is what it costs.
    Memory,
}

impl Kind {
    /// All of them, with their names in a file.
    pub const ALL: [(&'static str, Kind); 3] =
        [("matmul", Kind::Matmul), ("batched-matmul", Kind::BatchedMatmul), ("memory", Kind::Memory)];

    /// The name in a file.
    pub fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(_, kind)| *kind == self).expect("each kind has a name").0
    }
}

/// What an operator computes for one query of a given length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// How it meets the other queries of a batch.
    pub kind: Kind,
    /// The number of products; 0 for [`Kind::Memory`], as are the next three.
    pub count: u64,
    /// The rows of a product.
    pub rows: u64,
    /// The numbers that are added up for each of its elements.
    pub inner: u64,
    /// The columns of a product.
    pub columns: u64,
    /// The numbers that are read and written, weights apart.
    pub elements: u64,
}

impl Form {
    /// For so many tokens.
    pub fn at(&self, tokens: u32) -> Work {
        Work {
            kind: self.kind,
            count: self.count.at(tokens),
            rows: self.rows.at(tokens),
            inner: self.inner.at(tokens),
            columns: self.columns.at(tokens),
            elements: self.elements.at(tokens),
        }
    }

    /// Whether it is the same for all requests.
    pub fn is_constant(&self) -> bool {
        [&self.count, &self.rows, &self.inner, &self.columns, &self.elements].into_iter().all(Size::is_constant)
    }
}

impl Work {
    /// The floating-point operations of a batch, a product and a sum counting as two.
    pub fn flops(&self, batch: u32) -> u128 {
        [self.count, self.rows, self.inner, self.columns].map(u128::from).iter().product::<u128>()
            * 2
            * u128::from(batch)
    }

    /// The numbers in its weights.
    pub fn weights(&self) -> u128 {
        match self.kind {
            Kind::Matmul => [self.count, self.inner, self.columns].map(u128::from).iter().product(),
            Kind::BatchedMatmul | Kind::Memory => 0,
        }
    }

    /// The numbers that a batch reads and writes: the weights once, the rest for each query.
    pub fn moved(&self, batch: u32) -> u128 {
        self.weights() + u128::from(self.elements) * u128::from(batch)
    }
}

impl Dnn {
    /// Reads a network; `given` is how the user names the file.
    ///
    /// # Errors
    /// A file that can't be read, or what is wrong in it, as `FILE: line 3: rows: …`.
    pub fn read(given: &str, path: &Path) -> Result<Dnn, String> {
        let text = fs::read_to_string(path).map_err(|cause| format!("{}: cannot be read: {cause}", path.display()))?;
        Dnn::parse(given, path, &text).map_err(|problem| format!("{}: {problem}", path.display()))
    }

    /// Reads a network from the text of its file.
    ///
    /// # Errors
    /// As [`Dnn::read`], without the file's name.
    pub fn parse(given: &str, path: &Path, text: &str) -> Result<Dnn, String> {
        let (takes, operators, chain) = file::parse(text)?;
        Ok(Dnn { given: given.to_string(), path: path.to_path_buf(), takes, operators, chain })
    }

    /// The file, as the user named it.
    pub fn given(&self) -> &str {
        &self.given
    }

    /// Where the file was found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The requests that it takes.
    pub fn takes(&self) -> Takes {
        self.takes
    }

    /// The most tokens of a request; `None` where requests have a fixed size.
    pub fn most_tokens(&self) -> Option<u32> {
        match self.takes {
            Takes::Tokens(most) => Some(most),
            Takes::Fixed => None,
        }
    }

    /// The operators in the order in which they run: the one at place `i` is node `i` of every request.
    pub fn operators(&self) -> impl ExactSizeIterator<Item = &Operator> {
        self.chain.iter().map(|cell| &self.operators[cell.index()])
    }

    /// The cell type of a node, if requests have so many.
    pub fn cell_at(&self, node: NodeId) -> Option<CellId> {
        self.chain.get(node.index()).copied()
    }

    /// Each operator once, in the order of the names and so of the cell types.
    pub fn distinct(&self) -> &[Operator] {
        &self.operators
    }

    /// The size of the input that an operator's cell is given for so many tokens: 0 where it does not depend on them.
    pub fn input(&self, operator: &Operator, tokens: u32) -> u32 {
        if operator.form.is_constant() { 0 } else { tokens }
    }

    /// Its operators, as a scheduler sees them. What stands later in the network runs first.
    pub fn cell_types(&self) -> Vec<CellType> {
        let first = |cell: CellId| self.chain.iter().position(|other| *other == cell);
        let cell_type = |operator: &Operator| CellType {
            name: operator.name.clone(),
            priority: first(operator.cell).map_or(0, |place| place as i32),
            chain: true,
            sized: !operator.form.is_constant(),
            batches: Vec::new(),
        };
        self.operators.iter().map(cell_type).collect()
    }

    /// Unfolds a shape; `None` for one of a kind that the network does not take.
    ///
    /// # Errors
    /// More tokens than the network takes.
    pub fn unfold(&self, shape: &Shape) -> Option<Result<CellGraph, String>> {
        let tokens = match (self.takes, shape) {
            (Takes::Tokens(most), Shape::Tokens(tokens)) if *tokens > most => {
                return Some(Err(format!(
                    "a request has {tokens} tokens, and {} takes up to {most}; leave out longer ones (workload.max_length = {most})",
                    self.path.display()
                )));
            }
            (Takes::Tokens(_), Shape::Tokens(tokens)) => *tokens,
            (Takes::Fixed, Shape::Fixed) => 0,
            _ => return None,
        };
        let run = |operator: &Operator| Run { cell: operator.cell, length: 1, input: self.input(operator, tokens) };
        Some(Ok(CellGraph::chains(self.operators().map(run))))
    }
}
