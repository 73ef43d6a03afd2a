//! The latency of requests in the order in which they came, and the load that they came under, where the load changes (DVABatch, Figure 15).
//! A panel for each results folder.

use super::axis::{Axis, Spread, Tick, number};
use super::canvas::{Align, HALF_DIGIT, Stroke};
use super::input::Series;
use super::panel::{Entry, Key, LINE};
use super::panels::{Around, Content, lay_out};
use super::style::{INK, REFERENCE, SMALL, Style};
use super::{Drawing, Inputs, Nothing, Options, or_nothing};
use crate::error::Result;

const HEIGHT: f64 = 90.0;
/// A figure has the mean latency of so many groups of requests, each as many as come one behind the other.
const GROUPS: usize = 150;
/// And the rate of so many.
const STEPS: usize = 15;
/// Latencies are drawn up to so many times the objective: beyond, the queue grows as long as the load lasts.
const MOST: f64 = 5.0;

/// What one policy did.
struct Course {
    /// The number of the last request of each group, and their mean latency in ms.
    latency: Vec<(f64, f64)>,
    /// The rate at which requests came, as a line of steps.
    load: Vec<(f64, f64)>,
}

pub(super) fn figure(inputs: &Inputs, options: &Options) -> Drawing {
    let series = or_nothing!(inputs.series(options)?);
    let mut policies: Vec<&str> = Vec::new();
    let mut fields: Vec<(String, Vec<(usize, Course)>)> = Vec::new();
    for folder in inputs.folders() {
        let mut curves = Vec::new();
        for s in series.iter().filter(|s| s.is_of(folder)) {
            let place = policies.iter().position(|policy| *policy == s.policy()).unwrap_or_else(|| {
                policies.push(s.policy());
                policies.len() - 1
            });
            match course(s)? {
                Some(course) => curves.push((place, course)),
                None => {
                    let why = "requests.csv of the point \"stepping\" is not there; set output.requests and the arrival process stepping";
                    return Ok(Err(Nothing(why.into())));
                }
            }
        }
        fields.push((folder.name.clone(), curves));
    }
    let mut legend: Vec<Entry> = (0..)
        .zip(&policies)
        .map(|(i, label)| Entry { label: label.to_string(), key: Key::Area(Style::of(i).color) })
        .collect();
    legend.push(Entry { label: "load".into(), key: Key::Rule });
    let content = |(name, curves): &(String, Vec<(usize, Course)>)| {
        let all = || curves.iter().flat_map(|(_, course)| &course.latency);
        let last = all().map(|(last, _)| *last).fold(1.0, f64::max);
        let lowest = all().map(|(_, ms)| *ms).fold(f64::INFINITY, f64::min);
        let most = options.slo.map_or(f64::INFINITY, |slo| MOST * slo.as_millis_f64());
        let highest = all().map(|(_, ms)| *ms).fold(0.0, f64::max).min(most).max(lowest * 10.0);
        let ticks =
            [0.0, 0.5, 1.0].map(|share| Tick { value: share * last, label: Some(number((share * last).round())) });
        let x = Axis { label: String::new(), spread: Spread::Linear, low: 0.0, high: last, ticks: ticks.to_vec() };
        Content { heading: name.clone(), x, y: Axis::log("", lowest, highest, HEIGHT, |_| SMALL + 12.0) }
    };
    let around = Around {
        title: options.title.as_deref(),
        legend: &legend,
        x: "Request",
        y: "Latency (ms)",
        right: 48.0,
        y_right: Some("Load (requests/s)"),
        height: HEIGHT,
    };
    let (mut canvas, panels) = lay_out(&around, fields.iter().map(content).collect());
    for ((_, curves), panel) in fields.iter().zip(&panels) {
        let Some((_, first)) = curves.first() else { continue };
        let fastest = first.load.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        let mut loads = panel.clone();
        loads.y = Axis::linear_to_tick("", 0.0, fastest, 4);
        loads.rule(&mut canvas, &first.load);
        for (place, course) in curves {
            panel.line(&mut canvas, &course.latency, Stroke::solid(Style::of(*place).color, LINE));
        }
        panel.axes(&mut canvas);
        for tick in &loads.y.ticks {
            let (x, y) = loads.at(loads.x.high, tick.value);
            canvas.line(&[(x, y), (x + 4.0, y)], Stroke::solid(INK, 1.0));
            if let Some(label) = &tick.label {
                canvas.text(label, (x + 6.0, y + HALF_DIGIT * SMALL), SMALL, Align::Left, REFERENCE);
            }
        }
    }
    Ok(Ok(canvas))
}

/// The course of a run under the stepping load; nothing if its requests were not written down.
fn course(series: &Series<'_>) -> Result<Option<Course>> {
    let Some(mut log) = series.open_log("stepping", "requests.csv")? else { return Ok(None) };
    let (arrival, finish) = (log.column("arrival_ns")?, log.column("finish_ns")?);
    let mut requests: Vec<(u64, u64)> = Vec::new();
    while let Some(row) = log.read()? {
        if let (Some(arrival), Some(finish)) = (row.whole(arrival)?, row.whole(finish)?) {
            requests.push((arrival, finish));
        }
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
    let course = Course {
        latency: requests.chunks(of(GROUPS)).enumerate().map(latency).collect(),
        load: requests.chunks(of(STEPS)).filter(|step| step.len() > 1).enumerate().flat_map(load).collect(),
    };
    Ok((!requests.is_empty()).then_some(course))
}
