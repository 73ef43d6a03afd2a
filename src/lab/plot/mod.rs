//! Figures, drawn from result files only.
//!
//! A figure is a list of marks ([`canvas`]), drawn by the function of its [`FigureKind`] and rendered to SVG and PNG
//! ([`render`]). A new kind is a file with a function, and a line in [`FigureKind`] and in [`FigureKind::drawn`].

pub mod axis;
pub mod canvas;
pub mod data;
pub mod face;
pub mod input;
pub mod layout;
pub mod legend;
pub mod look;
pub mod names;
pub mod panel;
pub mod remark;
pub mod render;
pub mod sheet;
pub mod style;

mod bars;
mod batch_histogram;
mod cdf;
mod curves;
mod gantt;
mod heat_map;
mod latency_steps;
mod length_cdf;
mod lines;
mod pdf;
mod points;
mod searched;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Result};
use crate::base::files::{folder_name, write_whole};
use crate::base::units::Nanos;
use crate::lab::results::columns::{Metric, about, name_of};
use crate::lab::results::sweep_keys::distinct;
use axis::{Axis, Spread};
pub use bars::{Bar, Bars};
use canvas::Canvas;
pub use cdf::compared as compared_cdf;
use face::Face;
pub use input::PlotInputs;
use look::Length;
pub use look::{Look, PictureFormat};
pub use remark::Stated;
use sheet::Sheet;

/// The kinds of figures, in the order in which they are drawn if none is chosen. A kind's name is that on the command
/// line, in scenarios and of its files; its comment is its caption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    // BatchMaker, Figures 7, 8, 11, 13, 14 and 15.
    /// 90th percentile of latency against delivered throughput, with lines from the median to the 99th
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
    /// mean latency by load in groups of bars, with lines to the 99th percentile
    Bars,
    // DVABatch, Figure 15.
    /// latency in the order of the requests under a stepping load
    LatencySteps,
    // BatchMaker, Figure 5.
    /// the schedule: a row for each request and each worker
    Gantt,
    /// a metric over two swept keys
    HeatMap,
    /// highest rate that holds the objective, as find-knee has found it, by policy or over a swept key
    Knee,
    /// fewest workers that hold the objective, as find-workers has found them, by policy or over a swept key
    Workers,
    /// what tune has found over one of its keys
    Tune,
}

/// Those that can have a swept key on the x axis.
pub const BY_KEY: &[FigureKind] = &[
    FigureKind::LatencyRate,
    FigureKind::ThroughputRate,
    FigureKind::Goodput,
    FigureKind::Bars,
];

/// Those of logs that tell no classes apart.
const WHOLE: &[FigureKind] = &[
    FigureKind::LengthCdf,
    FigureKind::BatchHistogram,
    FigureKind::LatencySteps,
    FigureKind::Gantt,
];

/// Those that are about swept keys.
pub const OF_KEYS: &[FigureKind] = &[
    FigureKind::HeatMap,
    FigureKind::Knee,
    FigureKind::Workers,
    FigureKind::Tune,
];

impl FigureKind {
    pub fn drawn(self, inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
        let options = &options.ready(inputs)?;
        options.fits(self.draw(inputs, options)?)
    }

    fn draw(self, inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
        if options.x.is_some() && !BY_KEY.contains(&self) && !OF_KEYS.contains(&self) {
            let known: Vec<String> = BY_KEY
                .iter()
                .chain(OF_KEYS)
                .map(FigureKind::to_string)
                .collect();
            return Err(nothing(format!("--x is for {}", known.join(", "))));
        }
        if options.by_class && (OF_KEYS.contains(&self) || WHOLE.contains(&self)) {
            return Err(nothing(
                "--by-class is for figures of summaries and for distributions of times",
            ));
        }
        match self {
            FigureKind::LatencyThroughput => {
                curves::against_throughput(Metric::P90, inputs, options)
            }
            FigureKind::P50Throughput => curves::against_throughput(Metric::P50, inputs, options),
            FigureKind::P99Throughput => curves::against_throughput(Metric::P99, inputs, options),
            FigureKind::ThroughputRate => curves::throughput(inputs, options),
            FigureKind::LatencyRate => {
                curves::latency(Metric::P99, "p99 latency (ms)", inputs, options)
            }
            FigureKind::TtftRate => curves::latency(
                Metric::TtftP99,
                "p99 time to first token (ms)",
                inputs,
                options,
            ),
            FigureKind::TbtRate => curves::latency(
                Metric::TbtP99,
                "p99 time between tokens (ms)",
                inputs,
                options,
            ),
            FigureKind::NormalisedRate => curves::latency(
                Metric::Normalised,
                "Latency / output tokens (ms)",
                inputs,
                options,
            ),
            FigureKind::Goodput => curves::goodput(inputs, options),
            FigureKind::QueueCdf => cdf::times(
                "Queueing time",
                |[from, start, _]| start.checked_sub(from),
                inputs,
                options,
            ),
            FigureKind::ComputeCdf => cdf::times(
                "Computation time",
                |[_, start, to]| to.checked_sub(start),
                inputs,
                options,
            ),
            FigureKind::LatencyCdf => cdf::times("Latency", cdf::latency, inputs, options),
            FigureKind::LengthCdf => length_cdf::lengths(inputs, options),
            FigureKind::BatchHistogram => batch_histogram::histogram(inputs, options),
            FigureKind::Bars => bars::by_load(inputs, options),
            FigureKind::LatencySteps => latency_steps::by_request(inputs, options),
            FigureKind::Gantt => gantt::schedules(inputs, options),
            FigureKind::HeatMap => heat_map::over_two_keys(inputs, options),
            FigureKind::Knee => searched::KNEE.drawn(inputs, options),
            FigureKind::Workers => searched::WORKERS.drawn(inputs, options),
            FigureKind::Tune => searched::TUNE.drawn(inputs, options),
        }
    }

    pub fn about(self) -> String {
        about(&self)
    }
}

impl fmt::Display for FigureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name_of(self))
    }
}

impl FromStr for FigureKind {
    type Err = String;

    fn from_str(text: &str) -> Result<FigureKind, String> {
        <FigureKind as ValueEnum>::from_str(text, false).map_err(|_| {
            let known: Vec<String> = FigureKind::value_variants()
                .iter()
                .map(FigureKind::to_string)
                .collect();
            format!(
                "unknown kind of figure \"{text}\"; known: {}",
                known.join(", ")
            )
        })
    }
}

impl PlotOptions {
    /// Of the files of a kind: its name, with a swept key on the x axis also that.
    pub fn stem(&self, kind: FigureKind) -> String {
        self.x.as_ref().map_or(kind.to_string(), |key| {
            folder_name(&format!("{kind}-by-{key}"))
        })
    }

    /// What the figure shows.
    pub fn caption(&self, kind: FigureKind, canvas: &Canvas) -> String {
        let replicated = canvas
            .data
            .iter()
            .any(|datum| datum.interval == data::OF_REPLICATIONS);
        self.about(kind)
            + if replicated {
                "; whiskers with caps are 95 % intervals over replications"
            } else {
                ""
            }
    }

    fn about(&self, kind: FigureKind) -> String {
        let about = kind.about();
        let by_load = [" against offered rate", " by load"]
            .into_iter()
            .find(|by| about.contains(by));
        match (&self.x, by_load) {
            (Some(key), Some(by_load)) => about.replace(by_load, &format!(" against {key}")),
            _ => about,
        }
    }
}

#[derive(Clone, Debug, Default, clap::Args)]
pub struct PlotOptions {
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
    /// Swept key on the x axis of throughput-rate, latency-rate, goodput, bars, heat-map, knee, workers and tune, such as
    /// device.workers or max_batch
    #[arg(long, value_name = "KEY")]
    pub x: Option<String>,
    /// Swept key on the y axis of heat-map
    #[arg(long, value_name = "KEY")]
    pub y: Option<String>,
    /// Value of heat-map: a column of summary.csv, knee_rps or workers [default: p99_ms, or what a search has found]
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
    /// Show each class of requests (classes.csv) as a series of its own
    #[arg(long)]
    pub by_class: bool,
    /// Latency objective with its unit, such as 100ms, drawn as a line in latency-rate [default: the scenario's]
    #[arg(long, value_parser = Nanos::parse)]
    pub slo: Option<Nanos>,
    /// Use a linear axis for latency instead of a logarithmic one: short for --y-scale linear
    #[arg(long, conflicts_with = "y_scale")]
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
    /// Give each results folder a panel of its own, beside each other where there is room
    #[arg(long)]
    pub panels: bool,
    #[command(flatten)]
    pub look: Look,
    /// The look's font, once it is read.
    #[arg(skip)]
    pub face: Face,
    /// Values of a paper.
    #[arg(skip)]
    pub stated: Vec<Stated>,
}

impl PlotOptions {
    /// The options with the font read. Labels have to be of policies and folders that there are.
    fn ready(&self, inputs: &PlotInputs) -> Result<PlotOptions> {
        let face = self
            .look
            .font
            .as_deref()
            .map_or(Ok(self.face.clone()), Face::of)?;
        let all = PlotOptions {
            look: Look {
                label: Vec::new(),
                ..self.look.clone()
            },
            ..self.clone()
        };
        let mut known = inputs.names();
        known.extend(
            inputs
                .series(&all)
                .unwrap_or_default()
                .into_iter()
                .map(|series| series.name),
        );
        let look = self.look.with_labels(&distinct(known))?;
        Ok(PlotOptions {
            look,
            face,
            ..self.clone()
        })
    }

    fn sheet(&self) -> Sheet {
        Sheet::of(&self.look, self.face.clone())
    }

    /// The options of a figure with panels, where equal policies of several folders have one label and one style.
    fn in_panels(&self) -> PlotOptions {
        PlotOptions {
            panels: true,
            ..self.clone()
        }
    }

    /// Whether latency-throughput has bars from p50 to p99.
    fn has_bars(&self, default: bool) -> bool {
        self.bars || !self.no_bars && self.look.bars.unwrap_or(default)
    }

    /// How latencies are spread on the y axis.
    fn spread(&self) -> Option<Spread> {
        if self.linear {
            Some(Spread::Linear)
        } else {
            self.look.y_scale.map(Spread::from)
        }
    }

    /// Axes with the labels, spreads and ends that are asked for. `least`: the least values above 0.
    fn asked(&self, axes: [Axis; 2], least: [f64; 2]) -> Result<[Axis; 2], Undrawn> {
        self.asked_of(axes, self.spread(), least)
    }

    /// The axes as [`PlotOptions::asked`] makes them, with this spread of the y axis.
    fn asked_of(
        &self,
        [x, y]: [Axis; 2],
        spread: Option<Spread>,
        least: [f64; 2],
    ) -> Result<[Axis; 2], Undrawn> {
        let look = &self.look;
        let named = |mut axis: Axis, name| {
            if look.name(name) != name {
                axis.label = look.name(name).into();
            }
            axis
        };
        let x_scale = look.x_scale.map(Spread::from);
        let x = named(x, "x").asked(["--x-scale", "--x-range"], x_scale, look.x_range, least[0]);
        let y = named(y, "y").asked(["--y-scale", "--y-range"], spread, look.y_range, least[1]);
        Ok([x.map_err(Error::input)?, y.map_err(Error::input)?])
    }

    /// Fails if the figure is larger than its sheet.
    fn fits(&self, canvas: Canvas) -> Result<Canvas, Undrawn> {
        let sheet = &canvas.sheet;
        let sides = [
            ("width", sheet.width, canvas.width),
            (
                "height",
                sheet.height.unwrap_or(canvas.height),
                canvas.height,
            ),
        ];
        match sides.into_iter().find(|(_, given, needed)| needed > given) {
            None => Ok(canvas),
            Some((side, given, needed)) => {
                let [given, needed] =
                    [given, needed].map(|side| Length((side * sheet.unit).ceil()));
                let way = "give more, a smaller --font-size, or --legend none";
                Err(Error::input(format!(
                    "--{side}: {given} is too little for this figure, which needs {needed}; {way}"
                ))
                .into())
            }
        }
    }
}

/// The letters of title, policies and inputs that the figures' font lacks, each once. A PNG and a PDF have boxes in their
/// place; an SVG depends on its viewer.
pub fn missing_letters(inputs: &PlotInputs, options: &PlotOptions) -> Result<String> {
    let face = options
        .look
        .font
        .as_deref()
        .map_or(Ok(options.face.clone()), Face::of)?;
    let mut missing = String::new();
    let labels = options.look.label.iter().map(|(_, text)| text);
    for letter in options
        .title
        .iter()
        .chain(labels)
        .chain(&inputs.names())
        .flat_map(|text| text.chars())
    {
        if !face.has(letter) && !missing.contains(letter) {
            missing.push(letter);
        }
    }
    Ok(missing)
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
    fn error(self, kind: FigureKind) -> Error {
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
pub struct WrittenFigure {
    /// The files' name without a folder and an ending.
    pub name: String,
    pub canvas: Canvas,
    pub files: Vec<PathBuf>,
}

/// As [`write()`]; inputs without the data are an error.
pub fn draw(
    kind: FigureKind,
    inputs: &PlotInputs,
    options: &PlotOptions,
    stem: &Path,
) -> Result<WrittenFigure> {
    let canvas = kind
        .drawn(inputs, options)
        .map_err(|undrawn| undrawn.error(kind))?;
    write(canvas, &options.look.format, stem)
}

/// Every kind that has data, as `FOLDER/KIND.svg` and so on. If none has, the error gives the reason for each.
pub fn draw_all(
    inputs: &PlotInputs,
    options: &PlotOptions,
    folder: &Path,
) -> Result<Vec<WrittenFigure>> {
    let mut drawn = Vec::new();
    let mut reasons = String::new();
    for kind in FigureKind::value_variants() {
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
    drawn
        .into_iter()
        .map(|(name, canvas)| write(canvas, &options.look.format, &folder.join(name)))
        .collect()
}

/// Writes the figure as `STEM.svg` and `STEM.png`, unless other formats are asked for.
pub fn write(canvas: Canvas, formats: &[PictureFormat], stem: &Path) -> Result<WrittenFigure> {
    let mut files = Vec::new();
    for format in PictureFormat::all(formats) {
        let bytes = match format {
            PictureFormat::Png => render::png(&canvas)?,
            PictureFormat::Pdf => pdf::pdf(&canvas)?,
            PictureFormat::Svg | PictureFormat::Both => render::svg(&canvas)?.into_bytes(),
        };
        // A stem may contain a dot.
        let mut path = stem.as_os_str().to_owned();
        path.push(format!(".{}", format.extension()));
        let path = PathBuf::from(path);
        write_whole(&path, |out| out.write_all(&bytes))?;
        files.push(path);
    }
    let name = stem
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Ok(WrittenFigure {
        name,
        canvas,
        files,
    })
}

#[cfg(test)]
mod tests;
