//! `batchlab sim`: scenarios on the simulated backend.

use std::path::PathBuf;

use super::{Common, sweep};
use crate::error::Result;
use crate::experiment::Options;
use crate::experiment::executor::{Executors, Target};
use crate::policy::registry::Registry;

/// Run scenarios on the simulated GPU
///
/// Every policy of a scenario replays the same requests at every load. Results go to DIR/NAME, with the scenario's name:
/// summary.csv, a folder for each policy and load, and the figures that the scenario asks for.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Scenario files
    #[arg(required = true, value_name = "SCENARIO")]
    pub scenarios: Vec<PathBuf>,

    /// What simulates the device
    #[arg(long, default_value = "sim")]
    pub backend: String,

    /// Runs of each point, each with its own random streams; from 2 on, figures come with 95 % confidence intervals
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub replications: u32,

    /// Go on where an earlier run of the same scenario was stopped: what is finished is taken over, and loads or policies
    /// may have been added
    #[arg(long)]
    pub resume: bool,

    #[command(flatten)]
    pub common: Common,
}

/// Runs the scenarios one after the other.
///
/// # Errors
/// A scenario with a mistake, before any of them is run; a file that can't be written; Ctrl-C.
pub fn run(args: &Args, registry: &Registry, executors: &Executors) -> Result<()> {
    let target = Target::Simulated(executors.simulator(&args.backend)?);
    let out = args.common.out(target.name());
    let options = Options { target, out, replications: args.replications, resume: args.resume };
    sweep::run(&args.scenarios, &args.common, &options, registry)
}
