//! Curves: latency against delivered throughput; latency, throughput and goodput against the offered rate.

use super::axis::{Axis, number};
use super::canvas::{Canvas, Stroke};
use super::input::{Folder, Series, line_legend};
use super::legend::{Entry, Key, WHISKER, marker_entries};
use super::panel::{Curve, Dot, LINE, Panel, figure, log_y, room_for};
use super::{Drawing, Inputs, Kind, Options, Undrawn, nothing};
use crate::error::Result;
use crate::metrics::summary::Times;

/// BatchMaker, Figures 7, 8, 11, 13, 14 and 15.
pub const LATENCY_THROUGHPUT: Kind = Kind {
    name: "latency-throughput",
    about: "90th percentile of latency against delivered throughput, with whiskers from the median to the 99th",
    drawn: |inputs, options| against_throughput(&P90, inputs, options),
};

/// Late Batching, Figures 3 and 6.
pub const P50_THROUGHPUT: Kind = Kind {
    name: "p50-throughput",
    about: "median of latency against delivered throughput",
    drawn: |inputs, options| against_throughput(&P50, inputs, options),
};

/// Late Batching, Figures 4 and 7.
pub const P99_THROUGHPUT: Kind = Kind {
    name: "p99-throughput",
    about: "99th percentile of latency against delivered throughput",
    drawn: |inputs, options| against_throughput(&P99, inputs, options),
};

/// Late Batching, Figure 5.
pub const THROUGHPUT_RATE: Kind = Kind {
    name: "throughput-rate",
    about: "delivered throughput against offered rate",
    drawn: |inputs, options| {
        let runs = Runs::read(inputs, options, "offered_rps", "throughput_rps", "")?;
        served(runs, options, "Throughput (requests/s)", "all that is offered")
    },
};

pub const LATENCY_RATE: Kind = Kind {
    name: "latency-rate",
    about: "99th percentile of latency against offered rate, with the SLO",
    drawn: latency_by_rate,
};

pub const GOODPUT: Kind = Kind {
    name: "goodput",
    about: "goodput against offered rate",
    drawn: |inputs, options| {
        let hint = "; goodput needs an SLO in the scenario";
        let runs = Runs::read(inputs, options, "offered_rps", "goodput_rps", hint)?;
        served(runs, options, "Goodput (requests/s)", "all within the SLO")
    },
};

/// Of saturated runs, whose latency shows only how long they were.
const SATURATED_LINE: f64 = 0.8;

/// More would hide the lines.
const MOST_WITH_WHISKERS: usize = 4;

/// A ceiling above this multiple of the highest throughput is only named in the legend.
const FAR: f64 = 2.5;

/// Its name, column in the summary, and field in the bounds.
struct Percentile {
    name: &'static str,
    column: &'static str,
    of: fn(&Times) -> Option<f64>,
}

const P50: Percentile = Percentile { name: "p50", column: "p50_ms", of: |times| times.p50_ms };
const P90: Percentile = Percentile { name: "p90", column: "p90_ms", of: |times| times.p90_ms };
const P99: Percentile = Percentile { name: "p99", column: "p99_ms", of: |times| times.p99_ms };

struct Runs<'i> {
    series: Vec<Series<'i>>,
    curves: Vec<Curve>,
}

impl<'i> Runs<'i> {
    /// `hint`: the way out if no run has both columns.
    fn read(
        inputs: &'i Inputs,
        options: &Options,
        x: &'static str,
        y: &'static str,
        hint: &str,
    ) -> Result<Runs<'i>, Undrawn> {
        let series = inputs.series(options)?;
        let mut curves = Vec::new();
        for s in &series {
            let mut dots = Vec::new();
            for row in s.rows_by_rate()? {
                if let (Some(x), Some(y)) = (s.number(row, x)?, s.number(row, y)?) {
                    dots.push(Dot { x, y, saturated: s.saturated(row)? });
                }
            }
            curves.push(Curve { style: s.style, dots });
        }
        match curves.iter().all(|curve| curve.dots.is_empty()) {
            true => Err(nothing(format!("summary.csv has no row with {x} and {y}{hint}"))),
            false => Ok(Runs { series, curves }),
        }
    }

    fn dots(&self) -> impl Iterator<Item = &Dot> {
        self.curves.iter().flat_map(|curve| &curve.dots)
    }

    fn largest_x(&self) -> f64 {
        self.dots().map(|dot| dot.x).fold(f64::NEG_INFINITY, f64::max)
    }

    fn rate_axis(&self) -> Axis {
        let fastest = self.largest_x();
        Axis::linear("Offered rate (requests/s)", 0.0, fastest * 1.04, room_for(fastest))
    }
}

type Rule = [(f64, f64); 2];

/// `samples` are the legend's entries for rules and whiskers.
fn drawn(
    runs: &Runs<'_>,
    options: &Options,
    [x, y]: [Axis; 2],
    [samples, rules]: [Vec<Entry>; 2],
    lines: &[Rule],
    whiskers: &[Whisker],
    between_saturated: f64,
) -> Canvas {
    let mut legend = line_legend(&runs.series);
    legend.extend(samples);
    legend.extend(marker_entries(&runs.curves, &y));
    legend.extend(rules);
    let (mut canvas, panel) = figure(options.title.as_deref(), &legend, x, y);
    for line in lines {
        panel.rule(&mut canvas, line);
    }
    draw_whiskers(&mut canvas, &panel, &runs.series, whiskers);
    panel.curves(&mut canvas, &runs.curves, between_saturated);
    panel.axes(&mut canvas);
    canvas
}

/// With the line where both are equal.
fn served(runs: Runs<'_>, options: &Options, label: &str, of_all: &str) -> Drawing {
    let best = runs.dots().map(|dot| dot.y).fold(0.0, f64::max);
    let (x, y) = (runs.rate_axis(), Axis::linear_to_tick(label, 0.0, best, 5));
    let line = [(0.0, 0.0), (x.high, x.high)];
    Ok(drawn(&runs, options, [x, y], [vec![], vec![Entry::new(of_all, Key::Rule)]], &[line], &[], LINE))
}

fn latency_by_rate(inputs: &Inputs, options: &Options) -> Drawing {
    let runs = Runs::read(inputs, options, "offered_rps", "p99_ms", "")?;
    let slo = options.slo.map(|slo| slo.as_millis_f64());
    let y = latency_axis(
        "p99 latency (ms)",
        runs.dots().map(|dot| dot.y).chain(slo),
        runs.dots().map(|dot| (dot.y, dot.saturated)).chain(slo.map(|ms| (ms, false))),
        options.linear,
    );
    let x = runs.rate_axis();
    let lines: Vec<Rule> = slo.map(|ms| [(x.low, ms), (x.high, ms)]).into_iter().collect();
    let entry = slo.map(|ms| Entry::new(format!("SLO {} ms", number(ms)), Key::Rule));
    Ok(drawn(&runs, options, [x, y], [vec![], entry.into_iter().collect()], &lines, &[], SATURATED_LINE))
}

/// Simulated runs also have the bounds that no policy can beat.
fn against_throughput(percentile: &Percentile, inputs: &Inputs, options: &Options) -> Drawing {
    let runs = Runs::read(inputs, options, "throughput_rps", percentile.column, "")?;
    let with_whiskers = percentile.name == P90.name && options.bars.unwrap_or(runs.series.len() <= MOST_WITH_WHISKERS);
    let whiskers = if with_whiskers { whiskers(&runs.series)? } else { Vec::new() };
    let folders = inputs.folders().iter().filter(|folder| runs.series.iter().any(|s| s.is_of(folder)));
    let (floors, ceilings) = bounds(percentile, folders)?;
    let y = latency_axis(
        &format!("{} latency (ms)", percentile.name),
        runs.dots().map(|dot| dot.y).chain(whiskers.iter().map(|w| w.low)).chain(floors.iter().copied()),
        runs.dots().map(|dot| (dot.y, dot.saturated)).chain(whiskers.iter().map(|w| (w.high, w.saturated))),
        options.linear,
    );
    let fastest = runs.largest_x();
    let last = ceilings.iter().copied().filter(|ceiling| *ceiling <= FAR * fastest).fold(fastest, f64::max);
    let x = Axis::linear("Throughput (requests/s)", 0.0, last * 1.04, room_for(last));

    let samples = with_whiskers.then(|| Entry::new("p50–p99", Key::Whisker)).into_iter().collect();
    let floor = |ms: &f64| Entry::new(format!("{} floor {} ms", percentile.name, number(short(*ms))), Key::Rule);
    let ceiling = |rate: &f64| {
        let off = if *rate > x.high { " (off the axis)" } else { "" };
        Entry::new(format!("ceiling {} requests/s{off}", number(rate.round())), Key::UprightRule)
    };
    let rules = floors.iter().map(floor).chain(ceilings.iter().map(ceiling)).collect();
    let floors = floors.iter().map(|ms| [(x.low, *ms), (x.high, *ms)]);
    let lines: Vec<Rule> = floors.chain(ceilings.iter().map(|rate| [(*rate, y.low), (*rate, y.high)])).collect();
    Ok(drawn(&runs, options, [x, y], [samples, rules], &lines, &whiskers, SATURATED_LINE))
}

/// Floors in ms and ceilings in requests/s, equal ones of several scenarios once.
fn bounds<'a>(percentile: &Percentile, folders: impl Iterator<Item = &'a Folder>) -> Result<(Vec<f64>, Vec<f64>)> {
    let (mut floors, mut ceilings) = (Vec::new(), Vec::new());
    let add = |values: &mut Vec<f64>, value: Option<f64>| {
        values.extend(value.filter(|value| *value > 0.0 && !values.contains(value)));
    };
    for folder in folders {
        if let Some(bounds) = folder.bounds()? {
            add(&mut floors, (percentile.of)(&bounds.floor));
            add(&mut ceilings, bounds.ceiling_rps);
        }
    }
    Ok((floors, ceilings))
}

/// Two decimals, below 1 ms three significant digits.
fn short(ms: f64) -> f64 {
    let scale = if ms >= 1.0 { 100.0 } else { 10f64.powi(2 - ms.log10().floor() as i32) };
    (ms * scale).round() / scale
}

struct Whisker {
    series: usize,
    throughput: f64,
    low: f64,
    high: f64,
    saturated: bool,
}

fn whiskers(series: &[Series<'_>]) -> Result<Vec<Whisker>> {
    let mut whiskers = Vec::new();
    for (place, s) in series.iter().enumerate() {
        for row in s.rows_by_rate()? {
            let (low, high) = (s.number(row, "p50_ms")?, s.number(row, "p99_ms")?);
            if let (Some(throughput), Some(low), Some(high)) = (s.number(row, "throughput_rps")?, low, high) {
                whiskers.push(Whisker { series: place, throughput, low, high, saturated: s.saturated(row)? });
            }
        }
    }
    Ok(whiskers)
}

/// Whiskers of several policies that would hide each other stand side by side.
fn draw_whiskers(canvas: &mut Canvas, panel: &Panel, series: &[Series<'_>], whiskers: &[Whisker]) {
    /// Closer ones would touch.
    const WIDTH: f64 = 6.0;
    const STEP: f64 = 3.6;
    /// Of whiskers side by side together.
    const SPAN: f64 = 14.0;
    let hides = |a: &Whisker, b: &Whisker| {
        let apart = (panel.at(a.throughput, a.low).0 - panel.at(b.throughput, b.low).0).abs();
        a.series != b.series && apart < WIDTH && a.low <= b.high && b.low <= a.high
    };
    for whisker in whiskers {
        let others = || whiskers.iter().filter(|other| hides(whisker, other));
        let before = others().filter(|other| other.series < whisker.series).count() as f64;
        let all = others().count() as f64;
        let beside = (2.0 * before - all) / 2.0 * STEP.min(SPAN / all.max(1.0));
        let width = if whisker.saturated { SATURATED_LINE } else { WHISKER };
        let stroke = Stroke::solid(series[whisker.series].style.color, width);
        panel.whisker(canvas, whisker.throughput, beside, (whisker.low, whisker.high), stroke);
    }
}

/// In ms. It holds every run that was not saturated; saturated ones, whose latency shows only how long they were,
/// stretch it only a little.
fn latency_axis(
    label: &str,
    low: impl Iterator<Item = f64>,
    high: impl Iterator<Item = (f64, bool)>,
    linear: bool,
) -> Axis {
    let low = low.filter(|ms| *ms > 0.0).min_by(f64::total_cmp).unwrap_or(1.0);
    let (saturated, held): (Vec<_>, Vec<_>) = high.partition(|(_, saturated)| *saturated);
    let largest = |values: Vec<(f64, bool)>| values.into_iter().map(|(ms, _)| ms).max_by(f64::total_cmp);
    let stretch = if linear { 1.25 } else { 3.0 };
    let high = match (largest(held), largest(saturated)) {
        (Some(held), Some(beyond)) => held.max(beyond.min(held * stretch)),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => low,
    };
    match linear {
        true => Axis::linear_to_tick(label, 0.0, high, 5),
        // Below the lowest value, whose marker must not overlap the axis.
        false => log_y(label, low * 0.93, high),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saturated_run_does_not_set_the_scale() {
        let high = [(40.0, false), (90_000.0, true)];
        let log = latency_axis("", [5.5].into_iter(), high.into_iter(), false);
        assert_eq!((log.low, log.high), (5.0, 200.0));
        let linear = latency_axis("", [5.0].into_iter(), high.into_iter(), true);
        assert_eq!((linear.low, linear.high), (0.0, 50.0));
        let only = latency_axis("", [5.0].into_iter(), [(90.0, true)].into_iter(), false);
        assert_eq!(only.high, 90.0, "unless there is no other");
    }
}
