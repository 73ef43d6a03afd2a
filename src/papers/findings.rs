//! This project's results of a paper's exhibits.

use std::collections::BTreeMap;

use super::grnn::measured::GpuTimes;
use super::jit::launches::JitLaunches;
use super::numbers::range;
use super::study::Study;
use super::value::PaperValue;
use super::verdict::ClaimVerdict;
use crate::base::error::{Error, Result};
use crate::base::files::folder_name;
use crate::lab::figures::ScenarioFigures;
use crate::lab::results::columns::Metric;
use crate::lab::results::logs::{LogRow as _, RequestLine};
use crate::lab::results::read::Log;
use crate::lab::results::summary::SummaryRow;
use crate::lab::run::RunReport;
use crate::lab::scenario::Scenario;

/// Compares our results with the value that a claim states.
pub type Check = fn(&Findings, &PaperValue) -> Result<ClaimVerdict>;

/// The results of a paper's exhibits.
#[derive(Debug, Default)]
pub struct Findings {
    /// The results by the exhibits' names.
    pub exhibits: BTreeMap<String, ExhibitResult>,
    /// Times of sequences that were measured on a GPU.
    pub measured: Option<GpuTimes>,
}

/// The results of an exhibit.
#[derive(Debug)]
pub enum ExhibitResult {
    Run(Box<(Scenario, RunReport)>, ScenarioFigures),
    Study(Study),
    Launches(JitLaunches),
    /// There are no trees to count, or nothing was measured.
    Missing,
}

/// The rows of one policy in a summary, by load.
#[derive(Clone, Debug)]
pub struct PolicySeries<'a> {
    rows: Vec<&'a SummaryRow>,
}

impl Findings {
    pub fn run(&self, exhibit: &str) -> Result<&(Scenario, RunReport)> {
        match self.exhibits.get(exhibit) {
            Some(ExhibitResult::Run(run, _)) => Ok(run),
            _ => Err(Error::input(format!("{exhibit}: no results"))),
        }
    }

    pub fn study(&self, exhibit: &str) -> Result<&Study> {
        match self.exhibits.get(exhibit) {
            Some(ExhibitResult::Study(study)) => Ok(study),
            _ => Err(Error::input(format!("{exhibit}: no results"))),
        }
    }

    pub fn series(&self, exhibit: &str, policy: &str) -> Result<PolicySeries<'_>> {
        let mut rows = Vec::new();
        if let Ok((_, report)) = self.run(exhibit) {
            rows.extend(report.rows.iter().filter(|row| row.policy == policy));
        }
        if rows.is_empty() {
            return Err(Error::input(format!(
                "{exhibit}: no results of a policy labelled \"{policy}\""
            )));
        }
        Ok(PolicySeries { rows })
    }

    /// Start and finish of each request of a trace in milliseconds, by id. These are the steps of schedules on unit
    /// times.
    pub fn steps(&self, exhibit: &str, policy: &str) -> Result<Vec<[f64; 2]>> {
        let (_, report) = self.run(exhibit)?;
        let point = report.folder.path.join(folder_name(policy)).join("trace");
        let mut lines = Log::<RequestLine>::open(&point.join(RequestLine::FILE))?;
        let mut steps = Vec::new();
        while let Some(line) = lines.read()? {
            steps.push([line.start_ns, line.finish_ns].map(|time| match time {
                Some(time) => time.0 as f64 / 1e6,
                None => f64::NAN,
            }));
        }
        Ok(steps)
    }

    pub fn peak(&self, exhibit: &str, policy: &str) -> Result<f64> {
        Ok(self.series(exhibit, policy)?.peak())
    }

    pub fn value(&self, exhibit: &str, policy: &str, point: &str, metric: Metric) -> Result<f64> {
        self.series(exhibit, policy)?.value(point, metric)
    }
}

impl<'a> PolicySeries<'a> {
    /// The offered rate and the value of each point that has both.
    pub fn points(&self, metric: Metric) -> impl Iterator<Item = (f64, f64)> + use<'a> {
        let rows = self.rows.clone().into_iter();
        rows.filter_map(move |row| {
            let rate = row.estimate(Metric::Offered).value?;
            Some((rate, row.estimate(metric).value?))
        })
    }

    pub fn value(&self, point: &str, metric: Metric) -> Result<f64> {
        let row = self.rows.iter().find(|row| row.point == point);
        row.and_then(|row| row.estimate(metric).value)
            .ok_or_else(|| Error::input(format!("no {} at the point {point}", metric.name())))
    }

    /// The highest throughput. The scenarios reach far enough beyond saturation that it hardly rises further.
    pub fn peak(&self) -> f64 {
        self.points(Metric::Throughput)
            .map(|(_, throughput)| throughput)
            .fold(0.0, f64::max)
    }

    /// The highest throughput of points whose 90th percentile of latency is at most `p90_ms`.
    pub fn peak_within(&self, p90_ms: f64) -> f64 {
        let mut highest: f64 = 0.0;
        for row in &self.rows {
            let p90 = row.estimate(Metric::P90).value;
            let throughput = row.estimate(Metric::Throughput).value;
            if let (Some(p90), Some(throughput)) = (p90, throughput)
                && p90 <= p90_ms
            {
                highest = highest.max(throughput);
            }
        }
        highest
    }

    /// The offered rate at which the 90th percentile exceeds `p90_ms`, interpolated on a logarithmic scale of
    /// latency.
    pub fn rate_at_p90(&self, p90_ms: f64) -> Option<f64> {
        let points: Vec<(f64, f64)> = self.points(Metric::P90).collect();
        let above = points.iter().position(|(_, p90)| *p90 > p90_ms)?;
        let (rate, p90) = points[above];
        if above == 0 {
            return Some(rate);
        }
        let (rate_before, p90_before) = points[above - 1];
        let distance = (p90_ms / p90_before).ln();
        let whole = (p90 / p90_before).ln();
        Some(rate_before + (rate - rate_before) * distance / whole)
    }

    /// The smallest and the largest percentage by which a value is below that of the other series, at rates up to
    /// `highest`. They are negative where it is above.
    pub fn cuts(&self, metric: Metric, others: &[PolicySeries<'_>], highest: f64) -> (f64, f64) {
        let mut ours = Vec::new();
        for (rate, value) in self.points(metric) {
            if rate <= highest {
                ours.push(value);
            }
        }
        let mut cuts = Vec::new();
        for other in others {
            for (ours, (_, theirs)) in ours.iter().zip(other.points(metric)) {
                cuts.push(100.0 * (1.0 - ours / theirs));
            }
        }
        range(cuts)
    }
}
