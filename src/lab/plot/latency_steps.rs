//! Latency in the order of the requests where the load changes, and that load. Each results folder has a panel.

use super::axis::{Axis, Spread, number};
use super::canvas::{Align, Canvas, HALF_DIGIT, Stroke};
use super::data::Datum;
use super::dot::{Dot, MarkerSigns};
use super::folder::Series;
use super::input::{PlotInputs, distinct_names};
use super::layout::{Content, Frame, draw_panels};
use super::legend::{LegendEntry, LegendKey, RULE};
use super::options::PlotOptions;
use super::panel::{CurveLine, PlotPanel, SeriesCurve};
use super::style::{INK, LINE_WIDTH, REFERENCE, SMALL, Style};
use super::undrawn::{Drawing, Undrawn, nothing};
use crate::base::units::Nanos;
use crate::lab::results::logs::RequestLine;

/// The height of a panel.
const HEIGHT: f64 = 90.0;
/// The number of groups of consecutive requests over which latency is averaged.
const GROUPS: usize = 150;
/// The number of groups of consecutive requests for which a rate of arrivals is drawn.
const STEPS: usize = 15;
/// The multiple of the SLO at which the latency axis ends: beyond it, the queue grows as long as the load lasts.
const MOST: f64 = 5.0;
/// The multiple of the SLO at which a linear axis ends.
const MOST_LINEAR: f64 = 1.5;
/// The number of steps that are shown after all policies have passed the SLO.
const AFTER: usize = 1;
const OBJECTIVE: Stroke = Stroke {
    color: INK,
    width: 1.2,
    dash: &[],
};
const LOAD_LABEL: &str = "Load (requests/s)";

/// The latency and the load of a policy over the requests.
struct Course<'s> {
    series: &'s Series<'s>,
    /// The last request of each group, and the group's mean latency in ms.
    latency: Vec<(f64, f64)>,
    /// The last request of each step, and the rate of its arrivals.
    load: Vec<(f64, f64)>,
}

/// The point at which a policy's latency passes the SLO.
struct SloPass {
    style: Style,
    /// The last request of the first group above the SLO.
    request: f64,
    /// The load of the step before, if there is one.
    rate_before: Option<f64>,
}

/// The courses of the policies in a results folder.
struct CoursePanel<'s> {
    heading: String,
    courses: Vec<Course<'s>>,
}

/// Draws latency in the order of the requests.
pub fn draw_by_request(inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
    let series = inputs.series(&options.with_panels())?;
    let mut panels: Vec<CoursePanel<'_>> = Vec::new();
    for part in inputs.group_by_folder(&series) {
        let mut courses = Vec::new();
        for s in part.series {
            courses.push(Course::read(s)?);
        }
        panels.push(CoursePanel {
            heading: options.look.name(&part.folder.name).into(),
            courses,
        });
    }
    let slo = options.slo.or_else(|| inputs.slo());
    let slo = slo.map(Nanos::as_millis_f64);
    let legend = legend(&series, slo);
    let sheet = options.sheet();
    let frame = Frame {
        sheet: &sheet,
        title: options.title.as_deref(),
        legend: &legend,
        beside: true,
        right: Some(LOAD_LABEL),
    };
    let mut contents = Vec::new();
    for panel in &panels {
        contents.push(panel.content(slo, options)?);
    }
    Ok(draw_panels(&frame, contents, |canvas, i, panel| {
        panels[i].draw(canvas, panel, slo);
    }))
}

fn legend(series: &[Series<'_>], slo: Option<f64>) -> Vec<LegendEntry> {
    let mut legend = Vec::new();
    for (label, style) in distinct_names(series) {
        let stroke = Stroke::solid(style.color, LINE_WIDTH);
        legend.push(LegendEntry::new(label, LegendKey::Stroke(stroke)));
    }
    legend.push(LegendEntry::new("load", LegendKey::Stroke(RULE)));
    if let Some(ms) = slo {
        let label = format!("SLO {} ms", number(ms));
        legend.push(LegendEntry::new(label, LegendKey::Stroke(OBJECTIVE)));
    }
    legend
}

impl CoursePanel<'_> {
    /// What the panel shows. It ends some steps after all policies have passed the SLO.
    fn content(&self, slo: Option<f64>, options: &PlotOptions) -> Result<Content, Undrawn> {
        let mut last: f64 = 1.0;
        let mut lowest = f64::INFINITY;
        let mut highest: f64 = 0.0;
        for (request, ms) in self.courses.iter().flat_map(|course| &course.latency) {
            last = last.max(*request);
            lowest = lowest.min(*ms);
            highest = highest.max(*ms);
        }
        if let Some(end) = self.end_after_passes(slo) {
            last = end.clamp(1.0, last);
        }
        let is_linear = options.y_spread() == Some(Spread::Linear);
        if let Some(slo) = slo {
            let multiple = if is_linear { MOST_LINEAR } else { MOST };
            highest = highest.min(multiple * slo);
        }
        highest = highest.max(lowest * 10.0);
        let y = if is_linear {
            Axis::linear_to_tick("Latency (ms)", highest, 4)
        } else {
            Axis::log("Latency (ms)", lowest, highest)
        };
        let axes = [Axis::linear("Request", last, 3), y];
        let axes = options.axes(axes, [1.0, lowest])?;
        Ok(Content::new(&self.heading, HEIGHT, axes))
    }

    /// The end of the step after the one in which the last policy passes the SLO, or `None` if a policy does not pass
    /// it or the load ends before.
    fn end_after_passes(&self, slo: Option<f64>) -> Option<f64> {
        let slo = slo?;
        let mut last: f64 = 0.0;
        for course in &self.courses {
            let (_, step) = course.first_above(slo)?;
            let (end, _) = course.load.get(step + AFTER)?;
            last = last.max(*end);
        }
        Some(last)
    }

    fn draw(&self, canvas: &mut Canvas, panel: &PlotPanel, slo: Option<f64>) {
        let Some(first) = self.courses.first() else {
            return;
        };
        let steps = first.load_line();
        let shown = steps.iter().filter(|(at, _)| *at <= panel.x.high);
        let fastest = shown.map(|(_, rate)| *rate).fold(0.0, f64::max);
        let loads = PlotPanel {
            y: Axis::linear_to_tick("", fastest, 4),
            ..panel.clone()
        };
        loads.line(canvas, &steps, RULE);
        if let Some(ms) = slo {
            panel.line(canvas, &[(0.0, ms), (panel.x.high, ms)], OBJECTIVE);
        }
        let curves: Vec<SeriesCurve> = self.courses.iter().map(Course::curve).collect();
        panel.curves(canvas, &curves);
        if let Some(ms) = slo {
            draw_passes(canvas, panel, self.passes(ms), ms);
        }
        for course in &self.courses {
            for (x, y) in &course.latency {
                let datum = panel.datum(&course.series.name, x, *y);
                canvas.data.push(datum);
            }
        }
        for (x, y) in &steps {
            canvas.data.push(Datum {
                axes: [panel.x.label.clone(), LOAD_LABEL.into()],
                ..panel.datum("load", x, *y)
            });
        }
        draw_right_axis(canvas, &loads);
    }

    /// The points at which policies pass the SLO, in the order of the requests.
    fn passes(&self, slo: f64) -> Vec<SloPass> {
        let mut passes = Vec::new();
        for course in &self.courses {
            let Some((request, step)) = course.first_above(slo) else {
                continue;
            };
            let before = step.checked_sub(1);
            let rate_before = before.map(|before| course.load[before].1.round());
            passes.push(SloPass {
                style: course.series.style,
                request,
                rate_before,
            });
        }
        passes.sort_by(|a, b| a.request.total_cmp(&b.request));
        passes
    }
}

/// Draws the ticks of the load on the right of the panel.
fn draw_right_axis(canvas: &mut Canvas, loads: &PlotPanel) {
    for tick in &loads.y.ticks {
        let (x, y) = loads.place(loads.x.high, tick.value);
        canvas.line(&[(x, y), (x + 4.0, y)], Stroke::solid(INK, 1.0));
        let at = (x + 6.0, y + HALF_DIGIT * SMALL);
        canvas.text(&tick.label, at, SMALL, Align::Left, REFERENCE);
    }
}

/// Marks where policies pass the SLO, each with the load of the step before.
fn draw_passes(canvas: &mut Canvas, panel: &PlotPanel, passes: Vec<SloPass>, slo: f64) {
    const GAP: f64 = 8.0;
    let mut labelled = None;
    for pass in passes {
        let (x, y) = panel.place(pass.request, slo);
        canvas.marker((x, y), &pass.style, 0.0, MarkerSigns::default());
        // Labels of the same load would cover each other.
        if pass.rate_before.is_none() || pass.rate_before == labelled {
            continue;
        }
        let (offset, align) = if labelled.is_none() {
            (-GAP, Align::Right)
        } else {
            (GAP, Align::Left)
        };
        if let Some(rate) = pass.rate_before {
            let at = (x + offset, y - 4.0);
            let label = format!("{}/s", number(rate));
            canvas.text(label, at, SMALL, align, pass.style.color);
        }
        labelled = pass.rate_before;
    }
}

impl<'s> Course<'s> {
    fn read(series: &'s Series<'s>) -> Result<Course<'s>, Undrawn> {
        let requests = read_times(series)?;
        let group_size = requests.len().div_ceil(GROUPS).max(2);
        let mut latency = Vec::new();
        for (i, group) in requests.chunks(group_size).enumerate() {
            let last = (i * group_size + group.len()) as f64;
            latency.push((last, mean_ms(group)));
        }
        let step_size = requests.len().div_ceil(STEPS).max(2);
        let mut load = Vec::new();
        for (i, step) in requests.chunks(step_size).enumerate() {
            // A single arrival has no rate.
            if step.len() > 1 {
                let last = (i * step_size + step.len()) as f64;
                load.push((last, arrival_rate(step)));
            }
        }
        Ok(Course {
            series,
            latency,
            load,
        })
    }

    fn curve(&self) -> SeriesCurve {
        let mut dots = Vec::new();
        for &(x, y) in &self.latency {
            dots.push(Dot {
                x,
                y,
                ..Dot::default()
            });
        }
        let line = CurveLine {
            width: LINE_WIDTH,
            values: self.latency.clone(),
        };
        SeriesCurve {
            label: self.series.name.clone(),
            style: Style {
                dash: &[],
                ..self.series.style
            },
            lines: vec![line],
            dots,
        }
    }

    /// The load as a line of steps.
    fn load_line(&self) -> Vec<(f64, f64)> {
        let mut line = Vec::new();
        let mut begin = 0.0;
        for &(end, rate) in &self.load {
            line.push((begin, rate));
            line.push((end, rate));
            begin = end;
        }
        line
    }

    /// The last request of the first group above the SLO, and the number of its step.
    fn first_above(&self, slo: f64) -> Option<(f64, usize)> {
        let (at, _) = *self.latency.iter().find(|(_, ms)| *ms > slo)?;
        let step = self.load.iter().position(|(end, _)| at <= *end)?;
        Some((at, step))
    }
}

/// The arrival and the finish of a request, in nanoseconds.
type ServiceTimes = (u64, u64);

/// Reads the times of the requests that were served.
fn read_times(series: &Series<'_>) -> Result<Vec<ServiceTimes>, Undrawn> {
    let missing = "requests.csv of the point \"stepping\" is not there; set output.requests and the arrival process \
        stepping";
    let (_, Some(mut log)) = series.log::<RequestLine>("stepping")? else {
        return Err(nothing(missing));
    };
    let mut requests = Vec::new();
    while let Some(request) = log.read()? {
        if let Some(finish) = request.finish_ns {
            requests.push((request.arrival_ns.0, finish.0));
        }
    }
    if requests.is_empty() {
        return Err(nothing(missing));
    }
    Ok(requests)
}

fn mean_ms(group: &[ServiceTimes]) -> f64 {
    let sum: f64 = group
        .iter()
        .map(|(arrival, finish)| (finish - arrival) as f64)
        .sum();
    sum / group.len() as f64 / 1e6
}

/// The arrivals per second.
fn arrival_rate(step: &[ServiceTimes]) -> f64 {
    let (first, _) = step[0];
    let (last, _) = step[step.len() - 1];
    (step.len() - 1) as f64 * 1e9 / (last - first).max(1) as f64
}
