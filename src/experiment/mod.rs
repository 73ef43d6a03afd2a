//! A scenario run: its points and what they write.
//!
//! A point is one policy under one load. Each replication of a point is a run of its own: it draws its workload from
//! the seed, drives it through the policy, sums up and writes its files. Nothing of a simulated run depends on which thread
//! does that or when, so that points are parallel, though a run is not. Real runs have the machine to themselves, one after
//! the other.

pub mod device;
pub mod executor;
pub mod folder;
pub mod inputs;
pub mod knee;
mod point;
pub mod standard;
mod tolerance;
pub mod verify;
pub mod window;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

pub use self::device::prepare;
use self::executor::Target;
use self::folder::Folder;
use self::point::{PointResult, run_point};
use self::verify::Verified;
use crate::clock;
use crate::error::{Error, Result};
use crate::metrics::recorder::Decisions;
use crate::metrics::summary::Summary;
use crate::plot;
use crate::results::summary::SummaryRow;
use crate::results::write;
use crate::scenario::{LoadPoint, Scenario};
use crate::units::RequestId;

/// How to run a scenario, beside what the scenario itself says.
#[derive(Clone, Debug)]
pub struct Options {
    /// What runs the tasks. Simulated and real experiments differ in this alone.
    pub target: Target,
    /// The folder in which the scenario's own folder of results is made.
    pub out: std::path::PathBuf,
    /// Runs of each point: in a simulation each with its own random streams, else all with those of the first.
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
    pub rows: Vec<SummaryRow>,
    /// The figures that were drawn.
    pub figures: Vec<std::path::PathBuf>,
    /// Why others were not: the results do not have what they show.
    pub undrawn: Vec<String>,
    /// What the policies' decisions took by the host's clock, over all runs but those that were taken over.
    pub decisions: Decisions,
    /// Runs that are finished, of those that there are.
    pub finished: (usize, usize),
    /// PointResult runs that an earlier call had carried out.
    pub taken_over: usize,
    /// What came of comparing requests with the same requests run alone.
    pub verified: Verified,
    /// Requests that failed in the real runs that are finished.
    pub failed: u64,
    /// The first of them in each run that was carried out by this call.
    pub failures: Vec<Failure>,
}

/// A request that left a real run without a result.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The run.
    pub run: Run,
    /// The label of its policy.
    pub policy: String,
    /// The request.
    pub request: RequestId,
    /// Why.
    pub reason: String,
}

impl Report {
    fn new(
        folder: Folder,
        rows: Vec<SummaryRow>,
        scenario: &Scenario,
        runs: &[Run],
        finished: &[Option<PointResult>],
    ) -> Report {
        let done = || runs.iter().zip(finished).filter_map(|(run, finished)| Some((run, finished.as_ref()?)));
        let here = || done().filter_map(|(run, finished)| Some((run, finished.host.as_ref()?)));
        let failed = done().map(|(_, finished)| finished.summary.failed).sum();
        let failures = here().flat_map(|(run, host)| host.failures.iter().map(move |failure| (run, failure)));
        let failures = failures.map(|(run, (request, reason))| Failure {
            run: *run,
            policy: scenario.policies[run.policy].label.clone(),
            request: *request,
            reason: reason.clone(),
        });
        Report {
            rows,
            figures: Vec::new(),
            undrawn: Vec::new(),
            decisions: here().map(|(_, host)| host.decisions).sum(),
            finished: (done().count(), runs.len()),
            taken_over: done().count() - here().count(),
            verified: here().map(|(_, host)| host.verified).sum(),
            failed,
            failures: failures.collect(),
            folder,
        }
    }

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

/// Runs every point of a scenario and writes the results. `progress` is called once for each finished run. When `stop` is
/// set, runs that are under way are given up and those that are finished are kept; of a real run under way, what it came to.
///
/// # Errors
/// Whatever is wrong with the scenario's files, before anything is run; a file that can't be written; in a real run, a
/// request whose result is not that of the request alone.
pub fn run(scenario: &Scenario, options: &Options, stop: &AtomicBool, progress: &(dyn Fn() + Sync)) -> Result<Report> {
    let clock = clock::now();
    let scenario = &*options.target.completed(scenario);
    let (inputs, device) = prepare(scenario, options.target)?;
    let runs = runs(scenario, options);
    let folder = Folder::open(&inputs, &device, options, &runs)?;

    let failure = Mutex::new(None);
    let one = |run: &Run| {
        let outcome = match options.resume.then(|| folder.finished(run)).flatten() {
            Some(summary) => Ok(PointResult { summary, host: None }),
            None => run_point(run, &inputs, &device, &folder, stop),
        };
        match outcome {
            Ok(finished) => {
                progress();
                Some(finished)
            }
            Err(Error::Interrupted) => None,
            Err(error) => {
                // The others would most likely fail in the same way, on a disk that is full.
                stop.store(true, Ordering::Relaxed);
                failure.lock().expect("no run panics while it holds the lock").get_or_insert(error);
                None
            }
        }
    };
    let finished: Vec<Option<PointResult>> = match options.target.is_real() {
        true => runs.iter().map(one).collect(),
        // One run is long enough to be a piece of work of its own.
        false => runs.par_iter().with_max_len(1).map(one).collect(),
    };
    let failure = failure.into_inner().expect("no run panics while it holds the lock");
    // What is finished is kept, whatever became of the others: a device that is lost has served requests before.
    let rows = rows(scenario, options.target, &runs, &finished);
    if !rows.is_empty() || failure.is_none() {
        write::write_summary(&folder.summary(), &rows)?;
        write::write_differences(&folder.differences(), &rows)?;
        folder.write_host(&runs, &finished, clock.elapsed())?;
    }
    failure.map_or(Ok(()), Err)?;
    let mut report = Report::new(folder, rows, scenario, &runs, &finished);
    if !report.interrupted() {
        draw(scenario, &mut report)?;
    }
    Ok(report)
}

/// All runs in the order in which they are begun. The replications of a point are apart from each other: simulated runs
/// that are neighbours share their requests, and real ones their weather, since policies take turns under each load.
fn runs(scenario: &Scenario, options: &Options) -> Vec<Run> {
    let loads = scenario.points();
    let policies = 0..scenario.policies.len();
    (0..options.replications)
        .flat_map(|replication| {
            let run = move |policy, load: LoadPoint| Run { policy, load, replication };
            let pairs: Vec<Run> = match options.target.is_real() {
                true => loads.iter().flat_map(|load| policies.clone().map(move |policy| run(policy, *load))).collect(),
                false => policies.clone().flat_map(|policy| loads.iter().map(move |load| run(policy, *load))).collect(),
            };
            pairs
        })
        .collect()
}

/// A row for each point all of whose replications are finished: policies in the order of the scenario, then loads.
fn rows(scenario: &Scenario, target: Target, runs: &[Run], finished: &[Option<PointResult>]) -> Vec<SummaryRow> {
    let loads = scenario.points();
    let points = (0..scenario.policies.len()).flat_map(|policy| loads.iter().map(move |load| (policy, *load)));
    points
        .filter_map(|(policy, load)| {
            let of_point = |run: &Run| run.policy == policy && run.load == load;
            let summaries: Option<Vec<Summary>> = runs
                .iter()
                .zip(finished)
                .filter(|(run, _)| of_point(run))
                .map(|(_, finished)| finished.as_ref().map(|f| f.summary.clone()))
                .collect();
            Some(SummaryRow {
                policy: scenario.policies[policy].label.clone(),
                backend: target.name().into(),
                point: load.to_string(),
                runs: summaries?,
            })
        })
        .collect()
}

/// Draws the figures that the scenario asks for, from the files that have been written.
///
/// # Errors
/// A file that can't be written.
fn draw(scenario: &Scenario, report: &mut Report) -> Result<()> {
    if scenario.output.plots.is_empty() {
        return Ok(());
    }
    let options = plot::Options {
        title: scenario.output.title.clone(),
        point: scenario.output.plot_point.clone(),
        slo: scenario.metrics.slo,
        ..plot::Options::default()
    };
    let folder = report.folder.path();
    let inputs = plot::Inputs::open(&[folder])?;
    for kind in &scenario.output.plots {
        match plot::draw(*kind, &inputs, &options, &folder.join(kind.to_string())) {
            Ok(files) => report.figures.extend(files),
            // Too few requests for a quantile, say. The runs are done all the same.
            Err(Error::Input(why)) => report.undrawn.push(why),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
