//! The canonical GRU cell (GRNN, figure 6): the reset gate stands before the recurrent product, so that there are two
//! products, one behind the other.

use rten_simd::Isa;
use rten_simd::ops::NumOps;

use super::embedding::Embedding;
use super::gates;
use crate::network::elementwise::{Formula, apply, gated, tanh};
use crate::network::product::{Block, Product, Rows};
use crate::network::weights::Weights;
use crate::network::{Batch, Cell, Scratch, Spec, first};

/// The cell of a chain: the state is h.
#[derive(Debug)]
pub struct Gru {
    embedding: Embedding,
    /// \[h|x\] to the reset gate r.
    reset: Product,
    /// \[h|x\] to the update gate z.
    update: Product,
    /// \[x|r∘h\] to the new value n.
    candidate: Product,
    /// Of r, z and n.
    bias: Vec<f32>,
    hidden: usize,
}

impl Gru {
    /// The cell with the weights `gru.*`.
    pub(super) fn new(spec: &Spec, weights: &Weights) -> Gru {
        let (hidden, embedding) = (spec.hidden as usize, spec.embedding as usize);
        let (input, recurrent) = (weights.take("gru.weight_ih"), weights.take("gru.weight_hh"));
        let x = |gate: usize| Block {
            weights: &input[gate * hidden * embedding..(gate + 1) * hidden * embedding],
            inputs: embedding,
        };
        let h = |gate: usize| Block {
            weights: &recurrent[gate * hidden * hidden..(gate + 1) * hidden * hidden],
            inputs: hidden,
        };
        Gru {
            embedding: Embedding::new(weights, "embedding.weight", embedding),
            reset: Product::pack(1, hidden, &[h(0), x(0)]),
            update: Product::pack(1, hidden, &[h(1), x(1)]),
            candidate: Product::pack(1, hidden, &[x(2), h(2)]),
            bias: weights.take("gru.bias"),
            hidden,
        }
    }
}

impl Cell for Gru {
    fn run(&self, batch: &Batch<'_>, out: &mut [f32], scratch: &mut Scratch) {
        let (hidden, inputs) = (self.hidden, self.reset.inputs());
        let [bias_r, bias_z, bias_n] = gates(&self.bias, hidden);
        // A row of the operand is [h|x|r∘h], which holds both operands of the products.
        let stride = inputs + hidden;
        let operand = first(&mut scratch.operand, batch.rows * stride);
        for (row, operand) in operand.chunks_exact_mut(stride).enumerate() {
            match batch.state(row, 0, hidden) {
                Some(state) => operand[..hidden].copy_from_slice(state),
                None => operand[..hidden].fill(0.0),
            }
            operand[hidden..inputs].copy_from_slice(self.embedding.row(batch.token(row)));
        }

        for panel in self.reset.panels() {
            let units = panel.units();
            let r = panel.multiply(Rows { data: operand, stride, count: batch.rows }, &mut scratch.product);
            for (r, operand) in r.chunks_exact(units.len()).zip(operand.chunks_exact_mut(stride)) {
                let (operand, reset) = operand.split_at_mut(inputs);
                apply(Reset, [r, &bias_r[units.clone()], &operand[units.clone()]], [&mut reset[units.clone()]]);
            }
        }

        for (update, candidate) in self.update.panels().iter().zip(self.candidate.panels()) {
            let units = update.units();
            let z = update.multiply(Rows { data: operand, stride, count: batch.rows }, &mut scratch.product);
            let reset = operand.get(hidden..).unwrap_or_default();
            let n = candidate.multiply(Rows { data: reset, stride, count: batch.rows }, &mut scratch.more);
            let (z, n) = (z.chunks_exact(units.len()), n.chunks_exact(units.len()));
            let rows = operand.chunks_exact(stride).zip(out.chunks_exact_mut(hidden));
            for ((z, n), (operand, out)) in z.zip(n).zip(rows) {
                let h = &operand[units.clone()];
                let inputs = [z, &bias_z[units.clone()], n, &bias_n[units.clone()], h];
                apply(Update, inputs, [&mut out[units.clone()]]);
            }
        }
    }
}

/// σ(r) h.
#[derive(Clone, Copy)]
struct Reset;

impl Formula<3, 1> for Reset {
    #[inline(always)]
    fn of<I: Isa>(self, isa: I, [r, bias, h]: [I::F32; 3], _: [I::F32; 1]) -> [I::F32; 1] {
        [gated(isa, isa.f32().add(r, bias), h)]
    }
}

/// (1 - σ(z)) tanh(n) + σ(z) h, which is tanh(n) + σ(z) (h - tanh(n)).
#[derive(Clone, Copy)]
struct Update;

impl Formula<5, 1> for Update {
    #[inline(always)]
    fn of<I: Isa>(self, isa: I, [z, bias_z, n, bias_n, h]: [I::F32; 5], _: [I::F32; 1]) -> [I::F32; 1] {
        let ops = isa.f32();
        let n = tanh(isa, ops.add(n, bias_n));
        [ops.add(n, gated(isa, ops.add(z, bias_z), ops.sub(h, n)))]
    }
}
