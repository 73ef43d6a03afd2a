//! `batchlab replay`: recorded runs, decided again.

use std::path::PathBuf;

use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::{Format, print, print_json};
use crate::backend::watched::Watcher;
use crate::cost::table::TableModel;
use crate::error::{Error, Result};
use crate::experiment::inputs::Inputs;
use crate::metrics::summary::Times;
use crate::policy::registry::Registry;
use crate::results::table::aligned;
use crate::scenario::{PolicyEntry, Scenario, costs};
use crate::task::{MemberList, Task};
use crate::units::TaskId;
use crate::validate::ledger::{Ledger, Signature, Term, ledger};
use crate::validate::recorded::Recording;
use crate::validate::replay::{Replay, replay};
use crate::validate::results::{Point, Results};
use crate::workload::model::CellType;

/// Replay recorded runs and show that the same decisions come out
///
/// Tells each policy again what it was told in a real run (rounds.csv) and compares the logs of the replay with those of
/// the run, byte for byte. Where they differ, shows the first decision that does.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// A results folder of a real run, or the folder of one of its policies or points
    #[arg(value_name = "RESULTS")]
    pub results: PathBuf,

    /// Also show which term owns the gap between the real latencies and the simulated ones: simulates each run with
    /// durations, dispatch and arrivals as recorded, then with each of them, and with all, as the simulator has them
    #[arg(long)]
    pub ledger: bool,

    /// The simulator's cost table for the ledger [default: those of the scenario]
    #[arg(long, value_name = "COSTS", requires = "ledger")]
    pub costs: Option<PathBuf>,

    /// How the results are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// What was done with one point.
struct Row<'r> {
    policy: &'r str,
    point: String,
    replay: Replay,
    /// If it was asked for, and the decisions are the same.
    ledger: Option<Ledger>,
}

/// Replays all points that are recorded and prints what came out.
///
/// # Errors
/// A folder without recordings or whose requests can't be drawn again; logs or costs that can't be read; a difference.
pub fn run(args: &Args, registry: &Registry) -> Result<()> {
    let Results { scenario, points, .. } = Results::open(&args.results, registry)?;
    let recorded: Vec<&Point> = points.iter().filter(|point| Recording::is_in(&point.folder)).collect();
    if recorded.is_empty() {
        return Err(Error::input(format!(
            "{}: there is no rounds.csv in any of its points; a replay needs a run on a real backend, which writes down \
             what its policies were told",
            args.results.display()
        )));
    }
    let inputs = Inputs::new(&scenario)?;
    let models = match args.ledger {
        true => Some(models(args, &scenario, inputs.cells())?),
        false => None,
    };
    let row = |point: &&Point| {
        let recording = Recording::read(&point.folder, inputs.cells())?;
        let mut signatures = Vec::new();
        let mut see = |_: TaskId, task: &Task<'_>, _: Option<&MemberList>| {
            if models.is_some() {
                signatures.push(Signature::of(task));
            }
        };
        let replay = replay(&inputs, point, &recording, Watcher { members: false, see: &mut see })?;
        let model = models.as_ref().filter(|_| replay.difference.is_none()).map(|models| &models[point.run.policy]);
        Ok(Row {
            policy: &scenario.policies[point.run.policy].label,
            point: point.run.load.to_string(),
            ledger: model.map(|m| ledger(&inputs, point, &recording, &replay, &signatures, m)).transpose()?,
            replay,
        })
    };
    // Rows come in the order of the points.
    let rows = recorded.par_iter().with_max_len(1).map(row).collect::<Result<Vec<Row<'_>>>>()?;

    match args.format {
        Format::Table => print(&text(&rows))?,
        Format::Json => {
            let rows: Vec<Value> = rows.iter().map(to_json).collect();
            print_json(vec![json!({ "scenario": scenario.name, "rows": rows })])?;
        }
    }
    match rows.iter().filter(|row| row.replay.difference.is_some()).count() {
        0 => Ok(()),
        differing => Err(Error::failed(format!(
            "{}: {differing} of {} recorded runs are not decided in the same way again",
            args.results.display(),
            rows.len()
        ))),
    }
}

/// The simulator's device for each policy.
fn models(args: &Args, scenario: &Scenario, cells: &[CellType]) -> Result<Vec<TableModel>> {
    let model = |policy: &PolicyEntry| {
        let costs = args.costs.as_deref().or(policy.costs.as_deref()).ok_or_else(|| {
            Error::input(format!(
                "{}: its scenario names no cost table for \"{}\"; name the one to simulate with, as --costs COSTS.csv",
                args.results.display(),
                policy.label
            ))
        })?;
        let Scenario { workload, device, .. } = scenario;
        let table = costs::named(Some(costs), device, &workload.model, &workload.sizes())?;
        table.expect("rows were named").device(cells, policy.overhead)
    };
    scenario.policies.iter().map(model).collect()
}

/// A line for each point, and behind them the differences and the ledgers.
fn text(rows: &[Row<'_>]) -> String {
    let mut lines = vec![["policy", "point", "rounds", "tasks", "equal"].map(String::from).to_vec()];
    for Row { policy, point, replay, .. } in rows {
        let (played, all) = replay.rounds;
        let rounds = if played == all { all.to_string() } else { format!("{played} of {all}") };
        let equal = match (&replay.difference, replay.finished) {
            (Some(_), _) => "no",
            (None, true) => "yes",
            (None, false) => "yes, to its interruption",
        };
        lines.push(vec![policy.to_string(), point.clone(), rounds, replay.tasks.to_string(), equal.into()]);
    }
    let mut text = aligned(&lines);
    for Row { policy, point, replay, ledger } in rows {
        if let Some(difference) = &replay.difference {
            text.push_str(&format!("\n{policy} at {point}: {difference}\n"));
        }
        if let Some(ledger) = ledger {
            text.push_str(&format!("\n{policy} at {point}\n{}", ledger_text(ledger)));
        }
    }
    text
}

/// The latencies of a ledger, one below the other, and the term that owns the gap.
fn ledger_text(ledger: &Ledger) -> String {
    let mut lines = vec![["latency, ms", "mean", "", "p50", "", "p99", ""].map(String::from).to_vec()];
    for (name, times) in named(ledger) {
        let mut line = vec![name];
        for figure in LATENCIES.map(|(_, figure)| figure) {
            let (value, real) = (figure(times), figure(&ledger.real));
            let off = value.zip(real).map(|(value, real)| 100.0 * (value / real - 1.0));
            line.push(value.map_or("-".into(), |value| format!("{value:.3}")));
            line.push(off.filter(|_| lines.len() > 1).map_or(String::new(), |off| format!("{off:+.2} %")));
        }
        lines.push(line);
    }
    let owner = match ledger.owner() {
        Some(owner) => format!(
            "owner of the gap: {} (by the model, the mean changes by {:+.2} % of the real one)\n",
            owner.name(),
            100.0 * ledger.effect(owner).unwrap_or_default()
        ),
        None => "no term changes anything\n".into(),
    };
    aligned(&lines) + &owner
}

/// A figure of latencies, with its name in JSON.
type Latency = (&'static str, fn(&Times) -> Option<f64>);

/// The figures of a ledger.
const LATENCIES: [Latency; 3] =
    [("mean_ms", |times| times.mean_ms), ("p50_ms", |times| times.p50_ms), ("p99_ms", |times| times.p99_ms)];

/// The runs of a ledger, as a table calls them.
fn named(ledger: &Ledger) -> Vec<(String, &Times)> {
    let replaced =
        Term::ALL.iter().zip(&ledger.replaced).map(|(term, times)| (format!("{} by the model", term.name()), times));
    let mut all = vec![("real".to_string(), &ledger.real), ("all as recorded".to_string(), &ledger.recorded)];
    all.extend(replaced);
    all.push(("all by the model".to_string(), &ledger.model));
    all
}

fn to_json(row: &Row<'_>) -> Value {
    let Row { policy, point, replay, ledger } = row;
    json!({
        "policy": policy,
        "point": point,
        "rounds": replay.rounds.1,
        "rounds_played": replay.rounds.0,
        "tasks": replay.tasks,
        "finished": replay.finished,
        "equal": replay.difference.is_none(),
        "difference": replay.difference,
        "ledger": ledger.as_ref().map(ledger_json),
    })
}

fn ledger_json(ledger: &Ledger) -> Value {
    let latencies = |times: &Times| -> Value {
        LATENCIES.iter().map(|(name, figure)| (name.to_string(), json!(figure(times)))).collect::<Map<_, _>>().into()
    };
    let of_terms = |value: &dyn Fn(usize, Term) -> Value| -> Value {
        let terms = Term::ALL.into_iter().enumerate();
        terms.map(|(place, term)| (term.name().to_string(), value(place, term))).collect::<Map<_, _>>().into()
    };
    json!({
        "real": latencies(&ledger.real),
        "recorded": latencies(&ledger.recorded),
        "by_model": of_terms(&|place, _| latencies(&ledger.replaced[place])),
        "all_by_model": latencies(&ledger.model),
        "effects": of_terms(&|_, term| json!(ledger.effect(term))),
        "owner": ledger.owner().map(Term::name),
    })
}
