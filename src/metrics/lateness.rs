//! How late the load generator was: whether a run on a real clock had the open loop that it was asked for.
//!
//! A request that is handed over late has waited already, and its latency counts that, since it counts from the arrival in
//! the trace. But what waits together is batched together: behind a generator that is late the system meets burstier
//! arrivals than those of the trace. docs/METRICS.md states the bound and why it is on the mean.

use serde::{Deserialize, Serialize};

use super::stats::{Quantile, mean, quantiles};
use crate::units::Nanos;

/// The mean lateness of a valid run is at most this share of its median latency.
pub const BOUND: f64 = 0.01;

/// How long after their arrivals the measured requests were handed to the policy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// The mean, in microseconds.
    pub mean_us: f64,
    /// The 99th percentile; `None` with fewer requests than it takes.
    pub p99_us: Option<f64>,
    /// The longest.
    pub max_us: f64,
    /// The mean as a share of the median latency; `None` where there is no median.
    pub share: Option<f64>,
    /// Whether that share is at most [`BOUND`], so that the latencies are those of an open loop.
    pub valid: Option<bool>,
}

impl Lateness {
    /// The figures of these spans, beside a median latency; `None` without any.
    pub fn of(spans: &[Nanos], median_ms: Option<f64>) -> Option<Lateness> {
        let micros = |ns: u64| ns as f64 / 1e3;
        let mut spans: Vec<u64> = spans.iter().map(|span| span.0).collect();
        let max_us = micros(spans.iter().copied().max()?);
        let mean_us = mean(&spans)? / 1e3;
        let [p99] = quantiles(&mut spans, [Quantile::P99]);
        let share = median_ms.filter(|median| *median > 0.0).map(|median| mean_us / 1e3 / median);
        Some(Lateness { mean_us, p99_us: p99.map(micros), max_us, share, valid: share.map(|share| share <= BOUND) })
    }

    /// Over several runs: means of the means and of the percentiles, the longest of all; valid if every run is, and not if
    /// one is not.
    pub fn over(runs: &[Lateness]) -> Option<Lateness> {
        let count = runs.len() as f64;
        let average = |of: fn(&Lateness) -> Option<f64>| -> Option<f64> {
            runs.iter().map(of).sum::<Option<f64>>().map(|sum| sum / count)
        };
        let invalid = runs.iter().any(|run| run.valid == Some(false));
        let all_valid = runs.iter().all(|run| run.valid == Some(true));
        Some(Lateness {
            max_us: runs.iter().map(|run| run.max_us).reduce(f64::max)?,
            mean_us: average(|run| Some(run.mean_us))?,
            p99_us: average(|run| run.p99_us),
            share: average(|run| run.share),
            valid: if invalid { Some(false) } else { all_valid.then_some(true) },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(spans: &[u64], median_ms: Option<f64>) -> Lateness {
        let spans: Vec<Nanos> = spans.iter().copied().map(Nanos).collect();
        Lateness::of(&spans, median_ms).unwrap()
    }

    #[test]
    fn a_run_is_valid_up_to_the_bound() {
        let at_bound = late(&[0, 20_000, 10_000], Some(1.0));
        assert_eq!((at_bound.mean_us, at_bound.max_us, at_bound.p99_us), (10.0, 20.0, None));
        assert_eq!((at_bound.share, at_bound.valid), (Some(0.01), Some(true)));
        assert_eq!(late(&[0, 20_000, 10_003], Some(1.0)).valid, Some(false));
        assert_eq!(late(&[5], None).valid, None, "without a median there is no verdict");
        assert_eq!(Lateness::of(&[], Some(1.0)), None);
        assert_eq!(late(&vec![7_000; 1000], Some(1.0)).p99_us, Some(7.0));
    }

    #[test]
    fn one_invalid_run_is_enough() {
        let (good, bad, open) = (late(&[1_000], Some(1.0)), late(&[21_000], Some(1.0)), late(&[2_000], None));
        let both = Lateness::over(&[good, bad]).unwrap();
        assert_eq!((both.mean_us, both.max_us, both.valid), (11.0, 21.0, Some(false)));
        assert!((both.share.unwrap() - 0.011).abs() < 1e-12);
        assert_eq!(Lateness::over(&[good, open]).unwrap().valid, None);
        assert_eq!(Lateness::over(&[open, bad]).unwrap().valid, Some(false));
        assert_eq!(Lateness::over(&[good, good]).unwrap().valid, Some(true));
        assert_eq!(Lateness::over(&[]), None);
    }
}
