//! The columns of summaries and of tables, in order: names, units and values. Those of the logs are in [`super::logs`].

use std::borrow::Cow;

use clap::ValueEnum;
use serde_json::{Map, Value as Json};

use super::sweep_keys::{self, Swept};
use crate::core::summary::Summary;
use crate::core::summary::stats::{INDEPENDENT_FOR_A_MEAN, Quantile};

/// The name of a variant, in files and in JSON.
pub fn name_of(variant: &impl ValueEnum) -> String {
    variant
        .to_possible_value()
        .expect("no variant is skipped")
        .get_name()
        .to_string()
}

/// The description of a variant, or an empty text without one.
pub fn about(variant: &impl ValueEnum) -> String {
    let value = variant.to_possible_value();
    value
        .and_then(|value| value.get_help().map(ToString::to_string))
        .unwrap_or_default()
}

/// The unit of a metric, which decides the number of decimals in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricUnit {
    PerSecond,
    Millis,
    Micros,
    Count,
    Ratio,
}

impl MetricUnit {
    /// A value with the unit's decimals: milliseconds down to the nanosecond, rates to the thousandth or with four
    /// significant digits, fractions to the millionth, and counts without decimals unless they are a mean.
    pub fn format(self, value: f64) -> String {
        match self {
            MetricUnit::Millis | MetricUnit::Ratio => format!("{value:.6}"),
            MetricUnit::Count if value.fract() == 0.0 => format!("{value:.0}"),
            MetricUnit::Micros | MetricUnit::Count => format!("{value:.3}"),
            MetricUnit::PerSecond => format!("{value:.*}", decimals(value, 4).max(3)),
        }
    }
}

/// The number of decimals with which a value has this number of significant digits. At least one digit is after the
/// point if the value is below 1; none has to be if the whole part has enough digits. 0 for 0.
pub fn decimals(value: f64, significant: i32) -> usize {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    let first = value.abs().log10().floor() as i32;
    (significant - 1 - first).max(0) as usize
}

/// The value of a column in a row. A missing value is an empty field in files and null in JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Text(String),
    Truth(Option<bool>),
    Number(Option<f64>, MetricUnit),
    /// A value as the user wrote it. In JSON it is a number where it reads as one.
    Given(Option<String>),
}

impl Value {
    /// The value as a field of a CSV file, with the decimals of its unit.
    pub fn to_csv(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::Given(text) => text.clone().unwrap_or_default(),
            Value::Truth(truth) => truth.map_or(String::new(), |truth| truth.to_string()),
            Value::Number(number, unit) => {
                number.map_or(String::new(), |number| unit.format(number))
            }
        }
    }

    /// The value in JSON with all digits. A whole count has no decimal point.
    pub fn to_json(&self) -> Json {
        match self {
            Value::Text(text) => text.as_str().into(),
            Value::Given(None) => Json::Null,
            Value::Given(Some(text)) => {
                serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into())
            }
            Value::Truth(truth) => (*truth).into(),
            Value::Number(Some(count), MetricUnit::Count) if count.fract() == 0.0 => {
                (*count as u64).into()
            }
            Value::Number(number, _) => (*number).into(),
        }
    }
}

/// A column of rows of type `T`: its name in files and in JSON, and its value in a row.
pub struct Column<'c, T> {
    pub name: Cow<'static, str>,
    value: Box<dyn Fn(&T) -> Value + 'c>,
}

impl<'c, T> Column<'c, T> {
    pub fn text(name: &'static str, of: impl Fn(&T) -> String + 'c) -> Self {
        Column {
            name: name.into(),
            value: Box::new(move |row| Value::Text(of(row))),
        }
    }

    pub fn optional(
        name: impl Into<Cow<'static, str>>,
        of: impl Fn(&T) -> Option<String> + 'c,
    ) -> Self {
        Column {
            name: name.into(),
            value: Box::new(move |row| Value::Given(of(row))),
        }
    }

    pub fn truth(name: &'static str, of: impl Fn(&T) -> Option<bool> + 'c) -> Self {
        Column {
            name: name.into(),
            value: Box::new(move |row| Value::Truth(of(row))),
        }
    }

    pub fn number(
        name: impl Into<Cow<'static, str>>,
        unit: MetricUnit,
        of: impl Fn(&T) -> Option<f64> + 'c,
    ) -> Self {
        Column {
            name: name.into(),
            value: Box::new(move |row| Value::Number(of(row), unit)),
        }
    }

    pub fn count<V: Into<Option<usize>>>(name: &'static str, of: impl Fn(&T) -> V + 'c) -> Self {
        Column::number(name, MetricUnit::Count, move |row| {
            of(row).into().map(|count| count as f64)
        })
    }

    pub fn value(&self, row: &T) -> Value {
        (self.value)(row)
    }
}

/// A column for each swept key of the rows. `of` gives the keys of a row.
pub fn swept_columns<'c, T: 'c>(
    rows: &[T],
    of: fn(&T) -> &[Swept],
) -> impl Iterator<Item = Column<'c, T>> {
    let keys = sweep_keys::keys(rows.iter().map(of));
    keys.into_iter().map(move |key| {
        let key = key.to_string();
        Column::optional(key.clone(), move |row| {
            sweep_keys::value(of(row), &key).map(String::from)
        })
    })
}

/// A row as a JSON object with a key for each column.
pub fn to_object<'a, 'c: 'a, T: 'c>(
    columns: impl IntoIterator<Item = &'a Column<'c, T>>,
    row: &T,
) -> Json {
    let entries = columns
        .into_iter()
        .map(|column| (column.name.to_string(), column.value(row).to_json()));
    entries.collect::<Map<_, _>>().into()
}

/// Each line defines a metric: the variant, the column's name, its unit, its heading in a terminal's table (empty if it
/// is not shown there), and its value in a summary.
macro_rules! metrics {
    ($($metric:ident $name:literal $unit:ident $heading:tt $of:expr;)*) => {
        /// A metric of a run. Its name is its column in `summary.csv` and its key in JSON.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Metric { $($metric),* }

        impl Metric {
            pub(super) const EVERY: &[Metric] = &[$(Metric::$metric),*];
            /// The metrics of every model, in the order of `summary.csv`.
            pub const ALL: &[Metric] = Metric::EVERY.split_at(Metric::FIRST_OF_TOKENS as usize).0;
            /// The metrics that only language models have.
            pub const OF_TOKENS: &[Metric] = Metric::EVERY.split_at(Metric::FIRST_OF_TOKENS as usize).1;

            fn definition(self) -> Definition {
                match self {
                    $(Metric::$metric => Definition { name: $name, unit: MetricUnit::$unit, heading: &$heading, of: $of }),*
                }
            }
        }
    };
}

struct Definition {
    name: &'static str,
    unit: MetricUnit,
    heading: &'static [&'static str],
    of: fn(&Summary) -> Option<f64>,
}

metrics! {
    Offered "offered_rps" PerSecond [] |s| s.offered.map(|rate| rate.0);
    Throughput "throughput_rps" PerSecond ["throughput", "req/s"] |s| s.throughput.map(|rate| rate.0);
    Goodput "goodput_rps" PerSecond ["goodput", "req/s"] |s| s.goodput.map(|rate| rate.0);
    Completed "completed" Count [] |s| Some(s.completed as f64);
    Failed "failed" Count [] |s| Some(s.failed as f64);
    Rejected "rejected" Count ["rej", "%"] |s| Some(s.rejected as f64);
    Mean "mean_ms" Millis [] |s| s.latency.mean_ms;
    P50 "p50_ms" Millis ["p50", "ms"] |s| s.latency.p50_ms;
    P90 "p90_ms" Millis ["p90", "ms"] |s| s.latency.p90_ms;
    P95 "p95_ms" Millis [] |s| s.latency.p95_ms;
    P99 "p99_ms" Millis ["p99", "ms"] |s| s.latency.p99_ms;
    P999 "p999_ms" Millis [] |s| s.latency.p999_ms;
    QueueP50 "queue_p50_ms" Millis [] |s| s.queue.p50_ms;
    QueueP99 "queue_p99_ms" Millis ["queue p99", "ms"] |s| s.queue.p99_ms;
    ComputeP50 "compute_p50_ms" Millis [] |s| s.compute.p50_ms;
    ComputeP99 "compute_p99_ms" Millis [] |s| s.compute.p99_ms;
    MeanBatch "mean_batch" Ratio ["batch", "mean"] |s| s.mean_batch;
    Padding "padding" Ratio ["pad", "%"] |s| s.padding;
    Utilization "utilization" Ratio ["busy", "%"] |s| s.utilization;
    Warmup "warmup" Count [] |s| Some(s.warmup as f64);
    Max "max_ms" Millis [] |s| s.latency.max_ms;
    QueueP90 "queue_p90_ms" Millis [] |s| s.queue.p90_ms;
    ComputeP90 "compute_p90_ms" Millis [] |s| s.compute.p90_ms;
    TtftP50 "ttft_p50_ms" Millis [] |s| s.tokens.as_ref()?.ttft.p50_ms;
    TtftP99 "ttft_p99_ms" Millis ["ttft p99", "ms"] |s| s.tokens.as_ref()?.ttft.p99_ms;
    TbtMean "tbt_mean_ms" Millis [] |s| s.tokens.as_ref()?.tbt.mean_ms;
    TbtP99 "tbt_p99_ms" Millis ["tbt p99", "ms"] |s| s.tokens.as_ref()?.tbt.p99_ms;
    TbtMax "tbt_max_ms" Millis ["tbt max", "ms"] |s| s.tokens.as_ref()?.tbt.max_ms;
    Normalised "normalised_ms" Millis ["latency", "ms/token"] |s| s.tokens.as_ref()?.normalised_ms;
    TokenRate "tokens_per_s" PerSecond ["tokens", "1/s"] |s| Some(s.tokens.as_ref()?.throughput?.0);
    KvMean "kv_mean" Ratio [] |s| s.tokens.as_ref()?.kv_mean;
    KvPeak "kv_peak" Ratio ["kv peak", "%"] |s| s.tokens.as_ref()?.kv_peak;
    Preemptions "preemptions" Count ["preempted", "times"] |s| Some(s.tokens.as_ref()?.preemptions as f64);
}

/// The metrics by which runs of the same requests are compared, and by whose spread real runs are judged.
pub const COMPARED: [Metric; 6] = [
    Metric::Mean,
    Metric::P50,
    Metric::P90,
    Metric::P99,
    Metric::Throughput,
    Metric::MeanBatch,
];

impl Metric {
    const FIRST_OF_TOKENS: Metric = Metric::TtftP50;

    /// The column's name, which ends with the unit.
    pub fn name(self) -> &'static str {
        self.definition().name
    }

    /// All metrics, including those that only language models have.
    pub fn all() -> impl Iterator<Item = Metric> {
        Metric::EVERY.iter().copied()
    }

    /// The metric of this name: its column, with or without the unit.
    pub fn find(name: &str) -> Option<Metric> {
        Metric::all().find(|metric| metric.name() == name || metric.short_name() == name)
    }

    /// The number of independent requests that an interval of the metric needs, or `None` if any number is enough.
    pub fn independent_needed(self) -> Option<f64> {
        let quantile = match self {
            Metric::Mean | Metric::Normalised => return Some(INDEPENDENT_FOR_A_MEAN),
            Metric::P50 | Metric::QueueP50 | Metric::TtftP50 => Quantile::P50,
            Metric::P90 | Metric::QueueP90 => Quantile::P90,
            Metric::P95 => Quantile::P95,
            Metric::P99 | Metric::QueueP99 | Metric::TtftP99 => Quantile::P99,
            Metric::P999 => Quantile::P999,
            _ => return None,
        };
        Some(quantile.independent_needed())
    }

    /// The name with the unit, for an axis.
    pub fn label(self) -> String {
        let name = self.short_name().replace('_', " ");
        match self.unit() {
            MetricUnit::Millis => format!("{name} (ms)"),
            MetricUnit::PerSecond => format!("{name} (1/s)"),
            MetricUnit::Micros => format!("{name} (µs)"),
            MetricUnit::Count | MetricUnit::Ratio => name,
        }
    }

    /// The name without the unit: `p99`, `throughput`.
    pub fn short_name(self) -> &'static str {
        self.name().trim_end_matches("_ms").trim_end_matches("_rps")
    }

    pub fn unit(self) -> MetricUnit {
        self.definition().unit
    }

    /// The heading in a terminal's table: the name and the unit. `None` if the metric is not shown there.
    pub fn heading(self) -> Option<[&'static str; 2]> {
        self.definition().heading.try_into().ok()
    }

    /// The value in a summary, or `None` if the run is too short for it.
    pub fn value(self, summary: &Summary) -> Option<f64> {
        (self.definition().of)(summary)
    }
}
