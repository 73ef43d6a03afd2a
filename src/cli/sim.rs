//! `batchlab sim`: scenarios on the simulated backend.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{Common, Format, print, print_json, stop_on_ctrl_c};
use crate::error::{Error, Result};
use crate::experiment::prepared::Prepared;
use crate::experiment::{self, Options, Report};
use crate::files::folder_name;
use crate::metrics::extrapolation::Extrapolation;
use crate::metrics::recorder::Decisions;
use crate::metrics::table;
use crate::policy::registry::Registry;
use crate::scenario::Scenario;

/// Run scenarios on the simulated GPU
///
/// Every policy of a scenario replays the same requests at every load. Results go to DIR/NAME, with the scenario's name:
/// summary.csv, a folder for each policy and load, and the figures that the scenario asks for.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Scenario files
    #[arg(required = true, value_name = "SCENARIO")]
    pub scenarios: Vec<PathBuf>,

    /// Runs of each point, each with its own random streams; from 2 on, figures come with 95 % confidence intervals
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub replications: u32,

    /// Go on where an earlier run of the same scenario was stopped: what is finished is taken over, and loads or policies
    /// may have been added
    #[arg(long)]
    pub resume: bool,

    #[command(flatten)]
    pub common: Common,
}

/// Runs the scenarios one after the other.
///
/// # Errors
/// A scenario with a mistake, before any of them is run; a file that can't be written; Ctrl-C.
pub fn run(args: &Args, registry: &Registry) -> Result<()> {
    let common = &args.common;
    let scenarios: Vec<Scenario> =
        args.scenarios.iter().map(|path| common.scenario(path, registry)).collect::<Result<_>>()?;
    refuse_equal_names(&scenarios)?;
    if scenarios.len() > 1 {
        // So that a mistake in the last does not show after hours of the first.
        scenarios.iter().try_for_each(|scenario| Prepared::new(scenario).map(drop))?;
    }
    let stop = stop_on_ctrl_c()?;
    let mut documents = Vec::new();
    for scenario in &scenarios {
        let options = Options { out: common.out.clone(), replications: args.replications, resume: args.resume };
        let runs = scenario.policies.len() * scenario.points().len() * args.replications as usize;
        let bar = common.progress(runs, &scenario.name);
        let report = common.on_threads(|| experiment::run(scenario, &options, stop, &|| bar.inc(1)))?;
        bar.finish_and_clear();
        match common.format {
            Format::Table => print(&format!("{}\n{}\n", scenario.name, table::table(&report.rows)))?,
            Format::Json => documents.push(table::to_json(&scenario.name, &report.rows)),
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
    }
    if common.format == Format::Json { print_json(documents) } else { Ok(()) }
}

/// Says where the results are, and what a reader should know of them.
fn tell(common: &Common, scenario: &Scenario, report: &Report) {
    if report.taken_over > 0 {
        common.note(format!("taken over from before: {} of {} runs", report.taken_over, report.finished.1));
    }
    let warmed_up: u64 = report.rows.iter().flat_map(|row| &row.figures.runs).map(|run| run.warmup).max().unwrap_or(0);
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
        let costs = policy.map_or(String::new(), |policy| policy.costs.display().to_string());
        for found in row.figures.runs.iter().flat_map(|run| &run.extrapolated) {
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

/// Two scenarios of one name would write over each other's results.
fn refuse_equal_names(scenarios: &[Scenario]) -> Result<()> {
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
