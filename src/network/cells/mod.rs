mod chain;
mod dense;
pub mod seq2seq;
pub mod tree;

use std::ops::Range;
use std::sync::Arc;

use super::product::{Block, Product, Rows};
use super::weights::Weights;
use super::{Cell, Spec};
use crate::workload::model::Model;

/// In the order of [`Model::cell_types`].
pub(super) fn of_model(model: &Model, spec: &Spec, weights: &Weights) -> Vec<Arc<dyn Cell>> {
    let lstm = |name| Arc::new(chain::Lstm::new(weights, name, "embedding.weight", state(model, spec)));
    match model {
        Model::Lstm => vec![lstm("lstm")],
        Model::Gru => vec![Arc::new(chain::Gru::new(weights))],
        Model::Seq2Seq => vec![Arc::new(seq2seq::Decoder::new(weights, state(model, spec))), lstm("encoder")],
        Model::TreeLstm => {
            let leaf = tree::Leaf::new(weights, "leaf.weight", "leaf.bias");
            vec![Arc::new(tree::Internal::new(weights)), Arc::new(leaf)]
        }
        Model::ChildSumTreeLstm | Model::ChildSumByArity(_) => {
            // Cells for different numbers of children share one set of weights.
            let internal: Arc<dyn Cell> = Arc::new(tree::ChildSum::new(weights));
            let mut cells = vec![internal; model.cell_types().len() - 1];
            cells.push(Arc::new(tree::Leaf::new(weights, "childsum.weight_iou_x", "childsum.bias_iou")));
            cells
        }
        // `Spec::check` refuses the outer two, and the other has operators in place of cells.
        Model::Graph(_) | Model::Network(_) | Model::Llm(_) => Vec::new(),
        Model::Dnn(_) => vec![Arc::new(dense::Dense::new(weights))],
    }
}

/// h and c of an LSTM; in a translation also the last word written.
pub fn state(model: &Model, spec: &Spec) -> usize {
    let hidden = spec.hidden as usize;
    match model {
        Model::Lstm | Model::TreeLstm | Model::ChildSumTreeLstm | Model::ChildSumByArity(_) => 2 * hidden,
        Model::Seq2Seq => 2 * hidden + 1,
        Model::Gru | Model::Dnn(_) => hidden,
        Model::Graph(_) | Model::Network(_) | Model::Llm(_) => 0,
    }
}

#[derive(Debug)]
pub struct Embedding {
    rows: Vec<f32>,
    width: usize,
}

impl Embedding {
    fn new(weights: &Weights, name: &str) -> Embedding {
        let (rows, width) = weights.matrix(&[name]);
        Embedding { rows, width }
    }

    fn row(&self, word: u32) -> &[f32] {
        &self.rows[word as usize * self.width..(word as usize + 1) * self.width]
    }
}

/// Packs tensors with the same outputs side by side: those of `gates` gates, one after another.
fn pack(weights: &Weights, gates: usize, tensors: &[&str]) -> Product {
    pack_blocks(gates, &tensors.iter().map(|name| weights.matrix(&[name])).collect::<Vec<_>>())
}

/// Each block is a matrix and the width of its rows.
pub(super) fn pack_blocks(gates: usize, blocks: &[(Vec<f32>, usize)]) -> Product {
    let outputs = blocks[0].0.len() / blocks[0].1;
    let blocks: Vec<Block<'_>> = blocks.iter().map(|(weights, inputs)| Block { weights, inputs: *inputs }).collect();
    Product::pack(gates, outputs / gates, &blocks)
}

/// Multiplies rows with the matrix of an LSTM's `N` gates. For each row and some of its units, `run` gets the products,
/// their biases, and the places of h and c in the row's new state, which is `width` numbers wide.
fn run_gates<const N: usize>(
    (product, bias): (&Product, &[f32]),
    left: Rows<'_>,
    (out, width): (&mut [f32], usize),
    memory: &mut Vec<f32>,
    mut run: impl FnMut(usize, Range<usize>, [&[f32]; N], [&[f32]; N], [&mut [f32]; 2]),
) {
    let hidden = bias.len() / N;
    for panel in &product.panels {
        let (units, wide) = (panel.units(), panel.units().len());
        let sums = panel.multiply(left, memory).chunks_exact(N * wide);
        let bias = gates(bias, hidden).map(|bias| &bias[units.clone()]);
        for (row, (sums, out)) in sums.zip(out.chunks_exact_mut(width)).enumerate() {
            let (h, rest) = out.split_at_mut(hidden);
            run(row, units.clone(), gates(sums, wide), bias, [&mut h[units.clone()], &mut rest[units.clone()]]);
        }
    }
}

fn gates<const N: usize>(row: &[f32], width: usize) -> [&[f32]; N] {
    std::array::from_fn(|gate| &row[gate * width..(gate + 1) * width])
}
