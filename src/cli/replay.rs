//! `batchlab replay`.

use std::path::PathBuf;

use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::Format;
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

/// Replay recorded runs and check that they result in the same decisions
///
/// Gives each policy the events of a real run again (rounds.csv) and compares the logs of the replay with those of the run,
/// byte for byte. If they differ, shows the first decision that differs.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// A results folder of a real run, or the folder of one of its policies or points
    #[arg(value_name = "RESULTS")]
    pub results: PathBuf,

    /// Also show which term of the model causes most of the gap between real and simulated latencies: simulates each run with
    /// recorded durations, dispatch and arrivals, then with each of them from the simulator, then with all
    #[arg(long)]
    pub ledger: bool,

    /// Cost table for the ledger's simulations [default: those of the scenario]
    #[arg(long, value_name = "COSTS", requires = "ledger")]
    pub costs: Option<PathBuf>,

    /// How the results are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

struct Row<'r> {
    policy: &'r str,
    point: String,
    replay: Replay,
    /// If asked for and the decisions are the same.
    ledger: Option<Ledger>,
}

/// A difference is an error, after all results have been printed.
pub fn run(args: &Args, registry: &Registry) -> Result<()> {
    let Results { scenario, points, .. } = Results::open(&args.results, registry)?;
    let recorded: Vec<&Point> = points.iter().filter(|point| Recording::is_in(&point.folder)).collect();
    if recorded.is_empty() {
        return Err(Error::input(format!(
            "{}: there is no rounds.csv in any of its points; a replay needs a run on a real backend, which records \
             the events that its policies were given",
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
    let rows = recorded.par_iter().with_max_len(1).map(row).collect::<Result<Vec<Row<'_>>>>()?;

    let json = || json!({ "scenario": scenario.name, "rows": rows.iter().map(to_json).collect::<Vec<_>>() });
    args.format.show(|| text(&rows), json)?;
    match rows.iter().filter(|row| row.replay.difference.is_some()).count() {
        0 => Ok(()),
        differing => Err(Error::failed(format!(
            "{}: {differing} of {} recorded runs have other decisions in the replay",
            args.results.display(),
            rows.len()
        ))),
    }
}

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

/// A line for each point, then differences and ledgers.
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

/// With the term that causes most of the gap.
fn ledger_text(ledger: &Ledger) -> String {
    let mut lines = vec![["latency, ms", "mean", "", "p50", "", "p99", ""].map(String::from).to_vec()];
    for (name, times) in named(ledger) {
        let mut line = vec![name];
        for latency in LATENCIES.map(|(_, latency)| latency) {
            let (value, real) = (latency(times), latency(&ledger.real));
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

type Latency = (&'static str, fn(&Times) -> Option<f64>);

const LATENCIES: [Latency; 3] =
    [("mean_ms", |times| times.mean_ms), ("p50_ms", |times| times.p50_ms), ("p99_ms", |times| times.p99_ms)];

/// With names in the table.
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
        LATENCIES.iter().map(|(name, latency)| (name.to_string(), json!(latency(times)))).collect::<Map<_, _>>().into()
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
