//! Tree-LSTMs with the state \[h|c\].
//!
//! - Binary (BatchMaker, figure 2): leaves take a word, internal nodes two children, the lower index first; a missing
//!   one counts as zeros.
//! - Child-sum (Tai, Socher and Manning, 2015; JIT dynamic batching): every node has a word and any number of children.

use std::ops::Range;

use rten_simd::Isa;
use rten_simd::ops::NumOps;

use super::{Embedding, gates, pack, run_gates};
use crate::network::elementwise::{Formula, apply, gated, gated_tanh};
use crate::network::product::{Product, Rows};
use crate::network::weights::Weights;
use crate::network::{Batch, Cell, Scratch, first};

pub const CHILDREN: usize = 2;

/// A node without children, of either kind.
#[derive(Debug)]
pub struct Leaf {
    embedding: Embedding,
    /// x to the gates i, o, u.
    product: Product,
    bias: Vec<f32>,
}

impl Leaf {
    pub(super) fn new(weights: &Weights, weight: &str, bias: &str) -> Leaf {
        Leaf {
            embedding: Embedding::new(weights, "embedding.weight"),
            product: pack(weights, 3, &[weight]),
            bias: weights.take(bias),
        }
    }
}

impl Cell for Leaf {
    fn run(&self, batch: &Batch<'_>, out: &mut [f32], scratch: &mut Scratch) {
        let inputs = self.product.inputs;
        let operand = first(&mut scratch.operand, batch.rows * inputs);
        for (row, operand) in operand.chunks_exact_mut(inputs).enumerate() {
            operand.copy_from_slice(self.embedding.row(batch.token(row)));
        }
        let left = Rows { data: operand, stride: inputs, count: batch.rows };
        let width = 2 * self.bias.len() / 3;
        let run = |_, _, [i, o, u]: [&[f32]; 3], [bi, bo, bu]: [&[f32]; 3], out: [&mut [f32]; 2]| {
            apply(LeafGates, [i, o, u, bi, bo, bu], out);
        };
        run_gates((&self.product, &self.bias), left, (out, width), &mut scratch.product, run);
    }
}

#[derive(Debug)]
pub struct Internal {
    /// \[left h|right h\] to the gates i, o, u and the two forget gates.
    product: Product,
    bias: Vec<f32>,
    hidden: usize,
}

impl Internal {
    pub(super) fn new(weights: &Weights) -> Internal {
        let product = pack(weights, 5, &["internal.weight_left", "internal.weight_right"]);
        Internal { hidden: product.inputs / CHILDREN, product, bias: weights.take("internal.bias") }
    }
}

impl Cell for Internal {
    fn run(&self, batch: &Batch<'_>, out: &mut [f32], scratch: &mut Scratch) {
        let (hidden, state) = (self.hidden, 2 * self.hidden);
        let operand = first(&mut scratch.operand, batch.rows * CHILDREN * hidden);
        for (row, operand) in operand.chunks_exact_mut(CHILDREN * hidden).enumerate() {
            for (place, h) in operand.chunks_exact_mut(hidden).enumerate() {
                batch.copy_state(row, place, state, h);
            }
        }
        let children = Rows { data: operand, stride: CHILDREN * hidden, count: batch.rows };
        let zero = first(&mut scratch.more, hidden);
        zero.fill(0.0);

        let run = |row, units: Range<usize>, gates: [&[f32]; 5], bias: [&[f32]; 5], out: [&mut [f32]; 2]| {
            let c_of = |place| &batch.state(row, place, state).map_or(&*zero, |child| &child[hidden..])[units.clone()];
            let ([i, o, u, left, right], [bi, bo, bu, bl, br]) = (gates, bias);
            apply(InternalGates, [i, o, u, left, right, bi, bo, bu, bl, br, c_of(0), c_of(1)], out);
        };
        run_gates((&self.product, &self.bias), children, (out, state), &mut scratch.product, run);
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

/// A node with children in a child-sum tree. The word's part of the gates and that of the children are products of their
/// own, as in the [operators](crate::workload::operator) of the cell.
#[derive(Debug)]
pub struct ChildSum {
    embedding: Embedding,
    /// x to its part of the gates i, o, u.
    gates_word: Product,
    gates_children: Product,
    gates_bias: Vec<f32>,
    /// x to its part of the forget gates.
    forget_word: Product,
    forget_child: Product,
    forget_bias: Vec<f32>,
    hidden: usize,
}

impl ChildSum {
    pub(super) fn new(weights: &Weights) -> ChildSum {
        let forget_bias = weights.take("childsum.bias_f");
        ChildSum {
            embedding: Embedding::new(weights, "embedding.weight"),
            gates_word: pack(weights, 3, &["childsum.weight_iou_x"]),
            gates_children: pack(weights, 3, &["childsum.weight_iou_h"]),
            gates_bias: weights.take("childsum.bias_iou"),
            forget_word: pack(weights, 1, &["childsum.weight_f_x"]),
            forget_child: pack(weights, 1, &["childsum.weight_f_h"]),
            hidden: forget_bias.len(),
            forget_bias,
        }
    }
}

impl Cell for ChildSum {
    fn run(&self, batch: &Batch<'_>, out: &mut [f32], scratch: &mut Scratch) {
        let (hidden, state) = (self.hidden, 2 * self.hidden);
        let inputs = self.embedding.width + hidden;
        let operand = first(&mut scratch.operand, batch.rows * inputs);
        for (row, operand) in operand.chunks_exact_mut(inputs).enumerate() {
            let (word, sum) = operand.split_at_mut(inputs - hidden);
            word.copy_from_slice(self.embedding.row(batch.token(row)));
            sum.fill(0.0);
            for child in batch.states_of(row) {
                let h = &batch.states[child * state..child * state + hidden];
                sum.iter_mut().zip(h).for_each(|(sum, h)| *sum += h);
            }
        }
        let sums = Rows { data: operand.get(inputs - hidden..).unwrap_or_default(), stride: inputs, count: batch.rows };
        let operand = Rows { data: operand, stride: inputs, count: batch.rows };
        let children = Rows { data: batch.states, stride: state, count: batch.states.len() / state };

        for (of_word, of_child) in self.forget_word.panels.iter().zip(&self.forget_child.panels) {
            let (units, wide, bias) = (of_word.units(), of_word.units().len(), &self.forget_bias[of_word.units()]);
            let of_word = of_word.multiply(operand, &mut scratch.product);
            let of_child = of_child.multiply(children, &mut scratch.more);
            for (row, (of_word, out)) in of_word.chunks_exact(wide).zip(out.chunks_exact_mut(state)).enumerate() {
                let kept = &mut out[hidden..][units.clone()];
                kept.fill(0.0);
                for child in batch.states_of(row) {
                    let c = &batch.states[child * state + hidden..(child + 1) * state][units.clone()];
                    apply(Keep, [of_word, &of_child[child * wide..(child + 1) * wide], bias, c], [&mut *kept]);
                }
            }
        }
        for (of_word, of_children) in self.gates_word.panels.iter().zip(&self.gates_children.panels) {
            let (units, wide) = (of_word.units(), of_word.units().len());
            let of_word = of_word.multiply(operand, &mut scratch.product).chunks_exact(3 * wide);
            let of_children = of_children.multiply(sums, &mut scratch.more).chunks_exact(3 * wide);
            let [bias_i, bias_o, bias_u] = gates(&self.gates_bias, hidden).map(|bias| &bias[units.clone()]);
            for ((of_word, of_children), out) in of_word.zip(of_children).zip(out.chunks_exact_mut(state)) {
                let ([i, o, u], [ci, co, cu]) = (gates(of_word, wide), gates(of_children, wide));
                let (h, c) = out.split_at_mut(hidden);
                let out = [&mut h[units.clone()], &mut c[units.clone()]];
                apply(ChildSumGates, [i, o, u, bias_i, bias_o, bias_u, ci, co, cu], out);
            }
        }
    }
}

/// c grows by σ(f) c of a child.
#[derive(Clone, Copy)]
struct Keep;

impl Formula<4, 1> for Keep {
    #[inline(always)]
    fn of<I: Isa>(self, isa: I, [x, h, bias, child]: [I::F32; 4], [c]: [I::F32; 1]) -> [I::F32; 1] {
        let ops = isa.f32();
        [ops.add(c, gated(isa, ops.add(ops.add(x, bias), h), child))]
    }
}

/// c grows by σ(i) tanh(u), h = σ(o) tanh(c).
#[derive(Clone, Copy)]
struct ChildSumGates;

impl Formula<9, 2> for ChildSumGates {
    #[inline(always)]
    fn of<I: Isa>(self, isa: I, inputs: [I::F32; 9], [_, kept]: [I::F32; 2]) -> [I::F32; 2] {
        let ops = isa.f32();
        let [i, o, u, bi, bo, bu, ci, co, cu] = inputs;
        let [i, o, u] = [ops.add(ops.add(i, bi), ci), ops.add(ops.add(o, bo), co), ops.add(ops.add(u, bu), cu)];
        let c = ops.add(kept, gated_tanh(isa, i, u));
        [gated_tanh(isa, o, c), c]
    }
}
