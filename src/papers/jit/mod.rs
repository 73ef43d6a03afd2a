//! JIT dynamic batching (*Just-in-Time Dynamic-Batching*, 2019): the launches of its Table 1, and the checks of its claims.

pub mod count;
pub mod kernels;
pub mod sample;

use std::env;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::{Check, Exhibit, Findings, Found, Made, Paper, PaperValue, Verdict};
use crate::base::error::{Error, Result};
use crate::base::shipped::{self, PEERS};
use crate::lab::results::saved_results::read_json;
use crate::lab::results::summary::SummaryRow;
use crate::lab::results::table::{aligned, tabulate};
use crate::lab::run::RunReport;
use count::{Counter, Counts};
use kernels::KernelCounts;
use sample::Samples;

/// Pairs in a batch.
const BATCH: usize = 256;
/// SICK's test split and the order of its pairs, in the folder of the data.
const TREES: &str = "trees/sick_test.txt";
const ORDER: &str = "jit/sick_test_order.csv";
/// The folder of the data.
const DATA: &str = "BATCHLAB_DATA";

const CONTENTS: &str = "trees/sick_test.txt, a line for each tree (batchlab trace import --format parents makes such lines from the public \
    .parents files), and jit/sick_test_order.csv, the order of the pairs (position,pair)";

/// Trees of the 256 samples of a batch.
const TREES_OF_BATCH: f64 = 512.0;

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("jit-kernel-none", kernels_without_batching),
    ("jit-kernel", kernels_with_batching),
    ("jit-cell-none", cells_without_batching),
    ("jit-cell", cells_with_batching),
    ("jit-infer", gain_in_inference),
    ("jit-train", |_, _| Ok(Verdict::not_run())),
];

/// The paper's numbers of kernel launches in Table 1, without and with batching. The second is "about".
pub fn paper_kernels() -> [u64; 2] {
    ["jit-kernel-none", "jit-kernel"].map(paper_count)
}

/// The paper's numbers of subgraphs in Table 1, without and with batching.
fn paper_cells() -> [u64; 2] {
    ["jit-cell-none", "jit-cell"].map(paper_count)
}

fn paper_count(claim: &str) -> u64 {
    Paper::Jit.value(claim).number() as u64
}

fn kernels_without_batching(found: &Findings, paper: &PaperValue) -> Result<Verdict> {
    let Some(launches) = counted(found) else {
        return Ok(Verdict::not_run());
    };
    let ours = launches.kernels.unbatched as f64;
    Ok(Verdict::magnitude(ours, paper.number(), "operators"))
}

fn kernels_with_batching(found: &Findings, paper: &PaperValue) -> Result<Verdict> {
    let Some(launches) = counted(found) else {
        return Ok(Verdict::not_run());
    };
    let kernels = &launches.kernels;
    let by_rule = format!(" ({} as the program launches them)", kernels.batched);
    Ok(Verdict::near(kernels.by_type as f64, paper, true)
        .with(&by_rule)
        .derived())
}

fn cells_without_batching(found: &Findings, paper: &PaperValue) -> Result<Verdict> {
    let Some(launches) = counted(found) else {
        return Ok(Verdict::not_run());
    };
    Ok(Verdict::exact(&[launches.cells.unbatched as f64], paper))
}

fn cells_with_batching(found: &Findings, paper: &PaperValue) -> Result<Verdict> {
    let Some(launches) = counted(found) else {
        return Ok(Verdict::not_run());
    };
    Ok(Verdict::exact(&[launches.cells.batched as f64], paper))
}

fn counted(found: &Findings) -> Option<&Launches> {
    match found.exhibits.get("table1") {
        Some(Found::Launches(launches)) => Some(launches),
        _ => None,
    }
}

fn gain_in_inference(found: &Findings, paper: &PaperValue) -> Result<Verdict> {
    let (gain, machine) = match found.run("table2") {
        Ok((_, report)) => (measured_gain(report)?, "this processor".to_string()),
        Err(_) => shipped_gain()?,
    };
    Ok(Verdict::near(gain, paper, gain > 1.0).with(&format!(", on {machine}")))
}

fn measured_gain(report: &RunReport) -> Result<f64> {
    let costs = costs(report)?;
    let of = |policy| {
        costs
            .iter()
            .find(|(name, _)| name == policy)
            .map_or(f64::NAN, |(_, cost)| milliseconds(cost))
    };
    Ok(of("one at a time") / of("JIT, cells"))
}

/// The gain in trees per second, and the machine, from the measurements inside the program.
fn shipped_gain() -> Result<(f64, String)> {
    let path = Path::new(PEERS);
    let text = shipped::text(path)?;
    let missing = |what: &str| {
        Error::at(
            path,
            format_args!("no {what}; scripts/peers/run.sh makes such a file"),
        )
    };
    let rate = |row: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(row));
        let rate = line.and_then(|line| {
            line.split_whitespace()
                .next()?
                .replace(',', "")
                .parse::<f64>()
                .ok()
        });
        rate.ok_or_else(|| missing(row))
    };
    let machine = text
        .lines()
        .next()
        .and_then(|line| Some(line.split_once(" on ")?.1.split_once(", one thread")?.0));
    let machine = machine.ok_or_else(|| missing("machine"))?;
    Ok((
        rate("batchlab, 256 pairs at a time")? / rate("batchlab, one tree at a time")?,
        machine.to_string(),
    ))
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Launches {
    pub cells: Counts,
    pub kernels: KernelCounts,
}

/// The trees of SICK's test split and their order in a folder, by default `BATCHLAB_DATA`'s; `None` if no folder is
/// named.
pub fn data(folder: Option<&Path>) -> Result<Option<[PathBuf; 2]>> {
    let variable = || {
        env::var_os(DATA)
            .filter(|value| !value.is_empty())
            .map(|value| (PathBuf::from(value), DATA))
    };
    let named = folder
        .map(|folder| (folder.to_path_buf(), "--data"))
        .or_else(variable);
    let Some((folder, by)) = named else {
        return Ok(None);
    };
    let (trees, order) = (folder.join(TREES), folder.join(ORDER));
    if let Some(missing) = [&trees, &order].into_iter().find(|file| !file.is_file()) {
        return Err(Error::input(format!(
            "{}: there is no such file, but {by} names the folder {}, which has to hold {CONTENTS}; with no folder named, the table is \
                 left out",
            missing.display(),
            folder.display()
        )));
    }
    Ok(Some([trees, order]))
}

impl Launches {
    /// On the trees of [`data`], if there are any.
    pub fn of(folder: Option<&Path>) -> Result<Option<Launches>> {
        let Some([trees, order]) = data(folder)? else {
            return Ok(None);
        };
        let samples = Samples::read(&trees, true)?;
        let order = samples.read_order(&order)?;
        let cells = Counter::new(&samples).count(&order, BATCH);
        let kernels = KernelCounts::of(&samples, &order, BATCH);
        Ok(Some(Launches { cells, kernels }))
    }

    /// The paper's table with a row of ours.
    pub fn table(&self) -> String {
        let row = |name: &str, kernels: [u64; 2], cells: [u64; 2]| {
            let counts = |[none, batched]: [u64; 2]| {
                [
                    none.to_string(),
                    batched.to_string(),
                    format!("{:.0}x", none as f64 / batched as f64),
                ]
            };
            [
                vec![name.to_string()],
                counts(kernels).to_vec(),
                counts(cells).to_vec(),
            ]
            .concat()
        };
        let Launches { cells, kernels } = self;
        aligned(&[
            [
                "",
                "kernels",
                "batched",
                "ratio",
                "subgraphs",
                "batched",
                "ratio",
            ]
            .map(String::from)
            .to_vec(),
            row("paper", paper_kernels(), paper_cells()),
            row(
                "ours",
                [kernels.unbatched, kernels.batched],
                [cells.unbatched, cells.batched],
            ),
            row(
                "ours, by type",
                [kernels.unbatched, kernels.by_type],
                [cells.unbatched, cells.batched],
            ),
        ]) + "The paper's ratio of kernels is 1930x, which implies 2,600 batched launches, not about 2,650.\n"
    }
}

/// Why there is no result of an exhibit.
pub fn not_at_hand(exhibit: &Exhibit) -> String {
    let (what, name) = if exhibit.made == Made::Measurement {
        ("measured", "measurement")
    } else {
        ("counted", "trees")
    };
    format!("not {what}: {}\n", Paper::Jit.contents().missing[name])
}

/// What a policy's run of Table 2 took for 256 samples (pairs of trees): the values of [`COSTS`], in ms or by their number.
type Cost = (String, [f64; 5]);

/// Columns of host.json. The host does the analysis, the processor the execution with its copies.
const COSTS: [&str; 5] = ["scheduler_s", "busy_s", "launches", "copies", "copying_s"];

/// Without the way of a task to the worker's thread, which takes longer where the machine has other work.
fn milliseconds([analysis, execution, ..]: &[f64; 5]) -> f64 {
    analysis + execution
}

/// Fails if the run's host.json cannot be read.
fn costs(report: &RunReport) -> Result<Vec<Cost>> {
    let host = read_json(&report.folder.path.join("host.json"))?;
    let runs = report
        .rows
        .iter()
        .zip(host["runs"].as_array().into_iter().flatten());
    let cost = |(row, host): (&SummaryRow, &Value)| {
        let batches = row.runs[0].completed as f64 / TREES_OF_BATCH;
        let of =
            |key: &str| if key.ends_with("_s") { 1e3 } else { 1.0 } * host[key].as_f64().unwrap_or(f64::NAN) / batches;
        (row.policy.clone(), COSTS.map(of))
    };
    Ok(runs.map(cost).collect())
}

/// A row for each policy.
pub fn measured(report: &RunReport) -> Result<String> {
    Ok(tabulate(
        &costs(report)?,
        &[
            ("for 256 samples", &|(policy, _)| policy.clone()),
            ("samples/s", &|(_, cost)| {
                format!("{:.0}", 256e3 / milliseconds(cost))
            }),
            ("analysis ms", &|(_, [analysis, ..])| {
                format!("{analysis:.2}")
            }),
            ("execution ms", &|(_, [_, execution, ..])| {
                format!("{execution:.2}")
            }),
            ("launches", &|(_, [.., launches, _, _])| {
                format!("{launches:.0}")
            }),
            ("copies", &|(_, [.., copies, _])| format!("{copies:.0}")),
            ("copying ms", &|(_, [.., copying])| format!("{copying:.2}")),
        ],
    ))
}
