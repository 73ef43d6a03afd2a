//! A feed-forward block, the stage of staged networks: y = x + W₂ relu(W₁ x + b₁) + b₂ for each token. The state is the
//! mean over the tokens.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Affine, Embedding};
use crate::devices::network::product::MatrixRows;
use crate::devices::network::weights::Weights;
use crate::devices::network::{BatchInputs, NetworkCell, Scratch, first};

/// The number of tokens that a product computes at once. More tokens would only take more memory.
const BLOCK: usize = 512;

#[derive(Debug)]
pub struct Dense {
    embedding: Embedding,
    first: Arc<Affine>,
    second: Arc<Affine>,
}

impl Dense {
    pub(super) fn new(weights: &Weights) -> Dense {
        Dense {
            embedding: Embedding::new(weights, "embedding.weight"),
            first: Affine::new(weights, "dense.first", 1, &["weight_1"], &["bias_1"]),
            second: Affine::new(weights, "dense.second", 1, &["weight_2"], &["bias_2"]),
        }
    }
}

impl NetworkCell for Dense {
    /// Computes the blocks. Padding is computed like words, and left out of the mean.
    fn run(&self, batch: &BatchInputs<'_>, out: &mut [f32], scratch: &mut Scratch) {
        let hidden = self.embedding.width;
        let inner = self.second.product.inputs;
        out.fill(0.0);
        let longest = (0..batch.rows)
            .map(|row| batch.tokens_of(row).len())
            .max()
            .unwrap_or(0);
        let padded = if batch.padded_to == 0 {
            None
        } else {
            Some(longest.max(batch.padded_to as usize))
        };
        let mut places = (0..batch.rows).flat_map(|row| {
            let own = batch.tokens_of(row);
            (0..padded.unwrap_or(own.len())).map(move |place| (row, own.clone().nth(place)))
        });
        loop {
            let block: SmallVec<[(usize, Option<usize>); BLOCK]> =
                places.by_ref().take(BLOCK).collect();
            let count = block.len();
            if count == 0 {
                break;
            }
            let x = first(&mut scratch.operand, count * hidden);
            for (x, (_, token)) in x.chunks_exact_mut(hidden).zip(&block) {
                match token {
                    Some(token) => x.copy_from_slice(self.embedding.row(batch.tokens[*token])),
                    None => x.fill(0.0),
                }
            }
            let wide = first(&mut scratch.more, count * inner);
            for panel in &self.first.product.panels {
                let units = panel.units();
                let bias = &self.first.bias[panel.units()];
                let y = panel.multiply(
                    MatrixRows {
                        data: x,
                        stride: hidden,
                        count,
                    },
                    &mut scratch.product,
                );
                for (y, wide) in y
                    .chunks_exact(units.len())
                    .zip(wide.chunks_exact_mut(inner))
                {
                    let sums = y.iter().zip(bias).map(|(y, bias)| relu(y + bias));
                    wide[units.clone()]
                        .iter_mut()
                        .zip(sums)
                        .for_each(|(wide, sum)| *wide = sum);
                }
            }
            for panel in &self.second.product.panels {
                let units = panel.units();
                let bias = &self.second.bias[panel.units()];
                let y = panel.multiply(
                    MatrixRows {
                        data: wide,
                        stride: inner,
                        count,
                    },
                    &mut scratch.product,
                );
                for ((row, token), (x, y)) in block
                    .iter()
                    .zip(x.chunks_exact(hidden).zip(y.chunks_exact(units.len())))
                {
                    if token.is_some() {
                        let sum = out[row * hidden..(row + 1) * hidden][units.clone()].iter_mut();
                        for (sum, ((x, y), bias)) in
                            sum.zip(x[units.clone()].iter().zip(y).zip(bias))
                        {
                            *sum += x + (y + bias);
                        }
                    }
                }
            }
        }
        for (row, out) in out.chunks_exact_mut(hidden).enumerate() {
            let count = batch.tokens_of(row).len().max(1) as f32;
            out.iter_mut().for_each(|sum| *sum /= count);
        }
    }
}

/// The positive part. NaN stays NaN.
fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}
