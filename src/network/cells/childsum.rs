//! The child-sum tree-LSTM (Tai, Socher and Manning, 2015), the cell of JIT dynamic batching's measurements: every node
//! has a word and any number of children. The state is \[h|c\].
//!
//! The word's part of all four gates is one product, the part of the children's sum a second, and the forget gates a
//! third with a row for each child, so that nothing is multiplied twice and no zeros are.

use rten_simd::Isa;
use rten_simd::ops::NumOps;

use super::embedding::Embedding;
use super::{gates, pack, tree};
use crate::network::elementwise::{Formula, apply, gated, gated_tanh};
use crate::network::product::{Block, Product, Rows};
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
    /// x to its part of the gates i, o, u, f.
    word: Product,
    /// The sum of the children's h to its part of i, o, u.
    sum: Product,
    /// A child's h to its part of its forget gate.
    forget: Product,
    /// Of i, o, u, f.
    bias: Vec<f32>,
    hidden: usize,
}

impl Internal {
    /// The cell with the weights `childsum.*`.
    pub(super) fn new(spec: &Spec, weights: &Weights) -> Internal {
        let (hidden, embedding) = (spec.hidden as usize, spec.embedding as usize);
        let joined = |first: &str, second: &str| [weights.take(first), weights.take(second)].concat();
        let word = joined("childsum.weight_iou_x", "childsum.weight_f_x");
        Internal {
            embedding: Embedding::new(weights, "embedding.weight", embedding),
            word: Product::pack(4 * hidden, &[Block { weights: &word, inputs: embedding }]),
            sum: pack(weights, 3 * hidden, &[("childsum.weight_iou_h", hidden)]),
            forget: pack(weights, hidden, &[("childsum.weight_f_h", hidden)]),
            bias: joined("childsum.bias_iou", "childsum.bias_f"),
            hidden,
        }
    }
}

impl Cell for Internal {
    fn run(&self, batch: &Batch<'_>, out: &mut [f32], scratch: &mut Scratch) {
        let (hidden, inputs, state) = (self.hidden, self.word.inputs(), 2 * self.hidden);
        let children = batch.states.len() / state;
        let (words, sums) =
            first(&mut scratch.operand, batch.rows * (inputs + hidden)).split_at_mut(batch.rows * inputs);
        for (row, (word, sum)) in words.chunks_exact_mut(inputs).zip(sums.chunks_exact_mut(hidden)).enumerate() {
            word.copy_from_slice(self.embedding.row(batch.token(row)));
            sum.fill(0.0);
            for child in batch.states_of(row) {
                let h = &batch.states[child * state..child * state + hidden];
                sum.iter_mut().zip(h).for_each(|(sum, h)| *sum += h);
            }
        }
        let (of_word, of_sum) =
            first(&mut scratch.product, batch.rows * 7 * hidden).split_at_mut(batch.rows * 4 * hidden);
        let of_child = first(&mut scratch.more, children * hidden);
        self.word.run(Rows { data: words, stride: inputs, count: batch.rows }, of_word);
        self.sum.run(Rows { data: sums, stride: hidden, count: batch.rows }, of_sum);
        self.forget.run(Rows { data: batch.states, stride: state, count: children }, of_child);

        let bias = gates::<4>(&self.bias, hidden);
        for (row, out) in out.chunks_exact_mut(state).enumerate() {
            let [xi, xo, xu, xf] = gates(&of_word[row * 4 * hidden..], hidden);
            let [hi, ho, hu] = gates(&of_sum[row * 3 * hidden..], hidden);
            let (h, c) = out.split_at_mut(hidden);
            c.fill(0.0);
            for child in batch.states_of(row) {
                let f = &of_child[child * hidden..(child + 1) * hidden];
                let c_of_child = &batch.states[child * state + hidden..(child + 1) * state];
                apply(Keep, [xf, f, bias[3], c_of_child], [&mut *c]);
            }
            apply(Gates, [xi, xo, xu, hi, ho, hu, bias[0], bias[1], bias[2]], [h, c]);
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

impl Formula<9, 2> for Gates {
    #[inline(always)]
    fn of<I: Isa>(self, isa: I, inputs: [I::F32; 9], [_, kept]: [I::F32; 2]) -> [I::F32; 2] {
        let ops = isa.f32();
        let [xi, xo, xu, hi, ho, hu, bi, bo, bu] = inputs;
        let (i, u) = (ops.add(ops.add(xi, hi), bi), ops.add(ops.add(xu, hu), bu));
        let c = ops.add(kept, gated_tanh(isa, i, u));
        [gated_tanh(isa, ops.add(ops.add(xo, ho), bo), c), c]
    }
}
