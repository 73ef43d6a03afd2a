//! GRNN (*GRNN: Low-Latency and Scalable RNN Inference on GPUs*, EuroSys'19).
//!
//! What the model says stands everywhere beside the paper's figures. Times of a GPU are not among them: their columns are empty.

mod claims;
mod figures;
mod model;
mod paper;
mod tables;

pub use claims::CLAIMS;

use super::lab::{Lab, Study};
use super::{Exhibit, Made};
use crate::error::{Error, Result};
use crate::plot::bars::{Bar, Group};

/// The figures and tables. The others are drawings.
pub const EXHIBITS: &[Exhibit] = &[
    study(
        "table1",
        "Table 1",
        "Latency of LSTM and GRU with 100 steps on a Titan V, as the model has it and as the paper measured it",
    ),
    study("table2", "Table 2", "Cost, rank and latency of five mappings, LSTM of 256 with batch 20"),
    study("table3", "Table 3", "GRU with one synchronisation a step and with two: costs and latencies"),
    study(
        "fig3",
        "Figure 3",
        "Latency of an LSTM before GRNN: traditional kernels by the data sheet, beside what the paper measured of libraries",
    ),
    study("fig11", "Figure 11", "Speed-up of an LSTM over DeepCPU"),
    study("fig12", "Figure 12", "Speed-up of a GRU over DeepCPU"),
    study("fig13", "Figure 13", "Share of the peak throughput that an LSTM reaches"),
    study(
        "fig14",
        "Figure 14",
        "Costs of mappings against the least, by the model: the fifth, the median and the last of those that are valid",
    ),
    study("fig15", "Figure 15", "Latency of a text classifier and of a character-level language model, by batch"),
];

const fn study(name: &'static str, place: &'static str, shows: &'static str) -> Exhibit {
    Exhibit { name, place, shows, made: Made::Study }
}

/// Works an exhibit out, draws it and writes its numbers down.
///
/// # Errors
/// A file that can't be written.
pub fn carry_out(name: &str, lab: &Lab<'_>) -> Result<Study> {
    let model = model::Model::new()?;
    let mut study = match name {
        "table1" => tables::latencies(&model),
        "table2" => tables::mappings(&model),
        "table3" => tables::synchronisations(&model),
        "fig3" => figures::libraries(&model),
        "fig11" => figures::lstm_over_cpu(&model),
        "fig12" => figures::gru_over_cpu(&model),
        "fig13" => figures::throughput(&model),
        "fig14" => figures::spread(&model),
        "fig15" => figures::networks(&model),
        _ => Err(Error::failed(format!("{name} is no study"))),
    }?;
    study.write(&lab.out.join(name))?;
    Ok(study)
}

/// What is said where the columns of a device are empty.
const NOT_MEASURED: &str = "The column \"this GPU\" is empty: nothing was measured.\n";

/// A group of bars that all have a value.
fn group(name: String, values: &[f64]) -> Group {
    Group { name, bars: values.iter().map(|value| Some(Bar { value: *value, upto: None })).collect() }
}
