//! `batchlab real`: scenarios on a device that computes.

use std::path::PathBuf;

use clap::ValueEnum;

use super::{Common, sweep};
use crate::error::Result;
use crate::experiment::Options;
use crate::experiment::executor::{Executors, Target, Verify};
use crate::policy::registry::Registry;

/// Run scenarios in real time, on networks that compute
///
/// The same policies, requests and files as those of `sim`, on a real clock. Runs go one after the other, and policies take
/// turns under each load. A run whose requests were handed over too late is marked as not valid. Ctrl-C keeps what has been
/// finished, and the logs of the run that it stops as far as they go.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Scenario files
    #[arg(required = true, value_name = "SCENARIO")]
    pub scenarios: Vec<PathBuf>,

    /// What computes
    #[arg(long, default_value = "cpu")]
    pub backend: String,

    /// Runs of each point, all with the same requests at the same times; from 2 on, figures come with 95 % confidence intervals
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeats: u32,

    /// Which requests are run again alone on the CPU, to see that they come to the same bits, or, on a GPU, to the same up to
    /// rounding
    #[arg(long, value_enum, default_value_t = Which::Sample)]
    pub verify: Which,

    /// Go on where an earlier run of the same scenario on this machine was stopped: what is finished is taken over, and loads
    /// or policies may have been added
    #[arg(long)]
    pub resume: bool,

    #[command(flatten)]
    pub common: Common,
}

/// Which requests are verified.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Up to 32 of each run
    Sample,
    /// All that finished
    All,
    /// None
    None,
}

/// Runs the scenarios one after the other.
///
/// # Errors
/// A scenario with a mistake, before any of them is run; requests that failed, or whose results are not those of the same
/// requests alone; a file that can't be written; Ctrl-C.
pub fn run(args: &Args, registry: &Registry, executors: &Executors) -> Result<()> {
    let verify = match args.verify {
        Which::Sample => Verify::Sample,
        Which::All => Verify::All,
        Which::None => Verify::None,
    };
    let target = Target::Real(executors.executor(&args.backend)?, verify);
    let out = args.common.out(target.name());
    let options = Options { target, out, replications: args.repeats, resume: args.resume };
    sweep::run(&args.scenarios, &args.common, &options, registry)
}
