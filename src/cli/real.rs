//! `batchlab real`.

use std::path::PathBuf;

use super::{Common, sim};
use crate::error::Result;
use crate::experiment::Options;
use crate::experiment::executor::{Executors, Target, Verify};
use crate::policy::registry::Registry;

/// Run scenarios in real time, on a CPU or GPUs that compute the networks
///
/// Policies, requests and result files are those of `sim`. Runs follow one another, and at each load the policies take
/// turns. A run whose requests were handed over too late is marked as not valid. Ctrl-C keeps the finished runs and the
/// logs of the interrupted one.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Scenario files
    #[arg(required = true, value_name = "SCENARIO")]
    pub scenarios: Vec<PathBuf>,

    /// The processor that computes
    #[arg(long, default_value = "cpu")]
    pub backend: String,

    /// Runs of each point, all with the same requests at the same times; from 2 on, metrics have 95 % confidence intervals
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeats: u32,

    /// Requests to run again alone on the CPU, to check that the results have the same bits, or, from a GPU, are the same up
    /// to rounding
    #[arg(long, value_enum, default_value_t)]
    pub verify: Verify,

    /// Continue an interrupted run of the same scenario on this machine: finished runs are kept, and loads or policies may
    /// have been added
    #[arg(long)]
    pub resume: bool,

    #[command(flatten)]
    pub common: Common,
}

pub fn run(args: &Args, registry: &Registry, executors: &Executors) -> Result<()> {
    let target = Target::Real(executors.executor(&args.backend)?, args.verify);
    let out = args.common.out(target.name());
    let options = Options { target, out, replications: args.repeats, resume: args.resume };
    sim::run_all(&args.scenarios, &args.common, &options, registry)
}
