//! The runs and searches of studies: exhibits that need a search first, or several settings of a scenario.

use std::path::PathBuf;

use rayon::prelude::*;

use super::grnn::measured::GpuTimes;
use super::paper::Paper;
use super::reproduction::{Controls, WindowPeak, Workspace};
use crate::base::error::{Error, Result};
use crate::base::units::{Nanos, Rate};
use crate::lab::figures::{self, ScenarioFigures};
use crate::lab::run::executor::SelectedBackend;
use crate::lab::run::fingerprint::hash;
use crate::lab::run::folder::EarlierResults;
use crate::lab::run::{self, RunOptions, RunReport};
use crate::lab::scenario::{LoadPoint, Quantile, Scenario};
use crate::lab::search::Searched;
use crate::lab::search::objective::{Effort, Objective};
use crate::lab::search::rate::RateSearch;
use crate::lab::search::sweep::SweepSearch;

/// The folder of a paper's searches.
pub const SEARCHES: &str = "searches";

/// Runs and searches for the studies of a paper.
pub struct StudyRunner<'a> {
    pub paper: Paper,
    pub workspace: &'a Workspace<'a>,
    pub controls: &'a Controls<'a>,
}

/// Batch windows that are tried, in milliseconds.
const WINDOWS: [u64; 7] = [1, 2, 5, 10, 20, 50, 100];

/// The relative tolerance of searches.
const SEARCH_TOLERANCE: f64 = 0.01;
/// Peaks of windows that differ by less than this can't be told apart: searches with single runs scatter by 1.5 %.
const INDISTINCT: f64 = 0.03;
/// Runs are as long as the scenario's, since the papers' figures compare peaks and do not state them.
const EFFORT: Effort = Effort {
    tolerance: SEARCH_TOLERANCE,
    replications: 1,
    max_requests: 0,
    near: None,
};
/// The replications of each point with a given rate. Means of single runs near the peak differ by a tenth.
const REPLICATIONS: u32 = 5;

impl StudyRunner<'_> {
    /// The folder of the paper's results.
    pub fn folder(&self) -> PathBuf {
        self.workspace.folder(self.paper)
    }

    /// Times of sequences that were measured on a GPU.
    pub fn gpu_times(&self) -> &GpuTimes {
        &self.workspace.gpu_times
    }

    /// Reads a scenario of the paper by the name of its file, with overrides.
    pub fn scenario(&self, name: &str, overrides: &[String]) -> Result<Scenario> {
        (self.workspace.read_scenario)(self.paper, name, overrides)
    }

    /// The highest rate of each policy at which the 99th percentile is within the objective; 0 if there is none.
    pub fn peaks(&self, scenario: &Scenario) -> Result<Vec<f64>> {
        scenario
            .policies
            .par_iter()
            .with_max_len(1)
            .map(|entry| {
                let mut alone = scenario.clone();
                alone.policies = vec![entry.clone()];
                let peak = self.peak(alone, None)?;
                Ok(peak.map_or(0.0, |Rate(rate)| rate))
            })
            .collect()
    }

    /// The highest rate of a scenario's only policy. Each is searched for once, in a folder that the settings name. The
    /// search begins near the rate that is given, or else at the device's ceiling: runs above the peak end early.
    fn peak(&self, mut scenario: Scenario, near: Option<Rate>) -> Result<Option<Rate>> {
        let near = near.or(Some(Rate(f64::INFINITY)));
        // A search draws no figures, whatever the scenario asks for.
        scenario.output.plots.clear();
        let settings = hash(&scenario.resolved_json().to_string());
        let folder = self.folder().join(SEARCHES).join(settings);
        if let Some(known) = self.workspace.known_peaks().get(&folder) {
            return Ok(*known);
        }
        let asked = [(scenario.clone(), objective(&scenario)?)];
        let effort = Effort { near, ..EFFORT };
        let searches = SweepSearch::new(&RateSearch, &asked, effort, &folder)?;
        let mut own = None;
        let mut lock = None;
        if self.workspace.merge_only {
            own = Some(vec![false; searches.points().len()]);
        } else {
            let shard = self.workspace.shard;
            lock = Some(searches.open(self.workspace.keeps_studies(), shard)?);
        }
        let progress = || self.controls.progress.tick();
        let found = searches.find(own.as_deref(), self.controls.stop, &progress)?;
        if let Some(lock) = lock
            && self.workspace.shard.is_none()
        {
            lock.complete();
        }
        let mut peak = None;
        for answer in found.into_iter().flatten() {
            let Searched::Answer(answer) = answer else {
                let folder = searches.folder().path.display();
                return Err(Error::Incomplete(format!("{folder}: a search is missing")));
            };
            peak = answer.mean();
        }
        self.workspace.known_peaks().insert(folder, peak);
        Ok(peak)
    }

    /// The peak of a network's policy with each window. Each search begins near the peak with the window before.
    pub fn peaks_by_window(&self, network: &str, policy: &str) -> Result<Vec<WindowPeak>> {
        let key = (self.paper, network.to_string());
        if let Some(peaks) = self.workspace.known_window_peaks().get(&key) {
            return Ok(peaks.clone());
        }
        let mut peaks: Vec<WindowPeak> = Vec::new();
        for window in WINDOWS.map(|ms| Nanos(ms * 1_000_000)) {
            let setting = format!("policy.{policy}.window={}ns", window.0);
            let mut scenario = self.scenario(network, &[setting])?;
            scenario.policies.retain(|entry| entry.label == policy);
            let near = peaks.last().and_then(|(_, peak)| *peak);
            peaks.push((window, self.peak(scenario, near)?));
        }
        self.workspace
            .known_window_peaks()
            .insert(key, peaks.clone());
        Ok(peaks)
    }

    /// The window with which a network's policy has the highest peak, and that peak. If the search can't tell the best
    /// windows apart, the shortest of these counts.
    pub fn best_window(&self, network: &str, policy: &str) -> Result<(Nanos, f64)> {
        match best_window(&self.peaks_by_window(network, policy)?) {
            Some(best) => Ok(best),
            None => Err(Error::failure(format!(
                "{network}: {policy} meets the objective at no rate"
            ))),
        }
    }

    /// Runs a scenario without a search. Given rates run several times.
    pub fn run(&self, exhibit: &str, scenario: &Scenario) -> Result<RunReport> {
        let (report, _) = self.run_and_draw(exhibit, scenario)?;
        Ok(report)
    }

    /// Runs a scenario as [`StudyRunner::run`] does, and draws the figures that it asks for if the call draws any.
    pub fn run_and_draw(
        &self,
        exhibit: &str,
        scenario: &Scenario,
    ) -> Result<(RunReport, ScenarioFigures)> {
        let has_rates = matches!(scenario.points().first(), Some(LoadPoint::Rate(_)));
        let options = RunOptions {
            backend: SelectedBackend::SIM,
            out: self.folder().join(exhibit),
            replications: if has_rates { REPLICATIONS } else { 1 },
            resume: self.workspace.keeps_studies(),
            shard: None,
        };
        if self.workspace.merge_only {
            let points = run::points(
                std::slice::from_ref(scenario),
                &options,
                EarlierResults::RefuseOthers,
            )?;
            if points.iter().any(|point| !point.finished) {
                let folder = options.out.display();
                return Err(Error::Incomplete(format!("{folder}: points are missing")));
            }
        }
        let progress = || self.controls.progress.tick();
        let report = run::run(scenario, &options, self.controls.stop, &progress)?;
        if report.is_interrupted() {
            return Err(Error::Interrupted);
        }
        let mut figures = ScenarioFigures::default();
        if self.workspace.draws {
            figures = figures::draw(scenario, &report.folder.path, &[])?;
        }
        Ok((report, figures))
    }
}

/// The scenario's objective for the 99th percentile.
fn objective(scenario: &Scenario) -> Result<Objective> {
    let Some(slo) = scenario.metrics.slo else {
        let file = scenario.file.display();
        return Err(Error::input(format!("{file}: metrics.slo: missing")));
    };
    Ok(Objective::new(slo, Quantile::P99))
}

/// The first of the highest peaks that the search can't tell apart.
fn best_window(peaks: &[WindowPeak]) -> Option<(Nanos, f64)> {
    let mut highest: f64 = 0.0;
    for (_, peak) in peaks {
        if let Some(Rate(peak)) = peak {
            highest = highest.max(*peak);
        }
    }
    for (window, peak) in peaks {
        if let Some(Rate(peak)) = peak
            && peak * (1.0 + INDISTINCT) >= highest
        {
            return Some((*window, *peak));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_of_the_best_windows_is_chosen() {
        for (rates, chosen) in [
            (&[Some(90.0), Some(97.5), Some(100.0), None][..], Some(2)),
            (&[Some(100.0), Some(110.0), Some(90.0)], Some(2)),
            (&[None, None], None),
        ] {
            let mut peaks = Vec::new();
            for (window, rate) in WINDOWS.iter().zip(rates) {
                peaks.push((Nanos(*window), rate.map(Rate)));
            }
            let best = best_window(&peaks).map(|(window, _)| window.0);
            assert_eq!(best, chosen, "{rates:?}");
        }
    }
}
