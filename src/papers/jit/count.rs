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
    /// Ascending.
    calls: Vec<Call>,
    samples: Vec<Sample>,
    pairs: bool,
}

#[derive(Clone, Debug)]
struct Sample {
    /// Places of its keys.
    calls: Vec<usize>,
    cells: u64,
    leaves: u64,
    /// Highest level of a node.
    height: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub unbatched: u64,
    pub batched: u64,
    pub batches: Vec<BatchCount>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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
        let calls = |trees: &[Arc<Tree>]| {
            let mut calls = BTreeSet::from([Call::InitialState]);
            for tree in trees {
                let cells = levels(tree).into_iter().zip(tree.child_counts());
                calls.extend(cells.map(|(level, children)| Call::Cell { level, children }));
            }
            let height = height(&calls);
            calls.extend(samples.are_pairs().then_some(Call::Head { level: height + 1 }));
            calls
        };
        let of_samples: Vec<BTreeSet<Call>> = samples.iter().map(calls).collect();
        let all: Vec<Call> = of_samples.iter().flatten().copied().collect::<BTreeSet<Call>>().into_iter().collect();
        let place = |call: &Call| all.partition_point(|known| known < call);
        let sample = |(trees, calls): (&[Arc<Tree>], &BTreeSet<Call>)| Sample {
            calls: calls.iter().map(place).collect(),
            cells: trees.iter().map(|tree| tree.len() as u64).sum(),
            leaves: trees.iter().map(|tree| tree.leaves() as u64).sum(),
            height: height(calls),
        };
        let counted = samples.iter().zip(&of_samples).map(sample).collect();
        Counter { samples: counted, calls: all, pairs: samples.are_pairs() }
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

    fn batch(&self, samples: &[u32]) -> BatchCount {
        let mut count = BatchCount { samples: samples.len() as u64, ..BatchCount::default() };
        let mut seen = vec![false; self.calls.len()];
        for sample in samples.iter().map(|sample| &self.samples[*sample as usize]) {
            count.cells += sample.cells;
            count.leaves += sample.leaves;
            count.max_level = count.max_level.max(sample.height);
            sample.calls.iter().for_each(|call| seen[*call] = true);
        }
        for (call, _) in self.calls.iter().zip(seen).filter(|(_, seen)| *seen) {
            count.batched += 1;
            match call {
                Call::InitialState => count.begin_state_launches += 1,
                Call::Cell { .. } => count.cell_launches += 1,
                Call::Head { .. } => count.similarity_launches += 1,
            }
        }
        count.unbatched = count.cells + count.leaves + if self.pairs { count.samples } else { 0 };
        count
    }
}

fn height(calls: &BTreeSet<Call>) -> u32 {
    let level = |call: &Call| if let Call::Cell { level, .. } = call { *level } else { 0 };
    calls.iter().map(level).max().unwrap_or(0)
}

fn levels(tree: &Tree) -> Vec<u32> {
    Graph::from_tree(tree, CellId(1), CellId(0)).depths().iter().map(|depth| depth + 1).collect()
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
