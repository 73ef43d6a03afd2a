//! `batchlab trace import`: public formats, and traces of the user.

use std::path::PathBuf;

use super::{ArrivalArgs, OutputArgs, open, unit};
use crate::base::error::{Context, Error, Result, plural, refuse_if};
use crate::base::units::Nanos;
use crate::cli::render::say;
use crate::core::workload::describe::describe_coarse;
use crate::core::workload::import::{
    ColumnMap, ImportFormat, ImportOptions, ImportedRequests, ImportedShape, read_text,
};
use crate::core::workload::trace::Trace;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file, which may be compressed with gzip; `-` for standard input
    file: PathBuf,
    /// The file's format [default: the one with times whose columns the first line has]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<ImportFormat>,
    /// Shape of the requests [default: seq2seq for two lengths, chain for one, fixed for none, tree for a parse tree]
    #[arg(long = "as", value_enum, value_name = "KIND")]
    kind: Option<ImportedShape>,
    /// Read a column of the file as one of ours (repeatable): arrival_s, arrival_ms, arrival_us, arrival_ns, arrival (a
    /// date and a time), length_in, length_out, class or images
    #[arg(long = "map", value_name = "YOURS=OURS")]
    map: Vec<String>,
    /// Move each request later by a random time below this unit of the stamps, such as 1s, so that requests of one stamp
    /// do not arrive at once
    #[arg(long, value_name = "UNIT", value_parser = unit)]
    spread: Option<Nanos>,
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
    refuse_if(process.is_none() && args.arrivals.rate.is_some(), || {
        Error::input(
            "the format has arrival times of its own; rescale them with trace convert --rate",
        )
    })?;
    let options = ImportOptions {
        shape: args.kind,
        columns: ColumnMap::parse(&args.map)
            .map_err(Error::Input)
            .within("--map")?,
    };
    refuse_if(draws_arrivals && !options.columns.is_empty(), || {
        Error::input("--map: the format has no columns; leave it out")
    })?;
    refuse_if(draws_arrivals && args.spread.is_some(), || {
        Error::input("--spread: the format has no stamps; leave it out")
    })?;
    let (input, name) = open(&args.file)?;
    args.output.refuse_input(&name)?;
    let text = read_text(input).within(&name)?;
    let format = args
        .format
        .map_or_else(|| ImportFormat::from_header(&text, &options.columns), Ok);
    let imported = format
        .and_then(|format| format.read(&text, &options))
        .within(&name)?;
    print_notes(&imported, &name);
    let arrivals = match process {
        Some(process) => args.arrivals.times(process, imported.shapes.len())?,
        None => imported
            .arrivals
            .expect("a format with times gives arrivals"),
    };
    let mut trace = Trace {
        arrivals,
        shapes: imported.shapes,
        classes: imported.classes,
    };
    if let Some(unit) = args.spread {
        let mut sequence = args.arrivals.random_sequence("spread");
        trace = trace.spread(unit, &mut sequence).within("--spread")?;
    } else if !draws_arrivals && let Some(coarse) = describe_coarse(&trace.arrivals) {
        say(format_args!("{name}: {coarse}"));
    }
    args.output.write(&trace)
}

/// Prints what was left out or changed.
fn print_notes(imported: &ImportedRequests, name: &str) {
    let skipped = imported.skipped;
    if skipped > 0 {
        say(format_args!(
            "{name}: skipped {}: {} length is 0 or missing",
            plural(skipped, "row"),
            if skipped == 1 { "its" } else { "their" }
        ));
    }
    let empty = imported.empty_leaves;
    if empty > 0 {
        let leaves = if empty == 1 { "leaf" } else { "leaves" };
        say(format_args!(
            "{name}: left out {empty} {leaves} without a word (-NONE-), and the nodes that had no other leaves"
        ));
    }
    if imported.sorted {
        say(format_args!(
            "{name}: the rows were not in the order of their times and have been sorted"
        ));
    }
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
            import("some words\n", &[]).unwrap_err().contains(
                "in.txt: line 1: unknown header \"some words\"; give our names with --map"
            )
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
