//! Checks of what Orca, vLLM and Sarathi-Serve gain over the policy before them.

use crate::base::error::Result;
use crate::lab::results::columns::Metric;
use crate::papers::findings::{Check, Findings};
use crate::papers::value::PaperValue;
use crate::papers::verdict::ClaimVerdict;

pub const CHECKS: &[(&str, Check)] = &[
    ("cont-orca", gain_of_orca),
    ("cont-vllm", gain_of_vllm),
    ("cont-sarathi", gain_of_sarathi),
];

/// A metric, and the most that it may be, in milliseconds.
type Limit = (Metric, f64);

fn gain_of_orca(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let limits = [(Metric::Normalised, 190.0)];
    let gain = gain(found, "one-trace", ["Orca", "Request-level"], &limits)?;
    Ok(ClaimVerdict::near(gain, paper, gain > 1.0))
}

fn gain_of_vllm(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let limits = [(Metric::Normalised, 1000.0)];
    let gain = gain(found, "one-trace", ["vLLM", "Orca"], &limits)?;
    Ok(ClaimVerdict::inside(gain, paper, gain > 1.0))
}

fn gain_of_sarathi(found: &Findings, paper: &PaperValue) -> Result<ClaimVerdict> {
    let limits = [(Metric::TbtP99, 100.0), (Metric::TtftP50, 2000.0)];
    let gain = gain(found, "stalls", ["Sarathi", "vLLM"], &limits)?;
    let sarathi = found.value("stalls", "Sarathi", "3", Metric::TbtP99)?;
    let vllm = found.value("stalls", "vLLM", "3", Metric::TbtP99)?;
    let more = format!(" (at 3 req/s, p99 {sarathi:.0} ms against {vllm:.0} ms)");
    Ok(ClaimVerdict::near(gain, paper, gain > 1.0).with(&more))
}

/// The ratio of the highest offered rates at which two policies keep within all limits. It is coarse, since there are
/// at most 16 rates.
fn gain(found: &Findings, exhibit: &str, policies: [&str; 2], limits: &[Limit]) -> Result<f64> {
    let [ours, before] = policies;
    let ours = highest_rate(found, exhibit, ours, limits)?;
    Ok(ours / highest_rate(found, exhibit, before, limits)?)
}

/// The least of the highest rates for each limit.
fn highest_rate(found: &Findings, exhibit: &str, policy: &str, limits: &[Limit]) -> Result<f64> {
    let series = found.series(exhibit, policy)?;
    let mut least = f64::INFINITY;
    for (metric, most) in limits {
        let mut highest: f64 = 0.0;
        for (rate, value) in series.points(*metric) {
            if value <= *most {
                highest = highest.max(rate);
            }
        }
        least = least.min(highest);
    }
    Ok(least)
}
