//! The 99th percentile of latency against the offered rate, with a line at the SLO.

use super::axis::{Axis, number};
use super::input::line_legend;
use super::latency_throughput::{SATURATED_LINE, latency_axis};
use super::panel::{Curve, Dot, Entry, Key, figure as panel_figure, marker_entries, room_for};
use super::{Drawing, Inputs, Nothing, Options, or_nothing};

pub(super) fn figure(inputs: &Inputs, options: &Options) -> Drawing {
    let series = or_nothing!(inputs.series(options)?);
    let mut curves = Vec::new();
    for s in &series {
        let mut dots = Vec::new();
        for row in s.rows_by_rate()? {
            if let (Some(rate), Some(p99)) = (s.number(row, "offered_rps")?, s.number(row, "p99_ms")?) {
                dots.push(Dot { x: rate, y: p99, saturated: s.saturated(row)? });
            }
        }
        curves.push(Curve { style: s.style, dots });
    }
    let dots = || curves.iter().flat_map(|curve: &Curve| &curve.dots);
    let Some(fastest) = dots().map(|dot| dot.x).max_by(f64::total_cmp) else {
        return Ok(Err(Nothing("summary.csv has no row with offered_rps and p99_ms".into())));
    };
    let slo = options.slo.map(|slo| slo.as_millis_f64());
    let y = latency_axis(
        "p99 latency (ms)",
        dots().map(|dot| dot.y).chain(slo),
        dots().map(|dot| (dot.y, dot.saturated)).chain(slo.map(|ms| (ms, false))),
        options.linear,
    );
    let x = Axis::linear("Offered rate (requests/s)", 0.0, fastest * 1.04, room_for(fastest));

    let mut legend = line_legend(&series);
    legend.extend(marker_entries(&curves, &y));
    legend.extend(
        options.slo.map(|slo| Entry { label: format!("SLO {} ms", number(slo.as_millis_f64())), key: Key::Rule }),
    );
    let (mut canvas, panel) = panel_figure(options.title.as_deref(), &legend, x, y);
    if let Some(ms) = slo {
        panel.rule(&mut canvas, &[(panel.x.low, ms), (panel.x.high, ms)]);
    }
    panel.curves(&mut canvas, &curves, SATURATED_LINE);
    panel.axes(&mut canvas);
    Ok(Ok(canvas))
}
