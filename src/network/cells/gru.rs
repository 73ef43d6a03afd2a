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
    /// \[x|h\] to the gates r and z.
    gates: Product,
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
        let part = |from: usize, to: usize| {
            let block = |weights, inputs| Block { weights, inputs };
            let input = block(&input[from * hidden * embedding..to * hidden * embedding], embedding);
            let recurrent = block(&recurrent[from * hidden * hidden..to * hidden * hidden], hidden);
            Product::pack((to - from) * hidden, &[input, recurrent])
        };
        Gru {
            embedding: Embedding::new(weights, "embedding.weight", embedding),
            gates: part(0, 2),
            candidate: part(2, 3),
            bias: weights.take("gru.bias"),
            hidden,
        }
    }
}

impl Cell for Gru {
    fn run(&self, batch: &Batch<'_>, out: &mut [f32], scratch: &mut Scratch) {
        let (hidden, inputs) = (self.hidden, self.gates.inputs());
        let embedding = self.embedding.width();
        let operand = first(&mut scratch.operand, batch.rows * inputs);
        for (row, operand) in operand.chunks_exact_mut(inputs).enumerate() {
            operand[..embedding].copy_from_slice(self.embedding.row(batch.token(row)));
            match batch.state(row, 0, hidden) {
                Some(state) => operand[embedding..].copy_from_slice(state),
                None => operand[embedding..].fill(0.0),
            }
        }
        let both = first(&mut scratch.product, batch.rows * 2 * hidden);
        self.gates.run(Rows { data: operand, stride: inputs, count: batch.rows }, both);

        let [bias_r, bias_z, bias_n] = gates(&self.bias, hidden);
        for (both, operand) in both.chunks_exact(2 * hidden).zip(operand.chunks_exact_mut(inputs)) {
            apply(Reset, [&both[..hidden], bias_r], [&mut operand[embedding..]]);
        }
        let candidate = first(&mut scratch.more, batch.rows * hidden);
        self.candidate.run(Rows { data: operand, stride: inputs, count: batch.rows }, candidate);

        for (row, out) in out.chunks_exact_mut(hidden).enumerate() {
            // The state that was there before stands in the output while the pass runs.
            match batch.state(row, 0, hidden) {
                Some(state) => out.copy_from_slice(state),
                None => out.fill(0.0),
            }
            let z = &both[(2 * row + 1) * hidden..(2 * row + 2) * hidden];
            let n = &candidate[row * hidden..(row + 1) * hidden];
            apply(Update, [z, bias_z, n, bias_n], [out]);
        }
    }
}

/// h becomes σ(r) h.
#[derive(Clone, Copy)]
struct Reset;

impl Formula<2, 1> for Reset {
    #[inline(always)]
    fn of<I: Isa>(self, isa: I, [r, bias]: [I::F32; 2], [h]: [I::F32; 1]) -> [I::F32; 1] {
        let ops = isa.f32();
        [gated(isa, ops.add(r, bias), h)]
    }
}

/// h becomes (1 - σ(z)) tanh(n) + σ(z) h, which is tanh(n) + σ(z) (h - tanh(n)).
#[derive(Clone, Copy)]
struct Update;

impl Formula<4, 1> for Update {
    #[inline(always)]
    fn of<I: Isa>(self, isa: I, [z, bias_z, n, bias_n]: [I::F32; 4], [h]: [I::F32; 1]) -> [I::F32; 1] {
        let ops = isa.f32();
        let n = tanh(isa, ops.add(n, bias_n));
        [ops.add(n, gated(isa, ops.add(z, bias_z), ops.sub(h, n)))]
    }
}
