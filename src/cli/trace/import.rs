//! `batchlab trace import`: public formats.

use std::path::PathBuf;

use super::{ArrivalArgs, OutputArgs, open};
use crate::base::error::{Context, Error, Result};
use crate::cli::render::say;
use crate::core::workload::import::{ImportFormat, ImportedShape, read_text};
use crate::core::workload::trace::Trace;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file, which may be compressed with gzip; `-` for standard input
    file: PathBuf,
    /// The file's format [default: azure, burstgpt, mooncake or csv, by the first line]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<ImportFormat>,
    /// Shape of the requests [default: seq2seq for two lengths, chain for one, tree for a parse tree]
    #[arg(long = "as", value_enum, value_name = "KIND")]
    kind: Option<ImportedShape>,
    #[command(flatten)]
    arrivals: ArrivalArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let draws_arrivals = args.format.is_some_and(|format| !format.is_timed());
    let process = draws_arrivals
        .then(|| args.arrivals.process())
        .transpose()?;
    if process.is_none() && args.arrivals.rate.is_some() {
        return Err(Error::input(
            "the format has arrival times of its own; rescale them with trace convert --rate",
        ));
    }
    let (input, name) = open(&args.file)?;
    let text = read_text(input).within(&name)?;
    let format = args.format.map_or_else(
        || ImportFormat::from_header(text.lines().next().unwrap_or("")),
        Ok,
    );
    let imported = format
        .and_then(|format| format.read(&text, args.kind))
        .within(&name)?;
    if imported.skipped > 0 {
        say(format_args!(
            "{name}: skipped {} rows of length 0",
            imported.skipped
        ));
    }
    if imported.sorted {
        say(format_args!(
            "{name}: the rows were not in the order of their times and have been sorted"
        ));
    }
    let arrivals = match process {
        Some(process) => args.arrivals.times(process, imported.shapes.len())?,
        None => imported
            .arrivals
            .expect("a format with times gives arrivals"),
    };
    args.output.write(&Trace {
        arrivals,
        shapes: imported.shapes,
        classes: imported.classes,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::tests::{fails, run};

    fn import(text: &str, options: &[&str]) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("in.txt"), dir.path().join("out.csv"));
        fs::write(&from, text).unwrap();
        let command = [
            &["import", from.to_str().unwrap(), "-o", to.to_str().unwrap()],
            options,
        ]
        .concat();
        run(&command).map_err(|error| error.to_string())?;
        Ok(fs::read_to_string(to).unwrap())
    }

    #[test]
    fn the_format_is_told_by_the_header() {
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.5,3,4\n2023-11-16 18:15:47,5,6\n";
        assert_eq!(
            import(text, &[]).unwrap(),
            "id,arrival_ns,shape\n0,0,seq2seq:3>4\n1,500000000,seq2seq:5>6\n"
        );
        let chains = import(text, &["--as", "chain"]).unwrap();
        assert_eq!(
            chains,
            "id,arrival_ns,shape\n0,0,chain:3\n1,500000000,chain:5\n"
        );
    }

    #[test]
    fn formats_without_times_arrive_by_a_process() {
        let sentences = import(
            "one\ntwo words\n",
            &[
                "--format",
                "sentences",
                "--process",
                "uniform",
                "--rate",
                "2",
            ],
        );
        assert_eq!(
            sentences.unwrap(),
            "id,arrival_ns,shape\n0,500000000,chain:1\n1,1000000000,chain:2\n"
        );
        let trees = import(
            "0\n3 3 0\n",
            &["--format", "parents", "--process", "offline"],
        );
        assert_eq!(
            trees.unwrap(),
            "id,arrival_ns,shape\n0,0,tree:0\n1,0,tree:3 3 0\n"
        );
    }

    #[test]
    fn mistakes_are_named() {
        assert!(
            import("some words\n", &[])
                .unwrap_err()
                .contains("in.txt: line 1: not the header of azure, burstgpt")
        );
        assert_eq!(
            import("some words\n", &["--format", "sentences"]).unwrap_err(),
            "poisson needs --rate, in requests per second"
        );
        assert!(
            import("arrival_s,length_in\n0,3\n", &["--rate", "5"])
                .unwrap_err()
                .contains("trace convert --rate")
        );
        assert!(
            import("arrival_s,length_in\n0,x\n", &[])
                .unwrap_err()
                .contains("in.txt: line 2: length_in: \"x\"")
        );
        assert!(fails(&["import", "no/such.csv"]).starts_with("no/such.csv: cannot be read"));
    }
}
