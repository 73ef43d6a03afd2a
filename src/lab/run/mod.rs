//! Runs of a scenario: the points and their files.
//!
//! A point is one policy under one load. Each replication is a separate run, which draws its workload from the seed and
//! writes a summary and logs. Simulated runs are spread over threads; real runs go one after the other.

pub mod capacity;
pub mod control;
pub mod executor;
pub mod fingerprint;
pub mod folder;
pub mod goal;
pub mod inputs;
pub mod knee;
pub mod lock;
mod point;
pub mod search;
pub mod shard;
pub mod standard;
pub mod target;
mod tolerance;
pub mod tune;
pub mod verify;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use self::executor::SelectedBackend;
use self::folder::Folder;
use self::inputs::RunInputs;
use self::lock::Lock;
use self::point::{PointResult, run_point};
use self::shard::{PlannedPoint, Shard};
use self::target::Target;
pub use self::target::prepare;
use self::target::{prepare_until, simulated_by};
use self::verify::Verified;
use crate::base::clock;
use crate::base::error::{Error, Result};
use crate::core::record::execution::Decisions;
use crate::core::summary::Summary;
use crate::lab::plot;
use crate::lab::results::summary::SummaryRow;
use crate::lab::results::write;
use crate::lab::scenario::{LoadPoint, PolicyEntry, Scenario};

#[derive(Clone, Debug)]
pub struct RunOptions {
    pub backend: SelectedBackend,
    pub out: std::path::PathBuf,
    /// Simulated replications have their own random sequences; real ones repeat the first.
    pub replications: u32,
    /// Keeps the points that an earlier run has finished.
    pub resume: bool,
    /// Only some of the points, each of [`points`] being its own or not. What other shards write is left alone.
    pub shard: Option<(Shard, Vec<bool>)>,
    /// Values of a paper in the figures.
    pub stated: Vec<plot::Stated>,
}

#[derive(Debug)]
pub struct RunReport {
    pub folder: Folder,
    pub rows: Vec<SummaryRow>,
    pub figures: Vec<plot::WrittenFigure>,
    pub undrawn: Vec<String>,
    /// Why cells ran in traditional kernels although persistent ones were asked for.
    pub traditional: Option<String>,
    pub decisions: Decisions,
    /// Finished runs, and all runs.
    pub finished: (usize, usize),
    /// Finished runs of earlier calls.
    pub taken_over: usize,
    pub verified: Verified,
    /// Requests that failed in finished real runs.
    pub failed: u64,
    /// The first of each of these runs, with the reasons.
    pub failures: Vec<String>,
    /// Whether the file system kept other runs away from the folder.
    pub locked: bool,
}

impl RunReport {
    fn new(
        folder: Folder,
        rows: Vec<SummaryRow>,
        points: &[Option<PointResult>],
        locked: bool,
    ) -> RunReport {
        let done = || points.iter().flatten();
        let here = || done().filter_map(|point| point.host.as_ref());
        RunReport {
            rows,
            figures: Vec::new(),
            undrawn: Vec::new(),
            traditional: None,
            decisions: here().map(|host| host.decisions).sum(),
            finished: (done().count(), points.len()),
            taken_over: done().count() - here().count(),
            verified: here().map(|host| host.verified).sum(),
            failed: done().map(|point| point.summary.failed).sum(),
            failures: here().flat_map(|host| host.failures.clone()).collect(),
            locked,
            folder,
        }
    }

    pub fn interrupted(&self) -> bool {
        self.finished.0 < self.finished.1
    }
}

/// One run: a policy under a load, with its own random sequences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    pub policy: usize,
    pub load: LoadPoint,
    pub replication: u32,
}

/// A run of one of the scenarios of a sweep, its variants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    pub variant: usize,
    pub run: Run,
    /// The place of its row in the summary.
    row: usize,
}

impl Job {
    fn entry<'s>(&self, scenarios: &[&'s Scenario]) -> &'s PolicyEntry {
        &scenarios[self.variant].policies[self.run.policy]
    }
}

/// As [`run_sweep`], of a scenario without a sweep.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions,
    stop: &AtomicBool,
    progress: &(dyn Fn() + Sync),
) -> Result<RunReport> {
    run_sweep(std::slice::from_ref(scenario), options, stop, progress)
}

/// Runs every point of the scenarios of a sweep and writes the results. `progress` is called after each run. When `stop`
/// is set, finished runs are kept, and the logs of a current real run.
pub fn run_sweep(
    scenarios: &[Scenario],
    options: &RunOptions,
    stop: &AtomicBool,
    progress: &(dyn Fn() + Sync),
) -> Result<RunReport> {
    let clock = clock::now();
    let completed: Vec<_> = scenarios
        .iter()
        .map(|scenario| options.backend.completed(scenario))
        .collect();
    let scenarios: Vec<&Scenario> = completed.iter().map(|scenario| &**scenario).collect();
    let jobs = jobs(&scenarios, options);
    let variants = variants(&scenarios, options.backend, &jobs, stop)?;
    let (folders, taken_over, lock) = open(&scenarios, &variants, &jobs, options)?;
    let failure = Mutex::new(None);
    let one = |(Job { variant, run, .. }, taken_over): (&Job, Option<Summary>)| {
        let outcome = match taken_over {
            Some(summary) => Ok(PointResult {
                summary,
                host: None,
            }),
            None => {
                let (inputs, device) = variants[*variant]
                    .as_ref()
                    .expect("variants of jobs are prepared");
                run_point(run, inputs, device, &folders[*variant], stop)
            }
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
                failure
                    .lock()
                    .expect("no run panics while it holds the lock")
                    .get_or_insert(error);
                None
            }
        }
    };
    let finished: Vec<Option<PointResult>> = match options.backend.is_real() {
        true => jobs.iter().zip(taken_over).map(one).collect(),
        false => jobs
            .par_iter()
            .zip(taken_over)
            .with_max_len(1)
            .map(one)
            .collect(),
    };
    let failure = failure
        .into_inner()
        .expect("no run panics while it holds the lock");
    // A device that is lost may have served requests before.
    let rows = if options.shard.is_some() {
        Vec::new()
    } else {
        rows(&scenarios, options.backend, &jobs, &finished)
    };
    let folder = &folders[0];
    if options.shard.is_none() && (!rows.is_empty() || failure.is_none()) {
        write::write_summary(&folder.summary(), &rows)?;
        write::write_differences(&folder.path.join("differences.csv"), &rows)?;
        write::write_classes(&folder.path.join("classes.csv"), &rows)?;
        let here = finished
            .iter()
            .flatten()
            .filter_map(|point| point.host.as_ref());
        folder.write_host(
            &here.map(|host| &host.row).collect::<Vec<_>>(),
            clock.elapsed(),
        )?;
    }
    failure.map_or(Ok(()), Err)?;
    let mut report = RunReport::new(folder.clone(), rows, &finished, lock.held);
    for (inputs, device) in variants.iter().flatten() {
        report.traditional = report.traditional.or(device.traditional(inputs)?);
    }
    if options.shard.is_none() && !report.interrupted() {
        draw(scenarios[0], options, &mut report)?;
        lock.complete();
    }
    Ok(report)
}

/// The points of a simulated sweep; with `look`, also which of them are finished. Writes nothing.
///
/// # Errors
/// The folder was written with other settings.
pub fn points(
    scenarios: &[Scenario],
    options: &RunOptions,
    look: bool,
) -> Result<Vec<PlannedPoint>> {
    let scenarios: Vec<&Scenario> = scenarios.iter().collect();
    let jobs = jobs(&scenarios, options);
    let mut finished = vec![None; jobs.len()];
    if look {
        let devices = vec![simulated_by(options.backend); scenarios.len()];
        let folders = Folder::of(&scenarios, &devices, &options.out, options.backend)?;
        Folder::refuse_others(&folders)?;
        finished = Folder::finished(&folders, &jobs)?;
    }
    let point = |(job, finished): (&Job, Option<Summary>)| {
        let scenario = scenarios[job.variant];
        let load = job.run.load.to_string();
        let point = PlannedPoint::new(
            scenario,
            job.entry(&scenarios),
            load,
            job.run.replication,
            shard::cost(scenario),
        );
        PlannedPoint {
            finished: finished.is_some(),
            ..point
        }
    };
    Ok(jobs.iter().zip(finished).map(point).collect())
}

/// Prepares the scenarios that have jobs; a shard may need only some.
fn variants<'s>(
    scenarios: &[&'s Scenario],
    target: SelectedBackend,
    jobs: &[Job],
    stop: &'s AtomicBool,
) -> Result<Vec<Option<(RunInputs<'s>, Target)>>> {
    let needed: BTreeSet<usize> = jobs.iter().map(|job| job.variant).collect();
    let variant = |(place, scenario): (usize, &&'s Scenario)| {
        needed
            .contains(&place)
            .then(|| prepare_until(scenario, target, stop))
            .transpose()
    };
    scenarios.iter().enumerate().map(variant).collect()
}

/// The folder of each variant, the runs that were finished before, and the lock. Clears the folder, unless runs are
/// kept, and writes what is known before the runs.
fn open(
    scenarios: &[&Scenario],
    variants: &[Option<(RunInputs<'_>, Target)>],
    jobs: &[Job],
    options: &RunOptions,
) -> Result<(Vec<Folder>, Vec<Option<Summary>>, Lock)> {
    let describe = |(_, device): &(_, Target)| device.describe();
    let device = |variant: &Option<_>| {
        variant
            .as_ref()
            .map_or_else(|| simulated_by(options.backend), describe)
    };
    let devices: Vec<String> = variants.iter().map(device).collect();
    let folders = Folder::of(scenarios, &devices, &options.out, options.backend)?;
    let (folder, shard) = (&folders[0], options.shard.as_ref().map(|(shard, _)| *shard));
    let lock = Lock::take(&folder.path, shard)?;
    let mut finished = vec![None; jobs.len()];
    if options.resume || shard.is_some() {
        finished = Folder::finished(&folders, jobs)?;
        Folder::refuse_others(&folders)?;
    } else {
        folder.clear();
    }
    Folder::write_settings(
        &folders,
        scenarios,
        ("run.json", options.backend, options.replications),
    )?;
    if shard.is_none() {
        // It would lack the runs that are now added.
        let _ = std::fs::remove_file(folder.summary());
        folder.write_inputs(&variants.iter().flatten().collect::<Vec<_>>())?;
    }
    Ok((folders, finished, lock))
}

/// The jobs of all shards, or of one. Neighbours share their requests. Policies take turns under each load: in real runs,
/// with the variants, so that slow drifts affect all; in simulated ones, so that shards of neighbours have some of each.
fn jobs(scenarios: &[&Scenario], options: &RunOptions) -> Vec<Job> {
    let mut first = Vec::new();
    for (variant, scenario) in scenarios.iter().enumerate() {
        for policy in 0..scenario.policies.len() {
            for load in scenario.points() {
                let run = Run {
                    policy,
                    load,
                    replication: 0,
                };
                first.push(Job {
                    variant,
                    run,
                    row: first.len(),
                });
            }
        }
    }
    let loads: Vec<usize> = scenarios
        .iter()
        .map(|scenario| scenario.points().len())
        .collect();
    let place = |job: &Job| {
        (
            if options.backend.is_real() {
                0
            } else {
                job.variant
            },
            job.row % loads[job.variant],
        )
    };
    first.sort_by_key(place);
    let repeat = |replication, job: &Job| Job {
        run: Run {
            replication,
            ..job.run
        },
        ..*job
    };
    let all = (0..options.replications)
        .flat_map(|number| first.iter().map(move |job| repeat(number, job)));
    match &options.shard {
        None => all.collect(),
        Some((_, own)) => all
            .zip(own)
            .filter_map(|(job, own)| own.then_some(job))
            .collect(),
    }
}

/// A row for each point whose replications are all finished.
fn rows(
    scenarios: &[&Scenario],
    target: SelectedBackend,
    jobs: &[Job],
    finished: &[Option<PointResult>],
) -> Vec<SummaryRow> {
    let mut runs: Vec<(&Job, &Option<PointResult>)> = jobs.iter().zip(finished).collect();
    runs.sort_by_key(|(job, _)| job.row);
    let row = |of_point: &[(&Job, &Option<PointResult>)]| {
        let (job, entry) = (of_point[0].0, of_point[0].0.entry(scenarios));
        let runs = of_point
            .iter()
            .map(|(_, finished)| Some(finished.as_ref()?.summary.clone()));
        Some(SummaryRow {
            policy: entry.label.clone(),
            swept: entry.swept.clone(),
            backend: target.name().into(),
            point: job.run.load.to_string(),
            runs: runs.collect::<Option<_>>()?,
            class: String::new(),
        })
    };
    runs.chunk_by(|a, b| a.0.row == b.0.row)
        .filter_map(row)
        .collect()
}

fn draw(
    scenario: &Scenario,
    RunOptions { stated, .. }: &RunOptions,
    report: &mut RunReport,
) -> Result<()> {
    if scenario.output.plots.is_empty() {
        return Ok(());
    }
    let options = plot::PlotOptions {
        title: scenario.output.title.clone(),
        point: scenario.output.plot_point.clone(),
        slo: scenario.metrics.slo,
        stated: stated.clone(),
        look: scenario.output.figure.clone(),
        ..plot::PlotOptions::default()
    };
    let folder = &report.folder.path;
    let inputs = plot::PlotInputs::open(&[folder])?;
    for kind in &scenario.output.plots {
        let titles = &options.look.titles;
        let own = titles
            .iter()
            .find(|(of, _)| *of == kind.to_string())
            .map(|(_, title)| title.clone());
        let options = plot::PlotOptions {
            title: own.or(options.title.clone()),
            ..options.clone()
        };
        match plot::draw(*kind, &inputs, &options, &folder.join(kind.to_string())) {
            Ok(figure) => report.figures.push(figure),
            // There may be too few requests for a quantile. The runs are valid nevertheless.
            Err(Error::Input(why)) => report.undrawn.push(why),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
