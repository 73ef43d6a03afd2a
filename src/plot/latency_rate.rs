//! The 99th percentile of latency against the offered rate, with a line at the SLO.

use super::axis::number;
use super::by_rate::ByRate;
use super::input::line_legend;
use super::latency_throughput::{SATURATED_LINE, latency_axis};
use super::panel::{Entry, Key, figure as panel_figure, marker_entries};
use super::{Drawing, Inputs, Options, or_nothing};

pub(super) fn figure(inputs: &Inputs, options: &Options) -> Drawing {
    let p99 = or_nothing!(ByRate::read(inputs, options, "p99_ms", "")?);
    let slo = options.slo.map(|slo| slo.as_millis_f64());
    let y = latency_axis(
        "p99 latency (ms)",
        p99.dots().map(|dot| dot.y).chain(slo),
        p99.dots().map(|dot| (dot.y, dot.saturated)).chain(slo.map(|ms| (ms, false))),
        options.linear,
    );

    let mut legend = line_legend(&p99.series);
    legend.extend(marker_entries(&p99.curves, &y));
    legend.extend(slo.map(|ms| Entry { label: format!("SLO {} ms", number(ms)), key: Key::Rule }));
    let (mut canvas, panel) = panel_figure(options.title.as_deref(), &legend, p99.x, y);
    if let Some(ms) = slo {
        panel.rule(&mut canvas, &[(panel.x.low, ms), (panel.x.high, ms)]);
    }
    panel.curves(&mut canvas, &p99.curves, SATURATED_LINE);
    panel.axes(&mut canvas);
    Ok(Ok(canvas))
}
