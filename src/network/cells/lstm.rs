//! The LSTM cell: all four gates in one product of the row \[x|h\].

use rten_simd::Isa;
use rten_simd::ops::NumOps;

use super::embedding::Embedding;
use super::{gates, pack};
use crate::network::elementwise::{Formula, apply, gated, gated_tanh};
use crate::network::product::{Product, Rows};
use crate::network::weights::Weights;
use crate::network::{Batch, Cell, Scratch, Spec, first};

/// The cell of a chain: the state is \[h|c\].
#[derive(Debug)]
pub struct Lstm {
    embedding: Embedding,
    layer: Layer,
}

impl Lstm {
    /// The cell with the weights `lstm.*`.
    pub(super) fn new(spec: &Spec, weights: &Weights) -> Lstm {
        Lstm {
            embedding: Embedding::new(weights, "embedding.weight", spec.embedding as usize),
            layer: Layer::new(spec, weights, "lstm"),
        }
    }
}

impl Cell for Lstm {
    fn run(&self, batch: &Batch<'_>, out: &mut [f32], scratch: &mut Scratch) {
        let width = 2 * self.layer.hidden;
        self.layer.run(batch, width, |row| self.embedding.row(batch.token(row)), out, scratch);
    }
}

/// The step that the chain's cell, the encoder and the decoder share.
#[derive(Debug)]
pub(super) struct Layer {
    /// \[x|h\] to the gates i, f, g, o.
    product: Product,
    bias: Vec<f32>,
    pub(super) hidden: usize,
}

impl Layer {
    /// The weights whose names begin with `name`.
    pub(super) fn new(spec: &Spec, weights: &Weights, name: &str) -> Layer {
        let (hidden, embedding) = (spec.hidden as usize, spec.embedding as usize);
        let (input, recurrent) = (format!("{name}.weight_ih"), format!("{name}.weight_hh"));
        Layer {
            product: pack(weights, 4, hidden, &[(&input, embedding), (&recurrent, hidden)]),
            bias: weights.take(&format!("{name}.bias")),
            hidden,
        }
    }

    /// A step of each row: `x` gives a row's input vector. States are `width` numbers wide and begin with \[h|c\]; what
    /// stands behind that is left alone.
    pub(super) fn run<'a>(
        &self,
        batch: &Batch<'_>,
        width: usize,
        x: impl Fn(usize) -> &'a [f32],
        out: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let (hidden, inputs) = (self.hidden, self.product.inputs());
        let operand = first(&mut scratch.operand, batch.rows * inputs);
        for (row, operand) in operand.chunks_exact_mut(inputs).enumerate() {
            let (embedded, recurrent) = operand.split_at_mut(inputs - hidden);
            embedded.copy_from_slice(x(row));
            match batch.state(row, 0, width) {
                Some(state) => recurrent.copy_from_slice(&state[..hidden]),
                None => recurrent.fill(0.0),
            }
        }
        let left = Rows { data: operand, stride: inputs, count: batch.rows };
        let zero = first(&mut scratch.more, hidden);
        zero.fill(0.0);

        for panel in self.product.panels() {
            let (units, wide) = (panel.units(), panel.units().len());
            let product = panel.multiply(left, &mut scratch.product);
            let bias = gates::<4>(&self.bias, hidden).map(|bias| &bias[units.clone()]);
            for (row, (product, out)) in product.chunks_exact(4 * wide).zip(out.chunks_exact_mut(width)).enumerate() {
                let [i, f, g, o] = gates(product, wide);
                let c = &batch.state(row, 0, width).map_or(&*zero, |state| &state[hidden..])[units.clone()];
                let (h, rest) = out.split_at_mut(hidden);
                let out = [&mut h[units.clone()], &mut rest[units.clone()]];
                apply(Gates, [i, f, g, o, bias[0], bias[1], bias[2], bias[3], c], out);
            }
        }
    }
}

/// c' = σ(f) c + σ(i) tanh(g), h' = σ(o) tanh(c').
#[derive(Clone, Copy)]
struct Gates;

impl Formula<9, 2> for Gates {
    #[inline(always)]
    fn of<I: Isa>(self, isa: I, [i, f, g, o, bi, bf, bg, bo, c]: [I::F32; 9], _: [I::F32; 2]) -> [I::F32; 2] {
        let ops = isa.f32();
        let kept = gated(isa, ops.add(f, bf), c);
        let c = ops.add(kept, gated_tanh(isa, ops.add(i, bi), ops.add(g, bg)));
        [gated_tanh(isa, ops.add(o, bo), c), c]
    }
}
