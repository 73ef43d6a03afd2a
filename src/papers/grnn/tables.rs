//! The paper's measurements, of a Titan V and of two processors with 12 cores each.
//!
//! All nine sizes have 100 steps and inputs as wide as states. A place is the number of a size, from 0 to 8.

use super::measured::{GpuTimes, SequenceSize};
use crate::core::cost::grnn::RecurrentCell;
use crate::lab::plot::Bar;
use crate::papers::paper::Paper;
use crate::papers::study::{BarSeries, bars_by_panel};

/// The widths of the state.
pub const WIDTHS: [u32; 3] = [64, 256, 1024];
pub const BATCHES: [u32; 3] = [1, 10, 20];
pub const STEPS: u32 = 100;

/// An LSTM network of several layers.
#[derive(Clone, Copy)]
pub struct RnnNetwork {
    pub name: &'static str,
    pub layers: u32,
    pub width: u32,
    pub steps: u32,
}

/// The networks of section 8.5.
pub const NETWORKS: [RnnNetwork; 2] = [
    RnnNetwork {
        name: "Text classification",
        layers: 2,
        width: 256,
        steps: 20,
    },
    RnnNetwork {
        name: "CharRNN",
        layers: 3,
        width: 128,
        steps: 100,
    },
];
/// The batches of Figure 15.
pub const NETWORK_BATCHES: [u32; 6] = [1, 4, 8, 12, 16, 20];

/// A system's name, and its milliseconds at the nine sizes: three for each width, one for each batch.
pub type PaperTimes = (&'static str, [f64; 9]);

pub const PAPER: &str = "GRNN, paper";

/// Table 1: an LSTM with the fastest of the model's first five mappings.
pub const LSTM: PaperTimes = (PAPER, [0.2, 0.23, 0.24, 0.3, 0.38, 0.49, 0.63, 4.3, 8.01]);
/// Table 1: an LSTM of DeepCPU.
pub const LSTM_CPU: PaperTimes = (
    "DeepCPU",
    [0.31, 1.1, 1.5, 0.74, 4.4, 6.4, 11.0, 42.0, 68.0],
);
/// Table 1: a GRU with the fastest of the model's first five mappings.
pub const GRU: PaperTimes = (PAPER, [0.18, 0.19, 0.2, 0.28, 0.32, 0.43, 0.68, 3.16, 6.32]);

/// Table 1's times of a cell: GRNN's first, DeepCPU's last.
pub fn table_1(cell: RecurrentCell) -> &'static [PaperTimes] {
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

/// Table 3: a GRU with one synchronisation a step.
pub const SINGLE: PaperTimes = (
    "one, paper",
    [
        0.181, 0.186, 0.201, 0.275, 0.323, 0.431, 6.46, 64.76, 129.52,
    ],
);
/// Table 3: a GRU with two synchronisations a step.
pub const DOUBLE: PaperTimes = (
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
/// The operations of DeepCPU's processors in a nanosecond: 24 cores at 2.2 GHz, two vectors of 8 multiply-adds a cycle.
pub const PEAK_CPU: f64 = 24.0 * 2.2 * 32.0;
/// DeepCPU's mean share of the peak of its processors, in percent (section 8.2).
pub const DEEP_CPU_SHARE: f64 = 12.6;

/// PCIe 3.0 x16, the bus between the Titan V and the Xeon E3-1286 v3 (section 8.1), in bytes per millisecond: 16 lanes
/// of 8 GT/s, with 128 bits in every 130.
const BUS: f64 = 16.0 * 8e6 * 128.0 / 130.0 / 8.0;

/// The milliseconds of the way over the bus, which Table 1 includes (section 8.2): the inputs of all steps, and the
/// states after the last. With the outputs of all steps instead, batch 20 of width 256 would be faster than batch 1.
pub fn bus_ms(place: usize) -> f64 {
    let size = size(RecurrentCell::Lstm, place);
    let vectors = f64::from(size.batch) * f64::from(size.steps + 1);
    4.0 * f64::from(size.hidden) * vectors / BUS
}

/// The size at a place of the paper's tables.
pub fn size(cell: RecurrentCell, place: usize) -> SequenceSize {
    SequenceSize {
        cell,
        hidden: WIDTHS[place / 3],
        batch: BATCHES[place % 3],
        steps: STEPS,
    }
}

/// A series with a value for each place, where one is known.
pub fn series(name: impl Into<String>, value: impl Fn(usize) -> Option<f64>) -> BarSeries {
    (name.into(), (0..9).map(value).collect())
}

/// A series that has all values.
pub fn full_series(name: impl Into<String>, value: impl Fn(usize) -> f64) -> BarSeries {
    series(name, |place| Some(value(place)))
}

/// The series of a system in the paper.
pub fn paper_series(&(name, times): &PaperTimes) -> BarSeries {
    full_series(name, |place| times[place])
}

/// The bars of series in a panel for each width, with a group for each batch.
pub fn bars_by_size(panel: &str, series: &[BarSeries]) -> Vec<Bar> {
    let panels = WIDTHS.map(|width| format!("{panel} of {width}"));
    bars_by_panel(&panels, &BATCHES, series)
}

/// The bars of measured times. They have a drawing of their own, because times of different GPUs are not comparable;
/// the drawing's title names the GPU. `convert` makes the drawn value of a place and its milliseconds.
pub fn measured_bars(
    measured: &GpuTimes,
    cell: RecurrentCell,
    panel: &str,
    convert: impl Fn(usize, f64) -> f64,
) -> Vec<Bar> {
    let mut all = Vec::new();
    for system in measured.systems(cell) {
        all.push(series(system.name(), |place| {
            let ms = measured.ms(system, size(cell, place))?;
            Some(convert(place, ms))
        }));
    }
    bars_by_size(panel, &all)
}
