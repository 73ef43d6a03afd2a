use rten_simd::Isa;
use rten_simd::ops::NumOps;

use super::{Embedding, gates};
use crate::devices::network::elementwise::{Formula, apply, sigmoid_gate, tanh};
use crate::devices::network::product::{Block, MatrixRows, PackedWeights};
use crate::devices::network::weights::Weights;
use crate::devices::network::{BatchInputs, NetworkCell, Scratch, first};

/// The canonical GRU (GRNN, figure 6): the reset gate comes before the recurrent product.
#[derive(Debug)]
pub struct Gru {
    embedding: Embedding,
    /// The weights from `[h|x]` to the reset gate r.
    reset: PackedWeights,
    /// The weights from `[h|x]` to the update gate z.
    update: PackedWeights,
    /// The weights from `[x|r∘h]` to the new value n.
    candidate: PackedWeights,
    /// The biases of r, z and n.
    bias: Vec<f32>,
    hidden: usize,
}

impl Gru {
    pub(super) fn new(weights: &Weights) -> Gru {
        let tensors = ["gru.weight_ih", "gru.weight_hh"].map(|name| weights.matrix(name));
        let hidden = tensors[1].1;
        let [input, recurrent] = &tensors;
        Gru {
            embedding: Embedding::new(weights, "embedding.weight"),
            reset: PackedWeights::pack(
                1,
                hidden,
                &[gate_block(0, recurrent), gate_block(0, input)],
            ),
            update: PackedWeights::pack(
                1,
                hidden,
                &[gate_block(1, recurrent), gate_block(1, input)],
            ),
            candidate: PackedWeights::pack(
                1,
                hidden,
                &[gate_block(2, input), gate_block(2, recurrent)],
            ),
            bias: weights.take("gru.bias"),
            hidden,
        }
    }
}

/// The rows of one of the three gates in a matrix of all gates.
fn gate_block(gate: usize, (weights, inputs): &(Vec<f32>, usize)) -> Block<'_> {
    let size = weights.len() / 3;
    Block {
        weights: &weights[gate * size..][..size],
        inputs: *inputs,
    }
}

impl NetworkCell for Gru {
    fn run(&self, batch: &BatchInputs<'_>, out: &mut [f32], scratch: &mut Scratch) {
        let hidden = self.hidden;
        let inputs = self.reset.inputs;
        let [bias_r, bias_z, bias_n] = gates(&self.bias, hidden);
        // [h|x|r∘h] holds both operands of the products.
        let stride = inputs + hidden;
        let operand = first(&mut scratch.operand, batch.rows * stride);
        for (row, operand) in operand.chunks_exact_mut(stride).enumerate() {
            batch.copy_state(row, 0, hidden, &mut operand[..hidden]);
            operand[hidden..inputs].copy_from_slice(self.embedding.row(batch.token(row)));
        }

        for panel in &self.reset.panels {
            let units = panel.units();
            let r = panel.multiply(
                MatrixRows {
                    data: operand,
                    stride,
                    count: batch.rows,
                },
                &mut scratch.product,
            );
            for (r, operand) in r
                .chunks_exact(units.len())
                .zip(operand.chunks_exact_mut(stride))
            {
                let (operand, reset) = operand.split_at_mut(inputs);
                apply(
                    GruReset,
                    [r, &bias_r[units.clone()], &operand[units.clone()]],
                    [&mut reset[units.clone()]],
                );
            }
        }

        for (update, candidate) in self.update.panels.iter().zip(&self.candidate.panels) {
            let units = update.units();
            let z = update.multiply(
                MatrixRows {
                    data: operand,
                    stride,
                    count: batch.rows,
                },
                &mut scratch.product,
            );
            let reset = operand.get(hidden..).unwrap_or_default();
            let n = candidate.multiply(
                MatrixRows {
                    data: reset,
                    stride,
                    count: batch.rows,
                },
                &mut scratch.more,
            );
            let z = z.chunks_exact(units.len());
            let n = n.chunks_exact(units.len());
            let rows = operand
                .chunks_exact(stride)
                .zip(out.chunks_exact_mut(hidden));
            for ((z, n), (operand, out)) in z.zip(n).zip(rows) {
                let h = &operand[units.clone()];
                let inputs = [z, &bias_z[units.clone()], n, &bias_n[units.clone()], h];
                apply(GruUpdate, inputs, [&mut out[units.clone()]]);
            }
        }
    }
}

/// σ(r) h.
struct GruReset;

impl Formula<3, 1> for GruReset {
    #[inline(always)]
    fn apply<I: Isa>(&self, isa: I, [r, bias, h]: [I::F32; 3], _: [I::F32; 1]) -> [I::F32; 1] {
        [sigmoid_gate(isa, isa.f32().add(r, bias), h)]
    }
}

/// (1 - σ(z)) tanh(n) + σ(z) h, which is tanh(n) + σ(z) (h - tanh(n)).
struct GruUpdate;

impl Formula<5, 1> for GruUpdate {
    #[inline(always)]
    fn apply<I: Isa>(
        &self,
        isa: I,
        [z, bias_z, n, bias_n, h]: [I::F32; 5],
        _: [I::F32; 1],
    ) -> [I::F32; 1] {
        let ops = isa.f32();
        let n = tanh(isa, ops.add(n, bias_n));
        [ops.add(n, sigmoid_gate(isa, ops.add(z, bias_z), ops.sub(h, n)))]
    }
}
