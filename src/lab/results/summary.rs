//! A row of `summary.csv`: the replications of one point.

use serde_json::{Value as Json, json};

use super::columns::{Column, Metric, MetricUnit, swept_columns, to_object};
use super::sweep_keys::{self, Swept};
use crate::base::units::Nanos;
use crate::core::summary::Summary;
use crate::core::summary::stats::{Interval, interval, paired_difference, prediction};
use crate::core::summary::validity::Lateness;

/// The replications of one policy at one point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SummaryRow {
    pub policy: String,
    /// The keys of a sweep that concern the policy.
    pub swept: Vec<Swept>,
    pub backend: String,
    /// The point's name: the rate, `trace`, `offline`, …
    pub point: String,
    /// The class of the requests; empty for all requests.
    pub class: String,
    /// The replications in the order of their seeds.
    pub runs: Vec<Summary>,
}

/// The mean of a metric over the replications.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MetricEstimate {
    /// The mean, or `None` unless every replication has a value: a mean over the others would be biased.
    pub value: Option<f64>,
    /// The half-width of the 95 % confidence interval. `None` with a single replication, with replications that are all
    /// the same, or if the runs are too short for the figure.
    pub half_width: Option<f64>,
}

impl SummaryRow {
    /// The policy's name with its swept keys.
    pub fn name(&self) -> String {
        sweep_keys::label(&self.policy, &self.swept)
    }

    /// Whether both rows have the same requests: the same load, and equal swept keys apart from those of policies.
    pub fn has_same_requests(&self, other: &SummaryRow) -> bool {
        self.point == other.point && self.common_keys().eq(other.common_keys())
    }

    /// The swept keys that are not those of a policy.
    fn common_keys(&self) -> impl Iterator<Item = &Swept> {
        self.swept
            .iter()
            .filter(|(key, _)| !sweep_keys::is_of_policy(key))
    }

    pub fn estimate(&self, metric: Metric) -> MetricEstimate {
        let mut estimate = self.estimate_by(|run| metric.value(run));
        let (Some(mean), Some(half_width)) = (estimate.value, estimate.half_width) else {
            return estimate;
        };
        if self.requests_needed(metric).is_some() {
            estimate.half_width = None;
        } else if metric.independent_needed().is_some() && self.counts_independent() {
            let interval = Interval { mean, half_width }.with_proportional_spread();
            estimate.half_width = Some(interval.half_width);
        }
        estimate
    }

    /// Whether each replication says how many independent requests it is worth.
    fn counts_independent(&self) -> bool {
        self.runs.iter().all(|run| run.independent.is_some())
    }

    /// The mean of any value of the summaries.
    pub fn estimate_by(&self, of: impl Fn(&Summary) -> Option<f64>) -> MetricEstimate {
        let Some(values) = self.values(of) else {
            return MetricEstimate::default();
        };
        let interval = interval(&values);
        let value = interval
            .map(|interval| interval.mean)
            .or(values.first().copied());
        let half_width = interval
            .filter(|_| !self.is_repeated())
            .map(|interval| interval.half_width);
        MetricEstimate { value, half_width }
    }

    /// Whether there are several replications and all are the same.
    pub fn is_repeated(&self) -> bool {
        is_repeated(&self.runs)
    }

    /// The number of requests that would be enough for an interval of a metric, if the replications are too short. It is
    /// `None` if they are long enough, if it was not counted how many independent requests they are worth, or if the
    /// system was saturated.
    ///
    /// Correlated batches hide a part of the correlation, so the number grows with the square of what is missing.
    pub fn requests_needed(&self, metric: Metric) -> Option<u64> {
        let needed = metric.independent_needed()?;
        let shares = self.values(|run| run.independent.map(|number| 1.0 / number))?;
        if shares.len() < 2 || self.is_repeated() || self.is_saturated() == Some(true) {
            return None;
        }
        let independent = shares.len() as f64 / shares.iter().sum::<f64>();
        if independent >= needed {
            return None;
        }
        let arrived = |run: &Summary| (run.completed + run.failed + run.rejected) as f64;
        let requests = self.runs.iter().map(arrived).sum::<f64>() / self.runs.len() as f64;
        Some((requests * (needed / independent).powi(2)).ceil() as u64)
    }

    /// The difference to another policy on the same traces, paired by replication. `None` with fewer than two
    /// replications, with replications that are all the same, or with a missing value.
    ///
    /// # Panics
    /// When the numbers of replications differ.
    pub fn difference(&self, other: &SummaryRow, metric: Metric) -> Option<Interval> {
        let own = self.values(|run| metric.value(run))?;
        let others = other.values(|run| metric.value(run))?;
        if self.is_repeated() && other.is_repeated() {
            return None;
        }
        paired_difference(&own, &others)
    }

    /// Whether the system did not keep up: true if this holds for any replication, false if it does not hold for all.
    pub fn is_saturated(&self) -> Option<bool> {
        if self.runs.iter().any(|run| run.saturated == Some(true)) {
            return Some(true);
        }
        if self.runs.is_empty() || self.runs.iter().any(|run| run.saturated.is_none()) {
            return None;
        }
        Some(false)
    }

    /// Whether the model is a language model.
    pub fn has_tokens(&self) -> bool {
        self.runs.iter().any(|run| run.tokens.is_some())
    }

    /// The latency objective for goodput.
    pub fn slo(&self) -> Option<Nanos> {
        self.runs.first().and_then(|run| run.slo)
    }

    /// A row for each class of requests, in the order of the scenario's classes, or of their first requests in the
    /// trace.
    pub fn classes(&self) -> Vec<SummaryRow> {
        let Some(first) = self.runs.first() else {
            return Vec::new();
        };
        let mut rows = Vec::with_capacity(first.classes.len());
        for (place, (class, _)) in first.classes.iter().enumerate() {
            let mut runs = Vec::with_capacity(self.runs.len());
            for run in &self.runs {
                let Some((_, class)) = run.classes.get(place) else {
                    continue;
                };
                let mut class = class.clone();
                if run.saturated == Some(true) {
                    // Requests would depend on the length of the run, however many there are.
                    class.forget_independent();
                }
                runs.push(class);
            }
            rows.push(SummaryRow {
                class: class.clone(),
                runs,
                ..self.clone()
            });
        }
        rows
    }

    /// The share of the requests that were served within the objective.
    pub fn within_slo(&self) -> MetricEstimate {
        self.estimate_by(|run| run.within_slo)
    }

    /// The mean utilization of each worker; empty unless every replication has it.
    pub fn worker_utilization(&self) -> Vec<f64> {
        let workers = self
            .runs
            .iter()
            .map(|run| run.worker_utilization.len())
            .min()
            .unwrap_or(0);
        let mut means = Vec::with_capacity(workers);
        for worker in 0..workers {
            let values = self.runs.iter().map(|run| run.worker_utilization[worker]);
            means.push(values.sum::<f64>() / self.runs.len() as f64);
        }
        means
    }

    /// The lateness of the load generator, or `None` unless all replications measured it.
    pub fn lateness(&self) -> Option<Lateness> {
        Lateness::over(&self.values(|run| run.lateness)?)
    }

    /// The half-width of the 95 % prediction interval of one more replication, in percent of the mean.
    pub fn spread(&self, metric: Metric) -> Option<f64> {
        let interval = prediction(&self.values(|run| metric.value(run))?)?;
        interval.relative_percent(interval.mean)
    }

    /// A value of each replication, or `None` unless all replications have it.
    fn values<V>(&self, of: impl Fn(&Summary) -> Option<V>) -> Option<Vec<V>> {
        self.runs.iter().map(of).collect()
    }
}

/// Whether there are several runs and all are the same, as those of a trace without noise are. Their spread says nothing.
pub fn is_repeated(runs: &[Summary]) -> bool {
    runs.len() > 1 && runs.iter().all(|run| *run == runs[0])
}

fn value(&metric: &Metric) -> Column<'static, SummaryRow> {
    Column::number(metric.name(), metric.unit(), move |row: &SummaryRow| {
        row.estimate(metric).value
    })
}

fn half_width(&metric: &Metric) -> Column<'static, SummaryRow> {
    let name = format!("{}_ci", metric.name());
    Column::number(name, metric.unit(), move |row: &SummaryRow| {
        row.estimate(metric).half_width
    })
}

/// The columns of `summary.csv`, or those of `classes.csv`, which lack the metrics that need tasks or workers. There
/// are columns about the load generator if a row ran on a real clock, and half-widths if a row has several
/// replications. Swept keys come last.
pub fn columns(rows: &[SummaryRow], of_classes: bool) -> Vec<Column<'static, SummaryRow>> {
    use Metric::{ComputeP90, Max, MeanBatch, Padding, QueueP90, Utilization};
    let others = [MeanBatch, Padding, Utilization, Max, QueueP90, ComputeP90];
    let metrics = || {
        Metric::ALL
            .iter()
            .filter(|metric| !of_classes || !others.contains(metric))
    };
    let point = || Column::text("point", |row: &SummaryRow| row.point.clone());
    let mut columns = vec![
        Column::text("policy", |row: &SummaryRow| row.policy.clone()),
        Column::text("backend", |row: &SummaryRow| row.backend.clone()),
    ];
    if of_classes {
        columns.extend([
            point(),
            Column::text("class", |row: &SummaryRow| row.class.clone()),
        ]);
    }
    for metric in metrics() {
        if *metric == Metric::Warmup && !of_classes {
            columns.extend([
                point(),
                Column::truth("saturated", SummaryRow::is_saturated),
            ]);
        }
        columns.push(value(metric));
    }
    let tokens = if rows.iter().any(SummaryRow::has_tokens) {
        Metric::OF_TOKENS
    } else {
        &[]
    };
    columns.extend(tokens.iter().map(value));
    let slo = |row: &SummaryRow| row.slo().map(Nanos::as_millis_f64);
    columns.push(Column::number("slo_ms", MetricUnit::Millis, slo));
    if of_classes {
        let expired = |row: &SummaryRow| row.estimate_by(|run| Some(run.expired as f64)).value;
        columns.push(Column::number("expired", MetricUnit::Count, expired));
        columns.push(Column::number(
            "within_slo",
            MetricUnit::Ratio,
            |row: &SummaryRow| row.within_slo().value,
        ));
    }
    columns.push(Column::count("replications", |row: &SummaryRow| {
        row.runs.len()
    }));
    if rows.iter().any(|row| row.lateness().is_some()) {
        let late = |name: &'static str, of: fn(Lateness) -> Option<f64>| {
            Column::number(name, MetricUnit::Micros, move |row: &SummaryRow| {
                row.lateness().and_then(of)
            })
        };
        columns.push(late("late_mean_us", |late| Some(late.mean_us)));
        columns.push(late("late_p99_us", |late| late.p99_us));
        columns.push(late("late_max_us", |late| Some(late.max_us)));
        columns.push(Column::truth("valid", |row: &SummaryRow| {
            row.lateness().and_then(|late| late.valid)
        }));
    }
    if rows.iter().any(|row| row.runs.len() > 1) {
        columns.extend(metrics().chain(tokens).map(half_width));
        let within = |row: &SummaryRow| row.within_slo().half_width;
        columns
            .extend(of_classes.then(|| Column::number("within_slo_ci", MetricUnit::Ratio, within)));
    }
    columns.extend(swept_columns(rows, |row| &row.swept));
    columns
}

/// The columns that come first in JSON.
const FIRST_IN_JSON: [&str; 5] = ["policy", "backend", "point", "replications", "saturated"];

/// The scenario's name and an object for each row, with the names of `summary.csv`.
pub fn to_json(scenario: &str, rows: &[SummaryRow]) -> Json {
    let mut columns = columns(rows, false);
    let place = |name: &str| FIRST_IN_JSON.iter().position(|first| *first == name);
    columns.sort_by_key(|column| place(&column.name).unwrap_or(FIRST_IN_JSON.len()));
    let object = |row: &SummaryRow| {
        let mut object = to_object(&columns, row);
        object["worker_utilization"] = row.worker_utilization().into();
        let classes = row.classes();
        if !classes.is_empty() {
            let columns = self::columns(&classes, true);
            object["classes"] = classes
                .iter()
                .map(|class| to_object(&columns[3..], class))
                .collect();
        }
        object
    };
    json!({ "scenario": scenario, "rows": rows.iter().map(object).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::Rate;

    fn row(runs: &[Summary]) -> SummaryRow {
        SummaryRow {
            runs: runs.to_vec(),
            ..SummaryRow::default()
        }
    }

    fn run(throughput: f64, p99_ms: Option<f64>) -> Summary {
        let mut summary = Summary {
            throughput: Some(Rate(throughput)),
            ..Summary::default()
        };
        summary.latency.p99_ms = p99_ms;
        summary
    }

    #[test]
    fn one_replication_has_no_interval() {
        let combined = row(&[run(10.0, None)]);
        assert_eq!(
            combined.estimate(Metric::Throughput),
            MetricEstimate {
                value: Some(10.0),
                half_width: None
            }
        );
        assert_eq!(combined.estimate(Metric::P99), MetricEstimate::default());
        assert_eq!(
            row(&[]).estimate(Metric::Completed),
            MetricEstimate::default()
        );
        assert_eq!(row(&[]).is_saturated(), None);
    }

    #[test]
    fn several_have_the_interval_of_student() {
        let combined = row(&[run(9.0, Some(1.0)), run(10.0, None), run(11.0, Some(3.0))]);
        let throughput = combined.estimate(Metric::Throughput);
        // t(0.975; 2) is 4.3027, and the standard error of 9, 10, 11 is 1 / sqrt 3.
        assert_eq!(throughput.value, Some(10.0));
        assert!((throughput.half_width.unwrap() - 4.302_653 / 3f64.sqrt()).abs() < 1e-6);
        assert_eq!(
            combined.estimate(Metric::P99),
            MetricEstimate::default(),
            "one of the three lacks it"
        );
    }

    #[test]
    fn differences_are_paired() {
        let a = row(&[run(10.0, None), run(20.0, None), run(30.0, None)]);
        let b = row(&[run(9.0, None), run(19.0, None), run(29.0, None)]);
        assert_eq!(
            a.difference(&b, Metric::Throughput),
            Some(Interval {
                mean: 1.0,
                half_width: 0.0
            })
        );
        assert_eq!(a.difference(&b, Metric::P99), None);
    }

    #[test]
    fn one_saturated_replication_is_enough() {
        let with = |saturated| Summary {
            saturated,
            ..Summary::default()
        };
        assert_eq!(
            row(&[with(Some(false)), with(Some(true))]).is_saturated(),
            Some(true)
        );
        assert_eq!(row(&[with(Some(false)), with(None)]).is_saturated(), None);
        assert_eq!(
            row(&[with(Some(false)), with(Some(false))]).is_saturated(),
            Some(false)
        );
    }

    #[test]
    fn workers_are_averaged_one_by_one() {
        let with = |shares: &[f64]| Summary {
            worker_utilization: shares.to_vec(),
            ..Summary::default()
        };
        assert_eq!(
            row(&[with(&[0.25, 1.0]), with(&[0.75, 0.5])]).worker_utilization(),
            [0.5, 0.75]
        );
        assert!(
            row(&[with(&[0.2]), with(&[])])
                .worker_utilization()
                .is_empty()
        );
    }
}
