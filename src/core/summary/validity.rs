//! Whether the numbers of a run can be trusted. docs/METRICS.md states the rules.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::stats::{Quantile, mean, quantiles};
use crate::base::units::Nanos;

/// The mean lateness of a valid run, as a fraction of its median latency.
pub const LATENESS_BOUND: f64 = 0.01;

/// How late the load generator handed the measured requests to the policy. Latencies include the lateness, but delayed
/// requests are handed over together, in bursts that the trace does not have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    pub mean_us: f64,
    /// The 99th percentile, or `None` with too few requests for it.
    pub p99_us: Option<f64>,
    pub max_us: f64,
    /// The mean as a fraction of the median latency.
    pub share: Option<f64>,
    /// Whether `share` is at most [`LATENESS_BOUND`], so that the loop is open.
    pub valid: Option<bool>,
}

impl Lateness {
    /// The lateness of a run with these delays, or `None` without any request.
    pub fn new(spans: &[Nanos], median_ms: Option<f64>) -> Option<Lateness> {
        let spans: Vec<u64> = spans.iter().map(|span| span.0).collect();
        let max_us = to_micros(spans.iter().copied().max()?);
        let mean_us = mean(&spans)? / 1e3;
        let [p99] = quantiles(&spans, [Quantile::P99]);
        let share = median_ms
            .filter(|median| *median > 0.0)
            .map(|median| mean_us / 1e3 / median);
        Some(Lateness {
            mean_us,
            p99_us: p99.map(to_micros),
            max_us,
            share,
            valid: share.map(|share| share <= LATENESS_BOUND),
        })
    }

    /// The lateness of several runs: means of the means and percentiles, and the maximum of the maxima. It is valid if
    /// all runs are valid, and invalid if one run is invalid.
    pub fn over(runs: &[Lateness]) -> Option<Lateness> {
        let valid = if runs.iter().any(|run| run.valid == Some(false)) {
            Some(false)
        } else if runs.iter().all(|run| run.valid == Some(true)) {
            Some(true)
        } else {
            None
        };
        Some(Lateness {
            max_us: runs.iter().map(|run| run.max_us).reduce(f64::max)?,
            mean_us: average(runs, |run| Some(run.mean_us))?,
            p99_us: average(runs, |run| run.p99_us),
            share: average(runs, |run| run.share),
            valid,
        })
    }
}

fn to_micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// The mean of a value over runs, or `None` if a run does not have it.
fn average(runs: &[Lateness], value: fn(&Lateness) -> Option<f64>) -> Option<f64> {
    let sum: Option<f64> = runs.iter().map(value).sum();
    sum.map(|sum| sum / runs.len() as f64)
}

/// Executions of a cell type outside the measured batch sizes, where costs are guesses: constant below the smallest
/// size, linear above the largest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extrapolation {
    pub cell: String,
    /// The smallest measured batch size.
    pub from: u32,
    /// The largest measured batch size.
    pub to: u32,
    pub batches: u64,
    /// The number of batches that are smaller than any measured one.
    pub below: u64,
    /// The number of batches that are larger than any measured one.
    pub above: u64,
    pub cells: u64,
    /// The number of cells in batches outside the measured sizes.
    pub cells_beyond: u64,
}

impl Extrapolation {
    /// The executions outside the measured sizes, given the number of executions at each size. `None` if all sizes are
    /// within the measured ones.
    pub fn new(
        cell: &str,
        measured: &RangeInclusive<u32>,
        counts: &[u64],
    ) -> Option<Extrapolation> {
        let from = *measured.start();
        let to = *measured.end();
        let mut sum = Extrapolation {
            cell: cell.to_string(),
            from,
            to,
            ..Extrapolation::default()
        };
        for (size, count) in counts.iter().enumerate() {
            let cells = size as u64 * count;
            sum.batches += count;
            sum.cells += cells;
            if (size as u32) < from {
                sum.below += count;
                sum.cells_beyond += cells;
            } else if (size as u32) > to {
                sum.above += count;
                sum.cells_beyond += cells;
            }
        }
        if sum.below + sum.above == 0 {
            return None;
        }
        Some(sum)
    }

    pub fn add(&mut self, other: &Extrapolation) {
        self.batches += other.batches;
        self.below += other.below;
        self.above += other.above;
        self.cells += other.cells;
        self.cells_beyond += other.cells_beyond;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(spans: &[u64], median_ms: Option<f64>) -> Lateness {
        let spans: Vec<Nanos> = spans.iter().copied().map(Nanos).collect();
        Lateness::new(&spans, median_ms).unwrap()
    }

    #[test]
    fn a_run_is_valid_up_to_the_bound() {
        let at_bound = late(&[0, 20_000, 10_000], Some(1.0));
        assert_eq!(
            (at_bound.mean_us, at_bound.max_us, at_bound.p99_us),
            (10.0, 20.0, None)
        );
        assert_eq!((at_bound.share, at_bound.valid), (Some(0.01), Some(true)));
        assert_eq!(late(&[0, 20_000, 10_003], Some(1.0)).valid, Some(false));
        assert_eq!(
            late(&[5], None).valid,
            None,
            "without a median there is no outcome"
        );
        assert_eq!(Lateness::new(&[], Some(1.0)), None);
        assert_eq!(late(&vec![7_000; 1000], Some(1.0)).p99_us, Some(7.0));
    }

    #[test]
    fn one_invalid_run_is_enough() {
        let good = late(&[1_000], Some(1.0));
        let bad = late(&[21_000], Some(1.0));
        let open = late(&[2_000], None);
        let both = Lateness::over(&[good, bad]).unwrap();
        assert_eq!(
            (both.mean_us, both.max_us, both.valid),
            (11.0, 21.0, Some(false))
        );
        assert!((both.share.unwrap() - 0.011).abs() < 1e-12);
        assert_eq!(Lateness::over(&[good, open]).unwrap().valid, None);
        assert_eq!(Lateness::over(&[open, bad]).unwrap().valid, Some(false));
        assert_eq!(Lateness::over(&[good, good]).unwrap().valid, Some(true));
        assert_eq!(Lateness::over(&[]), None);
    }

    #[test]
    fn sizes_beyond_the_measured_ones_are_counted() {
        let counts = [0, 7, 10, 0, 2, 1];
        assert_eq!(Extrapolation::new("lstm", &(1..=5), &counts), None);
        let found = Extrapolation::new("lstm", &(2..=4), &counts).unwrap();
        assert_eq!((found.batches, found.below, found.above), (20, 7, 1));
        assert_eq!((found.cells, found.cells_beyond), (40, 12));
        let mut twice = found.clone();
        twice.add(&found);
        assert_eq!((twice.batches, twice.cells_beyond, twice.to), (40, 24, 4));
    }
}
