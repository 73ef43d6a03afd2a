//! Latency against delivered throughput: a line through the 90th percentiles, bars from the median to the 99th.

use super::axis::Axis;
use super::input::line_legend;
use super::panel::{figure as panel_figure, room_for};
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
    let low = runs().map(|run| run.p50.unwrap_or(run.p90));
    let high = runs().map(|run| (run.p99.unwrap_or(run.p90), run.saturated));
    let y = latency_axis("Latency (ms): p90, bars p50 to p99", low, high, options.linear);
    let x = Axis::linear("Throughput (requests/s)", 0.0, fastest * 1.04, room_for(fastest));

    let (mut canvas, panel) = panel_figure(options.title.as_deref(), &line_legend(&series), x, y);
    for (s, runs) in series.iter().zip(&lines) {
        for run in runs {
            if let (Some(p50), Some(p99)) = (run.p50, run.p99) {
                panel.whisker(&mut canvas, run.throughput, (p50, p99), s.style.color);
            }
        }
    }
    for (s, runs) in series.iter().zip(&lines) {
        let points: Vec<(f64, f64, bool)> = runs.iter().map(|r| (r.throughput, r.p90, r.saturated)).collect();
        panel.series(&mut canvas, &points, &s.style);
    }
    Ok(Ok(canvas))
}

/// An axis for latencies in ms that holds every value of the runs that were not saturated. The latency of a saturated
/// run says only how long the run was, so it stretches the axis a little at most, and its line leaves at the top.
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
        false => Axis::log(label, low, high, 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saturated_run_does_not_set_the_scale() {
        let high = [(40.0, false), (90_000.0, true)];
        let log = latency_axis("", [5.0].into_iter(), high.into_iter(), false);
        assert_eq!((log.low, log.high), (5.0, 200.0));
        let linear = latency_axis("", [5.0].into_iter(), high.into_iter(), true);
        assert_eq!((linear.low, linear.high), (0.0, 50.0));
        let only = latency_axis("", [5.0].into_iter(), [(90.0, true)].into_iter(), false);
        assert_eq!(only.high, 100.0, "unless there is no other");
    }
}
