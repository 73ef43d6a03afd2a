//! Figures, drawn from result files only.
//!
//! A figure is a list of marks ([`canvas`]), drawn by the function of its [`FigureKind`] and rendered to SVG, PNG and
//! PDF ([`render`], `pdf`). A new kind is a file with a function, a line in [`FigureKind`] and one in its
//! `draw_unchecked`.

pub mod style;

pub mod axis;
pub mod data;
pub mod face;
pub mod kind;
pub mod look;
pub mod sheet;

pub mod canvas;
pub mod dot;
mod shapes;
mod undrawn;

pub mod legend;
pub mod panel;
pub mod remark;

pub mod names;
pub mod options;

pub mod layout;

mod search_file;

pub mod folder;
pub mod points;

pub mod input;

mod chart;
mod lines;

mod bars;
mod batch_histogram;
mod curves;
mod distribution;
mod gantt;
mod heat_map;
mod latency_steps;
mod searched;

mod cdf;

mod length_cdf;

mod pdf;
pub mod render;

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::base::error::{Error, Result};
use crate::base::files::write_whole;
use crate::lab::results::columns::Metric;
use canvas::Canvas;
use cdf::RequestTimes;
pub use cdf::compare_cdfs;
pub use chart::{Bar, Bars};
pub use input::PlotInputs;
use kind::WITHOUT_CLASSES;
pub use kind::{BY_KEY, FigureKind, OF_KEYS};
pub use look::{Look, PictureFormat};
pub use options::PlotOptions;
pub use remark::Stated;
use undrawn::nothing;
pub use undrawn::{Drawing, Undrawn};

impl FigureKind {
    /// Draws a figure of this kind.
    pub fn draw(self, inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
        let options = inputs.resolve(options)?;
        let canvas = self.draw_unchecked(inputs, &options)?;
        options.check_size(&canvas)?;
        Ok(canvas)
    }

    /// Draws a figure with options that are resolved. The figure may be larger than its sheet.
    fn draw_unchecked(self, inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
        if options.x.is_some() && !BY_KEY.contains(&self) && !OF_KEYS.contains(&self) {
            let known = FigureKind::list(BY_KEY.iter().chain(OF_KEYS));
            return Err(nothing(format!("--x is for {known}")));
        }
        if options.by_class && (OF_KEYS.contains(&self) || WITHOUT_CLASSES.contains(&self)) {
            return Err(nothing(
                "--by-class is for figures of summaries and for distributions of times",
            ));
        }
        match self {
            FigureKind::LatencyThroughput => {
                curves::draw_against_throughput(Metric::P90, inputs, options)
            }
            FigureKind::P50Throughput => {
                curves::draw_against_throughput(Metric::P50, inputs, options)
            }
            FigureKind::P99Throughput => {
                curves::draw_against_throughput(Metric::P99, inputs, options)
            }
            FigureKind::ThroughputRate => curves::draw_throughput(inputs, options),
            FigureKind::LatencyRate => {
                curves::draw_latency(Metric::P99, "p99 latency (ms)", inputs, options)
            }
            FigureKind::TtftRate => {
                let label = "p99 time to first token (ms)";
                curves::draw_latency(Metric::TtftP99, label, inputs, options)
            }
            FigureKind::TbtRate => {
                let label = "p99 time between tokens (ms)";
                curves::draw_latency(Metric::TbtP99, label, inputs, options)
            }
            FigureKind::NormalisedRate => {
                let label = "Latency / output tokens (ms)";
                curves::draw_latency(Metric::Normalised, label, inputs, options)
            }
            FigureKind::Goodput => curves::draw_goodput(inputs, options),
            FigureKind::QueueCdf => {
                cdf::draw_times("Queueing time", RequestTimes::queueing, inputs, options)
            }
            FigureKind::ComputeCdf => {
                let name = "Computation time";
                cdf::draw_times(name, RequestTimes::computation, inputs, options)
            }
            FigureKind::LatencyCdf => {
                cdf::draw_times("Latency", RequestTimes::latency, inputs, options)
            }
            FigureKind::LengthCdf => length_cdf::draw_lengths(inputs, options),
            FigureKind::BatchHistogram => batch_histogram::draw_histogram(inputs, options),
            FigureKind::Bars => bars::draw_by_load(inputs, options),
            FigureKind::LatencySteps => latency_steps::draw_by_request(inputs, options),
            FigureKind::Gantt => gantt::draw_schedules(inputs, options),
            FigureKind::HeatMap => heat_map::draw_heat_map(inputs, options),
            FigureKind::Knee => search_file::KNEE.draw(inputs, options),
            FigureKind::Workers => search_file::WORKERS.draw(inputs, options),
            FigureKind::Tune => search_file::TUNE.draw(inputs, options),
        }
    }
}

/// The letters of title, policies and inputs that the figures' font lacks, each once. A PNG and a PDF have boxes in
/// their place; an SVG depends on its viewer.
pub fn missing_letters(inputs: &PlotInputs, options: &PlotOptions) -> Result<String> {
    let face = options.read_face()?;
    let mut texts: Vec<String> = Vec::new();
    texts.extend(options.title.clone());
    texts.extend(options.look.label.iter().map(|(_, text)| text.clone()));
    texts.extend(inputs.names());
    let mut missing = String::new();
    for letter in texts.iter().flat_map(|text| text.chars()) {
        if !face.has(letter) && !missing.contains(letter) {
            missing.push(letter);
        }
    }
    Ok(missing)
}

/// A figure and its files.
#[derive(Clone, Debug)]
pub struct WrittenFigure {
    /// The files' name without a folder and an ending.
    pub name: String,
    pub canvas: Canvas,
    pub files: Vec<PathBuf>,
}

/// Draws a figure of a kind and writes it as [`write()`] does. Inputs without the data are an error.
pub fn draw(
    kind: FigureKind,
    inputs: &PlotInputs,
    options: &PlotOptions,
    stem: &Path,
) -> Result<WrittenFigure> {
    let canvas = kind
        .draw(inputs, options)
        .map_err(|undrawn| undrawn.error(kind))?;
    write(canvas, &options.look.format, stem)
}

/// Draws every kind that has data, as `FOLDER/KIND.svg` and so on. If none has, the error gives the reason for each.
pub fn draw_all(
    inputs: &PlotInputs,
    options: &PlotOptions,
    folder: &Path,
) -> Result<Vec<WrittenFigure>> {
    let mut canvases = Vec::new();
    let mut reasons = String::new();
    for kind in FigureKind::value_variants() {
        match kind.draw(inputs, options) {
            Ok(canvas) => canvases.push((options.stem(*kind), canvas)),
            Err(Undrawn::Nothing(why)) => reasons += &format!("\n  {kind}: {why}"),
            Err(Undrawn::Broken(error)) => return Err(error),
        }
    }
    if canvases.is_empty() {
        return Err(Error::input(format!("there is nothing to draw{reasons}")));
    }
    // Files are written after all figures are drawn, so that an error leaves no partial set.
    let mut figures = Vec::new();
    for (name, canvas) in canvases {
        figures.push(write(canvas, &options.look.format, &folder.join(name))?);
    }
    Ok(figures)
}

/// Writes the figure as `STEM.svg` and `STEM.png`, unless other formats are asked for.
pub fn write(canvas: Canvas, formats: &[PictureFormat], stem: &Path) -> Result<WrittenFigure> {
    let mut pictures = Vec::new();
    for format in PictureFormat::all(formats) {
        let bytes = match format {
            PictureFormat::Png => render::png(&canvas)?,
            PictureFormat::Pdf => pdf::pdf(&canvas)?,
            PictureFormat::Svg | PictureFormat::Both => render::svg(&canvas)?.into_bytes(),
        };
        pictures.push((format, bytes));
    }
    // Files are written after all formats are drawn, so that a font that one of them refuses leaves no file.
    let mut files = Vec::new();
    for (format, bytes) in pictures {
        // A stem may contain a dot, so its ending cannot be replaced.
        let mut path = stem.as_os_str().to_owned();
        path.push(format!(".{}", format.extension()));
        let path = PathBuf::from(path);
        write_whole(&path, |out| out.write_all(&bytes))?;
        files.push(path);
    }
    let name = match stem.file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => String::new(),
    };
    Ok(WrittenFigure {
        name,
        canvas,
        files,
    })
}

#[cfg(test)]
mod tests;
