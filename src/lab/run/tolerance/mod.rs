//! How far results of a GPU may differ from the CPU's.
//!
//! A GPU adds in another order, uses other polynomials for exponentials, and may round the operands of products. Its
//! results are correct if, for every number of a state,
//!
//! ```text
//! |found − expected| ≤ 8 · (u + (√K + 8) · 2⁻²⁴) · √d · rms(expected)
//! ```
//!
//! with the root mean square over the numbers of the same kind (h or c) in this state, and
//!
//! - **u**, the unit roundoff of the operands: 2⁻⁸ for bf16, 2⁻¹¹ for f16, 2⁻¹⁰ for tf32 (which may truncate), 0 for
//!   f32.
//! - **√K · 2⁻²⁴**, the rounding of the K additions of a product; a gate's functions add a few more.
//! - **√d**, as each of the d steps on the way to a state adds its own rounding, up or down.
//! - **8**: among thousands of numbers the worst is four standard deviations off, and a step has several products and
//!   gates.
//!
//! Operators of listed networks are checked one by one, on the activation that the GPU had, since products of
//! activations double relative errors. There d is 1, K is the operator's own, and the root mean square is the larger of
//! those before and after the operator, because sums may cancel. A word's score may be below the best by the same
//! multiple of the scores' root mean square.

#[cfg(test)]
mod tests;

use crate::base::precision::Precision;
use crate::core::backend::Output;
use crate::devices::network::Spec;
use crate::devices::network::operators::Passed;
use crate::devices::network::reference::FollowedOutput;

/// The safety factor on the expected error.
const MARGIN: f64 = 8.0;

const FLOAT32: f64 = 1.0 / (1u64 << 24) as f64;

/// The error of a gate's functions, in roundoffs of float32.
const FUNCTIONS: f64 = 8.0;

/// The permitted difference of a network's results.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    hidden: usize,
    operands: f64,
    step: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LargestError {
    /// The error relative to the root mean square of the expected values.
    pub error: f64,
    /// The error relative to the tolerance; at most 1 if the result is correct.
    pub of_tolerated: f64,
}

impl LargestError {
    /// The larger of two errors, field by field.
    #[must_use]
    pub fn max(self, other: LargestError) -> LargestError {
        LargestError {
            error: self.error.max(other.error),
            of_tolerated: self.of_tolerated.max(other.of_tolerated),
        }
    }

    /// Records an error, and returns whether it is tolerated. NaN counts as infinite.
    fn take(&mut self, error: f64, tolerated: f64) -> bool {
        let error = if error.is_nan() { f64::INFINITY } else { error };
        *self = self.max(LargestError {
            error,
            of_tolerated: error / tolerated,
        });
        error <= tolerated
    }

    /// Records a difference, and describes it if it is too large.
    fn compare(
        &mut self,
        found: f32,
        expected: f32,
        size: f64,
        tolerated: f64,
    ) -> Result<(), String> {
        let error = f64::from(found - expected).abs();
        // If all expected values are zero, there is no size to divide by, but an error of zero is correct.
        let error = if error == 0.0 { 0.0 } else { error / size };
        if self.take(error, tolerated) {
            return Ok(());
        }
        Err(format!(
            "{found}, not {expected}: the difference is {error:.3e} of the root mean square; tolerated are {tolerated:.3e}"
        ))
    }
}

fn product_error(operands: f64, terms: f64) -> f64 {
    MARGIN * (operands + (terms.sqrt() + FUNCTIONS) * FLOAT32)
}

fn root_mean_square(numbers: &[f32]) -> f64 {
    let squares: f64 = numbers.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    (squares / numbers.len().max(1) as f64).sqrt()
}

impl Tolerance {
    pub fn new(precision: Precision, spec: &Spec) -> Tolerance {
        let operands = match precision {
            Precision::F32 => 0.0,
            Precision::Tf32 => 2f64.powi(-10),
            Precision::Bf16 => 2f64.powi(-8),
            Precision::F16 => 2f64.powi(-11),
        };
        // The widest product multiplies a word and a state, or two states.
        let inputs = f64::from(spec.hidden) + f64::from(spec.hidden.max(spec.embedding));
        Tolerance {
            hidden: spec.hidden as usize,
            operands,
            step: product_error(operands, inputs),
        }
    }

    /// Compares the activation after an operator with the CPU's, computed from the same input.
    pub fn check_operator(
        &self,
        passed: &Passed<'_>,
        largest: &mut LargestError,
    ) -> Result<(), String> {
        let tolerated = product_error(self.operands, passed.work.inner as f64);
        let size = root_mean_square(passed.expected).max(root_mean_square(passed.read));
        let numbers = passed.found.iter().zip(passed.expected);
        numbers
            .enumerate()
            .try_for_each(|(place, (found, expected))| {
                largest
                    .compare(*found, *expected, size, tolerated)
                    .map_err(|wrong| format!("number {place} is {wrong}"))
            })
    }

    /// The tolerated difference, as a multiple of the root mean square.
    pub fn bound(&self, depth: u32) -> f64 {
        self.step * f64::from(depth.max(1)).sqrt()
    }

    /// Checks a request of `depth` steps, for which the CPU followed the same words. States have `width` numbers.
    /// `largest` records the difference in any case.
    pub fn check(
        &self,
        found: &Output,
        expected: &FollowedOutput,
        depth: u32,
        width: usize,
        largest: &mut LargestError,
    ) -> Result<(), String> {
        let FollowedOutput {
            output: expected,
            shortfalls,
        } = expected;
        let sizes = |of: &Output| (of.state.len(), of.words.len());
        let ((numbers, words), (due, due_words)) = (sizes(found), sizes(expected));
        if (numbers, words) != (due, due_words) {
            return Err(format!(
                "{numbers} numbers and {words} words, not {due} and {due_words}"
            ));
        }
        // The words of a chain are those of its last nodes.
        let first = depth.saturating_sub(shortfalls.len() as u32) + 1;
        for (place, (shortfall, depth)) in shortfalls.iter().zip(first..).enumerate() {
            let (tolerated, found, best) =
                (self.bound(depth), found.words[place], expected.words[place]);
            if !largest.take(*shortfall, tolerated) {
                return Err(format!(
                    "word {place} is {found}, whose score is {shortfall:.3e} of the scores' root mean square below that of word \
                     {best}; tolerated are {tolerated:.3e}"
                ));
            }
        }
        let tolerated = self.bound(depth);
        for (state, (found, expected)) in found
            .state
            .chunks(width)
            .zip(expected.state.chunks(width))
            .enumerate()
        {
            for (part, (found, expected)) in found
                .chunks(self.hidden)
                .zip(expected.chunks(self.hidden))
                .enumerate()
            {
                // The number after h and c is a word, which has been checked.
                if part * self.hidden + expected.len() > 2 * self.hidden {
                    continue;
                }
                let size = root_mean_square(expected);
                for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
                    largest
                        .compare(*found, *expected, size, tolerated)
                        .map_err(|wrong| {
                            let of = if state > 0 {
                                format!(" of state {state}")
                            } else {
                                String::new()
                            };
                            format!("number {place} of {}{of} is {wrong}", ["h", "c"][part])
                        })?;
                }
            }
        }
        Ok(())
    }
}
