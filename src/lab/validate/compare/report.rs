//! A comparison as a table, as JSON, and as a file.

use std::path::Path;

use clap::ValueEnum as _;
use serde_json::{Value, json};

use super::side::Side;
use super::{Compared, Comparison, ComparisonRow, Verdict};
use crate::base::error::{Result, plural};
use crate::lab::results::columns::{Column, Metric, MetricUnit, about, name_of, to_object};
use crate::lab::results::table::{align, significant};
use crate::lab::results::write::write_columns;

/// The headings of [`cells`].
pub const HEADINGS: [&str; 6] = ["", "A", "B", "difference", "spread", "verdict"];

pub fn table(comparison: &Comparison) -> String {
    let mut lines = vec![HEADINGS.map(String::from).to_vec()];
    let mut place = None;
    for row in &comparison.rows {
        if place != Some(&row.place) {
            place = Some(&row.place);
            let mut title = vec![String::new(); lines[0].len()];
            title[0] = format!("{} at {}", row.place.policy, row.place.point);
            lines.push(title);
        }
        lines.push(cells(row));
    }
    let count = |verdict: &Verdict| {
        comparison
            .rows
            .iter()
            .filter(|row| row.verdict() == *verdict)
            .count()
    };
    let counts = Verdict::value_variants()
        .iter()
        .map(|verdict| (count(verdict), about(verdict)));
    let counts: Vec<String> = counts
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    format!(
        "{}\nA: {}\nB: {}\n{}{}\n",
        comparison.a.scenario(),
        side(&comparison.a, comparison.rows.first().map(|row| row.runs.0)),
        side(&comparison.b, comparison.rows.first().map(|row| row.runs.1)),
        align(&lines),
        counts.join(", ")
    )
}

fn side(side: &Side, runs: Option<usize>) -> String {
    format!(
        "{} ({}, {})",
        side.results.path.display(),
        side.backend(),
        plural(runs.unwrap_or(0), "run")
    )
}

/// The cells of a row: name, A, B, difference, spread and verdict.
pub fn cells(row: &ComparisonRow) -> Vec<String> {
    let name = match &row.metric {
        Compared::Metric(Metric::Mean) => "mean latency (ms)".into(),
        Compared::Metric(metric) => match metric.unit() {
            MetricUnit::Millis => format!("{} (ms)", metric.short_name()),
            MetricUnit::PerSecond => format!("{} (req/s)", metric.short_name()),
            _ => metric.short_name().replace('_', " "),
        },
        Compared::Batches(cell) => format!("batches of {cell} (KS)"),
    };
    let value = |value: Option<f64>| value.map_or("-".into(), significant);
    // A distance between distributions has no sign.
    let difference = |percent: f64| match row.metric {
        Compared::Metric(_) => format!("{percent:+.2} %"),
        Compared::Batches(_) => format!("{percent:.2} %"),
    };
    vec![
        format!("  {name}"),
        value(row.a),
        value(row.b),
        row.difference.map_or("-".into(), difference),
        row.spread.map_or(
            if row.simulated { "none" } else { "unknown" }.into(),
            |percent| format!("±{percent:.2} %"),
        ),
        name_of(&row.verdict()),
    ]
}

fn columns() -> [Column<'static, ComparisonRow>; 12] {
    let number = |name: &'static str, of: fn(&ComparisonRow) -> Option<f64>| {
        Column::number(name, MetricUnit::Ratio, of)
    };
    [
        Column::text("policy", |row: &ComparisonRow| row.place.policy.clone()),
        Column::text("point", |row: &ComparisonRow| row.place.point.clone()),
        Column::text("figure", |row: &ComparisonRow| row.metric.name()),
        number("a", |row| row.a),
        number("b", |row| row.b),
        number("difference_percent", |row| row.difference),
        number("spread_percent", |row| row.spread),
        number("a_min", |row| row.range.map(|(least, _)| least)),
        number("a_max", |row| row.range.map(|(_, most)| most)),
        Column::count("a_runs", |row: &ComparisonRow| row.runs.0),
        Column::count("b_runs", |row: &ComparisonRow| row.runs.1),
        Column::text("verdict", |row: &ComparisonRow| name_of(&row.verdict())),
    ]
}

pub fn to_json(comparison: &Comparison) -> Value {
    let side = |side: &Side| json!({ "results": side.results.path, "backend": side.backend() });
    json!({
        "scenario": comparison.a.scenario(),
        "not_usable": comparison.usability.reasons(),
        "a": side(&comparison.a),
        "b": side(&comparison.b),
        "rows": comparison.rows.iter().map(|row| to_object(&columns(), row)).collect::<Vec<_>>(),
    })
}

/// Writes `comparison.csv`.
pub fn write_csv(path: &Path, comparison: &Comparison) -> Result<()> {
    write_columns(path, &columns(), &comparison.rows)
}
