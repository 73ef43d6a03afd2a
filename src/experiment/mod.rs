//! A scenario run: its points, several at a time, and what they write.
//!
//! A point is one policy under one load. Each replication of a point is a run of its own: it draws its workload from
//! the seed, drives it through the policy, sums up and writes its files, and nothing of it depends on which thread does
//! that or when. Points are parallel, a run is not.

pub mod folder;
pub mod knee;
pub mod prepared;

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use self::folder::Folder;
use self::prepared::Prepared;
use crate::error::{Error, Result};
use crate::metrics::combined::{Row, combine};
use crate::metrics::recorder::{Decisions, Keep, Recorder};
use crate::metrics::summary::{Summary, summarize};
use crate::metrics::{logs, timeline};
use crate::plot;
use crate::scenario::{LoadPoint, Scenario};

/// The simulated backend's name in results.
pub const SIM: &str = "sim";

/// How to run a scenario, beside what the scenario itself says.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder in which the scenario's own folder of results is made.
    pub out: std::path::PathBuf,
    /// Runs of each point, each with its own random streams.
    pub replications: u32,
    /// Takes over points that an earlier run of the same scenario has finished.
    pub resume: bool,
}

/// What a run of a scenario came to.
#[derive(Debug)]
pub struct Report {
    /// Where the results are.
    pub folder: Folder,
    /// A row for each point that is finished.
    pub rows: Vec<Row>,
    /// The figures that were drawn.
    pub figures: Vec<std::path::PathBuf>,
    /// What the policies' decisions took by the host's clock, over all runs but those that were taken over.
    pub decisions: Decisions,
    /// Runs that are finished, of those that there are.
    pub finished: (usize, usize),
    /// Finished runs that an earlier call had carried out.
    pub taken_over: usize,
}

impl Report {
    /// Whether the user stopped it before it was done.
    pub fn interrupted(&self) -> bool {
        self.finished.0 < self.finished.1
    }
}

/// One run: a policy under a load, with its own random streams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// The policy's position in the scenario.
    pub policy: usize,
    /// The load.
    pub load: LoadPoint,
    /// Which replication, from 0.
    pub replication: u32,
}

/// A run's figures, and what the host's clock says of it.
#[derive(Clone, Debug)]
struct Finished {
    summary: Summary,
    /// `None` for a run that was taken over.
    host: Option<(Duration, Decisions)>,
}

/// Runs every point of a scenario on the simulated backend and writes the results. `progress` is called once for each
/// finished run. When `stop` is set, runs that are under way are given up and those that are finished are kept.
///
/// # Errors
/// Whatever is wrong with the scenario's files, before anything is run; or a file that can't be written.
pub fn run(scenario: &Scenario, options: &Options, stop: &AtomicBool, progress: &(dyn Fn() + Sync)) -> Result<Report> {
    let clock = Instant::now();
    let prepared = Prepared::new(scenario)?;
    let runs = runs(scenario, options.replications);
    let folder = Folder::open(scenario, &prepared, options, &runs)?;

    let failure = Mutex::new(None);
    let finished: Vec<Option<Finished>> = runs
        .par_iter()
        .with_max_len(1) // One run is long enough to be a piece of work of its own.
        .map(|run| {
            let outcome = match options.resume.then(|| folder.finished(run)).flatten() {
                Some(summary) => Ok(Finished { summary, host: None }),
                None => carry_out(run, scenario, &prepared, &folder, stop),
            };
            match outcome {
                Ok(finished) => {
                    progress();
                    Some(finished)
                }
                Err(Error::Interrupted) => None,
                Err(error) => {
                    // The others would most likely fail in the same way, on a disk that is full.
                    stop.store(true, std::sync::atomic::Ordering::Relaxed);
                    failure.lock().expect("no run panics while it holds the lock").get_or_insert(error);
                    None
                }
            }
        })
        .collect();
    if let Some(error) = failure.into_inner().expect("no run panics while it holds the lock") {
        return Err(error);
    }

    let rows = rows(scenario, &runs, &finished);
    logs::write_summary(&folder.summary(), &rows)?;
    logs::write_differences(&folder.differences(), &rows)?;
    folder.write_host(&runs, finished.iter().map(|f| f.as_ref().and_then(|f| f.host)), clock.elapsed())?;
    let done = finished.iter().flatten().count();
    let decisions = finished.iter().flatten().filter_map(|f| f.host).map(|(_, decisions)| decisions).sum();
    let taken_over = finished.iter().flatten().filter(|f| f.host.is_none()).count();
    let finished = (done, runs.len());
    let mut report = Report { folder, rows, figures: Vec::new(), decisions, finished, taken_over };
    if !report.interrupted() {
        report.figures = draw(scenario, &report.folder)?;
    }
    Ok(report)
}

/// All runs, the replications of a point apart from each other, so that neighbours share their requests.
fn runs(scenario: &Scenario, replications: u32) -> Vec<Run> {
    let loads = scenario.points();
    (0..replications)
        .flat_map(|replication| {
            let loads = &loads;
            (0..scenario.policies.len())
                .flat_map(move |policy| loads.iter().map(move |load| Run { policy, load: *load, replication }))
        })
        .collect()
}

/// A row for each point all of whose replications are finished: policies in the order of the scenario, then loads.
fn rows(scenario: &Scenario, runs: &[Run], finished: &[Option<Finished>]) -> Vec<Row> {
    let points = runs.iter().filter(|run| run.replication == 0);
    points
        .filter_map(|point| {
            let of_point = |run: &Run| run.policy == point.policy && run.load == point.load;
            let summaries: Option<Vec<Summary>> = runs
                .iter()
                .zip(finished)
                .filter(|(run, _)| of_point(run))
                .map(|(_, finished)| finished.as_ref().map(|f| f.summary.clone()))
                .collect();
            Some(Row {
                policy: scenario.policies[point.policy].label.clone(),
                backend: SIM.into(),
                point: point.load.to_string(),
                figures: combine(&summaries?),
            })
        })
        .collect()
}

/// Carries out one run and writes its files, the summary last: where that is, the run is finished.
fn carry_out(
    run: &Run,
    scenario: &Scenario,
    prepared: &Prepared<'_>,
    folder: &Folder,
    stop: &AtomicBool,
) -> Result<Finished> {
    let clock = Instant::now();
    // The logs are those of the first replication; the others differ in their random streams alone.
    let logged = run.replication == 0;
    let output = &scenario.output;
    let keep = Keep {
        tasks: logged && (output.tasks || output.timeline),
        first_tasks: logged && output.timeline,
        rounds: false,
    };
    let record = prepared.simulate(run, keep, stop)?;
    let mut summary = summarize(&record, &prepared.measure(run.load));
    summary.extrapolated = prepared.extrapolated(run, &record);
    if logged {
        let place = |file| folder.point(run).join(file);
        if output.requests {
            logs::write_requests(&place("requests.csv"), &record)?;
        }
        if output.tasks {
            logs::write_tasks(&place("tasks.csv"), &record, prepared.cells())?;
        }
        if output.timeline {
            timeline::write_timeline(&place("timeline.json"), &record, prepared.cells())?;
        }
        logs::write_batches(&place("batches.csv"), &record, prepared.cells())?;
    }
    folder.write_finished(run, &summary)?;
    let Recorder { decisions, .. } = record;
    Ok(Finished { summary, host: Some((clock.elapsed(), decisions)) })
}

/// Draws the figures that the scenario asks for, from the files that have been written.
fn draw(scenario: &Scenario, folder: &Folder) -> Result<Vec<std::path::PathBuf>> {
    if scenario.output.plots.is_empty() {
        return Ok(Vec::new());
    }
    let options = plot::Options {
        title: scenario.output.title.clone(),
        point: scenario.output.plot_point.clone(),
        slo: scenario.metrics.slo,
        ..plot::Options::default()
    };
    let inputs = plot::Inputs::open(&[folder.path()])?;
    let mut files = Vec::new();
    for kind in &scenario.output.plots {
        files.extend(plot::draw(*kind, &inputs, &options, &folder.path().join(kind.to_string()))?);
    }
    Ok(files)
}
