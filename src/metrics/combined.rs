//! What several runs of one point come to: the mean of each figure over the replications, with its interval.

use serde::{Deserialize, Serialize};

use super::figure::Figure;
use super::lateness::Lateness;
use super::stats::{Interval, interval, paired_difference};
use super::summary::Summary;

/// The replications of one point: runs that differ in their seeds alone. Kept whole, so that what is computed from them
/// can be computed again when a sweep is resumed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Combined {
    /// The summary of each run, in the order of the seeds.
    pub runs: Vec<Summary>,
}

/// A figure over the replications.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The mean; `None` unless every replication has the figure, since those that have it may be the lucky ones.
    pub value: Option<f64>,
    /// Half the width of the 95 % confidence interval; `None` with a single replication.
    pub half_width: Option<f64>,
}

/// One row of the results: a point and what it comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The policy's label.
    pub policy: String,
    /// The backend's name.
    pub backend: String,
    /// The point's name: the rate, `trace`, `offline`, …
    pub point: String,
    /// Its figures.
    pub figures: Combined,
}

/// Combines the replications of one point.
pub fn combine(runs: &[Summary]) -> Combined {
    Combined { runs: runs.to_vec() }
}

impl Combined {
    /// How many replications there are.
    pub fn replications(&self) -> usize {
        self.runs.len()
    }

    /// A figure over the replications.
    pub fn estimate(&self, figure: Figure) -> Estimate {
        let Some(values) = self.values(figure) else { return Estimate::default() };
        match interval(&values) {
            Some(Interval { mean, half_width }) => Estimate { value: Some(mean), half_width: Some(half_width) },
            None => Estimate { value: values.first().copied(), half_width: None },
        }
    }

    /// By how much a figure exceeds that of another policy on the same traces, replication by replication. `None` with
    /// fewer than two replications, or where one lacks the figure.
    ///
    /// # Panics
    /// When the two have not as many replications.
    pub fn difference(&self, other: &Combined, figure: Figure) -> Option<Interval> {
        paired_difference(&self.values(figure)?, &other.values(figure)?)
    }

    /// Whether more arrived than could be served: yes if any replication says so, no if all say no.
    pub fn saturated(&self) -> Option<bool> {
        let any = self.runs.iter().any(|run| run.saturated == Some(true));
        let none = !self.runs.is_empty() && self.runs.iter().all(|run| run.saturated == Some(false));
        if any { Some(true) } else { none.then_some(false) }
    }

    /// The mean busy share of each worker; empty unless every replication has it.
    pub fn worker_utilization(&self) -> Vec<f64> {
        let workers = self.runs.iter().map(|run| run.worker_utilization.len()).min().unwrap_or(0);
        let mean = |w: usize| self.runs.iter().map(|run| run.worker_utilization[w]).sum::<f64>();
        (0..workers).map(|w| mean(w) / self.runs.len() as f64).collect()
    }

    /// How late the load generator was over the replications; `None` unless each of them says so.
    pub fn lateness(&self) -> Option<Lateness> {
        let each: Option<Vec<Lateness>> = self.runs.iter().map(|run| run.lateness).collect();
        Lateness::over(&each?)
    }

    /// The figure in each replication, if all have it.
    fn values(&self, figure: Figure) -> Option<Vec<f64>> {
        self.runs.iter().map(|run| figure.of(run)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rate;

    fn run(throughput: f64, p99_ms: Option<f64>) -> Summary {
        let mut summary = Summary { throughput: Some(Rate(throughput)), ..Summary::default() };
        summary.latency.p99_ms = p99_ms;
        summary
    }

    #[test]
    fn one_replication_has_no_interval() {
        let combined = combine(&[run(10.0, None)]);
        assert_eq!(combined.estimate(Figure::Throughput), Estimate { value: Some(10.0), half_width: None });
        assert_eq!(combined.estimate(Figure::P99), Estimate::default());
        assert_eq!(combine(&[]).estimate(Figure::Completed), Estimate::default());
        assert_eq!(combine(&[]).saturated(), None);
    }

    #[test]
    fn several_have_the_interval_of_student() {
        let combined = combine(&[run(9.0, Some(1.0)), run(10.0, None), run(11.0, Some(3.0))]);
        let throughput = combined.estimate(Figure::Throughput);
        // t(0.975) is 4.3027 with two degrees of freedom, and the standard error of 9, 10, 11 is 1 / sqrt 3.
        assert_eq!(throughput.value, Some(10.0));
        assert!((throughput.half_width.unwrap() - 4.302_653 / 3f64.sqrt()).abs() < 1e-6);
        assert_eq!(combined.estimate(Figure::P99), Estimate::default(), "one of the three lacks it");
    }

    #[test]
    fn differences_are_paired() {
        let a = combine(&[run(10.0, None), run(20.0, None), run(30.0, None)]);
        let b = combine(&[run(9.0, None), run(19.0, None), run(29.0, None)]);
        assert_eq!(a.difference(&b, Figure::Throughput), Some(Interval { mean: 1.0, half_width: 0.0 }));
        assert_eq!(a.difference(&b, Figure::P99), None);
    }

    #[test]
    fn one_saturated_replication_is_enough() {
        let with = |saturated| Summary { saturated, ..Summary::default() };
        assert_eq!(combine(&[with(Some(false)), with(Some(true))]).saturated(), Some(true));
        assert_eq!(combine(&[with(Some(false)), with(None)]).saturated(), None);
        assert_eq!(combine(&[with(Some(false)), with(Some(false))]).saturated(), Some(false));
    }

    #[test]
    fn workers_are_averaged_one_by_one() {
        let with = |shares: &[f64]| Summary { worker_utilization: shares.to_vec(), ..Summary::default() };
        assert_eq!(combine(&[with(&[0.25, 1.0]), with(&[0.75, 0.5])]).worker_utilization(), [0.5, 0.75]);
        assert!(combine(&[with(&[0.2]), with(&[])]).worker_utilization().is_empty());
    }
}
