//! The child-sum tree-LSTM (Tai, Socher and Manning, 2015), the cell of JIT dynamic batching's measurements: every node
//! has a word and any number of children. The state is \[h|c\].
//!
//! Forget gates need a row for each child, and only the word's part of them is common to all. So there are three products:
//! \[word|sum of the children\] to the gates i, o, u; the word to its part of the forget gates; and each child to its own.

use rten_simd::Isa;
use rten_simd::ops::NumOps;

use super::embedding::Embedding;
use super::{gates, pack, tree};
use crate::network::elementwise::{Formula, apply, gated, gated_tanh};
use crate::network::product::{Product, Rows};
use crate::network::weights::Weights;
use crate::network::{Batch, Cell, Scratch, Spec, first};

/// A node without children: nothing is left of the equations but those of a binary tree's leaf.
#[derive(Debug)]
pub struct Leaf(tree::Leaf);

impl Leaf {
    /// The cell with the weights `childsum.*`.
    pub(super) fn new(spec: &Spec, weights: &Weights) -> Leaf {
        Leaf(tree::Leaf::named(spec, weights, "childsum.weight_iou_x", "childsum.bias_iou"))
    }
}

impl Cell for Leaf {
    fn run(&self, batch: &Batch<'_>, out: &mut [f32], scratch: &mut Scratch) {
        self.0.run(batch, out, scratch);
    }
}

/// A node with children.
#[derive(Debug)]
pub struct Internal {
    embedding: Embedding,
    /// \[x|sum of the children's h\] to the gates i, o, u.
    gates: Product,
    gates_bias: Vec<f32>,
    /// x to its part of the forget gates.
    forget_word: Product,
    /// A child's h to its part of its forget gate.
    forget_child: Product,
    forget_bias: Vec<f32>,
    hidden: usize,
}

impl Internal {
    /// The cell with the weights `childsum.*`.
    pub(super) fn new(spec: &Spec, weights: &Weights) -> Internal {
        let (hidden, embedding) = (spec.hidden as usize, spec.embedding as usize);
        let gates = [("childsum.weight_iou_x", embedding), ("childsum.weight_iou_h", hidden)];
        Internal {
            embedding: Embedding::new(weights, "embedding.weight", embedding),
            gates: pack(weights, 3, hidden, &gates),
            gates_bias: weights.take("childsum.bias_iou"),
            forget_word: pack(weights, 1, hidden, &[("childsum.weight_f_x", embedding)]),
            forget_child: pack(weights, 1, hidden, &[("childsum.weight_f_h", hidden)]),
            forget_bias: weights.take("childsum.bias_f"),
            hidden,
        }
    }
}

impl Cell for Internal {
    fn run(&self, batch: &Batch<'_>, out: &mut [f32], scratch: &mut Scratch) {
        let (hidden, inputs, state) = (self.hidden, self.gates.inputs(), 2 * self.hidden);
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
        let operand = Rows { data: operand, stride: inputs, count: batch.rows };
        let children = Rows { data: batch.states, stride: state, count: batch.states.len() / state };

        // What the children's c leave comes first, and stands in the output.
        for (of_word, of_child) in self.forget_word.panels().iter().zip(self.forget_child.panels()) {
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
        for panel in self.gates.panels() {
            let (units, wide) = (panel.units(), panel.units().len());
            let product = panel.multiply(operand, &mut scratch.product);
            let [bias_i, bias_o, bias_u] = gates(&self.gates_bias, hidden).map(|bias| &bias[units.clone()]);
            for (product, out) in product.chunks_exact(3 * wide).zip(out.chunks_exact_mut(state)) {
                let [i, o, u] = gates(product, wide);
                let (h, c) = out.split_at_mut(hidden);
                let out = [&mut h[units.clone()], &mut c[units.clone()]];
                apply(Gates, [i, o, u, bias_i, bias_o, bias_u], out);
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
        [ops.add(c, gated(isa, ops.add(ops.add(x, h), bias), child))]
    }
}

/// c grows by σ(i) tanh(u), h = σ(o) tanh(c).
#[derive(Clone, Copy)]
struct Gates;

impl Formula<6, 2> for Gates {
    #[inline(always)]
    fn of<I: Isa>(self, isa: I, [i, o, u, bi, bo, bu]: [I::F32; 6], [_, kept]: [I::F32; 2]) -> [I::F32; 2] {
        let ops = isa.f32();
        let c = ops.add(kept, gated_tanh(isa, ops.add(i, bi), ops.add(u, bu)));
        [gated_tanh(isa, ops.add(o, bo), c), c]
    }
}
