//! Delivered throughput against the offered rate, and the line on which all that is offered is delivered.

use super::axis::Axis;
use super::input::line_legend;
use super::panel::{Curve, Dot, Entry, Key, LINE, figure as panel_figure, marker_entries, room_for};
use super::{Drawing, Inputs, Nothing, Options, or_nothing};

pub(super) fn figure(inputs: &Inputs, options: &Options) -> Drawing {
    let series = or_nothing!(inputs.series(options)?);
    let mut curves = Vec::new();
    for s in &series {
        let mut dots = Vec::new();
        for row in s.rows_by_rate()? {
            if let (Some(rate), Some(delivered)) = (s.number(row, "offered_rps")?, s.number(row, "throughput_rps")?) {
                dots.push(Dot { x: rate, y: delivered, saturated: s.saturated(row)? });
            }
        }
        curves.push(Curve { style: s.style, dots });
    }
    let dots = || curves.iter().flat_map(|curve: &Curve| &curve.dots);
    let Some(fastest) = dots().map(|dot| dot.x).max_by(f64::total_cmp) else {
        return Ok(Err(Nothing("summary.csv has no row with offered_rps and throughput_rps".into())));
    };
    let best = dots().map(|dot| dot.y).fold(0.0, f64::max);
    let x = Axis::linear("Offered rate (requests/s)", 0.0, fastest * 1.04, room_for(fastest));
    let y = Axis::linear_to_tick("Throughput (requests/s)", 0.0, best, 5);

    let mut legend = line_legend(&series);
    legend.extend(marker_entries(&curves, &y));
    legend.push(Entry { label: "all that is offered".into(), key: Key::Rule });
    let (mut canvas, panel) = panel_figure(options.title.as_deref(), &legend, x, y);
    panel.rule(&mut canvas, &[(0.0, 0.0), (panel.x.high, panel.x.high)]);
    panel.curves(&mut canvas, &curves, LINE);
    panel.axes(&mut canvas);
    Ok(Ok(canvas))
}
