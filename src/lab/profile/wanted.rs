//! The networks, cells, requests and batch sizes to measure.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::precision::Precision;
use crate::core::workload::model::Model;
use crate::core::workload::shape::{Shape, Tree};
use crate::devices::network::Spec;
use crate::lab::run::executor::Executor;
use crate::lab::run::inputs::RunInputs;
use crate::lab::run::target;
use crate::lab::scenario::Scenario;

/// Times are nearly straight lines, and a batch takes seconds.
const LISTED: [u32; 5] = [1, 2, 4, 8, 16];

pub fn batches_of<'a>(
    executor: &dyn Executor,
    mut models: impl Iterator<Item = &'a Model>,
) -> &'static [u32] {
    if models.any(|model| model.network().is_some()) {
        &LISTED
    } else {
        executor.profile_batches()
    }
}

#[derive(Clone, Debug)]
pub struct Wanted {
    pub model: Model,
    pub spec: Spec,
    pub cells: Vec<String>,
    /// In tokens, for cells whose time depends on them.
    pub inputs: Vec<u32>,
    pub trees: Vec<Shape>,
    trees_from: String,
}

/// Of a tree without a dataset.
const LEAVES: u32 = 32;

const TREES: usize = 200;

pub fn cells_of(model: &Model) -> Vec<String> {
    model
        .cell_types()
        .into_iter()
        .map(|cell| cell.name)
        .collect()
}

/// The cell for any number of children stands for those of each number.
pub fn measured(model: &Model) -> Model {
    match model {
        Model::ChildSumByArity(_) => Model::ChildSumTreeLstm,
        other => other.clone(),
    }
}

impl Wanted {
    /// On complete binary trees.
    pub fn of_cells(model: Model, spec: Spec, cells: Vec<String>, inputs: &[u32]) -> Wanted {
        let (trees, trees_from) = if model.takes_trees() {
            (
                vec![complete_tree(LEAVES)],
                format!("complete binary trees of {LEAVES} leaves"),
            )
        } else {
            (Vec::new(), String::new())
        };
        Wanted {
            model,
            spec,
            cells,
            inputs: inputs.to_vec(),
            trees,
            trees_from,
        }
    }

    /// On trees from the scenario's dataset. Unless given, sizes of inputs double up to the longest request; in a
    /// listed network they grow by a quarter, since the simulator rounds inputs up.
    pub fn of_scenario(scenario: &Scenario, inputs: &[u32]) -> Result<Wanted> {
        let model = measured(&scenario.workload.model);
        let mut wanted =
            Wanted::of_cells(model.clone(), target::spec(scenario), cells_of(&model), &[]);
        let shapes = || Ok(RunInputs::new(scenario)?.requests(0)?.shapes.clone());
        let takes_tokens = model
            .network()
            .map_or(matches!(model, Model::Dnn(_)), |net| {
                net.most_tokens.is_some()
            });
        if model.takes_trees() {
            wanted.trees = shapes()?.iter().take(TREES).cloned().collect();
            let (count, children) = (wanted.trees.len(), mean_children(&wanted.trees));
            wanted.trees_from = format!(
                "the first {count} trees of {}, with {children:.2} children a node that has any",
                scenario.name
            );
        } else if takes_tokens && !inputs.is_empty() {
            wanted.inputs = inputs.to_vec();
        } else if takes_tokens {
            let tokens = |shape: &Shape| {
                if let Shape::Tokens(n) = shape {
                    Some(*n)
                } else {
                    None
                }
            };
            if let Some(longest) = shapes()?.iter().filter_map(tokens).max() {
                let next = |size: &u32| {
                    size + if model.network().is_some() {
                        (size / 4).max(8)
                    } else {
                        *size
                    }
                };
                let sizes = std::iter::successors(Some(8), |size| Some(next(size)));
                wanted.inputs = sizes
                    .take_while(|size| *size < longest)
                    .chain([longest])
                    .collect();
            }
        }
        Ok(wanted)
    }

    /// 0 stands for a fixed size.
    pub fn input_sizes(&self) -> &[u32] {
        if self.inputs.is_empty() {
            &[0]
        } else {
            &self.inputs
        }
    }

    pub fn described(&self, precision: Precision) -> String {
        if self.model.network().is_some() {
            return format!("the operators of {}, {precision}", self.model.name());
        }
        let Spec {
            hidden,
            embedding,
            vocabulary,
            ..
        } = self.spec;
        let from = if self.trees_from.is_empty() {
            String::new()
        } else {
            format!("; {}", self.trees_from)
        };
        format!(
            "{} of {}: hidden {hidden}, embedding {embedding}, vocabulary {vocabulary}, {precision}{from}",
            self.cells.join(", "),
            self.model.name()
        )
    }
}

/// 0 stands for a fixed size.
pub fn of_input(size: u32) -> Shape {
    if size == 0 {
        Shape::Fixed
    } else {
        Shape::Tokens(size)
    }
}

/// Of each node.
pub fn children(trees: &[Shape]) -> impl Iterator<Item = u32> {
    let trees = trees.iter().filter_map(|shape| {
        if let Shape::Tree(tree) = shape {
            Some(tree)
        } else {
            None
        }
    });
    trees.flat_map(|tree| tree.child_counts())
}

/// Of the nodes that have any.
fn mean_children(trees: &[Shape]) -> f64 {
    let parents = children(trees).filter(|count| *count > 0).count();
    f64::from(children(trees).sum::<u32>()) / parents.max(1) as f64
}

/// Node 1 is the root, and node `i / 2` the parent of node `i`. The number of leaves is a power of two.
fn complete_tree(leaves: u32) -> Shape {
    let parents: Vec<u32> = (1..2 * leaves).map(|node| node / 2).collect();
    Shape::Tree(Arc::new(
        Tree::from_parents(&parents).expect("the parent of a node has a smaller number"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complete_tree_has_two_children_everywhere() {
        let tree = complete_tree(LEAVES);
        assert_eq!(tree.length(), 2 * LEAVES - 1);
        assert_eq!(
            mean_children(&[tree, "tree:4 4 4 0".parse().unwrap()]),
            65.0 / 32.0
        );
    }
}
