//! `batchlab replay`: recorded runs, decided again.

use std::path::PathBuf;

use rayon::prelude::*;
use serde_json::{Value, json};

use super::{Format, print, print_json};
use crate::error::{Error, Result};
use crate::experiment::prepared::Prepared;
use crate::experiment::target::{Target, Verify};
use crate::metrics::table::aligned;
use crate::policy::registry::Registry;
use crate::validate::recorded::Recording;
use crate::validate::replay::{Replay, replay};
use crate::validate::results::{Point, Results};

/// Replay recorded runs and show that the same decisions come out
///
/// Tells each policy again what it was told in a real run (rounds.csv) and compares the logs of the replay with those of
/// the run, byte for byte. Where they differ, shows the first decision that does.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// A results folder of a real run, or the folder of one of its policies or points
    #[arg(value_name = "RESULTS")]
    pub results: PathBuf,

    /// How the results are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// Replays all points that are recorded and prints what came out.
///
/// # Errors
/// A folder without recordings or whose requests can't be drawn again; logs that can't be read; a difference.
pub fn run(args: &Args, registry: &Registry) -> Result<()> {
    let Results { scenario, points } = Results::open(&args.results, registry)?;
    let recorded: Vec<&Point> = points.iter().filter(|point| Recording::is_in(&point.folder)).collect();
    if recorded.is_empty() {
        return Err(Error::input(format!(
            "{}: there is no rounds.csv in any of its points; a replay needs a run on a real backend, which writes down \
             what its policies were told",
            args.results.display()
        )));
    }
    let prepared = Prepared::without_device(&scenario, Target::Cpu(Verify::None))?;
    let replays = recorded
        .par_iter()
        .with_max_len(1)
        .map(|point| {
            let recording = Recording::read(&point.folder, prepared.cells())?;
            replay(&prepared, point, &recording, &mut |_| {})
        })
        .collect::<Result<Vec<Replay>>>()?;

    let label = |point: &Point| scenario.policies[point.run.policy].label.as_str();
    match args.format {
        Format::Table => print(&table(&recorded, &replays, label))?,
        Format::Json => {
            let rows: Vec<Value> =
                recorded.iter().zip(&replays).map(|(p, replay)| to_json(p, replay, label(p))).collect();
            print_json(vec![json!({ "scenario": scenario.name, "rows": rows })])?;
        }
    }
    match replays.iter().filter(|replay| replay.difference.is_some()).count() {
        0 => Ok(()),
        differing => Err(Error::failed(format!(
            "{}: {differing} of {} recorded runs are not decided in the same way again",
            args.results.display(),
            replays.len()
        ))),
    }
}

/// A line for each point, and behind them the differences.
fn table<'a>(points: &[&Point], replays: &[Replay], label: impl Fn(&Point) -> &'a str) -> String {
    let mut lines = vec![["policy", "point", "rounds", "tasks", "equal"].map(String::from).to_vec()];
    for (point, replay) in points.iter().zip(replays) {
        let (played, all) = replay.rounds;
        let rounds = if played == all { all.to_string() } else { format!("{played} of {all}") };
        let equal = match (&replay.difference, replay.finished) {
            (Some(_), _) => "no",
            (None, true) => "yes",
            (None, false) => "yes, to its interruption",
        };
        let point_text = point.run.load.to_string();
        lines.push(vec![label(point).into(), point_text, rounds, replay.tasks.to_string(), equal.into()]);
    }
    let mut text = aligned(&lines);
    for (point, replay) in points.iter().zip(replays) {
        if let Some(difference) = &replay.difference {
            text.push_str(&format!("\n{} at {}: {difference}\n", label(point), point.run.load));
        }
    }
    text
}

fn to_json(point: &Point, replay: &Replay, policy: &str) -> Value {
    json!({
        "policy": policy,
        "point": point.run.load.to_string(),
        "rounds": replay.rounds.1,
        "rounds_played": replay.rounds.0,
        "tasks": replay.tasks,
        "finished": replay.finished,
        "equal": replay.difference.is_none(),
        "difference": replay.difference,
    })
}
