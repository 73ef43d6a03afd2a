//! The plotted points as a tidy table, for people who draw their own figures.

use std::path::Path;

use crate::base::error::Result;
use crate::base::files::write_typed;

/// The name of intervals over replications.
pub const OF_REPLICATIONS: &str = "95 % interval";
/// The name of intervals from the median to the 99th percentile.
pub const P50_TO_P99: &str = "p50 to p99";

/// A drawn value, as a row of the table. A value with two intervals has two rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Datum {
    /// The panel's heading; empty in a figure with one panel.
    pub panel: String,
    pub series: String,
    /// The labels of the axes, with their units.
    pub axes: [String; 2],
    /// A number, or the name of a group of bars.
    pub x: String,
    pub y: f64,
    /// The ends of the horizontal interval.
    pub across: Option<[f64; 2]>,
    /// The ends of the vertical interval.
    pub ends: Option<[f64; 2]>,
    /// The name of the vertical interval.
    pub interval: &'static str,
    pub invalid: bool,
    pub saturated: bool,
}

impl Datum {
    /// The value once for each of its intervals, or once without an interval.
    pub fn with_each(self, intervals: [(Option<[f64; 2]>, &'static str); 2]) -> Vec<Datum> {
        let mut all = Vec::new();
        for (ends, interval) in intervals {
            if ends.is_some() {
                all.push(Datum {
                    ends,
                    interval,
                    ..self.clone()
                });
            }
        }
        if all.is_empty() { vec![self] } else { all }
    }
}

/// Writes the values of figures, each with the figure's name, to a CSV file.
pub fn write(path: &Path, figures: &[(String, Vec<Datum>)]) -> Result<()> {
    const COLUMNS: [&str; 14] = [
        "figure",
        "panel",
        "series",
        "x_axis",
        "x",
        "x_low",
        "x_high",
        "y_axis",
        "y",
        "low",
        "high",
        "interval",
        "valid",
        "saturated",
    ];
    write_typed(path, |out| {
        let mut table = csv::Writer::from_writer(out);
        table.write_record(COLUMNS)?;
        for (figure, data) in figures {
            for datum in data {
                table.write_record(fields(figure, datum))?;
            }
        }
        table.flush()
    })
}

/// The fields of a line, in the order of the columns.
fn fields(figure: &str, datum: &Datum) -> [String; 14] {
    let [x_low, x_high] = end_fields(datum.across);
    let [low, high] = end_fields(datum.ends);
    [
        figure.to_string(),
        datum.panel.clone(),
        datum.series.clone(),
        datum.axes[0].clone(),
        datum.x.clone(),
        x_low,
        x_high,
        datum.axes[1].clone(),
        datum.y.to_string(),
        low,
        high,
        datum.interval.to_string(),
        (!datum.invalid).to_string(),
        datum.saturated.to_string(),
    ]
}

fn end_fields(ends: Option<[f64; 2]>) -> [String; 2] {
    match ends {
        Some(ends) => ends.map(|end| end.to_string()),
        None => [String::new(), String::new()],
    }
}
