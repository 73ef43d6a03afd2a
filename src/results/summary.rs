//! A row of `summary.csv`: the replications of one point, and the columns computed from them.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::columns::{Metric, Unit};
use crate::metrics::lateness::Lateness;
use crate::metrics::stats::{Interval, interval, paired_difference};
use crate::metrics::summary::Summary;

/// One policy at one point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SummaryRow {
    /// The policy's label.
    pub policy: String,
    /// The backend's name.
    pub backend: String,
    /// The point's name: the rate, `trace`, `offline`, …
    pub point: String,
    /// The summaries of the replications, in the order of their seeds.
    pub runs: Vec<Summary>,
}

/// A metric over the replications.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The mean. `None` unless every replication has a value: a mean over the others would be biased.
    pub value: Option<f64>,
    /// Half the width of the 95 % confidence interval; `None` with a single replication.
    pub half_width: Option<f64>,
}

impl SummaryRow {
    pub fn estimate(&self, metric: Metric) -> Estimate {
        let Some(values) = self.values(metric) else { return Estimate::default() };
        match interval(&values) {
            Some(Interval { mean, half_width }) => Estimate { value: Some(mean), half_width: Some(half_width) },
            None => Estimate { value: values.first().copied(), half_width: None },
        }
    }

    /// By how much a metric exceeds that of another policy on the same traces, paired by replication. `None` with
    /// fewer than two replications, or where one of them has no value.
    ///
    /// # Panics
    /// When the numbers of replications differ.
    pub fn difference(&self, other: &SummaryRow, metric: Metric) -> Option<Interval> {
        paired_difference(&self.values(metric)?, &other.values(metric)?)
    }

    /// Whether more arrived than could be served: yes if any replication says so, no if all say no.
    pub fn saturated(&self) -> Option<bool> {
        let any = self.runs.iter().any(|run| run.saturated == Some(true));
        let none = !self.runs.is_empty() && self.runs.iter().all(|run| run.saturated == Some(false));
        if any { Some(true) } else { none.then_some(false) }
    }

    /// The mean busy fraction of each worker; empty unless every replication has it.
    pub fn worker_utilization(&self) -> Vec<f64> {
        let workers = self.runs.iter().map(|run| run.worker_utilization.len()).min().unwrap_or(0);
        let mean = |w: usize| self.runs.iter().map(|run| run.worker_utilization[w]).sum::<f64>();
        (0..workers).map(|w| mean(w) / self.runs.len() as f64).collect()
    }

    /// How late the load generator was over the replications; `None` unless all of them measured it.
    pub fn lateness(&self) -> Option<Lateness> {
        let each: Option<Vec<Lateness>> = self.runs.iter().map(|run| run.lateness).collect();
        Lateness::over(&each?)
    }

    /// The metric in each replication, if all have it.
    fn values(&self, metric: Metric) -> Option<Vec<f64>> {
        self.runs.iter().map(|run| metric.of(run)).collect()
    }
}

/// A column of `summary.csv`, and a key of the JSON output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Policy,
    Backend,
    Point,
    Saturated,
    Metric(Metric),
    WorkerUtilization,
    Replications,
    LateMean,
    LateP99,
    LateMax,
    Valid,
    /// The half-width of a metric's confidence interval.
    HalfWidth(Metric),
}

/// The columns that come first in JSON.
const FIRST_IN_JSON: [Column; 5] =
    [Column::Policy, Column::Backend, Column::Point, Column::Replications, Column::Saturated];

impl Column {
    /// All columns in the order of `summary.csv`. Those about the load generator are there if any of these rows ran on a
    /// real clock, and those with half-widths if any has several replications.
    pub fn of(rows: &[SummaryRow]) -> Vec<Column> {
        let mut columns = vec![Column::Policy, Column::Backend];
        for &metric in Metric::ALL {
            if metric == Metric::Warmup {
                columns.extend([Column::Point, Column::Saturated]);
            }
            columns.push(Column::Metric(metric));
        }
        columns.extend([Column::WorkerUtilization, Column::Replications]);
        if rows.iter().any(|row| row.lateness().is_some()) {
            columns.extend([Column::LateMean, Column::LateP99, Column::LateMax, Column::Valid]);
        }
        if rows.iter().any(|row| row.runs.len() > 1) {
            columns.extend(Metric::ALL.iter().copied().map(Column::HalfWidth));
        }
        columns
    }

    pub fn name(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Column::Policy => "policy",
            Column::Backend => "backend",
            Column::Point => "point",
            Column::Saturated => "saturated",
            Column::Metric(metric) => metric.name(),
            Column::WorkerUtilization => "worker_utilization",
            Column::Replications => "replications",
            Column::LateMean => "late_mean_us",
            Column::LateP99 => "late_p99_us",
            Column::LateMax => "late_max_us",
            Column::Valid => "valid",
            Column::HalfWidth(metric) => return Cow::Owned(format!("{}_ci", metric.name())),
        })
    }

    pub fn value(self, row: &SummaryRow) -> Value<'_> {
        let late = |of: fn(Lateness) -> Option<f64>| Value::Number(row.lateness().and_then(of), Unit::Micros);
        match self {
            Column::Policy => Value::Text(&row.policy),
            Column::Backend => Value::Text(&row.backend),
            Column::Point => Value::Text(&row.point),
            Column::Saturated => Value::Truth(row.saturated()),
            Column::Metric(metric) => Value::Number(row.estimate(metric).value, metric.unit()),
            Column::WorkerUtilization => Value::Ratios(row.worker_utilization()),
            Column::Replications => Value::Number(Some(row.runs.len() as f64), Unit::Count),
            Column::LateMean => late(|late| Some(late.mean_us)),
            Column::LateP99 => late(|late| late.p99_us),
            Column::LateMax => late(|late| Some(late.max_us)),
            Column::Valid => Value::Truth(row.lateness().and_then(|late| late.valid)),
            Column::HalfWidth(metric) => Value::Number(row.estimate(metric).half_width, metric.unit()),
        }
    }
}

/// The value of a column in one row. A missing value is an empty field in files and null in JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    Text(&'a str),
    Truth(Option<bool>),
    Number(Option<f64>, Unit),
    Ratios(Vec<f64>),
}

impl Value<'_> {
    /// The value as a field of a CSV file, with the decimals of its unit.
    pub fn to_csv(&self) -> String {
        match self {
            Value::Text(text) => text.to_string(),
            Value::Truth(truth) => truth.map_or(String::new(), |truth| truth.to_string()),
            Value::Number(number, unit) => number.map_or(String::new(), |number| unit.written(number)),
            Value::Ratios(ratios) => {
                ratios.iter().map(|ratio| Unit::Ratio.written(*ratio)).collect::<Vec<_>>().join(";")
            }
        }
    }

    /// The value with all its digits; a whole count has no decimal point.
    pub fn to_json(&self) -> Json {
        match self {
            Value::Text(text) => (*text).into(),
            Value::Truth(truth) => (*truth).into(),
            Value::Number(Some(count), Unit::Count) if count.fract() == 0.0 => (*count as u64).into(),
            Value::Number(number, _) => (*number).into(),
            Value::Ratios(ratios) => ratios.as_slice().into(),
        }
    }
}

/// The results as one JSON object: the scenario's name and an object for each row, with the names of `summary.csv`.
pub fn to_json(scenario: &str, rows: &[SummaryRow]) -> Json {
    let object = |row: &SummaryRow| -> Json {
        let further =
            Column::of(std::slice::from_ref(row)).into_iter().filter(|column| !FIRST_IN_JSON.contains(column));
        let columns = FIRST_IN_JSON.into_iter().chain(further);
        columns
            .map(|column| (column.name().into_owned(), column.value(row).to_json()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    serde_json::json!({ "scenario": scenario, "rows": rows.iter().map(object).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rate;

    fn row(runs: &[Summary]) -> SummaryRow {
        SummaryRow { runs: runs.to_vec(), ..SummaryRow::default() }
    }

    fn run(throughput: f64, p99_ms: Option<f64>) -> Summary {
        let mut summary = Summary { throughput: Some(Rate(throughput)), ..Summary::default() };
        summary.latency.p99_ms = p99_ms;
        summary
    }

    #[test]
    fn one_replication_has_no_interval() {
        let combined = row(&[run(10.0, None)]);
        assert_eq!(combined.estimate(Metric::Throughput), Estimate { value: Some(10.0), half_width: None });
        assert_eq!(combined.estimate(Metric::P99), Estimate::default());
        assert_eq!(row(&[]).estimate(Metric::Completed), Estimate::default());
        assert_eq!(row(&[]).saturated(), None);
    }

    #[test]
    fn several_have_the_interval_of_student() {
        let combined = row(&[run(9.0, Some(1.0)), run(10.0, None), run(11.0, Some(3.0))]);
        let throughput = combined.estimate(Metric::Throughput);
        // t(0.975) is 4.3027 with two degrees of freedom, and the standard error of 9, 10, 11 is 1 / sqrt 3.
        assert_eq!(throughput.value, Some(10.0));
        assert!((throughput.half_width.unwrap() - 4.302_653 / 3f64.sqrt()).abs() < 1e-6);
        assert_eq!(combined.estimate(Metric::P99), Estimate::default(), "one of the three lacks it");
    }

    #[test]
    fn differences_are_paired() {
        let a = row(&[run(10.0, None), run(20.0, None), run(30.0, None)]);
        let b = row(&[run(9.0, None), run(19.0, None), run(29.0, None)]);
        assert_eq!(a.difference(&b, Metric::Throughput), Some(Interval { mean: 1.0, half_width: 0.0 }));
        assert_eq!(a.difference(&b, Metric::P99), None);
    }

    #[test]
    fn one_saturated_replication_is_enough() {
        let with = |saturated| Summary { saturated, ..Summary::default() };
        assert_eq!(row(&[with(Some(false)), with(Some(true))]).saturated(), Some(true));
        assert_eq!(row(&[with(Some(false)), with(None)]).saturated(), None);
        assert_eq!(row(&[with(Some(false)), with(Some(false))]).saturated(), Some(false));
    }

    #[test]
    fn workers_are_averaged_one_by_one() {
        let with = |shares: &[f64]| Summary { worker_utilization: shares.to_vec(), ..Summary::default() };
        assert_eq!(row(&[with(&[0.25, 1.0]), with(&[0.75, 0.5])]).worker_utilization(), [0.5, 0.75]);
        assert!(row(&[with(&[0.2]), with(&[])]).worker_utilization().is_empty());
    }
}
