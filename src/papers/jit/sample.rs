//! Samples of trees, and the order in which they are batched.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rand::seq::SliceRandom;

use crate::base::error::{Context, Error, Result};
use crate::base::units::CellId;
use crate::core::workload::cell_graph::Graph;
use crate::core::workload::cell_graph::tree::Tree;
use crate::core::workload::import::{ImportFormat, ImportOptions, read_text};
use crate::core::workload::random::RandomSequence;
use crate::core::workload::shape::Shape;
use crate::core::workload::trace::Trace;

/// The cell of a node of a tree.
pub const CELL: CellId = CellId(0);
/// The initial state of a leaf, before its cell.
pub const INITIAL_STATE: CellId = CellId(1);
/// The head, which compares the two trees of a pair.
pub const HEAD: CellId = CellId(2);

/// Trees, or pairs of trees on consecutive lines (the two sentences).
#[derive(Clone, Debug)]
pub struct TreeSamples(Vec<Vec<Arc<Tree>>>);

impl TreeSamples {
    /// Makes samples of one tree each, or of two with `pairs`.
    ///
    /// # Errors
    /// There are no trees, or an odd number for pairs.
    pub fn new(trees: Vec<Arc<Tree>>, pairs: bool) -> Result<TreeSamples> {
        if trees.is_empty() {
            return Err(Error::input("holds no trees"));
        }
        if pairs && trees.len() % 2 == 1 {
            return Err(Error::input(format!(
                "holds {} trees, an odd number, which can't be pairs; leave out --pairs",
                trees.len()
            )));
        }
        let trees_of_sample = if pairs { 2 } else { 1 };
        let samples = trees.chunks(trees_of_sample).map(<[_]>::to_vec);
        Ok(TreeSamples(samples.collect()))
    }

    /// Reads a trace file (`id,arrival_ns,shape`) or a file of parents, with or without the number of leaves before
    /// them.
    pub fn read(path: &Path, pairs: bool) -> Result<TreeSamples> {
        let text = std::fs::read(path).map_err(|cause| Error::unreadable(path, &cause))?;
        TreeSamples::read_from(&text, pairs).within(path.display())
    }

    fn read_from(text: &[u8], pairs: bool) -> Result<TreeSamples> {
        let without_mark = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let shapes = if without_mark.starts_with(b"id,") {
            Trace::read_from(text)?.shapes
        } else {
            let options = ImportOptions::default();
            ImportFormat::Parents
                .read(&read_text(text)?, &options)?
                .shapes
        };
        let mut trees = Vec::new();
        for (number, shape) in shapes.iter().enumerate() {
            let Shape::Tree(tree) = shape else {
                return Err(Error::input(format!(
                    "request {number} is {shape}, which is not a tree"
                )));
            };
            trees.push(Arc::clone(tree));
        }
        TreeSamples::new(trees, pairs)
    }

    #[allow(clippy::len_without_is_empty)] // there is at least one sample
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn are_pairs(&self) -> bool {
        self.0[0].len() == 2
    }

    pub fn trees(&self, sample: u32) -> &[Arc<Tree>] {
        &self.0[sample as usize]
    }

    /// The graph of the calls of a sample's cells, with or without the head of a pair.
    pub fn graph(&self, sample: u32, head: bool) -> Graph {
        let mut cells = Vec::new();
        let mut edges = Vec::new();
        let mut roots = Vec::new();
        for tree in self.trees(sample) {
            let first = cells.len() as u32;
            cells.resize(cells.len() + tree.len(), CELL);
            for (node, (parent, children)) in
                (first..).zip(tree.parents().iter().zip(tree.child_counts()))
            {
                match *parent {
                    Tree::NO_PARENT => roots.push(node),
                    parent => edges.push((node, first + parent)),
                }
                if children == 0 {
                    edges.push((cells.len() as u32, node));
                    cells.push(INITIAL_STATE);
                }
            }
        }
        if head {
            edges.extend(roots.into_iter().map(|root| (root, cells.len() as u32)));
            cells.push(HEAD);
        }
        Graph::new(cells, &edges).expect("trees have no cycles")
    }

    /// The file's own order.
    pub fn order(&self) -> Vec<u32> {
        (0..self.len() as u32).collect()
    }

    pub fn shuffled_order(&self, rng: &mut RandomSequence) -> Vec<u32> {
        let mut order = self.order();
        order.shuffle(rng);
        order
    }

    /// Reads a CSV file with columns `position,pair` or `position,tree`: the sample (from 0) at each position.
    pub fn read_order(&self, path: &Path) -> Result<Vec<u32>> {
        let file = std::fs::File::open(path).map_err(|cause| Error::unreadable(path, &cause))?;
        self.read_order_from(file).within(path.display())
    }

    fn name_of_sample(&self) -> &'static str {
        if self.are_pairs() { "pair" } else { "tree" }
    }

    fn read_order_from(&self, input: impl Read) -> Result<Vec<u32>> {
        let sample = self.name_of_sample();
        let mut rows = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .from_reader(input);
        let header = rows.headers().map_err(unreadable_csv)?;
        let names = header
            .iter()
            .map(|name| name.trim_start_matches('\u{feff}'));
        if names.ne(["position", sample]) {
            let header = header.iter().collect::<Vec<_>>().join(",");
            return Err(Error::input(format!(
                "line 1: the header is \"{header}\", and has to be position,{sample}"
            )));
        }
        let mut order = vec![None; self.len()];
        let mut seen = BTreeSet::new();
        for row in rows.records() {
            let row = row.map_err(unreadable_csv)?;
            let line = row.position().map_or(0, csv::Position::line);
            let position = self.parse_number(&row[0], line, "position")?;
            let number = self.parse_number(&row[1], line, sample)?;
            if order[position].replace(number as u32).is_some() {
                return Err(Error::input(format!(
                    "line {line}: position {position} is there twice"
                )));
            }
            if !seen.insert(number) {
                return Err(Error::input(format!(
                    "line {line}: {sample} {number} is there twice"
                )));
            }
        }
        let mut numbers = Vec::new();
        for (position, number) in order.into_iter().enumerate() {
            let Some(number) = number else {
                return Err(Error::input(format!(
                    "position {position} is missing; an order names each of the {} {sample}s once",
                    self.len()
                )));
            };
            numbers.push(number);
        }
        Ok(numbers)
    }

    /// Parses the number of a sample or of a position.
    fn parse_number(&self, text: &str, line: u64, name: &str) -> Result<usize> {
        match text.parse::<usize>() {
            Ok(number) if number < self.len() => Ok(number),
            _ => Err(Error::input(format!(
                "line {line}: {name}: \"{text}\" is not a whole number from 0 to {}",
                self.len() - 1
            ))),
        }
    }
}

fn unreadable_csv(error: csv::Error) -> Error {
    Error::input(format!("cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::workload::random;

    #[test]
    fn trees_are_read_with_and_without_leaves_and_from_traces() {
        for text in [
            "2\t3 3 0\n1\t0\n",
            "3 3 0\n\n0\n",
            "id,arrival_ns,shape\n0,0,tree:3 3 0\n1,7,tree:0\n",
        ] {
            let samples = TreeSamples::read_from(text.as_bytes(), false).unwrap();
            let nodes: Vec<usize> = samples.0.iter().map(|trees| trees[0].len()).collect();
            assert_eq!(nodes, [3, 1], "{text}");
            assert_eq!(
                TreeSamples::read_from(text.as_bytes(), true).unwrap().len(),
                1
            );
        }
    }

    #[test]
    fn what_is_not_a_sample_is_named() {
        for (text, message) in [
            (
                "0\n0\n0\n",
                "holds 3 trees, an odd number, which can't be pairs; leave out --pairs",
            ),
            (
                "3 3 0\n3 3\n",
                "line 2: node 1 has parent 3, but the tree has 2 nodes; to leave this tree out, delete the line",
            ),
            (
                "id,arrival_ns,shape\n0,0,chain:3\n",
                "request 0 is chain:3, which is not a tree",
            ),
            ("", "is empty"),
        ] {
            assert_eq!(
                TreeSamples::read_from(text.as_bytes(), true)
                    .unwrap_err()
                    .to_string(),
                message
            );
        }
    }

    #[test]
    fn an_order_names_each_sample_once() {
        let samples = TreeSamples::read_from(b"0\n3 3 0\n2 0\n", false).unwrap();
        let read = |text: &str| samples.read_order_from(text.as_bytes());
        assert_eq!(read("position,tree\n2,0\n0,1\n1,2\n").unwrap(), [1, 2, 0]);
        for (text, message) in [
            (
                "position,pair\n",
                "line 1: the header is \"position,pair\", and has to be position,tree",
            ),
            (
                "position,tree\n0,3\n",
                "line 2: tree: \"3\" is not a whole number from 0 to 2",
            ),
            (
                "position,tree\n0,1\n0,2\n",
                "line 3: position 0 is there twice",
            ),
            ("position,tree\n0,1\n1,1\n", "line 3: tree 1 is there twice"),
            (
                "position,tree\n0,1\n2,0\n",
                "position 1 is missing; an order names each of the 3 trees once",
            ),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_shuffle_loses_nothing_and_follows_the_seed() {
        let samples = TreeSamples::read_from("0\n".repeat(40).as_bytes(), false).unwrap();
        let shuffled = |seed| samples.shuffled_order(&mut random::sequence(seed, 0, "orders"));
        let mut sorted = shuffled(1);
        assert_eq!(shuffled(1), shuffled(1));
        assert_ne!(shuffled(1), shuffled(2));
        sorted.sort_unstable();
        assert_eq!(sorted, samples.order());
    }
}
