//! Launches of operators, with and without batching: this project's own count beside the kernel column of the paper's Table 1.
//!
//! The paper's two numbers can't be had from what is public, so that only their order of magnitude is comparable. The rule here: each
//! node of a tree runs the operators of a child-sum cell with its children, 22 + 2K of them; a leaf takes its initial state for one
//! child; an initial state is one operator, and the head of a pair eight. With batching, equal operators of one depth in the graph
//! of all operators and of one layout are one launch. (Depth: 0 for what takes no other operator's output, otherwise 1 more than
//! the deepest that it takes. Layout: the number of children, for an operator that takes something of all of them.)
//! With the word, the six weights and two states for each child an MXNet graph of the cell has 29 + 4K nodes, 33 with one child, which
//! are counted too.

use serde::Serialize;

use super::count::levels;
use super::sample::Samples;
use super::slots::Slots;
use crate::workload::model::Model;
use crate::workload::operator::depth::Depths;
use crate::workload::operator::{Kind, Operator, Rows, Sizes, Source};
use crate::workload::shape::Tree;

/// The paper's figures (Table 1, column "kernel").
pub const PAPER_UNBATCHED: u64 = 5_018_658;
/// See [`PAPER_UNBATCHED`]; the paper gives it as about this.
pub const PAPER_BATCHED: u64 = 2_650;

/// One launch: whose operator, at which place of the list, in which layout, how deep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Launch {
    owner: Owner,
    place: u16,
    layout: u32,
    depth: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owner {
    InitialState,
    Cell,
    Head,
}

/// Counts operators for samples, in any order and size of batch.
#[derive(Clone, Debug)]
pub struct KernelCounter {
    slots: Slots<Launch>,
    unbatched: u64,
    graph_nodes: u64,
}

/// Launches of operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KernelCounts {
    /// Operators without batching.
    pub unbatched: u64,
    /// Launches with batching.
    pub batched: u64,
    /// The nodes of all cells' graphs, with words, weights and states.
    pub graph_nodes: u64,
}

impl KernelCounter {
    /// A counter for these samples; pairs have heads.
    pub fn new(samples: &Samples) -> KernelCounter {
        // No size but those of the graph plays a part.
        let sizes = Sizes::square(1);
        let cell = Model::ChildSumTreeLstm.operators(&sizes).swap_remove(0);
        let head = head();
        let (cell_depths, head_depths) = (Depths::of(&cell), Depths::of(&head));
        let (mut unbatched, mut graph_nodes) = (0, 0);
        let slots = Slots::new(samples.iter().map(|trees| {
            let mut launches = Vec::new();
            let mut roots = Vec::new();
            for tree in trees {
                let states = add_tree(&mut launches, tree, &cell, &cell_depths);
                roots.push(states);
                for children in tree.child_counts() {
                    let before = u64::from(children.max(1));
                    unbatched += 22 + 2 * before + u64::from(children == 0);
                    graph_nodes += 29 + 4 * before;
                }
            }
            if samples.are_pairs() {
                let states = roots.iter().max().copied();
                let operators = head.iter().enumerate().map(|(place, operator)| Launch {
                    owner: Owner::Head,
                    place: place as u16,
                    layout: operator.layout(2),
                    depth: head_depths.depth(place, states),
                });
                launches.extend(operators);
                unbatched += head.len() as u64;
            }
            launches
        }));
        KernelCounter { slots, unbatched, graph_nodes }
    }

    /// Counts for samples in this order, `batch` of them (at least 1) at a time.
    pub fn count(&self, order: &[u32], batch: usize) -> KernelCounts {
        let mut batched = 0;
        self.slots.of_batches(order, batch, |_, _| batched += 1);
        KernelCounts { unbatched: self.unbatched, batched, graph_nodes: self.graph_nodes }
    }
}

/// Adds the launches of a tree's operators, and gives the depth of its root's state.
fn add_tree(launches: &mut Vec<Launch>, tree: &Tree, cell: &[Operator], depths: &Depths) -> u32 {
    const INITIAL: u32 = 0;
    launches.push(Launch { owner: Owner::InitialState, place: 0, layout: 1, depth: INITIAL });
    let children = tree.child_counts();
    let levels = levels(tree);
    // By ascending level, so that the children of a node come before it.
    let mut order: Vec<usize> = (0..tree.len()).collect();
    order.sort_by_key(|node| levels[*node]);
    let mut deepest_child = vec![INITIAL; tree.len()];
    let mut root = INITIAL;
    for node in order {
        let states = Some(deepest_child[node]);
        let before = children[node].max(1);
        for (place, operator) in cell.iter().enumerate().filter(|(_, operator)| operator.rows != Rows::ForEach) {
            launches.push(Launch {
                owner: Owner::Cell,
                place: place as u16,
                layout: operator.layout(before),
                depth: depths.depth(place, states),
            });
        }
        // What is there for each child hangs on the child alone; a leaf has it for its initial state.
        let mut for_each = |state: u32| {
            let operators = cell.iter().enumerate().filter(|(_, operator)| operator.rows == Rows::ForEach);
            launches.extend(operators.map(|(place, _)| Launch {
                owner: Owner::Cell,
                place: place as u16,
                layout: 1,
                depth: depths.depth(place, Some(state)),
            }));
        };
        if children[node] == 0 {
            for_each(INITIAL);
        }
        let state = depths.state(states);
        match tree.parents()[node] {
            Tree::NO_PARENT => root = state,
            parent => {
                for_each(state);
                let deepest = &mut deepest_child[parent as usize];
                *deepest = state.max(*deepest);
            }
        }
    }
    root
}

/// The head that compares two trees: of their states the product and the distance, one behind the other, through a hidden layer to
/// the classes.
fn head() -> Vec<Operator> {
    let function = |function: &str| Kind::Elementwise { function: function.into() };
    let layer = |name: &str| Kind::Affine { weight: format!("{name}.weight"), bias: format!("{name}.bias") };
    let operator = |name: &str, kind, inputs: &[Source]| Operator {
        name: name.into(),
        kind,
        rows: Rows::One,
        inputs: inputs.to_vec(),
        shape: [1, 1],
    };
    use Source::Operator as At;
    vec![
        operator("product", function("product"), &[Source::State]),
        operator("difference", function("difference"), &[Source::State]),
        operator("distance", function("abs"), &[At(1)]),
        operator("both", Kind::Concat, &[At(0), At(2)]),
        operator("hidden", layer("hidden"), &[At(3)]),
        operator("hidden.sigmoid", function("sigmoid"), &[At(4)]),
        operator("classes", layer("classes"), &[At(5)]),
        operator("softmax", function("log-softmax"), &[At(6)]),
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn counts(trees: &[&str], pairs: bool, batch: usize) -> KernelCounts {
        let trees = trees.iter().map(|tree| Arc::new(tree.parse().unwrap())).collect();
        let samples = Samples::new(trees, pairs).unwrap();
        KernelCounter::new(&samples).count(&samples.order(), batch)
    }

    #[test]
    fn a_leaf_is_a_cell_with_one_child_and_an_initial_state() {
        assert_eq!(counts(&["0"], false, 1), KernelCounts { unbatched: 25, batched: 25, graph_nodes: 33 });
        // Two alike are one batch.
        assert_eq!(counts(&["0", "0"], false, 2), KernelCounts { unbatched: 50, batched: 25, graph_nodes: 66 });
        assert_eq!(counts(&["0", "0"], false, 1).batched, 50);
    }

    #[test]
    fn the_words_part_of_all_nodes_runs_at_once() {
        // Leaf and root: the word's product, its slice and its concatenation, and the slice for the forget gates hang on no child,
        // so that of 2 x 24 operators and an initial state these four are shared.
        assert_eq!(counts(&["2 0"], false, 1), KernelCounts { unbatched: 49, batched: 45, graph_nodes: 66 });
        // Two children instead: of the root's 26 operators the two that each child has are one launch each.
        assert_eq!(
            counts(&["3 3 0"], false, 1),
            KernelCounts { unbatched: 25 + 25 + 26, batched: 45, graph_nodes: 103 }
        );
    }

    #[test]
    fn what_takes_all_children_runs_apart_for_each_number_of_them() {
        // A root with one child and a root with two share all but what has a layout: the sum and both concatenations of the
        // children, and the five operators over their rows.
        let together = counts(&["2 0", "3 3 0"], false, 2);
        assert_eq!(together.batched, 45 + 8);
    }

    #[test]
    fn a_pair_has_a_head() {
        assert_eq!(counts(&["0", "0"], true, 1), KernelCounts { unbatched: 58, batched: 33, graph_nodes: 66 });
    }
}
