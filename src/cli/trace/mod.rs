//! `batchlab trace`.

mod convert;
mod generate;
mod import;
mod info;

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::render::{print_with, say};
use super::{find, seed};
use crate::base::error::{Context as _, Error, Result, plural};
use crate::base::files::{refuse_overwrite, unpack};
use crate::base::shipped::{self, Shipped};
use crate::base::units::{Nanos, Rate};
use crate::core::workload::arrivals::{PROCESSES, Process, check_rate, within_the_clock};
use crate::core::workload::random;
use crate::core::workload::trace::Trace;
use crate::lab::scenario::ArrivalSpec;

#[derive(Debug, clap::Subcommand)]
pub enum TraceCommand {
    /// Draw a trace from a dataset and an arrival process
    Gen(generate::Args),
    /// Describe a trace: rate, burstiness, lengths
    Info(info::Args),
    /// Convert a trace of yours or a public one, sentences or trees into a trace
    ///
    /// A file of yours needs a column of times: arrival_s,class, or --map started=arrival_ms --map customer=class.
    /// Formats with times keep the gaps between requests, and the first request arrives at 0. Sentences and trees have
    /// no times: they arrive in the file's order, by --process and --rate.
    Import(import::Args),
    /// Filter, cut and scale a trace
    ///
    /// Drops requests that are too long, then skips the first of the others, then takes --take of the rest. The
    /// remaining requests are numbered from 0 and shifted so that the first arrives at 0. Then the time is scaled.
    Convert(convert::Args),
}

pub fn run(command: &TraceCommand) -> Result<()> {
    match command {
        TraceCommand::Gen(args) => generate::run(args),
        TraceCommand::Info(args) => info::run(args),
        TraceCommand::Import(args) => import::run(args),
        TraceCommand::Convert(args) => convert::run(args),
    }
}

/// Options for the arrival process. The options that serde does not skip are keys of a scenario's arrivals too.
#[derive(Debug, clap::Args, Serialize)]
struct ArrivalArgs {
    /// Arrival process
    #[serde(skip)]
    #[arg(long, value_name = "NAME", default_value = "poisson", value_parser = PROCESSES)]
    process: String,
    /// Mean rate in requests per second (not for stepping and offline)
    #[serde(skip)]
    #[arg(long, value_name = "RPS")]
    rate: Option<f64>,
    /// gamma: coefficient of variation of the gaps
    #[arg(long)]
    cv: Option<f64>,
    /// mmpp: ratio of the high rate to the low rate
    #[arg(long)]
    ratio: Option<f64>,
    /// mmpp: mean time in the low state, such as 200ms
    #[arg(long, value_name = "TIME", value_parser = time)]
    low: Option<String>,
    /// mmpp: mean time in the high state, such as 50ms
    #[arg(long, value_name = "TIME", value_parser = time)]
    high: Option<String>,
    /// periodic: the time in which the pattern repeats, such as 86400s
    #[arg(long, value_name = "TIME", value_parser = time)]
    period: Option<String>,
    /// periodic: relative rates of the equal parts of a period
    #[arg(long, value_name = "RATE,…", value_delimiter = ',')]
    pattern: Option<Vec<f64>>,
    /// stepping: first rate
    #[arg(long, value_name = "RPS")]
    from: Option<f64>,
    /// stepping: last rate
    #[arg(long, value_name = "RPS")]
    to: Option<f64>,
    /// stepping: number of steps
    #[arg(long)]
    steps: Option<u32>,
    /// Seed of all random draws
    #[serde(skip)]
    #[arg(long, default_value_t = 1, value_parser = seed)]
    seed: u64,
}

/// Parses a unit of stamps.
fn unit(text: &str) -> Result<Nanos, String> {
    match Nanos::parse(text)? {
        Nanos::ZERO => Err("a unit is above 0".into()),
        unit => Ok(unit),
    }
}

/// Checks a time and returns its text, which the scenario's arrivals read again.
fn time(text: &str) -> Result<String, String> {
    Nanos::parse(text).map(|_| text.to_string())
}

impl ArrivalArgs {
    fn process(&self) -> Result<(Process, Option<Rate>)> {
        if let Some(rate) = self.rate {
            check_rate(Rate(rate))
                .map_err(Error::input)
                .within("--rate")?;
        }
        let Value::Object(mut keys) = json!(self) else {
            unreachable!("options have names")
        };
        keys.retain(|_, value| !value.is_null());
        keys.extend(self.rate.map(|rate| ("rates".to_string(), json!([rate]))));
        let spec = ArrivalSpec::new(&self.process, keys).map_err(|problem| {
            match problem.strip_prefix("rates: ") {
                Some(_) if self.rate.is_none() => Error::input(format!(
                    "{} needs --rate, in requests per second",
                    self.process
                )),
                Some(problem) => Error::input(format!("--rate: {problem}")),
                None => Error::input(format!("--{problem}")),
            }
        })?;
        Ok((
            spec.process().expect("a closed loop is no choice"),
            spec.rates().first().copied(),
        ))
    }

    fn times(
        &self,
        (process, rate): (Process, Option<Rate>),
        requests: usize,
    ) -> Result<Arc<[Nanos]>> {
        let times: Arc<[Nanos]> = process
            .times(rate, requests, self.random_sequence("arrivals"))
            .collect();
        within_the_clock(&times)?;
        Ok(times)
    }

    /// Draws the arrival times. A scenario with the same seed draws the same requests.
    fn random_sequence(&self, purpose: &str) -> random::RandomSequence {
        random::sequence(self.seed, 0, purpose)
    }
}

/// Opens a trace, or standard input for `-`, and unpacks gzip. Also returns the name for messages.
fn open(path: &Path) -> Result<(Box<dyn Read>, String)> {
    if path == Path::new("-") {
        return Ok((unpack(io::stdin().lock()), "standard input".into()));
    }
    let path = &find(Shipped::Trace, path, false)?;
    let file = shipped::open(path).map_err(|cause| Error::unreadable(path, &cause))?;
    Ok((unpack(file), path.display().to_string()))
}

#[derive(Debug, clap::Args)]
struct OutputArgs {
    /// Trace file to write; `-` for standard output [default: standard output]
    #[arg(short, long, value_name = "FILE", alias = "output")]
    out: Option<PathBuf>,
    /// Print no note on the file
    #[arg(short, long)]
    quiet: bool,
}

impl OutputArgs {
    /// Refuses to write to the file that is read, by its name for messages.
    fn refuse_input(&self, name: &str) -> Result<()> {
        match &self.out {
            Some(out) => refuse_overwrite(Path::new(name), out),
            None => Ok(()),
        }
    }

    /// Writes the trace. For a file, also prints a note on standard error.
    fn write(&self, trace: &Trace) -> Result<()> {
        let Some(path) = self.out.as_deref().filter(|path| *path != Path::new("-")) else {
            return print_with(|out| trace.write_to(out));
        };
        trace.write(path)?;
        // Devices and pipes are not reported as written files.
        if path.is_file() && !self.quiet {
            let span = trace.arrivals.last().map_or(0.0, |last| last.as_secs_f64());
            say(format_args!(
                "wrote {} over {span:.3} s to {}",
                plural(trace.len(), "request"),
                path.display()
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(subcommand)]
        command: TraceCommand,
    }

    pub(super) fn run(words: &[&str]) -> Result<()> {
        let cli = Cli::try_parse_from([&["trace"], words].concat()).expect("the options are known");
        super::run(&cli.command)
    }

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
