//! The 99th percentile of latency against the offered rate, with a line at the SLO.

use super::axis::{Axis, number};
use super::input::line_legend;
use super::latency_throughput::latency_axis;
use super::panel::{Entry, Key, figure as panel_figure, room_for, saturated_entry};
use super::{Drawing, Inputs, Nothing, Options, or_nothing};

pub(super) fn figure(inputs: &Inputs, options: &Options) -> Drawing {
    let series = or_nothing!(inputs.series(options)?);
    let mut lines: Vec<Vec<(f64, f64, bool)>> = Vec::new();
    for s in &series {
        let mut points = Vec::new();
        for row in s.rows_by_rate()? {
            if let (Some(rate), Some(p99)) = (s.number(row, "offered_rps")?, s.number(row, "p99_ms")?) {
                points.push((rate, p99, s.saturated(row)?));
            }
        }
        lines.push(points);
    }
    let points = || lines.iter().flatten();
    let Some(fastest) = points().map(|(rate, _, _)| *rate).max_by(f64::total_cmp) else {
        return Ok(Err(Nothing("summary.csv has no row with offered_rps and p99_ms".into())));
    };
    let slo = options.slo.map(|slo| slo.as_millis_f64());
    let y = latency_axis(
        "p99 latency (ms)",
        points().map(|(_, p99, _)| *p99).chain(slo),
        points().map(|(_, p99, saturated)| (*p99, *saturated)).chain(slo.map(|ms| (ms, false))),
        options.linear,
    );
    let x = Axis::linear("Offered rate (requests/s)", 0.0, fastest * 1.04, room_for(fastest));

    let mut legend = line_legend(&series);
    legend.extend(saturated_entry(points().any(|(_, _, saturated)| *saturated)));
    legend.extend(
        options.slo.map(|slo| Entry { label: format!("SLO {} ms", number(slo.as_millis_f64())), key: Key::Rule }),
    );
    let (mut canvas, panel) = panel_figure(options.title.as_deref(), &legend, x, y);
    if let Some(ms) = slo {
        panel.rule(&mut canvas, &[(panel.x.low, ms), (panel.x.high, ms)]);
    }
    for (s, points) in series.iter().zip(&lines) {
        panel.series(&mut canvas, points, &s.style);
    }
    panel.axes(&mut canvas);
    Ok(Ok(canvas))
}
