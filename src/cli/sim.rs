//! `batchlab sim` and `batchlab real`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::parts::Parts;
use super::render::width;
use super::{Common, Sweeps};
use crate::base::error::{Error, Result};
use crate::base::files::folder_name;
use crate::core::policy::registry::Registry;
use crate::core::record::execution::Decisions;
use crate::core::summary::validity::{Extrapolation, LATENESS_BOUND, Lateness};
use crate::lab::results::summary::SummaryRow;
use crate::lab::results::{summary, table};
use crate::lab::run::executor::{Executors, SelectedBackend, Verify};
use crate::lab::run::verify::{Largest, Verified};
use crate::lab::run::{self, RunOptions, RunReport};
use crate::lab::scenario::{PolicyEntry, Scenario};

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

    /// Runs of each point, all with the same requests at the same times; from 2 on, metrics have 95 % confidence intervals
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeats: u32,

    /// Requests to run again alone on the CPU, to check that the results have the same bits, or, from a GPU, are the same up
    /// to rounding
    #[arg(long, value_enum, default_value_t)]
    pub verify: Verify,

    /// Continue an interrupted run of the same scenario on this machine: finished runs are kept, and loads or policies may
    /// have been added
    #[arg(long)]
    pub resume: bool,

    #[command(flatten)]
    pub sweeps: Sweeps,

    #[command(flatten)]
    pub common: Common,
}

pub fn sim(args: &SimArgs, registry: &Registry, executors: &Executors) -> Result<()> {
    let target = SelectedBackend::Simulated(executors.simulator(&args.backend)?);
    let out = args.common.out(target.name());
    let (parts, replications) = (&args.parts, args.replications);
    let options = RunOptions {
        backend: target,
        out,
        replications,
        resume: parts.keeps(),
        shard: None,
        stated: Vec::new(),
    };
    let scenarios = args
        .common
        .sweeps(&args.scenarios, &args.sweeps.sweeps, registry)?;
    if parts.plan || parts.merge_only {
        let points = scenarios
            .iter()
            .map(|sweep| run::points(sweep, &options, true));
        let points = points.collect::<Result<Vec<_>>>()?.concat();
        if parts.plan {
            return parts.show(&points, args.common.shown);
        }
        let folder = |sweep: &Vec<Scenario>| options.out.join(folder_name(&sweep[0].name));
        Parts::refuse_missing(&points, &scenarios.iter().map(folder).collect::<Vec<_>>())?;
    }
    if parts.shard.is_some() {
        return run_shard(&scenarios, args, &options);
    }
    run_all(&scenarios, &args.common, &options)
}

pub fn real(args: &RealArgs, registry: &Registry, executors: &Executors) -> Result<()> {
    let target = SelectedBackend::Real(executors.executor(&args.backend)?, args.verify);
    let out = args.common.out(target.name());
    let options = RunOptions {
        backend: target,
        out,
        replications: args.repeats,
        resume: args.resume,
        shard: None,
        stated: Vec::new(),
    };
    let scenarios = args
        .common
        .sweeps(&args.scenarios, &args.sweeps.sweeps, registry)?;
    run_all(&scenarios, &args.common, &options)
}

/// The points of one shard, of all scenarios.
fn run_shard(sweeps: &[Vec<Scenario>], args: &SimArgs, options: &RunOptions) -> Result<()> {
    let common = &args.common;
    let points = sweeps
        .iter()
        .map(|scenarios| run::points(scenarios, options, false));
    let points = points.collect::<Result<Vec<_>>>()?;
    let Some((shard, mut rest)) = args.parts.own(&points.concat()) else {
        return Ok(());
    };
    for (scenarios, points) in sweeps.iter().zip(&points) {
        let own: Vec<bool> = rest.drain(..points.len()).collect();
        let runs = own.iter().filter(|own| **own).count();
        let report = carried_out(
            scenarios,
            runs,
            common,
            &RunOptions {
                shard: Some((shard, own)),
                ..options.clone()
            },
        )?;
        let ((done, all), before, folder) = (
            report.finished,
            report.taken_over,
            report.folder.path.display(),
        );
        if report.interrupted() {
            return Err(Error::failed(format_args!(
                "interrupted: {done} of {all} points of shard {shard} are finished and kept in {folder}; call it again"
            )));
        }
        tell_of_locks(common, report.locked);
        common.note(format!("shard {shard}: {all} points are finished in {folder}, {before} of them before this call"));
    }
    common.shown.several().end()
}

fn carried_out(
    scenarios: &[Scenario],
    runs: usize,
    common: &Common,
    options: &RunOptions,
) -> Result<RunReport> {
    common.carry_out(runs, &scenarios[0].name, |stop, done| {
        run::run_sweep(scenarios, options, stop, done)
    })
}

pub fn tell_of_locks(common: &Common, locked: bool) {
    if !locked {
        common
            .note("the file system has no locks: make sure that no other run writes to the folder");
    }
}

/// Failed requests whose reasons are printed.
const FAILURES_SHOWN: usize = 3;

/// Checks all scenarios first; failed requests are an error at the end, after all files have been written.
fn run_all(sweeps: &[Vec<Scenario>], common: &Common, options: &RunOptions) -> Result<()> {
    if sweeps.len() > 1 {
        // A mistake in the last scenario must not appear after hours of the first.
        sweeps
            .iter()
            .flatten()
            .try_for_each(|scenario| run::prepare(scenario, options.backend).map(drop))?;
    }
    let (mut shown, mut failed) = (common.shown.several(), None);
    for scenarios in sweeps {
        let scenario = &scenarios[0];
        let points: usize = scenarios
            .iter()
            .map(|one| one.policies.len() * one.points().len())
            .sum();
        let report = carried_out(
            scenarios,
            points * options.replications as usize,
            common,
            options,
        )?;
        let table = || {
            format!(
                "{}\n{}\n",
                scenario.name,
                table::table(&report.rows, width())
            )
        };
        shown.show(table, || summary::to_json(&scenario.name, &report.rows))?;
        tell(common, scenarios, &report);
        let folder = report.folder.path.display();
        if report.interrupted() {
            let (done, all) = report.finished;
            failed = Some(Error::failed(format!(
                "interrupted: {done} of {all} runs are finished and kept in {folder}; go on with --resume"
            )));
            break;
        }
        if report.failed > 0 {
            failed.get_or_insert_with(|| {
                Error::failed(format!(
                    "{} requests failed; failures.csv beside the logs of a point in {folder} names them, with the reasons",
                    report.failed
                ))
            });
        }
    }
    shown.end()?;
    failed.map_or(Ok(()), Err)
}

fn tell(common: &Common, scenarios: &[Scenario], report: &RunReport) {
    let scenario = &scenarios[0];
    let costs_of = |row: &SummaryRow| {
        let of_row =
            |policy: &&PolicyEntry| policy.label == row.policy && policy.swept == row.swept;
        let policy = scenarios
            .iter()
            .flat_map(|scenario| &scenario.policies)
            .find(of_row);
        policy
            .and_then(|policy| policy.costs.as_ref())
            .map_or(String::new(), |costs| costs.display().to_string())
    };
    if report.taken_over > 0 {
        common.note(format!(
            "taken over from before: {} of {} runs",
            report.taken_over, report.finished.1
        ));
    }
    let warmed_up: u64 = report
        .rows
        .iter()
        .flat_map(|row| &row.runs)
        .map(|run| run.warmup)
        .max()
        .unwrap_or(0);
    if warmed_up > 0 {
        common.note(format!(
            "warm-up ({}): at most {warmed_up} requests of a run left out",
            scenario.metrics.warmup
        ));
    }
    let tables: BTreeSet<&Path> = scenario
        .policies
        .iter()
        .filter_map(|policy| policy.costs.as_deref())
        .collect();
    tables
        .into_iter()
        .for_each(|table| common.note_falling(table));
    let traditional = report.traditional.as_ref();
    traditional.iter().for_each(|why| {
        common.note(format!(
            "all steps ran in traditional kernels, not in device.grnn's: {why}"
        ))
    });
    notes(&report.rows, &costs_of)
        .iter()
        .for_each(|note| common.note(note));
    let Decisions { calls, tasks, time } = report.decisions;
    if calls > 0 {
        let per = |count: u64| time.as_nanos() as f64 / count as f64 / 1e3;
        common.note(format!(
            "scheduler: {:.2} us a decision, {:.2} us a task on this host",
            per(calls),
            per(tasks)
        ));
    }
    let Verified { requests, largest } = report.verified;
    match largest {
        _ if requests == 0 => {}
        None => common.note(format!("verified: {requests} requests have the same bits as when run alone")),
        Some(Largest { error, of_tolerated }) => common.note(format!(
            "verified: {requests} requests have the CPU's results, up to rounding in {}: the largest relative error is \
             {error:.2e}, {:.1} % of the tolerance",
            scenario.device.precision,
            100.0 * of_tolerated
        )),
    }
    report
        .failures
        .iter()
        .take(FAILURES_SHOWN)
        .for_each(|failure| common.note(failure));
    tell_of_locks(common, report.locked);
    report
        .undrawn
        .iter()
        .for_each(|why| common.note(format!("no figure: {why}")));
    let figures = report
        .figures
        .iter()
        .flat_map(|figure| &figure.files)
        .filter_map(|path| path.file_name());
    let figures: Vec<String> = figures
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    let figures = if figures.is_empty() {
        String::new()
    } else {
        format!(" ({})", figures.join(", "))
    };
    common.note(format!(
        "results in {}{figures}",
        report.folder.path.display()
    ));
}

/// What a reader of the results must know: batch sizes without a measured cost, rejected requests, late load generators.
pub fn notes(rows: &[SummaryRow], costs_of: &dyn Fn(&SummaryRow) -> String) -> Vec<String> {
    let mut notes = extrapolations(rows, costs_of);
    for row in rows {
        let rejected: u64 = row.runs.iter().map(|run| run.rejected).sum();
        if rejected > 0 {
            notes.push(format!(
                "\"{}\" at {}: {rejected} requests were rejected",
                row.name(),
                row.point
            ));
        }
        notes.extend(row.lateness().map(|late| lateness(row, &late)));
    }
    notes
}

/// A line for each cell that ran at unmeasured batch sizes, over all runs with that table.
fn extrapolations(rows: &[SummaryRow], costs_of: &dyn Fn(&SummaryRow) -> String) -> Vec<String> {
    let mut sums: BTreeMap<(String, String), Extrapolation> = BTreeMap::new();
    for row in rows {
        let costs = costs_of(row);
        for found in row.runs.iter().flat_map(|run| &run.extrapolated) {
            let of_cell = sums.entry((costs.clone(), found.cell.clone()));
            of_cell
                .and_modify(|sum| sum.add(found))
                .or_insert_with(|| found.clone());
        }
    }
    let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole as f64;
    let note = |((costs, cell), sum): (&(String, String), &Extrapolation)| {
        let (from, to) = (sum.from, sum.to);
        let below = (
            sum.below,
            "smaller",
            format!("below {from} they take the time of {from}"),
        );
        let above = (
            sum.above,
            "larger",
            format!("above {to} the slope of the last two rows goes on"),
        );
        let sides = [below, above].into_iter().filter(|(count, ..)| *count > 0);
        let (sides, rules): (Vec<_>, Vec<_>) = sides.map(|(_, side, rule)| (side, rule)).unzip();
        let (batches, cells) = (
            percent(sum.below + sum.above, sum.batches),
            percent(sum.cells_beyond, sum.cells),
        );
        let (sides, rules) = (sides.join(" or "), rules.join(", "));
        format!(
            "extrapolated: {batches:.2} % of the batches of {cell} ({cells:.2} % of its cells) were {sides} than the measured \
             {from}..{to} of {costs}; {rules}"
        )
    };
    sums.iter().map(note).collect()
}

/// Of the load generator, and the verdict.
fn lateness(row: &SummaryRow, late: &Lateness) -> String {
    let p99 = late
        .p99_us
        .map_or(String::new(), |us| format!("p99 {us:.1} us, "));
    let share = late.share.map_or(String::new(), |share| {
        format!("{:.2} % of the median latency; ", 100.0 * share)
    });
    let verdict = match late.valid {
        Some(true) => "VALID".to_string(),
        Some(false) => format!(
            "INVALID: above {} % the latencies are not those of an open loop; use fewer workers than cores, a machine that \
             does nothing else, or a lower load",
            100.0 * LATENESS_BOUND
        ),
        None => "too few requests for a verdict".to_string(),
    };
    let (name, point, mean, max) = (row.name(), &row.point, late.mean_us, late.max_us);
    let late =
        format!("the generator was late by {mean:.1} us on average, {p99}at most {max:.1} us");
    format!("\"{name}\" at {point}: {late}; {share}{verdict}")
}
