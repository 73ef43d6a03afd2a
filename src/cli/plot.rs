//! `batchlab plot`: figures from results.

use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, ValueEnum};

use crate::error::{Error, Result};
use crate::plot::{Format, Inputs, Kind, Options, draw, draw_all};
use crate::units::Nanos;

/// Draw figures from results
///
/// Without --kind, draws every figure that the results have the data for. Without -o, figures go into the results
/// folder if there is one, otherwise into the current folder.
#[derive(ClapArgs, Clone, Debug)]
pub struct Args {
    /// Results folders (those with a summary.csv); for length-cdf, histograms of lengths or traces
    #[arg(required = true, value_name = "RESULTS")]
    pub results: Vec<PathBuf>,

    /// Kind of figure (repeatable): latency-throughput, latency-rate, goodput, queue-cdf, compute-cdf, latency-cdf,
    /// length-cdf, batch-histogram, gantt
    #[arg(long, value_parser = |text: &str| text.parse::<Kind>())]
    pub kind: Vec<Kind>,

    /// Point whose requests are shown: a rate, or a folder's name such as `trace`
    /// [default: the highest rate that saturates no policy]
    #[arg(long)]
    pub point: Option<String>,

    /// Only these policies, by their labels, with commas between them
    #[arg(long, value_name = "A,B")]
    pub policies: Vec<String>,

    /// Title above the figure
    #[arg(long)]
    pub title: Option<String>,

    /// Picture format
    #[arg(long, value_enum)]
    pub format: Option<Formats>,

    /// Where to write: a file's name with or without .svg or .png, or a folder
    #[arg(short, long, value_name = "STEM_OR_DIR")]
    pub output: Option<PathBuf>,

    /// Latency objective with its unit, such as 100ms: a line in latency-rate
    #[arg(long, value_parser = Nanos::parse)]
    pub slo: Option<Nanos>,

    /// Linear axis for latency instead of a logarithmic one
    #[arg(long)]
    pub linear: bool,

    /// Tails (1 - CDF on a logarithmic axis) instead of distributions
    #[arg(long)]
    pub tail: bool,

    /// Draw only the first N requests of a schedule
    #[arg(long, value_name = "N")]
    pub first: Option<usize>,
}

/// Which picture formats to write.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formats {
    /// Scalable, for papers
    Svg,
    /// Pixels, for slides and web pages
    Png,
    /// One of each
    Both,
}

/// Draws the figures and prints the names of the files.
///
/// # Errors
/// As [`draw`] and [`draw_all`].
pub fn run(args: Args) -> Result<()> {
    for file in written(&args)? {
        println!("{}", file.display());
    }
    Ok(())
}

fn written(args: &Args) -> Result<Vec<PathBuf>> {
    let inputs = Inputs::open(&args.results)?;
    let (place, named_format) = place(args, &inputs)?;
    let formats = match args.format.or(named_format) {
        Some(Formats::Svg) => vec![Format::Svg],
        Some(Formats::Png) => vec![Format::Png],
        Some(Formats::Both) | None => vec![Format::Svg, Format::Png],
    };
    let options = Options {
        title: args.title.clone(),
        formats,
        policies: args.policies.clone(),
        point: args.point.clone(),
        slo: args.slo,
        linear: args.linear,
        tail: args.tail,
        first: args.first,
    };
    match (args.kind.as_slice(), place) {
        ([kind], Place::Stem(stem)) => draw(*kind, &inputs, &options, &stem),
        ([], Place::Folder(folder)) => draw_all(&inputs, &options, &folder),
        (kinds, Place::Folder(folder)) => {
            let mut files = Vec::new();
            for kind in kinds {
                files.extend(draw(*kind, &inputs, &options, &folder.join(kind.to_string()))?);
            }
            Ok(files)
        }
        (_, Place::Stem(stem)) => {
            let stem = stem.display();
            Err(Error::input(format!(
                "-o {stem}: is one file's name, but there may be several figures; name one --kind"
            )))
        }
    }
}

/// Where figures go.
enum Place {
    /// One figure, under this name with the format's ending.
    Stem(PathBuf),
    /// Each under the name of its kind in this folder.
    Folder(PathBuf),
}

fn place(args: &Args, inputs: &Inputs) -> Result<(Place, Option<Formats>)> {
    let Some(output) = &args.output else {
        return Ok((Place::Folder(inputs.only_folder().unwrap_or(Path::new("")).to_path_buf()), None));
    };
    let format = match output.extension().and_then(|e| e.to_str()) {
        Some("svg") => Some(Formats::Svg),
        Some("png") => Some(Formats::Png),
        _ => None,
    };
    if output.is_dir() || output.to_string_lossy().ends_with('/') || (args.kind.len() != 1 && format.is_none()) {
        return Ok((Place::Folder(output.clone()), None));
    }
    match (format, args.format) {
        (None, _) => Ok((Place::Stem(output.clone()), None)),
        (Some(named), Some(asked)) if named != asked && asked != Formats::Both => {
            Err(Error::input(format!("-o {}: has another ending than --format asks for", output.display())))
        }
        (Some(_), _) => Ok((Place::Stem(output.with_extension("")), format)),
    }
}
