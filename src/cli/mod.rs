//! The command line: a file for each command.
//!
//! Results go to standard output and to files, messages to standard error. Exit codes: 0 success, 1 failure, 2 a
//! mistake of the user, 3 points that other shards have to compute, 4 a measurement that is not good enough. A program
//! with policies of its own calls [`main`] with its registry and has all commands.

mod answers;
pub mod compare;
pub mod explain;
pub mod export;
pub mod find;
pub mod grnn;
pub mod import;
pub mod jit;
pub mod list;
pub mod network;
pub mod parts;
pub mod plot;
pub mod profile;
mod removed;
pub mod render;
pub mod replay;
pub mod report;
pub mod reproduce;
pub mod scenarios;
mod session;
pub mod shell;
pub mod sim;
pub mod trace;
pub mod tune;
pub mod validate;
mod value_enums;
mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use self::removed::refuse_removed;
use self::render::{Shown, say};
pub use self::session::{Caller, CommandAnswer, OnThread, start_threads};
use crate::base::error::{Error, Result};
use crate::base::files::folder_name;
use crate::base::memory::{self, binary_size};
use crate::base::shipped::{self, Shipped};
use crate::core::policy::registry::Registry;
use crate::lab::run::executor::Executors;
use crate::lab::run::memory::MemoryAtOnce;
use crate::lab::scenario::{Scenario, SweepOptions};
use crate::lab::usability::Usability;

const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("BATCHLAB_SHORT_COMMIT"),
    ")"
);

const EXIT_CODES: &str = "Exit codes: 0 success; 1 failure; 2 a mistake in the call or its files, or a folder that another \
    run writes to; 3 points are missing (--merge-only); 4 a measurement is not good enough (--strict)";

/// The laboratory for batching policies in DNN inference serving.
#[derive(Parser, Debug)]
#[command(name = "batchlab", version = VERSION, about, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: BatchlabCommand,
}

/// Declares a command by a line: its name, its options, and the function that runs it with the options, the registry
/// and the executors.
macro_rules! commands {
    ($($(#[$attribute:meta])* $name:ident($options:ty) $run:expr;)*) => {
        #[derive(Subcommand, Debug)]
        enum BatchlabCommand { $($(#[$attribute])* $name($options)),* }

        impl BatchlabCommand {
            fn run(&self, registry: &Registry, executors: &Executors) -> Result<()> {
                match self { $(BatchlabCommand::$name(options) => ($run)(options, registry, executors)),* }
            }
        }
    };
}

commands! {
    Sim(sim::SimArgs) sim::sim;
    Real(sim::RealArgs) sim::real;
    FindKnee(find::KneeArgs) |args, registry, _| find::find_knee(args, registry);
    FindWorkers(find::WorkersArgs) |args, registry, _| find::find_workers(args, registry);
    Tune(tune::Args) |args, registry, _| tune::run(args, registry);
    Plot(Box<plot::Args>) |args, _, _| plot::run(args);
    Compare(compare::Args) |args, _, _| compare::run(args);
    Report(report::Args) |args, _, _| report::run(args);
    Export(export::Args) |args, _, _| export::run(args);
    Profile(profile::Args) profile::run;
    /// Make, describe, import and convert traces
    #[command(subcommand)]
    Trace(trace::TraceCommand) |command, _, _| trace::run(command);
    Import(import::Args) |args, _, _| import::run(args);
    Reproduce(reproduce::Args) |args, registry, _| reproduce::run(args, registry);
    Verify(verify::Args) verify::run;
    Replay(replay::Args) |args, registry, _| replay::run(args, registry);
    Explain(explain::Args) explain::run;
    Validate(validate::Args) validate::run;
    /// Count the launches of JIT dynamic batching
    #[command(subcommand)]
    Jit(jit::JitCommand) |command, _, _| jit::run(command);
    /// Find the fastest mapping of persistent kernels for recurrent networks
    #[command(subcommand)]
    Grnn(grnn::GrnnCommand) |command, _, _| grnn::run(command);
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

/// Runs the command line as [`main`] does, with these executors and simulators.
pub fn main_with(registry: &Registry, executors: &Executors) -> ExitCode {
    ExitCode::from(main_from(std::env::args_os(), registry, executors))
}

/// Runs the command line with these arguments, of which the first is the program's name. Returns the exit code and
/// leaves the process to its owner.
pub fn main_from(
    args: impl IntoIterator<Item = OsString>,
    registry: &Registry,
    executors: &Executors,
) -> u8 {
    let outcome = match parse(args, executors) {
        Ok(command) => command.run(registry, executors),
        Err(error) => match refuse_removed(&error) {
            Some(refused) => Err(refused),
            None => {
                let text = error.to_string();
                let plain = plain_words(&text);
                if plain == text {
                    let _ = error.print();
                } else {
                    say(plain.trim_end());
                }
                return error.exit_code() as u8;
            }
        },
    };
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            say(format_args!("batchlab: {error}"));
            error.exit_code()
        }
    }
}

/// Runs a command as [`main_from`] does, without a terminal: nothing is printed, and the process gets no handler of
/// Ctrl-C.
pub fn call(
    args: impl IntoIterator<Item = OsString>,
    registry: &Registry,
    executors: &Executors,
    caller: &Caller,
) -> (CommandAnswer, Result<()>) {
    session::answer(caller, || match parse(args, executors) {
        Ok(command) => command.run(registry, executors),
        Err(error) => Err(refuse_removed(&error).unwrap_or_else(|| refuse_option(&error))),
    })
}

/// The parser's message, with what numbers are instead of the standard library's words.
fn plain_words(message: &str) -> String {
    let mut plain = message.to_string();
    for (words, instead) in [
        (
            "invalid digit found in string",
            "not a whole number; write digits only",
        ),
        (
            "cannot parse integer from empty string",
            "a whole number is missing",
        ),
        (
            "number too large to fit in target type",
            "the number is too large",
        ),
        (
            "number too small to fit in target type",
            "the number is too small",
        ),
        ("invalid float literal", "not a number"),
        (
            "cannot parse float from empty string",
            "a number is missing",
        ),
    ] {
        plain = plain.replace(words, instead);
    }
    plain
}

/// The first paragraph of a mistake in the arguments, and the hints. A caller that is a program has no `--help`.
fn refuse_option(error: &clap::Error) -> Error {
    let text = plain_words(&error.to_string());
    let is_shown = |line: &&str| !line.starts_with("Usage") && !line.starts_with("For more info");
    let lines = text.lines().take_while(is_shown);
    let parts: Vec<&str> = lines
        .map(|line| line.trim().trim_start_matches("error: "))
        .filter(|line| !line.is_empty())
        .collect();
    Error::input(parts.join("; "))
}

fn parse(
    args: impl IntoIterator<Item = OsString>,
    executors: &Executors,
) -> Result<BatchlabCommand, clap::Error> {
    let matches = command(executors).try_get_matches_from(args)?;
    Ok(Cli::from_arg_matches(&matches)?.command)
}

/// The commands, whose options list the registered backends.
fn command(executors: &Executors) -> clap::Command {
    let mut simulated = Vec::new();
    for simulator in &executors.simulators {
        simulated.push(PossibleValue::new(simulator.name()).help(simulator.about()));
    }
    let mut real = Vec::new();
    for executor in &executors.executors {
        real.push(PossibleValue::new(executor.name()).help(executor.about()));
    }
    let mut command = Cli::command();
    for (name, backends) in [
        ("sim", &simulated),
        ("real", &real),
        ("profile", &real),
        ("validate", &real),
    ] {
        let parser = PossibleValuesParser::new(backends.clone());
        command = command.mut_subcommand(name, |command| {
            command.mut_arg("backend", |arg| arg.value_parser(parser))
        });
    }
    negative_numbers_are_values(command)
}

/// Lets options take negative numbers, so that the error of `--seed -1` says what a seed is.
fn negative_numbers_are_values(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| {
            let takes_values = arg.get_action().takes_values();
            arg.allow_negative_numbers(takes_values)
        })
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

/// The option of commands that run sweeps.
#[derive(Args, Clone, Debug)]
pub struct Sweeps {
    /// Run each of several values of a key (repeatable, for all combinations), such as device.workers=1,2,4; a policy's
    /// key multiplies that policy only
    #[arg(long = "sweep", value_name = "KEY=V1,V2,…")]
    pub sweeps: Vec<String>,
}

impl Common {
    pub fn scenario(&self, path: &Path, registry: &Registry) -> Result<Scenario> {
        let scenario = self.scenario_with(path, &[], registry)?;
        note_built_in(files_of(std::slice::from_ref(&scenario)), self.quiet);
        Ok(scenario)
    }

    /// Reads a scenario with the user's overrides, then `more`, and prints no note on built-in files.
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

    /// Reads each file as the scenarios of its sweep and of `sweeps`.
    pub fn sweeps(
        &self,
        paths: &[PathBuf],
        sweeps: &[String],
        registry: &Registry,
    ) -> Result<Vec<Vec<Scenario>>> {
        let mut scenarios = Vec::new();
        for path in paths {
            scenarios.push(self.sweep(path, sweeps, registry)?);
        }
        refuse_equal_names(scenarios.iter().map(|scenarios| &scenarios[0]))?;
        Ok(scenarios)
    }

    /// Reads a file as the scenarios of its sweep and of `sweeps`; a single one if there is none.
    pub fn sweep(
        &self,
        path: &Path,
        sweeps: &[String],
        registry: &Registry,
    ) -> Result<Vec<Scenario>> {
        self.sweep_options(path, SweepOptions::new(sweeps), registry)
    }

    /// Reads a file as [`Common::sweep`] does, with the values of another option.
    fn sweep_options(
        &self,
        path: &Path,
        sweeps: SweepOptions<'_>,
        registry: &Registry,
    ) -> Result<Vec<Scenario>> {
        let path = Shipped::Scenario.find(path)?;
        let mut scenarios = Scenario::expand_options(&path, &self.overrides, sweeps, registry)?;
        note_built_in(files_of(&scenarios), self.quiet);
        for scenario in &mut scenarios {
            let mut swept = scenario.policies[0].swept.iter();
            if self.seed.is_some() && swept.any(|(key, _)| key == "seed") {
                return Err(Error::mistake(
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

    /// Does the work on the number of threads that the user wants.
    pub fn run_on_threads<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        session::caller_threads(self.threads.map_or(0, usize::from))?.install(work)
    }

    /// Does the work as [`Common::run_on_threads`] does, with a bar for this number of runs. Ctrl-C sets the flag that
    /// `work` is given; `work` calls its other argument after every run.
    pub fn run_with_progress<T: Send>(
        &self,
        runs: usize,
        name: &str,
        work: impl FnOnce(&AtomicBool, &(dyn Fn() + Sync)) -> Result<T> + Send,
    ) -> Result<T> {
        let stop = stop_on_ctrl_c()?;
        let bar = progress(self.quiet, runs, "runs", name);
        let done = self.run_on_threads(|| work(stop, &|| bar.inc(1)))?;
        bar.finish_and_clear();
        Ok(done)
    }

    /// The number of threads that simulated runs have.
    pub fn count_threads(&self) -> Result<usize> {
        self.run_on_threads(|| Ok(rayon::current_num_threads()))
    }

    /// Notes how much memory runs need.
    pub fn note_memory(&self, memory: &MemoryAtOnce) {
        if memory.all == 0 {
            self.note("memory: little, since streams keep no requests");
            return;
        }
        let largest = binary_size(memory.largest);
        let all = binary_size(memory.all);
        let runs = memory.runs;
        let free = memory::free().map_or("unknown".into(), binary_size);
        self.note(format!(
            "memory: about {largest} for the largest run, {all} for {runs} at once; free: {free}"
        ));
    }

    pub fn note(&self, text: impl std::fmt::Display) {
        if !self.quiet {
            say(text);
        }
    }
}

/// Ends a command that measures or compares: with a sentence on whether the results can be used or, if the user is strict
/// and they can't, with an error.
fn conclude(usability: &Usability, strict: bool, quiet: bool) -> Result<()> {
    if strict {
        usability.require()?;
    }
    if !quiet {
        say(usability.sentence());
    }
    Ok(())
}

/// The file of each scenario, and the files that it names.
fn files_of(scenarios: &[Scenario]) -> impl Iterator<Item = &Path> {
    scenarios.iter().flat_map(|scenario| {
        let inputs = scenario.inputs().map(|(_, path)| path);
        inputs.chain([scenario.file.as_path()])
    })
}

/// Finds a file on disk, or a built-in one, by its path or name.
fn find(kind: Shipped, given: &Path, quiet: bool) -> Result<PathBuf> {
    let path = kind.find(given)?;
    note_built_in(std::iter::once(path.as_path()), quiet);
    Ok(path)
}

fn note_built_in<'p>(files: impl Iterator<Item = &'p Path>, quiet: bool) {
    let mut used = BTreeSet::new();
    for path in files.filter(|path| shipped::is_built_in(path)) {
        if let Some(path) = shipped::within_repository(path) {
            used.insert(path.display().to_string());
        }
    }
    if !quiet && !used.is_empty() {
        let used: Vec<String> = used.into_iter().collect();
        say(format_args!("built-in files: {}", used.join(", ")));
    }
}

/// Refuses scenarios with equal names, which would overwrite each other's results.
fn refuse_equal_names<'s>(scenarios: impl Iterator<Item = &'s Scenario>) -> Result<()> {
    let mut seen = BTreeMap::new();
    for scenario in scenarios {
        // Some file systems ignore case.
        let folder = folder_name(&scenario.name).to_lowercase();
        if let Some(other) = seen.insert(folder, &scenario.file) {
            let name = &scenario.name;
            let other = other.display();
            return Err(Error::mistake(
                &scenario.file,
                format_args!(
                    "name: \"{name}\" is also the name in {other}; each scenario of one call needs a folder of its own"
                ),
            ));
        }
    }
    Ok(())
}

/// A bar on standard error; hidden if that is not a terminal or the user wants quiet.
fn progress(quiet: bool, steps: usize, unit: &str, name: &str) -> ProgressBar {
    if let Some(bar) = session::caller_bar(steps) {
        return bar;
    }
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

/// The flag that Ctrl-C or a request to terminate sets, which stops runs. A second one ends the program at once. A
/// program that calls the command has a flag of its own.
pub fn stop_on_ctrl_c() -> Result<&'static AtomicBool> {
    if let Some(stop) = session::caller_stop() {
        return Ok(stop);
    }
    static STOP: AtomicBool = AtomicBool::new(false);
    let handled = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
    match handled {
        Ok(()) | Err(ctrlc::Error::MultipleHandlers) => Ok(&STOP),
        Err(cause) => Err(Error::failure(format!("Ctrl-C can't be caught: {cause}"))),
    }
}

pub fn seed(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("must be a whole number from 0 to {}", u64::MAX))
}

/// A parser of numbers within bounds.
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
