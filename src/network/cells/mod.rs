//! The cells, a file each.

pub mod childsum;
pub mod dense;
pub mod embedding;
pub mod gru;
pub mod lstm;
pub mod seq2seq;
pub mod tree;

use std::sync::Arc;

use super::product::{Block, Product};
use super::weights::Weights;
use super::{Cell, Spec};
use crate::workload::model::Model;

/// A model's cells, in the order of their types ([`Model::cell_types`]).
pub(super) fn of_model(model: &Model, spec: &Spec, weights: &Weights) -> Vec<Box<dyn Cell>> {
    match model {
        Model::Lstm => vec![Box::new(lstm::Lstm::new(spec, weights))],
        Model::Gru => vec![Box::new(gru::Gru::new(spec, weights))],
        Model::Seq2Seq => {
            vec![Box::new(seq2seq::Decoder::new(spec, weights)), Box::new(seq2seq::Encoder::new(spec, weights))]
        }
        Model::TreeLstm => vec![Box::new(tree::Internal::new(spec, weights)), Box::new(tree::Leaf::new(spec, weights))],
        Model::ChildSumTreeLstm => {
            vec![Box::new(childsum::Internal::new(spec, weights)), Box::new(childsum::Leaf::new(spec, weights))]
        }
        Model::ChildSumByArity(most) => {
            // One set of weights, whatever the number of children.
            let internal = Arc::new(childsum::Internal::new(spec, weights));
            let mut cells: Vec<Box<dyn Cell>> =
                (0..*most).map(|_| Box::new(Arc::clone(&internal)) as Box<dyn Cell>).collect();
            cells.push(Box::new(childsum::Leaf::new(spec, weights)));
            cells
        }
        // A description, for which `Spec::check` makes no network; a list, which has operators in place of cells.
        Model::Graph(_) | Model::Network(_) => Vec::new(),
        Model::Dnn(_) => vec![Box::new(dense::Dense::new(spec, weights))],
    }
}

/// The numbers in the state that every node of a model leaves behind: h and c of an LSTM, in a translation also the word
/// that was written last.
pub fn state(model: &Model, spec: &Spec) -> usize {
    let hidden = spec.hidden as usize;
    match model {
        Model::Lstm | Model::TreeLstm | Model::ChildSumTreeLstm | Model::ChildSumByArity(_) => 2 * hidden,
        Model::Seq2Seq => 2 * hidden + 1,
        Model::Gru | Model::Dnn(_) => hidden,
        Model::Graph(_) | Model::Network(_) => 0,
    }
}

/// Packs tensors of the same outputs, `units` for each of the gates, whose input widths are given, to one product.
fn pack(weights: &Weights, gates: usize, units: usize, tensors: &[(&str, usize)]) -> Product {
    let taken: Vec<Vec<f32>> = tensors.iter().map(|(name, _)| weights.take(name)).collect();
    let blocks: Vec<Block<'_>> =
        taken.iter().zip(tensors).map(|(weights, (_, inputs))| Block { weights, inputs: *inputs }).collect();
    Product::pack(gates, units, &blocks)
}

/// The parts of a row, each `width` numbers wide: its gates.
fn gates<const N: usize>(row: &[f32], width: usize) -> [&[f32]; N] {
    std::array::from_fn(|gate| &row[gate * width..(gate + 1) * width])
}
