//! Calls of whole cells, with and without batching: the subgraph column of the paper's Table 1.
//!
//! The rule gives the paper's two numbers on its trees (SICK's test split). Without batching, each node, each leaf's
//! initial state and each pair's head is a call. With batching, a batch's initial states are one launch, nodes of one
//! level and number of children are one, and heads of one level are one. A leaf has level 1, another node 1 more than
//! its highest child, a head 1 more than its higher root.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

use super::sample::Samples;
use crate::units::CellId;
use crate::workload::cell_graph::Graph;
use crate::workload::shape::Tree;

/// The key of a slot of the look-up table (section 4.3): one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    InitialState,
    Cell { level: u32, children: u32 },
    Head { level: u32 },
}

/// For any order and batch size.
#[derive(Clone, Debug)]
pub struct Counter {
    samples: Vec<Sample>,
    pairs: bool,
}

#[derive(Clone, Debug)]
struct Sample {
    calls: BTreeSet<Call>,
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
        let pairs = samples.are_pairs();
        let sample = |trees: &[Arc<Tree>]| {
            let mut calls = BTreeSet::from([Call::InitialState]);
            for tree in trees {
                let graph = Graph::from_tree(tree, CellId(1), CellId(0));
                let cells = graph.depths().iter().zip(tree.child_counts());
                calls.extend(cells.map(|(depth, children)| Call::Cell { level: depth + 1, children }));
            }
            if pairs {
                calls.insert(Call::Head { level: height(&calls) + 1 });
            }
            let cells = trees.iter().map(|tree| tree.len() as u64).sum();
            Sample { calls, cells, leaves: trees.iter().map(|tree| tree.leaves() as u64).sum() }
        };
        Counter { samples: samples.iter().map(sample).collect(), pairs }
    }

    /// `batch` samples (at least 1) at a time; the last batch has the rest.
    pub fn count(&self, order: &[u32], batch: usize) -> Counts {
        let batches: Vec<BatchCount> = order.chunks(batch).map(|samples| self.batch(samples)).collect();
        Counts {
            unbatched: batches.iter().map(|batch| batch.unbatched).sum(),
            batched: batches.iter().map(|batch| batch.batched).sum(),
            batches,
        }
    }

    fn batch(&self, numbers: &[u32]) -> BatchCount {
        let samples = || numbers.iter().map(|number| &self.samples[*number as usize]);
        let calls: BTreeSet<Call> = samples().flat_map(|sample| &sample.calls).copied().collect();
        let launches = |is: fn(&&Call) -> bool| calls.iter().filter(is).count() as u64;
        let (count, cells) = (numbers.len() as u64, samples().map(|sample| sample.cells).sum());
        let leaves = samples().map(|sample| sample.leaves).sum();
        BatchCount {
            samples: count,
            cells,
            leaves,
            max_level: height(&calls),
            unbatched: cells + leaves + if self.pairs { count } else { 0 },
            begin_state_launches: launches(|call| **call == Call::InitialState),
            cell_launches: launches(|call| matches!(call, Call::Cell { .. })),
            similarity_launches: launches(|call| matches!(call, Call::Head { .. })),
            batched: calls.len() as u64,
        }
    }
}

fn height(calls: &BTreeSet<Call>) -> u32 {
    let level = |call: &Call| if let Call::Cell { level, .. } = call { *level } else { 0 };
    calls.iter().map(level).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(trees: &[&str], pairs: bool) -> Samples {
        Samples::new(trees.iter().map(|tree| Arc::new(tree.parse().unwrap())).collect(), pairs).unwrap()
    }

    /// For each batch: calls, then launches of initial states, cells and heads.
    fn counts(trees: &[&str], pairs: bool, order: &[u32], batch: usize) -> Vec<[u64; 4]> {
        let counts = Counter::new(&samples(trees, pairs)).count(order, batch);
        assert_eq!(counts.unbatched, counts.batches.iter().map(|batch| batch.unbatched).sum::<u64>());
        assert_eq!(counts.batched, counts.batches.iter().map(|batch| batch.batched).sum::<u64>());
        let row = |b: &BatchCount| [b.unbatched, b.begin_state_launches, b.cell_launches, b.similarity_launches];
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
        assert_eq!(counts(&TREES, true, &[1, 0], 1), [[11, 1, 4, 1], [8, 1, 2, 1]]);
        // Both heads at level 3.
        assert_eq!(counts(&["0", "3 3 0", "2 0", "3 3 0"], true, &[0, 1], 2), [[17, 1, 3, 1]]);
    }

    #[test]
    fn the_last_batch_takes_what_is_left() {
        let rows = counts(&TREES, false, &[3, 1, 0, 2], 3);
        assert_eq!(rows, [[13, 1, 4, 0], [4, 1, 3, 0]]);
    }
}
