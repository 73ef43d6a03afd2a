//! The networks, cells, requests and batch sizes to measure.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::base::error::Result;
use crate::base::precision::Precision;
use crate::core::policy::values::BatchSizes;
use crate::core::workload::cell_graph::tree::Tree;
use crate::core::workload::model::Model;
use crate::core::workload::shape::Shape;
use crate::devices::network::Spec;
use crate::lab::run::inputs::RunInputs;
use crate::lab::run::target;
use crate::lab::scenario::Scenario;

/// The largest batch that is measured without a scenario: that of BatchMaker's policies.
const LARGEST: u32 = 512;

/// The largest batch of listed networks that is measured without a scenario.
const LARGEST_LISTED: u32 = 16;

/// The largest batch that is measured unless larger ones are asked for. The simulator says what is beyond the table.
const MOST: u32 = 4096;

/// A network and those of its cells that are measured.
#[derive(Clone, Debug)]
pub struct ProfileTarget {
    pub model: Model,
    pub spec: Spec,
    pub cells: Vec<String>,
    /// The sizes of inputs in tokens, for cells whose time depends on them.
    pub inputs: Vec<u32>,
    pub trees: Vec<Shape>,
    /// The largest batch to measure.
    pub largest: u32,
    /// The largest batch that the scenario's policies form; 0 without a scenario.
    pub formed: u32,
    /// The only batch sizes that the scenario's policies run; empty if a policy runs others.
    pub supported: Vec<u32>,
    /// The source of the trees, for the table's header.
    trees_from: String,
}

/// The leaves of the tree that is measured without a dataset.
const LEAVES: u32 = 32;

/// The most trees that are taken from a dataset.
const TREES: usize = 200;

/// The names of a model's cells.
pub fn cells_of(model: &Model) -> Vec<String> {
    model
        .cell_types()
        .into_iter()
        .map(|cell| cell.name)
        .collect()
}

/// The model that is measured: the cell for any number of children represents those for each number.
pub fn measured_model(model: &Model) -> Model {
    match model {
        Model::ChildSumByArity(_) => Model::ChildSumTreeLstm,
        other => other.clone(),
    }
}

impl ProfileTarget {
    /// Cells of a model, on complete binary trees if the model takes trees.
    pub fn from_cells(
        model: Model,
        spec: Spec,
        cells: Vec<String>,
        inputs: &[u32],
    ) -> ProfileTarget {
        let (trees, trees_from) = if model.takes_trees() {
            (
                vec![complete_tree(LEAVES)],
                format!("complete binary trees of {LEAVES} leaves"),
            )
        } else {
            (Vec::new(), String::new())
        };
        let largest = if model.network().is_some() {
            LARGEST_LISTED
        } else {
            LARGEST
        };
        ProfileTarget {
            model,
            spec,
            cells,
            inputs: inputs.to_vec(),
            trees,
            largest,
            formed: 0,
            supported: Vec::new(),
            trees_from,
        }
    }

    /// The cells of a scenario's model, on trees from its dataset. By default, sizes of inputs double up to the longest
    /// request; in a listed network they grow by a quarter, since the simulator rounds inputs up.
    pub fn from_scenario(scenario: &Scenario, given: &[u32]) -> Result<ProfileTarget> {
        let model = measured_model(&scenario.workload.model);
        let mut wanted =
            ProfileTarget::from_cells(model.clone(), target::spec(scenario), cells_of(&model), &[]);
        let takes_tokens = model
            .network()
            .map_or(matches!(model, Model::Dnn(_)), |net| {
                net.most_tokens.is_some()
            });
        wanted.supported = supported_sizes(scenario);
        if model.takes_trees() {
            let inputs = RunInputs::new(scenario)?;
            let requests = inputs.requests(0)?;
            wanted.cover(inputs.largest_formed(Some(&requests)));
            wanted.trees = requests.shapes.iter().take(TREES).cloned().collect();
            let count = wanted.trees.len();
            let children = mean_children(&wanted.trees);
            wanted.trees_from = format!(
                "the first {count} trees of {}, with {children:.2} children a node that has any",
                scenario.name
            );
            return Ok(wanted);
        }
        // Policies that need costs cannot be built before they are measured.
        let inputs = RunInputs::new(scenario);
        if let Ok(inputs) = &inputs {
            wanted.cover(inputs.largest_formed(None));
        }
        if takes_tokens && !given.is_empty() {
            wanted.inputs = given.to_vec();
        } else if takes_tokens {
            let requests = inputs?.requests(0)?;
            let lengths = requests.shapes.iter().filter_map(tokens_of);
            if let Some(longest) = lengths.max() {
                wanted.inputs = input_sizes_up_to(longest, model.network().is_some());
            }
        }
        Ok(wanted)
    }

    /// Measures batches up to this size, too, if it is not too large.
    fn cover(&mut self, formed: u32) {
        self.formed = formed;
        self.largest = self.largest.max(formed.min(MOST));
    }

    /// The batch sizes of a policy that runs as those of the scenario.
    pub fn batch_sizes(&self) -> BatchSizes {
        if self.supported.is_empty() {
            return BatchSizes(None);
        }
        BatchSizes(Some(self.supported.clone()))
    }

    /// The sizes of inputs to measure; 0 is a fixed size.
    pub fn input_sizes(&self) -> &[u32] {
        if self.inputs.is_empty() {
            &[0]
        } else {
            &self.inputs
        }
    }

    /// A line for the table's header.
    pub fn describe(&self, precision: Precision) -> String {
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

/// The batch sizes that a scenario makes cells for; empty if one of its policies runs any size.
fn supported_sizes(scenario: &Scenario) -> Vec<u32> {
    let mut sizes = BTreeSet::new();
    for policy in &scenario.policies {
        let own = policy.settings.batch_sizes();
        if own.is_empty() {
            return Vec::new();
        }
        sizes.extend(own);
    }
    sizes.into_iter().collect()
}

/// A request with an input of this size; 0 is a fixed size.
pub fn shape_with_input(size: u32) -> Shape {
    if size == 0 {
        Shape::Fixed
    } else {
        Shape::Tokens(size)
    }
}

/// The tokens of a request, if it has any.
fn tokens_of(shape: &Shape) -> Option<u32> {
    match shape {
        Shape::Tokens(tokens) => Some(*tokens),
        _ => None,
    }
}

/// Growing sizes of inputs up to the longest one.
fn input_sizes_up_to(longest: u32, is_listed: bool) -> Vec<u32> {
    let mut sizes = Vec::new();
    let mut size = 8;
    while size < longest {
        sizes.push(size);
        size += if is_listed { (size / 4).max(8) } else { size };
    }
    sizes.push(longest);
    sizes
}

/// The number of children of each node.
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

/// The mean number of children of the nodes that have any.
fn mean_children(trees: &[Shape]) -> f64 {
    let parents = children(trees).filter(|count| *count > 0).count();
    f64::from(children(trees).sum::<u32>()) / parents.max(1) as f64
}

/// A complete binary tree, whose number of leaves is a power of two. Node 1 is the root, and node `i / 2` is the parent
/// of node `i`.
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
