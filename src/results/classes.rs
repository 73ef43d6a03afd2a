//! The rows of `classes.csv`: a class of requests, by policy and point.

use std::path::Path;

use serde_json::Value as Json;

use super::columns::{Column, Metric, Unit, swept_columns, to_object};
use super::summary::{Estimate, SummaryRow};
use super::write::write_columns;
use crate::error::Result;
use crate::metrics::summary::Summary;
use crate::units::Nanos;

/// A class, and its part of the row of its policy and point.
#[derive(Clone, Debug)]
pub struct ClassRow {
    pub class: String,
    pub part: SummaryRow,
}

/// Without the figures that need tasks or workers, which are not those of a class.
fn metrics() -> impl Iterator<Item = Metric> {
    use Metric::{ComputeP90, Max, MeanBatch, Padding, QueueP90, Utilization};
    let others = [MeanBatch, Padding, Utilization, Max, QueueP90, ComputeP90];
    Metric::ALL.iter().copied().filter(move |metric| !others.contains(metric))
}

impl ClassRow {
    /// In the order of the scenario's classes, or of their first requests in the trace.
    pub fn of(row: &SummaryRow) -> Vec<ClassRow> {
        let classes = row.runs.first().map_or(&[][..], |run| &run.classes);
        let one = |(place, (class, _)): (usize, &(String, Summary))| ClassRow {
            class: class.clone(),
            part: SummaryRow {
                runs: row.runs.iter().filter_map(|run| Some(run.classes.get(place)?.1.clone())).collect(),
                ..row.clone()
            },
        };
        classes.iter().enumerate().map(one).collect()
    }

    pub fn within_slo(&self) -> Estimate {
        self.part.estimated(|run| run.within_slo)
    }
}

fn columns(rows: &[ClassRow]) -> Vec<Column<'static, ClassRow>> {
    let metric = |metric: Metric| {
        Column::number(metric.name(), metric.unit(), move |row: &ClassRow| row.part.estimate(metric).value)
    };
    let expired = |row: &ClassRow| row.part.estimated(|run| Some(run.expired as f64)).value;
    let mut columns = vec![
        Column::text("policy", |row: &ClassRow| row.part.policy.clone()),
        Column::text("backend", |row: &ClassRow| row.part.backend.clone()),
        Column::text("point", |row: &ClassRow| row.part.point.clone()),
        Column::text("class", |row: &ClassRow| row.class.clone()),
    ];
    columns.extend(metrics().map(metric));
    columns.push(Column::number("slo_ms", Unit::Millis, |row: &ClassRow| row.part.slo().map(Nanos::as_millis_f64)));
    columns.push(Column::number("expired", Unit::Count, expired));
    columns.push(Column::number("within_slo", Unit::Ratio, |row: &ClassRow| row.within_slo().value));
    columns.push(Column::count("replications", |row: &ClassRow| row.part.runs.len()));
    if rows.iter().any(|row| row.part.runs.len() > 1) {
        columns.extend(metrics().map(|metric| {
            let half_width = move |row: &ClassRow| row.part.estimate(metric).half_width;
            Column::number(format!("{}_ci", metric.name()), metric.unit(), half_width)
        }));
        columns.push(Column::number("within_slo_ci", Unit::Ratio, |row: &ClassRow| row.within_slo().half_width));
    }
    columns.extend(swept_columns(rows, |row| &row.part.swept));
    columns
}

/// Writes `classes.csv`, unless there are no classes.
pub fn write_classes(path: &Path, rows: &[SummaryRow]) -> Result<()> {
    let rows: Vec<ClassRow> = rows.iter().flat_map(ClassRow::of).collect();
    if rows.is_empty() { Ok(()) } else { write_columns(path, &columns(&rows), &rows) }
}

/// An object for each class of the row.
pub fn to_json(row: &SummaryRow) -> Vec<Json> {
    let rows = ClassRow::of(row);
    let columns = columns(&rows);
    rows.iter().map(|row| to_object(&columns[3..], row)).collect()
}
