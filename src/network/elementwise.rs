//! One pass over the elements of a row: the gates of a cell, in vectors of the machine's width.
//!
//! Every element goes through the same vector instructions, whichever lane it stands in: what is left at the end of a row
//! fills a vector of its own, beside zeros. So an element's bits depend on neither its place nor its neighbours.

use rten_simd::ops::BitOps;
use rten_simd::{Isa, Simd, SimdOp, SimdUnaryOp};
use rten_vecmath::{Sigmoid, Tanh};

/// What is computed for each element, from `IN` rows to `OUT` rows. It also sees what stands in the output.
pub trait Formula<const IN: usize, const OUT: usize>: Copy {
    /// A vector of elements.
    fn of<I: Isa>(self, isa: I, inputs: [I::F32; IN], before: [I::F32; OUT]) -> [I::F32; OUT];
}

/// Applies a formula to rows, all of which are as long as the outputs.
pub fn apply<F, const IN: usize, const OUT: usize>(formula: F, inputs: [&[f32]; IN], outputs: [&mut [f32]; OUT])
where
    F: Formula<IN, OUT>,
{
    Pass { formula, inputs, outputs }.dispatch();
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
        let Pass { formula, inputs, mut outputs } = self;
        let ops = isa.f32();
        let (width, lanes) = (outputs[0].len(), ops.len());
        // Cut once, so that the loop need not check.
        let inputs = inputs.map(|row| &row[..width]);
        outputs.iter().for_each(|row| assert_eq!(row.len(), width, "the rows of a pass are equally long"));
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
            let results = formula.of(isa, read, before);
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
            let results = formula.of(isa, read, before);
            for (row, result) in outputs.iter_mut().zip(results) {
                row[whole..].copy_from_slice(&result.to_array().as_ref()[..width - whole]);
            }
        }
    }
}

/// 1 / (1 + e^-x), to within 4 units in the last place.
#[inline(always)]
pub fn sigmoid<I: Isa>(isa: I, x: I::F32) -> I::F32 {
    Sigmoid::apply(isa, x)
}

/// The hyperbolic tangent, to within 3 units in the last place.
#[inline(always)]
pub fn tanh<I: Isa>(isa: I, x: I::F32) -> I::F32 {
    Tanh::apply(isa, x)
}

#[cfg(test)]
mod tests {
    use rten_simd::ops::NumOps;

    use super::*;

    #[derive(Clone, Copy)]
    struct Mixed;

    impl Formula<2, 2> for Mixed {
        #[inline(always)]
        fn of<I: Isa>(self, isa: I, [a, b]: [I::F32; 2], [before, _]: [I::F32; 2]) -> [I::F32; 2] {
            let ops = isa.f32();
            [ops.mul_add(sigmoid(isa, a), b, before), tanh(isa, ops.sub(a, b))]
        }
    }

    #[test]
    fn an_element_has_the_same_bits_wherever_it_stands() {
        let value = |i: usize| (i as f32 * 0.731).sin() * 12.0;
        for width in 1..70 {
            for from in [0, 1, 5] {
                let a: Vec<f32> = (from..from + width).map(value).collect();
                let b: Vec<f32> = (from..from + width).map(|i| value(i + 999)).collect();
                let mut sum: Vec<f32> = (from..from + width).map(|i| value(i + 77)).collect();
                let mut tan = vec![f32::NAN; width];
                apply(Mixed, [&a, &b], [&mut sum, &mut tan]);
                for i in 0..width {
                    let (mut x, mut y) = ([value(from + i + 77)], [0.0]);
                    apply(Mixed, [&a[i..=i], &b[i..=i]], [&mut x, &mut y]);
                    assert_eq!((sum[i].to_bits(), tan[i].to_bits()), (x[0].to_bits(), y[0].to_bits()));
                }
            }
        }
    }

    #[test]
    fn gates_saturate_and_pass_on_what_is_no_number() {
        let a = [-1e30, 1e30, f32::NAN, f32::INFINITY];
        let (mut sum, mut tan) = ([0.0; 4], [0.0; 4]);
        apply(Mixed, [&a, &[1.0; 4]], [&mut sum, &mut tan]);
        assert_eq!((sum[0], sum[1], sum[3]), (0.0, 1.0, 1.0));
        assert_eq!((tan[0], tan[1], tan[3]), (-1.0, 1.0, 1.0));
        assert!(sum[2].is_nan() && tan[2].is_nan());
    }
}
