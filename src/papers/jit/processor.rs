//! The times of Table 2 on a processor: those of a run, and those inside the program.

use std::path::Path;

use serde_json::Value;

use crate::base::error::{Error, Result};
use crate::base::shipped::{self, PEERS};
use crate::lab::results::saved_results::read_json;
use crate::lab::results::table::tabulate;
use crate::lab::run::RunReport;

/// The number of trees in the 256 samples (pairs) of a batch.
const TREES_OF_BATCH: f64 = 512.0;

/// What a policy's run took for 256 samples.
struct BatchCost {
    policy: String,
    /// Time of the host, in milliseconds.
    analysis: f64,
    /// Time of the processor with its copies, in milliseconds.
    execution: f64,
    launches: f64,
    copies: f64,
    /// Time of the copies, in milliseconds.
    copying: f64,
}

impl BatchCost {
    /// The whole time, without the way of a task to the worker's thread, which takes longer when the machine has other
    /// work.
    fn milliseconds(&self) -> f64 {
        self.analysis + self.execution
    }
}

/// The costs of a run's policies. It is an error if the run's host.json cannot be read.
fn batch_costs(report: &RunReport) -> Result<Vec<BatchCost>> {
    let host = read_json(&report.folder.path.join("host.json"))?;
    let runs = host["runs"].as_array().into_iter().flatten();
    let mut costs = Vec::new();
    for (row, run) in report.rows.iter().zip(runs) {
        let batches = row.runs[0].completed as f64 / TREES_OF_BATCH;
        costs.push(BatchCost {
            policy: row.policy.clone(),
            analysis: 1e3 * number(run, "scheduler_s") / batches,
            execution: 1e3 * number(run, "busy_s") / batches,
            launches: number(run, "launches") / batches,
            copies: number(run, "copies") / batches,
            copying: 1e3 * number(run, "copying_s") / batches,
        });
    }
    Ok(costs)
}

fn number(run: &Value, key: &str) -> f64 {
    run[key].as_f64().unwrap_or(f64::NAN)
}

/// A table with a line for each policy.
pub fn table_of_costs(report: &RunReport) -> Result<String> {
    Ok(tabulate(
        &batch_costs(report)?,
        &[
            ("for 256 samples", &|cost| cost.policy.clone()),
            ("samples/s", &|cost| {
                format!("{:.0}", 256e3 / cost.milliseconds())
            }),
            ("analysis ms", &|cost| format!("{:.2}", cost.analysis)),
            ("execution ms", &|cost| format!("{:.2}", cost.execution)),
            ("launches", &|cost| format!("{:.0}", cost.launches)),
            ("copies", &|cost| format!("{:.0}", cost.copies)),
            ("copying ms", &|cost| format!("{:.2}", cost.copying)),
        ],
    ))
}

/// The gain of batching on this processor. It is not a number if one of the two policies did not run.
pub fn measured_gain(report: &RunReport) -> Result<f64> {
    let costs = batch_costs(report)?;
    Ok(milliseconds_of(&costs, "one at a time") / milliseconds_of(&costs, "JIT, cells"))
}

fn milliseconds_of(costs: &[BatchCost], policy: &str) -> f64 {
    match costs.iter().find(|cost| cost.policy == policy) {
        Some(cost) => cost.milliseconds(),
        None => f64::NAN,
    }
}

/// The gain in trees per second, and the machine, from the measurements inside the program.
pub fn shipped_gain() -> Result<(f64, String)> {
    let text = shipped::text(Path::new(PEERS))?;
    let heading = text.lines().next().unwrap_or("");
    let machine = heading
        .split_once(" on ")
        .and_then(|(_, rest)| rest.split_once(", one thread"))
        .map(|(machine, _)| machine.to_string())
        .ok_or_else(|| missing("machine"))?;
    let together = shipped_rate(&text, "batchlab, 256 pairs at a time")?;
    let alone = shipped_rate(&text, "batchlab, one tree at a time")?;
    Ok((together / alone, machine))
}

/// The first number of the line that begins with a name.
fn shipped_rate(text: &str, name: &str) -> Result<f64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|word| word.replace(',', "").parse().ok())
        .ok_or_else(|| missing(name))
}

fn missing(what: &str) -> Error {
    Error::mistake(
        Path::new(PEERS),
        format_args!("no {what}; scripts/peers/run.sh makes such a file"),
    )
}
