//! Checks of the claims of JIT dynamic batching.

use super::launches::JitLaunches;
use super::processor::{measured_gain, shipped_gain};
use crate::base::error::Result;
use crate::papers::findings::{Check, ExhibitResult, Findings};
use crate::papers::value::PaperValue;
use crate::papers::verdict::ClaimVerdict;

pub const CHECKS: &[(&str, Check)] = &[
    ("jit-kernel-none", kernels_without_batching),
    ("jit-kernel", kernels_with_batching),
    ("jit-cell-none", cells_without_batching),
    ("jit-cell", cells_with_batching),
    ("jit-infer", gain_in_inference),
    ("jit-train", |_, _| Ok(ClaimVerdict::without_run())),
];

fn kernels_without_batching(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let Some(launches) = counted_launches(found) else {
        return Ok(ClaimVerdict::without_run());
    };
    let ours = launches.kernels.unbatched as f64;
    Ok(ClaimVerdict::magnitude(ours, paper.number(), "operators"))
}

fn kernels_with_batching(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let Some(launches) = counted_launches(found) else {
        return Ok(ClaimVerdict::without_run());
    };
    let kernels = &launches.kernels;
    let by_rule = format!(" ({} as the program launches them)", kernels.batched);
    Ok(ClaimVerdict::near(kernels.by_type as f64, paper, true)
        .with(&by_rule)
        .mark_derived())
}

fn cells_without_batching(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let Some(launches) = counted_launches(found) else {
        return Ok(ClaimVerdict::without_run());
    };
    let ours = launches.cells.unbatched as f64;
    Ok(ClaimVerdict::exact(&[ours], paper))
}

fn cells_with_batching(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let Some(launches) = counted_launches(found) else {
        return Ok(ClaimVerdict::without_run());
    };
    let ours = launches.cells.batched as f64;
    Ok(ClaimVerdict::exact(&[ours], paper))
}

/// The launches of Table 1, if there were trees to count.
fn counted_launches(found: &Findings) -> Option<&JitLaunches> {
    match found.exhibits.get("table1") {
        Some(ExhibitResult::Launches(launches)) => Some(launches),
        _ => None,
    }
}

fn gain_in_inference(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let (gain, machine) = match found.run("table2") {
        Ok((_, report)) => (measured_gain(report)?, "this processor".to_string()),
        Err(_) => shipped_gain()?,
    };
    Ok(ClaimVerdict::near(gain, paper, gain > 1.0).with(&format!(", on {machine}")))
}
