//! Translation (BatchMaker, figure 12): encoder steps over the source, then decoder steps, each of which writes the
//! word that the next reads. The state is \[h|c|word\].

use std::sync::Arc;

use rten_simd::ops::{BitOps, NumOps};
use rten_simd::{Isa, Simd, SimdOp};

use super::Affine;
use super::gated::Lstm;
use crate::devices::network::product::MatrixRows;
use crate::devices::network::weights::Weights;
use crate::devices::network::{BatchInputs, NetworkCell, Scratch, first};

/// The word that the first decoder step reads.
pub const START: u32 = 0;

/// The decoder's step, which reads the word in its state and writes the most likely next word there.
#[derive(Debug)]
pub struct Decoder {
    lstm: Lstm,
    projection: Arc<Affine>,
}

impl Decoder {
    pub(super) fn new(weights: &Weights, width: usize) -> Decoder {
        Decoder {
            lstm: Lstm::lstm(weights, "decoder", "decoder.embedding", width),
            projection: Affine::new(weights, "projection", 1, &["weight"], &["bias"]),
        }
    }
}

impl NetworkCell for Decoder {
    fn run(&self, batch: &BatchInputs<'_>, out: &mut [f32], scratch: &mut Scratch) {
        let width = self.lstm.width;
        let word_before = |row| {
            let state = batch.state(row, 0, width);
            state.and_then(|state| self.word(state)).unwrap_or(START)
        };
        self.lstm.step(batch, word_before, out, scratch);

        // If all scores are NaN, so is the word, and the check for NaN and infinity finds it.
        let largest = first(&mut scratch.more, batch.rows);
        largest.fill(f32::NEG_INFINITY);
        out.chunks_exact_mut(width)
            .for_each(|state| state[width - 1] = f32::NAN);
        for panel in &self.projection.product.panels {
            let words = panel.units();
            let scores = panel.multiply(
                MatrixRows {
                    data: out,
                    stride: width,
                    count: batch.rows,
                },
                &mut scratch.product,
            );
            let rows = largest.iter_mut().zip(out.chunks_exact_mut(width));
            for (scores, (largest, state)) in scores.chunks_exact(words.len()).zip(rows) {
                let here = LargestScore {
                    scores,
                    bias: &self.projection.bias[words.clone()],
                }
                .dispatch();
                // The lowest word wins a tie.
                if let Some((score, at)) = here.filter(|(score, _)| score > largest) {
                    *largest = score;
                    state[width - 1] = (words.start + at) as f32;
                }
            }
        }
    }

    fn word(&self, state: &[f32]) -> Option<u32> {
        state
            .last()
            .filter(|word| word.is_finite())
            .map(|word| *word as u32)
    }

    fn replace_word(&self, state: &mut [f32], word: u32) -> f64 {
        let width = self.lstm.width;
        let Affine { product, bias, .. } = &*self.projection;
        let mut scores = Vec::with_capacity(bias.len());
        let mut memory = Vec::new();
        for panel in &product.panels {
            let found = panel.multiply(
                MatrixRows {
                    data: state,
                    stride: width,
                    count: 1,
                },
                &mut memory,
            );
            scores.extend(
                found
                    .iter()
                    .zip(&bias[panel.units()])
                    .map(|(score, bias)| f64::from(score + bias)),
            );
        }
        let Some(score) = scores.get(word as usize) else {
            return f64::INFINITY;
        };
        let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let magnitude =
            (scores.iter().map(|score| score * score).sum::<f64>() / scores.len() as f64).sqrt();
        state[width - 1] = word as f32;
        if best > *score {
            (best - score) / magnitude
        } else {
            0.0
        }
    }

    fn affines(&self) -> Vec<&Arc<Affine>> {
        [vec![&self.projection], self.lstm.affines()].concat()
    }
}

/// Finds the largest score and its place, the first in a tie. NaN and minus infinity are skipped.
struct LargestScore<'a> {
    scores: &'a [f32],
    bias: &'a [f32],
}

impl SimdOp for LargestScore<'_> {
    type Output = Option<(f32, usize)>;

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) -> Option<(f32, usize)> {
        let ops = isa.f32();
        let places = isa.i32();
        let lanes = ops.len();
        let scores = self.scores;
        let bias = &self.bias[..self.scores.len()];
        let whole = scores.len() - scores.len() % lanes;
        let mut largest = ops.splat(f32::NEG_INFINITY);
        let mut found = places.splat(-1);
        let mut place = places.zero();
        for at in (0..whole).step_by(lanes) {
            let sum = ops.add(
                ops.load(&scores[at..at + lanes]),
                ops.load(&bias[at..at + lanes]),
            );
            let larger = ops.gt(sum, largest);
            largest = ops.select(sum, largest, larger);
            found = places.select(place, found, larger);
            place = places.add(place, places.one());
        }
        let largest = largest.to_array();
        let found = found.to_array();
        let lanes_best = (0..lanes)
            .filter(|lane| found[*lane] >= 0)
            .map(|lane| (largest[lane], found[lane] as usize * lanes + lane));
        let rest = (whole..scores.len()).map(|at| (scores[at] + bias[at], at));
        let best = lanes_best
            .chain(rest)
            .filter(|(sum, _)| *sum > f32::NEG_INFINITY);
        best.reduce(|a, b| {
            if b.0 > a.0 || (b.0 == a.0 && b.1 < a.1) {
                b
            } else {
                a
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_of_the_largest_is_chosen() {
        let largest = |scores: &[f32]| {
            LargestScore {
                scores,
                bias: &vec![0.5; scores.len()],
            }
            .dispatch()
        };
        let found = |at| Some((2.5, at));
        for words in 1..100 {
            for at in 0..words {
                let mut scores = vec![-1.0; words];
                scores[at..]
                    .iter_mut()
                    .step_by(3)
                    .for_each(|score| *score = 2.0);
                assert_eq!(largest(&scores), found(at), "{words} words");
                scores[..at].fill(f32::NAN);
                assert_eq!(
                    largest(&scores),
                    found(at),
                    "{words} words, some of them NaN"
                );
            }
            assert_eq!(largest(&vec![f32::NAN; words]), None);
        }
        assert_eq!(
            LargestScore {
                scores: &[1.0, 1.5],
                bias: &[1.0, 0.0]
            }
            .dispatch(),
            Some((2.0, 0)),
            "the bias counts"
        );
    }
}
