//! The paper's measurements, of a Titan V and of two processors with 12 cores each. All nine sizes: 100 steps, inputs
//! as wide as states.

use super::measured::{Measured, Size};
use crate::cost::grnn::Cell;
use crate::error::Result;
use crate::papers::lab::{bars, group};
use crate::plot::{Bars, Field};

/// Of the state.
pub const WIDTHS: [u32; 3] = [64, 256, 1024];
pub const BATCHES: [u32; 3] = [1, 10, 20];
pub const STEPS: u32 = 100;

/// Milliseconds by width and batch.
pub type Grid = [[f64; 3]; 3];

/// Table 1: LSTM, the fastest of the model's first five mappings.
pub const LSTM: Grid = [[0.2, 0.23, 0.24], [0.3, 0.38, 0.49], [0.63, 4.3, 8.01]];
/// Table 1: cuDNN's traditional kernels.
const TRADITIONAL: Grid = [[0.96, 1.79, 1.8], [1.1, 1.89, 1.98], [4.43, 6.1, 8.51]];
/// Table 1: cuDNN's persistent kernels.
const PERSISTENT: Grid = [[0.19, 1.14, 2.24], [0.21, 1.28, 2.54], [1.22, 9.07, 18.42]];
/// Table 1: DeepCPU, an LSTM.
pub const LSTM_CPU: Grid = [[0.31, 1.1, 1.5], [0.74, 4.4, 6.4], [11.0, 42.0, 68.0]];
/// Table 1: GRU, the fastest of the model's first five mappings.
pub const GRU: Grid = [[0.18, 0.19, 0.2], [0.28, 0.32, 0.43], [0.68, 3.16, 6.32]];
/// Table 1: DeepCPU, a GRU.
const GRU_CPU: Grid = [[0.7, 1.1, 1.5], [0.9, 3.7, 5.4], [8.4, 36.0, 60.0]];

pub const PAPER: &str = "GRNN, paper";

/// Table 1's times of a cell: GRNN's first, DeepCPU's last.
pub fn series(cell: Cell) -> &'static [(&'static str, Grid)] {
    match cell {
        Cell::Lstm => &[
            (PAPER, LSTM),
            ("cuDNN traditional", TRADITIONAL),
            ("cuDNN persistent", PERSISTENT),
            ("DeepCPU", LSTM_CPU),
        ],
        Cell::Gru => &[(PAPER, GRU), ("DeepCPU", GRU_CPU)],
    }
}

/// Table 3: GRU, one synchronisation a step.
pub const SINGLE: Grid = [[0.181, 0.186, 0.201], [0.275, 0.323, 0.431], [6.46, 64.76, 129.52]];
/// Table 3: a GRU with two.
pub const DOUBLE: Grid = [[0.28, 0.285, 0.307], [0.372, 0.411, 0.498], [0.683, 3.162, 6.324]];

/// Table 2: work groups, their size, milliseconds, cost and rank; tiles of 32 by 2, state 256, batch 20.
pub const MAPPINGS: [(u32, u32, f64, f64, f64); 5] = [
    (128, 2, 0.57, 449.0, 17.0),
    (64, 4, 0.5, 322.0, 3.0),
    (32, 8, 0.5, 252.0, 1.0),
    (16, 16, 0.6, 443.0, 14.0),
    (8, 32, 0.93, 561.0, 35.0),
];

/// The Titan V's floating-point operations in a nanosecond (section 8.1).
pub const PEAK: f64 = 13_670.0;
/// DeepCPU's: 24 cores at 2.2 GHz, two vectors of 8 multiply-adds a cycle.
pub const PEAK_CPU: f64 = 24.0 * 2.2 * 32.0;

/// PCIe 3.0 x16, the bus of the Titan V and of the Xeon E3-1286 v3 beside it (section 8.1), in bytes per millisecond: 16
/// lanes of 8 GT/s, with 128 bits in every 130.
pub const BUS: f64 = 16.0 * 8e6 * 128.0 / 130.0 / 8.0;

/// Milliseconds of the way over the bus, which Table 1 includes (section 8.2): the inputs of all steps, and the states
/// after the last. With the outputs of all steps instead, batch 20 of width 256 would be faster than batch 1.
pub fn bus(w: usize, b: usize) -> f64 {
    let rows = f64::from(BATCHES[b]) * f64::from(STEPS + 1);
    4.0 * f64::from(WIDTHS[w]) * rows / BUS
}

/// A panel for each width, a group for each batch. `values` returns each series' value at the places of width and
/// batch.
pub fn by_size(
    [title, value, panel]: [&str; 3],
    series: Vec<String>,
    values: impl Fn(usize, usize) -> Result<Vec<Option<f64>>>,
) -> Result<Bars> {
    let mut fields = Vec::new();
    for (w, width) in WIDTHS.into_iter().enumerate() {
        let of_batch = |(b, batch): (usize, u32)| Ok(group(batch, values(w, b)?));
        let groups = BATCHES.into_iter().enumerate().map(of_batch).collect::<Result<_>>()?;
        fields.push(Field { name: format!("{panel} of {width}"), groups });
    }
    Ok(bars([title, "Batch", value], series, fields))
}

/// Apart from the paper's, because times of different GPUs are not comparable. `of` converts milliseconds to the
/// drawn value.
pub fn measured_by_size(
    own: &Measured,
    cell: Cell,
    [title, value, panel]: [&str; 3],
    of: impl Fn(usize, usize, f64) -> f64,
) -> Result<Bars> {
    by_size([&format!("{title}, {}", own.short()), value, panel], own.labels(cell), |w, b| {
        Ok(own.times(size(cell, w, b)).into_iter().map(|ms| ms.map(|ms| of(w, b, ms))).collect())
    })
}

pub fn names<'a>(series: impl IntoIterator<Item = &'a &'a str>) -> Vec<String> {
    series.into_iter().map(ToString::to_string).collect()
}

/// At these places of the paper's tables.
pub fn size(cell: Cell, w: usize, b: usize) -> Size {
    Size { cell, hidden: WIDTHS[w], batch: BATCHES[b], steps: STEPS }
}
