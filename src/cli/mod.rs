//! The command line: a file for each command.
//!
//! Results go to standard output and to files, messages to standard error. Exit codes: 0 done, 1 failed, 2 a user's
//! mistake. A program that adds policies of its own calls [`main`] with its own registry and has all commands.

pub mod compare;
pub mod devices;
pub mod explain;
pub mod find_knee;
pub mod find_window;
pub mod grnn;
pub mod jit;
pub mod network;
pub mod plot;
pub mod policies;
pub mod profile;
pub mod real;
pub mod replay;
pub mod reproduce;
pub mod sim;
mod sweep;
pub mod trace;
pub mod validate;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::experiment::executor::Executors;
use crate::policy::registry::Registry;
use crate::scenario::Scenario;

/// The laboratory for batching policies in DNN inference serving.
#[derive(Parser, Debug)]
#[command(name = "batchlab", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Sim(sim::Args),
    Real(real::Args),
    FindKnee(find_knee::Args),
    FindWindow(find_window::Args),
    Plot(plot::Args),
    Compare(compare::Args),
    Profile(profile::Args),
    Trace(trace::Args),
    Reproduce(reproduce::Args),
    Replay(replay::Args),
    Explain(explain::Args),
    Validate(validate::Args),
    Jit(jit::Args),
    Grnn(grnn::Args),
    Network(network::Args),
    Policies(policies::Args),
    Devices(devices::Args),
}

/// Runs the command line with the policies of a registry.
pub fn main(registry: &Registry) -> ExitCode {
    main_with(registry, &Executors::standard())
}

/// Runs the command line with the policies of a registry, on these executors and simulators.
pub fn main_with(registry: &Registry, executors: &Executors) -> ExitCode {
    let outcome = match parse(executors).command {
        Command::Sim(args) => sim::run(&args, registry, executors),
        Command::Real(args) => real::run(&args, registry, executors),
        Command::FindKnee(args) => find_knee::run(&args, registry),
        Command::FindWindow(args) => find_window::run(&args, registry),
        Command::Plot(args) => plot::run(args),
        Command::Compare(args) => compare::run(&args),
        Command::Profile(args) => profile::run(&args, registry, executors),
        Command::Trace(args) => trace::run(&args),
        Command::Reproduce(args) => reproduce::run(&args, registry),
        Command::Replay(args) => replay::run(&args, registry),
        Command::Explain(args) => explain::run(&args, registry, executors),
        Command::Validate(args) => validate::run(&args, registry, executors),
        Command::Jit(args) => jit::run(&args),
        Command::Grnn(args) => grnn::run(&args),
        Command::Network(args) => network::run(&args),
        Command::Policies(args) => policies::run(&args, registry),
        Command::Devices(args) => devices::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("batchlab: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// The command line, with the backends that are registered.
fn parse(executors: &Executors) -> Cli {
    let simulators = executors.simulators().iter().map(|one| PossibleValue::new(one.name()).help(one.about()));
    let computing = executors.executors().iter().map(|one| PossibleValue::new(one.name()).help(one.about()));
    let (simulators, computing) = (simulators.collect::<Vec<_>>(), computing.collect::<Vec<_>>());
    let mut command = Cli::command();
    for (name, values) in
        [("sim", &simulators), ("real", &computing), ("profile", &computing), ("validate", &computing)]
    {
        let parser = PossibleValuesParser::new(values.clone());
        command = command.mut_subcommand(name, |command| command.mut_arg("backend", |arg| arg.value_parser(parser)));
    }
    Cli::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
}

/// Options of every command that runs scenarios.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Override a key of the scenario (repeatable), such as device.workers=2 or policy.BatchMaker.max_batch=64
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,

    /// Seed of every random choice, in place of the scenario's
    #[arg(long)]
    pub seed: Option<u64>,

    /// Threads over which simulated runs, and checks of real ones, are spread; the results do not depend on it [default: one
    /// for each core]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    /// Folder for the results [default: results/ and the name of the backend]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// No progress bar and no notes, only results and errors
    #[arg(long, short)]
    pub quiet: bool,

    /// How the results are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// How results are printed.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For a reader
    Table,
    /// For a program
    Json,
}

impl Common {
    /// Reads a scenario with the overrides.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn scenario(&self, path: &std::path::Path, registry: &Registry) -> Result<Scenario> {
        self.scenario_with(path, &[], registry)
    }

    /// The same, with more overrides, behind the user's.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn scenario_with(&self, path: &std::path::Path, more: &[String], registry: &Registry) -> Result<Scenario> {
        let mut scenario = Scenario::load(path, &[&self.overrides, more].concat(), registry)?;
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        Ok(scenario)
    }

    /// The folder for the results of this backend.
    pub fn out(&self, backend: &str) -> PathBuf {
        self.out.clone().unwrap_or_else(|| PathBuf::from("results").join(backend))
    }

    /// Does work on as many threads as the user wants.
    ///
    /// # Errors
    /// The work's own, or threads that can't be started.
    pub fn on_threads<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let threads = self.threads.map_or(0, usize::from);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.map_err(|cause| Error::failed(format!("threads can't be started: {cause}")))?.install(work)
    }

    /// A progress bar over so many runs: on a terminal only, and not when the user wants quiet.
    pub fn progress(&self, runs: usize, name: &str) -> ProgressBar {
        if self.quiet {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} runs, {eta} left")
            .expect("the template is well-formed")
            .progress_chars("=> ");
        ProgressBar::new(runs as u64).with_style(style).with_message(name.to_string())
    }

    /// Says something on standard error, unless the user wants quiet.
    pub fn note(&self, text: impl std::fmt::Display) {
        if !self.quiet {
            eprintln!("{text}");
        }
    }
}

/// Prints a result. A reader that has seen enough, such as `head`, is no failure.
///
/// # Errors
/// Standard output that can't be written for another reason.
pub fn print(text: &str) -> Result<()> {
    print_with(|out| out.write_all(text.as_bytes()))
}

/// Prints what a function writes, as [`print()`] does.
///
/// # Errors
/// As [`print()`].
pub fn print_with(fill: impl FnOnce(&mut BufWriter<io::StdoutLock<'_>>) -> io::Result<()>) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match fill(&mut out).and_then(|()| out.flush()) {
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => {
            // What is still buffered has no reader either; dropping the buffer would only try to write it again.
            let _ = out.into_parts();
            Ok(())
        }
        Err(cause) => Err(Error::failed(format!("standard output: cannot be written: {cause}"))),
        Ok(()) => Ok(()),
    }
}

/// Prints one JSON document: the value itself, or an array where there are several.
///
/// # Errors
/// As [`print()`].
pub fn print_json(mut values: Vec<Value>) -> Result<()> {
    let document = if values.len() == 1 { values.remove(0) } else { Value::Array(values) };
    print(&format!("{document:#}\n"))
}

/// Set when the user presses Ctrl-C, or the system asks the program to end; runs under way are then given up. A second time ends the program at once.
///
/// # Errors
/// A system that lets no handler be set.
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
