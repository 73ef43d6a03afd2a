//! `batchlab compare`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::render::Shown;
use crate::error::Result;
use crate::plot::{self, Inputs};
use crate::validate::compare::{Comparison, compare, report};

/// How the names of its figures begin.
pub const PICTURE: &str = "latency-cdf-";

/// Compare two runs of the same requests, such as a real one with a simulated one
///
/// For each common policy and load: latencies, throughput and batch sizes, the difference of B from A in percent, and whether
/// that is within the spread of A's repeated runs. Writes comparison.csv and, for each load, a figure with both latency
/// distributions.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Reference results folder, such as results/cpu/NAME
    pub a: PathBuf,

    /// Results folder to compare with it, such as results/sim/NAME
    pub b: PathBuf,

    /// Folder for the table and the figures [default: A/compare-PARENT, where PARENT is the folder that contains B]
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    #[command(flatten)]
    pub shown: Shown,

    /// Print only the table and errors, without notes
    #[arg(long, short)]
    pub quiet: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let comparison = compare(&args.a, &args.b)?;
    let out = args.out.clone().unwrap_or_else(|| default_folder(&args.a, &args.b));
    let figures = write(&comparison, &out)?;
    args.shown.show(|| report::table(&comparison), || report::to_json(&comparison))?;
    if !args.quiet {
        for note in &comparison.notes {
            eprintln!("{note}");
        }
        let without = if figures == 0 { "; no figures without request logs (output.requests = true)" } else { "" };
        eprintln!("comparison in {}{without}", out.display());
    }
    Ok(())
}

fn default_folder(a: &Path, b: &Path) -> PathBuf {
    // Resolved, because `.` and a relative name have no parent.
    let full = b.canonicalize().unwrap_or_else(|_| b.to_path_buf());
    let parent = full.parent().and_then(Path::file_name).map_or("results".into(), |name| name.to_string_lossy());
    a.join(format!("compare-{parent}"))
}

/// A table and, for each load, a figure. Returns the number of figures' files.
pub fn write(comparison: &Comparison, out: &Path) -> Result<usize> {
    report::write_csv(&out.join("comparison.csv"), comparison)?;
    let (a, b) = (comparison.a.path(), comparison.b.path());
    // A run compared with itself has only one folder.
    if a.canonicalize().ok() == b.canonicalize().ok() {
        return Ok(0);
    }
    let inputs = Inputs::open(&[a, b])?;
    let options = plot::Options { title: Some(comparison.a.scenario().to_string()), ..plot::Options::default() };
    let points: BTreeSet<&str> = comparison.places.iter().map(|place| place.point.as_str()).collect();
    let mut files = 0;
    for point in points {
        if let Some(canvas) = plot::compared_cdf(&inputs, point, &options)? {
            files += plot::write(canvas, &options.formats, &out.join(format!("{PICTURE}{point}")))?.files.len();
        }
    }
    Ok(files)
}
