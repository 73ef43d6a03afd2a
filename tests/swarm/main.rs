//! Swarm testing: random scenarios on simulated devices with faults.
//!
//! Each case is a scenario file with other features switched on. All laws of `batchlab::conformance` must hold, each
//! request must leave, a replay must decide the same, and results must not depend on the number of threads. A scenario
//! that is rejected does not count as a failure. A case that fails is reduced while the same law is broken.
//!
//! ```text
//! cargo test --test swarm                              # what the gate runs: some seeds, and tests of the swarm itself
//! cargo test --test swarm -- --seed 1 --minutes 60     # random scenarios for an hour
//! cargo test --test swarm -- --case FILE --faults lost # a scenario file
//! ```

mod check;
mod draw;
mod faults;
mod search;
mod selftest;
mod shrink;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use batchlab::cli::{seed, stop_on_ctrl_c};
use batchlab::error::{Error, Result};
use batchlab::policy::registry::Registry;
use clap::Parser as _;

use crate::check::check_scenario;
use crate::faults::Fault;
use crate::search::search;

/// Test batchlab with random scenarios on devices with faults
///
/// Without options, runs what the gate runs. A case that fails is reduced to a small scenario.
#[derive(clap::Parser, Clone, Debug)]
#[command(name = "swarm")]
struct Args {
    /// The first seed; each case has the next one
    #[arg(long, value_parser = seed)]
    seed: Option<u64>,

    /// Number of cases [default: until --minutes or Ctrl-C]
    #[arg(long)]
    runs: Option<u64>,

    /// Stops after this time
    #[arg(long)]
    minutes: Option<u32>,

    /// Check a scenario file instead of random ones
    #[arg(long, value_name = "SCENARIO", conflicts_with_all = ["seed", "runs", "minutes"])]
    case: Option<PathBuf>,

    /// The faults of the device for --case
    #[arg(long, value_delimiter = ',', requires = "case")]
    faults: Vec<Fault>,

    /// Folder for cases that fail, and for the results of --case
    #[arg(short, long, value_name = "DIR", default_value = "results/swarm")]
    out: PathBuf,

    /// Names of tests, which `cargo test NAME` passes to every test program
    #[arg(hide = true)]
    names: Vec<String>,

    /// An option of Rust's test harness, without effect
    #[arg(long, hide = true)]
    nocapture: bool,

    /// An option of Rust's test harness, without effect
    #[arg(long, hide = true)]
    test_threads: Option<usize>,

    /// An option of Rust's test harness, without effect
    #[arg(short, long, hide = true)]
    quiet: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let registry = Registry::standard();
    let outcome = if let Some(file) = &args.case {
        check_file(&args, file.clone(), &registry)
    } else if args.seed.is_some() || args.runs.is_some() || args.minutes.is_some() {
        search_seeds(&args, &registry)
    } else {
        selftest::run(&args.names)
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("swarm: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn check_file(args: &Args, file: PathBuf, registry: &Registry) -> Result<()> {
    let runs = check_scenario(&file, &args.faults, registry, &args.out)?;
    println!("{runs} runs keep the laws");
    Ok(())
}

fn search_seeds(args: &Args, registry: &Registry) -> Result<()> {
    let stop = stop_on_ctrl_c()?;
    if let Some(minutes) = args.minutes {
        thread::spawn(move || {
            thread::sleep(Duration::from_secs(60 * u64::from(minutes)));
            stop.store(true, Ordering::Relaxed);
        });
    }
    // The command that repeats a panic shows its message.
    std::panic::set_hook(Box::new(|_| ()));
    let first = args.seed.unwrap_or(1);
    let last = match args.runs {
        Some(runs) => first.saturating_add(runs),
        None => u64::MAX,
    };
    let counts = search(first..last, registry, &args.out, stop, |text| {
        print!("{text}");
    })?;
    if counts.broken > 0 {
        return Err(Error::failure(counts));
    }
    println!("{counts}");
    Ok(())
}
