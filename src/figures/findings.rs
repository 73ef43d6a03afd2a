//! What this project's runs of the papers' scenarios came to.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Error, Result};
use crate::experiment::Report;
use crate::metrics::combined::Row;
use crate::metrics::figure::Figure;

/// The results of several scenarios, by the scenarios' names.
#[derive(Debug, Default)]
pub struct Findings {
    reports: BTreeMap<String, Report>,
}

/// The points of one policy in one scenario.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    rows: Vec<&'a Row>,
}

impl Findings {
    /// Takes in the results of a scenario.
    pub fn add(&mut self, scenario: &str, report: Report) {
        self.reports.insert(scenario.to_string(), report);
    }

    /// The points of a policy.
    ///
    /// # Errors
    /// A scenario without this policy.
    pub fn series(&self, scenario: &str, policy: &str) -> Result<Series<'_>> {
        let rows: Vec<&Row> =
            self.reports.get(scenario).iter().flat_map(|r| &r.rows).filter(|row| row.policy == policy).collect();
        match rows.is_empty() {
            true => Err(Error::input(format!("{scenario}: no results of a policy labelled \"{policy}\""))),
            false => Ok(Series { rows }),
        }
    }

    /// The folder of a scenario's results.
    ///
    /// # Errors
    /// A scenario that has not been run.
    pub fn folder(&self, scenario: &str) -> Result<&Path> {
        let report = self.reports.get(scenario);
        report.map(|report| report.folder.path()).ok_or_else(|| Error::input(format!("{scenario}: no results")))
    }
}

impl<'a> Series<'a> {
    /// A figure at each point that has it, with the offered rate.
    pub fn figure(&self, figure: Figure) -> impl Iterator<Item = (f64, f64)> + use<'a> {
        let rows: Vec<&Row> = self.rows.clone();
        rows.into_iter().filter_map(move |row| {
            Some((row.figures.estimate(Figure::Offered).value?, row.figures.estimate(figure).value?))
        })
    }

    /// A figure at the point of this name.
    ///
    /// # Errors
    /// A point that is not there or has no such figure.
    pub fn at(&self, point: &str, figure: Figure) -> Result<f64> {
        let row = self.rows.iter().find(|row| row.point == point);
        row.and_then(|row| row.figures.estimate(figure).value)
            .ok_or_else(|| Error::input(format!("no {} at the point {point}", figure.name())))
    }

    /// The highest throughput of any point.
    pub fn peak(&self) -> f64 {
        self.figure(Figure::Throughput).map(|(_, value)| value).fold(0.0, f64::max)
    }

    /// The highest throughput of a point whose 90th percentile of latency is at most so many milliseconds.
    pub fn peak_within(&self, p90_ms: f64) -> f64 {
        let rows = self.rows.iter().filter(|row| row.figures.estimate(Figure::P90).value.is_some_and(|v| v <= p90_ms));
        rows.filter_map(|row| row.figures.estimate(Figure::Throughput).value).fold(0.0, f64::max)
    }

    /// The offered rate at which the 90th percentile of latency passes so many milliseconds: between the last point below
    /// and the first above, in proportion on a logarithmic scale of latency.
    pub fn rate_at_p90(&self, p90_ms: f64) -> Option<f64> {
        let points: Vec<(f64, f64)> = self.figure(Figure::P90).collect();
        let above = points.iter().position(|(_, p90)| *p90 > p90_ms)?;
        let (rate, p90) = points[above];
        let Some((before, low)) = above.checked_sub(1).map(|i| points[i]) else { return Some(rate) };
        Some(before + (rate - before) * (p90_ms / low).ln() / (p90 / low).ln())
    }
}
