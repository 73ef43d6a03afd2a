//! GRNN (*GRNN: Low-Latency and Scalable RNN Inference on GPUs*, EuroSys'19).
//!
//! What the model says stands everywhere beside the paper's figures, and what was measured on a GPU beside both, where there is a file of it.

mod claims;
mod figures;
mod grid;
pub mod measured;
mod model;
mod paper;
pub mod sheet;
mod tables;

pub use claims::CLAIMS;

use super::Exhibit;
use super::lab::{Lab, Study};
use crate::error::{Error, Result};

/// The figures and tables. The others are drawings.
pub const EXHIBITS: &[Exhibit] = &[
    Exhibit::study(
        "table1",
        "Table 1",
        "Latency of LSTM and GRU with 100 steps on a Titan V, as the model has it and as the paper measured it",
    ),
    Exhibit::study("table2", "Table 2", "Cost, rank and latency of five mappings, LSTM of 256 with batch 20"),
    Exhibit::study("table3", "Table 3", "GRU with one synchronisation a step and with two: costs and latencies"),
    Exhibit::study(
        "fig3",
        "Figure 3",
        "Latency of an LSTM before GRNN: traditional kernels by the data sheet, beside what the paper measured of libraries",
    ),
    Exhibit::study("fig11", "Figure 11", "Speed-up of an LSTM over DeepCPU"),
    Exhibit::study("fig12", "Figure 12", "Speed-up of a GRU over DeepCPU"),
    Exhibit::study("fig13", "Figure 13", "Share of the peak throughput that an LSTM reaches"),
    Exhibit::study(
        "fig14",
        "Figure 14",
        "Costs of mappings against the least, by the model: the fifth, the median and the last of those that are valid",
    ),
    Exhibit::study(
        "fig15",
        "Figure 15",
        "Latency of a text classifier and of a character-level language model, by batch",
    ),
];

/// Works an exhibit out.
///
/// # Errors
/// None that a released file causes.
pub fn carry_out(name: &str, lab: &Lab<'_>) -> Result<Study> {
    let (model, own) = (model::Model::new()?, lab.measured);
    match name {
        "table1" => tables::latencies(&model, own),
        "table2" => tables::mappings(&model, own),
        "table3" => tables::synchronisations(&model, own),
        "fig3" => figures::libraries(&model, own),
        "fig11" => figures::lstm_over_cpu(&model, own),
        "fig12" => figures::gru_over_cpu(&model, own),
        "fig13" => figures::throughput(&model, own),
        "fig14" => figures::spread(&model, own),
        "fig15" => figures::networks(&model, own),
        _ => Err(Error::failed(format!("{name} is no study"))),
    }
}
