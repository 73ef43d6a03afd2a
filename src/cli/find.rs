//! `batchlab find-knee` and `find-workers`.

use std::path::Path;
use std::slice;
use std::sync::atomic::AtomicBool;

use super::answers::{AnswerRow, ObjectiveArgs, SearchReport, ShowSearch};
use super::parts::Parts;
use super::sim::note_missing_locks;
use super::{Common, Sweeps, number_in};
use crate::base::error::{Error, Result};
use crate::base::units::Rate;
use crate::core::policy::registry::Registry;
use crate::lab::run::executor::SelectedBackend;
use crate::lab::run::shard::PlannedPoint;
use crate::lab::scenario::Scenario;
use crate::lab::search::objective::{Effort, Objective};
use crate::lab::search::rate::RateSearch;
use crate::lab::search::sweep::SweepSearch;
use crate::lab::search::workers::WorkerSearch;
use crate::lab::search::{Search, Searched};

/// Find the highest rate at which each policy of a scenario meets a latency objective
///
/// Each replication brackets and bisects the rate with its own requests, in runs that grow until the 95 % interval over
/// the replications is as narrow as the tolerance. A policy that waits for requests may miss the objective at low rates:
/// then the lowest rate is reported too. Each class with an slo must meet its own. Requests that are rejected or fail
/// have missed the objective. Writes DIR/NAME/knee.csv, where NAME is the scenario's name, and its settings as
/// knee.json; a later sim leaves both.
#[derive(clap::Args, Clone, Debug)]
pub struct KneeArgs {
    #[command(flatten)]
    asked: ObjectiveArgs,

    /// Half the width of the interval, and the smallest overload that a run must show, as a fraction of the rate
    #[arg(long, default_value_t = 0.005, value_parser = number_in(0.0001..=0.5))]
    tolerance: f64,

    /// Searches, each with its own random sequences
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    replications: u32,

    /// The longest run, in requests; results that it limits are marked
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    max_requests: u32,

    /// The share of requests that may be rejected without missing the objective, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = number_in(0.0..=1.0))]
    max_rejected: f64,

    #[command(flatten)]
    parts: Parts,

    #[command(flatten)]
    sweeps: Sweeps,

    #[command(flatten)]
    common: Common,
}

/// Find the smallest number of workers with which each policy meets a latency objective at a rate
///
/// A number of workers meets the objective if it does in every replication. The table also says what one worker less
/// gives. Each class with an slo must meet its own. Writes DIR/NAME/workers.csv, where NAME is the scenario's name, and
/// its settings as workers.json; a later sim leaves both.
#[derive(clap::Args, Clone, Debug)]
pub struct WorkersArgs {
    /// Requests per second
    #[arg(long, value_parser = number_in(1e-6..=1e9))]
    rate: f64,

    /// The largest number of workers to try
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1024))]
    max_workers: u32,

    #[command(flatten)]
    search: KneeArgs,
}

pub fn find_knee(args: &KneeArgs, registry: &Registry) -> Result<()> {
    find_knee_in(args, args.scenarios(registry)?)
}

pub fn find_workers(args: &WorkersArgs, registry: &Registry) -> Result<()> {
    find_workers_in(args, args.search.scenarios(registry)?)
}

/// Searches as [`find_knee`] does, in scenarios that were read.
pub(super) fn find_knee_in(args: &KneeArgs, scenarios: Vec<Scenario>) -> Result<()> {
    args.run(RateSearch, vec!["find-knee".into()], scenarios)
}

/// Searches as [`find_workers`] does, in scenarios that were read.
pub(super) fn find_workers_in(args: &WorkersArgs, scenarios: Vec<Scenario>) -> Result<()> {
    let search = WorkerSearch {
        rate: Rate(args.rate),
        most: args.max_workers,
    };
    let words = vec![
        "find-workers".into(),
        format!("--rate={}", args.rate),
        format!("--max-workers={}", args.max_workers),
    ];
    args.search.run(search, words, scenarios)
}

impl KneeArgs {
    /// The scenarios of the sweep.
    fn scenarios(&self, registry: &Registry) -> Result<Vec<Scenario>> {
        let sweeps = &self.sweeps.sweeps;
        self.common.sweep(&self.asked.scenario, sweeps, registry)
    }

    /// Searches; `words` are the name of the command and its own options.
    fn run<S: ShowSearch>(
        &self,
        search: S,
        words: Vec<String>,
        scenarios: Vec<Scenario>,
    ) -> Result<()> {
        let common = &self.common;
        let mut asked = Vec::new();
        for scenario in scenarios {
            let objective = self
                .asked
                .objective(&scenario, self.max_rejected, "100ms")?;
            asked.push((scenario, objective));
        }
        let effort = Effort {
            tolerance: self.tolerance,
            replications: self.replications,
            max_requests: self.max_requests,
            near: None,
        };
        let out = common.out(SelectedBackend::SIM.name());
        let mut searches = SweepSearch::new(&search, &asked, effort, &out)?;
        if self.parts.plan {
            searches.ignore_others();
        }
        let mut points = searches.points();
        let folder = &searches.folder().path;
        if self.parts.plan || self.parts.merge_only {
            mark_finished(&searches, &mut points)?;
            if self.parts.plan {
                common.note_memory(&searches.estimate_memory(common.count_threads()?)?);
                return self.parts.show(&points, common.shown);
            }
            Parts::refuse_missing(&points, slice::from_ref(folder))?;
        }
        let own = self.parts.select_points(&points);
        let runs = match &own {
            Some((_, own)) => own.iter().filter(|own| **own).count(),
            None => points.len(),
        };
        let lock = searches.open(self.parts.keeps(), self.parts.shard)?;
        note_missing_locks(common, lock.held);
        let name = &asked[0].0.name;
        let found = common.run_with_progress(runs, name, |stop, done| {
            searches.find(own.as_ref().map(|(_, own)| &own[..]), stop, done)
        });
        let found = note_interruption(common, folder, found)?;
        if let Some((shard, own)) = own {
            searches.mark_finished(&mut points, &found);
            let finished = points
                .iter()
                .zip(&own)
                .filter(|(point, own)| point.finished && **own)
                .count();
            common.note(format!(
                "shard {shard}: {finished} of {runs} points are finished in {}",
                folder.display()
            ));
            return common.shown.several().end();
        }
        searches.write_settings(&self.command(words))?;
        lock.complete();
        let rows = rows(&asked, found);
        let report = SearchReport {
            name: name.clone(),
            search: &search,
            objective: asked[0].1.clone(),
            tolerance: self.tolerance,
            file: folder.join(format!("{}.csv", S::NAME)),
            is_tuning: false,
        };
        report.write_and_show(common, &rows, rows.len(), &search.note(&rows))
    }

    /// The words of the command that does the same search again, without the scenario.
    fn command(&self, mut words: Vec<String>) -> Vec<String> {
        words.extend(self.asked.words());
        words.extend([
            format!("--tolerance={}", self.tolerance),
            format!("--replications={}", self.replications),
            format!("--max-requests={}", self.max_requests),
            format!("--max-rejected={}", self.max_rejected),
        ]);
        let set = self.common.overrides.iter();
        words.extend(set.map(|pair| format!("--set={pair}")));
        let sweeps = self.sweeps.sweeps.iter();
        words.extend(sweeps.map(|values| format!("--sweep={values}")));
        words.extend(self.common.seed.map(|seed| format!("--seed={seed}")));
        words
    }
}

/// Says how an interrupted search goes on.
pub(super) fn note_interruption<T>(common: &Common, folder: &Path, found: Result<T>) -> Result<T> {
    if matches!(found, Err(Error::Interrupted)) {
        common.note(format!(
            "what was found is kept in {}; go on with --resume",
            folder.display()
        ));
    }
    found
}

/// Sets which points are finished, without searching.
fn mark_finished<S: Search>(
    searches: &SweepSearch<'_, S>,
    points: &mut [PlannedPoint],
) -> Result<()> {
    let none = vec![false; points.len()];
    let found = searches.find(Some(&none), &AtomicBool::new(false), &|| ())?;
    searches.mark_finished(points, &found);
    Ok(())
}

/// A row for each policy of each scenario.
fn rows<A>(asked: &[(Scenario, Objective)], found: Vec<Vec<Searched<A>>>) -> Vec<AnswerRow<A>> {
    let mut rows = Vec::new();
    for ((scenario, objective), found) in asked.iter().zip(found) {
        let answers = found.into_iter().filter_map(Searched::answer);
        for (answer, entry) in answers.zip(&scenario.policies) {
            rows.push(AnswerRow {
                entry: entry.clone(),
                objective: objective.clone(),
                answer,
                round: 1,
                is_chosen: false,
            });
        }
    }
    rows
}
