//! GRNN (*GRNN: Low-Latency and Scalable RNN Inference on GPUs*, EuroSys 2019).
//!
//! The performance model's values are shown beside the paper's, and those of a file measured on a GPU beside both.

mod claims;
mod figures;
pub mod measured;
mod model;
mod paper;

pub(super) use claims::CHECKS;

use super::lab::{Lab, Study};
use crate::base::error::{Error, Result};
use crate::core::cost::grnn::RecurrentCell;

pub(super) fn carry_out(name: &str, lab: &Lab<'_>) -> Result<Study> {
    let (model, own) = (model::Model::new()?, lab.measured);
    Ok(match name {
        "table1" => figures::latencies(&model, own),
        "table2" => figures::mappings(&model, own),
        "table3" => figures::synchronisations(&model, own),
        "fig3" => figures::libraries(&model, own),
        "fig11" => figures::over_cpu(RecurrentCell::Lstm, &model, own),
        "fig12" => figures::over_cpu(RecurrentCell::Gru, &model, own),
        "fig13" => figures::throughput(&model, own),
        "fig14" => figures::spread(&model, own),
        "fig15" => figures::networks(&model, own),
        _ => return Err(Error::failed(format!("{name} is not a study"))),
    })
}
