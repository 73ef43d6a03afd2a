//! By how much results of a GPU may differ from the CPU's, and by how much they do.
//!
//! A GPU adds up in another order than the CPU, computes exponentials by other polynomials, and may round the operands of its
//! products to fewer bits. So its results are not the CPU's bits, and have to be told from wrong ones by their distance:
//!
//! ```text
//! |found − expected| ≤ 8 · (u + (√K + 8) · 2⁻²⁴) · √d · rms(expected)
//! ```
//!
//! for every number of a state, where the root mean square is that of the numbers of its kind (h or c) in this state.
//!
//! - **u** is the unit roundoff of the operands: 2⁻⁸ for bf16, 2⁻¹¹ for f16, 2⁻¹⁰ for tf32, whose units may cut off the bits
//!   in place of rounding them, and nothing for f32, in which operands are what they are. A product of sums whose terms are
//!   off by up to u each, up or down, is off by about u of what it usually is.
//! - **√K · 2⁻²⁴**: float32 adds up the K terms of a product, each time rounding by up to 2⁻²⁴, up or down. The functions
//!   of a gate are off by a few more of these.
//! - **√d**: each of the d steps on the way to a state adds its own rounding to what those before have left, again up or
//!   down. A network whose gates forget keeps less of it than this; one that amplifies differences (a chaotic one) would
//!   keep more, and no tolerance could tell its rounding from a mistake.
//! - **8**: of thousands of numbers the worst is four standard deviations out, and a step has several products and gates.
//!
//! An operator of a network that a file lists is judged by itself, on what the GPU had in front of it: there are a hundred of them behind
//! each other, and products of two activations double the squares of their errors. So d is 1 and K its own, and the root mean square
//! is that of the activation behind it or, where that is larger, in front of it: sums of such numbers may cancel each other.
//!
//! A word has to be one of the best by the scores that the CPU has on the way of the words that were written before: its
//! score may be below the best by the same multiple of the scores' root mean square.

#[cfg(test)]
mod tests;

use crate::gpu_settings::Precision;
use crate::network::Spec;
use crate::network::operators::Passed;
use crate::network::reference::{Followed, Output};

/// How many times the error that is expected may be exceeded.
const MARGIN: f64 = 8.0;

/// The unit roundoff of float32.
const FLOAT32: f64 = 1.0 / (1u64 << 24) as f64;

/// The error of a gate's functions, in units of float32's roundoff.
const FUNCTIONS: f64 = 8.0;

/// What a network's results may differ by.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    hidden: usize,
    /// The unit roundoff of the operands.
    operands: f64,
    /// For one step.
    step: f64,
}

/// The largest difference that was found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Largest {
    /// As a multiple of the root mean square of what it should be.
    pub error: f64,
    /// As a multiple of what is tolerated; at most 1 where all is well.
    pub of_tolerated: f64,
}

impl Largest {
    /// The larger of two, each figure by itself.
    #[must_use]
    pub fn max(self, other: Largest) -> Largest {
        Largest { error: self.error.max(other.error), of_tolerated: self.of_tolerated.max(other.of_tolerated) }
    }

    /// Takes in a difference. What is no number is infinitely far away.
    fn take(&mut self, error: f64, tolerated: f64) -> bool {
        let error = if error.is_nan() { f64::INFINITY } else { error };
        *self = self.max(Largest { error, of_tolerated: error / tolerated });
        error <= tolerated
    }

    /// Takes in a number among others of this root mean square, and says by how much it is too far off.
    fn compare(&mut self, found: f32, expected: f32, size: f64, tolerated: f64) -> Result<(), String> {
        let error = f64::from(found - expected).abs();
        // Zeros that should be zeros are of no size and right.
        let error = if error == 0.0 { 0.0 } else { error / size };
        if self.take(error, tolerated) {
            return Ok(());
        }
        Err(format!(
            "{found}, not {expected}: the difference is {error:.3e} of the root mean square; tolerated are {tolerated:.3e}"
        ))
    }
}

/// What is tolerated of a product of so many terms.
fn of_product(operands: f64, terms: f64) -> f64 {
    MARGIN * (operands + (terms.sqrt() + FUNCTIONS) * FLOAT32)
}

fn root_mean_square(numbers: &[f32]) -> f64 {
    let squares: f64 = numbers.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    (squares / numbers.len().max(1) as f64).sqrt()
}

impl Tolerance {
    /// That of a network whose products are computed in a format.
    pub fn new(precision: Precision, spec: &Spec) -> Tolerance {
        let operands = match precision {
            Precision::F32 => 0.0,
            Precision::Tf32 => 2f64.powi(-10),
            Precision::Bf16 => 2f64.powi(-8),
            Precision::F16 => 2f64.powi(-11),
        };
        // Of the widest product: a word and a state, or two states.
        let inputs = f64::from(spec.hidden) + f64::from(spec.hidden.max(spec.embedding));
        Tolerance { hidden: spec.hidden as usize, operands, step: of_product(operands, inputs) }
    }

    /// Holds what a query came to behind an operator against what the CPU comes to from the same activation.
    ///
    /// # Errors
    /// As [`Tolerance::check`].
    pub fn check_operator(&self, passed: &Passed<'_>, largest: &mut Largest) -> Result<(), String> {
        let tolerated = of_product(self.operands, passed.work.inner as f64);
        let size = root_mean_square(passed.expected).max(root_mean_square(passed.read));
        let numbers = passed.found.iter().zip(passed.expected);
        numbers.enumerate().try_for_each(|(place, (found, expected))| {
            largest.compare(*found, *expected, size, tolerated).map_err(|wrong| format!("number {place} is {wrong}"))
        })
    }

    /// What is tolerated behind so many steps, as a multiple of a root mean square.
    pub fn at(&self, depth: u32) -> f64 {
        self.step * f64::from(depth.max(1)).sqrt()
    }

    /// Holds what a request came to against what the CPU comes to by following its words. The request is `depth` steps
    /// deep, states are `width` numbers wide.
    ///
    /// # Errors
    /// Says what is too far off, and by how much; the distance is taken into `largest` all the same.
    pub fn check(
        &self,
        found: &Output,
        expected: &Followed,
        depth: u32,
        width: usize,
        largest: &mut Largest,
    ) -> Result<(), String> {
        let Followed { output: expected, shortfalls } = expected;
        if (found.state.len(), found.words.len()) != (expected.state.len(), expected.words.len()) {
            return Err(format!(
                "{} numbers and {} words, not {} and {}",
                found.state.len(),
                found.words.len(),
                expected.state.len(),
                expected.words.len()
            ));
        }
        // The words of a chain are those of its last nodes.
        let first = depth.saturating_sub(shortfalls.len() as u32) + 1;
        for (place, (shortfall, depth)) in shortfalls.iter().zip(first..).enumerate() {
            if !largest.take(*shortfall, self.at(depth)) {
                return Err(format!(
                    "word {place} is {}, whose score is {:.3e} of the scores' root mean square below that of word {}; tolerated \
                     are {:.3e}",
                    found.words[place],
                    shortfall,
                    expected.words[place],
                    self.at(depth)
                ));
            }
        }
        let tolerated = self.at(depth);
        for (state, (found, expected)) in found.state.chunks(width).zip(expected.state.chunks(width)).enumerate() {
            for (part, (found, expected)) in found.chunks(self.hidden).zip(expected.chunks(self.hidden)).enumerate() {
                // The number behind h and c is a word, which has been judged.
                if part * self.hidden + expected.len() > 2 * self.hidden {
                    continue;
                }
                let size = root_mean_square(expected);
                for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
                    largest.compare(*found, *expected, size, tolerated).map_err(|wrong| {
                        let of = if state > 0 { format!(" of state {state}") } else { String::new() };
                        format!("number {place} of {}{of} is {wrong}", ["h", "c"][part])
                    })?;
                }
            }
        }
        Ok(())
    }
}
