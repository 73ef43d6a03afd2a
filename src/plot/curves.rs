//! Curves: latency against delivered throughput; latency, throughput and goodput against the offered rate.

use super::axis::{Axis, number};
use super::canvas::{Canvas, Stroke};
use super::input::{Row, Series, x_label, x_values};
use super::legend::{Entry, Key, RULE, WHISKER, marker_entries};
use super::panel::{Curve, Dot, LINE, Panel, figure, log_y, room_for, swept_x};
use super::remark::Remark;
use super::{Drawing, Inputs, Options, Undrawn, nothing};
use crate::error::Result;
use crate::metrics::bounds::{AffineService, Bounds};
use crate::metrics::summary::Summary;
use crate::results::columns::Metric;
use crate::results::swept::distinct;

/// Of saturated runs, whose latency shows only how long they were.
const SATURATED_LINE: f64 = 0.8;

/// More would hide the lines.
const MOST_WITH_WHISKERS: usize = 4;

/// A ceiling above this multiple of the highest throughput is only named in the legend.
const FAR: f64 = 2.5;

struct Runs<'i> {
    series: Vec<Series<'i>>,
    /// Of each series.
    dots: Vec<Vec<Dot>>,
    whiskers: bool,
    /// The swept key on the x axis, if any.
    swept: Option<Axis>,
}

impl<'i> Runs<'i> {
    /// `hint`: the way out if no run has both metrics.
    fn read(inputs: &'i Inputs, options: &Options, [x, y]: [Metric; 2], hint: &str) -> Result<Runs<'i>, Undrawn> {
        let series = inputs.series(options)?;
        let values = x_values(&series);
        let place = |text: &String| values.iter().find(|(_, other)| other == text).map(|(place, _)| *place);
        let few = series.len() <= MOST_WITH_WHISKERS;
        let whiskers = y == Metric::P90 && (options.bars || few && !options.no_bars);
        let mut all = vec![Vec::new(); series.len()];
        for (s, dots) in series.iter().zip(&mut all) {
            for Row { row, x: text, .. } in &s.rows {
                let x = text.as_ref().map_or_else(|| row.metric(x), |text| Ok(place(text)))?;
                if let (Some(x), Some(y)) = (x, row.metric_if_known(y)?) {
                    let ends = if whiskers { row.metric(Metric::P50)?.zip(row.metric(Metric::P99)?) } else { None };
                    let whisker = ends.map(<[f64; 2]>::from);
                    let (saturated, rejected) = (row.saturated()?, row.rejects()?);
                    dots.push(Dot { x, y, marked: true, saturated, rejected, whisker });
                }
            }
        }
        if all.iter().all(Vec::is_empty) {
            return Err(nothing(format!("summary.csv has no row with {} and {}{hint}", x.name(), y.name())));
        }
        let swept = x_label(&series, options).map(|key| swept_x(&key, &values));
        Ok(Runs { series, dots: all, whiskers, swept })
    }

    fn dots(&self) -> impl Iterator<Item = &Dot> + Clone {
        self.dots.iter().flatten()
    }

    fn largest(&self, of: fn(&Dot) -> f64) -> f64 {
        self.dots().map(of).fold(0.0, f64::max)
    }

    /// Of the offered rate or the swept key.
    fn x_axis(&self) -> Axis {
        let fastest = self.largest(|dot| dot.x);
        let rate = || Axis::linear("Offered rate (requests/s)", fastest * 1.04, room_for(fastest));
        self.swept.clone().unwrap_or_else(rate)
    }

    /// In ms. It holds floors, the objective, and every run that was not saturated; saturated ones, whose latency shows
    /// only how long they were, stretch it only a little.
    fn latency_axis(&self, label: &str, floors: &[f64], slo: Option<f64>, linear: bool) -> Axis {
        let low = |dot: &Dot| dot.whisker.map_or(dot.y, |[low, _]| low.min(dot.y));
        let high = |dot: &Dot| dot.whisker.map_or(dot.y, |[_, high]| high.max(dot.y));
        let lows = self.dots().map(low).chain(floors.iter().copied()).chain(slo);
        let low = lows.filter(|ms| *ms > 0.0).min_by(f64::total_cmp).unwrap_or(1.0);
        let of = |saturated| self.dots().filter(move |dot| dot.saturated == saturated).map(high);
        let stretch = if linear { 1.25 } else { 3.0 };
        let high = match (of(false).chain(slo).max_by(f64::total_cmp), of(true).max_by(f64::total_cmp)) {
            (Some(held), Some(beyond)) => held.max(beyond.min(held * stretch)),
            (only, None) | (None, only) => only.unwrap_or(low),
        };
        match linear {
            true => Axis::linear_to_tick(label, high, 5),
            // Below the lowest value, whose marker must not overlap the axis.
            false => log_y(label, low * 0.93, high),
        }
    }

    /// `thin`: the width of lines between saturated runs.
    fn drawn(&self, options: &Options, [x, y]: [Axis; 2], remarks: Vec<Remark>, thin: f64) -> Canvas {
        let mut legend: Vec<Entry> = self.series.iter().map(|s| Entry::new(&s.label, Key::Line(s.style))).collect();
        legend.extend(self.whiskers.then(|| Entry::new("p50–p99", Key::Whisker)));
        legend.extend(marker_entries(self.dots(), &y));
        let in_legend = remarks.iter().filter(|one| one.in_legend);
        legend.extend(in_legend.map(|one| Entry::new(&one.label, Key::Stroke(RULE))));
        let curve = |(s, dots): (&Series<'_>, &Vec<Dot>)| Curve::through(&s.label, s.style, dots, y.high, thin);
        let curves: Vec<Curve> = self.series.iter().zip(&self.dots).map(curve).collect();
        figure(options, legend, [x, y], remarks, |canvas, panel| {
            draw_whiskers(canvas, panel, &curves);
            panel.curves(canvas, &curves);
        })
    }
}

pub fn throughput(inputs: &Inputs, options: &Options) -> Drawing {
    served(Metric::Throughput, "Throughput (requests/s)", "all that is offered", "", inputs, options)
}

pub fn goodput(inputs: &Inputs, options: &Options) -> Drawing {
    let hint = "; goodput needs an SLO in the scenario";
    let slo = inputs.slo().map_or("the SLO".into(), |slo| format!("{} ms", number(slo.as_millis_f64())));
    let (label, all) = (format!("Goodput within {slo} (1/s)"), format!("all within {slo}"));
    served(Metric::Goodput, &label, &all, hint, inputs, options)
}

/// With the line where both are equal.
fn served(y: Metric, label: &str, of_all: &str, hint: &str, inputs: &Inputs, options: &Options) -> Drawing {
    let runs = Runs::read(inputs, options, [Metric::Offered, y], hint)?;
    let (x, y) = (runs.x_axis(), Axis::linear_to_tick(label, runs.largest(|dot| dot.y), 5));
    let equal = Remark { in_legend: true, ..Remark::new(of_all, [(0.0, 0.0), (x.high, x.high)]) };
    let rules = if runs.swept.is_some() { Vec::new() } else { vec![equal] };
    Ok(runs.drawn(options, [x, y], rules, LINE))
}

/// With the objective of the latency.
pub fn latency(metric: Metric, label: &str, inputs: &Inputs, options: &Options) -> Drawing {
    let runs = Runs::read(inputs, options, [Metric::Offered, metric], "")?;
    let slo = options.slo.or_else(|| inputs.slo()).filter(|_| metric == Metric::P99).map(|slo| slo.as_millis_f64());
    let (x, y) = (runs.x_axis(), runs.latency_axis(label, &[], slo, options.linear));
    let rule = |ms| Remark::new(format!("SLO {} ms", number(ms)), [(x.low, ms), (x.high, ms)]);
    let rules = slo.map(rule).into_iter().collect();
    Ok(runs.drawn(options, [x, y], rules, SATURATED_LINE))
}

/// Simulated runs also have the bounds that no policy can beat, equal ones of several scenarios once.
pub fn against_throughput(percentile: Metric, inputs: &Inputs, options: &Options) -> Drawing {
    let runs = Runs::read(inputs, options, [Metric::Throughput, percentile], "")?;
    let folders = inputs.folders.iter().filter(|folder| runs.series.iter().any(|s| s.is_of(folder)));
    let bounds: Vec<Bounds> =
        folders.filter_map(|folder| folder.results.bounds().transpose()).collect::<Result<_>>()?;
    let floor = |one: &Bounds| percentile.of(&Summary { latency: one.floor, ..Summary::default() });
    let floors = distinct(bounds.iter().filter_map(floor).filter(|ms| *ms > 0.0));
    let ceilings = distinct(bounds.iter().filter_map(|one| one.ceiling_rps).filter(|rate| *rate > 0.0));
    let name = percentile.short_name();
    let y = runs.latency_axis(&format!("{name} latency (ms)"), &floors, None, options.linear);
    let fastest = runs.largest(|dot| dot.x);
    let last = ceilings.iter().copied().filter(|ceiling| *ceiling <= FAR * fastest).fold(fastest, f64::max);
    let x = Axis::linear("Throughput (requests/s)", last * 1.04, room_for(last));

    let floor = |ms: f64| Remark::new(format!("no {name} below {} ms", number(short(ms))), [(x.low, ms), (x.high, ms)]);
    let ceiling = |rate: f64| {
        let label = format!("ceiling {} requests/s", number(rate.round()));
        match rate > x.high {
            true => Remark::new(label + " →", [(x.high, y.high); 2]),
            false => Remark::new(label, [(rate, y.low), (rate, y.high)]),
        }
    };
    let mut rules: Vec<Remark> = floors.into_iter().map(floor).chain(ceilings.into_iter().map(ceiling)).collect();
    let service = bounds.last().and_then(|one| one.service.as_ref());
    rules.extend(service.map(|service| mean_at_most(service, &x, &y)).filter(|rule| rule.line.len() > 1));
    Ok(runs.drawn(options, [x, y], rules, SATURATED_LINE))
}

/// Up to the rate at which it leaves the figure.
fn mean_at_most(service: &AffineService, x: &Axis, y: &Axis) -> Remark {
    const PIECES: u32 = 40;
    let rates = (0..=PIECES).map(|piece| x.high * f64::from(piece) / f64::from(PIECES));
    let means = rates.map_while(|rate| Some((rate, service.mean_at_most(rate).filter(|ms| *ms <= y.high)?)));
    let label = "mean at most, if all that wait are taken (Inoue)";
    Remark { in_legend: true, ..Remark::new(label, means.collect::<Vec<_>>()) }
}

/// Two decimals, below 1 ms three significant digits.
fn short(ms: f64) -> f64 {
    let scale = if ms >= 1.0 { 100.0 } else { 10f64.powi(2 - ms.log10().floor() as i32) };
    (ms * scale).round() / scale
}

/// Those of several policies stand side by side, so that they do not hide each other.
fn draw_whiskers(canvas: &mut Canvas, panel: &Panel, curves: &[Curve]) {
    /// Within a marker.
    const SPAN: f64 = 5.4;
    let last = (curves.len() - 1) as f64;
    for (place, Curve { label, style, dots, .. }) in curves.iter().enumerate() {
        let beside = (place as f64 - last / 2.0) * SPAN / last.max(2.0);
        for (dot, ends) in dots.iter().filter_map(|dot| Some((dot, dot.whisker?))) {
            let stroke = Stroke::solid(style.color, if dot.saturated { SATURATED_LINE } else { WHISKER });
            canvas.group(label, |canvas| panel.whisker(canvas, dot.x, beside, ends, stroke));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saturated_run_does_not_set_the_scale() {
        let axis = |dots: &[(f64, bool)], linear| {
            let dots = vec![dots.iter().map(|&(y, saturated)| Dot { y, saturated, ..Dot::default() }).collect()];
            Runs { series: Vec::new(), dots, whiskers: false, swept: None }.latency_axis("", &[5.5], None, linear)
        };
        let both = [(40.0, false), (90_000.0, true)];
        let log = axis(&both, false);
        assert_eq!((log.low, log.high), (5.0, 200.0));
        let linear = axis(&both, true);
        assert_eq!((linear.low, linear.high), (0.0, 50.0));
        let only = axis(&[(90.0, true)], false);
        assert_eq!(only.high, 90.0, "unless there is no other");
    }
}
