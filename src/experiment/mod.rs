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

use self::device::Device;
pub use self::device::prepare;
use self::executor::Target;
use self::folder::Folder;
use self::inputs::Inputs;
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
use crate::scenario::{LoadPoint, PolicyEntry, Scenario};
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
        scenarios: &[&Scenario],
        jobs: &[Job],
        finished: &[Option<PointResult>],
    ) -> Report {
        let done = || jobs.iter().zip(finished).filter_map(|(job, finished)| Some((job, finished.as_ref()?)));
        let here = || done().filter_map(|(job, finished)| Some((job, finished.host.as_ref()?)));
        let failed = done().map(|(_, finished)| finished.summary.failed).sum();
        let failures = here().flat_map(|(job, host)| host.failures.iter().map(move |failure| (job, failure)));
        let failures = failures.map(|(job, (request, reason))| Failure {
            run: job.run,
            policy: job.entry(scenarios).name(),
            request: *request,
            reason: reason.clone(),
        });
        Report {
            rows,
            figures: Vec::new(),
            undrawn: Vec::new(),
            decisions: here().map(|(_, host)| host.decisions).sum(),
            finished: (done().count(), jobs.len()),
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

/// One scenario of a sweep, prepared.
pub struct Variant<'s> {
    pub inputs: Inputs<'s>,
    pub device: Device,
}

/// A run of a variant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    pub variant: usize,
    pub run: Run,
}

impl Job {
    fn entry<'s>(&self, scenarios: &[&'s Scenario]) -> &'s PolicyEntry {
        &scenarios[self.variant].policies[self.run.policy]
    }
}

/// As [`run_sweep`], of a scenario without a sweep.
pub fn run(scenario: &Scenario, options: &Options, stop: &AtomicBool, progress: &(dyn Fn() + Sync)) -> Result<Report> {
    run_sweep(std::slice::from_ref(scenario), options, stop, progress)
}

/// Runs every point of the scenarios of a sweep and writes the results. `progress` is called after each run. When `stop`
/// is set, finished runs are kept, and the logs of a current real run.
pub fn run_sweep(
    scenarios: &[Scenario],
    options: &Options,
    stop: &AtomicBool,
    progress: &(dyn Fn() + Sync),
) -> Result<Report> {
    let clock = clock::now();
    let completed: Vec<_> = scenarios.iter().map(|scenario| options.target.completed(scenario)).collect();
    let scenarios: Vec<&Scenario> = completed.iter().map(|scenario| &**scenario).collect();
    let variants = scenarios.iter().map(|scenario| {
        let (inputs, device) = prepare(scenario, options.target)?;
        Ok(Variant { inputs, device })
    });
    let variants = variants.collect::<Result<Vec<_>>>()?;
    let jobs = jobs(&scenarios, options);
    let folders = Folder::open(&variants, options, &jobs)?;

    let failure = Mutex::new(None);
    let one = |Job { variant, run }: &Job| {
        let folder = &folders[*variant];
        let outcome = match options.resume.then(|| folder.finished(run)).flatten() {
            Some(summary) => Ok(PointResult { summary, host: None }),
            None => run_point(run, &variants[*variant].inputs, &variants[*variant].device, folder, stop),
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
        true => jobs.iter().map(one).collect(),
        false => jobs.par_iter().with_max_len(1).map(one).collect(),
    };
    let failure = failure.into_inner().expect("no run panics while it holds the lock");
    // A device that is lost may have served requests before.
    let rows = rows(&scenarios, options.target, &jobs, &finished);
    let folder = &folders[0];
    if !rows.is_empty() || failure.is_none() {
        write::write_summary(&folder.summary(), &rows)?;
        write::write_differences(&folder.differences(), &rows)?;
        write_classes(&folder.classes(), &rows)?;
        let host = |(job, finished): (&Job, &Option<_>)| folders[job.variant].host_row(&job.run, finished.as_ref()?);
        let host: Vec<_> = jobs.iter().zip(&finished).filter_map(host).collect();
        folder.write_host(&host, clock.elapsed())?;
    }
    failure.map_or(Ok(()), Err)?;
    let mut report = Report::new(folder.clone(), rows, &scenarios, &jobs, &finished);
    if !report.interrupted() {
        draw(scenarios[0], &mut report)?;
    }
    Ok(report)
}

/// The first replication of every point. Neighbours share their requests.
fn points(scenarios: &[&Scenario]) -> Vec<Job> {
    let mut points = Vec::new();
    for (variant, scenario) in scenarios.iter().enumerate() {
        for policy in 0..scenario.policies.len() {
            let first = |load| Job { variant, run: Run { policy, load, replication: 0 } };
            points.extend(scenario.points().into_iter().map(first));
        }
    }
    points
}

/// In real runs, variants and policies take turns under each load, so that slow drifts affect all.
fn jobs(scenarios: &[&Scenario], options: &Options) -> Vec<Job> {
    let mut points = points(scenarios);
    if options.target.is_real() {
        let place = |job: &Job| scenarios[job.variant].points().iter().position(|load| *load == job.run.load);
        points.sort_by_key(place);
    }
    let repeat = |replication, job: &Job| Job { run: Run { replication, ..job.run }, ..*job };
    (0..options.replications).flat_map(|replication| points.iter().map(move |job| repeat(replication, job))).collect()
}

/// A row for each point whose replications are all finished.
fn rows(scenarios: &[&Scenario], target: Target, jobs: &[Job], finished: &[Option<PointResult>]) -> Vec<SummaryRow> {
    let row = |point: Job| {
        let of_point = |job: &Job| Job { run: Run { replication: 0, ..job.run }, ..*job } == point;
        let summaries: Option<Vec<Summary>> = jobs
            .iter()
            .zip(finished)
            .filter(|(job, _)| of_point(job))
            .map(|(_, finished)| finished.as_ref().map(|f| f.summary.clone()))
            .collect();
        let entry = point.entry(scenarios);
        Some(SummaryRow {
            policy: entry.label.clone(),
            swept: entry.swept.clone(),
            backend: target.name().into(),
            point: point.run.load.to_string(),
            runs: summaries?,
        })
    };
    points(scenarios).into_iter().filter_map(row).collect()
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
