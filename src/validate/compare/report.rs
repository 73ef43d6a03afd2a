//! A comparison for a reader, for a program, and as a file.

use std::path::Path;

use serde_json::{Value, json};

use super::side::Side;
use super::{Compared, Comparison, Row, Verdict};
use crate::error::Result;
use crate::files::write_whole;
use crate::results::columns::Metric;
use crate::results::table::{aligned, significant};

/// The columns of the file.
const COLUMNS: [&str; 12] = [
    "policy",
    "point",
    "figure",
    "a",
    "b",
    "difference_percent",
    "spread_percent",
    "a_min",
    "a_max",
    "a_runs",
    "b_runs",
    "verdict",
];

/// A table with a block for each policy and point, and the count of the verdicts below it.
pub fn table(comparison: &Comparison) -> String {
    let heading = ["", "A", "B", "difference", "spread", "verdict"].map(String::from).to_vec();
    let mut lines = vec![heading];
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
    let count = |verdict| comparison.rows.iter().filter(|row| row.verdict() == verdict).count();
    format!(
        "{}\nA: {}\nB: {}\n{}{} inside the spread of A, {} outside, {} unknown\n",
        comparison.a.scenario(),
        side(&comparison.a, comparison.rows.first().map(|row| row.runs.0)),
        side(&comparison.b, comparison.rows.first().map(|row| row.runs.1)),
        aligned(&lines),
        count(Verdict::Inside),
        count(Verdict::Outside),
        count(Verdict::Unknown)
    )
}

fn side(results: &Side, runs: Option<usize>) -> String {
    let runs = match runs {
        Some(1) => "1 run".into(),
        runs => format!("{} runs", runs.unwrap_or(0)),
    };
    format!("{} ({}, {runs})", results.path().display(), results.backend())
}

fn cells(row: &Row) -> Vec<String> {
    let name = match &row.figure {
        Compared::Metric(Metric::Mean) => "mean latency (ms)".into(),
        Compared::Metric(Metric::P50) => "p50 (ms)".into(),
        Compared::Metric(Metric::P90) => "p90 (ms)".into(),
        Compared::Metric(Metric::P99) => "p99 (ms)".into(),
        Compared::Metric(Metric::Throughput) => "throughput (req/s)".into(),
        Compared::Metric(Metric::MeanBatch) => "mean batch".into(),
        Compared::Metric(other) => other.name().into(),
        Compared::Batches(cell) => format!("batches of {cell} (KS)"),
    };
    let value = |value: Option<f64>| value.map_or("-".into(), significant);
    // A distance has no sign.
    let difference = |percent: f64| match row.figure {
        Compared::Metric(_) => format!("{percent:+.2} %"),
        Compared::Batches(_) => format!("{percent:.2} %"),
    };
    vec![
        format!("  {name}"),
        value(row.a),
        value(row.b),
        row.difference.map_or("-".into(), difference),
        row.spread.map_or("unknown".into(), |percent| format!("±{percent:.2} %")),
        row.verdict().name().into(),
    ]
}

/// The comparison as one JSON object; what there is none of is null.
pub fn to_json(comparison: &Comparison) -> Value {
    let side = |results: &Side| json!({ "results": results.path(), "backend": results.backend() });
    let row = |row: &Row| {
        json!({
            "policy": row.place.policy,
            "point": row.place.point,
            "figure": row.figure.name(),
            "a": row.a,
            "b": row.b,
            "difference_percent": row.difference,
            "spread_percent": row.spread,
            "a_min": row.range.map(|(least, _)| least),
            "a_max": row.range.map(|(_, most)| most),
            "a_runs": row.runs.0,
            "b_runs": row.runs.1,
            "verdict": row.verdict().name(),
        })
    };
    json!({
        "scenario": comparison.a.scenario(),
        "a": side(&comparison.a),
        "b": side(&comparison.b),
        "rows": comparison.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

/// Writes the rows as CSV.
///
/// # Errors
/// Names the file that can't be written.
pub fn write_csv(path: &Path, comparison: &Comparison) -> Result<()> {
    write_whole(path, |out| {
        let mut table = csv::Writer::from_writer(out);
        table.write_record(COLUMNS)?;
        for row in &comparison.rows {
            let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.6}"));
            table.write_record([
                row.place.policy.clone(),
                row.place.point.clone(),
                row.figure.name(),
                number(row.a),
                number(row.b),
                number(row.difference),
                number(row.spread),
                number(row.range.map(|(least, _)| least)),
                number(row.range.map(|(_, most)| most)),
                row.runs.0.to_string(),
                row.runs.1.to_string(),
                row.verdict().name().to_string(),
            ])?;
        }
        table.flush()
    })
}
