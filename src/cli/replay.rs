//! `batchlab replay`.

use std::path::PathBuf;

use rayon::prelude::*;
use serde_json::{Value, json};

use super::find;
use super::render::Shown;
use crate::base::error::{Context as _, Error, Result};
use crate::base::shipped::Shipped;
use crate::core::policy::registry::Registry;
use crate::core::summary::Times;
use crate::lab::results::columns::{Metric, name_of};
use crate::lab::results::table::{align, tabulate};
use crate::lab::run::executor::SelectedBackend;
use crate::lab::run::inputs::RunInputs;
use crate::lab::run::prepare;
use crate::lab::run::target::Target;
use crate::lab::scenario::{Input, Scenario};
use crate::lab::validate::ledger::{Ledger, Term, replay_with_ledger};
use crate::lab::validate::recording::Recording;
use crate::lab::validate::replay::Replay;
use crate::lab::validate::results::{RecordedPoint, Results};

/// Replay recorded runs and check that they result in the same decisions
///
/// Gives each policy the events of a real run again (rounds.csv) and compares the logs of the replay with those of the
/// run, byte for byte. If they differ, shows the first decision that differs.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// A results folder of a real run, or the folder of one of its policies or points
    #[arg(value_name = "RESULTS")]
    pub results: PathBuf,

    /// Also show which term of the model causes most of the gap between real and simulated latencies: simulates each
    /// run with recorded durations, dispatch and arrivals, then with each of them from the simulator, then with all
    #[arg(long)]
    pub ledger: bool,

    /// Cost table for the ledger's simulations [default: those of the scenario]
    #[arg(long, value_name = "COSTS", requires = "ledger")]
    pub costs: Option<PathBuf>,

    #[command(flatten)]
    pub shown: Shown,
}

struct Row {
    policy: String,
    point: String,
    replay: Replay,
    /// The ledger, if it was asked for and the decisions are the same.
    ledger: Option<Ledger>,
}

/// Replays runs and prints the results. A difference is an error at the end.
pub fn run(args: &Args, registry: &Registry) -> Result<()> {
    let results = Results::open(&args.results, registry)?;
    let recorded: Vec<&RecordedPoint> = results
        .points
        .iter()
        .filter(|point| Recording::is_in(&point.folder))
        .collect();
    if recorded.is_empty() {
        let why = "there is no rounds.csv in any of its points; a replay needs a run on a real backend, which records the \
            events that its policies were given";
        return Err(Error::mistake(&args.results, why));
    }
    let inputs = results
        .scenarios
        .iter()
        .map(RunInputs::new)
        .collect::<Result<Vec<_>>>()?;
    let devices = results
        .scenarios
        .iter()
        .filter(|_| args.ledger)
        .map(|scenario| simulated_target(args, scenario));
    let devices = devices.collect::<Result<Vec<_>>>()?;
    let row = |point: &&RecordedPoint| {
        let model = devices
            .get(point.variant)
            .and_then(|device| device.costs(point.run.policy));
        let (replay, ledger) = replay_with_ledger(&inputs[point.variant], point, model)?;
        let policy = results.scenario(point).policies[point.run.policy].name();
        Ok(Row {
            policy,
            point: point.run.load.to_string(),
            replay,
            ledger,
        })
    };
    let rows = recorded
        .par_iter()
        .with_max_len(1)
        .map(row)
        .collect::<Result<Vec<Row>>>()?;

    let json = || json!({ "scenario": results.scenarios[0].name, "rows": rows.iter().map(to_json).collect::<Vec<_>>() });
    args.shown.show(|| text(&rows), json)?;
    match rows
        .iter()
        .filter(|row| row.replay.difference.is_some())
        .count()
    {
        0 => Ok(()),
        differing => {
            let what = format!(
                "{differing} of {} recorded runs have other decisions in the replay",
                rows.len()
            );
            Err(Error::failure(what)).within(args.results.display())
        }
    }
}

/// The simulated device of a scenario, with the costs of the command line if there are any.
fn simulated_target(args: &Args, scenario: &Scenario) -> Result<Target> {
    let mut scenario = scenario.clone();
    if let Some(file) = &args.costs {
        let costs = Input::from(
            find(Shipped::Costs, file, false)?
                .to_string_lossy()
                .into_owned(),
        );
        scenario.set_costs(&costs);
    }
    let device = &scenario.device;
    let computed = device.roofline.is_some() || device.grnn.is_some();
    if let Some(policy) = scenario
        .policies
        .iter()
        .find(|policy| policy.costs.file().is_none() && !computed)
    {
        let why = format!("its scenario names no costs for \"{}\"", policy.label);
        let way = "name the table to simulate with, as --costs COSTS.csv";
        return Err(Error::mistake(&args.results, format!("{why}; {way}")));
    }
    Ok(prepare(&scenario, SelectedBackend::SIM)?.1)
}

/// A line for each point, then differences and ledgers.
fn text(rows: &[Row]) -> String {
    let rounds = |(played, all): (usize, usize)| {
        if played == all {
            all.to_string()
        } else {
            format!("{played} of {all}")
        }
    };
    let equal = |replay: &Replay| match (&replay.difference, replay.finished) {
        (Some(_), _) => "no".into(),
        (None, true) => "yes".into(),
        (None, false) => "yes, to its interruption".into(),
    };
    let mut text = tabulate(
        rows,
        &[
            ("policy", &|row| row.policy.to_string()),
            ("point", &|row| row.point.clone()),
            ("rounds", &|row| rounds(row.replay.rounds)),
            ("tasks", &|row| row.replay.tasks.to_string()),
            ("equal", &|row| equal(&row.replay)),
        ],
    );
    for Row {
        policy,
        point,
        replay,
        ledger,
    } in rows
    {
        if let Some(difference) = &replay.difference {
            text += &format!("\n{policy} at {point}: {difference}\n");
        }
        if let Some(ledger) = ledger {
            text += &format!("\n{policy} at {point}\n{}", ledger_text(ledger));
        }
    }
    text
}

/// The table of a ledger, with the term that causes most of the gap.
fn ledger_text(ledger: &Ledger) -> String {
    let mut lines = vec![
        ["latency, ms", "mean", "", "p50", "", "p99", ""]
            .map(String::from)
            .to_vec(),
    ];
    let mut line = |name: &str, times: &Times| {
        let mut line = vec![name.to_string()];
        for (_, latency) in LATENCIES {
            let value = latency(times);
            let real = latency(&ledger.real);
            let off = value
                .zip(real)
                .map(|(value, real)| 100.0 * (value / real - 1.0));
            line.push(value.map_or("-".into(), |value| format!("{value:.3}")));
            line.push(
                off.filter(|_| lines.len() > 1)
                    .map_or(String::new(), |off| format!("{off:+.2} %")),
            );
        }
        lines.push(line);
    };
    line("real", &ledger.real);
    line("all as recorded", &ledger.recorded);
    for (term, times) in Term::ALL.iter().zip(&ledger.replaced) {
        line(&format!("{} by the model", name_of(term)), times);
    }
    line("all by the model", &ledger.model);
    let owner = match ledger.owner() {
        Some(owner) => {
            let name = name_of(&owner);
            let percent = 100.0 * ledger.effect(owner).unwrap_or_default();
            format!(
                "owner of the gap: {name} (by the model, the mean changes by {percent:+.2} % of the real one)\n"
            )
        }
        None => "no term changes anything\n".into(),
    };
    align(&lines) + &owner
}

type Latency = (Metric, fn(&Times) -> Option<f64>);

const LATENCIES: [Latency; 3] = [
    (Metric::Mean, |times| times.mean_ms),
    (Metric::P50, |times| times.p50_ms),
    (Metric::P99, |times| times.p99_ms),
];

fn to_json(row: &Row) -> Value {
    let Row {
        policy,
        point,
        replay,
        ledger,
    } = row;
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
    let latencies = |times| {
        LATENCIES
            .iter()
            .map(|(metric, of)| (metric.name(), of(times)))
            .collect::<Value>()
    };
    let replaced = Term::ALL
        .iter()
        .zip(&ledger.replaced)
        .map(|(term, times)| (name_of(term), latencies(times)));
    json!({
        "real": latencies(&ledger.real),
        "recorded": latencies(&ledger.recorded),
        "by_model": replaced.collect::<Value>(),
        "all_by_model": latencies(&ledger.model),
        "effects": Term::ALL.iter().map(|term| (name_of(term), ledger.effect(*term))).collect::<Value>(),
        "owner": ledger.owner().as_ref().map(name_of),
    })
}
