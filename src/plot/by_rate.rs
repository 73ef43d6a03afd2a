//! A number of each run against its offered rate: what the figures of throughput, goodput and latency have in common.

use super::axis::Axis;
use super::input::{Series, line_legend};
use super::panel::{Curve, Dot, Entry, Key, LINE, figure, marker_entries, room_for};
use super::{Drawing, Inputs, Nothing, Options, or_nothing};
use crate::error::Result;

/// The runs of each series, by their rate.
pub(super) struct ByRate<'i> {
    pub series: Vec<Series<'i>>,
    pub curves: Vec<Curve>,
    /// The rates.
    pub x: Axis,
}

impl<'i> ByRate<'i> {
    /// Takes a column of the summary; `hint` says what else it needs, if no run has it.
    pub fn read(
        inputs: &'i Inputs,
        options: &Options,
        column: &'static str,
        hint: &str,
    ) -> Result<Result<ByRate<'i>, Nothing>> {
        let series = or_nothing!(inputs.series(options)?);
        let mut curves = Vec::new();
        for s in &series {
            let mut dots = Vec::new();
            for row in s.rows_by_rate()? {
                if let (Some(rate), Some(number)) = (s.number(row, "offered_rps")?, s.number(row, column)?) {
                    dots.push(Dot { x: rate, y: number, saturated: s.saturated(row)? });
                }
            }
            curves.push(Curve { style: s.style, dots });
        }
        let rates = curves.iter().flat_map(|curve: &Curve| &curve.dots).map(|dot| dot.x);
        let Some(fastest) = rates.max_by(f64::total_cmp) else {
            return Ok(Err(Nothing(format!("summary.csv has no row with offered_rps and {column}{hint}"))));
        };
        let x = Axis::linear("Offered rate (requests/s)", 0.0, fastest * 1.04, room_for(fastest));
        Ok(Ok(ByRate { series, curves, x }))
    }

    /// The points of all curves.
    pub fn dots(&self) -> impl Iterator<Item = &Dot> {
        self.curves.iter().flat_map(|curve| &curve.dots)
    }

    /// Draws requests per second, with the line on which they are as many as are offered.
    pub fn requests(self, options: &Options, label: &str, of_all: &str) -> Drawing {
        let best = self.dots().map(|dot| dot.y).fold(0.0, f64::max);
        let y = Axis::linear_to_tick(label, 0.0, best, 5);
        let mut legend = line_legend(&self.series);
        legend.extend(marker_entries(&self.curves, &y));
        legend.push(Entry { label: of_all.into(), key: Key::Rule });
        let (mut canvas, panel) = figure(options.title.as_deref(), &legend, self.x, y);
        panel.rule(&mut canvas, &[(0.0, 0.0), (panel.x.high, panel.x.high)]);
        panel.curves(&mut canvas, &self.curves, LINE);
        panel.axes(&mut canvas);
        Ok(Ok(canvas))
    }
}
