//! GRNN (*GRNN: Low-Latency and Scalable RNN Inference on GPUs*, EuroSys 2019).
//!
//! Values of the performance model are shown beside the paper's, and values measured on a GPU beside both, if a file of them is given.

mod claims;
mod figures;
pub mod measured;
mod model;
mod paper;

pub(super) use claims::CHECKS;
pub use model::Sheet;

use super::lab::{Lab, Study};
use crate::error::{Error, Result};

/// Carries out the study of an exhibit.
pub(super) fn carry_out(name: &str, lab: &Lab<'_>) -> Result<Study> {
    let (model, own) = (model::Model::new()?, lab.measured);
    match name {
        "table1" => figures::latencies(&model, own),
        "table2" => figures::mappings(&model, own),
        "table3" => figures::synchronisations(&model, own),
        "fig3" => figures::libraries(&model, own),
        "fig11" => figures::lstm_over_cpu(&model, own),
        "fig12" => figures::gru_over_cpu(&model, own),
        "fig13" => figures::throughput(&model, own),
        "fig14" => figures::spread(&model, own),
        "fig15" => figures::networks(&model, own),
        _ => Err(Error::failed(format!("{name} is not a study"))),
    }
}
