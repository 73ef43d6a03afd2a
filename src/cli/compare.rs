//! `batchlab compare`.

use std::path::{Path, PathBuf};

use super::Format;
use crate::error::Result;
use crate::plot::{self, Inputs};
use crate::validate::compare::{Comparison, compare, report};

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
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// How the table is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,

    /// Print only the table and errors, without notes
    #[arg(long, short)]
    pub quiet: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let comparison = compare(&args.a, &args.b)?;
    let out = args.out.clone().unwrap_or_else(|| default_folder(&args.a, &args.b));
    report::write_csv(&out.join("comparison.csv"), &comparison)?;
    let figures = draw(&comparison, &out)?;
    args.format.show(|| report::table(&comparison), || report::to_json(&comparison))?;
    if !args.quiet {
        for note in &comparison.notes {
            eprintln!("{note}");
        }
        let without =
            if figures.is_empty() { "; no figures without request logs (output.requests = true)" } else { "" };
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

fn draw(comparison: &Comparison, out: &Path) -> Result<Vec<PathBuf>> {
    let (a, b) = (comparison.a.path(), comparison.b.path());
    // A run compared with itself has only one folder.
    if a.canonicalize().ok() == b.canonicalize().ok() {
        return Ok(Vec::new());
    }
    let inputs = Inputs::open(&[a, b])?;
    let options = plot::Options { title: Some(comparison.a.scenario().to_string()), ..plot::Options::default() };
    let mut points: Vec<&str> = Vec::new();
    for place in &comparison.places {
        if !points.contains(&place.point.as_str()) {
            points.push(&place.point);
        }
    }
    let mut files = Vec::new();
    for point in points {
        files.extend(plot::draw_compared_cdf(&inputs, point, &options, &out.join(format!("latency-cdf-{point}")))?);
    }
    Ok(files)
}
