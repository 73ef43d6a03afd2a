//! The built-in cells.

mod childsum;
mod dense;
pub mod gated;
mod gru;
pub mod seq2seq;

use std::sync::Arc;

use self::gated::{Gated, Lstm};
use super::product::{Block, PackedWeights};
use super::weights::Weights;
use super::{NetworkCell, Spec};
use crate::core::workload::model::Model;

/// The cells of a model, in the order of [`Model::cell_types`].
pub(super) fn build_cells(
    model: &Model,
    spec: &Spec,
    weights: &Weights,
) -> Vec<Arc<dyn NetworkCell>> {
    let width = state(model, spec);
    match model {
        Model::Lstm => vec![lstm(weights, "lstm", width)],
        Model::Gru => vec![Arc::new(gru::Gru::new(weights))],
        Model::Seq2Seq => vec![
            Arc::new(seq2seq::Decoder::new(weights, width)),
            lstm(weights, "encoder", width),
        ],
        Model::TreeLstm => {
            let leaf = Affine::new(weights, "leaf", 3, &["weight"], &["bias"]);
            vec![
                Arc::new(Gated::internal(weights, width)),
                Arc::new(Gated::leaf(weights, leaf, width)),
            ]
        }
        Model::ChildSumTreeLstm | Model::ChildSumByArity(_) => {
            // Cells for different numbers of children share one set of weights.
            let internal = Arc::new(childsum::ChildSum::new(weights));
            let leaf = Gated::leaf(weights, Arc::clone(&internal.gates_word), width);
            let mut cells: Vec<Arc<dyn NetworkCell>> = vec![internal; model.cell_types().len() - 1];
            cells.push(Arc::new(leaf));
            cells
        }
        // `Spec::check` refuses graphs and language models, and a listed network has operators in place of cells.
        Model::Graph(_) | Model::Network(_) | Model::Llm(_) => Vec::new(),
        Model::Dnn(_) => vec![Arc::new(dense::Dense::new(weights))],
    }
}

fn lstm(weights: &Weights, name: &'static str, width: usize) -> Arc<Lstm> {
    Arc::new(Lstm::lstm(weights, name, "embedding.weight", width))
}

/// The width of a state, in numbers: h, for an LSTM also c, and in a translation also the last word written.
pub fn state(model: &Model, spec: &Spec) -> usize {
    let hidden = spec.hidden as usize;
    match model {
        Model::Lstm | Model::TreeLstm | Model::ChildSumTreeLstm | Model::ChildSumByArity(_) => {
            2 * hidden
        }
        Model::Seq2Seq => 2 * hidden + 1,
        Model::Gru | Model::Dnn(_) => hidden,
        Model::Graph(_) | Model::Network(_) | Model::Llm(_) => 0,
    }
}

/// A table with an embedding for each word.
#[derive(Debug)]
pub struct Embedding {
    rows: Vec<f32>,
    width: usize,
}

impl Embedding {
    fn new(weights: &Weights, name: &str) -> Embedding {
        let (rows, width) = weights.matrix(name);
        Embedding { rows, width }
    }

    fn row(&self, word: u32) -> &[f32] {
        &self.rows[word as usize * self.width..(word as usize + 1) * self.width]
    }
}

/// A product and its bias.
#[derive(Debug)]
pub struct Affine {
    /// The name in the list of the cell's operators, which may give one name to two products, one below the other.
    pub name: &'static str,
    pub gates: usize,
    pub product: PackedWeights,
    /// The bias, or nothing if the product has none.
    pub bias: Vec<f32>,
}

impl Affine {
    /// Packs tensors with the same outputs side by side. The outputs are those of `gates` gates, one after another.
    /// Names of tensors begin with the first part of `name`.
    fn new(
        weights: &Weights,
        name: &'static str,
        gates: usize,
        tensors: &[&str],
        bias: &[&str],
    ) -> Arc<Affine> {
        let cell = name.split('.').next().unwrap_or(name);
        let tensors: Vec<_> = tensors
            .iter()
            .map(|tensor| weights.matrix(&format!("{cell}.{tensor}")))
            .collect();
        let blocks: Vec<_> = tensors
            .iter()
            .map(|(weights, inputs)| Block {
                weights,
                inputs: *inputs,
            })
            .collect();
        let units = tensors[0].0.len() / tensors[0].1 / gates;
        let bias = bias
            .iter()
            .flat_map(|tensor| weights.take(&format!("{cell}.{tensor}")))
            .collect();
        Arc::new(Affine {
            name,
            gates,
            product: PackedWeights::pack(gates, units, &blocks),
            bias,
        })
    }

    /// The number of units, which is the same for each gate.
    pub fn units(&self) -> usize {
        self.product
            .panels
            .last()
            .map_or(0, |panel| panel.units().end)
    }
}

/// The parts of a row that belong to the gates, each `width` numbers wide.
fn gates<const N: usize>(row: &[f32], width: usize) -> [&[f32]; N] {
    std::array::from_fn(|gate| &row[gate * width..(gate + 1) * width])
}
