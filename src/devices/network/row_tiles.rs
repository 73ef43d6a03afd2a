//! Products of a batch and packed weights on AVX-512, in tiles of 1 to 14 rows.
//!
//! The library's tiles have six rows, so its times are a staircase: seven rows cost as much as twelve. Here the rows
//! are split evenly over as few tiles as possible. An element of the result is one chain of fused additions along the
//! inputs, so its bits do not depend on the batch.

use std::arch::x86_64::{
    __mmask16, _MM_HINT_T0, _mm_prefetch, _mm512_fmadd_ps, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps,
};

use rten_tensor::storage::Alloc;

use super::huge_pages::HugePages;
use super::product::MatrixRows;

/// The number of elements in a vector.
const LANES: usize = 16;
/// The columns of a strip of weights, which has a row for each input.
const STRIP: usize = 2 * LANES;
/// The rows of the highest tile, whose sums take 28 of the 32 registers.
const HIGHEST: usize = TILES.len();
/// The inputs of a block. Its part of a strip stays in a core's second cache while the tiles pass over it.
const DEPTH: usize = 512;
/// The distance, in vectors of weights, at which the first tile fetches ahead: 16 KiB, for weights in main memory.
const FAR_AHEAD: usize = 256;
/// The same distance for the other tiles, whose weights are in the second cache. A larger one would push the left rows
/// out of the first cache.
const AHEAD: usize = 32;

/// For each height of a tile, the function that computes it, and the number of strips at once. Few rows need several
/// strips for enough independent sums.
const TILES: [(TileFunction, usize); 14] = [
    (tile::<1, 8>, 4),
    (tile::<2, 4>, 2),
    (tile::<3, 4>, 2),
    (tile::<4, 2>, 1),
    (tile::<5, 2>, 1),
    (tile::<6, 2>, 1),
    (tile::<7, 2>, 1),
    (tile::<8, 2>, 1),
    (tile::<9, 2>, 1),
    (tile::<10, 2>, 1),
    (tile::<11, 2>, 1),
    (tile::<12, 2>, 1),
    (tile::<13, 2>, 1),
    (tile::<14, 2>, 1),
];

type TileFunction = unsafe fn(Operands, usize, bool);

/// Weights, strip after strip. The last strip is filled up with zeros.
pub struct RowTiles {
    inputs: usize,
    columns: usize,
    weights: Vec<f32>,
}

/// The corners of a tile: where its rows, its weights and its sums begin, and how far apart rows and strips are.
#[derive(Clone, Copy)]
struct Operands {
    left: *const f32,
    left_stride: usize,
    weights: *const f32,
    strip_stride: usize,
    result: *mut f32,
    result_stride: usize,
    columns: usize,
    /// The distance, in vectors of weights, at which weights are fetched ahead.
    ahead: usize,
}

impl RowTiles {
    pub fn available() -> bool {
        is_x86_feature_detected!("avx512f")
    }

    /// Packs rows of weights: one row for each column of the result, `inputs` wide. The processor must have AVX-512.
    pub fn pack(memory: &HugePages, inputs: usize, rows: &[f32]) -> RowTiles {
        assert!(RowTiles::available(), "the processor has no AVX-512");
        assert_eq!(rows.len() % inputs, 0);
        let columns = rows.len() / inputs;
        let mut weights = memory.alloc(columns.next_multiple_of(STRIP) * inputs);
        for strip in rows.chunks(STRIP * inputs) {
            for input in 0..inputs {
                let row = strip.iter().skip(input).step_by(inputs).copied();
                weights.extend(row.chain(std::iter::repeat(0.0)).take(STRIP));
            }
        }
        RowTiles {
            inputs,
            columns,
            weights,
        }
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Writes a row of `columns` sums for each left row to `result`.
    pub fn multiply(&self, left: MatrixRows<'_>, result: &mut [f32]) {
        let inputs = self.inputs;
        let columns = self.columns;
        assert_eq!(
            result.len(),
            left.count * columns,
            "the result has a row for each left row"
        );
        let Some(above) = left.count.checked_sub(1) else {
            return;
        };
        assert!(
            left.data.len() >= above * left.stride + inputs,
            "the last left row ends within the data"
        );
        let tiles = left.count.div_ceil(HIGHEST);
        let at_once = TILES[left.count.div_ceil(tiles) - 1].1;
        let mut column = 0;
        while column < columns {
            let width = (at_once * STRIP).min(columns - column);
            for from in (0..inputs).step_by(DEPTH) {
                let depth = DEPTH.min(inputs - from);
                let mut row = 0;
                for tile in 0..tiles {
                    let height = (left.count - row).div_ceil(tiles - tile);
                    // SAFETY: the assertions above ensure that rows `row..row + height` have inputs
                    // `from..from + depth` on the left and columns `column..column + width` in the result. The strips
                    // of these columns have all inputs.
                    unsafe {
                        let operands = Operands {
                            left: left.data.as_ptr().add(row * left.stride + from),
                            left_stride: left.stride,
                            weights: self.weights.as_ptr().add(column * inputs + from * STRIP),
                            strip_stride: inputs * STRIP,
                            result: result.as_mut_ptr().add(row * columns + column),
                            result_stride: columns,
                            columns: width,
                            ahead: if tile == 0 { FAR_AHEAD } else { AHEAD },
                        };
                        TILES[height - 1].0(operands, depth, from == 0);
                    }
                    row += height;
                }
            }
            column += width;
        }
    }
}

/// Adds the products of some inputs to the sums of `M` rows, whose columns are in `V` vectors. With `is_first`, the
/// sums begin with zeros.
///
/// # Safety
///
/// The processor has AVX-512. There are `M` rows on the left with `inputs` numbers, `M` rows with `columns` numbers in
/// the result, at most `V` vectors wide, and a strip with `inputs` rows for each pair of vectors that has columns.
#[target_feature(enable = "avx512f")]
unsafe fn tile<const M: usize, const V: usize>(at: Operands, inputs: usize, is_first: bool) {
    // Vectors without a column read the last strip again.
    let strips = at.columns.div_ceil(STRIP);
    let weights: [*const f32; V] =
        // SAFETY: the strip exists.
        std::array::from_fn(|v| unsafe { at.weights.add((v / 2).min(strips - 1) * at.strip_stride + v % 2 * LANES) });
    let masks: [__mmask16; V] = std::array::from_fn(|v| {
        let lanes = at.columns.saturating_sub(v * LANES).min(LANES);
        ((1_u32 << lanes) - 1) as __mmask16
    });
    let mut sums = [[_mm512_setzero_ps(); V]; M];
    if !is_first {
        for (row, sums) in sums.iter_mut().enumerate() {
            for (v, sum) in sums.iter_mut().enumerate() {
                // SAFETY: lanes outside of the mask are not read.
                *sum = unsafe {
                    _mm512_maskz_loadu_ps(
                        masks[v],
                        at.result.wrapping_add(row * at.result_stride + v * LANES),
                    )
                };
            }
        }
    }
    for input in 0..inputs {
        let weights: [_; V] = std::array::from_fn(|v| {
            let weights = weights[v].wrapping_add(input * STRIP);
            _mm_prefetch::<_MM_HINT_T0>(weights.wrapping_add(at.ahead / V * STRIP).cast());
            // SAFETY: the strip has a row for each input.
            unsafe { _mm512_maskz_loadu_ps(!0, weights) }
        });
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the row has as many numbers as there are inputs.
            let left = _mm512_set1_ps(unsafe { *at.left.add(row * at.left_stride + input) });
            for (sum, weights) in sums.iter_mut().zip(weights) {
                *sum = _mm512_fmadd_ps(left, weights, *sum);
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        for (v, sum) in sums.iter().enumerate() {
            // SAFETY: lanes outside of the mask are not written.
            unsafe {
                _mm512_mask_storeu_ps(
                    at.result.wrapping_add(row * at.result_stride + v * LANES),
                    masks[v],
                    *sum,
                )
            };
        }
    }
}
