//! One pass over the elements of rows in vectors of the machine's width. The tail is a vector padded with zeros, so an
//! element's bits depend on neither its place nor its neighbours.

use rten_simd::ops::{BitOps, FloatOps, IntOps, NumOps};
use rten_simd::{Isa, Simd, SimdOp};

/// A formula that computes `OUT` rows, whose old values it also reads, from `IN` rows.
pub trait Formula<const IN: usize, const OUT: usize> {
    fn apply<I: Isa>(&self, isa: I, inputs: [I::F32; IN], before: [I::F32; OUT]) -> [I::F32; OUT];
}

/// Applies a formula to rows at least as long as the outputs.
pub fn apply<const IN: usize, const OUT: usize>(
    formula: impl Formula<IN, OUT>,
    inputs: [&[f32]; IN],
    outputs: [&mut [f32]; OUT],
) {
    Pass {
        formula,
        inputs,
        outputs,
    }
    .dispatch();
}

struct Pass<'a, F, const IN: usize, const OUT: usize> {
    formula: F,
    inputs: [&'a [f32]; IN],
    outputs: [&'a mut [f32]; OUT],
}

impl<F: Formula<IN, OUT>, const IN: usize, const OUT: usize> SimdOp for Pass<'_, F, IN, OUT> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) {
        let Pass {
            formula,
            inputs,
            mut outputs,
        } = self;
        let ops = isa.f32();
        let width = outputs[0].len();
        let lanes = ops.len();
        // The rows are cut once, so that the loop has no bounds checks.
        let inputs = inputs.map(|row| &row[..width]);
        outputs
            .iter()
            .for_each(|row| assert_eq!(row.len(), width, "the rows of a pass are equally long"));
        let whole = width - width % lanes;
        for at in (0..whole).step_by(lanes) {
            let before = std::array::from_fn(
                #[inline(always)]
                |i| ops.load(&outputs[i][at..at + lanes]),
            );
            let read = std::array::from_fn(
                #[inline(always)]
                |i| ops.load(&inputs[i][at..at + lanes]),
            );
            let results = formula.apply(isa, read, before);
            for (row, result) in outputs.iter_mut().zip(results) {
                ops.store(result, &mut row[at..at + lanes]);
            }
        }
        if whole < width {
            let before = std::array::from_fn(
                #[inline(always)]
                |i| ops.load_pad(&outputs[i][whole..]).0,
            );
            let read = std::array::from_fn(
                #[inline(always)]
                |i| ops.load_pad(&inputs[i][whole..]).0,
            );
            let results = formula.apply(isa, read, before);
            for (row, result) in outputs.iter_mut().zip(results) {
                row[whole..].copy_from_slice(&result.to_array().as_ref()[..width - whole]);
            }
        }
    }
}

/// σ(gate) x, where σ(gate) = 1 / (1 + e^-gate).
#[inline(always)]
pub fn sigmoid_gate<I: Isa>(isa: I, gate: I::F32, x: I::F32) -> I::F32 {
    isa.f32().div(x, one_and_exp_of_negative(isa, gate))
}

/// σ(gate) tanh(x) with one division, which is the slow part.
#[inline(always)]
pub fn gated_tanh<I: Isa>(isa: I, gate: I::F32, x: I::F32) -> I::F32 {
    let ops = isa.f32();
    let (above, below) = tanh_fraction(isa, x);
    // If the denominator overflows, the result is zero, as it should be.
    ops.div(above, ops.mul(below, one_and_exp_of_negative(isa, gate)))
}

#[inline(always)]
pub fn tanh<I: Isa>(isa: I, x: I::F32) -> I::F32 {
    let (above, below) = tanh_fraction(isa, x);
    isa.f32().div(above, below)
}

/// Limits `x` to ±`most`. NaN stays NaN, because no comparison with it holds.
#[inline(always)]
fn limit<I: Isa>(isa: I, x: I::F32, most: f32) -> I::F32 {
    let ops = isa.f32();
    let low = ops.splat(-most);
    let high = ops.splat(most);
    let x = ops.select(high, x, ops.gt(x, high));
    ops.select(low, x, ops.lt(x, low))
}

/// 1 + e^-x, to a relative error of 2e-7.
#[inline(always)]
pub fn one_and_exp_of_negative<I: Isa>(isa: I, x: I::F32) -> I::F32 {
    // Up to this value, 2^k and 2^-k are normal numbers. Gates saturate long before.
    const MOST: f32 = 87.0;
    // The first part has few digits, so that its product with k is exact.
    const LN_2: [f32; 2] = [0.693_145_75, 1.428_606_8e-6];
    // A polynomial fitted to (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2. The relative error of e^r is 3e-9.
    const FIT: [f32; 5] = [
        0.499_999_94,
        0.166_665_2,
        0.041_668_393,
        0.008_368_781,
        0.001_381_446_7,
    ];
    // Adding this rounds to a whole number, which is then in the low bits.
    const ROUND: f32 = (3 << 22) as f32;

    let ops = isa.f32();
    let ints = isa.i32();
    let x = ops.neg(limit(isa, x, MOST));
    // e^x = 2^k e^r, where k is the integer nearest to x / ln 2.
    let shifted = ops.mul_add(x, ops.splat(std::f32::consts::LOG2_E), ops.splat(ROUND));
    let k = ops.sub(shifted, ops.splat(ROUND));
    let r = ops.mul_add(k, ops.splat(-LN_2[0]), x);
    let r = ops.mul_add(k, ops.splat(-LN_2[1]), r);
    let mut e = ops.splat(FIT[4]);
    for coefficient in [FIT[3], FIT[2], FIT[1], FIT[0], 1.0, 1.0] {
        e = ops.mul_add(e, r, ops.splat(coefficient));
    }
    let exponent = ints.shift_left::<23>(shifted.reinterpret_cast::<I::I32>());
    let power = ints
        .add(exponent, ints.splat(127 << 23))
        .reinterpret_cast::<I::F32>();
    ops.mul_add(e, power, ops.one())
}

/// tanh(x) as a fraction, to a relative error of 4e-7.
#[inline(always)]
pub fn tanh_fraction<I: Isa>(isa: I, x: I::F32) -> (I::F32, I::F32) {
    // Beyond this value, the float32 nearest to tanh(x) is 1.
    const MOST: f32 = 9.02;
    // tanh(x) is x P(x^2) / Q(x^2), fitted to a relative error of 2e-8. All coefficients are positive, so nothing
    // cancels.
    const P: [f32; 5] = [
        1.0,
        0.133_797_14,
        0.003_494_03,
        2.058_340_8e-5,
        1.331_897_2e-8,
    ];
    const Q: [f32; 5] = [
        1.0,
        0.467_130_3,
        0.025_871_055,
        0.000_328_308_55,
        7.761_98e-7,
    ];

    let ops = isa.f32();
    let x = limit(isa, x, MOST);
    let square = ops.mul(x, x);
    let mut above = ops.splat(P[4]);
    let mut below = ops.splat(Q[4]);
    for power in (0..4).rev() {
        above = ops.mul_add(above, square, ops.splat(P[power]));
        below = ops.mul_add(below, square, ops.splat(Q[power]));
    }
    (ops.mul(above, x), below)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Functions;

    impl Formula<2, 3> for Functions {
        #[inline(always)]
        fn apply<I: Isa>(
            &self,
            isa: I,
            [gate, x]: [I::F32; 2],
            [before, ..]: [I::F32; 3],
        ) -> [I::F32; 3] {
            [
                isa.f32().add(sigmoid_gate(isa, gate, x), before),
                gated_tanh(isa, gate, x),
                tanh(isa, x),
            ]
        }
    }

    fn functions(gate: &[f32], x: &[f32], before: &[f32]) -> [Vec<f32>; 3] {
        let mut first = before.to_vec();
        let mut second = vec![f32::NAN; x.len()];
        let mut third = vec![f32::NAN; x.len()];
        apply(Functions, [gate, x], [&mut first, &mut second, &mut third]);
        [first, second, third]
    }

    #[test]
    fn functions_are_as_near_as_float32_allows() {
        let zero = vec![0.0; 2001];
        for scale in [1e-30, 1e-6, 1e-3, 0.1, 1.0, 5.0, 12.0, 80.0] {
            let x: Vec<f32> = (-1000..=1000).map(|i| i as f32 / 1000.0 * scale).collect();
            for shift in [0.0f32, 3.0, -7.0] {
                let gate: Vec<f32> = x.iter().map(|x| shift - x).collect();
                let results = functions(&gate, &x, &zero);
                for i in 0..x.len() {
                    let gate = 1.0 / (1.0 + (-f64::from(gate[i])).exp());
                    let x = f64::from(x[i]);
                    for (result, expected) in
                        results.iter().zip([gate * x, gate * x.tanh(), x.tanh()])
                    {
                        let error = (f64::from(result[i]) - expected).abs();
                        // If the product of the denominators overflows, the result is zero.
                        assert!(
                            error <= 8e-7 * expected.abs() + 2e-36,
                            "{} for {expected} at {x}",
                            result[i]
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn an_element_has_the_same_bits_wherever_it_stands() {
        let value = |i: usize| (i as f32 * 0.731).sin() * 12.0;
        for width in 1..70 {
            for from in [0, 1, 5] {
                let values = |shift: usize| {
                    (from..from + width)
                        .map(|i| value(i + shift))
                        .collect::<Vec<f32>>()
                };
                let gate = values(0);
                let x = values(999);
                let before = values(77);
                let together = functions(&gate, &x, &before);
                for i in 0..width {
                    let alone = functions(&gate[i..=i], &x[i..=i], &before[i..=i]);
                    for (together, alone) in together.iter().zip(&alone) {
                        assert_eq!(together[i].to_bits(), alone[0].to_bits());
                    }
                }
            }
        }
    }

    #[test]
    fn gates_saturate() {
        for far in [90.0, 1e30, f32::INFINITY] {
            let [plain, squashed, tan] =
                functions(&[far, -far, far, -far], &[1.0, 1.0, -far, far], &[0.0; 4]);
            assert_eq!(plain[0], 1.0);
            assert!(
                plain[1].abs() < 1e-37 && squashed[1].abs() < 1e-37 && squashed[3].abs() < 1e-37
            );
            assert!((tan[2] + 1.0).abs() < 3e-7 && (squashed[2] + 1.0).abs() < 3e-7);
        }
    }

    #[test]
    fn nan_stays_nan() {
        let nan = [
            f32::NAN,
            -f32::NAN,
            f32::from_bits(0x7f80_0001),
            f32::from_bits(0x7fff_ffff),
        ];
        for all in [
            functions(&nan, &[1.0; 4], &[0.0; 4]),
            functions(&[1.0; 4], &nan, &[0.0; 4]),
        ] {
            assert!(all[..2].iter().flatten().all(|x| x.is_nan()), "{all:?}");
        }
        assert!(
            functions(&[1.0; 4], &nan, &[0.0; 4])[2]
                .iter()
                .all(|x| x.is_nan())
        );
    }
}
