//! Goodput against the offered rate: requests per second that finished within the SLO, and the line on which all do.

use super::axis::Axis;
use super::input::line_legend;
use super::panel::{Entry, Key, figure as panel_figure, room_for, saturated_entry};
use super::{Drawing, Inputs, Nothing, Options, or_nothing};

pub(super) fn figure(inputs: &Inputs, options: &Options) -> Drawing {
    let series = or_nothing!(inputs.series(options)?);
    let mut lines: Vec<Vec<(f64, f64, bool)>> = Vec::new();
    for s in &series {
        let mut points = Vec::new();
        for row in s.rows_by_rate()? {
            if let (Some(rate), Some(goodput)) = (s.number(row, "offered_rps")?, s.number(row, "goodput_rps")?) {
                points.push((rate, goodput, s.saturated(row)?));
            }
        }
        lines.push(points);
    }
    let points = || lines.iter().flatten();
    let Some(fastest) = points().map(|(rate, _, _)| *rate).max_by(f64::total_cmp) else {
        let why = "summary.csv has no row with offered_rps and goodput_rps; goodput needs an SLO in the scenario";
        return Ok(Err(Nothing(why.into())));
    };
    let best = points().map(|(_, goodput, _)| *goodput).fold(0.0, f64::max);
    let x = Axis::linear("Offered rate (requests/s)", 0.0, fastest * 1.04, room_for(fastest));
    let y = Axis::linear_to_tick("Goodput (requests/s)", 0.0, best, 5);

    let mut legend = line_legend(&series);
    legend.extend(saturated_entry(points().any(|(_, _, saturated)| *saturated)));
    legend.push(Entry { label: "all within the SLO".into(), key: Key::Rule });
    let (mut canvas, panel) = panel_figure(options.title.as_deref(), &legend, x, y);
    panel.rule(&mut canvas, &[(0.0, 0.0), (panel.x.high, panel.x.high)]);
    for (s, points) in series.iter().zip(&lines) {
        panel.series(&mut canvas, points, &s.style);
    }
    panel.axes(&mut canvas);
    Ok(Ok(canvas))
}
