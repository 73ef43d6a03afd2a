//! `batchlab compare`: two runs of one trace beside each other.

use std::path::{Path, PathBuf};

use super::{Format, print, print_json};
use crate::error::Result;
use crate::plot::{self, Inputs};
use crate::validate::compare::{Comparison, compare, report};

/// Compare two runs of the same requests, such as a real one with a simulated one
///
/// For each policy and load that both have: latencies, throughput and batch sizes, by how many percent B differs from A,
/// and whether that is inside of the spread of A's repeated runs. Writes comparison.csv and, for each load, both
/// distributions of latency in one picture.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Results folder to compare with, such as results/cpu/NAME
    pub a: PathBuf,

    /// Results folder to compare, such as results/sim/NAME
    pub b: PathBuf,

    /// Folder for the table and the pictures [default: A/compare-OUT, with the folder's name in which B lies]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// How the table is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,

    /// No notes, only the table and errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// Compares the two.
///
/// # Errors
/// Results that are missing, broken, or of other requests; a file that can't be written.
pub fn run(args: &Args) -> Result<()> {
    let comparison = compare(&args.a, &args.b)?;
    let out = args.out.clone().unwrap_or_else(|| default_folder(&args.a, &args.b));
    report::write_csv(&out.join("comparison.csv"), &comparison)?;
    let figures = draw(&comparison, &out)?;
    match args.format {
        Format::Table => print(&report::table(&comparison))?,
        Format::Json => print_json(vec![report::to_json(&comparison)])?,
    }
    if !args.quiet {
        for note in &comparison.notes {
            eprintln!("{note}");
        }
        let without =
            if figures.is_empty() { "; no figures, for want of request logs (output.requests = true)" } else { "" };
        eprintln!("comparison in {}{without}", out.display());
    }
    Ok(())
}

/// In the folder of A, by where B lies.
fn default_folder(a: &Path, b: &Path) -> PathBuf {
    // Resolved, because `.` and a relative name have no parent to be named after.
    let full = b.canonicalize().unwrap_or_else(|_| b.to_path_buf());
    let parent = full.parent().and_then(Path::file_name).map_or("results".into(), |name| name.to_string_lossy());
    a.join(format!("compare-{parent}"))
}

/// A picture for each point.
fn draw(comparison: &Comparison, out: &Path) -> Result<Vec<PathBuf>> {
    let (a, b) = (comparison.a.path(), comparison.b.path());
    // A run that is compared with itself has one folder, and nothing to be drawn over.
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
