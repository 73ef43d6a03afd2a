//! `batchlab trace`: makes, describes, imports and converts traces.

mod convert;
mod generate;
mod import;
mod info;
mod output;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::error::{Error, Result};
use crate::units::{Nanos, Rate};
use crate::workload::arrivals::{Parameters, Process, check_rate};
use crate::workload::random;

/// Make, describe, import and convert traces
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Draw a trace from a dataset and an arrival process
    Gen(generate::Args),
    /// Describe a trace: rate, burstiness, lengths
    Info(info::Args),
    /// Turn a public trace, sentences or trees into a trace
    ///
    /// Formats with times keep their gaps, and the first request arrives at 0. Sentences and trees have no times: they
    /// arrive, in the file's order, by --process and --rate.
    Import(import::Args),
    /// Scale a trace in time, cut and filter it
    ///
    /// In this order: requests that are too long are left out, of the others the first are skipped, then so many are
    /// taken. What is left is numbered from 0 and moved in time, so that its first request arrives at 0. Then the time
    /// is scaled.
    Convert(convert::Args),
}

/// Runs `batchlab trace`.
///
/// # Errors
/// A bad option or input (exit code 2), or an output that can't be written (exit code 1).
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Gen(args) => generate::run(args),
        Command::Info(args) => info::run(args),
        Command::Import(args) => import::run(args),
        Command::Convert(args) => convert::run(args),
    }
}

/// The arrival process and its parameters, as options.
#[derive(Debug, clap::Args)]
struct ArrivalArgs {
    /// Arrival process: poisson, uniform, gamma, mmpp, stepping, offline
    #[arg(long, value_name = "NAME", default_value = "poisson")]
    process: String,
    /// Mean rate in requests per second (all but stepping and offline)
    #[arg(long, value_name = "RPS")]
    rate: Option<f64>,
    /// gamma: standard deviation of the gaps over their mean
    #[arg(long)]
    cv: Option<f64>,
    /// mmpp: the high rate over the low one
    #[arg(long)]
    ratio: Option<f64>,
    /// mmpp: mean stay in the low state, as 200ms
    #[arg(long, value_name = "TIME", value_parser = Nanos::parse)]
    low: Option<Nanos>,
    /// mmpp: mean stay in the high state, as 50ms
    #[arg(long, value_name = "TIME", value_parser = Nanos::parse)]
    high: Option<Nanos>,
    /// stepping: the first rate
    #[arg(long, value_name = "RPS")]
    from: Option<f64>,
    /// stepping: the last rate
    #[arg(long, value_name = "RPS")]
    to: Option<f64>,
    /// stepping: the number of steps
    #[arg(long)]
    steps: Option<u32>,
    /// Seed of all that is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl ArrivalArgs {
    /// Checks the options, so that nothing is drawn or read before a mistake is found.
    fn process(&self) -> Result<(Process, Option<Rate>)> {
        if self.process == "closed" {
            return Err(Error::input("--process: a closed loop has no trace: its arrivals depend on the answers"));
        }
        let process = Process::new(
            &self.process,
            &Parameters {
                cv: self.cv,
                ratio: self.ratio,
                low: self.low,
                high: self.high,
                from: self.from,
                to: self.to,
                steps: self.steps,
            },
        )?;
        let rate = self.rate.map(Rate);
        match (process.takes_rate(), rate) {
            (true, None) => Err(Error::input(format!("{} needs --rate, in requests per second", self.process))),
            (false, Some(_)) => Err(Error::input(format!("{} has no --rate", self.process))),
            (_, None) => Ok((process, None)),
            (_, Some(asked)) => {
                check_rate(asked).map_err(|error| Error::input(format!("--rate: {error}")))?;
                Ok((process, rate))
            }
        }
    }

    /// The stream of one purpose; a scenario with the same seed draws the same requests.
    fn stream(&self, purpose: &str) -> random::Stream {
        random::stream(self.seed, 0, purpose)
    }
}

/// Opens an input file, or standard input for `-`; also gives its name for messages.
fn open(path: &Path) -> Result<(Box<dyn Read>, String)> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin().lock()), "standard input".into()));
    }
    let file = File::open(path).map_err(|cause| Error::unreadable(path, &cause))?;
    Ok((Box::new(file), path.display().to_string()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    /// Runs `batchlab trace` with these words.
    pub(super) fn run(words: &[&str]) -> Result<()> {
        let cli = Cli::try_parse_from([&["trace"], words].concat()).expect("the options are known");
        super::run(&cli.args)
    }

    /// Runs `batchlab trace` and gives its message; it has to be the user's mistake.
    pub(super) fn fails(words: &[&str]) -> String {
        let error = run(words).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    }

    #[test]
    fn the_options_are_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
