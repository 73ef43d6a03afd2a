//! Cells with one product for all gates: the LSTM, whose state is \[h|c\], and in a translation the last word; and the
//! nodes of binary tree-LSTMs (BatchMaker, figure 2): leaves take a word, internal nodes two children, the lower index
//! first. A missing input cell counts as zeros.

use std::sync::Arc;

use rten_simd::Isa;
use rten_simd::ops::NumOps;

use super::seq2seq::START;
use super::{Affine, Embedding};
use crate::devices::network::elementwise::{Formula, apply, gated_tanh, sigmoid_gate};
use crate::devices::network::product::MatrixRows;
use crate::devices::network::weights::Weights;
use crate::devices::network::{BatchInputs, NetworkCell, Scratch, first};

/// The most children of a node in a binary tree-LSTM.
pub const CHILDREN: usize = 2;

/// A cell with `GATES` gates, of which the fourth and later ones forget an input cell each. Its formula reads `ROWS`
/// rows.
#[derive(Debug)]
pub struct Gated<const GATES: usize, const ROWS: usize> {
    /// The embeddings of words, if the cell reads words.
    embedding: Option<Embedding>,
    /// The weights from `[x|h of each input cell]` to the gates.
    affine: Arc<Affine>,
    /// The places of the gates i, o and u, then of the forget gates.
    gates: [usize; GATES],
    /// The width of a state, in numbers.
    pub(super) width: usize,
}

pub type Lstm = Gated<4, 9>;

impl Lstm {
    /// An LSTM step, with the gates i, f, g and o.
    pub(super) fn lstm(
        weights: &Weights,
        name: &'static str,
        embedding: &str,
        width: usize,
    ) -> Lstm {
        let affine = Affine::new(weights, name, 4, &["weight_ih", "weight_hh"], &["bias"]);
        Gated {
            embedding: Some(Embedding::new(weights, embedding)),
            affine,
            gates: [0, 3, 2, 1],
            width,
        }
    }
}

impl Gated<3, 6> {
    /// A node without children, also for child-sum trees.
    pub(super) fn leaf(weights: &Weights, affine: Arc<Affine>, width: usize) -> Self {
        Gated {
            embedding: Some(Embedding::new(weights, "embedding.weight")),
            affine,
            gates: [0, 1, 2],
            width,
        }
    }
}

impl Gated<5, 12> {
    /// A node with children in a binary tree.
    pub(super) fn internal(weights: &Weights, width: usize) -> Self {
        let affine = Affine::new(
            weights,
            "internal",
            5,
            &["weight_left", "weight_right"],
            &["bias"],
        );
        Gated {
            embedding: None,
            affine,
            gates: [0, 1, 2, 3, 4],
            width,
        }
    }
}

impl<const GATES: usize, const ROWS: usize> Gated<GATES, ROWS> {
    /// Computes h and c. `word` gives the word that a row reads. Only \[h|c\] at the beginning of a state is written.
    pub(super) fn step(
        &self,
        batch: &BatchInputs<'_>,
        word: impl Fn(usize) -> u32,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let Affine { product, bias, .. } = &*self.affine;
        let hidden = bias.len() / GATES;
        let width = self.width;
        let inputs = product.inputs;
        let operand = first(&mut scratch.operand, batch.rows * inputs);
        for (row, operand) in operand.chunks_exact_mut(inputs).enumerate() {
            let (embedded, recurrent) = operand.split_at_mut(inputs - (GATES - 3) * hidden);
            if let Some(embedding) = &self.embedding {
                embedded.copy_from_slice(embedding.row(word(row)));
            }
            for (place, h) in recurrent.chunks_exact_mut(hidden).enumerate() {
                batch.copy_state(row, place, width, h);
            }
        }
        let left = MatrixRows {
            data: operand,
            stride: inputs,
            count: batch.rows,
        };
        let zero = first(&mut scratch.more, hidden);
        zero.fill(0.0);

        for panel in &product.panels {
            let units = panel.units();
            let wide = panel.units().len();
            let bias = self.gates.map(|gate| &bias[gate * hidden..][units.clone()]);
            let sums = panel
                .multiply(left, &mut scratch.product)
                .chunks_exact(GATES * wide);
            for (row, (sums, out)) in sums.zip(out.chunks_exact_mut(width)).enumerate() {
                let rows: [&[f32]; ROWS] =
                    std::array::from_fn(|place| match place.checked_sub(GATES) {
                        None => &sums[self.gates[place] * wide..][..wide],
                        Some(gate) if gate < GATES => bias[gate],
                        Some(beyond) => {
                            let state = batch.state(row, beyond - GATES, width);
                            &state.map_or(&*zero, |state| &state[hidden..])[units.clone()]
                        }
                    });
                let (h, c) = out.split_at_mut(hidden);
                apply(
                    Gates::<GATES>,
                    rows,
                    [&mut h[units.clone()], &mut c[units.clone()]],
                );
            }
        }
    }
}

impl<const GATES: usize, const ROWS: usize> NetworkCell for Gated<GATES, ROWS> {
    fn run(&self, batch: &BatchInputs<'_>, out: &mut [f32], scratch: &mut Scratch) {
        self.step(batch, |row| batch.token(row), out, scratch);
        // The word of an encoder's state is the one that the first decoder step reads.
        let c_ends = 2 * self.affine.units();
        out.chunks_exact_mut(self.width)
            .for_each(|state| state[c_ends..].fill(START as f32));
    }

    fn affines(&self) -> Vec<&Arc<Affine>> {
        vec![&self.affine]
    }
}

/// c = σ(i) tanh(u), plus σ(f) c of each input cell; h = σ(o) tanh(c). The formula reads the products of the gates,
/// their biases, and c of the input cells.
struct Gates<const GATES: usize>;

impl<const GATES: usize, const ROWS: usize> Formula<ROWS, 2> for Gates<GATES> {
    #[inline(always)]
    fn apply<I: Isa>(&self, isa: I, rows: [I::F32; ROWS], _: [I::F32; 2]) -> [I::F32; 2] {
        let ops = isa.f32();
        let mut c = gated_tanh(
            isa,
            ops.add(rows[0], rows[GATES]),
            ops.add(rows[2], rows[GATES + 2]),
        );
        for (cell, forget) in (3..GATES).enumerate() {
            let gate = ops.add(rows[forget], rows[GATES + forget]);
            c = ops.add(c, sigmoid_gate(isa, gate, rows[2 * GATES + cell]));
        }
        [gated_tanh(isa, ops.add(rows[1], rows[GATES + 1]), c), c]
    }
}
