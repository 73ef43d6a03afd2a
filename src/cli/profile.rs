//! `batchlab profile`: measured cost tables.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::ArgGroup;
use indicatif::{ProgressBar, ProgressStyle};

use super::real::Backend;
use super::{print, stop_on_ctrl_c};
use crate::backend;
use crate::backend::cpu::Cpu;
use crate::error::{Error, Result};
use crate::experiment::device;
use crate::experiment::prepared::Prepared;
use crate::experiment::target::{Target, Verify};
use crate::files::write_whole;
use crate::network::{Network, Spec};
use crate::policy::registry::Registry;
use crate::profile::{self, BATCHES, Settings, Subject};
use crate::scenario::Scenario;
use crate::workload::model::Model;
use crate::workload::shape::Shape;
use crate::workload::trace::Requests;

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

    /// Batch sizes, with commas between them [default: 30 from 1 to 512]
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub batches: Vec<u32>,

    /// How often each batch size has its turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
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

/// A network and what to measure of it.
struct Wanted {
    model: Model,
    spec: Spec,
    cells: Vec<String>,
    inputs: Vec<u32>,
    trees: Vec<Shape>,
    /// Where its requests are from, for the header.
    requests: String,
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
    let stop = stop_on_ctrl_c()?;

    let mut subjects = Vec::new();
    for one in &wanted {
        let network = Arc::new(Network::new(&one.model, &one.spec)?);
        let start = move |requests: &Requests| -> Result<Box<dyn backend::Backend>> {
            Ok(Box::new(Cpu::new(Arc::clone(&network), requests, workers)?))
        };
        subjects.push(Subject {
            model: one.model.clone(),
            cells: one.cells.clone(),
            inputs: one.inputs.clone(),
            trees: one.trees.clone(),
            start: Box::new(start),
        });
    }
    let bar = progress(args.quiet, subjects.iter().map(|subject| profile::steps(subject, &settings)).sum());
    let sized = wanted.iter().any(|one| !one.inputs.is_empty());
    let (mut notes, mut rows, mut tables) =
        (preamble(&settings, Target::Cpu(Verify::None)), String::new(), String::new());
    for (place, (subject, one)) in subjects.iter().zip(&wanted).enumerate() {
        let found = profile::measure(subject, &settings, stop, &|| bar.inc(1))?;
        notes.push(described(one));
        notes.extend(profile::about(&found));
        rows.push_str(&profile::rows(&found, place == 0, sized));
        tables.push_str(&profile::loo_table(&found));
    }
    bar.finish_and_clear();
    if subjects.len() > 1 {
        notes.push(format!("task, gather and launch: those of {}", wanted[0].model.name()));
    }
    let mut table = String::new();
    for note in &notes {
        writeln!(table, "# {note}").expect("a string takes all");
    }
    table.push_str(profile::header(sized));
    table.push_str(&rows);
    match &args.output {
        Some(path) => write_whole(path, |out| out.write_all(table.as_bytes()))?,
        None => print(&table)?,
    }
    if !args.quiet {
        eprint!("{tables}");
        notes.iter().for_each(|note| eprintln!("{note}"));
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
        return Ok((vec![of_scenario(&scenario, &args.inputs)?], scenario.device.workers));
    }
    let plain = |model: Model, hidden: u32, cells: Vec<String>| {
        let spec = Spec {
            hidden,
            embedding: args.embedding.unwrap_or(hidden),
            vocabulary: args.vocabulary,
            seed: args.seed,
            weights: None,
        };
        let (trees, requests) = if model.takes_trees() {
            (vec![complete_tree(LEAVES)], format!("complete binary trees of {LEAVES} leaves"))
        } else {
            (Vec::new(), String::new())
        };
        let inputs = if matches!(model, Model::Dnn(_)) { args.inputs.clone() } else { Vec::new() };
        Wanted { model, spec, cells, inputs, trees, requests }
    };
    let workers = usize::from(args.workers);
    if let Some(model) = &args.model {
        return Ok((vec![plain(model.clone(), args.hidden, cells_of(model))], workers));
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

/// The leaves of the trees that stand for a dataset.
const LEAVES: u32 = 32;

/// How many of a scenario's trees are taken.
const TREES: usize = 200;

fn cells_of(model: &Model) -> Vec<String> {
    model.cell_types().into_iter().map(|cell| cell.name).collect()
}

fn of_scenario(scenario: &Scenario, inputs: &[u32]) -> Result<Wanted> {
    let model = scenario.workload.model.clone();
    let mut wanted = Wanted {
        spec: device::spec(scenario),
        cells: cells_of(&model),
        inputs: Vec::new(),
        trees: Vec::new(),
        requests: String::new(),
        model,
    };
    let requests = || Prepared::new(scenario, Target::Cpu(Verify::None))?.requests(0);
    match &wanted.model {
        Model::TreeLstm | Model::ChildSumTreeLstm => {
            wanted.trees = requests()?.shapes.iter().take(TREES).cloned().collect();
            let children = mean_children(&wanted.trees);
            let count = wanted.trees.len();
            wanted.requests = format!(
                "the first {count} trees of {}, with {children:.2} children a node that has any",
                scenario.name
            );
        }
        Model::Dnn(_) if !inputs.is_empty() => wanted.inputs = inputs.to_vec(),
        Model::Dnn(_) => {
            let tokens = |shape: &Shape| if let Shape::Tokens(n) = shape { Some(*n) } else { None };
            if let Some(longest) = requests()?.shapes.iter().filter_map(tokens).max() {
                // Sizes that double up to the longest, since a smaller input is taken for the next size.
                wanted.inputs = (3..31).map(|power| 1 << power).take_while(|size| *size < longest).collect();
                wanted.inputs.push(longest);
            }
        }
        Model::Lstm | Model::Gru | Model::Seq2Seq => {}
    }
    Ok(wanted)
}

fn mean_children(trees: &[Shape]) -> f64 {
    let (mut nodes, mut parents) = (0, 0);
    for shape in trees {
        if let Shape::Tree(tree) = shape {
            let children = tree.child_counts();
            nodes += children.iter().sum::<u32>();
            parents += children.iter().filter(|count| **count > 0).count();
        }
    }
    f64::from(nodes) / parents.max(1) as f64
}

/// A binary tree whose leaves are all equally deep; their number is a power of two. Node `i` is below node `i / 2`, the root
/// is node 1.
fn complete_tree(leaves: u32) -> Shape {
    let parents: Vec<u32> = (1..2 * leaves).map(|node| node / 2).collect();
    let tree = crate::workload::shape::Tree::from_parents(&parents).expect("a node's parent has a smaller number");
    Shape::Tree(Arc::new(tree))
}

/// How the table came about. It has no date, so that the same machine gives the same header.
fn preamble(settings: &Settings, target: Target) -> Vec<String> {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let plural = |count: usize, one: &str| if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") };
    vec![
        format!("batchlab {}", command.join(" ")),
        format!(
            "batchlab {} ({}), backend {}, {}, {}, {}",
            env!("CARGO_PKG_VERSION"),
            env!("BATCHLAB_COMMIT"),
            target.name(),
            target.device(),
            std::env::consts::ARCH,
            std::env::consts::OS
        ),
        format!(
            "medians over {} with {} busy; stddev_ns is that of single tasks, from their quartiles",
            plural(settings.repeats as usize, "repeat"),
            plural(settings.workers, "worker")
        ),
    ]
}

fn described(one: &Wanted) -> String {
    let Spec { hidden, embedding, vocabulary, .. } = one.spec;
    let from = if one.requests.is_empty() { String::new() } else { format!("; {}", one.requests) };
    format!(
        "{} of {}: hidden {hidden}, embedding {embedding}, vocabulary {vocabulary}, float32{from}",
        one.cells.join(", "),
        one.model.name()
    )
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
