mod chain;
mod dense;
pub mod seq2seq;
pub mod tree;

use std::sync::Arc;

use super::product::{Block, Product};
use super::weights::Weights;
use super::{Cell, Spec};
use crate::workload::model::Model;

/// In the order of [`Model::cell_types`].
pub(super) fn of_model(model: &Model, spec: &Spec, weights: &Weights) -> Vec<Arc<dyn Cell>> {
    let lstm = |name| Arc::new(chain::Lstm::new(spec, weights, name, "embedding.weight", state(model, spec)));
    let childsum_leaf = || Arc::new(tree::Leaf::new(spec, weights, "childsum.weight_iou_x", "childsum.bias_iou"));
    match model {
        Model::Lstm => vec![lstm("lstm")],
        Model::Gru => vec![Arc::new(chain::Gru::new(spec, weights))],
        Model::Seq2Seq => {
            vec![Arc::new(seq2seq::Decoder::new(spec, weights, state(model, spec))), lstm("encoder")]
        }
        Model::TreeLstm => {
            let leaf = tree::Leaf::new(spec, weights, "leaf.weight", "leaf.bias");
            vec![Arc::new(tree::Internal::new(spec, weights)), Arc::new(leaf)]
        }
        Model::ChildSumTreeLstm => vec![Arc::new(tree::ChildSum::new(spec, weights)), childsum_leaf()],
        Model::ChildSumByArity(most) => {
            // Cells for different numbers of children share one set of weights.
            let internal: Arc<dyn Cell> = Arc::new(tree::ChildSum::new(spec, weights));
            let mut cells = vec![internal; *most as usize];
            cells.push(childsum_leaf());
            cells
        }
        // `Spec::check` refuses the one, and the other has operators in place of cells.
        Model::Graph(_) | Model::Network(_) => Vec::new(),
        Model::Dnn(_) => vec![Arc::new(dense::Dense::new(spec, weights))],
    }
}

/// h and c of an LSTM; in a translation also the last word written.
pub fn state(model: &Model, spec: &Spec) -> usize {
    let hidden = spec.hidden as usize;
    match model {
        Model::Lstm | Model::TreeLstm | Model::ChildSumTreeLstm | Model::ChildSumByArity(_) => 2 * hidden,
        Model::Seq2Seq => 2 * hidden + 1,
        Model::Gru | Model::Dnn(_) => hidden,
        Model::Graph(_) | Model::Network(_) => 0,
    }
}

#[derive(Debug)]
pub struct Embedding {
    rows: Vec<f32>,
    width: usize,
}

impl Embedding {
    fn new(weights: &Weights, name: &str, width: usize) -> Embedding {
        Embedding { rows: weights.take(name), width }
    }

    fn row(&self, word: u32) -> &[f32] {
        &self.rows[word as usize * self.width..(word as usize + 1) * self.width]
    }
}

/// Packs tensors with the same outputs, `units` for each gate. Each is a name and the width of its input.
fn pack(weights: &Weights, gates: usize, units: usize, tensors: &[(&str, usize)]) -> Product {
    let taken: Vec<Vec<f32>> = tensors.iter().map(|(name, _)| weights.take(name)).collect();
    let blocks: Vec<Block<'_>> =
        taken.iter().zip(tensors).map(|(weights, (_, inputs))| Block { weights, inputs: *inputs }).collect();
    Product::pack(gates, units, &blocks)
}

fn gates<const N: usize>(row: &[f32], width: usize) -> [&[f32]; N] {
    std::array::from_fn(|gate| &row[gate * width..(gate + 1) * width])
}
