//! Latency in the order of the requests where the load changes, and that load. A panel for each results folder.

use super::axis::Axis;
use super::canvas::{Align, HALF_DIGIT, Stroke};
use super::input::Series;
use super::legend::{Entry, Key, RULE};
use super::panel::{Content, Curve, Dot, Frame, LINE, lay_out};
use super::style::{INK, REFERENCE, SMALL, Style};
use super::{Drawing, Inputs, Options, Undrawn, nothing};
use crate::error::Result;
use crate::results::logs::RequestLine;
use crate::units::Nanos;

const HEIGHT: f64 = 90.0;
/// Groups of consecutive requests over which latency is averaged.
const GROUPS: usize = 150;
/// The same for the rate.
const STEPS: usize = 15;
/// Multiple of the SLO at which the latency axis ends: beyond it, the queue grows as long as the load lasts.
const MOST: f64 = 5.0;

struct Course {
    /// The last request of each group, and the group's mean in ms.
    latency: Vec<(f64, f64)>,
    /// Arrivals, as a line of steps.
    load: Vec<(f64, f64)>,
}

type Panel = (String, Vec<(usize, Course)>);

pub fn by_request(inputs: &Inputs, options: &Options) -> Drawing {
    let series = inputs.series(options)?;
    let (policies, parts) = inputs.by_folder(&series);
    let mut fields: Vec<Panel> = Vec::new();
    for (folder, own) in parts {
        let curves = own.into_iter().map(|(place, s)| Ok((place, course(s)?)));
        fields.push((folder.name.clone(), curves.collect::<Result<_, Undrawn>>()?));
    }
    let style = |place| Style { dash: &[], ..Style::of(place) };
    let key = |place| Key::Stroke(Stroke::solid(style(place).color, LINE));
    let mut legend: Vec<Entry> = (0..).zip(&policies).map(|(place, label)| Entry::new(*label, key(place))).collect();
    legend.push(Entry::new("load", Key::Stroke(RULE)));
    let (title, slo) = (options.title.as_deref(), options.slo.or_else(|| inputs.slo()));
    let frame = Frame { title, legend: &legend, columns: 2, right: Some("Load (requests/s)") };
    let (mut canvas, panels) = lay_out(&frame, fields.iter().map(|field| content(field, slo)).collect());
    for ((_, curves), panel) in fields.iter().zip(&panels) {
        let Some((_, first)) = curves.first() else { continue };
        let fastest = first.load.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        let mut loads = panel.clone();
        loads.y = Axis::linear_to_tick("", fastest, 4);
        loads.line(&mut canvas, &first.load, RULE);
        let curve = |(place, course): &(usize, Course)| {
            let dots = course.latency.iter().map(|&(x, y)| Dot { x, y, ..Dot::default() }).collect();
            let lines = vec![(LINE, course.latency.clone())];
            Curve { label: policies[*place].into(), style: style(*place), lines, dots }
        };
        panel.curves(&mut canvas, &curves.iter().map(curve).collect::<Vec<_>>());
        panel.axes(&mut canvas);
        for tick in &loads.y.ticks {
            let (x, y) = loads.at(loads.x.high, tick.value);
            canvas.line(&[(x, y), (x + 4.0, y)], Stroke::solid(INK, 1.0));
            canvas.text(&tick.label, (x + 6.0, y + HALF_DIGIT * SMALL), SMALL, Align::Left, REFERENCE);
        }
    }
    Ok(canvas)
}

fn content((name, curves): &Panel, slo: Option<Nanos>) -> Content {
    let all = || curves.iter().flat_map(|(_, course)| &course.latency);
    let last = all().map(|(last, _)| *last).fold(1.0, f64::max);
    let lowest = all().map(|(_, ms)| *ms).fold(f64::INFINITY, f64::min);
    let most = slo.map_or(f64::INFINITY, |slo| MOST * slo.as_millis_f64());
    let highest = all().map(|(_, ms)| *ms).fold(0.0, f64::max).min(most).max(lowest * 10.0);
    let y = Axis::log("Latency (ms)", lowest, highest, HEIGHT, |_| SMALL + 12.0);
    Content { heading: name.clone(), height: HEIGHT, x: Axis::linear("Request", last, 3), y }
}

fn course(series: &Series<'_>) -> Result<Course, Undrawn> {
    let missing = "requests.csv of the point \"stepping\" is not there; set output.requests and the arrival process \
        stepping";
    let (_, Some(mut log)) = series.log("stepping")? else { return Err(nothing(missing)) };
    let mut requests: Vec<(u64, u64)> = Vec::new();
    while let Some(RequestLine { arrival_ns, finish_ns, .. }) = log.read()? {
        requests.extend(finish_ns.map(|finish| (arrival_ns.0, finish.0)));
    }
    let of = |groups: usize| requests.len().div_ceil(groups).max(2);
    let latency = |(i, group): (usize, &[(u64, u64)])| {
        let sum = group.iter().map(|(arrival, finish)| (finish - arrival) as f64).sum::<f64>();
        ((i * of(GROUPS) + group.len()) as f64, sum / group.len() as f64 / 1e6)
    };
    let load = |(i, step): (usize, &[(u64, u64)])| {
        let rate = (step.len() - 1) as f64 * 1e9 / (step[step.len() - 1].0 - step[0].0).max(1) as f64;
        let from = (i * of(STEPS)) as f64;
        [(from, rate), (from + step.len() as f64, rate)]
    };
    if requests.is_empty() {
        return Err(nothing(missing));
    }
    Ok(Course {
        latency: requests.chunks(of(GROUPS)).enumerate().map(latency).collect(),
        load: requests.chunks(of(STEPS)).filter(|step| step.len() > 1).enumerate().flat_map(load).collect(),
    })
}
