//! Child-sum tree-LSTMs (Tai, Socher and Manning, 2015; JIT dynamic batching) with the state \[h|c\]: every node has a
//! word and any number of children.

use std::sync::Arc;

use rten_simd::Isa;
use rten_simd::ops::NumOps;

use super::{Affine, Embedding, gates};
use crate::devices::network::elementwise::{Formula, apply, gated_tanh, sigmoid_gate};
use crate::devices::network::product::MatrixRows;
use crate::devices::network::weights::Weights;
use crate::devices::network::{BatchInputs, NetworkCell, Scratch, first};

/// A node with children in a child-sum tree. The word's part of the gates and that of the children are products of
/// their own, as in the [operators](crate::core::workload::operator) of the cell.
#[derive(Debug)]
pub struct ChildSum {
    embedding: Embedding,
    /// The weights from x to its part of the gates i, o and u.
    pub gates_word: Arc<Affine>,
    gates_children: Arc<Affine>,
    /// The weights from x to its part of the forget gates.
    forget_word: Arc<Affine>,
    forget_child: Arc<Affine>,
}

impl ChildSum {
    pub(super) fn new(weights: &Weights) -> ChildSum {
        ChildSum {
            embedding: Embedding::new(weights, "embedding.weight"),
            gates_word: Affine::new(
                weights,
                "childsum.word",
                3,
                &["weight_iou_x"],
                &["bias_iou"],
            ),
            gates_children: Affine::new(weights, "childsum.iou", 3, &["weight_iou_h"], &[]),
            forget_word: Affine::new(weights, "childsum.word", 1, &["weight_f_x"], &["bias_f"]),
            forget_child: Affine::new(weights, "childsum.f", 1, &["weight_f_h"], &[]),
        }
    }
}

impl NetworkCell for ChildSum {
    fn run(&self, batch: &BatchInputs<'_>, out: &mut [f32], scratch: &mut Scratch) {
        let ChildSum {
            gates_word,
            gates_children,
            forget_word,
            forget_child,
            ..
        } = self;
        let hidden = forget_word.bias.len();
        let state = 2 * forget_word.bias.len();
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
        let sums = MatrixRows {
            data: operand.get(inputs - hidden..).unwrap_or_default(),
            stride: inputs,
            count: batch.rows,
        };
        let operand = MatrixRows {
            data: operand,
            stride: inputs,
            count: batch.rows,
        };
        let children = MatrixRows {
            data: batch.states,
            stride: state,
            count: batch.states.len() / state,
        };

        for (of_word, of_child) in forget_word
            .product
            .panels
            .iter()
            .zip(&forget_child.product.panels)
        {
            let units = of_word.units();
            let wide = of_word.units().len();
            let bias = &forget_word.bias[of_word.units()];
            let of_word = of_word.multiply(operand, &mut scratch.product);
            let of_child = of_child.multiply(children, &mut scratch.more);
            for (row, (of_word, out)) in of_word
                .chunks_exact(wide)
                .zip(out.chunks_exact_mut(state))
                .enumerate()
            {
                let kept = &mut out[hidden..][units.clone()];
                kept.fill(0.0);
                for child in batch.states_of(row) {
                    let c =
                        &batch.states[child * state + hidden..(child + 1) * state][units.clone()];
                    apply(
                        KeptPart,
                        [
                            of_word,
                            &of_child[child * wide..(child + 1) * wide],
                            bias,
                            c,
                        ],
                        [&mut *kept],
                    );
                }
            }
        }
        for (of_word, of_children) in gates_word
            .product
            .panels
            .iter()
            .zip(&gates_children.product.panels)
        {
            let units = of_word.units();
            let wide = of_word.units().len();
            let of_word = of_word
                .multiply(operand, &mut scratch.product)
                .chunks_exact(3 * wide);
            let of_children = of_children
                .multiply(sums, &mut scratch.more)
                .chunks_exact(3 * wide);
            let [bias_i, bias_o, bias_u] =
                gates(&gates_word.bias, hidden).map(|bias| &bias[units.clone()]);
            for ((of_word, of_children), out) in
                of_word.zip(of_children).zip(out.chunks_exact_mut(state))
            {
                let [i, o, u] = gates(of_word, wide);
                let [ci, co, cu] = gates(of_children, wide);
                let (h, c) = out.split_at_mut(hidden);
                let out = [&mut h[units.clone()], &mut c[units.clone()]];
                apply(
                    ChildSumGates,
                    [i, o, u, bias_i, bias_o, bias_u, ci, co, cu],
                    out,
                );
            }
        }
    }

    fn affines(&self) -> Vec<&Arc<Affine>> {
        vec![
            &self.gates_word,
            &self.forget_word,
            &self.gates_children,
            &self.forget_child,
        ]
    }
}

/// The part of a child's c that a node keeps: its own c grows by σ(f) c of the child.
struct KeptPart;

impl Formula<4, 1> for KeptPart {
    #[inline(always)]
    fn apply<I: Isa>(
        &self,
        isa: I,
        [x, h, bias, child]: [I::F32; 4],
        [c]: [I::F32; 1],
    ) -> [I::F32; 1] {
        let ops = isa.f32();
        [ops.add(c, sigmoid_gate(isa, ops.add(ops.add(x, bias), h), child))]
    }
}

/// The gates of a child-sum node: c grows by σ(i) tanh(u), and h = σ(o) tanh(c).
struct ChildSumGates;

impl Formula<9, 2> for ChildSumGates {
    #[inline(always)]
    fn apply<I: Isa>(&self, isa: I, inputs: [I::F32; 9], [_, kept]: [I::F32; 2]) -> [I::F32; 2] {
        let ops = isa.f32();
        let [i, o, u, bi, bo, bu, ci, co, cu] = inputs;
        let [i, o, u] = [
            ops.add(ops.add(i, bi), ci),
            ops.add(ops.add(o, bo), co),
            ops.add(ops.add(u, bu), cu),
        ];
        let c = ops.add(kept, gated_tanh(isa, i, u));
        [gated_tanh(isa, o, c), c]
    }
}
