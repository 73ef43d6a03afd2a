//! `batchlab trace convert`.

use std::path::PathBuf;
use std::sync::Arc;

use super::{OutputArgs, open, unit};
use crate::base::error::{Context, Error, Result};
use crate::base::units::{Nanos, Rate};
use crate::cli::seed;
use crate::core::workload::arrivals::check_rate;
use crate::core::workload::dataset::cut_length;
use crate::core::workload::random;
use crate::core::workload::trace::Trace;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The trace; `-` for standard input
    file: PathBuf,
    /// Multiply the time between requests by this: 0.5 doubles the load
    #[arg(long, value_name = "FACTOR", conflicts_with = "rate")]
    time_scale: Option<f64>,
    /// Scale the time to this mean rate, in requests per second
    #[arg(long, value_name = "RPS")]
    rate: Option<f64>,
    /// Take only N requests
    #[arg(long, value_name = "N")]
    take: Option<usize>,
    /// Skip the first N requests
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: usize,
    /// Drop longer requests (seq2seq: by the longer side; trees: by the leaves)
    #[arg(long, value_name = "LENGTH")]
    max_length: Option<u32>,
    /// Move each request later by a random time below this unit of the stamps, such as 1s, before all else
    #[arg(long, value_name = "UNIT", value_parser = unit)]
    spread: Option<Nanos>,
    /// Seed of --spread
    #[arg(long, default_value_t = 1, value_parser = seed)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> Result<()> {
    if let Some(rate) = args.rate {
        check_rate(Rate(rate))
            .map_err(Error::input)
            .within("--rate")?;
    }
    let (input, name) = open(&args.file)?;
    args.output.refuse_input(&name)?;
    let trace = Trace::read_from(input)
        .and_then(|trace| convert(&trace, args))
        .within(name)?;
    args.output.write(&trace)
}

fn convert(trace: &Trace, args: &Args) -> Result<Trace> {
    let spread;
    let trace = match args.spread {
        None => trace,
        Some(unit) => {
            let mut sequence = random::sequence(args.seed, 0, "spread");
            spread = trace.spread(unit, &mut sequence).within("--spread")?;
            &spread
        }
    };
    let longest = args.max_length.unwrap_or(u32::MAX);
    let most = args.take.unwrap_or(usize::MAX);
    let kept: Vec<usize> = (0..trace.len())
        .filter(|id| cut_length(&trace.shapes[*id]) <= longest)
        .skip(args.skip)
        .take(most)
        .collect();
    let Some(&first) = kept.first() else {
        return Err(Error::input(format!(
            "nothing is left of {} requests; take more or skip fewer",
            trace.len()
        )));
    };
    let cut = Trace {
        arrivals: kept
            .iter()
            .map(|id| trace.arrivals[*id] - trace.arrivals[first])
            .collect(),
        shapes: kept.iter().map(|id| trace.shapes[*id].clone()).collect(),
        classes: trace
            .classes
            .as_ref()
            .map(|classes| kept.iter().map(|id| Arc::clone(&classes[*id])).collect()),
    };
    match (args.time_scale, args.rate) {
        (Some(factor), _) => cut.scale_times(factor).within("--time-scale"),
        (None, Some(rate)) => cut.scale_to_rate(Rate(rate)).within("--rate"),
        (None, None) => Ok(cut),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::tests::{fails, run};

    const TRACE: &str =
        "id,arrival_ns,shape\n0,100,chain:9\n1,200,chain:5\n2,400,seq2seq:4>20\n3,1000,chain:6\n";

    fn convert(text: &str, options: &str) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("in.csv"), dir.path().join("out.csv"));
        fs::write(&from, text).unwrap();
        let mut command = vec![
            "convert",
            from.to_str().unwrap(),
            "-o",
            to.to_str().unwrap(),
        ];
        command.extend(options.split_whitespace());
        run(&command).map_err(|error| error.to_string())?;
        Ok(fs::read_to_string(to).unwrap())
    }

    fn rows(options: &str) -> Vec<String> {
        convert(TRACE, options)
            .unwrap()
            .lines()
            .skip(1)
            .map(String::from)
            .collect()
    }

    #[test]
    fn a_trace_is_cut_and_begins_at_zero() {
        assert_eq!(
            rows("--skip 1 --take 2"),
            ["0,0,chain:5", "1,200,seq2seq:4>20"]
        );
        assert_eq!(
            rows("--max-length 9 --skip 1"),
            ["0,0,chain:5", "1,800,chain:6"]
        );
    }

    #[test]
    fn a_trace_is_scaled() {
        assert_eq!(rows("--time-scale 0.5")[3], "3,450,chain:6");
        // Three gaps at 1,000/s last 3 ms.
        assert_eq!(
            rows("--rate 1000")[1..],
            [
                "1,333333,chain:5",
                "2,1000000,seq2seq:4>20",
                "3,3000000,chain:6"
            ]
        );
    }

    #[test]
    fn mistakes_are_named() {
        let fault = |options| {
            let error = convert(TRACE, options).unwrap_err();
            error
                .split_once("in.csv: ")
                .map_or(error.clone(), |(_, rest)| rest.to_string())
        };
        assert_eq!(
            fault("--skip 4"),
            "nothing is left of 4 requests; take more or skip fewer"
        );
        assert_eq!(
            fault("--take 1 --rate 5"),
            "--rate: all requests arrive at once; no scale gives them a rate"
        );
        assert_eq!(
            fault("--time-scale 0"),
            "--time-scale: 0 is not a time scale; it is a number above 0"
        );
        assert!(
            fault("--rate 0")
                .starts_with("--rate: must be a number of requests per second from 1e-6")
        );
        assert!(fails(&["convert", "no/such.csv"]).starts_with("no/such.csv: cannot be read"));
    }
}
