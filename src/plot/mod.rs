//! Figures, drawn from result files alone.
//!
//! A figure is a list of marks in units ([`canvas`]), made by the file of its kind and rendered to SVG and PNG
//! ([`render`]). A kind is one file and one line in [`KINDS`].

pub mod axis;
pub mod bars;
pub mod canvas;
pub mod cdf;
pub mod compared_cdf;
pub mod font;
pub mod input;
pub mod panel;
mod panels;
pub mod render;
pub mod style;

mod batch_histogram;
mod by_rate;
mod gantt;
mod goodput;
mod latency_rate;
mod latency_steps;
mod latency_throughput;
mod length_cdf;
mod request_cdf;
mod throughput_rate;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::files::write_whole;
use crate::units::Nanos;
use canvas::Canvas;
pub use input::Inputs;
use latency_throughput::Percentile;

/// A kind of figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub enum Kind {
    /// 90th percentile of latency against delivered throughput, with bars from the median to the 99th (BatchMaker,
    /// Figures 7, 8, 11, 13, 14 and 15).
    LatencyThroughput,
    /// Median of latency against delivered throughput (Late Batching, Figures 3 and 6).
    P50Throughput,
    /// 99th percentile of latency against delivered throughput (Late Batching, Figures 4 and 7).
    P99Throughput,
    /// Delivered throughput against offered rate (Late Batching, Figure 5).
    ThroughputRate,
    /// 99th percentile of latency against offered rate, with the SLO.
    LatencyRate,
    /// Goodput against offered rate.
    Goodput,
    /// Distribution of the time from arrival to the first task (BatchMaker, Figure 9a).
    QueueCdf,
    /// Distribution of the time from the first task to the end (BatchMaker, Figure 9b).
    ComputeCdf,
    /// Distribution of the time from arrival to the end.
    LatencyCdf,
    /// Distribution of request lengths (BatchMaker, Figure 10).
    LengthCdf,
    /// Share of the executed cells by batch size.
    BatchHistogram,
    /// Mean latency by load in groups of bars, with whiskers to the 99th percentile (DVABatch, Figures 14 and 16).
    Bars,
    /// Latency in the order of the requests under a stepping load (DVABatch, Figure 15).
    LatencySteps,
    /// The schedule: a row for each request and each worker (BatchMaker, Figure 5).
    Gantt,
}

/// The kinds and their names, in the order in which they are drawn when none is asked for.
pub const KINDS: [(Kind, &str); 14] = [
    (Kind::LatencyThroughput, "latency-throughput"),
    (Kind::P50Throughput, "p50-throughput"),
    (Kind::P99Throughput, "p99-throughput"),
    (Kind::ThroughputRate, "throughput-rate"),
    (Kind::LatencyRate, "latency-rate"),
    (Kind::Goodput, "goodput"),
    (Kind::QueueCdf, "queue-cdf"),
    (Kind::ComputeCdf, "compute-cdf"),
    (Kind::LatencyCdf, "latency-cdf"),
    (Kind::LengthCdf, "length-cdf"),
    (Kind::BatchHistogram, "batch-histogram"),
    (Kind::Bars, "bars"),
    (Kind::LatencySteps, "latency-steps"),
    (Kind::Gantt, "gantt"),
];

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = KINDS.iter().find(|(kind, _)| kind == self).map(|(_, name)| *name);
        f.write_str(name.expect("every kind has a name"))
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        KINDS.iter().find(|(_, name)| *name == text).map(|(kind, _)| *kind).ok_or_else(|| {
            let known = KINDS.map(|(_, name)| name).join(", ");
            format!("unknown kind of figure \"{text}\"; known: {known}")
        })
    }
}

impl TryFrom<String> for Kind {
    type Error = String;

    fn try_from(text: String) -> Result<Kind, String> {
        text.parse()
    }
}

/// A picture format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Scalable, for papers.
    Svg,
    /// Three pixels a unit, for slides and web pages.
    Png,
}

/// What can be chosen about a figure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The line above the figure.
    pub title: Option<String>,
    /// The formats that it is written in.
    pub formats: Vec<Format>,
    /// The policies that it shows, by their labels; all if there are none. One text may hold several with commas.
    pub policies: Vec<String>,
    /// The point whose requests it shows, by the name of its folder: a rate, or `trace`. Without: the highest rate that
    /// saturates no policy.
    pub point: Option<String>,
    /// The latency that is asked for; `latency-rate` draws a line there.
    pub slo: Option<Nanos>,
    /// Whether to draw the bars from the median to the 99th percentile in `latency-throughput`. Without: if there are at
    /// most four policies.
    pub bars: Option<bool>,
    /// Draws latency on a linear axis.
    pub linear: bool,
    /// Draws the share above instead of the share at or below, on a logarithmic axis.
    pub tail: bool,
    /// Draws only the first so many requests of a schedule.
    pub first: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            title: None,
            formats: vec![Format::Svg, Format::Png],
            policies: Vec::new(),
            point: None,
            slo: None,
            bars: None,
            linear: false,
            tail: false,
            first: None,
        }
    }
}

/// The letters of the title, the policies and the inputs' names that the figures' font does not have, each once. A PNG
/// has boxes in their place; what an SVG has depends on its viewer.
pub fn missing_letters(inputs: &Inputs, options: &Options) -> String {
    let mut missing = String::new();
    for letter in options.title.iter().chain(&inputs.names()).flat_map(|text| text.chars()) {
        if !font::has(letter) && !missing.contains(letter) {
            missing.push(letter);
        }
    }
    missing
}

/// Why a figure can't be drawn from inputs that are well-formed: the reason and, if there is one, the way out.
#[derive(Debug)]
pub struct Nothing(pub String);

/// A drawing, or the reason why there is none; the outer error is for inputs that are broken.
type Drawing = Result<Result<Canvas, Nothing>>;

/// Draws one figure and writes `STEM.svg` and `STEM.png`, or what [`Options::formats`] asks for. Gives the files.
///
/// # Errors
/// Inputs that are broken or don't hold what the figure shows, a policy or point that is not there, a file that can't be
/// written.
pub fn draw(kind: Kind, inputs: &Inputs, options: &Options, stem: &Path) -> Result<Vec<PathBuf>> {
    match drawing(kind, inputs, options)? {
        Ok(canvas) => write(&canvas, &options.formats, stem),
        Err(Nothing(why)) => Err(Error::input(format!("{kind}: {why}"))),
    }
}

/// Draws every kind of figure that the inputs have the data for, as `FOLDER/KIND.svg` and `.png`. Gives the files.
///
/// # Errors
/// As [`draw`]; and when there is no kind that can be drawn, with the reason for each.
pub fn draw_all(inputs: &Inputs, options: &Options, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut drawn = Vec::new();
    let mut reasons = Vec::new();
    for (kind, name) in KINDS {
        match drawing(kind, inputs, options)? {
            Ok(canvas) => drawn.push((name, canvas)),
            Err(Nothing(why)) => reasons.push(format!("\n  {name}: {why}")),
        }
    }
    if drawn.is_empty() {
        return Err(Error::input(format!("there is nothing to draw{}", reasons.concat())));
    }
    // Only now, so that an error leaves no part of the figures behind.
    let mut files = Vec::new();
    for (name, canvas) in drawn {
        files.extend(write(&canvas, &options.formats, &folder.join(name))?);
    }
    Ok(files)
}

fn drawing(kind: Kind, inputs: &Inputs, options: &Options) -> Drawing {
    match kind {
        Kind::LatencyThroughput => latency_throughput::figure(Percentile::P90, inputs, options),
        Kind::P50Throughput => latency_throughput::figure(Percentile::P50, inputs, options),
        Kind::P99Throughput => latency_throughput::figure(Percentile::P99, inputs, options),
        Kind::ThroughputRate => throughput_rate::figure(inputs, options),
        Kind::LatencyRate => latency_rate::figure(inputs, options),
        Kind::Goodput => goodput::figure(inputs, options),
        Kind::QueueCdf => request_cdf::figure(request_cdf::Span::Queue, inputs, options),
        Kind::ComputeCdf => request_cdf::figure(request_cdf::Span::Compute, inputs, options),
        Kind::LatencyCdf => request_cdf::figure(request_cdf::Span::Latency, inputs, options),
        Kind::LengthCdf => length_cdf::figure(inputs, options),
        Kind::BatchHistogram => batch_histogram::figure(inputs, options),
        Kind::Bars => bars::figure(inputs, options),
        Kind::LatencySteps => latency_steps::figure(inputs, options),
        Kind::Gantt => gantt::figure(inputs, options),
    }
}

/// Writes a drawing as `STEM.svg` and `STEM.png`, or in the formats that are asked for. Gives the files.
///
/// # Errors
/// A file that can't be written.
pub fn write(canvas: &Canvas, formats: &[Format], stem: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for format in formats {
        let (extension, bytes) = match format {
            Format::Svg => ("svg", render::svg(canvas)?.into_bytes()),
            Format::Png => ("png", render::png(canvas)?),
        };
        // Appended, because a stem may have a dot of its own.
        let mut path = stem.as_os_str().to_owned();
        path.push(format!(".{extension}"));
        let path = PathBuf::from(path);
        write_whole(&path, |out| out.write_all(&bytes))?;
        files.push(path);
    }
    Ok(files)
}

/// Takes the value, or gives up the drawing with the reason why there is none.
macro_rules! or_nothing {
    ($value:expr) => {
        match $value {
            Ok(value) => value,
            Err(nothing) => return Ok(Err(nothing)),
        }
    };
}
use or_nothing;

#[cfg(test)]
mod tests;
