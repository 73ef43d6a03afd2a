//! What this project's runs of a paper's scenarios came to.

use std::collections::BTreeMap;
use std::path::Path;

use super::lab::Study;
use super::{Launches, Measured};
use crate::error::{Error, Result};
use crate::experiment::Report;
use crate::results::columns::Metric;
use crate::results::summary::SummaryRow;
use crate::scenario::Scenario;

/// The results of the scenarios of one paper, by the figures' names.
#[derive(Debug, Default)]
pub struct Findings {
    runs: BTreeMap<String, (Scenario, Report)>,
    /// `None` where the trees are not at hand.
    launches: BTreeMap<String, Option<Launches>>,
    studies: BTreeMap<String, Study>,
    measured: Option<Measured>,
}

/// The points of one policy in one scenario.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    rows: Vec<&'a SummaryRow>,
}

impl Findings {
    /// Takes in the results of a figure's scenario.
    pub fn add(&mut self, figure: &str, scenario: Scenario, report: Report) {
        self.runs.insert(figure.to_string(), (scenario, report));
    }

    /// Takes in a count of launches, or that the trees for it are not at hand.
    pub fn add_launches(&mut self, figure: &str, launches: Option<Launches>) {
        self.launches.insert(figure.to_string(), launches);
    }

    /// Takes in a study.
    pub fn add_study(&mut self, figure: &str, study: Study) {
        self.studies.insert(figure.to_string(), study);
    }

    /// Takes in what was measured on a GPU.
    pub fn add_measured(&mut self, measured: Measured) {
        self.measured = Some(measured);
    }

    /// What was measured on a GPU, if there is a file of it.
    pub fn measured(&self) -> Option<&Measured> {
        self.measured.as_ref()
    }

    /// Whether a figure's scenario has been run, its count tried, or its study carried out.
    pub fn has(&self, figure: &str) -> bool {
        self.runs.contains_key(figure) || self.launches.contains_key(figure) || self.studies.contains_key(figure)
    }

    /// The study of a figure.
    ///
    /// # Errors
    /// One that has not been carried out.
    pub fn study(&self, figure: &str) -> Result<&Study> {
        self.studied(figure).ok_or_else(|| Error::input(format!("{figure}: no results")))
    }

    /// The study of a figure, if it is one and has been carried out.
    pub fn studied(&self, figure: &str) -> Option<&Study> {
        self.studies.get(figure)
    }

    /// The launches that were counted, if the trees were at hand.
    pub fn launches(&self, figure: &str) -> Option<&Launches> {
        self.launches.get(figure)?.as_ref()
    }

    /// What came of the scenario of a figure, if it has been run.
    pub fn report(&self, figure: &str) -> Option<&Report> {
        self.runs.get(figure).map(|(_, report)| report)
    }

    /// The points of a policy.
    ///
    /// # Errors
    /// A scenario without this policy.
    pub fn series(&self, figure: &str, policy: &str) -> Result<Series<'_>> {
        let reports = self.runs.get(figure).into_iter();
        let rows: Vec<&SummaryRow> =
            reports.flat_map(|(_, report)| &report.rows).filter(|row| row.policy == policy).collect();
        match rows.is_empty() {
            true => Err(Error::input(format!("{figure}: no results of a policy labelled \"{policy}\""))),
            false => Ok(Series { rows }),
        }
    }

    /// The folder of a scenario's results.
    ///
    /// # Errors
    /// A scenario that has not been run.
    pub fn folder(&self, figure: &str) -> Result<&Path> {
        self.run(figure).map(|(_, report)| report.folder.path())
    }

    /// The scenario of a figure.
    ///
    /// # Errors
    /// A scenario that has not been run.
    pub fn scenario(&self, figure: &str) -> Result<&Scenario> {
        self.run(figure).map(|(scenario, _)| scenario)
    }

    fn run(&self, figure: &str) -> Result<&(Scenario, Report)> {
        self.runs.get(figure).ok_or_else(|| Error::input(format!("{figure}: no results")))
    }
}

impl<'a> Series<'a> {
    /// A figure at each point that has it, with the offered rate.
    pub fn figure(&self, figure: Metric) -> impl Iterator<Item = (f64, f64)> + use<'a> {
        let rows: Vec<&SummaryRow> = self.rows.clone();
        rows.into_iter()
            .filter_map(move |row| Some((row.estimate(Metric::Offered).value?, row.estimate(figure).value?)))
    }

    /// A figure at the point of this name.
    ///
    /// # Errors
    /// A point that is not there or has no such figure.
    pub fn at(&self, point: &str, figure: Metric) -> Result<f64> {
        let row = self.rows.iter().find(|row| row.point == point);
        row.and_then(|row| row.estimate(figure).value)
            .ok_or_else(|| Error::input(format!("no {} at the point {point}", figure.name())))
    }

    /// The highest throughput of any point. The scenarios go far enough beyond saturation that it no longer rises much.
    pub fn peak(&self) -> f64 {
        self.figure(Metric::Throughput).map(|(_, value)| value).fold(0.0, f64::max)
    }

    /// The highest throughput of a point whose 90th percentile of latency is at most so many milliseconds.
    pub fn peak_within(&self, p90_ms: f64) -> f64 {
        let rows = self.rows.iter().filter(|row| row.estimate(Metric::P90).value.is_some_and(|v| v <= p90_ms));
        rows.filter_map(|row| row.estimate(Metric::Throughput).value).fold(0.0, f64::max)
    }

    /// The offered rate at which the 90th percentile of latency passes so many milliseconds: between the last point below
    /// and the first above, in proportion on a logarithmic scale of latency.
    pub fn rate_at_p90(&self, p90_ms: f64) -> Option<f64> {
        let points: Vec<(f64, f64)> = self.figure(Metric::P90).collect();
        let above = points.iter().position(|(_, p90)| *p90 > p90_ms)?;
        let (rate, p90) = points[above];
        let Some((before, low)) = above.checked_sub(1).map(|i| points[i]) else { return Some(rate) };
        Some(before + (rate - before) * (p90_ms / low).ln() / (p90 / low).ln())
    }

    /// By how many percent a figure lies below that of each of the others, at every rate up to `highest`.
    pub fn cuts(&self, figure: Metric, others: &[Series<'_>], highest: f64) -> Cuts {
        let ours: Vec<(f64, f64)> = self.figure(figure).filter(|(rate, _)| *rate <= highest).collect();
        let theirs = others.iter().flat_map(|other| ours.iter().zip(other.figure(figure)));
        let cuts = theirs.map(|((_, ours), (_, theirs))| 100.0 * (1.0 - ours / theirs));
        let (least, most) = cuts.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), cut| (l.min(cut), m.max(cut)));
        Cuts { least, most }
    }
}

/// The least and the most by which something is cut, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cuts {
    /// Negative where nothing is cut.
    pub least: f64,
    /// At least as much.
    pub most: f64,
}

impl Cuts {
    /// From the least to the most.
    pub fn range(self) -> (f64, f64) {
        (self.least, self.most)
    }
}
