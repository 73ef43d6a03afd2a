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

const HEIGHT: f64 = 130.0;
/// A figure has the mean latency of so many groups of requests, each as many as come one behind the other.
const GROUPS: usize = 150;

/// Requests in groups: the number of the last, the mean latency of each, and the rate at which they came.
type Course = Vec<(f64, f64, f64)>;

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
    let mut legend: Vec<Entry> =
        (0..).zip(&policies).map(|(i, label)| Entry { label: label.to_string(), key: Key::Line(plain(i)) }).collect();
    legend.push(Entry { label: "load".into(), key: Key::Rule });
    let content = |(name, curves): &(String, Vec<(usize, Course)>)| {
        let all = || curves.iter().flat_map(|(_, course)| course);
        let last = all().map(|(last, ..)| *last).fold(1.0, f64::max);
        let lowest = all().map(|(_, ms, _)| *ms).fold(f64::INFINITY, f64::min);
        let highest = all().map(|(_, ms, _)| *ms).fold(0.0, f64::max).max(lowest * 10.0);
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
        let fastest = first.iter().map(|(.., rate)| *rate).fold(0.0, f64::max);
        let mut loads = panel.clone();
        loads.y = Axis::linear_to_tick("", 0.0, fastest, 4);
        let steps: Vec<(f64, f64)> = first.iter().map(|(last, _, rate)| (*last, *rate)).collect();
        loads.rule(&mut canvas, &steps);
        for (place, course) in curves {
            let values: Vec<(f64, f64)> = course.iter().map(|(last, ms, _)| (*last, *ms)).collect();
            let style = plain(*place);
            panel.line(&mut canvas, &values, Stroke { color: style.color, width: LINE, dash: style.dash });
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

fn plain(series: usize) -> Style {
    Style { dash: &[], ..Style::of(series) }
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
    let each = requests.len().div_ceil(GROUPS).max(2);
    let groups = requests.chunks(each).enumerate().filter(|(_, group)| group.len() == each).map(|(i, group)| {
        let latency = group.iter().map(|(arrival, finish)| (finish - arrival) as f64).sum::<f64>();
        let span = (group[each - 1].0 - group[0].0).max(1) as f64;
        (((i + 1) * each) as f64, latency / each as f64 / 1e6, (each - 1) as f64 / span * 1e9)
    });
    let course: Course = groups.collect();
    Ok((!course.is_empty()).then_some(course))
}
