//! `batchlab profile`.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use clap::ArgGroup;

use super::render::{put, say};
use super::{conclude, find, progress, seed, stop_on_ctrl_c};
use crate::base::error::{Context as _, Error, Result};
use crate::base::files::can_write;
use crate::base::precision::Precision;
use crate::base::shipped::Shipped;
use crate::base::step_kernels::StepKernels;
use crate::core::cost::grnn;
use crate::core::policy::registry::Registry;
use crate::core::workload::model::Model;
use crate::devices::cuda::gpu::floors::{self, Floors};
use crate::devices::network::Spec;
use crate::lab::profile::{
    self, ProfileProgress, ProfileReport, ProfileSettings, ProfileTarget, Session,
};
use crate::lab::run::executor::{Executor, Executors};
use crate::lab::run::standard::CudaExecutor;
use crate::lab::scenario::{Scenario, parse_name as known};

const REPEATS: u32 = 5;

/// The file of the recorded noise, in the folder of the table.
pub const NOISE: &str = "noise.csv";

/// Measure the cost table that `sim` reads
///
/// Runs the cells of networks on this machine at each batch size and measures the time of a step, the cost of a change
/// of the batch's members, the time between tasks, and the time from a decision to its task. Ctrl-C ends it with a
/// table of what is measured.
#[derive(clap::Args, Clone, Debug)]
#[command(group = ArgGroup::new("what").required(true).multiple(false).args(["cell", "model", "scenario", "floors"]))]
pub struct Args {
    /// The processor that computes
    #[arg(long, default_value = "cpu")]
    pub backend: String,

    /// Cell and hidden width (repeatable), such as lstm:1024: lstm, gru, encoder, decoder, leaf, internal, or the name
    /// of a feed-forward cell
    #[arg(long, value_name = "NAME:HIDDEN", value_parser = CellOf::parse)]
    pub cell: Vec<CellOf>,

    /// All cells of a model: lstm, gru, seq2seq, tree-lstm, childsum-tree-lstm or dnn:NAME
    #[arg(long, value_parser = Model::parse)]
    pub model: Option<Model>,

    /// All cells of a scenario's model, with its widths, weights, workers and trees
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,

    /// Measure the limits of the first GPU instead of a cost table: the bytes per second of a copy and
    /// of reads from the L2 cache; the size of that cache; the operations per second of a large product, in each format;
    /// the time of an empty launch
    #[arg(long)]
    pub floors: bool,

    /// Override a key of the scenario (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "scenario")]
    pub overrides: Vec<String>,

    /// Hidden width of --model
    #[arg(long, default_value_t = 1024, conflicts_with_all = ["cell", "scenario"])]
    pub hidden: u32,

    /// Width of the word embeddings [default: the hidden width]
    #[arg(long, conflicts_with = "scenario")]
    pub embedding: Option<u32>,

    /// Words in the vocabulary
    #[arg(long, default_value_t = 30_000, conflicts_with = "scenario")]
    pub vocabulary: u32,

    /// Workers that are busy at the same time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024), conflicts_with = "scenario")]
    pub workers: u16,

    /// Input sizes of a feed-forward cell, in tokens [default: one fixed size]
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub inputs: Vec<u32>,

    #[arg(long, help = format!("The format in which a GPU multiplies: {}", Precision::ALL.map(|one| one.to_string()).join(", ")),
          default_value = "f32", conflicts_with = "scenario", value_parser = known::<Precision>)]
    pub precision: Precision,

    /// Also measure persistent kernels of lstm and gru, chosen by the model of this device, by name or as a file
    /// [default: the scenario's device, if it has one]
    #[arg(long, value_name = "DEVICE", conflicts_with = "floors")]
    pub grnn: Option<String>,

    /// Batch sizes [default: those between which times are nearly straight lines, up to 512 or the largest batch of the
    /// scenario's policies; its batch_sizes if all policies have them; powers of two for a network from a file]
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub batches: Vec<u32>,

    /// Exit with code 4 if the table is not usable: times deviate by more than themselves, a launch takes a millisecond and
    /// longer than a step, or lines between the rows are off by more than 5 % at sizes that are no rows
    #[arg(long, conflicts_with = "floors")]
    pub strict: bool,

    /// Print the ends of the stairs instead of the table, as a policy's batch_sizes: a batch that is padded to the next
    /// of them takes at most a tenth longer
    #[arg(long, conflicts_with = "floors")]
    pub suggest_sizes: bool,

    /// Measurements of each batch size
    #[arg(long, default_value_t = REPEATS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,

    /// Seed of the weights and the words
    #[arg(long, default_value_t = 1, conflicts_with = "scenario", value_parser = seed)]
    pub seed: u64,

    /// File for the table, with noise.csv beside it: how the times of tasks wandered and how late they started, for
    /// `[device] noise` [default: standard output, without noise.csv]
    #[arg(short, long, value_name = "COSTS.csv", alias = "output")]
    pub out: Option<PathBuf>,

    /// Print only the table and errors, without progress and notes
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellOf {
    name: String,
    hidden: u32,
}

impl CellOf {
    fn parse(text: &str) -> Result<CellOf, String> {
        let form = || format!("\"{text}\" is not a cell with its hidden width, such as lstm:1024");
        let (name, hidden) = text
            .rsplit_once(':')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(form)?;
        Ok(CellOf {
            name: name.to_string(),
            hidden: hidden.parse().map_err(|_| form())?,
        })
    }

    /// The model of the cell. A name that both tree-LSTMs have means the binary one.
    fn model(&self) -> Model {
        let has_cell = |model: &Model| profile::cells_of(model).contains(&self.name);
        let known = [Model::Lstm, Model::Gru, Model::Seq2Seq, Model::TreeLstm]
            .into_iter()
            .find(has_cell);
        known.unwrap_or_else(|| Model::Dnn(self.name.clone()))
    }
}

pub fn run(args: &Args, registry: &Registry, executors: &Executors) -> Result<()> {
    if args.floors {
        return floors(args);
    }
    let executor = executors.executor(&args.backend)?;
    let load = |path: &PathBuf| {
        Scenario::load(
            &find(Shipped::Scenario, path, args.quiet)?,
            &args.overrides,
            registry,
        )
    };
    let scenario = args.scenario.as_ref().map(load).transpose()?;
    let (wanted, workers, precision) = match &scenario {
        Some(scenario) => (
            vec![ProfileTarget::from_scenario(scenario, &args.inputs)?],
            scenario.device.workers,
            scenario.device.precision,
        ),
        None => (
            profile_targets(args)?,
            usize::from(args.workers),
            args.precision,
        ),
    };
    let persistent = match (&args.grnn, &scenario) {
        (Some(device), _) => Some(find_data_sheet(device, &wanted, executor)?),
        (None, Some(scenario)) => persistent_of(scenario, executor)?,
        (None, None) => None,
    };
    check_inputs(&args.inputs, &wanted)?;
    let given = BTreeSet::from_iter(args.batches.iter().copied());
    let batches = if given.is_empty() {
        None
    } else {
        Some(given.into_iter().collect())
    };
    let settings = ProfileSettings {
        batches,
        repeats: args.repeats,
        seconds: f64::INFINITY,
        workers,
        executor,
        precision,
        step_kernels: scenario
            .as_ref()
            .map_or(StepKernels::Auto, |scenario| scenario.device.step_kernels),
        persistent,
    };
    let output = if args.suggest_sizes && args.out.is_none() {
        ProfileOutput::Nowhere
    } else {
        args.out
            .as_deref()
            .map_or(ProfileOutput::Printed, ProfileOutput::File)
    };
    let mut session = measure(wanted, settings, output, args.quiet)?;
    let made = write(&mut session, output, args.quiet)?;
    if args.suggest_sizes {
        let sizes: Vec<String> = made.stair_ends.iter().map(ToString::to_string).collect();
        put(None, &format!("batch_sizes = [{}]\n", sizes.join(", ")))?;
    }
    conclude(&made.usability, args.strict, args.quiet)
}

/// Where a table goes.
#[derive(Clone, Copy, Debug)]
pub enum ProfileOutput<'a> {
    /// To a file, with the record of noise beside it.
    File(&'a Path),
    /// To standard output.
    Printed,
    Nowhere,
}

/// Measures all cells of the model of a validation in about this number of seconds, and writes the table. Pieces of the
/// profile follow later.
pub fn before_runs(
    scenario: &Scenario,
    executor: &'static dyn Executor,
    repeats: u32,
    seconds: f64,
    out: &Path,
    quiet: bool,
) -> Result<Session> {
    let wanted = ProfileTarget::from_scenario(scenario, &[])?;
    let settings = ProfileSettings {
        batches: None,
        repeats,
        seconds,
        workers: scenario.device.workers,
        executor,
        precision: scenario.device.precision,
        step_kernels: scenario.device.step_kernels,
        persistent: persistent_of(scenario, executor)?,
    };
    let output = ProfileOutput::File(out);
    let mut session = measure(vec![wanted], settings, output, quiet)?;
    write(&mut session, output, true)?;
    Ok(session)
}

/// Checks `--inputs`: only feed-forward cells take tokens, and listed networks only up to a number.
fn check_inputs(inputs: &[u32], wanted: &[ProfileTarget]) -> Result<()> {
    let most = |one: &ProfileTarget| match &one.model {
        Model::Dnn(_) => u32::MAX,
        other => other
            .network()
            .and_then(|network| network.most_tokens)
            .unwrap_or(0),
    };
    if !inputs.is_empty() && wanted.iter().all(|one| most(one) == 0) {
        return Err(Error::input(
            "--inputs: the time of these cells does not depend on the size of an input; only that of feed-forward cells \
             does (dnn:NAME, and dnn:FILE.csv that takes tokens)",
        ));
    }
    for (network, most) in wanted
        .iter()
        .filter_map(|one| Some((one.model.network()?, most(one))))
    {
        if let Some(beyond) = inputs.iter().find(|tokens| **tokens > most) {
            let file = network.path.display();
            return Err(Error::input(format!(
                "--inputs: {beyond} tokens, and {file} takes up to {most}"
            )));
        }
    }
    Ok(())
}

/// The device whose model chooses persistent kernels, if the scenario has them.
pub fn persistent_of(
    scenario: &Scenario,
    executor: &dyn Executor,
) -> Result<Option<grnn::DataSheet>> {
    let read = |file: &Path| {
        require_gpu("device.grnn", executor)?;
        grnn::RecurrentCell::from_model(&scenario.workload.model)?;
        grnn::DataSheet::read(file)
    };
    scenario
        .device
        .grnn
        .as_deref()
        .map(read)
        .transpose()
        .within(scenario.file.display())
}

/// The device of `--grnn`, for these networks.
fn find_data_sheet(
    device: &str,
    wanted: &[ProfileTarget],
    executor: &dyn Executor,
) -> Result<grnn::DataSheet> {
    require_gpu("--grnn", executor)?;
    match wanted
        .iter()
        .find(|one| grnn::RecurrentCell::from_model(&one.model).is_err())
    {
        None => grnn::DataSheet::open(device).within("--grnn"),
        Some(other) => Err(Error::input(format!(
            "--grnn: persistent kernels run lstm and gru, and {} has none; leave it out, or measure that in a table of its own",
            other.model.name()
        ))),
    }
}

fn require_gpu(key: &str, executor: &dyn Executor) -> Result<()> {
    if executor.abilities().persistent_kernels {
        return Ok(());
    }
    Err(Error::input(format!(
        "{key}: persistent kernels run on GPUs, and the CPU has none; add --backend cuda, or leave {key} out"
    )))
}

fn measure(
    wanted: Vec<ProfileTarget>,
    settings: ProfileSettings,
    output: ProfileOutput<'_>,
    quiet: bool,
) -> Result<Session> {
    if let ProfileOutput::File(path) = output {
        can_write(path)?;
        if path.file_name() == Some(NOISE.as_ref()) {
            return Err(Error::input(format!(
                "--out: {NOISE} is the name of the record beside the table; choose another"
            )));
        }
    }
    let stop = stop_on_ctrl_c()?;
    let repeats = settings.repeats;
    let bar = progress(quiet, 0, "batches", "profile");
    let is_single = wanted.len() == 1;
    let planned = Cell::new(bar.elapsed());
    let done = |progress| {
        let left = match progress {
            ProfileProgress::Planned(steps) => {
                bar.inc_length(steps as u64);
                planned.set(bar.elapsed());
                None
            }
            ProfileProgress::Measured => {
                bar.inc(1);
                let length = bar.length().unwrap_or(0);
                let is_first = bar.position() == length / u64::from(repeats);
                let took = (bar.elapsed() - planned.get()).as_secs_f64();
                (is_first && is_single && repeats > 1).then(|| took * f64::from(repeats - 1))
            }
        };
        if let Some(left) = left.filter(|_| !quiet) {
            bar.suspend(|| {
                say(format_args!(
                    "one of {repeats} repeats is measured; about {left:.0} s are left"
                ))
            });
        }
    };
    let mut session = Session::new(wanted, settings)?;
    session.measure(stop, &done)?;
    bar.finish_and_clear();
    Ok(session)
}

/// Writes the table, and the noise next to it.
pub fn write(
    session: &mut Session,
    output: ProfileOutput<'_>,
    quiet: bool,
) -> Result<ProfileReport> {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let made = session.report(&format!("batchlab {}", command.join(" ")));
    let mut said = made.notes.clone();
    match output {
        ProfileOutput::Nowhere => {}
        ProfileOutput::Printed => put(None, &made.csv)?,
        ProfileOutput::File(path) => {
            put(Some(path), &made.csv)?;
            put(Some(&path.with_file_name(NOISE)), &made.noise)?;
            said.insert(0, made.shown.trim_end().into());
            said.push(format!(
                "costs in {}, noise in {NOISE} beside them",
                path.display()
            ));
        }
    }
    said.iter().filter(|_| !quiet).for_each(say);
    if made.interrupted {
        return Err(Error::failure(
            "interrupted: the table has only what was measured until then",
        ));
    }
    Ok(made)
}

fn floors(args: &Args) -> Result<()> {
    if args.backend != CudaExecutor.name() {
        return Err(Error::input(
            "--floors: only GPUs have them; add --backend cuda",
        ));
    }
    args.out.as_deref().map_or(Ok(()), can_write)?;
    let stop = stop_on_ctrl_c()?;
    let mut csv = String::from(
        "precision,bytes_per_s,operations_per_s,cache_bytes_per_s,cache_bytes,launch_ns\n",
    );
    for precision in Precision::ALL {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let Floors {
            bytes_per_second,
            operations_per_second,
            cache,
            launch,
        } = floors::measure(precision)?;
        let cache_rate = cache.bytes_per_second;
        let cache_bytes = cache.bytes;
        let launch = launch.as_nanos();
        csv.push_str(&format!(
            "{precision},{bytes_per_second:.0},{operations_per_second:.0},{cache_rate:.0},{cache_bytes},{launch}\n"
        ));
    }
    put(args.out.as_deref(), &csv)
}

fn profile_targets(args: &Args) -> Result<Vec<ProfileTarget>> {
    let plain = |model: Model, hidden: u32, cells: Vec<String>| {
        let Args {
            embedding,
            vocabulary,
            seed,
            ..
        } = *args;
        let spec = Spec {
            hidden,
            embedding: embedding.unwrap_or(hidden),
            vocabulary,
            seed,
            weights: None,
        };
        let inputs = if matches!(model, Model::Dnn(_)) {
            &args.inputs[..]
        } else {
            &[]
        };
        ProfileTarget::from_cells(model, spec, cells, inputs)
    };
    if let Some(model) = &args.model {
        let model = profile::measured_model(model);
        let cells = profile::cells_of(&model);
        return Ok(vec![plain(model, args.hidden, cells)]);
    }
    let mut all: Vec<ProfileTarget> = Vec::new();
    for cell in &args.cell {
        if all.iter().any(|other| other.cells.contains(&cell.name)) {
            return Err(Error::input(format!(
                "--cell {}:{}: a second width of \"{}\"; a table has one curve for each cell, so that each width needs a \
                 table of its own",
                cell.name, cell.hidden, cell.name
            )));
        }
        let model = cell.model();
        match all
            .iter_mut()
            .find(|other| other.model == model && other.spec.hidden == cell.hidden)
        {
            Some(other) => other.cells.push(cell.name.clone()),
            None => all.push(plain(model, cell.hidden, vec![cell.name.clone()])),
        }
    }
    Ok(all)
}
