//! Launches of operators, with and without batching: this project's count for the kernel column of the paper's Table
//! 1.
//!
//! The paper does not say what its two numbers count, so only magnitudes can be compared. Here, a node runs the 22 +
//! 2K operators of a child-sum cell with K children (a leaf's initial state counts as a child), an initial state is
//! one operator, and a pair's head eight. With batching, equal operators (at one place of a cell) of one depth and
//! layout are one launch, as in the policy `jit`. The layout of an operator that takes all children is their number.
//! The second rule is the one that comes nearest to the paper's count. One launch has all operators of one depth and
//! type, whatever their place or number of children. Products with weights are one type, so are additions, and sigmoid
//! and tanh together. Children are put together without slices; initial states and heads are left out.
//!
//! An MXNet graph of a cell also has the word, six weights and two states for each child: 29 + 4K nodes.

use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use serde::Serialize;

use super::sample::TreeSamples;
use crate::base::units::CellId;
use crate::core::policy::operators::classes::KeyFunction;
use crate::core::policy::operators::{Evaluation, ListLevel, depth_order};
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::cell_graph::tree::Tree;
use crate::core::workload::model::Model;
use crate::core::workload::operator::catalogue::OperatorList;
use crate::core::workload::operator::{OperandSource, Operator, OperatorKind, RowRule, Sizes};

/// The launches of operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelCounts {
    /// Launches without batching.
    pub unbatched: u64,
    /// Launches with batching.
    pub batched: u64,
    /// Launches with batching by depth and type only.
    pub by_type: u64,
    /// Nodes in the graphs of all cells, with words, weights and states.
    pub graph_nodes: u64,
}

impl KernelCounts {
    /// Counts with `batch` samples (at least 1) at a time.
    pub fn count(samples: &TreeSamples, order: &[u32], batch: usize) -> KernelCounts {
        let of_cell: KeyFunction<_> =
            |operator, before, _| Some((operator.name.clone(), operator.layout(before)));
        let mut evaluation = Evaluation::new(&lists(), of_cell, ListLevel::Operators);
        let of_type: KeyFunction<_> = |operator, _, _| Some(type_of(operator));
        let mut typed = Evaluation::new(&without_slices(lists()), of_type, ListLevel::Operators);
        let mut counts = KernelCounts::default();
        for numbers in order.chunks(batch) {
            for number in numbers {
                counts.graph_nodes += count_graph_nodes(samples.trees(*number));
            }
            let without_heads = graphs(samples, numbers, false);
            // One launch makes the initial states.
            counts.by_type += typed.evaluate(without_heads, depth_order).launches as u64 - 1;
            let all = graphs(samples, numbers, samples.are_pairs());
            let evaluated = evaluation.evaluate(all, depth_order);
            counts.unbatched += evaluated.operators;
            counts.batched += evaluated.launches as u64;
        }
        counts
    }
}

/// The nodes in MXNet's graphs of the cells of trees.
fn count_graph_nodes(trees: &[Arc<Tree>]) -> u64 {
    let mut nodes = 0;
    for tree in trees {
        for children in tree.child_counts() {
            nodes += 29 + 4 * u64::from(children.max(1));
        }
    }
    nodes
}

/// The graphs of a batch's samples, with or without the heads of pairs.
fn graphs(
    samples: &TreeSamples,
    numbers: &[u32],
    with_heads: bool,
) -> impl Iterator<Item = CellGraph> {
    numbers
        .iter()
        .map(move |number| CellGraph::Graph(samples.graph(*number, with_heads).into()))
}

/// The type of an operator, and whether it multiplies numbers, which sets it apart from sigmoid and tanh.
fn type_of(operator: &Operator) -> (Discriminant<OperatorKind>, bool) {
    let is_product =
        matches!(&operator.kind, OperatorKind::Elementwise { function } if function == "product");
    (discriminant(&operator.kind), is_product)
}

/// The lists with a cell that takes its children's states at once.
fn without_slices(mut lists: [OperatorList; 3]) -> [OperatorList; 3] {
    let OperatorList { operators, ids } = &mut lists[0];
    let is_slice: Vec<bool> = operators
        .iter()
        .map(|one| one.inputs == [OperandSource::State] && one.kind == OperatorKind::Slice)
        .collect();
    for operator in operators.iter_mut() {
        for source in &mut operator.inputs {
            let OperandSource::Operator(at) = source else {
                continue;
            };
            let place = usize::from(*at);
            let slices_before = is_slice[..place].iter().filter(|slice| **slice).count();
            *source = if is_slice[place] {
                OperandSource::State
            } else {
                OperandSource::Operator(*at - slices_before as u16)
            };
        }
    }
    let mut slices = is_slice.iter();
    operators.retain(|_| slices.next() == Some(&false));
    ids.truncate(operators.len());
    lists
}

/// The operators of [`CELL`](super::sample::CELL), of an initial state and of a head. Names are unique over all cells.
fn lists() -> [OperatorList; 3] {
    let cell = Model::ChildSumTreeLstm
        .operators(&Sizes::square(1))
        .swap_remove(0);
    let initial_state = vec![operator("initial-state", elementwise("zeros"), &[])];
    let mut ids = (0..).map(CellId);
    [cell, initial_state, head()].map(|operators| OperatorList {
        ids: ids.by_ref().take(operators.len()).collect(),
        operators,
    })
}

/// The operators of a head: the product and the distance of two trees' states go through a hidden layer to the classes.
fn head() -> Vec<Operator> {
    use OperandSource::Operator as At;
    vec![
        operator(
            "head.product",
            elementwise("product"),
            &[OperandSource::State],
        ),
        operator(
            "head.difference",
            elementwise("difference"),
            &[OperandSource::State],
        ),
        operator("head.distance", elementwise("abs"), &[At(1)]),
        operator("head.both", OperatorKind::Concat, &[At(0), At(2)]),
        operator("head.hidden", layer("hidden"), &[At(3)]),
        operator("head.hidden.sigmoid", elementwise("sigmoid"), &[At(4)]),
        operator("head.classes", layer("classes"), &[At(5)]),
        operator("head.softmax", elementwise("log-softmax"), &[At(6)]),
    ]
}

fn operator(name: &str, kind: OperatorKind, inputs: &[OperandSource]) -> Operator {
    Operator {
        name: name.into(),
        kind,
        rows: RowRule::One,
        inputs: inputs.to_vec(),
        shape: [1, 1],
    }
}

fn elementwise(function: &str) -> OperatorKind {
    OperatorKind::Elementwise {
        function: function.into(),
    }
}

fn layer(name: &str) -> OperatorKind {
    OperatorKind::Affine {
        weight: format!("{name}.weight"),
        bias: format!("{name}.bias"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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

    fn counts(trees: &[&str], pairs: bool, batch: usize) -> KernelCounts {
        let samples = samples(trees, pairs);
        KernelCounts::count(&samples, &samples.order(), batch)
    }

    #[test]
    fn a_leaf_is_a_cell_with_one_child_and_an_initial_state() {
        assert_eq!(
            counts(&["0"], false, 1),
            KernelCounts {
                unbatched: 25,
                batched: 25,
                by_type: 17,
                graph_nodes: 33
            }
        );
        // Two equal trees in a batch.
        assert_eq!(
            counts(&["0", "0"], false, 2),
            KernelCounts {
                unbatched: 50,
                batched: 25,
                by_type: 17,
                graph_nodes: 66
            }
        );
        assert_eq!(counts(&["0", "0"], false, 1).batched, 50);
    }

    #[test]
    fn operators_on_the_word_run_at_once_for_all_nodes() {
        // Four operators depend on no child: the word's product, its slice and concatenation, and the slice for the
        // forget gates. 2 x 24 operators and an initial state share them.
        assert_eq!(
            counts(&["2 0"], false, 1),
            KernelCounts {
                unbatched: 49,
                batched: 45,
                by_type: 30,
                graph_nodes: 66
            }
        );
        // Two of the root's 26 operators are one launch for each child.
        assert_eq!(
            counts(&["3 3 0"], false, 1),
            KernelCounts {
                unbatched: 25 + 25 + 26,
                batched: 45,
                by_type: 30,
                graph_nodes: 103
            }
        );
    }

    #[test]
    fn operators_over_all_children_run_apart_for_each_number_of_children() {
        // Roots with one and two children share all operators without a layout: not the sum, both concatenations of
        // the children and the five operators over their rows.
        let together = counts(&["2 0", "3 3 0"], false, 2);
        assert_eq!(together.batched, 45 + 8);
    }

    #[test]
    fn a_pair_has_a_head() {
        assert_eq!(
            counts(&["0", "0"], true, 1),
            KernelCounts {
                unbatched: 58,
                batched: 33,
                by_type: 17,
                graph_nodes: 66
            }
        );
    }

    /// Each operator's depths, one for each child where it runs for each child, and the node's last one.
    fn depths(operators: &[Operator], states: &[u32]) -> Vec<Vec<u32>> {
        let mut depths: Vec<Vec<u32>> = Vec::new();
        for operator in operators {
            let copies = if operator.rows == RowRule::ForEach {
                states.len()
            } else {
                1
            };
            let of_copy = |copy: usize| {
                let needs = operator.inputs.iter().flat_map(|source| match source {
                    OperandSource::Word => Vec::new(),
                    OperandSource::State if operator.rows == RowRule::ForEach => vec![states[copy]],
                    OperandSource::State => states.to_vec(),
                    OperandSource::Operator(at) => {
                        let taken = &depths[*at as usize];
                        if copies == taken.len() && operator.rows == RowRule::ForEach {
                            vec![taken[copy]]
                        } else {
                            taken.clone()
                        }
                    }
                });
                needs.map(|depth| depth + 1).max().unwrap_or(0)
            };
            let all = (0..copies).map(of_copy).collect();
            depths.push(all);
        }
        depths
    }

    #[test]
    fn an_independent_count_of_each_operator_agrees() {
        let trees = [
            "4 4 5 5 0",
            "2 3 4 0",
            "0",
            "3 3 6 6 6 0",
            "4 3 4 0",
            "3 3 0",
        ];
        let [cell, _, head] = lists();
        for (pairs, batch) in [(false, 1), (false, 4), (true, 1), (true, 2), (true, 3)] {
            let samples = samples(&trees, pairs);
            let mut unbatched = 0;
            let mut batched = 0;
            for numbers in samples.order().chunks(batch) {
                let mut launches = BTreeSet::new();
                let mut run = |operators: &[Operator], states: &[u32]| {
                    let all = depths(operators, states);
                    for (operator, depth) in operators
                        .iter()
                        .zip(&all)
                        .flat_map(|(o, d)| d.iter().map(move |d| (o, d)))
                    {
                        launches.insert((
                            operator.name.clone(),
                            operator.layout(states.len() as u32),
                            *depth,
                        ));
                        unbatched += 1;
                    }
                    all[all.len() - 1][0]
                };
                for trees in numbers.iter().map(|number| samples.trees(*number)) {
                    let mut roots = Vec::new();
                    for tree in trees {
                        let mut states: Vec<Option<u32>> = vec![None; tree.len()];
                        let children = |node| {
                            (0..tree.len())
                                .filter(move |child| tree.parents()[*child] == node as u32)
                        };
                        while let Some(node) = (0..tree.len()).find(|node| {
                            states[*node].is_none()
                                && children(*node).all(|child| states[child].is_some())
                        }) {
                            let mut before: Vec<u32> =
                                children(node).filter_map(|child| states[child]).collect();
                            if before.is_empty() {
                                before.push(run(&lists()[1].operators, &[]));
                            }
                            states[node] = Some(run(&cell.operators, &before));
                        }
                        let root = tree
                            .parents()
                            .iter()
                            .position(|parent| *parent == Tree::NO_PARENT)
                            .unwrap();
                        roots.extend(states[root]);
                    }
                    if pairs {
                        run(&head.operators, &roots);
                    }
                }
                batched += launches.len() as u64;
            }
            let counts = KernelCounts::count(&samples, &samples.order(), batch);
            assert_eq!(
                (counts.unbatched, counts.batched),
                (unbatched, batched),
                "{pairs} {batch}"
            );
        }
    }
}
