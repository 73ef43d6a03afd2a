//! Figures, drawn from result files only.
//!
//! A figure is a list of marks ([`canvas`]), drawn by the function of its [`Kind`] and rendered to SVG and PNG
//! ([`render`]). A new kind is a file with a function, and a line in [`Kind`] and in [`Kind::drawn`].

pub mod axis;
pub mod canvas;
pub mod input;
pub mod legend;
pub mod panel;
pub mod remark;
pub mod render;
pub mod style;

mod bars;
mod batch_histogram;
mod cdf;
mod curves;
mod gantt;
mod latency_steps;
mod length_cdf;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::files::{folder_name, write_whole};
use crate::results::columns::{Metric, about, name_of};
use crate::units::Nanos;
pub use bars::{Bar, Bars};
use canvas::Canvas;
pub use cdf::compared as compared_cdf;
pub use input::Inputs;
pub use remark::Stated;

/// The kinds of figures, in the order in which they are drawn if none is chosen. A kind's name is that on the command
/// line, in scenarios and of its files; its comment is its caption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    // BatchMaker, Figures 7, 8, 11, 13, 14 and 15.
    /// 90th percentile of latency against delivered throughput, with whiskers from the median to the 99th
    LatencyThroughput,
    // Late Batching, Figures 3 and 6.
    /// median of latency against delivered throughput
    P50Throughput,
    // Late Batching, Figures 4 and 7.
    /// 99th percentile of latency against delivered throughput
    P99Throughput,
    // Late Batching, Figure 5.
    /// delivered throughput against offered rate
    ThroughputRate,
    /// 99th percentile of latency against offered rate, with the SLO
    LatencyRate,
    /// 99th percentile of the time to the first token against offered rate
    TtftRate,
    // Sarathi-Serve, Figure 1.
    /// 99th percentile of the time between tokens against offered rate
    TbtRate,
    // Orca, Figure 10; vLLM, Figure 12.
    /// latency by output token against offered rate
    NormalisedRate,
    /// goodput against offered rate
    Goodput,
    // BatchMaker, Figure 9a.
    /// distribution of the time from arrival to the first task
    QueueCdf,
    // BatchMaker, Figure 9b.
    /// distribution of the time from the first task to the end
    ComputeCdf,
    /// distribution of the time from arrival to the end
    LatencyCdf,
    // BatchMaker, Figure 10.
    /// distribution of request lengths
    LengthCdf,
    /// share of the executed cells by batch size
    BatchHistogram,
    // DVABatch, Figures 14 and 16.
    /// mean latency by load in groups of bars, with whiskers to the 99th percentile
    Bars,
    // DVABatch, Figure 15.
    /// latency in the order of the requests under a stepping load
    LatencySteps,
    // BatchMaker, Figure 5.
    /// the schedule: a row for each request and each worker
    Gantt,
}

/// Those that can have a swept key on the x axis.
pub const BY_KEY: &[Kind] = &[Kind::LatencyRate, Kind::ThroughputRate, Kind::Goodput, Kind::Bars];

impl Kind {
    pub fn drawn(self, inputs: &Inputs, options: &Options) -> Drawing {
        if options.x.is_some() && !BY_KEY.contains(&self) {
            return Err(nothing("--x is for throughput-rate, latency-rate, goodput and bars"));
        }
        match self {
            Kind::LatencyThroughput => curves::against_throughput(Metric::P90, inputs, options),
            Kind::P50Throughput => curves::against_throughput(Metric::P50, inputs, options),
            Kind::P99Throughput => curves::against_throughput(Metric::P99, inputs, options),
            Kind::ThroughputRate => curves::throughput(inputs, options),
            Kind::LatencyRate => curves::latency(Metric::P99, "p99 latency (ms)", inputs, options),
            Kind::TtftRate => curves::latency(Metric::TtftP99, "p99 time to first token (ms)", inputs, options),
            Kind::TbtRate => curves::latency(Metric::TbtP99, "p99 time between tokens (ms)", inputs, options),
            Kind::NormalisedRate => {
                curves::latency(Metric::Normalised, "Latency / output tokens (ms)", inputs, options)
            }
            Kind::Goodput => curves::goodput(inputs, options),
            Kind::QueueCdf => cdf::times("Queueing time", |[from, start, _]| start.checked_sub(from), inputs, options),
            Kind::ComputeCdf => cdf::times("Computation time", |[_, start, to]| to.checked_sub(start), inputs, options),
            Kind::LatencyCdf => cdf::times("Latency", cdf::latency, inputs, options),
            Kind::LengthCdf => length_cdf::lengths(inputs, options),
            Kind::BatchHistogram => batch_histogram::histogram(inputs, options),
            Kind::Bars => bars::by_load(inputs, options),
            Kind::LatencySteps => latency_steps::by_request(inputs, options),
            Kind::Gantt => gantt::schedules(inputs, options),
        }
    }

    pub fn about(self) -> String {
        about(&self)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name_of(self))
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        <Kind as ValueEnum>::from_str(text, false).map_err(|_| {
            let known: Vec<String> = Kind::value_variants().iter().map(Kind::to_string).collect();
            format!("unknown kind of figure \"{text}\"; known: {}", known.join(", "))
        })
    }
}

impl Options {
    /// Of the files of a kind: its name, with a swept key on the x axis also that.
    pub fn stem(&self, kind: Kind) -> String {
        self.x.as_ref().map_or(kind.to_string(), |key| folder_name(&format!("{kind}-by-{key}")))
    }

    /// What the figure shows.
    pub fn caption(&self, kind: Kind) -> String {
        let about = kind.about();
        let by_load = [" against offered rate", " by load"].into_iter().find(|by| about.contains(by));
        match (&self.x, by_load) {
            (Some(key), Some(by_load)) => about.replace(by_load, &format!(" against {key}")),
            _ => about,
        }
    }
}

/// The files of a figure.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Scalable, for papers
    Svg,
    /// Pixels, for slides and web pages
    Png,
    /// Both
    Both,
}

#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// Title of the figure
    #[arg(long)]
    pub title: Option<String>,
    /// Draw only these policies, by their labels
    #[arg(long, value_name = "A,B")]
    pub policies: Vec<String>,
    /// Point whose requests are shown: a rate, or a folder's name such as `trace` [default: the highest rate that saturates no
    /// policy, but for policies that are saturated at every rate]
    #[arg(long)]
    pub point: Option<String>,
    /// Swept key on the x axis of throughput-rate, latency-rate, goodput and bars, such as device.workers or max_batch
    #[arg(long, value_name = "KEY")]
    pub x: Option<String>,
    /// Latency objective with its unit, such as 100ms, drawn as a line in latency-rate [default: the scenario's]
    #[arg(long, value_parser = Nanos::parse)]
    pub slo: Option<Nanos>,
    /// Use a linear axis for latency instead of a logarithmic one
    #[arg(long)]
    pub linear: bool,
    /// Draw tails (1 - CDF on a logarithmic axis) instead of distributions
    #[arg(long)]
    pub tail: bool,
    /// Draw only the first N requests of a schedule
    #[arg(long, value_name = "N")]
    pub first: Option<usize>,
    /// Draw bars from p50 to p99 in latency-throughput [default: with at most 4 policies]
    #[arg(long, conflicts_with = "no_bars")]
    pub bars: bool,
    /// Draw no bars from p50 to p99 in latency-throughput
    #[arg(long)]
    pub no_bars: bool,
    /// Picture format
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Values of a paper.
    #[arg(skip)]
    pub stated: Vec<Stated>,
}

/// The letters of title, policies and inputs that the figures' font lacks, each once. A PNG has boxes in their place;
/// an SVG depends on its viewer.
pub fn missing_letters(inputs: &Inputs, options: &Options) -> String {
    let mut missing = String::new();
    for letter in options.title.iter().chain(&inputs.names()).flat_map(|text| text.chars()) {
        if !render::has(letter) && !missing.contains(letter) {
            missing.push(letter);
        }
    }
    missing
}

#[derive(Debug)]
pub enum Undrawn {
    /// Well-formed inputs lack the data: the reason and, if there is one, the way out.
    Nothing(String),
    /// Broken inputs, or an unknown policy or point.
    Broken(Error),
}

impl From<Error> for Undrawn {
    fn from(error: Error) -> Undrawn {
        Undrawn::Broken(error)
    }
}

impl Undrawn {
    /// For a user who asked for the figure.
    fn error(self, kind: Kind) -> Error {
        match self {
            Undrawn::Nothing(why) => Error::input(format!("{kind}: {why}")),
            Undrawn::Broken(error) => error,
        }
    }
}

fn nothing(why: impl Into<String>) -> Undrawn {
    Undrawn::Nothing(why.into())
}

pub type Drawing = Result<Canvas, Undrawn>;

/// A figure and its files.
#[derive(Clone, Debug)]
pub struct Figure {
    pub canvas: Canvas,
    pub files: Vec<PathBuf>,
}

/// As [`write()`]; inputs without the data are an error.
pub fn draw(kind: Kind, inputs: &Inputs, options: &Options, stem: &Path) -> Result<Figure> {
    let canvas = kind.drawn(inputs, options).map_err(|undrawn| undrawn.error(kind))?;
    write(canvas, options.format, stem)
}

/// Every kind that has data, as `FOLDER/KIND.svg` and `.png`. If none has, the error gives the reason for each.
pub fn draw_all(inputs: &Inputs, options: &Options, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut drawn = Vec::new();
    let mut reasons = String::new();
    for kind in Kind::value_variants() {
        match kind.drawn(inputs, options) {
            Ok(canvas) => drawn.push((options.stem(*kind), canvas)),
            Err(Undrawn::Nothing(why)) => reasons += &format!("\n  {kind}: {why}"),
            Err(Undrawn::Broken(error)) => return Err(error),
        }
    }
    if drawn.is_empty() {
        return Err(Error::input(format!("there is nothing to draw{reasons}")));
    }
    // After all are drawn: an error leaves no partial set.
    let mut files = Vec::new();
    for (name, canvas) in drawn {
        files.extend(write(canvas, options.format, &folder.join(name))?.files);
    }
    Ok(files)
}

/// As `STEM.svg` and `STEM.png` unless one of them is asked for.
pub fn write(canvas: Canvas, format: Option<Format>, stem: &Path) -> Result<Figure> {
    type Picture = fn(&Canvas) -> Result<Vec<u8>>;
    let formats: [(_, _, Picture); 2] =
        [("svg", Format::Png, |canvas| Ok(render::svg(canvas)?.into_bytes())), ("png", Format::Svg, render::png)];
    let mut files = Vec::new();
    for (extension, _, picture) in formats.into_iter().filter(|(_, other, _)| format != Some(*other)) {
        let bytes = picture(&canvas)?;
        // A stem may contain a dot.
        let mut path = stem.as_os_str().to_owned();
        path.push(format!(".{extension}"));
        let path = PathBuf::from(path);
        write_whole(&path, |out| out.write_all(&bytes))?;
        files.push(path);
    }
    Ok(Figure { canvas, files })
}

#[cfg(test)]
mod tests;
