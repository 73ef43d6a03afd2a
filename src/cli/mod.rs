//! The command line: a file for each command.
//!
//! Results go to standard output and to files, messages to standard error. Exit codes: 0 success, 1 failure, 2 a
//! mistake of the user, 3 points that other shards have to compute. A program with policies of its own calls [`main`] with
//! its registry and has all commands.

pub mod compare;
pub mod explain;
pub mod export;
pub mod grnn;
pub mod import;
pub mod jit;
pub mod knee;
pub mod list;
pub mod network;
pub mod parts;
pub mod plot;
pub mod profile;
pub mod render;
pub mod replay;
pub mod report;
pub mod reproduce;
pub mod scenarios;
pub mod shell;
pub mod sim;
pub mod trace;
pub mod tune;
pub mod validate;
mod value_enums;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use self::render::{Shown, say};
use crate::base::error::{Error, Result};
use crate::base::files::folder_name;
use crate::base::shipped::{self, Shipped};
use crate::core::cost::table::CostTable;
use crate::core::policy::registry::Registry;
use crate::lab::run::executor::Executors;
use crate::lab::scenario::Scenario;

const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("BATCHLAB_SHORT_COMMIT"),
    ")"
);

const EXIT_CODES: &str = "Exit codes: 0 success; 1 failure; 2 a mistake in the call or its files, or a folder that another \
    run writes to; 3 points are missing (--merge-only)";

/// The laboratory for batching policies in DNN inference serving.
#[derive(Parser, Debug)]
#[command(name = "batchlab", version = VERSION, about, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// One line for each command: its name, its options, and what runs it, given the options, the registry and the executors.
macro_rules! commands {
    ($($(#[$attribute:meta])* $name:ident($options:ty) $run:expr;)*) => {
        #[derive(Subcommand, Debug)]
        enum Command { $($(#[$attribute])* $name($options)),* }

        impl Command {
            fn run(&self, registry: &Registry, executors: &Executors) -> Result<()> {
                match self { $(Command::$name(options) => ($run)(options, registry, executors)),* }
            }
        }
    };
}

commands! {
    Sim(sim::SimArgs) sim::sim;
    Real(sim::RealArgs) sim::real;
    FindKnee(knee::KneeArgs) |args, registry, _| knee::find_knee(args, registry);
    FindWorkers(knee::WorkersArgs) |args, registry, _| knee::find_workers(args, registry);
    FindWindow(tune::WindowArgs) |args, registry, _| tune::find_window(args, registry);
    Tune(tune::Args) |args, registry, _| tune::run(args, registry);
    Plot(Box<plot::Args>) |args, _, _| plot::run(args);
    Compare(compare::Args) |args, _, _| compare::run(args);
    Report(report::Args) |args, _, _| report::run(args);
    Export(export::Args) |args, _, _| export::run(args);
    Profile(profile::Args) profile::run;
    /// Make, describe, import and convert traces
    #[command(subcommand)]
    Trace(trace::Command) |command, _, _| trace::run(command);
    Import(import::Args) |args, _, _| import::run(args);
    Reproduce(reproduce::Args) |args, registry, _| reproduce::run(args, registry);
    Replay(replay::Args) |args, registry, _| replay::run(args, registry);
    Explain(explain::Args) explain::run;
    Validate(validate::Args) validate::run;
    /// Count the launches of JIT dynamic batching
    #[command(subcommand)]
    Jit(jit::Command) |command, _, _| jit::run(command);
    /// Find the fastest mapping of persistent kernels for recurrent networks
    #[command(subcommand)]
    Grnn(grnn::Command) |command, _, _| grnn::run(command);
    Network(network::Args) |args, _, _| network::run(args);
    Scenarios(scenarios::Args) |args, registry, _| scenarios::run(args, registry);
    Policies(list::PoliciesArgs) |args, registry, _| list::policies(args, registry);
    /// List the GPUs of this host and the CUDA libraries
    ///
    /// Exits with 1 if the backend cuda lacks a GPU or a library, so that scripts can ask.
    Devices(Shown) |shown: &Shown, _, _| list::devices(*shown);
    Init(shell::InitArgs) |args, _, _| shell::init(args);
    Schema(shell::SchemaArgs) |args, registry, _| shell::schema(args, registry);
    Completions(shell::CompletionsArgs) |args, _, executors| shell::completions(args, command(executors));
    Man(shell::ManArgs) |args, _, executors| shell::man(args, command(executors));
}

/// Runs the command line with a registry's policies.
pub fn main(registry: &Registry) -> ExitCode {
    main_with(registry, &Executors::standard())
}

/// As [`main`], on these executors and simulators.
pub fn main_with(registry: &Registry, executors: &Executors) -> ExitCode {
    let parsed = Cli::from_arg_matches(&command(executors).get_matches())
        .unwrap_or_else(|error| error.exit());
    match parsed.command.run(registry, executors) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("batchlab: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

/// With the registered backends.
fn command(executors: &Executors) -> clap::Command {
    let simulators = executors
        .simulators
        .iter()
        .map(|one| PossibleValue::new(one.name()).help(one.about()));
    let computing = executors
        .executors
        .iter()
        .map(|one| PossibleValue::new(one.name()).help(one.about()));
    let (simulators, computing) = (
        PossibleValuesParser::new(simulators),
        PossibleValuesParser::new(computing),
    );
    let mut command = Cli::command();
    for name in ["sim", "real", "profile", "validate"] {
        let parser = if name == "sim" {
            simulators.clone()
        } else {
            computing.clone()
        };
        command = command.mut_subcommand(name, |command| {
            command.mut_arg("backend", |arg| arg.value_parser(parser))
        });
    }
    negative_numbers_are_values(command)
}

/// So that `--seed -1` is answered with what a seed is.
fn negative_numbers_are_values(command: clap::Command) -> clap::Command {
    let number = |arg: clap::Arg| {
        let takes_values = arg.get_action().takes_values();
        arg.allow_negative_numbers(takes_values)
    };
    command
        .mut_args(number)
        .mut_subcommands(negative_numbers_are_values)
}

/// Options of every command that runs scenarios.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Override a key of the scenario (repeatable), such as device.workers=2 or policy.BatchMaker.max_batch=64
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,

    /// Seed of every random choice, instead of the scenario's
    #[arg(long, value_parser = seed)]
    pub seed: Option<u64>,

    /// Threads for simulated runs and for verifying real ones; results do not depend on it [default: one per core]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    /// Folder for the results [default: results/ and the name of the backend]
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Print only results and errors, without progress and notes
    #[arg(long, short)]
    pub quiet: bool,

    #[command(flatten)]
    pub shown: Shown,
}

/// Of commands that run sweeps.
#[derive(Args, Clone, Debug)]
pub struct Sweeps {
    /// Run each of several values of a key (repeatable, for all combinations), such as device.workers=1,2,4; a policy's key
    /// multiplies that policy only
    #[arg(long = "sweep", value_name = "KEY=V1,V2,…")]
    pub sweeps: Vec<String>,
}

impl Common {
    pub fn scenario(&self, path: &Path, registry: &Registry) -> Result<Scenario> {
        let scenario = self.scenario_with(path, &[], registry)?;
        note_built_in(files_of(std::slice::from_ref(&scenario)), self.quiet);
        Ok(scenario)
    }

    /// With the user's overrides, then `more`; without a note on built-in files.
    pub fn scenario_with(
        &self,
        path: &Path,
        more: &[String],
        registry: &Registry,
    ) -> Result<Scenario> {
        let path = Shipped::Scenario.find(path)?;
        let mut scenario = Scenario::load(&path, &[&self.overrides, more].concat(), registry)?;
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        Ok(scenario)
    }

    /// For each file, the scenarios of its sweep and of `sweeps`.
    pub fn sweeps(
        &self,
        paths: &[PathBuf],
        sweeps: &[String],
        registry: &Registry,
    ) -> Result<Vec<Vec<Scenario>>> {
        let expand = |path: &PathBuf| self.sweep(path, sweeps, registry);
        let scenarios = paths.iter().map(expand).collect::<Result<Vec<_>>>()?;
        named_apart(scenarios.iter().map(|scenarios| &scenarios[0]))?;
        Ok(scenarios)
    }

    /// The scenarios of a file's sweep and of `sweeps`; a single one if there is none.
    pub fn sweep(
        &self,
        path: &Path,
        sweeps: &[String],
        registry: &Registry,
    ) -> Result<Vec<Scenario>> {
        let path = Shipped::Scenario.find(path)?;
        let mut scenarios = Scenario::expand(&path, &self.overrides, sweeps, registry)?;
        note_built_in(files_of(&scenarios), self.quiet);
        for scenario in &mut scenarios {
            if self.seed.is_some()
                && scenario.policies[0]
                    .swept
                    .iter()
                    .any(|(key, _)| key == "seed")
            {
                return Err(Error::at(
                    &path,
                    "--seed: the seed is swept; leave one of the two out",
                ));
            }
            scenario.seed = self.seed.unwrap_or(scenario.seed);
        }
        Ok(scenarios)
    }

    pub fn out(&self, backend: &str) -> PathBuf {
        self.out
            .clone()
            .unwrap_or_else(|| PathBuf::from("results").join(backend))
    }

    /// On as many threads as the user wants.
    pub fn on_threads<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let threads = self.threads.map_or(0, usize::from);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.map_err(|cause| Error::failed(format!("threads can't be started: {cause}")))?
            .install(work)
    }

    /// As [`Common::on_threads`], until Ctrl-C sets the flag. The work tells of each run that is done.
    pub fn carry_out<T: Send>(
        &self,
        runs: usize,
        name: &str,
        work: impl FnOnce(&AtomicBool, &(dyn Fn() + Sync)) -> Result<T> + Send,
    ) -> Result<T> {
        let (stop, bar) = (stop_on_ctrl_c()?, progress(self.quiet, runs, "runs", name));
        let done = self.on_threads(|| work(stop, &|| bar.inc(1)))?;
        bar.finish_and_clear();
        Ok(done)
    }

    pub fn note(&self, text: impl std::fmt::Display) {
        if !self.quiet {
            say(text);
        }
    }

    pub fn note_falling(&self, costs: &Path) {
        let falling = CostTable::read(costs).map_or_else(|_| Vec::new(), |table| table.falling());
        falling
            .iter()
            .for_each(|note| self.note(format!("{note}; check the table")));
    }
}

/// Each scenario's own file, and those that it names.
fn files_of(scenarios: &[Scenario]) -> impl Iterator<Item = &Path> {
    scenarios.iter().flat_map(|one| {
        one.inputs()
            .map(|(_, path)| path)
            .chain([one.file.as_path()])
    })
}

/// A file on disk, or a built-in one, by its path or name.
fn find(kind: Shipped, given: &Path, quiet: bool) -> Result<PathBuf> {
    let path = kind.find(given)?;
    note_built_in(std::iter::once(path.as_path()), quiet);
    Ok(path)
}

fn note_built_in<'p>(files: impl Iterator<Item = &'p Path>, quiet: bool) {
    let plain =
        |path: &Path| shipped::within_repository(path).map(|path| path.display().to_string());
    let used: BTreeSet<String> = files
        .filter(|path| shipped::is_built_in(path))
        .filter_map(plain)
        .collect();
    if !quiet && !used.is_empty() {
        say(format_args!(
            "built-in files: {}",
            used.into_iter().collect::<Vec<_>>().join(", ")
        ));
    }
}

/// Scenarios with equal names would overwrite each other's results.
fn named_apart<'s>(scenarios: impl Iterator<Item = &'s Scenario>) -> Result<()> {
    let mut seen = BTreeMap::new();
    for scenario in scenarios {
        // Some file systems ignore case.
        if let Some(other) = seen.insert(folder_name(&scenario.name).to_lowercase(), &scenario.file)
        {
            let (name, other) = (&scenario.name, other.display());
            let why = format!(
                "\"{name}\" is also the name in {other}; each scenario of one call needs a folder of its own"
            );
            return Err(Error::at(&scenario.file, format_args!("name: {why}")));
        }
    }
    Ok(())
}

/// On standard error; hidden if that is not a terminal or the user wants quiet.
fn progress(quiet: bool, steps: usize, unit: &str, name: &str) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(&format!(
        "{{msg}} [{{bar:30}}] {{pos}}/{{len}} {unit}, {{eta}} left"
    ))
    .expect("the template is well-formed")
    .progress_chars("=> ");
    ProgressBar::new(steps as u64)
        .with_style(style)
        .with_message(name.to_string())
}

/// Ctrl-C or a request to terminate sets the flag, which stops experiments; a second one exits at once.
pub fn stop_on_ctrl_c() -> Result<&'static AtomicBool> {
    static STOP: AtomicBool = AtomicBool::new(false);
    let handler = || {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    match ctrlc::set_handler(handler) {
        Ok(()) | Err(ctrlc::Error::MultipleHandlers) => Ok(&STOP),
        Err(cause) => Err(Error::failed(format!("Ctrl-C can't be caught: {cause}"))),
    }
}

pub fn seed(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("must be a whole number from 0 to {}", u64::MAX))
}

/// Parses a number within bounds.
pub fn number_in(allowed: RangeInclusive<f64>) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| allowed.contains(number));
        number.ok_or_else(|| {
            format!(
                "\"{text}\" is not a number from {} to {}",
                allowed.start(),
                allowed.end()
            )
        })
    }
}
