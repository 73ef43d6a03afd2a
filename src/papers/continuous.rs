//! Checks of what Orca, vLLM and Sarathi-Serve gain over the policy before them.

use super::{Check, Findings, Verdict};
use crate::base::error::Result;
use crate::lab::results::columns::Metric;

/// The ratio of the highest offered rates at which metrics, in ms, are at most these. At most 16 rates, so it is coarse.
fn gain(
    found: &Findings,
    exhibit: &str,
    [ours, before]: [&str; 2],
    limits: &[(Metric, f64)],
) -> Result<f64> {
    let highest = |policy| {
        let series = found.series(exhibit, policy)?;
        let held = |&(metric, most): &(Metric, f64)| {
            series
                .points(metric)
                .filter(|(_, value)| *value <= most)
                .map(|(rate, _)| rate)
                .fold(0.0, f64::max)
        };
        Ok(limits.iter().map(held).fold(f64::INFINITY, f64::min))
    };
    Ok(highest(ours)? / highest(before)?)
}

pub const CHECKS: &[(&str, Check)] = &[
    ("cont-orca", |found| {
        let ours = gain(
            found,
            "one-trace",
            ["Orca", "Request-level"],
            &[(Metric::Normalised, 190.0)],
        )?;
        Ok(Verdict::near(ours, 36.9, "times", ours > 1.0))
    }),
    ("cont-vllm", |found| {
        let ours = gain(
            found,
            "one-trace",
            ["vLLM", "Orca"],
            &[(Metric::Normalised, 1000.0)],
        )?;
        Ok(Verdict::inside(ours, (2.7, 8.0), "times", ours > 1.0))
    }),
    ("cont-sarathi", |found| {
        let ours = gain(
            found,
            "stalls",
            ["Sarathi", "vLLM"],
            &[(Metric::TbtP99, 100.0), (Metric::TtftP50, 2000.0)],
        )?;
        let at = |policy| found.at("stalls", policy, "3", Metric::TbtP99);
        let verdict = Verdict::near(ours, 2.6, "times", ours > 1.0);
        Ok(verdict.with(&format!(
            " (at 3 req/s, p99 {:.0} ms against {:.0} ms)",
            at("Sarathi")?,
            at("vLLM")?
        )))
    }),
];
