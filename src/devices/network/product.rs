use std::fmt;
use std::ops::Range;

use rten_gemm::{GemmExecutor, GemmInputA, GemmInputB, GemmOptions, PackedBMatrix};
use rten_tensor::NdTensorView;

use super::first;
use super::huge_pages::HugePages;
#[cfg(target_arch = "x86_64")]
use super::row_tiles::RowTiles;

/// The number of columns of a panel, whose result for some hundred rows stays in a core's cache. Tests use a smaller
/// number, so that small networks are cut too.
const COLUMNS: usize = if cfg!(test) { 64 } else { 512 };

/// A panel's units are a multiple of this, to fill the kernel's tiles.
const STEP: usize = 32;

/// Weights packed once, multiplied with batches of rows from the left.
///
/// A panel has all gates of some units, so that its result suffices to compute them. A row of the result has the same
/// bits in every batch, since with packed weights both kernels sum in one order.
pub struct PackedWeights {
    pub inputs: usize,
    /// The panels in the order of their units. Products with equal numbers of gates and units are cut in the same way.
    pub panels: Vec<Panel>,
}

/// The columns of a product that belong to some units.
pub struct Panel {
    units: Range<usize>,
    weights: Packed,
}

/// Weights for one kernel: ours where the processor has AVX-512, otherwise the library's.
enum Packed {
    #[cfg(target_arch = "x86_64")]
    Tiles(RowTiles),
    Library(PackedBMatrix<f32>),
}

/// A function that packs rows of weights: one row for each column of the result, and one number for each input.
type Pack = fn(&HugePages, usize, &[f32]) -> Packed;

/// Weights in PyTorch's layout: a row for each output, gate after gate, `inputs` numbers wide.
#[derive(Clone, Copy)]
pub struct Block<'a> {
    pub weights: &'a [f32],
    pub inputs: usize,
}

/// The left operand: rows whose beginnings are `stride` numbers apart.
#[derive(Clone, Copy)]
pub struct MatrixRows<'a> {
    pub data: &'a [f32],
    pub stride: usize,
    pub count: usize,
}

impl PackedWeights {
    /// Packs blocks that share their outputs, `units` for each gate. A left row has the inputs of the blocks in order.
    pub fn pack(gates: usize, units: usize, blocks: &[Block<'_>]) -> PackedWeights {
        PackedWeights::pack_with(Packed::new, gates, units, blocks)
    }

    fn pack_with(pack: Pack, gates: usize, units: usize, blocks: &[Block<'_>]) -> PackedWeights {
        let inputs = blocks.iter().map(|block| block.inputs).sum();
        let count = ((gates * units + COLUMNS / 2) / COLUMNS).max(1);
        let width = units.div_ceil(count).next_multiple_of(STEP);
        let memory = HugePages::default();
        let mut joined = Vec::with_capacity(gates * width * inputs);
        let panels = (0..units).step_by(width).map(|from| {
            let to = units.min(from + width);
            joined.clear();
            for output in (0..gates).flat_map(|gate| gate * units + from..gate * units + to) {
                for block in blocks {
                    joined.extend_from_slice(
                        &block.weights[output * block.inputs..(output + 1) * block.inputs],
                    );
                }
            }
            Panel {
                units: from..to,
                weights: pack(&memory, inputs, &joined),
            }
        });
        let panels = panels.collect();
        memory.move_there();
        PackedWeights { inputs, panels }
    }
}

impl Panel {
    pub fn units(&self) -> Range<usize> {
        self.units.clone()
    }

    /// Multiplies the left rows. A row of the result has the sums of the panel's units, gate after gate.
    pub fn multiply<'a>(&self, left: MatrixRows<'_>, result: &'a mut Vec<f32>) -> &'a [f32] {
        match &self.weights {
            #[cfg(target_arch = "x86_64")]
            Packed::Tiles(tiles) => {
                let result = first(result, left.count * tiles.columns());
                tiles.multiply(left, result);
                result
            }
            Packed::Library(weights) => gemm(
                left,
                weights.rows(),
                GemmInputB::Packed(weights),
                weights.cols(),
                result,
            ),
        }
    }
}

impl Packed {
    fn new(memory: &HugePages, inputs: usize, rows: &[f32]) -> Packed {
        #[cfg(target_arch = "x86_64")]
        if RowTiles::available() {
            return Packed::Tiles(RowTiles::pack(memory, inputs, rows));
        }
        Packed::library(memory, inputs, rows)
    }

    fn library(memory: &HugePages, inputs: usize, rows: &[f32]) -> Packed {
        let weights = NdTensorView::from_data([rows.len() / inputs, inputs], rows).transposed();
        Packed::Library(GemmExecutor::<f32>::new().prepack_b_in(memory, weights))
    }
}

/// Multiplies two matrices that are used once. With two rows or more, an element's bits do not depend on its neighbours
/// or on zeros at the end of the inner dimension, since the kernel sums blocks of a fixed depth in order.
pub fn multiply<'a>(
    left: MatrixRows<'_>,
    inputs: usize,
    right: &[f32],
    columns: usize,
    result: &'a mut Vec<f32>,
) -> &'a [f32] {
    debug_assert!(left.count > 1, "a single row has other bits");
    let right = GemmInputB::Unpacked(NdTensorView::from_data([inputs, columns], right));
    gemm(left, inputs, right, columns, result)
}

fn gemm<'a>(
    left: MatrixRows<'_>,
    inputs: usize,
    right: GemmInputB<'_, f32>,
    columns: usize,
    result: &'a mut Vec<f32>,
) -> &'a [f32] {
    let result = first(result, left.count * columns);
    if left.count > 0 {
        let used = (left.count - 1) * left.stride + inputs;
        let left = NdTensorView::from_data_with_strides(
            [left.count, inputs],
            &left.data[..used],
            [left.stride, 1],
        )
        .expect("the rows were cut to what the strides reach");
        // An executor is made for each product: it holds no memory, but can't be sent to another thread.
        GemmExecutor::<f32>::new()
            .gemm(
                result,
                GemmInputA::Unpacked(left),
                right,
                GemmOptions::default(),
            )
            .expect("the operands have matching sizes");
    }
    result
}

impl fmt::Debug for PackedWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = self.panels.last().map_or(0, |panel| panel.units.end);
        write!(
            f,
            "Product({} x {units} units in {} panels)",
            self.inputs,
            self.panels.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;
    use crate::core::workload::random;

    fn draw(n: usize, purpose: &str) -> Vec<f32> {
        let mut rng = random::sequence(3, 0, purpose);
        (0..n)
            .map(|_| rng.next_u32() as f32 / (1u64 << 31) as f32 - 1.0)
            .collect()
    }

    /// Multiplies, and returns whole rows of the result, gate after gate.
    fn run(
        product: &PackedWeights,
        gates: usize,
        units: usize,
        left: MatrixRows<'_>,
    ) -> Vec<Vec<f32>> {
        let mut rows = vec![vec![f32::NAN; gates * units]; left.count];
        let mut memory = vec![f32::NAN; 3];
        for panel in &product.panels {
            memory.fill(f32::NAN);
            let width = panel.units().len();
            let result = panel.multiply(left, &mut memory);
            assert_eq!(result.len(), left.count * gates * width);
            for (row, result) in rows.iter_mut().zip(result.chunks_exact(gates * width)) {
                for (row, result) in row.chunks_exact_mut(units).zip(result.chunks_exact(width)) {
                    row[panel.units()].copy_from_slice(result);
                }
            }
        }
        rows
    }

    #[test]
    fn a_row_has_the_same_bits_in_every_batch() {
        // The inner sizes are around the kernel's blocks, the outputs around its tiles, in one panel and in several.
        let sizes = [
            (1, 1, 1),
            (7, 1, 5),
            (64, 4, 8),
            (70, 3, 11),
            (300, 4, 150),
            (257, 1, 129),
            (1100, 1, 47),
            (40, 5, 333),
        ];
        for (inputs, gates, units) in sizes {
            let weights = draw(inputs * gates * units, "weights");
            let left = draw(512 * inputs, "left");
            let rows_of = |pack: Pack| {
                let product = PackedWeights::pack_with(
                    pack,
                    gates,
                    units,
                    &[Block {
                        weights: &weights,
                        inputs,
                    }],
                );
                let run = |rows: usize, from: usize, stride: usize| {
                    run(
                        &product,
                        gates,
                        units,
                        MatrixRows {
                            data: &left[from..],
                            stride,
                            count: rows,
                        },
                    )
                };
                let alone: Vec<Vec<f32>> = (0..512)
                    .map(|row| run(1, row * inputs, inputs).remove(0))
                    .collect();
                for rows in (1..18).chain([28, 29, 33, 64, 100, 512]) {
                    for (row, result) in run(rows, 0, inputs).iter().enumerate() {
                        assert!(
                            same_bits(result, &alone[row]),
                            "{inputs} x {gates} x {units}: row {row} of {rows}"
                        );
                    }
                }
                for (row, result) in run(100, inputs, 2 * inputs).iter().enumerate() {
                    assert!(
                        same_bits(result, &alone[1 + 2 * row]),
                        "{inputs} x {gates} x {units}: strided row {row}"
                    );
                }
                alone
            };
            let own = rows_of(Packed::new);
            let library = rows_of(Packed::library);
            // This is much more than rounding, and much less than a product that is missing or counted twice.
            let most = 4.0 * inputs as f32 * f32::EPSILON;
            for (own, library) in own.iter().flatten().zip(library.iter().flatten()) {
                assert!(
                    (own - library).abs() <= most,
                    "{inputs} x {gates} x {units}: {own} and {library}"
                );
            }
        }
    }

    fn same_bits(a: &[f32], b: &[f32]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
    }

    #[test]
    fn zeros_around_two_matrices_change_no_bit() {
        for (rows, inner, columns) in [
            (2, 1, 1),
            (3, 7, 5),
            (5, 40, 17),
            (40, 16, 40),
            (9, 255, 3),
            (64, 257, 33),
            (2, 600, 70),
        ] {
            let left = draw(rows * inner, "left");
            let right = draw(inner * columns, "right");
            let mut memory = Vec::new();
            let own = multiply(
                MatrixRows {
                    data: &left,
                    stride: inner,
                    count: rows,
                },
                inner,
                &right,
                columns,
                &mut memory,
            );
            let own = own.to_vec();
            for more in [1, 3, 30, 300] {
                let padded = |numbers: &[f32], width: usize| -> Vec<f32> {
                    let rows = numbers
                        .chunks_exact(width)
                        .flat_map(|row| row.iter().copied().chain(vec![0.0; more]));
                    rows.chain(vec![0.0; more * (width + more)]).collect()
                };
                let left = padded(&left, inner);
                let right = padded(&right, columns);
                let left = MatrixRows {
                    data: &left,
                    stride: inner + more,
                    count: rows + more,
                };
                let mut memory = vec![f32::NAN; 3];
                let result = multiply(left, inner + more, &right, columns + more, &mut memory);
                for (result, own) in result
                    .chunks_exact(columns + more)
                    .zip(own.chunks_exact(columns))
                {
                    assert!(
                        same_bits(&result[..columns], own),
                        "{rows} x {inner} x {columns}, {more} more"
                    );
                }
            }
        }
    }

    #[test]
    fn panels_are_columns_of_the_whole() {
        let inputs = 3;
        let gates = 4;
        let units = 300;
        let weights: Vec<f32> = (0..gates * units * inputs).map(|i| i as f32).collect();
        let product = PackedWeights::pack(
            gates,
            units,
            &[Block {
                weights: &weights,
                inputs,
            }],
        );
        assert!(product.panels.len() > 1);
        // Each row picks one input, so that the result is a column of the weights.
        let left = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
        for (input, row) in run(
            &product,
            gates,
            units,
            MatrixRows {
                data: &left,
                stride: 3,
                count: 3,
            },
        )
        .iter()
        .enumerate()
        {
            assert!(
                row.iter()
                    .copied()
                    .eq(weights.iter().skip(input).step_by(inputs).copied())
            );
        }
    }

    #[test]
    fn blocks_stand_side_by_side_along_the_inputs() {
        let blocks = [
            Block {
                weights: &[1.0, 2.0, 3.0, 4.0],
                inputs: 2,
            },
            Block {
                weights: &[5.0, 6.0],
                inputs: 1,
            },
        ];
        let product = PackedWeights::pack(2, 1, &blocks);
        assert_eq!(product.inputs, 3);
        assert_eq!(
            run(
                &product,
                2,
                1,
                MatrixRows {
                    data: &[1.0, 10.0, 100.0],
                    stride: 3,
                    count: 1
                }
            ),
            [[521.0, 643.0]]
        );
    }

    #[test]
    fn no_rows_are_no_work() {
        let product = PackedWeights::pack(
            1,
            1,
            &[Block {
                weights: &[1.0],
                inputs: 1,
            }],
        );
        assert!(
            run(
                &product,
                1,
                1,
                MatrixRows {
                    data: &[],
                    stride: 1,
                    count: 0
                }
            )
            .is_empty()
        );
    }
}
