//! GRNN (*GRNN: Low-Latency and Scalable RNN Inference on GPUs*, EuroSys 2019).
//!
//! The performance model's values are shown next to the paper's, and those of a file measured on a GPU next to both.

mod claims;
mod figures;
pub mod measured;
mod model;
mod tables;

pub(super) use claims::CHECKS;

use self::model::PerformanceModel;
use super::study::Study;
use super::study_runner::StudyRunner;
use crate::base::error::{Error, Result};
use crate::core::cost::grnn::RecurrentCell;

/// Runs the study of an exhibit.
pub(super) fn run_study(exhibit: &str, runner: &StudyRunner<'_>) -> Result<Study> {
    let model = PerformanceModel::new()?;
    let measured = runner.gpu_times();
    match exhibit {
        "table1" => Ok(figures::latencies(&model, measured)),
        "table2" => Ok(figures::mappings(&model, measured)),
        "table3" => Ok(figures::synchronisations(&model, measured)),
        "fig3" => Ok(figures::libraries(&model, measured)),
        "fig11" => Ok(figures::over_cpu(RecurrentCell::Lstm, &model, measured)),
        "fig12" => Ok(figures::over_cpu(RecurrentCell::Gru, &model, measured)),
        "fig13" => Ok(figures::throughput(&model, measured)),
        "fig14" => Ok(figures::spread(&model, measured)),
        "fig15" => Ok(figures::networks(&model, measured)),
        _ => Err(Error::failure(format!("{exhibit} is not a study"))),
    }
}
