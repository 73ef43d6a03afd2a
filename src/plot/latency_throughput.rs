//! Latency against delivered throughput: a line through one of its percentiles; for the 90th, bars from the median to the
//! 99th. In simulated runs what no policy can beat is drawn, too.

use super::axis::{Axis, number};
use super::canvas::{Canvas, Stroke};
use super::input::{Folder, Series, line_legend};
use super::panel::{Curve, Dot, Entry, Key, Panel, WHISKER, figure as panel_figure, log_y, marker_entries, room_for};
use super::{Drawing, Inputs, Nothing, Options, or_nothing};
use crate::error::Result;
use crate::metrics::summary::Times;

/// The width of lines between saturated runs, and of their bars: their latency says only how long the runs were.
pub(super) const SATURATED_LINE: f64 = 0.8;

/// With more policies than this, the bars would hide the lines.
const MOST_WITH_BARS: usize = 4;

/// A bound that lies further off than so many times the fastest run would take the figure's room; the legend has it.
const FAR: f64 = 2.5;

/// The percentile of latency that the lines go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Percentile {
    P50,
    P90,
    P99,
}

impl Percentile {
    /// Its column in the summary.
    fn column(self) -> &'static str {
        match self {
            Percentile::P50 => "p50_ms",
            Percentile::P90 => "p90_ms",
            Percentile::P99 => "p99_ms",
        }
    }

    /// Its name.
    fn name(self) -> &'static str {
        match self {
            Percentile::P50 => "p50",
            Percentile::P90 => "p90",
            Percentile::P99 => "p99",
        }
    }

    /// Its value among these.
    fn of(self, times: &Times) -> Option<f64> {
        match self {
            Percentile::P50 => times.p50_ms,
            Percentile::P90 => times.p90_ms,
            Percentile::P99 => times.p99_ms,
        }
    }

    /// The label of the axis.
    fn label(self) -> &'static str {
        match self {
            Percentile::P50 => "p50 latency (ms)",
            Percentile::P90 => "p90 latency (ms)",
            Percentile::P99 => "p99 latency (ms)",
        }
    }
}

/// One run of a policy.
struct Run {
    throughput: f64,
    p50: Option<f64>,
    /// The percentile that the line goes through.
    line: f64,
    p99: Option<f64>,
    saturated: bool,
}

pub(super) fn figure(percentile: Percentile, inputs: &Inputs, options: &Options) -> Drawing {
    let series = or_nothing!(inputs.series(options)?);
    let bars = percentile == Percentile::P90 && options.bars.unwrap_or(series.len() <= MOST_WITH_BARS);
    let mut lines: Vec<Vec<Run>> = Vec::new();
    for s in &series {
        let mut runs = Vec::new();
        for row in s.rows_by_rate()? {
            let (throughput, line) = (s.number(row, "throughput_rps")?, s.number(row, percentile.column())?);
            let (p50, p99) = (s.number(row, "p50_ms")?, s.number(row, "p99_ms")?);
            if let (Some(throughput), Some(line)) = (throughput, line) {
                runs.push(Run { throughput, p50, line, p99, saturated: s.saturated(row)? });
            }
        }
        lines.push(runs);
    }
    let runs = || lines.iter().flatten();
    let Some(fastest) = runs().map(|run| run.throughput).max_by(f64::total_cmp) else {
        let why = format!("summary.csv has no row with throughput_rps and {}", percentile.column());
        return Ok(Err(Nothing(why)));
    };
    let folders = inputs.folders().iter().filter(|folder| series.iter().any(|s| s.is_of(folder)));
    let Bounds { floors, ceilings } = Bounds::of(percentile, folders)?;
    let low = runs().map(|run| run.p50.filter(|_| bars).unwrap_or(run.line)).chain(floors.iter().copied());
    let high = runs().map(|run| (run.p99.filter(|_| bars).unwrap_or(run.line), run.saturated));
    let y = latency_axis(percentile.label(), low, high, options.linear);
    let last = ceilings.iter().copied().filter(|ceiling| *ceiling <= FAR * fastest).fold(fastest, f64::max);
    let x = Axis::linear("Throughput (requests/s)", 0.0, last * 1.04, room_for(last));

    let dot = |run: &Run| Dot { x: run.throughput, y: run.line, saturated: run.saturated };
    let curves: Vec<Curve> = series
        .iter()
        .zip(&lines)
        .map(|(s, runs)| Curve { style: s.style, dots: runs.iter().map(dot).collect() })
        .collect();

    let mut legend = line_legend(&series);
    if bars {
        legend.push(Entry { label: "p50–p99".into(), key: Key::Whisker });
    }
    legend.extend(marker_entries(&curves, &y));
    legend.extend(
        floors.iter().map(|ms| Entry {
            label: format!("{} floor {} ms", percentile.name(), number(short(*ms))),
            key: Key::Rule,
        }),
    );
    legend.extend(ceilings.iter().map(|rate| Entry {
        label: format!(
            "ceiling {} requests/s{}",
            number(rate.round()),
            if *rate > x.high { " (off the axis)" } else { "" }
        ),
        key: Key::UprightRule,
    }));
    let (mut canvas, panel) = panel_figure(options.title.as_deref(), &legend, x, y);
    for ms in &floors {
        panel.rule(&mut canvas, &[(panel.x.low, *ms), (panel.x.high, *ms)]);
    }
    for rate in &ceilings {
        panel.rule(&mut canvas, &[(*rate, panel.y.low), (*rate, panel.y.high)]);
    }
    if bars {
        draw_bars(&mut canvas, &panel, &series, &lines);
    }
    panel.curves(&mut canvas, &curves, SATURATED_LINE);
    panel.axes(&mut canvas);
    Ok(Ok(canvas))
}

/// What no policy can beat, in ms and requests per second; of several scenarios with the same bounds once.
struct Bounds {
    floors: Vec<f64>,
    ceilings: Vec<f64>,
}

impl Bounds {
    fn of<'a>(percentile: Percentile, folders: impl Iterator<Item = &'a Folder>) -> Result<Bounds> {
        let mut all = Bounds { floors: Vec::new(), ceilings: Vec::new() };
        let add = |values: &mut Vec<f64>, value: Option<f64>| {
            values.extend(value.filter(|value| *value > 0.0 && !values.contains(value)));
        };
        for folder in folders {
            if let Some(bounds) = folder.bounds()? {
                add(&mut all.floors, percentile.of(&bounds.floor));
                add(&mut all.ceilings, bounds.ceiling_rps);
            }
        }
        Ok(all)
    }
}

/// A time in ms with two digits behind the point, or with three digits in all if it is below 1.
fn short(ms: f64) -> f64 {
    let scale = if ms >= 1.0 { 100.0 } else { 10f64.powi(2 - ms.log10().floor() as i32) };
    (ms * scale).round() / scale
}

/// Draws the bar of each run. Bars of several policies that would hide each other stand side by side.
fn draw_bars(canvas: &mut Canvas, panel: &Panel, series: &[Series<'_>], lines: &[Vec<Run>]) {
    /// Bars closer than this would touch.
    const WIDTH: f64 = 6.0;
    const STEP: f64 = 3.6;
    /// What the bars beside each other take up at most.
    const SPAN: f64 = 14.0;
    /// The bar of a run, as it lies between two latencies.
    struct Bar {
        series: usize,
        throughput: f64,
        low: f64,
        high: f64,
        saturated: bool,
    }
    let mut bars: Vec<Bar> = Vec::new();
    for (series, runs) in lines.iter().enumerate() {
        bars.extend(runs.iter().filter_map(|&Run { throughput, p50, p99, saturated, .. }| {
            Some(Bar { series, throughput, low: p50?, high: p99?, saturated })
        }));
    }
    let hides = |a: &Bar, b: &Bar| {
        let apart = (panel.at(a.throughput, a.low).0 - panel.at(b.throughput, b.low).0).abs();
        a.series != b.series && apart < WIDTH && a.low <= b.high && b.low <= a.high
    };
    for bar in &bars {
        let others = bars.iter().filter(|other| hides(bar, other));
        let (before, after) = others.fold((0, 0), |(before, after), other| match other.series < bar.series {
            true => (before + 1, after),
            false => (before, after + 1),
        });
        let beside = f64::from(before - after) / 2.0 * STEP.min(SPAN / f64::from(before + after).max(1.0));
        let width = if bar.saturated { SATURATED_LINE } else { WHISKER };
        let stroke = Stroke::solid(series[bar.series].style.color, width);
        panel.whisker(canvas, bar.throughput, beside, (bar.low, bar.high), stroke);
    }
}

/// An axis for latencies in ms that holds every value of the runs that were not saturated. The latency of a saturated
/// run says only how long the run was, so it stretches the axis a little at most.
pub(super) fn latency_axis(
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
        // A little below the lowest, so that its marker does not stand on the axis.
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
