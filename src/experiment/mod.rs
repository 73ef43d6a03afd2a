//! Runs of a scenario: the points and their files.
//!
//! A point is one policy under one load. Each replication is a separate run, which draws its workload from the seed and
//! writes a summary and logs. Simulated runs are spread over threads; real runs go one after the other.

pub mod capacity;
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
use crate::results::classes::write_classes;
use crate::results::summary::SummaryRow;
use crate::results::write;
use crate::scenario::{LoadPoint, Scenario};
use crate::units::RequestId;

#[derive(Clone, Debug)]
pub struct Options {
    pub target: Target,
    pub out: std::path::PathBuf,
    /// Simulated replications have their own random streams; real ones repeat the first.
    pub replications: u32,
    /// Keeps the points that an earlier run has finished.
    pub resume: bool,
}

#[derive(Debug)]
pub struct Report {
    pub folder: Folder,
    pub rows: Vec<SummaryRow>,
    pub figures: Vec<plot::Figure>,
    pub undrawn: Vec<String>,
    pub decisions: Decisions,
    /// Finished runs, and all runs.
    pub finished: (usize, usize),
    /// Finished runs of earlier calls.
    pub taken_over: usize,
    pub verified: Verified,
    /// Requests that failed in finished real runs.
    pub failed: u64,
    pub failures: Vec<Failure>,
}

#[derive(Clone, Debug)]
pub struct Failure {
    pub run: Run,
    pub policy: String,
    pub request: RequestId,
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

    pub fn interrupted(&self) -> bool {
        self.finished.0 < self.finished.1
    }
}

/// One run: a policy under a load, with its own random streams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    pub policy: usize,
    pub load: LoadPoint,
    pub replication: u32,
}

/// Runs every point and writes the results. `progress` is called after each run. When `stop` is set, finished runs are
/// kept, and the logs of a current real run.
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
                // The others would probably fail in the same way, on a full disk for example.
                stop.store(true, Ordering::Relaxed);
                failure.lock().expect("no run panics while it holds the lock").get_or_insert(error);
                None
            }
        }
    };
    let finished: Vec<Option<PointResult>> = match options.target.is_real() {
        true => runs.iter().map(one).collect(),
        false => runs.par_iter().with_max_len(1).map(one).collect(),
    };
    let failure = failure.into_inner().expect("no run panics while it holds the lock");
    // A device that is lost may have served requests before.
    let rows = rows(scenario, options.target, &runs, &finished);
    if !rows.is_empty() || failure.is_none() {
        write::write_summary(&folder.summary(), &rows)?;
        write::write_differences(&folder.differences(), &rows)?;
        write_classes(&folder.classes(), &rows)?;
        folder.write_host(&runs, &finished, clock.elapsed())?;
    }
    failure.map_or(Ok(()), Err)?;
    let mut report = Report::new(folder, rows, scenario, &runs, &finished);
    if !report.interrupted() {
        draw(scenario, &mut report)?;
    }
    Ok(report)
}

/// Neighbouring simulated runs share their requests. In real runs, policies take turns under each load, so that slow
/// drifts affect all.
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

/// A row for each point whose replications are all finished.
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
            Ok(figure) => report.figures.push(figure),
            // There may be too few requests for a quantile. The runs are valid nevertheless.
            Err(Error::Input(why)) => report.undrawn.push(why),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
