//! `batchlab compare`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::conclude;
use super::render::{Shown, say};
use crate::base::error::Result;
use crate::lab::plot::{self, PlotInputs};
use crate::lab::validate::compare::{Comparison, compare, report};

/// The beginning of the names of the figures.
const PICTURE: &str = "latency-cdf-";

/// Compare two runs of the same requests, such as a real one with a simulated one
///
/// For each common policy and load: latencies, throughput and batch sizes, the difference of B from A in percent, and
/// whether that is within the spread of A's repeated runs. With --out, writes comparison.csv and, for each load, a
/// figure with both latency distributions.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Reference results folder, such as results/cpu/NAME
    pub a: PathBuf,

    /// Results folder to compare with it, such as results/sim/NAME
    pub b: PathBuf,

    /// Folder for comparison.csv and the figures [default: none is written]
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Exit with code 4 if the comparison is not usable: a real run is not valid, or A has no spread or one above 100 %
    #[arg(long)]
    pub strict: bool,

    #[command(flatten)]
    pub shown: Shown,

    /// Print only the table and errors, without notes
    #[arg(long, short)]
    pub quiet: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let comparison = compare(&args.a, &args.b)?;
    let figures = args
        .out
        .as_ref()
        .map(|out| write(&comparison, out))
        .transpose()?;
    args.shown.show(
        || report::table(&comparison),
        || report::to_json(&comparison),
    )?;
    if !args.quiet {
        comparison.notes.iter().for_each(say);
        if let Some((out, figures)) = args.out.as_ref().zip(figures) {
            let without = if figures == 0 {
                "; no figures without request logs (output.requests = true)"
            } else {
                ""
            };
            say(format_args!("comparison in {}{without}", out.display()));
        }
    }
    conclude(&comparison.usability, args.strict, args.quiet)
}

/// Writes a table and, for each load, a figure, which replace those of an earlier comparison. Returns the number of the
/// figures' files.
pub fn write(comparison: &Comparison, out: &Path) -> Result<usize> {
    remove_figures(out);
    report::write_csv(&out.join("comparison.csv"), comparison)?;
    let [a, b] = [&comparison.a, &comparison.b].map(|side| side.results.path.as_path());
    // A run compared with itself has only one folder.
    if a.canonicalize().ok() == b.canonicalize().ok() {
        return Ok(0);
    }
    let inputs = PlotInputs::open(&[a, b])?;
    let options = plot::PlotOptions {
        title: Some(comparison.a.scenario().to_string()),
        ..plot::PlotOptions::default()
    };
    let points: BTreeSet<&str> = comparison
        .places
        .iter()
        .map(|place| place.point.as_str())
        .collect();
    let mut files = 0;
    for point in points {
        if let Some(canvas) = plot::compare_cdfs(&inputs, point, &options)? {
            files += plot::write(canvas, &[], &out.join(format!("{PICTURE}{point}")))?
                .files
                .len();
        }
    }
    Ok(files)
}

fn remove_figures(folder: &Path) {
    for file in fs::read_dir(folder).into_iter().flatten().flatten() {
        if file.file_name().to_string_lossy().starts_with(PICTURE) {
            let _ = fs::remove_file(file.path());
        }
    }
}
