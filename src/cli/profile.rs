//! `batchlab profile`: measured cost tables.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::ArgGroup;
use indicatif::{ProgressBar, ProgressStyle};

use super::real::Backend;
use super::{print, stop_on_ctrl_c};
use crate::error::{Error, Result};
use crate::files::{can_write, write_whole};
use crate::network::Spec;
use crate::policy::registry::Registry;
use crate::profile::{self, BATCHES, Settings, Wanted};
use crate::scenario::Scenario;
use crate::workload::model::Model;

/// How often each batch size has its turn, unless the user says otherwise.
const REPEATS: u32 = 5;

/// Measure the cost table that `sim` reads
///
/// Runs the cells of networks on this machine at each batch size: a step, what a change of the batch's members costs, what
/// passes between tasks, and how long a decision takes to become a task.
#[derive(clap::Args, Clone, Debug)]
#[command(group = ArgGroup::new("what").required(true).multiple(false).args(["cell", "model", "scenario"]))]
pub struct Args {
    /// What computes
    #[arg(long, value_enum, default_value_t = Backend::Cpu)]
    pub backend: Backend,

    /// Cell and hidden width (repeatable), such as lstm:1024: lstm, gru, encoder, decoder, leaf, internal, or the name of a
    /// feed-forward cell
    #[arg(long, value_name = "NAME:HIDDEN", value_parser = CellOf::parse)]
    pub cell: Vec<CellOf>,

    /// All cells of a model: lstm, gru, seq2seq, tree-lstm, childsum-tree-lstm or dnn:NAME
    #[arg(long, value_parser = Model::parse)]
    pub model: Option<Model>,

    /// All cells of a scenario's model, with its widths, weights, workers and trees
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,

    /// Override a key of the scenario (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "scenario")]
    pub overrides: Vec<String>,

    /// Hidden width of --model
    #[arg(long, default_value_t = 1024, conflicts_with_all = ["cell", "scenario"])]
    pub hidden: u32,

    /// Width of the words' vectors [default: the hidden width]
    #[arg(long, conflicts_with = "scenario")]
    pub embedding: Option<u32>,

    /// Number of words
    #[arg(long, default_value_t = 30_000, conflicts_with = "scenario")]
    pub vocabulary: u32,

    /// Workers that are busy at the same time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024), conflicts_with = "scenario")]
    pub workers: u16,

    /// Sizes of the input of a feed-forward cell, in tokens, with commas between them [default: an input of fixed size]
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub inputs: Vec<u32>,

    /// Batch sizes, with commas between them [default: 53 from 1 to 512]
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub batches: Vec<u32>,

    /// How often each batch size has its turn
    #[arg(long, default_value_t = REPEATS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,

    /// Seed of the weights and words
    #[arg(long, default_value_t = 1, conflicts_with = "scenario")]
    pub seed: u64,

    /// File for the table [default: standard output]
    #[arg(short, long, value_name = "COSTS.csv")]
    pub output: Option<PathBuf>,

    /// No progress bar and no notes, only the table and errors
    #[arg(long, short)]
    pub quiet: bool,
}

impl Args {
    /// What measures all cells of a scenario with the defaults.
    pub fn of_scenario(scenario: &Path, overrides: &[String], output: &Path, quiet: bool) -> Args {
        Args {
            backend: Backend::Cpu,
            cell: Vec::new(),
            model: None,
            scenario: Some(scenario.to_path_buf()),
            overrides: overrides.to_vec(),
            hidden: 0,
            embedding: None,
            vocabulary: 0,
            workers: 1,
            inputs: Vec::new(),
            batches: Vec::new(),
            repeats: REPEATS,
            seed: 0,
            output: Some(output.to_path_buf()),
            quiet,
        }
    }
}

/// A cell with the width of its network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellOf {
    name: String,
    hidden: u32,
}

impl CellOf {
    fn parse(text: &str) -> Result<CellOf, String> {
        let form = || format!("\"{text}\" is not a cell with its hidden width, such as lstm:1024");
        let (name, hidden) = text.rsplit_once(':').filter(|(name, _)| !name.is_empty()).ok_or_else(form)?;
        Ok(CellOf { name: name.to_string(), hidden: hidden.parse().map_err(|_| form())? })
    }

    /// The model that it is a cell of. A name that both tree-LSTMs have is taken for the binary one.
    fn model(&self) -> Model {
        match self.name.as_str() {
            "lstm" => Model::Lstm,
            "gru" => Model::Gru,
            "encoder" | "decoder" => Model::Seq2Seq,
            "leaf" | "internal" => Model::TreeLstm,
            other => Model::Dnn(other.to_string()),
        }
    }
}

/// Measures and writes the table.
///
/// # Errors
/// An unknown cell or model, weights that can't be read, a file that can't be written, Ctrl-C.
pub fn run(args: &Args, registry: &Registry) -> Result<()> {
    let (wanted, workers) = wanted(args, registry)?;
    if !args.inputs.is_empty() && !wanted.iter().any(|one| matches!(one.model, Model::Dnn(_))) {
        return Err(Error::input(
            "--inputs: the time of these cells does not depend on the size of an input; only that of feed-forward cells \
             does (dnn:NAME)",
        ));
    }
    let batches: BTreeSet<u32> =
        if args.batches.is_empty() { BATCHES.into() } else { args.batches.iter().copied().collect() };
    let settings = Settings { batches: batches.into_iter().collect(), repeats: args.repeats, workers };
    args.output.as_deref().map_or(Ok(()), can_write)?;
    let stop = stop_on_ctrl_c()?;
    let bar = progress(args.quiet, wanted.iter().map(|one| one.steps(&settings)).sum());
    let command: Vec<String> = std::env::args().skip(1).collect();
    let Backend::Cpu = args.backend;
    let made = profile::on_cpu(&wanted, &settings, &format!("batchlab {}", command.join(" ")), stop, &|| bar.inc(1))?;
    bar.finish_and_clear();
    match &args.output {
        Some(path) => write_whole(path, |out| out.write_all(made.csv.as_bytes()))?,
        None => print(&made.csv)?,
    }
    if !args.quiet {
        eprint!("{}", made.shown);
        made.notes.iter().for_each(|note| eprintln!("{note}"));
        if let Some(path) = &args.output {
            eprintln!("costs in {}", path.display());
        }
    }
    Ok(())
}

/// What was asked for, and how many workers are busy.
fn wanted(args: &Args, registry: &Registry) -> Result<(Vec<Wanted>, usize)> {
    if let Some(path) = &args.scenario {
        let scenario = Scenario::load(path, &args.overrides, registry)?;
        return Ok((vec![Wanted::of_scenario(&scenario, &args.inputs)?], scenario.device.workers));
    }
    let plain = |model: Model, hidden: u32, cells: Vec<String>| {
        let spec = Spec {
            hidden,
            embedding: args.embedding.unwrap_or(hidden),
            vocabulary: args.vocabulary,
            seed: args.seed,
            weights: None,
        };
        let inputs = if matches!(model, Model::Dnn(_)) { &args.inputs[..] } else { &[] };
        Wanted::of_cells(model, spec, cells, inputs)
    };
    let workers = usize::from(args.workers);
    if let Some(model) = &args.model {
        return Ok((vec![plain(model.clone(), args.hidden, profile::cells_of(model))], workers));
    }
    let mut all: Vec<Wanted> = Vec::new();
    for cell in &args.cell {
        if all.iter().any(|other| other.cells.contains(&cell.name)) {
            return Err(Error::input(format!(
                "--cell {}:{}: a second width of \"{}\"; a table has one curve for each cell, so that each width needs a \
                 table of its own",
                cell.name, cell.hidden, cell.name
            )));
        }
        let model = cell.model();
        match all.iter_mut().find(|other| other.model == model && other.spec.hidden == cell.hidden) {
            Some(other) => other.cells.push(cell.name.clone()),
            None => all.push(plain(model, cell.hidden, vec![cell.name.clone()])),
        }
    }
    Ok((all, workers))
}

fn progress(quiet: bool, steps: usize) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("profile [{bar:30}] {pos}/{len} batches, {eta} left")
        .expect("the template is well-formed")
        .progress_chars("=> ");
    ProgressBar::new(steps as u64).with_style(style)
}
