//! `batchlab swarm`.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::render::print;
use super::{seed, stop_on_ctrl_c};
use crate::base::error::{Error, Result};
use crate::core::policy::registry::Registry;
use crate::swarm::{Fault, check, search};

/// Test batchlab with random scenarios on devices with faults
///
/// Checks the laws of every policy, that each request leaves, that a replay decides the same, and that results do not depend
/// on the number of threads. A case that fails is reduced to a small scenario.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// The first seed; each case has the next one
    #[arg(long, default_value_t = 1, value_parser = seed)]
    seed: u64,

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
}

pub fn run(args: &Args, registry: &Registry) -> Result<()> {
    if let Some(file) = &args.case {
        let runs = check(file, &args.faults, registry, &args.out)?;
        return print(&format!("{runs} runs keep the laws\n"));
    }
    let stop = stop_on_ctrl_c()?;
    if let Some(minutes) = args.minutes {
        thread::spawn(move || {
            thread::sleep(Duration::from_secs(60 * u64::from(minutes)));
            stop.store(true, Ordering::Relaxed);
        });
    }
    // The command that repeats a panic shows it.
    std::panic::set_hook(Box::new(|_| ()));
    let last = args
        .runs
        .map_or(u64::MAX, |runs| args.seed.saturating_add(runs));
    let counts = search(args.seed..last, registry, &args.out, stop, print)?;
    match counts.broken {
        0 => print(&format!("{counts}\n")),
        _ => Err(Error::failed(counts)),
    }
}
