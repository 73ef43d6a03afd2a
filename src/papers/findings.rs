//! This project's results of a paper's exhibits.

use std::collections::BTreeMap;

use super::lab::Study;
use super::{Launches, Measured};
use crate::base::error::{Error, Result};
use crate::base::files::folder_name;
use crate::lab::figures::ScenarioFigures;
use crate::lab::results::columns::Metric;
use crate::lab::results::logs::{LogRow as _, RequestLine};
use crate::lab::results::read::Log;
use crate::lab::results::summary::SummaryRow;
use crate::lab::run::RunReport;
use crate::lab::scenario::Scenario;

/// Of one paper.
#[derive(Debug, Default)]
pub struct Findings {
    pub exhibits: BTreeMap<String, Found>,
    pub measured: Option<Measured>,
}

/// The results of an exhibit.
#[derive(Debug)]
pub enum Found {
    Run(Box<(Scenario, RunReport)>, ScenarioFigures),
    Study(Study),
    Launches(Launches),
    /// Without the trees to count, or without a measurement.
    Missing,
}

#[derive(Clone, Debug)]
pub struct Series<'a> {
    rows: Vec<&'a SummaryRow>,
}

impl Findings {
    pub fn run(&self, exhibit: &str) -> Result<&(Scenario, RunReport)> {
        match self.exhibits.get(exhibit) {
            Some(Found::Run(run, _)) => Ok(run),
            _ => Err(Error::input(format!("{exhibit}: no results"))),
        }
    }

    pub fn study(&self, exhibit: &str) -> Result<&Study> {
        match self.exhibits.get(exhibit) {
            Some(Found::Study(study)) => Ok(study),
            _ => Err(Error::input(format!("{exhibit}: no results"))),
        }
    }

    pub fn series(&self, exhibit: &str, policy: &str) -> Result<Series<'_>> {
        let rows = self
            .run(exhibit)
            .into_iter()
            .flat_map(|(_, report)| &report.rows);
        let rows: Vec<&SummaryRow> = rows.filter(|row| row.policy == policy).collect();
        match rows.is_empty() {
            true => Err(Error::input(format!(
                "{exhibit}: no results of a policy labelled \"{policy}\""
            ))),
            false => Ok(Series { rows }),
        }
    }

    /// Start and finish of each request of a trace, by id, in milliseconds: the steps of schedules on unit times.
    pub fn steps(&self, exhibit: &str, policy: &str) -> Result<Vec<[f64; 2]>> {
        let point = self
            .run(exhibit)?
            .1
            .folder
            .path
            .join(folder_name(policy))
            .join("trace");
        let mut rows = Log::open(&point.join(RequestLine::FILE))?;
        let mut steps = Vec::new();
        while let Some(RequestLine {
            start_ns,
            finish_ns,
            ..
        }) = rows.read()?
        {
            steps.push(
                [start_ns, finish_ns].map(|time| time.map_or(f64::NAN, |time| time.0 as f64 / 1e6)),
            );
        }
        Ok(steps)
    }

    pub fn peak(&self, exhibit: &str, policy: &str) -> Result<f64> {
        Ok(self.series(exhibit, policy)?.peak())
    }

    pub fn at(&self, exhibit: &str, policy: &str, point: &str, metric: Metric) -> Result<f64> {
        self.series(exhibit, policy)?.at(point, metric)
    }
}

impl<'a> Series<'a> {
    /// Offered rate and value of each point that has both.
    pub fn points(&self, metric: Metric) -> impl Iterator<Item = (f64, f64)> + use<'a> {
        let rows = self.rows.clone().into_iter();
        rows.filter_map(move |row| {
            Some((
                row.estimate(Metric::Offered).value?,
                row.estimate(metric).value?,
            ))
        })
    }

    pub fn at(&self, point: &str, metric: Metric) -> Result<f64> {
        let row = self.rows.iter().find(|row| row.point == point);
        row.and_then(|row| row.estimate(metric).value)
            .ok_or_else(|| Error::input(format!("no {} at the point {point}", metric.name())))
    }

    /// The highest throughput. The scenarios reach far enough beyond saturation that it hardly rises further.
    pub fn peak(&self) -> f64 {
        self.points(Metric::Throughput)
            .map(|(_, value)| value)
            .fold(0.0, f64::max)
    }

    /// Of points whose 90th percentile of latency is at most `p90_ms`.
    pub fn peak_within(&self, p90_ms: f64) -> f64 {
        let rows = self
            .rows
            .iter()
            .filter(|row| row.estimate(Metric::P90).value.is_some_and(|v| v <= p90_ms));
        rows.filter_map(|row| row.estimate(Metric::Throughput).value)
            .fold(0.0, f64::max)
    }

    /// The offered rate at which the 90th percentile exceeds `p90_ms`, interpolated on a logarithmic scale of
    /// latency.
    pub fn rate_at_p90(&self, p90_ms: f64) -> Option<f64> {
        let points: Vec<(f64, f64)> = self.points(Metric::P90).collect();
        let above = points.iter().position(|(_, p90)| *p90 > p90_ms)?;
        let (rate, p90) = points[above];
        let Some((before, low)) = above.checked_sub(1).map(|i| points[i]) else {
            return Some(rate);
        };
        Some(before + (rate - before) * (p90_ms / low).ln() / (p90 / low).ln())
    }

    /// The smallest and largest percentage by which a value is below the other series', at rates up to `highest`;
    /// negative if above.
    pub fn cuts(&self, metric: Metric, others: &[Series<'_>], highest: f64) -> (f64, f64) {
        let ours: Vec<(f64, f64)> = self
            .points(metric)
            .filter(|(rate, _)| *rate <= highest)
            .collect();
        let theirs = others
            .iter()
            .flat_map(|other| ours.iter().zip(other.points(metric)));
        range(theirs.map(|((_, ours), (_, theirs))| 100.0 * (1.0 - ours / theirs)))
    }
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The least and the greatest.
pub fn range(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let wider = |(least, most): (f64, f64), value: f64| (value.min(least), value.max(most));
    values
        .into_iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), wider)
}
