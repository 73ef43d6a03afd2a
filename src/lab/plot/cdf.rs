//! Drawings of cumulative distributions: queueing time, computation time and latency at one point.

use super::axis::Axis;
use super::canvas::{Canvas, Stroke};
use super::data::Datum;
use super::distribution::Cdf;
use super::dot::Dot;
use super::folder::{ResultsFolder, Series};
use super::input::{PlotInputs, PointSeries};
use super::kind::FigureKind;
use super::layout::{MOST_ACROSS, PanelPlan, draw_figure};
use super::legend::{LegendEntry, LegendKey};
use super::look::Scale;
use super::options::PlotOptions;
use super::panel::{CurveLine, PlotPanel, SeriesCurve};
use super::points::point_label;
use super::style::{INK, LINE_WIDTH, Style};
use super::undrawn::{Drawing, Undrawn, nothing};
use crate::base::error::Result;
use crate::base::units::Nanos;
use crate::lab::results::logs::RequestLine;

/// The arrival, the start and the finish of a request, in nanoseconds.
pub struct RequestTimes {
    arrival: u64,
    start: u64,
    finish: u64,
}

/// A part of a request's time, or `None` if it is negative.
type Span = fn(&RequestTimes) -> Option<u64>;

impl RequestTimes {
    pub fn queueing(&self) -> Option<u64> {
        self.start.checked_sub(self.arrival)
    }

    pub fn computation(&self) -> Option<u64> {
        self.finish.checked_sub(self.start)
    }

    pub fn latency(&self) -> Option<u64> {
        self.finish.checked_sub(self.arrival)
    }
}

/// The shares with markers, so that a curve can be recognised without colour.
const MARKED: [f64; 4] = [0.1, 0.5, 0.9, 0.99];
/// The shares whose values a page shows.
const SHOWN: [f64; 13] = [
    0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99,
];

/// The dashes of saturated runs, whose times show only how long they were.
const SATURATED: &[f64] = &[4.0, 5.0];
/// The dashes of the second of two results folders.
const SECOND: &[f64] = &[6.0, 3.5];

/// The line of a distribution.
pub struct CdfLine {
    pub label: String,
    pub style: Style,
    /// Whether the markers are hollow.
    pub hollow: bool,
    pub cdf: Cdf,
}

/// A panel with distributions.
pub struct CdfPanel {
    pub heading: String,
    pub lines: Vec<CdfLine>,
    pub axes: [Axis; 2],
}

/// Draws distributions or, with `tail`, the share above each value. Lines of one label share an entry in the legend,
/// which `more` entries follow.
pub fn draw_cdfs(
    options: &PlotOptions,
    panels: &[CdfPanel],
    more: Vec<LegendEntry>,
    tail: bool,
) -> Canvas {
    let mut legend: Vec<LegendEntry> = Vec::new();
    for line in panels.iter().flat_map(|panel| &panel.lines) {
        if legend.iter().all(|entry| entry.label != line.label) {
            legend.push(LegendEntry::new(&line.label, LegendKey::Line(line.style)));
        }
    }
    legend.extend(more);
    let plans = panels
        .iter()
        .map(|panel| PanelPlan {
            heading: panel.heading.clone(),
            axes: panel.axes.clone(),
            remarks: Vec::new(),
        })
        .collect();
    draw_figure(options, legend, plans, |canvas, i, panel| {
        let lines = &panels[i].lines;
        // Hollow markers come first, so that they are rings around full ones at the same point.
        let (hollow, full): (Vec<&CdfLine>, Vec<&CdfLine>) =
            lines.iter().partition(|line| line.hollow);
        let curves: Vec<SeriesCurve> = hollow
            .into_iter()
            .chain(full)
            .map(|line| line.curve(tail))
            .collect();
        panel.curves(canvas, &curves);
        for line in lines {
            canvas.data.extend(line.data(panel, tail));
        }
    })
}

impl CdfLine {
    fn curve(&self, tail: bool) -> SeriesCurve {
        let mut dots = Vec::new();
        for share in SHOWN {
            if share <= self.cdf.served_share() {
                dots.push(Dot {
                    x: self.cdf.quantile(share),
                    y: if tail { 1.0 - share } else { share },
                    marked: MARKED.contains(&share),
                    saturated: self.hollow,
                    ..Dot::default()
                });
            }
        }
        let line = CurveLine {
            width: LINE_WIDTH,
            values: self.cdf.curve(tail),
        };
        SeriesCurve {
            label: self.label.clone(),
            style: self.style,
            lines: vec![line],
            dots,
        }
    }

    /// The points of the curve, as rows of the figure's data.
    fn data(&self, panel: &PlotPanel, tail: bool) -> Vec<Datum> {
        let mut data = Vec::new();
        for (x, y) in self.cdf.curve(tail) {
            data.push(Datum {
                saturated: self.hollow,
                ..panel.datum(&self.label, x, y)
            });
        }
        data
    }
}

/// Draws the distributions of a part of the requests' time.
pub fn draw_times(name: &str, span: Span, inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
    let mut panels = Vec::new();
    for at in inputs.compared_points(options)? {
        panels.push(time_panel(name, span, at, options)?);
    }
    Ok(draw_cdfs(options, &panels, Vec::new(), options.tail))
}

fn time_panel(
    name: &str,
    span: Span,
    at: PointSeries<'_>,
    options: &PlotOptions,
) -> Result<CdfPanel, Undrawn> {
    let mut lines = Vec::new();
    for s in &at.series {
        lines.push(time_line(s, &at.point, span)?);
    }
    let Some((least, largest)) = time_range(&lines) else {
        return Err(nothing(format!(
            "every time at point {} is 0, which a logarithmic axis does not show",
            at.point
        )));
    };
    let label = format!("{name}{} (ms)", point_label(&at.point));
    let x = if options.look.x_scale == Some(Scale::Linear) {
        Axis::linear_to_tick(label, largest, MOST_ACROSS)
    } else {
        Axis::log(label, least, largest)
    };
    let requests = lines.iter().map(|line| line.cdf.count()).max().unwrap_or(1);
    let least_share = 0.5 / requests as f64;
    let y = if options.tail {
        Axis::log("Share of slower requests", least_share, 1.0)
    } else {
        share_axis()
    };
    Ok(CdfPanel {
        heading: at.heading,
        lines,
        axes: options.axes([x, y], [least, least_share])?,
    })
}

fn time_line(series: &Series<'_>, point: &str, span: Span) -> Result<CdfLine, Undrawn> {
    let hollow = series.saturated_at(point)?;
    let (suffix, dash) = if hollow {
        (" (saturated)", SATURATED)
    } else {
        ("", series.style.dash)
    };
    Ok(CdfLine {
        label: format!("{}{suffix}", series.label),
        style: Style {
            dash,
            ..series.style
        },
        hollow,
        cdf: distribution(series, point, span)?,
    })
}

/// The vertical axis of distributions.
pub fn share_axis() -> Axis {
    Axis::linear("Share of requests", 1.0, 5)
}

/// The ends of a logarithmic axis, or `None` if all times are 0. It begins where the first curve rises, at most five
/// decades below the largest time of the fastest policy. The largest time of the slowest one could cut off the fastest.
fn time_range(lines: &[CdfLine]) -> Option<(f64, f64)> {
    let mut most: f64 = 0.0;
    for line in lines {
        most = most.max(line.cdf.largest());
    }
    if most <= 0.0 {
        return None;
    }
    let mut start = most;
    let mut fastest = most;
    for line in lines {
        if let Some(low_end) = line.cdf.low_end() {
            start = start.min(low_end);
        }
        if line.cdf.largest() > 0.0 {
            fastest = fastest.min(line.cdf.largest());
        }
    }
    Some((start.max(fastest / 1e5), most))
}

/// The distribution of times in milliseconds, of the requests after the warm-up. The curve ends at the share that was
/// served.
fn distribution(series: &Series<'_>, point: &str, span: Span) -> Result<Cdf, Undrawn> {
    let (path, mut rows) = series.requests(point)?;
    let class = series.class();
    // The log's column `measured` leaves out the warm-up of a class, so no requests are counted off.
    let mut warmup = match series.row_at(point) {
        Some(row) if class.is_none() => row.warmup()?,
        _ => 0,
    };
    let mut times = Vec::new();
    let mut unserved = 0;
    while let Some(request) = rows.read()? {
        if class.is_some_and(|class| request.class != class || request.measured == 0) {
            continue;
        }
        // The log of a stream has a part of the requests, and earlier logs do not have the column.
        if warmup > 0 && request.measured == 0 {
            warmup -= 1;
            continue;
        }
        let Some(request_times) = times_of(&request) else {
            unserved += 1;
            continue;
        };
        let Some(time) = span(&request_times) else {
            let why = "the request's times run backwards; arrival, start, finish is the order";
            return Err(rows.error("finish_ns", why).into());
        };
        times.push(Nanos(time).as_millis_f64());
    }
    match Cdf::from_samples(times) {
        Some(cdf) => Ok(cdf.with_unserved(unserved)),
        None => Err(nothing(format!(
            "{}: no request finished after the warm-up",
            path.display()
        ))),
    }
}

/// The times of a request, or `None` if it was not served.
fn times_of(request: &RequestLine) -> Option<RequestTimes> {
    Some(RequestTimes {
        arrival: request.arrival_ns.0,
        start: request.start_ns?.0,
        finish: request.finish_ns?.0,
    })
}

/// Draws the latencies of a point in two results folders over each other (the first solid, the second dashed with
/// hollow markers), or returns `None` without request logs.
///
/// # Panics
/// Panics unless the inputs are two results folders.
pub fn compare_cdfs(
    inputs: &PlotInputs,
    point: &str,
    options: &PlotOptions,
) -> Result<Option<Canvas>> {
    let [first, second] = &inputs.folders[..] else {
        panic!("two results folders are compared")
    };
    let all = inputs
        .series(&options.with_panels())
        .map_err(|undrawn| undrawn.error(FigureKind::LatencyCdf))?;
    let mut lines: Vec<CdfLine> = Vec::new();
    for one in all.iter().filter(|series| series.is_of(first)) {
        let Some(other) = all
            .iter()
            .find(|series| !series.is_of(first) && series.name == one.name)
        else {
            continue;
        };
        let cdf = latencies_at(one, point)?;
        let other_cdf = latencies_at(other, point)?;
        let (Some(cdf), Some(other_cdf)) = (cdf, other_cdf) else {
            continue;
        };
        for (cdf, dash, hollow) in [(cdf, &[][..], false), (other_cdf, SECOND, true)] {
            lines.push(CdfLine {
                label: one.name.clone(),
                style: Style { dash, ..one.style },
                hollow,
                cdf,
            });
        }
    }
    let Some((least, largest)) = time_range(&lines) else {
        return Ok(None);
    };
    let label = format!("Latency{} (ms)", point_label(point));
    let panel = CdfPanel {
        heading: String::new(),
        lines,
        axes: [Axis::log(label, least, largest), share_axis()],
    };
    let folders = vec![folder_entry(first, &[]), folder_entry(second, SECOND)];
    Ok(Some(draw_cdfs(options, &[panel], folders, false)))
}

/// The latencies at a point, or `None` if the series does not have the point or its log.
fn latencies_at(series: &Series<'_>, point: &str) -> Result<Option<Cdf>> {
    if series.row_at(point).is_none() {
        return Ok(None);
    }
    match distribution(series, point, RequestTimes::latency) {
        Ok(cdf) => Ok(Some(cdf)),
        Err(Undrawn::Nothing(_)) => Ok(None),
        Err(Undrawn::Broken(error)) => Err(error),
    }
}

/// The entry of a folder in the legend, with its dashes.
fn folder_entry(folder: &ResultsFolder, dash: &'static [f64]) -> LegendEntry {
    let stroke = Stroke {
        color: INK,
        width: LINE_WIDTH,
        dash,
    };
    LegendEntry::new(&folder.name, LegendKey::Stroke(stroke))
}
