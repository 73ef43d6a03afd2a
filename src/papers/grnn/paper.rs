//! The paper's measurements, of a Titan V and of two processors with 12 cores each. All nine sizes: 100 steps, inputs
//! as wide as states.

use super::measured::{Measured, Size};
use crate::core::cost::grnn::RecurrentCell;
use crate::lab::plot::Bar;
use crate::lab::results::columns::name_of;
use crate::papers::Paper;
use crate::papers::lab::{Column, columns};

/// Of the state.
pub const WIDTHS: [u32; 3] = [64, 256, 1024];
pub const BATCHES: [u32; 3] = [1, 10, 20];
pub const STEPS: u32 = 100;

/// Section 8.5: name, layers, width and steps of two LSTM networks.
pub const NETWORKS: [(&str, u32, u32, u32); 2] = [
    ("Text classification", 2, 256, 20),
    ("CharRNN", 3, 128, 100),
];
/// Figure 15.
pub const NETWORK_BATCHES: [u32; 6] = [1, 4, 8, 12, 16, 20];

/// A system's name, and its milliseconds at the nine sizes: a row for each width, with a value for each batch.
pub type Times = (&'static str, [f64; 9]);

pub const PAPER: &str = "GRNN, paper";

/// Table 1: LSTM, the fastest of the model's first five mappings.
pub const LSTM: Times = (PAPER, [0.2, 0.23, 0.24, 0.3, 0.38, 0.49, 0.63, 4.3, 8.01]);
/// Table 1: DeepCPU, an LSTM.
pub const LSTM_CPU: Times = (
    "DeepCPU",
    [0.31, 1.1, 1.5, 0.74, 4.4, 6.4, 11.0, 42.0, 68.0],
);
/// Table 1: GRU, the fastest of the model's first five mappings.
pub const GRU: Times = (PAPER, [0.18, 0.19, 0.2, 0.28, 0.32, 0.43, 0.68, 3.16, 6.32]);

/// Table 1's times of a cell: GRNN's first, DeepCPU's last.
pub fn table_1(cell: RecurrentCell) -> &'static [Times] {
    match cell {
        RecurrentCell::Lstm => &[
            LSTM,
            (
                "cuDNN traditional",
                [0.96, 1.79, 1.8, 1.1, 1.89, 1.98, 4.43, 6.1, 8.51],
            ),
            (
                "cuDNN persistent",
                [0.19, 1.14, 2.24, 0.21, 1.28, 2.54, 1.22, 9.07, 18.42],
            ),
            LSTM_CPU,
        ],
        RecurrentCell::Gru => &[
            GRU,
            ("DeepCPU", [0.7, 1.1, 1.5, 0.9, 3.7, 5.4, 8.4, 36.0, 60.0]),
        ],
    }
}

/// Table 3: GRU, one synchronisation a step.
pub const SINGLE: Times = (
    "one, paper",
    [
        0.181, 0.186, 0.201, 0.275, 0.323, 0.431, 6.46, 64.76, 129.52,
    ],
);
/// Table 3: a GRU with two.
pub const DOUBLE: Times = (
    "two, paper",
    [0.28, 0.285, 0.307, 0.372, 0.411, 0.498, 0.683, 3.162, 6.324],
);

/// A mapping of Table 2. Tiles are of 32 by 2, the state has a width of 256, and the batch is 20.
pub struct PaperMapping {
    pub groups: u32,
    pub group_size: u32,
    pub ms: f64,
}

pub const MAPPINGS: [PaperMapping; 5] = [
    paper_mapping(128, 2, 0.57),
    paper_mapping(64, 4, 0.5),
    paper_mapping(32, 8, 0.5),
    paper_mapping(16, 16, 0.6),
    paper_mapping(8, 32, 0.93),
];

const fn paper_mapping(groups: u32, group_size: u32, ms: f64) -> PaperMapping {
    PaperMapping {
        groups,
        group_size,
        ms,
    }
}

/// The paper's cost and rank of one of the [`MAPPINGS`], which a claim states.
pub fn cost_and_rank(mapping: usize) -> [f64; 2] {
    let numbers = Paper::Grnn.value("grnn-table2").numbers();
    [numbers[2 * mapping], numbers[2 * mapping + 1]]
}

/// The Titan V's floating-point operations in a nanosecond (section 8.1).
pub const PEAK: f64 = 13_670.0;
/// DeepCPU's: 24 cores at 2.2 GHz, two vectors of 8 multiply-adds a cycle.
pub const PEAK_CPU: f64 = 24.0 * 2.2 * 32.0;

/// PCIe 3.0 x16, the bus of the Titan V and of the Xeon E3-1286 v3 beside it (section 8.1), in bytes per millisecond: 16
/// lanes of 8 GT/s, with 128 bits in every 130.
const BUS: f64 = 16.0 * 8e6 * 128.0 / 130.0 / 8.0;

/// Milliseconds of the way over the bus, which Table 1 includes (section 8.2): the inputs of all steps, and the states
/// after the last. With the outputs of all steps instead, batch 20 of width 256 would be faster than batch 1.
pub fn bus(place: usize) -> f64 {
    let Size {
        hidden,
        batch,
        steps,
        ..
    } = size(RecurrentCell::Lstm, place);
    4.0 * f64::from(hidden) * (f64::from(batch) * f64::from(steps + 1)) / BUS
}

/// At a place of the paper's tables.
pub fn size(cell: RecurrentCell, place: usize) -> Size {
    Size {
        cell,
        hidden: WIDTHS[place / 3],
        batch: BATCHES[place % 3],
        steps: STEPS,
    }
}

/// A series, by the places of its sizes.
pub fn column(name: impl Into<String>, value: impl Fn(usize) -> Option<f64>) -> Column {
    (name.into(), (0..9).map(value).collect())
}

/// A series that has all values.
pub fn full(name: impl Into<String>, value: impl Fn(usize) -> f64) -> Column {
    column(name, |place| Some(value(place)))
}

/// A panel for each width, a group for each batch.
pub fn by_size(panel: &str, series: &[Column]) -> Vec<Bar> {
    columns(
        &WIDTHS.map(|width| format!("{panel} of {width}")),
        &BATCHES,
        series,
    )
}

/// Bars of measured times. They stand apart from the paper's, because times of different GPUs are not comparable; the
/// drawing's title names the GPU. `of` converts milliseconds to the drawn value.
pub fn measured_by_size(
    own: &Measured,
    cell: RecurrentCell,
    panel: &str,
    of: impl Fn(usize, f64) -> f64,
) -> Vec<Bar> {
    let column = |series| {
        column(name_of(&series), |place| {
            Some(of(place, own.ms(series, size(cell, place))?))
        })
    };
    let series: Vec<Column> = own.series(cell).map(column).collect();
    by_size(panel, &series)
}
