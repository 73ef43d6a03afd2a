//! DVABatch (*DVABatch: Diversity-aware Multi-Entry Multi-Exit Batching for Efficient Processing of DNN Services on
//! GPUs*, ATC 2022).

mod claims;
mod loads;
mod names;
mod networks;
mod operators;
mod sentences;
mod variants;

pub(super) use claims::CHECKS;

use super::study::Study;
use super::study_runner::StudyRunner;
use crate::base::error::{Error, Result};

/// Runs the study of an exhibit.
pub(super) fn run_study(exhibit: &str, runner: &StudyRunner<'_>) -> Result<Study> {
    match exhibit {
        "fig3" => loads::cases(runner),
        "fig4" => Ok(sentences::lengths()),
        "fig5" => operators::products(runner),
        "fig6" => operators::unet(runner),
        "fig14" => loads::latency_by_load(runner),
        "fig15" => loads::stepping_load(runner),
        "fig17" => loads::peak_by_task(runner),
        "fig18" => loads::only_split(runner),
        "fig19" => variants::buffer_pairs(runner),
        "fig20" => variants::stages(runner),
        "fig21" => loads::one_client(runner),
        _ => Err(Error::failure(format!("{exhibit} is not a study"))),
    }
}
