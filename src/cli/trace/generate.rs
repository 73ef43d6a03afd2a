//! `batchlab trace gen`.

use std::path::PathBuf;

use super::{ArrivalArgs, OutputArgs};
use crate::base::error::{Error, Result};
use crate::base::memory::require;
use crate::base::units::Nanos;
use crate::core::workload::dataset::Dataset;
use crate::core::workload::model::Model;
use crate::core::workload::shape::Shape;
use crate::core::workload::trace::Trace;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// A file of lengths or trees, constant:24, constant:24>27, complete-tree:16 or generator:NAME
    #[arg(long, value_name = "SPEC")]
    dataset: String,
    /// The model of the requests: lstm, gru, seq2seq, tree-lstm, childsum-tree-lstm, childsum-tree-lstm:N, dnn:NAME,
    /// graph:FILE
    #[arg(long, default_value = "lstm")]
    model: String,
    /// Number of requests
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Draw only shapes up to this length (seq2seq: the longer side; trees: the leaves)
    #[arg(long, value_name = "LENGTH")]
    max_length: Option<u32>,
    #[command(flatten)]
    arrivals: ArrivalArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Arrivals and shapes have separate random sequences, so two arrival processes draw the same shapes.
pub(super) fn run(args: &Args) -> Result<()> {
    let process = args.arrivals.process()?;
    let model = Model::open(&args.model, &|file| Ok(PathBuf::from(file)));
    let model = model.map_err(|error| Error::input(format!("--model: {error}")))?;
    let dataset = Dataset::open(&args.dataset, &model, &|path| PathBuf::from(path))?;
    let n = args.requests as usize;
    let bytes = n as u128 * size_of::<(Nanos, Shape)>() as u128;
    require(bytes, format_args!("-n {n}"), "draw fewer requests")?;
    let arrivals = args.arrivals.times(process, n)?;
    let shapes = dataset.sample(
        n,
        args.max_length,
        &mut args.arrivals.random_sequence("shapes"),
    )?;
    args.output.write(&Trace {
        arrivals,
        shapes,
        classes: None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::tests::{fails, run};

    #[test]
    fn the_shipped_trace_is_what_its_readme_says() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.csv");
        let command =
            "gen --dataset traces/europarl-en.csv --requests 1000 --rate 5000 --seed 1 -o";
        run(&[
            &command.split(' ').collect::<Vec<_>>()[..],
            &[path.to_str().unwrap()],
        ]
        .concat())
        .unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            fs::read_to_string("traces/europarl-en-1k.csv").unwrap(),
            "one seed gives the same bytes"
        );
    }

    #[test]
    fn bad_options_say_what_is_allowed() {
        for (options, message) in [
            (
                "--rate 0",
                "--rate: must be a number of requests per second from 1e-6 to 1e9, not 0",
            ),
            (
                "--process uniform --rate 1e-10",
                "--rate: must be a number of requests per second from 1e-6 to 1e9, not 0.0000000001",
            ),
            ("", "poisson needs --rate, in requests per second"),
            (
                "--process offline --rate 3",
                "--rate: unknown key of the process \"offline\"; known: process",
            ),
            (
                "--process gamma --rate 3",
                "--cv: missing; the coefficient of variation of the gaps, a number from 0.001 to 1000",
            ),
            (
                "--process mmpp --rate 3 --ratio 0.1 --low 1s --high 1s",
                "--ratio: 0.1 is out of range; it is a number from 1 to 1000000",
            ),
            (
                "--rate 3 --model bert",
                "--model: unknown model \"bert\"; known: lstm, gru, seq2seq, tree-lstm, childsum-tree-lstm, childsum-tree-lstm:N, \
                 dnn:NAME, dnn:FILE.csv, graph:FILE, llm, llm:FILE",
            ),
            (
                "--rate 3 --max-length 5",
                "max_length = 5 leaves nothing of the dataset constant:24: its shortest shape has length 24",
            ),
        ] {
            let all = format!("gen --dataset constant:24 -n 3 {options}");
            assert_eq!(fails(&all.split_whitespace().collect::<Vec<_>>()), message);
        }
    }
}
