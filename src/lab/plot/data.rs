//! The plotted points as a tidy table, for people who draw themselves.

use std::path::Path;

use super::panel::{Dot, PlotPanel};
use crate::base::error::Result;
use crate::base::files::write_typed;

pub const OF_REPLICATIONS: &str = "95 % interval";
pub const P50_TO_P99: &str = "p50 to p99";

/// A drawn value. A value with two intervals is there twice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Datum {
    /// The panel's heading; empty in a figure with one.
    pub panel: String,
    pub series: String,
    /// The labels of the axes, with their units.
    pub axes: [String; 2],
    /// A number, or the name of a group of bars.
    pub x: String,
    pub y: f64,
    /// The ends of intervals, if there are any.
    pub across: Option<[f64; 2]>,
    pub ends: Option<[f64; 2]>,
    /// What `ends` is.
    pub interval: &'static str,
    pub invalid: bool,
    pub saturated: bool,
}

impl Datum {
    pub fn new(panel: &PlotPanel, series: &str, x: impl ToString, y: f64) -> Datum {
        let axes = [panel.x.label.clone(), panel.y.label.clone()];
        Datum {
            panel: panel.name.clone(),
            series: series.into(),
            axes,
            x: x.to_string(),
            y,
            ..Datum::default()
        }
    }

    pub fn of_dot(panel: &PlotPanel, series: &str, dot: &Dot) -> Vec<Datum> {
        let Dot {
            x,
            y,
            across,
            invalid,
            saturated,
            ..
        } = *dot;
        let plain = Datum {
            across,
            invalid,
            saturated,
            ..Datum::new(panel, series, x, y)
        };
        plain.with_each([(dot.interval, OF_REPLICATIONS), (dot.span, P50_TO_P99)])
    }

    /// Once for each of its intervals, or without one.
    pub fn with_each(self, intervals: [(Option<[f64; 2]>, &'static str); 2]) -> Vec<Datum> {
        let with = |(ends, interval): (Option<[f64; 2]>, _)| {
            Some(Datum {
                ends: Some(ends?),
                interval,
                ..self.clone()
            })
        };
        let all: Vec<Datum> = intervals.into_iter().filter_map(with).collect();
        if all.is_empty() { vec![self] } else { all }
    }
}

/// The data of figures, by their names.
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
                let [x_low, x_high] = ends(datum.across);
                let [low, high] = ends(datum.ends);
                let (x_axis, y_axis) = (&datum.axes[0], &datum.axes[1]);
                let [valid, saturated] = [!datum.invalid, datum.saturated].map(|is| is.to_string());
                let (y, interval) = (datum.y.to_string(), datum.interval);
                table.write_record([
                    figure,
                    &datum.panel,
                    &datum.series,
                    x_axis,
                    &datum.x,
                    &x_low,
                    &x_high,
                    y_axis,
                    &y,
                    &low,
                    &high,
                    interval,
                    &valid,
                    &saturated,
                ])?;
            }
        }
        table.flush()
    })
}

fn ends(ends: Option<[f64; 2]>) -> [String; 2] {
    ends.map_or([String::new(), String::new()], |ends| {
        ends.map(|end| end.to_string())
    })
}
