//! Latency against delivered throughput: a line through the 90th percentiles, bars from the median to the 99th.

use super::axis::Axis;
use super::canvas::Canvas;
use super::input::{Series, line_legend};
use super::panel::{Entry, Key, Panel, figure as panel_figure, log_y, room_for, saturated_entry};
use super::{Drawing, Inputs, Nothing, Options, or_nothing};

/// One run of a policy.
struct Run {
    throughput: f64,
    p50: Option<f64>,
    p90: f64,
    p99: Option<f64>,
    saturated: bool,
}

pub(super) fn figure(inputs: &Inputs, options: &Options) -> Drawing {
    let series = or_nothing!(inputs.series(options)?);
    let mut lines: Vec<Vec<Run>> = Vec::new();
    for s in &series {
        let mut runs = Vec::new();
        for row in s.rows_by_rate()? {
            let (throughput, p90) = (s.number(row, "throughput_rps")?, s.number(row, "p90_ms")?);
            let (p50, p99) = (s.number(row, "p50_ms")?, s.number(row, "p99_ms")?);
            if let (Some(throughput), Some(p90)) = (throughput, p90) {
                runs.push(Run { throughput, p50, p90, p99, saturated: s.saturated(row)? });
            }
        }
        lines.push(runs);
    }
    let runs = || lines.iter().flatten();
    let Some(fastest) = runs().map(|run| run.throughput).max_by(f64::total_cmp) else {
        return Ok(Err(Nothing("summary.csv has no row with throughput_rps and p90_ms".into())));
    };
    let low = runs().map(|run| run.p50.filter(|_| options.bars).unwrap_or(run.p90));
    let high = runs().map(|run| (run.p99.filter(|_| options.bars).unwrap_or(run.p90), run.saturated));
    let y = latency_axis("p90 latency (ms)", low, high, options.linear);
    let x = Axis::linear("Throughput (requests/s)", 0.0, fastest * 1.04, room_for(fastest));

    let mut legend = line_legend(&series);
    if options.bars {
        legend.push(Entry { label: "p50–p99".into(), key: Key::Whisker });
    }
    legend.extend(saturated_entry(runs().any(|run| run.saturated)));
    let (mut canvas, panel) = panel_figure(options.title.as_deref(), &legend, x, y);
    if options.bars {
        draw_bars(&mut canvas, &panel, &series, &lines);
    }
    for (s, runs) in series.iter().zip(&lines) {
        let points: Vec<(f64, f64, bool)> = runs.iter().map(|r| (r.throughput, r.p90, r.saturated)).collect();
        panel.series(&mut canvas, &points, &s.style);
    }
    panel.axes(&mut canvas);
    Ok(Ok(canvas))
}

/// Draws the bar of each run. Bars of several policies that would hide each other stand side by side.
fn draw_bars(canvas: &mut Canvas, panel: &Panel, series: &[Series<'_>], lines: &[Vec<Run>]) {
    /// Bars closer than this would touch.
    const WIDTH: f64 = 6.0;
    const STEP: f64 = 3.6;
    /// What the bars beside each other take up at most.
    const SPAN: f64 = 14.0;
    let mut bars: Vec<(usize, f64, f64, f64)> = Vec::new();
    for (i, runs) in lines.iter().enumerate() {
        bars.extend(runs.iter().filter_map(|run| Some((i, run.throughput, run.p50?, run.p99?))));
    }
    let hides = |a: &(usize, f64, f64, f64), b: &(usize, f64, f64, f64)| {
        let apart = (panel.at(a.1, a.2).0 - panel.at(b.1, b.2).0).abs();
        a.0 != b.0 && apart < WIDTH && a.2 <= b.3 && b.2 <= a.3
    };
    for bar in &bars {
        let others = bars.iter().filter(|other| hides(bar, other));
        let (before, after) = others.fold((0, 0), |(before, after), other| match other.0 < bar.0 {
            true => (before + 1, after),
            false => (before, after + 1),
        });
        let beside = f64::from(before - after) / 2.0 * STEP.min(SPAN / f64::from(before + after).max(1.0));
        panel.whisker(canvas, bar.1, beside, (bar.2, bar.3), series[bar.0].style.color);
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
