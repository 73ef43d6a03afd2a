//! Calls of whole cells, with and without batching: the subgraph column of the paper's Table 1.
//!
//! The rule gives the paper's two numbers on its trees (SICK's test split). Without batching, each node, each leaf's
//! initial state and each pair's head is a call. With batching, a batch's initial states are one launch, nodes of one
//! level and number of children are one, and heads of one level are one. A leaf has level 1, another node 1 more than
//! its highest child, a head 1 more than its higher root.

use std::collections::BTreeSet;

use serde::Serialize;

use super::sample::{CELL, HEAD, INITIAL_STATE, Samples};
use crate::base::units::CellId;

/// The key of a slot of the look-up table (section 4.3): one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    cell: CellId,
    /// The depth in the sample's graph, where initial states come before leaves.
    level: u32,
    inputs: usize,
}

/// For any order and batch size.
#[derive(Clone, Debug)]
pub struct Counter {
    samples: Vec<Sample>,
}

#[derive(Clone, Debug)]
struct Sample {
    calls: BTreeSet<Call>,
    nodes: u64,
    cells: u64,
    leaves: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub unbatched: u64,
    pub batched: u64,
    pub batches: Vec<BatchCount>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BatchCount {
    pub samples: u64,
    pub cells: u64,
    pub leaves: u64,
    pub max_level: u32,
    /// Without batching: nodes, leaves' initial states, heads.
    pub unbatched: u64,
    pub begin_state_launches: u64,
    pub cell_launches: u64,
    pub similarity_launches: u64,
    pub batched: u64,
}

impl Counter {
    pub fn new(samples: &Samples) -> Counter {
        let sample = |number| {
            let graph = samples.graph(number, samples.are_pairs());
            let count = |cell| graph.cells().iter().filter(|one| **one == cell).count() as u64;
            let nodes = (0..).zip(graph.cells().iter().zip(graph.depths()));
            Sample {
                nodes: graph.len() as u64,
                cells: count(CELL),
                leaves: count(INITIAL_STATE),
                calls: nodes
                    .map(|(node, (&cell, &level))| Call {
                        cell,
                        level,
                        inputs: graph.inputs(node).len(),
                    })
                    .collect(),
            }
        };
        Counter {
            samples: samples.order().into_iter().map(sample).collect(),
        }
    }

    /// `batch` samples (at least 1) at a time; the last batch has the rest.
    pub fn count(&self, order: &[u32], batch: usize) -> Counts {
        let batches: Vec<BatchCount> = order
            .chunks(batch)
            .map(|samples| self.batch(samples))
            .collect();
        Counts {
            unbatched: batches.iter().map(|batch| batch.unbatched).sum(),
            batched: batches.iter().map(|batch| batch.batched).sum(),
            batches,
        }
    }

    fn batch(&self, numbers: &[u32]) -> BatchCount {
        let samples = || numbers.iter().map(|number| &self.samples[*number as usize]);
        let calls: BTreeSet<Call> = samples()
            .flat_map(|sample| &sample.calls)
            .copied()
            .collect();
        let of = |cell| calls.iter().filter(move |call| call.cell == cell);
        BatchCount {
            samples: numbers.len() as u64,
            cells: samples().map(|sample| sample.cells).sum(),
            leaves: samples().map(|sample| sample.leaves).sum(),
            max_level: of(CELL).map(|call| call.level).max().unwrap_or(0),
            unbatched: samples().map(|sample| sample.nodes).sum(),
            begin_state_launches: of(INITIAL_STATE).count() as u64,
            cell_launches: of(CELL).count() as u64,
            similarity_launches: of(HEAD).count() as u64,
            batched: calls.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn samples(trees: &[&str], pairs: bool) -> Samples {
        Samples::new(
            trees
                .iter()
                .map(|tree| Arc::new(tree.parse().unwrap()))
                .collect(),
            pairs,
        )
        .unwrap()
    }

    /// For each batch: calls, then launches of initial states, cells and heads.
    fn counts(trees: &[&str], pairs: bool, order: &[u32], batch: usize) -> Vec<[u64; 4]> {
        let counts = Counter::new(&samples(trees, pairs)).count(order, batch);
        assert_eq!(
            counts.unbatched,
            counts
                .batches
                .iter()
                .map(|batch| batch.unbatched)
                .sum::<u64>()
        );
        assert_eq!(
            counts.batched,
            counts
                .batches
                .iter()
                .map(|batch| batch.batched)
                .sum::<u64>()
        );
        let row = |b: &BatchCount| {
            [
                b.unbatched,
                b.begin_state_launches,
                b.cell_launches,
                b.similarity_launches,
            ]
        };
        counts.batches.iter().map(row).collect()
    }

    /// A leaf; two leaves under a root; a chain of three; a root over a leaf and a chain of two.
    const TREES: [&str; 4] = ["0", "3 3 0", "2 3 0", "4 3 4 0"];

    #[test]
    fn nodes_of_one_level_and_number_of_children_are_one_launch() {
        // Slots with one tree a batch: the leaf 1; the pair of leaves (1,0) (2,2); the chain (1,0) (2,1) (3,1); the
        // last (1,0) (2,1) (3,2).
        assert_eq!(
            counts(&TREES, false, &[0, 1, 2, 3], 1),
            [[2, 1, 1, 0], [5, 1, 2, 0], [4, 1, 3, 0], [6, 1, 3, 0]],
            "nodes and leaves"
        );
        // One batch: (1,0) (2,1) (2,2) (3,1) (3,2).
        assert_eq!(counts(&TREES, false, &[0, 1, 2, 3], 4), [[17, 1, 5, 0]]);
    }

    #[test]
    fn a_head_stands_above_the_higher_root_of_its_pair() {
        // Heads at levels 3 and 4.
        assert_eq!(counts(&TREES, true, &[0, 1], 2), [[19, 1, 5, 2]]);
        assert_eq!(
            counts(&TREES, true, &[1, 0], 1),
            [[11, 1, 4, 1], [8, 1, 2, 1]]
        );
        // Both heads at level 3.
        assert_eq!(
            counts(&["0", "3 3 0", "2 0", "3 3 0"], true, &[0, 1], 2),
            [[17, 1, 3, 1]]
        );
    }

    #[test]
    fn the_last_batch_takes_what_is_left() {
        let rows = counts(&TREES, false, &[3, 1, 0, 2], 3);
        assert_eq!(rows, [[13, 1, 4, 0], [4, 1, 3, 0]]);
    }
}
