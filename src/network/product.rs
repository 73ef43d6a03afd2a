//! The matrix product of all cells.

use std::fmt;

use rten_gemm::{GemmExecutor, GemmInputA, GemmInputB, GemmOptions, PackedBMatrix};
use rten_tensor::NdTensorView;

/// Weights that are laid out for the kernel once, and then multiplied from the left with batches of rows.
///
/// A row of the result has the same bits in every batch: with packed weights the kernel adds up each element over the
/// inner dimension in one order, whatever rows stand beside it. (Unpacked weights would send a batch of one row another way.)
pub struct Product {
    packed: PackedBMatrix<f32>,
}

/// A block of weights as PyTorch keeps it: a row for each output, each `inputs` numbers wide.
#[derive(Clone, Copy)]
pub struct Block<'a> {
    pub weights: &'a [f32],
    pub inputs: usize,
}

/// The left operand: rows that lie `stride` numbers apart, and are as wide as the weights are deep.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    pub data: &'a [f32],
    pub stride: usize,
    pub count: usize,
}

impl Product {
    /// Packs blocks that share their outputs: the left operand's row is the inputs of the first, then those of the
    /// second, and so on, so that one product takes them all.
    pub fn pack(outputs: usize, blocks: &[Block<'_>]) -> Product {
        let inner: usize = blocks.iter().map(|block| block.inputs).sum();
        let mut joined = Vec::with_capacity(inner * outputs);
        for output in 0..outputs {
            for block in blocks {
                joined.extend_from_slice(&block.weights[output * block.inputs..(output + 1) * block.inputs]);
            }
        }
        let transposed = NdTensorView::from_data([outputs, inner], joined.as_slice()).transposed();
        Product { packed: GemmExecutor::<f32>::new().prepack_b(transposed) }
    }

    /// The width of a row of the left operand.
    pub fn inputs(&self) -> usize {
        self.packed.rows()
    }

    /// The width of a row of the result.
    pub fn outputs(&self) -> usize {
        self.packed.cols()
    }

    /// Multiplies, and overwrites `out`, which holds a row of [`Product::outputs`] numbers for each row of `left`.
    pub fn run(&self, left: Rows<'_>, out: &mut [f32]) {
        if left.count == 0 {
            return;
        }
        let used = (left.count - 1) * left.stride + self.inputs();
        let left =
            NdTensorView::from_data_with_strides([left.count, self.inputs()], &left.data[..used], [left.stride, 1])
                .expect("the rows were cut to what the strides reach");
        // An executor is a choice of kernel and holds no memory, but can't be sent to another thread.
        GemmExecutor::<f32>::new()
            .gemm(out, GemmInputA::Unpacked(left), GemmInputB::Packed(&self.packed), GemmOptions::default())
            .expect("the operands have the sizes that the weights were packed for");
    }
}

impl fmt::Debug for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Product({} x {})", self.inputs(), self.outputs())
    }
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;
    use crate::workload::random;

    fn draw(n: usize, purpose: &str) -> Vec<f32> {
        let mut rng = random::stream(3, 0, purpose);
        (0..n).map(|_| rng.next_u32() as f32 / (1u64 << 31) as f32 - 1.0).collect()
    }

    #[test]
    fn a_row_has_the_same_bits_in_every_batch() {
        // Inner sizes around the blocks that the kernel cuts them into, and outputs beside the widths of its tiles.
        for (inputs, outputs) in [(1, 1), (7, 5), (64, 32), (70, 33), (300, 600), (257, 129), (1100, 47)] {
            let weights = draw(inputs * outputs, "weights");
            let product = Product::pack(outputs, &[Block { weights: &weights, inputs }]);
            let left = draw(512 * inputs, "left");
            let run = |rows: usize, from: usize, stride: usize| {
                let mut out = vec![f32::NAN; rows * outputs];
                product.run(Rows { data: &left[from..], stride, count: rows }, &mut out);
                out
            };
            let alone: Vec<Vec<f32>> = (0..512).map(|row| run(1, row * inputs, inputs)).collect();
            for rows in [1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 33, 64, 100, 512] {
                for (row, result) in run(rows, 0, inputs).chunks_exact(outputs).enumerate() {
                    assert!(same_bits(result, &alone[row]), "{inputs} x {outputs}: row {row} of {rows}");
                }
            }
            // Rows that lie apart, from an odd address.
            for (row, result) in run(100, inputs, 2 * inputs).chunks_exact(outputs).enumerate() {
                assert!(same_bits(result, &alone[1 + 2 * row]), "{inputs} x {outputs}: strided row {row}");
            }
        }
    }

    fn same_bits(a: &[f32], b: &[f32]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
    }

    #[test]
    fn blocks_stand_side_by_side_along_the_inputs() {
        let blocks = [Block { weights: &[1.0, 2.0, 3.0, 4.0], inputs: 2 }, Block { weights: &[5.0, 6.0], inputs: 1 }];
        let product = Product::pack(2, &blocks);
        assert_eq!((product.inputs(), product.outputs()), (3, 2));
        let mut out = [0.0; 2];
        product.run(Rows { data: &[1.0, 10.0, 100.0], stride: 3, count: 1 }, &mut out);
        assert_eq!(out, [521.0, 643.0]);
    }

    #[test]
    fn no_rows_are_no_work() {
        Product::pack(1, &[Block { weights: &[1.0], inputs: 1 }]).run(Rows { data: &[], stride: 1, count: 0 }, &mut []);
    }
}
