//! Figure 5's example, and single steps on a V100 (section 7.3).

use super::readings::BATCHMAKER;
use crate::base::error::Result;
use crate::lab::results::columns::Metric;
use crate::papers::findings::Findings;
use crate::papers::value::PaperValue;
use crate::papers::verdict::ClaimVerdict;

pub(super) fn graph_batches_end(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let mut ends = finish_steps(found, "Graph batching")?;
    ends.dedup();
    Ok(ClaimVerdict::exact(&ends, paper))
}

pub(super) fn cellular_requests_end(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let ends = finish_steps(found, "Cellular batching")?;
    let first = &ends[..ends.len().min(3)];
    Ok(ClaimVerdict::exact(first, paper))
}

pub(super) fn step_at_64(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let of_two = single_step_us(found, 2)?;
    let of_64 = single_step_us(found, 64)?;
    Ok(ClaimVerdict::near(of_64, paper, of_two == of_64))
}

pub(super) fn step_at_512(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let doubles = doubles_above(found, 1024)? && doubles_above(found, 512)?;
    Ok(ClaimVerdict::near(
        single_step_us(found, 512)?,
        paper,
        doubles,
    ))
}

/// Whether a step of twice the batch takes twice the time.
fn doubles_above(found: &Findings, batch: u32) -> Result<bool> {
    let ratio = single_step_us(found, 2 * batch)? / single_step_us(found, batch)?;
    Ok((ratio - 2.0).abs() < 0.02)
}

pub(super) fn scheduled_step_at_64(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    Ok(ClaimVerdict::near(
        step_us(found, BATCHMAKER, 64)?,
        paper,
        true,
    ))
}

fn single_step_us(found: &Findings, batch: u32) -> Result<f64> {
    step_us(found, "One step", batch)
}

/// The median latency of `batch` clients in a closed loop, in microseconds.
fn step_us(found: &Findings, policy: &str, batch: u32) -> Result<f64> {
    let point = format!("clients-{batch}");
    Ok(1e3 * found.value("fig3", policy, &point, Metric::P50)?)
}

/// When the requests of Figure 5 end, ascending, in steps of a millisecond.
fn finish_steps(found: &Findings, policy: &str) -> Result<Vec<f64>> {
    let mut ends = Vec::new();
    for [_, finish] in found.steps("fig5", policy)? {
        ends.push(finish);
    }
    ends.sort_by(f64::total_cmp);
    Ok(ends)
}
