//! What `sim` and `real` have in common: scenarios one after the other, with what is printed of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{Common, Format, print, print_json, stop_on_ctrl_c};
use crate::error::{Error, Result};
use crate::experiment::verify::{Largest, Verified};
use crate::experiment::{self, Failure, Options, Report};
use crate::files::folder_name;
use crate::metrics::extrapolation::Extrapolation;
use crate::metrics::lateness::{BOUND, Lateness};
use crate::metrics::recorder::Decisions;
use crate::policy::registry::Registry;
use crate::results::summary::SummaryRow;
use crate::results::{summary, table};
use crate::scenario::Scenario;

/// How many requests that failed are told of one by one.
const FAILURES_SHOWN: usize = 3;

/// Runs the scenarios one after the other.
///
/// # Errors
/// A scenario with a mistake, before any of them is run; what [`experiment::run`] says; requests that failed, after all files
/// are written; Ctrl-C.
pub fn run(files: &[PathBuf], common: &Common, options: &Options, registry: &Registry) -> Result<()> {
    let scenarios: Vec<Scenario> = files.iter().map(|path| common.scenario(path, registry)).collect::<Result<_>>()?;
    refuse_equal_names(&scenarios)?;
    if scenarios.len() > 1 {
        // So that a mistake in the last does not show after hours of the first.
        scenarios.iter().try_for_each(|scenario| experiment::prepare(scenario, options.target).map(drop))?;
    }
    let stop = stop_on_ctrl_c()?;
    let mut documents = Vec::new();
    let mut failed = None;
    for scenario in &scenarios {
        let runs = scenario.policies.len() * scenario.points().len() * options.replications as usize;
        let bar = common.progress(runs, &scenario.name);
        let report = common.on_threads(|| experiment::run(scenario, options, stop, &|| bar.inc(1)))?;
        bar.finish_and_clear();
        match common.format {
            Format::Table => print(&format!("{}\n{}\n", scenario.name, table::table(&report.rows)))?,
            Format::Json => documents.push(summary::to_json(&scenario.name, &report.rows)),
        }
        tell(common, scenario, &report);
        if report.interrupted() {
            if common.format == Format::Json {
                print_json(documents)?;
            }
            let (done, all) = report.finished;
            return Err(Error::failed(format!(
                "interrupted: {done} of {all} runs are finished and kept in {}; go on with --resume",
                report.folder.path().display()
            )));
        }
        if report.failed > 0 {
            failed.get_or_insert_with(|| failures(&report));
        }
    }
    if common.format == Format::Json {
        print_json(documents)?;
    }
    failed.map_or(Ok(()), Err)
}

/// What a run in which requests failed ends with.
fn failures(report: &Report) -> Error {
    Error::failed(format!(
        "{} requests failed; failures.csv beside the logs of a point in {} names them, with the reasons",
        report.failed,
        report.folder.path().display()
    ))
}

/// Says where the results are, and what a reader should know of them.
fn tell(common: &Common, scenario: &Scenario, report: &Report) {
    if report.taken_over > 0 {
        common.note(format!("taken over from before: {} of {} runs", report.taken_over, report.finished.1));
    }
    let warmed_up: u64 = report.rows.iter().flat_map(|row| &row.runs).map(|run| run.warmup).max().unwrap_or(0);
    if warmed_up > 0 {
        common.note(format!("warm-up ({}): at most {warmed_up} requests of a run left out", scenario.metrics.warmup));
    }
    for note in extrapolations(scenario, report) {
        common.note(note);
    }
    let Decisions { calls, tasks, time } = report.decisions;
    if calls > 0 {
        let per = |count: u64| time.as_nanos() as f64 / count as f64 / 1e3;
        common.note(format!("scheduler: {:.2} us a decision, {:.2} us a task on this host", per(calls), per(tasks)));
    }
    for row in &report.rows {
        let rejected: u64 = row.runs.iter().map(|run| run.rejected).sum();
        if rejected > 0 {
            common.note(format!("\"{}\" at {}: {rejected} requests were rejected", row.policy, row.point));
        }
        if let Some(late) = row.lateness() {
            common.note(lateness(row, &late));
        }
    }
    let Verified { requests, largest } = report.verified;
    match largest {
        _ if requests == 0 => {}
        None => common.note(format!("verified: {requests} requests came to the same bits as alone")),
        Some(Largest { error, of_tolerated }) => common.note(format!(
            "verified: {requests} requests came to what the CPU comes to, up to rounding in {}: the largest relative error is \
             {error:.2e}, {:.1} % of what is tolerated",
            scenario.device.gpu.precision,
            100.0 * of_tolerated
        )),
    }
    for failure in report.failures.iter().take(FAILURES_SHOWN) {
        let Failure { run, policy, request, reason } = failure;
        common.note(format!("\"{policy}\" at {}: request {request} failed: {reason}", run.load));
    }
    for why in &report.undrawn {
        common.note(format!("no figure: {why}"));
    }
    let figures: Vec<String> = report
        .figures
        .iter()
        .filter_map(|path| path.file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    let figures = if figures.is_empty() { String::new() } else { format!(" ({})", figures.join(", ")) };
    common.note(format!("results in {}{figures}", report.folder.path().display()));
}

/// A line for each cell of a cost table that ran at batch sizes which were not measured, over all runs on that table.
fn extrapolations(scenario: &Scenario, report: &Report) -> Vec<String> {
    let mut sums: BTreeMap<(String, String), Extrapolation> = BTreeMap::new();
    for row in &report.rows {
        let policy = scenario.policies.iter().find(|policy| policy.label == row.policy);
        let costs =
            policy.and_then(|policy| policy.costs.as_ref()).map_or(String::new(), |costs| costs.display().to_string());
        for found in row.runs.iter().flat_map(|run| &run.extrapolated) {
            let of_cell = sums.entry((costs.clone(), found.cell.clone()));
            of_cell.and_modify(|sum| sum.add(found)).or_insert_with(|| found.clone());
        }
    }
    let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole as f64;
    let note = |((costs, cell), sum): (&(String, String), &Extrapolation)| {
        let sides = [(sum.below, "smaller"), (sum.above, "larger")];
        let sides: Vec<&str> = sides.iter().filter(|(count, _)| *count > 0).map(|(_, side)| *side).collect();
        format!(
            "extrapolated: {:.2} % of the batches of {cell} ({:.2} % of its cells) were {} than the measured {}..{} of {costs}",
            percent(sum.below + sum.above, sum.batches),
            percent(sum.cells_beyond, sum.cells),
            sides.join(" or "),
            sum.from,
            sum.to,
        )
    };
    sums.iter().map(note).collect()
}

/// How late the load generator was at a point, and the verdict.
fn lateness(row: &SummaryRow, late: &Lateness) -> String {
    let p99 = late.p99_us.map_or(String::new(), |us| format!("p99 {us:.1} us, "));
    let share = late.share.map_or(String::new(), |share| format!("{:.2} % of the median latency; ", 100.0 * share));
    let verdict = match late.valid {
        Some(true) => "VALID".to_string(),
        Some(false) => format!(
            "INVALID: above {} % the latencies are not those of an open loop; use fewer workers than cores, a machine that \
             does nothing else, or a lower load",
            100.0 * BOUND
        ),
        None => "too few requests for a verdict".to_string(),
    };
    format!(
        "\"{}\" at {}: the generator was late by {:.1} us on average, {p99}at most {:.1} us; {share}{verdict}",
        row.policy, row.point, late.mean_us, late.max_us
    )
}

/// Two scenarios of one name would write over each other's results.
pub fn refuse_equal_names(scenarios: &[Scenario]) -> Result<()> {
    // Compared without case, since some file systems do so.
    let mut seen = BTreeMap::new();
    for scenario in scenarios {
        if let Some(other) = seen.insert(folder_name(&scenario.name).to_lowercase(), &scenario.file) {
            return Err(Error::input(format!(
                "{}: name: \"{}\" is also the name in {}; each scenario of one call needs a folder of its own",
                scenario.file.display(),
                scenario.name,
                other.display()
            )));
        }
    }
    Ok(())
}
