//! The binary tree-LSTM (BatchMaker, figure 2): leaves take a word, internal nodes take their two children. The state is
//! \[h|c\]. The first child is that of the lower index; one that is missing counts as zeros.

use rten_simd::Isa;
use rten_simd::ops::NumOps;

use super::embedding::Embedding;
use super::{gates, pack};
use crate::network::elementwise::{Formula, apply, gated, gated_tanh};
use crate::network::product::{Product, Rows};
use crate::network::weights::Weights;
use crate::network::{Batch, Cell, Scratch, Spec, first};

/// The most children that an internal node has weights for.
pub const CHILDREN: usize = 2;

/// A node without children.
#[derive(Debug)]
pub struct Leaf {
    embedding: Embedding,
    /// x to the gates i, o, u.
    product: Product,
    bias: Vec<f32>,
    hidden: usize,
}

impl Leaf {
    /// The cell with the weights `leaf.*`.
    pub(super) fn new(spec: &Spec, weights: &Weights) -> Leaf {
        Leaf::named(spec, weights, "leaf.weight", "leaf.bias")
    }

    /// The cell with weights of these names.
    pub(super) fn named(spec: &Spec, weights: &Weights, weight: &str, bias: &str) -> Leaf {
        let (hidden, embedding) = (spec.hidden as usize, spec.embedding as usize);
        Leaf {
            embedding: Embedding::new(weights, "embedding.weight", embedding),
            product: pack(weights, 3, hidden, &[(weight, embedding)]),
            bias: weights.take(bias),
            hidden,
        }
    }
}

impl Cell for Leaf {
    fn run(&self, batch: &Batch<'_>, out: &mut [f32], scratch: &mut Scratch) {
        let (hidden, inputs) = (self.hidden, self.product.inputs());
        let operand = first(&mut scratch.operand, batch.rows * inputs);
        for (row, operand) in operand.chunks_exact_mut(inputs).enumerate() {
            operand.copy_from_slice(self.embedding.row(batch.token(row)));
        }
        let left = Rows { data: operand, stride: inputs, count: batch.rows };

        for panel in self.product.panels() {
            let (units, wide) = (panel.units(), panel.units().len());
            let product = panel.multiply(left, &mut scratch.product);
            let [bias_i, bias_o, bias_u] = gates(&self.bias, hidden).map(|bias| &bias[units.clone()]);
            for (product, out) in product.chunks_exact(3 * wide).zip(out.chunks_exact_mut(2 * hidden)) {
                let [i, o, u] = gates(product, wide);
                let (h, c) = out.split_at_mut(hidden);
                let out = [&mut h[units.clone()], &mut c[units.clone()]];
                apply(LeafGates, [i, o, u, bias_i, bias_o, bias_u], out);
            }
        }
    }
}

/// A node with children.
#[derive(Debug)]
pub struct Internal {
    /// \[h of the left|h of the right\] to the gates i, o, u and the forget gates of the left and the right.
    product: Product,
    bias: Vec<f32>,
    hidden: usize,
}

impl Internal {
    /// The cell with the weights `internal.*`.
    pub(super) fn new(spec: &Spec, weights: &Weights) -> Internal {
        let hidden = spec.hidden as usize;
        let children = [("internal.weight_left", hidden), ("internal.weight_right", hidden)];
        Internal { product: pack(weights, 5, hidden, &children), bias: weights.take("internal.bias"), hidden }
    }
}

impl Cell for Internal {
    fn run(&self, batch: &Batch<'_>, out: &mut [f32], scratch: &mut Scratch) {
        let (hidden, state) = (self.hidden, 2 * self.hidden);
        let operand = first(&mut scratch.operand, batch.rows * CHILDREN * hidden);
        for (row, operand) in operand.chunks_exact_mut(CHILDREN * hidden).enumerate() {
            for (place, h) in operand.chunks_exact_mut(hidden).enumerate() {
                match batch.state(row, place, state) {
                    Some(child) => h.copy_from_slice(&child[..hidden]),
                    None => h.fill(0.0),
                }
            }
        }
        let children = Rows { data: operand, stride: CHILDREN * hidden, count: batch.rows };
        let zero = first(&mut scratch.more, hidden);
        zero.fill(0.0);

        for panel in self.product.panels() {
            let (units, wide) = (panel.units(), panel.units().len());
            let product = panel.multiply(children, &mut scratch.product);
            let bias = gates::<5>(&self.bias, hidden).map(|bias| &bias[units.clone()]);
            for (row, (product, out)) in product.chunks_exact(5 * wide).zip(out.chunks_exact_mut(state)).enumerate() {
                let [i, o, u, left, right] = gates(product, wide);
                let c_of =
                    |place| &batch.state(row, place, state).map_or(&*zero, |child| &child[hidden..])[units.clone()];
                let (h, c) = out.split_at_mut(hidden);
                let out = [&mut h[units.clone()], &mut c[units.clone()]];
                let inputs = [i, o, u, left, right, bias[0], bias[1], bias[2], bias[3], bias[4], c_of(0), c_of(1)];
                apply(InternalGates, inputs, out);
            }
        }
    }
}

/// c = σ(i) tanh(u), h = σ(o) tanh(c).
#[derive(Clone, Copy)]
struct LeafGates;

impl Formula<6, 2> for LeafGates {
    #[inline(always)]
    fn of<I: Isa>(self, isa: I, [i, o, u, bi, bo, bu]: [I::F32; 6], _: [I::F32; 2]) -> [I::F32; 2] {
        let ops = isa.f32();
        let c = gated_tanh(isa, ops.add(i, bi), ops.add(u, bu));
        [gated_tanh(isa, ops.add(o, bo), c), c]
    }
}

/// c = σ(i) tanh(u) + σ(f of the left) c of the left + σ(f of the right) c of the right, h = σ(o) tanh(c).
#[derive(Clone, Copy)]
struct InternalGates;

impl Formula<12, 2> for InternalGates {
    #[inline(always)]
    fn of<I: Isa>(self, isa: I, inputs: [I::F32; 12], _: [I::F32; 2]) -> [I::F32; 2] {
        let ops = isa.f32();
        let [i, o, u, left, right, bi, bo, bu, bl, br, c_left, c_right] = inputs;
        let c = gated_tanh(isa, ops.add(i, bi), ops.add(u, bu));
        let c = ops.add(c, gated(isa, ops.add(left, bl), c_left));
        let c = ops.add(c, gated(isa, ops.add(right, br), c_right));
        [gated_tanh(isa, ops.add(o, bo), c), c]
    }
}
