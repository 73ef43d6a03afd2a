//! Calls of whole cells, with and without batching: the subgraph column of the paper's Table 1.
//!
//! The rule, under which the paper's two numbers come out on the trees that it used (SICK's test split): without batching each
//! node of a tree is a call, the initial state of each leaf is one, and so is the head that compares the trees of a pair. With
//! batching all initial states of a batch are one launch; nodes of one level and one number of children are one; and so are heads
//! of one level. A leaf has level 1, any other node stands 1 above its highest child, and a head 1 above the higher of its roots.

use serde::Serialize;

use super::sample::Samples;
use super::slots::Slots;
use crate::units::CellId;
use crate::workload::cell_graph::Graph;
use crate::workload::shape::Tree;

/// What a slot of the look-up table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Call {
    InitialState,
    Cell { level: u32, children: u32 },
    Head { level: u32 },
}

/// Counts launches for samples, in any order and size of batch.
#[derive(Clone, Debug)]
pub struct Counter {
    slots: Slots<Call>,
    sizes: Vec<Size>,
    pairs: bool,
}

/// What a sample has of each.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    cells: u64,
    leaves: u64,
    /// The highest level of a node.
    height: u32,
}

/// The launches of all batches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Calls without batching.
    pub unbatched: u64,
    /// Launches with batching.
    pub batched: u64,
    /// The batches, in their order.
    pub batches: Vec<BatchCount>,
}

/// The launches of one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BatchCount {
    /// How many samples it has.
    pub samples: u64,
    /// How many nodes its trees have.
    pub cells: u64,
    /// How many of them are leaves.
    pub leaves: u64,
    /// The highest level of a node.
    pub max_level: u32,
    /// Calls without batching: nodes, initial states of leaves, heads of pairs.
    pub unbatched: u64,
    /// Launches of initial states.
    pub begin_state_launches: u64,
    /// Launches of nodes.
    pub cell_launches: u64,
    /// Launches of heads.
    pub similarity_launches: u64,
    /// The sum of the three.
    pub batched: u64,
}

impl Counter {
    /// A counter for these samples; pairs have heads.
    pub fn new(samples: &Samples) -> Counter {
        let levels: Vec<Vec<Vec<u32>>> =
            samples.iter().map(|trees| trees.iter().map(|tree| levels(tree)).collect()).collect();
        let height = |levels: &[u32]| levels.iter().max().copied().unwrap_or(0);
        let calls = samples.iter().zip(&levels).map(|(trees, levels)| {
            let nodes = trees.iter().zip(levels).flat_map(|(tree, levels)| {
                let cells = levels.iter().zip(tree.child_counts());
                cells.map(|(level, children)| Call::Cell { level: *level, children }).collect::<Vec<_>>()
            });
            let highest = levels.iter().map(|levels| height(levels)).max().unwrap_or(0);
            let head = samples.are_pairs().then_some(Call::Head { level: highest + 1 });
            nodes.chain([Call::InitialState]).chain(head)
        });
        let sizes = samples.iter().zip(&levels).map(|(trees, levels)| Size {
            cells: trees.iter().map(|tree| tree.len() as u64).sum(),
            leaves: trees.iter().map(|tree| tree.leaves() as u64).sum(),
            height: levels.iter().map(|levels| height(levels)).max().unwrap_or(0),
        });
        Counter { slots: Slots::new(calls), sizes: sizes.collect(), pairs: samples.are_pairs() }
    }

    /// Counts for samples in this order, `batch` of them (at least 1) at a time; the last batch takes what is left.
    pub fn count(&self, order: &[u32], batch: usize) -> Counts {
        let mut batches: Vec<BatchCount> = order
            .chunks(batch)
            .map(|samples| {
                let sizes = samples.iter().map(|sample| self.sizes[*sample as usize]);
                let mut count = sizes.fold(BatchCount::default(), |count, size| BatchCount {
                    samples: count.samples + 1,
                    cells: count.cells + size.cells,
                    leaves: count.leaves + size.leaves,
                    max_level: count.max_level.max(size.height),
                    ..count
                });
                let heads = if self.pairs { count.samples } else { 0 };
                count.unbatched = count.cells + count.leaves + heads;
                count
            })
            .collect();
        self.slots.of_batches(order, batch, |number, call| {
            let count = &mut batches[number];
            count.batched += 1;
            match call {
                Call::InitialState => count.begin_state_launches += 1,
                Call::Cell { .. } => count.cell_launches += 1,
                Call::Head { .. } => count.similarity_launches += 1,
            }
        });
        Counts {
            unbatched: batches.iter().map(|batch| batch.unbatched).sum(),
            batched: batches.iter().map(|batch| batch.batched).sum(),
            batches,
        }
    }
}

/// The level of each node: 1 for a leaf.
pub(super) fn levels(tree: &Tree) -> Vec<u32> {
    Graph::from_tree(tree, CellId(1), CellId(0)).depths().iter().map(|depth| depth + 1).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn samples(trees: &[&str], pairs: bool) -> Samples {
        Samples::new(trees.iter().map(|tree| Arc::new(tree.parse().unwrap())).collect(), pairs).unwrap()
    }

    /// For each batch: calls without batching, then launches of initial states, cells and heads.
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
        // Alone: the leaf has 1 slot; the pair of leaves (1,0) (2,2); the chain (1,0) (2,1) (3,1); the last (1,0) (2,1) (3,2).
        assert_eq!(
            counts(&TREES, false, &[0, 1, 2, 3], 1),
            [[2, 1, 1, 0], [5, 1, 2, 0], [4, 1, 3, 0], [6, 1, 3, 0]],
            "nodes and leaves"
        );
        // Together: (1,0) (2,1) (2,2) (3,1) (3,2).
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
