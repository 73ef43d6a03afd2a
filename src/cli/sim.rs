//! `batchlab sim` and `batchlab real`.

use std::path::PathBuf;

use super::parts::Parts;
use super::render::terminal_width;
use super::{Common, Sweeps, conclude, progress, stop_on_ctrl_c};
use crate::base::error::{Error, Result};
use crate::base::files::folder_name;
use crate::core::policy::registry::Registry;
use crate::lab::figures::{self, ScenarioFigures};
use crate::lab::results::summary::SummaryRow;
use crate::lab::results::{summary, table};
use crate::lab::run::executor::{Executors, SelectedBackend, Verify};
use crate::lab::run::folder::EarlierResults;
use crate::lab::run::memory::MemoryAtOnce;
use crate::lab::run::notes::{MISSING_LOCKS, judge_rows};
use crate::lab::run::{self, RunOptions, RunReport, Sweep};
use crate::lab::scenario::Scenario;

/// Run scenarios on the simulated GPU
///
/// Every policy of a scenario replays the same requests at every load. Results go to DIR/NAME, where NAME is the
/// scenario's name: summary.csv, a folder for each policy and load, and the figures that the scenario asks for.
#[derive(clap::Args, Clone, Debug)]
pub struct SimArgs {
    /// Scenario files, or names that batchlab scenarios lists
    #[arg(required = true, value_name = "SCENARIO")]
    pub scenarios: Vec<PathBuf>,

    /// The simulator of the device
    #[arg(long, default_value = "sim")]
    pub backend: String,

    /// Runs of each point, each with its own random sequences; from 2 on, metrics have 95 % confidence intervals
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub replications: u32,

    #[command(flatten)]
    pub parts: Parts,

    #[command(flatten)]
    pub sweeps: Sweeps,

    #[command(flatten)]
    pub common: Common,
}

/// Run scenarios in real time, on a CPU or GPUs that compute the networks
///
/// Policies, requests and result files are those of `sim`. Runs follow one another, and at each load the policies take
/// turns. A run whose requests were handed over too late is marked as not valid. Ctrl-C keeps the finished runs and the
/// logs of the interrupted one.
#[derive(clap::Args, Clone, Debug)]
pub struct RealArgs {
    /// Scenario files, or names that batchlab scenarios lists
    #[arg(required = true, value_name = "SCENARIO")]
    pub scenarios: Vec<PathBuf>,

    /// The processor that computes
    #[arg(long, default_value = "cpu")]
    pub backend: String,

    /// Runs of each point, all with the same requests at the same times; from 2 on, metrics have 95 % confidence
    /// intervals
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeats: u32,

    /// Requests to run again alone on the CPU, to check that the results have the same bits, or, from a GPU, are the
    /// same up to rounding
    #[arg(long, value_enum, default_value_t)]
    pub verify: Verify,

    /// Continue an interrupted run of the same scenario on this machine: finished runs are kept, and loads or policies
    /// may have been added
    #[arg(long)]
    pub resume: bool,

    /// Exit with code 4 if the runs are not usable: one is not valid, or a figure varies by more than 100 % over the repeats
    #[arg(long)]
    pub strict: bool,

    #[command(flatten)]
    pub sweeps: Sweeps,

    #[command(flatten)]
    pub common: Common,
}

pub fn sim(args: &SimArgs, registry: &Registry, executors: &Executors) -> Result<()> {
    let backend = SelectedBackend::Simulated(executors.simulator(&args.backend)?);
    let common = &args.common;
    let parts = &args.parts;
    let options = RunOptions {
        backend,
        out: common.out(backend.name()),
        replications: args.replications,
        resume: parts.keeps(),
        shard: None,
    };
    let sweeps = common.sweeps(&args.scenarios, &args.sweeps.sweeps, registry)?;
    if parts.plan || parts.merge_only {
        let mut points = Vec::new();
        let mut folders = Vec::new();
        let mut memory = MemoryAtOnce::default();
        for scenarios in &sweeps {
            if parts.plan {
                let own = run::estimate_memory(scenarios, &options, common.count_threads()?)?;
                memory = memory.max(own);
            }
            points.extend(run::points(scenarios, &options, parts.earlier_results())?);
            folders.push(options.out.join(folder_name(&scenarios[0].name)));
        }
        if parts.plan {
            common.note_memory(&memory);
            return parts.show(&points, common.shown);
        }
        Parts::refuse_missing(&points, &folders)?;
    }
    if parts.shard.is_some() {
        return run_shard(&sweeps, args, &options);
    }
    run_sweeps(&sweeps, common, &options)?;
    Ok(())
}

pub fn real(args: &RealArgs, registry: &Registry, executors: &Executors) -> Result<()> {
    let backend = SelectedBackend::Real(executors.executor(&args.backend)?, args.verify);
    let common = &args.common;
    let options = RunOptions {
        backend,
        out: common.out(backend.name()),
        replications: args.repeats,
        resume: args.resume,
        shard: None,
    };
    let mut sweeps = common.sweeps(&args.scenarios, &args.sweeps.sweeps, registry)?;
    for scenarios in &mut sweeps {
        run::complete(scenarios, backend);
    }
    let rows = run_sweeps(&sweeps, common, &options)?;
    conclude(&judge_rows(&rows), args.strict, common.quiet)
}

/// Runs the points of one shard, of all scenarios.
fn run_shard(sweeps: &[Vec<Scenario>], args: &SimArgs, options: &RunOptions) -> Result<()> {
    let common = &args.common;
    let mut counts = Vec::new();
    let mut points = Vec::new();
    for scenarios in sweeps {
        let of_sweep = run::points(scenarios, options, EarlierResults::Unread)?;
        counts.push(of_sweep.len());
        points.extend(of_sweep);
    }
    let Some((shard, mut rest)) = args.parts.select_points(&points) else {
        return Ok(());
    };
    for (scenarios, count) in sweeps.iter().zip(counts) {
        let own: Vec<bool> = rest.drain(..count).collect();
        let runs = own.iter().filter(|own| **own).count();
        let options = RunOptions {
            shard: Some((shard, own)),
            ..options.clone()
        };
        let report = common.run_with_progress(runs, &scenarios[0].name, |stop, done| {
            run::run_sweep(scenarios, &options, stop, done)
        })?;
        let done = report.finished;
        let all = report.runs;
        let before = report.taken_over;
        let folder = report.folder.path.display();
        if report.is_interrupted() {
            return Err(Error::failure(format_args!(
                "interrupted: {done} of {all} points of shard {shard} are finished and kept in {folder}; call it again"
            )));
        }
        note_missing_locks(common, report.locked);
        common.note(format!(
            "shard {shard}: {all} points are finished in {folder}, {before} of them before this call"
        ));
    }
    common.shown.several().end()
}

pub fn note_missing_locks(common: &Common, locked: bool) {
    if !locked {
        common.note(MISSING_LOCKS);
    }
}

/// Runs all sweeps, after all of them have been checked, and returns their summaries. Failed requests are an error at the
/// end, after all files have been written.
fn run_sweeps(
    sweeps: &[Vec<Scenario>],
    common: &Common,
    options: &RunOptions,
) -> Result<Vec<SummaryRow>> {
    let stop = stop_on_ctrl_c()?;
    let mut prepared = Vec::new();
    if sweeps.len() > 1 {
        // A mistake in the last scenario must not appear after hours of the first.
        for scenarios in sweeps {
            let sweep = common.run_on_threads(|| Sweep::prepare(scenarios, options, stop))?;
            // The networks of several scenarios may not fit in memory together.
            prepared.push(if options.backend.is_real() {
                None
            } else {
                Some(sweep)
            });
        }
    }
    let mut prepared = prepared.into_iter();
    let mut shown = common.shown.several();
    let mut failed = None;
    let mut rows_of_all = Vec::new();
    for scenarios in sweeps {
        let scenario = &scenarios[0];
        let points: usize = scenarios
            .iter()
            .map(|one| one.policies.len() * one.points().len())
            .sum();
        let runs = points * options.replications as usize;
        let bar = progress(common.quiet, runs, "runs", &scenario.name);
        let kept = prepared.next().flatten();
        let (report, figures) = common.run_on_threads(|| {
            let mut sweep = match kept {
                Some(sweep) => sweep,
                None => Sweep::prepare(scenarios, options, stop)?,
            };
            let report = sweep.run(&|| bar.inc(1))?;
            let mut figures = ScenarioFigures::default();
            if !report.is_interrupted() {
                figures = figures::draw(scenario, &report.folder.path, &[])?;
            }
            Ok((report, figures))
        })?;
        bar.finish_and_clear();
        let rows = &report.rows;
        shown.show(
            || {
                let table = table::table(rows, terminal_width());
                format!("{}\n{table}\n", scenario.name)
            },
            || summary::to_json(&scenario.name, rows),
        )?;
        print_notes(common, scenarios, &report, &figures);
        let folder = report.folder.path.display();
        if report.is_interrupted() {
            let done = report.finished;
            let all = report.runs;
            failed = Some(Error::failure(format!(
                "interrupted: {done} of {all} runs are finished and kept in {folder}; go on with --resume"
            )));
            break;
        }
        rows_of_all.extend(report.rows);
        if report.failed > 0 {
            failed.get_or_insert_with(|| {
                Error::failure(format!(
                    "{} requests failed; failures.csv beside the logs of a point in {folder} names them, with the reasons",
                    report.failed
                ))
            });
        }
    }
    shown.end()?;
    match failed {
        Some(error) => Err(error),
        None => Ok(rows_of_all),
    }
}

/// Prints what a reader of the results should know of a sweep's runs, and where the results are.
fn print_notes(
    common: &Common,
    scenarios: &[Scenario],
    report: &RunReport,
    figures: &ScenarioFigures,
) {
    for note in report.notes(scenarios) {
        common.note(note);
    }
    for why in &figures.undrawn {
        common.note(format!("no figure: {why}"));
    }
    let mut names = Vec::new();
    for path in figures.drawn.iter().flat_map(|figure| &figure.files) {
        if let Some(name) = path.file_name() {
            names.push(name.to_string_lossy());
        }
    }
    let folder = report.folder.path.display();
    if names.is_empty() {
        common.note(format!("results in {folder}"));
    } else {
        common.note(format!("results in {folder} ({})", names.join(", ")));
    }
}
