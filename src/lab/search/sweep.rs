//! The searches of a sweep, with the folders in which they are kept.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::objective::{Effort, Objective, first_rate};
use super::parts::SearchRecord;
use super::{Question, Search, Searched, find};
use crate::base::error::Result;
use crate::lab::run::executor::SelectedBackend;
use crate::lab::run::folder::Folder;
use crate::lab::run::lock::Lock;
use crate::lab::run::memory::MemoryAtOnce;
use crate::lab::run::shard::{PlannedPoint, Shard};
use crate::lab::run::target::describe_simulated;
use crate::lab::run::{RunOptions, estimate_memory};
use crate::lab::scenario::Scenario;

/// The folders of searches in scenarios, each under its objective. Scenarios of one name share a folder.
///
/// # Errors
/// Fails if a scenario has no rates, or if one of its files can't be read.
pub(super) fn open_folders<S: Search>(
    search: &S,
    asked: &[(&Scenario, &Objective)],
    effort: &Effort,
    out: &Path,
) -> Result<Vec<Folder>> {
    let scenarios: Vec<&Scenario> = asked.iter().map(|(scenario, _)| *scenario).collect();
    let devices = vec![describe_simulated(SelectedBackend::SIM); asked.len()];
    let of_scenarios = Folder::open_variants(&scenarios, &devices, out, SelectedBackend::SIM)?;
    let mut folders = Vec::new();
    for (folder, (scenario, objective)) in of_scenarios.into_iter().zip(asked) {
        // The settings have everything that decides the results, in addition to the scenario with its first load.
        let settings = format!(
            "{} {} {} {} {effort:?}",
            S::NAME,
            first_rate(scenario)?,
            search.settings(),
            objective.fingerprint_text()
        );
        folders.push(folder.with_search(&settings));
    }
    Ok(folders)
}

/// One search in each scenario of a sweep, under the scenario's objective.
pub struct SweepSearch<'s, S> {
    search: &'s S,
    effort: Effort,
    asked: &'s [(Scenario, Objective)],
    folders: Vec<Folder>,
}

impl<'s, S: Search> SweepSearch<'s, S> {
    /// Prepares the searches and names their folders, without writing anything.
    ///
    /// # Errors
    /// Fails if a scenario has no rates, or if one of its files can't be read.
    pub fn new(
        search: &'s S,
        asked: &'s [(Scenario, Objective)],
        effort: Effort,
        out: &Path,
    ) -> Result<Self> {
        let scenarios: Vec<(&Scenario, &Objective)> = asked
            .iter()
            .map(|(scenario, objective)| (scenario, objective))
            .collect();
        Ok(SweepSearch {
            search,
            effort,
            asked,
            folders: open_folders(search, &scenarios, &effort, out)?,
        })
    }

    /// Counts findings of other settings as missing, as a plan does.
    pub fn ignore_others(&mut self) {
        let folders = std::mem::take(&mut self.folders);
        self.folders = folders.into_iter().map(Folder::ignore_others).collect();
    }

    fn parts(&self, scenario: &Scenario) -> u32 {
        self.search.parts(&self.effort, scenario)
    }

    /// The points of all searches, in order. The cost of a point is that of its first run.
    pub fn points(&self) -> Vec<PlannedPoint> {
        let mut points = Vec::new();
        for (scenario, objective) in self.asked {
            let cost = u64::from(self.effort.first_run(scenario, objective)).max(1);
            for entry in &scenario.policies {
                for part in 0..self.parts(scenario) {
                    points.push(PlannedPoint::new(
                        scenario,
                        entry,
                        String::new(),
                        part,
                        cost,
                    ));
                }
            }
        }
        points
    }

    /// Estimates the memory of the longest runs on this many threads, each of which draws its own requests.
    pub fn estimate_memory(&self, threads: usize) -> Result<MemoryAtOnce> {
        let mut scenarios = Vec::with_capacity(self.asked.len());
        let mut parts = 0;
        for (scenario, _) in self.asked {
            let longest = self.effort.longest_run(scenario);
            scenarios.push(self.effort.with_requests(scenario, longest));
            parts += scenario.policies.len() * self.parts(scenario) as usize;
        }
        let options = RunOptions {
            backend: SelectedBackend::SIM,
            out: PathBuf::new(),
            replications: 1,
            resume: false,
            shard: None,
        };
        let one = estimate_memory(&scenarios, &options, 1)?;
        let runs = threads.min(parts);
        Ok(MemoryAtOnce {
            all: one.largest * runs as u128,
            runs,
            ..one
        })
    }

    /// Searches for each policy of each scenario. `own` has, for each point, whether it is carried out; the findings of
    /// other points are only read.
    pub fn find(
        &self,
        own: Option<&[bool]>,
        stop: &AtomicBool,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Vec<Vec<Searched<S::Answer>>>> {
        let mut first = 0;
        let mut found = Vec::new();
        for ((scenario, objective), folder) in self.asked.iter().zip(&self.folders) {
            let count = scenario.policies.len() * self.parts(scenario) as usize;
            let record = SearchRecord {
                folder: Some((folder.clone(), S::NAME)),
                own: own.map(|own| own[first..first + count].to_vec()),
            };
            first += count;
            let question = Question {
                scenario,
                objective,
                effort: &self.effort,
                record: &record,
                stop,
                progress,
            };
            found.push(find(self.search, &question)?);
        }
        Ok(found)
    }

    /// Sets which points are finished, given the outcomes of [`SweepSearch::find`].
    pub fn mark_finished(&self, points: &mut [PlannedPoint], found: &[Vec<Searched<S::Answer>>]) {
        let mut rest = points.iter_mut();
        for (found, (scenario, _)) in found.iter().zip(self.asked) {
            for searched in found {
                for (part, point) in (0..self.parts(scenario)).zip(rest.by_ref()) {
                    point.finished = match searched {
                        Searched::Answer(_) => true,
                        Searched::Missing(missing) => !missing.contains(&part),
                    };
                }
            }
        }
    }

    /// Locks the folder, and clears it unless findings are kept, which a shard and a resumed search do.
    pub fn open(&self, resume: bool, shard: Option<Shard>) -> Result<Lock> {
        let lock = Lock::take(&self.folder().path, shard)?;
        if !resume && shard.is_none() {
            self.folder().clear_searches(S::NAME);
        }
        Ok(lock)
    }

    pub fn folder(&self) -> &Folder {
        &self.folders[0]
    }

    /// Writes what was searched, as `run.json` does for runs, and the words of the command that does the same again, but
    /// for the scenario.
    pub fn write_settings(&self, command: &[String]) -> Result<()> {
        let file = format!("{}.json", S::NAME);
        let scenarios: Vec<&Scenario> = self.asked.iter().map(|(scenario, _)| scenario).collect();
        Folder::write_settings(
            &self.folders,
            &scenarios,
            (&file, SelectedBackend::SIM, self.effort.replications),
            Some(command),
        )
    }
}
