//! Latency in the order of the requests where the load changes, and that load. A panel for each results folder.

use super::axis::{Axis, Spread, number};
use super::canvas::{Align, Canvas, HALF_DIGIT, Stroke};
use super::data::Datum;
use super::input::Series;
use super::layout::{Content, Frame, drawn};
use super::legend::{LegendEntry, LegendKey, RULE};
use super::panel::{Dot, LINE, PlotPanel, SeriesCurve};
use super::style::{INK, REFERENCE, SMALL, Style};
use super::{Drawing, PlotInputs, PlotOptions, Undrawn, nothing};
use crate::base::error::Result;
use crate::base::units::Nanos;
use crate::lab::results::logs::RequestLine;

const HEIGHT: f64 = 90.0;
/// Groups of consecutive requests over which latency is averaged.
const GROUPS: usize = 150;
/// The same for the rate.
const STEPS: usize = 15;
/// Multiple of the SLO at which the latency axis ends: beyond it, the queue grows as long as the load lasts.
const MOST: f64 = 5.0;
/// The same of a linear axis.
const MOST_LINEAR: f64 = 1.5;
/// Steps that are shown after all policies have passed the SLO.
const AFTER: usize = 1;
const OBJECTIVE: Stroke = Stroke {
    color: INK,
    width: 1.2,
    dash: &[],
};

struct Course {
    /// The last request of each group, and the group's mean in ms.
    latency: Vec<(f64, f64)>,
    /// The last request of each step, and the rate of its arrivals.
    load: Vec<(f64, f64)>,
}

impl Course {
    /// The load as a line of steps.
    fn line(&self) -> Vec<(f64, f64)> {
        let begins = std::iter::once(0.0).chain(self.load.iter().map(|(end, _)| *end));
        begins
            .zip(&self.load)
            .flat_map(|(begin, &(end, rate))| [(begin, rate), (end, rate)])
            .collect()
    }

    /// The first group above the SLO, and the number of its step.
    fn passes(&self, slo: f64) -> Option<(f64, usize)> {
        let (at, _) = *self.latency.iter().find(|(_, ms)| *ms > slo)?;
        Some((at, self.load.iter().position(|(end, _)| at <= *end)?))
    }
}

type Field<'s> = (String, Vec<(&'s Series<'s>, Course)>);

pub fn by_request(inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
    let series = inputs.series(&options.in_panels())?;
    let (policies, parts) = inputs.by_folder(&series);
    let mut fields: Vec<Field<'_>> = Vec::new();
    for (folder, own) in parts {
        let curves = own.into_iter().map(|s| Ok((s, course(s)?)));
        fields.push((
            options.look.name(&folder.name).into(),
            curves.collect::<Result<_, Undrawn>>()?,
        ));
    }
    let key = |style: Style| LegendKey::Stroke(Stroke::solid(style.color, LINE));
    let mut legend: Vec<LegendEntry> = policies
        .iter()
        .map(|(label, style)| LegendEntry::new(*label, key(*style)))
        .collect();
    legend.push(LegendEntry::new("load", LegendKey::Stroke(RULE)));
    let (slo, sheet) = (
        options
            .slo
            .or_else(|| inputs.slo())
            .map(Nanos::as_millis_f64),
        options.sheet(),
    );
    legend.extend(slo.map(|ms| {
        LegendEntry::new(
            format!("SLO {} ms", number(ms)),
            LegendKey::Stroke(OBJECTIVE),
        )
    }));
    let right = "Load (requests/s)";
    let title = options.title.as_deref();
    let frame = Frame {
        sheet: &sheet,
        title,
        legend: &legend,
        beside: true,
        right: Some(right),
    };
    let contents = fields
        .iter()
        .map(|field| content(field, slo, options))
        .collect::<Result<_, _>>()?;
    Ok(drawn(&frame, contents, |canvas, i, panel| {
        let curves = &fields[i].1;
        let Some((_, first)) = curves.first() else {
            return;
        };
        let steps = first.line();
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
        let curve = |(s, course): &(&Series<'_>, Course)| {
            let dots = course
                .latency
                .iter()
                .map(|&(x, y)| Dot {
                    x,
                    y,
                    ..Dot::default()
                })
                .collect();
            let (label, style) = (
                s.name.clone(),
                Style {
                    dash: &[],
                    ..s.style
                },
            );
            SeriesCurve {
                label,
                style,
                lines: vec![(LINE, course.latency.clone())],
                dots,
            }
        };
        panel.curves(canvas, &curves.iter().map(curve).collect::<Vec<_>>());
        slo.into_iter()
            .for_each(|ms| mark(canvas, panel, curves, ms));
        for (s, course) in curves {
            canvas.data.extend(
                course
                    .latency
                    .iter()
                    .map(|(x, y)| Datum::new(panel, &s.name, x, *y)),
            );
        }
        let load = |(x, y): &(f64, f64)| {
            let axes = [panel.x.label.clone(), right.into()];
            Datum {
                axes,
                ..Datum::new(panel, "load", x, *y)
            }
        };
        canvas.data.extend(steps.iter().map(load));
        for tick in &loads.y.ticks {
            let (x, y) = loads.at(loads.x.high, tick.value);
            canvas.line(&[(x, y), (x + 4.0, y)], Stroke::solid(INK, 1.0));
            canvas.text(
                &tick.label,
                (x + 6.0, y + HALF_DIGIT * SMALL),
                SMALL,
                Align::Left,
                REFERENCE,
            );
        }
    }))
}

/// Marks where policies pass the SLO, each with the load of the step before.
fn mark(canvas: &mut Canvas, panel: &PlotPanel, curves: &[(&Series<'_>, Course)], slo: f64) {
    const BESIDE: f64 = 8.0;
    let passes = curves
        .iter()
        .filter_map(|(s, course)| Some((s.style, course, course.passes(slo)?)));
    let mut passes: Vec<_> = passes.collect();
    passes.sort_by(|(.., (a, _)), (.., (b, _))| a.total_cmp(b));
    let mut labelled = None;
    for (style, course, (at, step)) in passes {
        let (x, y) = panel.at(at, slo);
        canvas.marker((x, y), &style, 0.0, false);
        let held = step
            .checked_sub(1)
            .map(|before| course.load[before].1.round());
        // Labels of the same load would cover each other.
        if let Some(rate) = held.filter(|rate| labelled != Some(*rate)) {
            let (beside, align) = if labelled.is_none() {
                (-BESIDE, Align::Right)
            } else {
                (BESIDE, Align::Left)
            };
            canvas.text(
                format!("{}/s", number(rate)),
                (x + beside, y - 4.0),
                SMALL,
                align,
                style.color,
            );
            labelled = Some(rate);
        }
    }
}

/// What a panel shows. It ends some steps after all policies have passed the SLO.
fn content(
    (name, curves): &Field<'_>,
    slo: Option<f64>,
    options: &PlotOptions,
) -> Result<Content, Undrawn> {
    let all = || curves.iter().flat_map(|(_, course)| &course.latency);
    let mut last = all().map(|(last, _)| *last).fold(1.0, f64::max);
    let passed = |(_, course): &(&Series<'_>, Course)| {
        let (_, step) = course.passes(slo?)?;
        course.load.get(step + AFTER).map(|(end, _)| *end)
    };
    if let Some(ends) = curves.iter().map(passed).collect::<Option<Vec<f64>>>() {
        last = ends.into_iter().fold(0.0, f64::max).clamp(1.0, last);
    }
    let lowest = all().map(|(_, ms)| *ms).fold(f64::INFINITY, f64::min);
    let multiple = if options.spread() == Some(Spread::Linear) {
        MOST_LINEAR
    } else {
        MOST
    };
    let most = slo.map_or(f64::INFINITY, |slo| multiple * slo);
    let highest = all()
        .map(|(_, ms)| *ms)
        .fold(0.0, f64::max)
        .min(most)
        .max(lowest * 10.0);
    let y = match options.spread() {
        Some(Spread::Linear) => Axis::linear_to_tick("Latency (ms)", highest, 4),
        _ => Axis::log("Latency (ms)", lowest, highest),
    };
    let axes = options.asked([Axis::linear("Request", last, 3), y], [1.0, lowest])?;
    Ok(Content::new(name, HEIGHT, axes))
}

fn course(series: &Series<'_>) -> Result<Course, Undrawn> {
    let missing = "requests.csv of the point \"stepping\" is not there; set output.requests and the arrival process \
        stepping";
    let (_, Some(mut log)) = series.log("stepping")? else {
        return Err(nothing(missing));
    };
    let mut requests: Vec<(u64, u64)> = Vec::new();
    while let Some(RequestLine {
        arrival_ns,
        finish_ns,
        ..
    }) = log.read()?
    {
        requests.extend(finish_ns.map(|finish| (arrival_ns.0, finish.0)));
    }
    let of = |groups: usize| requests.len().div_ceil(groups).max(2);
    let latency = |(i, group): (usize, &[(u64, u64)])| {
        let sum = group
            .iter()
            .map(|(arrival, finish)| (finish - arrival) as f64)
            .sum::<f64>();
        (
            (i * of(GROUPS) + group.len()) as f64,
            sum / group.len() as f64 / 1e6,
        )
    };
    let load = |(i, step): (usize, &[(u64, u64)])| {
        let rate =
            (step.len() - 1) as f64 * 1e9 / (step[step.len() - 1].0 - step[0].0).max(1) as f64;
        ((i * of(STEPS) + step.len()) as f64, rate)
    };
    if requests.is_empty() {
        return Err(nothing(missing));
    }
    Ok(Course {
        latency: requests
            .chunks(of(GROUPS))
            .enumerate()
            .map(latency)
            .collect(),
        load: requests
            .chunks(of(STEPS))
            .filter(|step| step.len() > 1)
            .enumerate()
            .map(load)
            .collect(),
    })
}
