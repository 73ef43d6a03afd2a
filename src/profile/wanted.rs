//! The networks, cells, requests and batch sizes to measure.

use std::sync::Arc;

use super::Settings;
use crate::error::Result;
use crate::experiment::device;
use crate::experiment::prepared::Prepared;
use crate::experiment::target::{Processor, Target, Verify};
use crate::gpu_settings::Precision;
use crate::network::Spec;
use crate::scenario::Scenario;
use crate::workload::model::Model;
use crate::workload::shape::{Shape, Tree};

/// The batch sizes on the CPU. The product's kernel takes six rows at a time, so that a step's time rises in stairs: every size up to
/// 24, both sides of each stair up to 64. Above that a stair is a few percent.
const CPU: [u32; 53] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 27, 30, 31, 33, 36, 37,
    39, 42, 43, 48, 49, 54, 55, 60, 61, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512,
];

/// The batch sizes on GPUs. The library chooses tiles of 16 to 256 rows by the size, so that times jump after multiples of these:
/// both sides of each jump, and enough sizes between them for the jumps at unknown places.
const CUDA: [u32; 62] = [
    1, 2, 3, 4, 6, 8, 9, 12, 14, 16, 17, 20, 24, 28, 32, 33, 36, 40, 44, 48, 49, 56, 60, 64, 65, 72, 80, 88, 96, 97,
    104, 112, 120, 128, 129, 144, 160, 161, 176, 192, 193, 208, 224, 225, 240, 256, 257, 272, 288, 304, 320, 321, 352,
    384, 385, 416, 448, 449, 464, 480, 496, 512,
];

/// The batch sizes of listed networks: a query has many rows, so that times are nearly straight lines from a few queries on, and a
/// batch takes seconds.
const LISTED: [u32; 5] = [1, 2, 4, 8, 16];

/// The default batch sizes of a device, ascending.
pub fn batches(processor: Processor) -> &'static [u32] {
    match processor {
        Processor::Cpu => &CPU,
        Processor::Cuda => &CUDA,
    }
}

/// The default batch sizes for some models on a device.
pub fn batches_of<'a>(processor: Processor, mut models: impl Iterator<Item = &'a Model>) -> &'static [u32] {
    if models.any(|model| model.network().is_some()) { &LISTED } else { batches(processor) }
}

/// A network and its cells to measure.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub model: Model,
    pub spec: Spec,
    /// The names of the cells to measure: all of the model's, or some.
    pub cells: Vec<String>,
    /// The sizes of inputs in tokens, for cells whose time depends on them; otherwise empty.
    pub inputs: Vec<u32>,
    /// The requests' trees, for models of trees.
    pub trees: Vec<Shape>,
    /// The origin of the trees, in words.
    trees_from: String,
}

/// The leaves of a tree where no dataset is given.
const LEAVES: u32 = 32;

/// The most trees that are taken from a scenario.
const TREES: usize = 200;

/// The names of all cells of a model.
pub fn cells_of(model: &Model) -> Vec<String> {
    model.cell_types().into_iter().map(|cell| cell.name).collect()
}

/// The model to measure in place of a model: cells for different numbers of children share the weights of the cell for any number,
/// and a cost table's rows for that cell hold for all of them.
pub fn measured(model: &Model) -> Model {
    match model {
        Model::ChildSumByArity(_) => Model::ChildSumTreeLstm,
        other => other.clone(),
    }
}

impl Wanted {
    /// Some cells of a model, on complete binary trees.
    pub fn of_cells(model: Model, spec: Spec, cells: Vec<String>, inputs: &[u32]) -> Wanted {
        let (trees, trees_from) = if model.takes_trees() {
            (vec![complete_tree(LEAVES)], format!("complete binary trees of {LEAVES} leaves"))
        } else {
            (Vec::new(), String::new())
        };
        Wanted { model, spec, cells, inputs: inputs.to_vec(), trees, trees_from }
    }

    /// All cells of a scenario's model on trees from its dataset. Sizes of inputs that are not given double up to the longest
    /// request. In a listed network they grow by a quarter, since the simulator takes a smaller input for the next size.
    pub fn of_scenario(scenario: &Scenario, inputs: &[u32]) -> Result<Wanted> {
        let model = measured(&scenario.workload.model);
        let mut wanted = Wanted::of_cells(model.clone(), device::spec(scenario), cells_of(&model), &[]);
        // The requests of a real run do not depend on the processor.
        let target = Target::Real(Processor::Cpu, Verify::None);
        let shapes = || Ok(Prepared::without_device(scenario, target)?.requests(0)?.shapes.clone());
        match model {
            Model::TreeLstm | Model::ChildSumTreeLstm | Model::ChildSumByArity(_) => {
                wanted.trees = shapes()?.iter().take(TREES).cloned().collect();
                let (count, children) = (wanted.trees.len(), mean_children(&wanted.trees));
                wanted.trees_from = format!(
                    "the first {count} trees of {}, with {children:.2} children a node that has any",
                    scenario.name
                );
            }
            Model::Network(network) if network.most_tokens().is_none() => {}
            Model::Dnn(_) | Model::Network(_) if !inputs.is_empty() => wanted.inputs = inputs.to_vec(),
            Model::Dnn(_) | Model::Network(_) => {
                let tokens = |shape: &Shape| if let Shape::Tokens(n) = shape { Some(*n) } else { None };
                if let Some(longest) = shapes()?.iter().filter_map(tokens).max() {
                    let next = |size: &u32| size + if model.network().is_some() { (size / 4).max(8) } else { *size };
                    let sizes = std::iter::successors(Some(8), |size| Some(next(size)));
                    wanted.inputs = sizes.take_while(|size| *size < longest).collect();
                    wanted.inputs.push(longest);
                }
            }
            Model::Lstm | Model::Gru | Model::Seq2Seq | Model::Graph(_) => {}
        }
        Ok(wanted)
    }

    /// The sizes of inputs that are measured; 0 stands for a fixed size.
    pub fn input_sizes(&self) -> &[u32] {
        if self.inputs.is_empty() { &[0] } else { &self.inputs }
    }

    /// The mean number of leaves of a tree.
    pub fn mean_leaves(&self) -> f64 {
        let leaves = |shape: &Shape| match shape {
            Shape::Tree(tree) => tree.child_counts().iter().filter(|count| **count == 0).count(),
            _ => 1,
        };
        self.trees.iter().map(leaves).sum::<usize>() as f64 / self.trees.len().max(1) as f64
    }

    /// How often its measurement calls `progress`.
    pub fn steps(&self, settings: &Settings) -> usize {
        if self.model.network().is_some() {
            return settings.repeats as usize * self.input_sizes().len() * settings.batches.len();
        }
        let launches = if settings.persistent.is_some() { self.cells.len() } else { 0 };
        let turns = super::steady::benches(self).len() + usize::from(self.model.takes_trees()) + launches;
        let whole = super::whole::sizes(self, settings).len();
        settings.repeats as usize
            * (turns * settings.batches.len() + whole + super::served::launch_batches(settings).len())
    }

    pub fn described(&self, precision: Precision) -> String {
        if self.model.network().is_some() {
            return format!("the operators of {}, {precision}", self.model.name());
        }
        let Spec { hidden, embedding, vocabulary, .. } = self.spec;
        let from = if self.trees_from.is_empty() { String::new() } else { format!("; {}", self.trees_from) };
        format!(
            "{} of {}: hidden {hidden}, embedding {embedding}, vocabulary {vocabulary}, {precision}{from}",
            self.cells.join(", "),
            self.model.name()
        )
    }
}

/// A request with an input of this size; 0 stands for a fixed size.
pub fn of_input(size: u32) -> Shape {
    if size == 0 { Shape::Fixed } else { Shape::Tokens(size) }
}

fn mean_children(trees: &[Shape]) -> f64 {
    let (mut nodes, mut parents) = (0, 0u32);
    for shape in trees {
        if let Shape::Tree(tree) = shape {
            let children = tree.child_counts();
            nodes += children.iter().sum::<u32>();
            parents += children.iter().map(|count| u32::from(*count > 0)).sum::<u32>();
        }
    }
    f64::from(nodes) / f64::from(parents.max(1))
}

/// A binary tree whose leaves, a power of two, are all equally deep. Node 1 is the root, and node `i / 2` the parent of node `i`.
fn complete_tree(leaves: u32) -> Shape {
    let parents: Vec<u32> = (1..2 * leaves).map(|node| node / 2).collect();
    Shape::Tree(Arc::new(Tree::from_parents(&parents).expect("the parent of a node has a smaller number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_ascend_to_the_largest_batch_of_policies() {
        for processor in [Processor::Cpu, Processor::Cuda] {
            let batches = batches(processor);
            assert!(batches.is_sorted_by(|a, b| a < b), "{batches:?}");
            assert_eq!((batches.first(), batches.last()), (Some(&1), Some(&512)));
        }
    }

    #[test]
    fn a_complete_tree_has_two_children_everywhere() {
        let tree = complete_tree(LEAVES);
        assert_eq!(tree.length(), 2 * LEAVES - 1);
        assert_eq!(mean_children(&[tree, "tree:4 4 4 0".parse().unwrap()]), 65.0 / 32.0);
    }
}
