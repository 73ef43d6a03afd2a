//! Calls of whole cells, with and without batching: the subgraph column of the paper's Table 1.
//!
//! The rule gives the paper's two numbers on its trees (SICK's test split). Without batching, each node, each leaf's
//! initial state and each pair's head is a call. With batching, a batch's initial states are one launch, nodes of one
//! level and number of children are one, and heads of one level are one. A leaf has level 1, another node 1 more than
//! its highest child, a head 1 more than its higher root.

use std::collections::BTreeSet;

use serde::Serialize;

use super::sample::{CELL, HEAD, INITIAL_STATE, TreeSamples};
use crate::base::units::CellId;

/// The key of a slot of the look-up table (section 4.3). Calls with the same key are one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CallKey {
    cell: CellId,
    /// The depth in the sample's graph, where initial states come before leaves.
    level: u32,
    inputs: usize,
}

/// Counts launches for any order and batch size.
#[derive(Clone, Debug)]
pub struct LaunchCounter {
    samples: Vec<SampleCalls>,
}

/// The calls of a sample.
#[derive(Clone, Debug)]
struct SampleCalls {
    keys: BTreeSet<CallKey>,
    nodes: u64,
    cells: u64,
    leaves: u64,
}

/// The launches of all batches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaunchCounts {
    pub unbatched: u64,
    pub batched: u64,
    pub batches: Vec<BatchCount>,
}

/// The launches of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BatchCount {
    pub samples: u64,
    pub cells: u64,
    pub leaves: u64,
    pub max_level: u32,
    /// Launches without batching: nodes, leaves' initial states, heads.
    pub unbatched: u64,
    pub begin_state_launches: u64,
    pub cell_launches: u64,
    pub similarity_launches: u64,
    pub batched: u64,
}

impl LaunchCounter {
    pub fn new(samples: &TreeSamples) -> LaunchCounter {
        let numbers = samples.order().into_iter();
        LaunchCounter {
            samples: numbers
                .map(|number| SampleCalls::new(samples, number))
                .collect(),
        }
    }

    /// Counts with `batch` samples (at least 1) at a time. The last batch has the rest.
    pub fn count(&self, order: &[u32], batch: usize) -> LaunchCounts {
        let batches: Vec<BatchCount> = order
            .chunks(batch)
            .map(|samples| self.count_batch(samples))
            .collect();
        LaunchCounts {
            unbatched: batches.iter().map(|batch| batch.unbatched).sum(),
            batched: batches.iter().map(|batch| batch.batched).sum(),
            batches,
        }
    }

    fn count_batch(&self, numbers: &[u32]) -> BatchCount {
        let mut keys: BTreeSet<CallKey> = BTreeSet::new();
        let mut nodes = 0;
        let mut cells = 0;
        let mut leaves = 0;
        for number in numbers {
            let sample = &self.samples[*number as usize];
            keys.extend(&sample.keys);
            nodes += sample.nodes;
            cells += sample.cells;
            leaves += sample.leaves;
        }
        let levels = keys.iter().filter(|key| key.cell == CELL);
        BatchCount {
            samples: numbers.len() as u64,
            cells,
            leaves,
            max_level: levels.map(|key| key.level).max().unwrap_or(0),
            unbatched: nodes,
            begin_state_launches: count_keys(&keys, INITIAL_STATE),
            cell_launches: count_keys(&keys, CELL),
            similarity_launches: count_keys(&keys, HEAD),
            batched: keys.len() as u64,
        }
    }
}

fn count_keys(keys: &BTreeSet<CallKey>, cell: CellId) -> u64 {
    keys.iter().filter(|key| key.cell == cell).count() as u64
}

impl SampleCalls {
    fn new(samples: &TreeSamples, number: u32) -> SampleCalls {
        let graph = samples.graph(number, samples.are_pairs());
        let mut calls = SampleCalls {
            keys: BTreeSet::new(),
            nodes: graph.len() as u64,
            cells: 0,
            leaves: 0,
        };
        for (node, (&cell, &level)) in (0..).zip(graph.cells().iter().zip(graph.depths())) {
            if cell == CELL {
                calls.cells += 1;
            } else if cell == INITIAL_STATE {
                calls.leaves += 1;
            }
            calls.keys.insert(CallKey {
                cell,
                level,
                inputs: graph.inputs(node).len(),
            });
        }
        calls
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn samples(trees: &[&str], pairs: bool) -> TreeSamples {
        TreeSamples::new(
            trees
                .iter()
                .map(|tree| Arc::new(tree.parse().unwrap()))
                .collect(),
            pairs,
        )
        .unwrap()
    }

    /// The numbers of each batch: calls, then launches of initial states, cells and heads.
    fn counts(trees: &[&str], pairs: bool, order: &[u32], batch: usize) -> Vec<[u64; 4]> {
        let counts = LaunchCounter::new(&samples(trees, pairs)).count(order, batch);
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
        let mut launches = Vec::new();
        for batch in &counts.batches {
            launches.push([
                batch.unbatched,
                batch.begin_state_launches,
                batch.cell_launches,
                batch.similarity_launches,
            ]);
        }
        launches
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
    fn a_head_is_above_the_higher_root_of_its_pair() {
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
        let counts = counts(&TREES, false, &[3, 1, 0, 2], 3);
        assert_eq!(counts, [[13, 1, 4, 0], [4, 1, 3, 0]]);
    }
}
