//! Curves: latency against delivered throughput; latency, throughput and goodput against the offered rate.

use super::axis::{Axis, Spread, number};
use super::canvas::{Align, Canvas};
use super::data::Datum;
use super::input::{ResultsFolder, Series, SeriesRow};
use super::layout::{MOST_ACROSS, figure};
use super::legend::{LegendEntry, LegendKey, RULE, marker_entries, whisker_entries};
use super::panel::{Dot, LINE, PlotPanel, SATURATED_LINE, SeriesCurve};
use super::points::{replications, x_label, x_values};
use super::remark::Remark;
use super::style::SMALL;
use super::{Drawing, PlotInputs, PlotOptions, Undrawn, nothing};
use crate::base::error::Result;
use crate::core::summary::Summary;
use crate::core::summary::bounds::{AffineService, Bounds};
use crate::lab::results::columns::Metric;
use crate::lab::results::sweep_keys::distinct;

/// More would hide the lines.
const MOST_WITH_SPANS: usize = 4;

/// A ceiling above this multiple of the highest throughput is only named in the legend.
const FAR: f64 = 2.5;

/// What a panel shows.
struct PanelRuns<'i> {
    /// The results folder, if it has the panel for itself.
    heading: String,
    series: Vec<Series<'i>>,
    /// Of each series.
    dots: Vec<Vec<Dot>>,
    /// The swept key on the x axis, if any.
    swept: Option<Axis>,
}

/// The axes of a panel, and its remarks.
type Axes = ([Axis; 2], Vec<Remark>);

impl<'i> PanelRuns<'i> {
    /// `hint`: the way out if no run has both metrics.
    fn read(
        inputs: &'i PlotInputs,
        options: &PlotOptions,
        metrics: [Metric; 2],
        hint: &str,
    ) -> Result<Vec<PanelRuns<'i>>, Undrawn> {
        let series = inputs.series(options)?;
        let spans = metrics[1] == Metric::P90 && options.has_bars(series.len() <= MOST_WITH_SPANS);
        let of_folder = |folder: &'i ResultsFolder| {
            let own = series.iter().filter(|s| s.is_of(folder)).cloned().collect();
            PanelRuns::of(
                options.look.name(&folder.name),
                own,
                metrics,
                spans,
                options,
            )
        };
        let panels = match options.panels {
            true => inputs
                .folders
                .iter()
                .map(of_folder)
                .collect::<Result<Vec<_>>>()?,
            false => vec![PanelRuns::of("", series, metrics, spans, options)?],
        };
        let shown: Vec<PanelRuns<'i>> = panels
            .into_iter()
            .filter(|runs| runs.dots().next().is_some())
            .collect();
        let [x, y] = metrics.map(Metric::name);
        if shown.is_empty() {
            return Err(nothing(format!(
                "summary.csv has no row with {x} and {y}{hint}"
            )));
        }
        Ok(shown)
    }

    fn of(
        heading: &str,
        series: Vec<Series<'i>>,
        [x, y]: [Metric; 2],
        spans: bool,
        options: &PlotOptions,
    ) -> Result<PanelRuns<'i>> {
        let values = x_values(&series);
        let place = |text: &String| {
            values
                .iter()
                .find(|(_, other)| other == text)
                .map(|(place, _)| *place)
        };
        let mut all = vec![Vec::new(); series.len()];
        for (s, dots) in series.iter().zip(&mut all) {
            for SeriesRow {
                row,
                whole,
                x: text,
                ..
            } in &s.rows
            {
                let at = text
                    .as_ref()
                    .map_or_else(|| row.metric(x), |text| Ok(place(text)))?;
                if let (Some(at), Some(value)) = (at, row.metric_if_known(y)?) {
                    let across = if text.is_some() {
                        None
                    } else {
                        row.interval(x)?
                    };
                    let span = if spans {
                        row.metric(Metric::P50)?.zip(row.metric(Metric::P99)?)
                    } else {
                        None
                    };
                    dots.push(Dot {
                        span: span.map(<[f64; 2]>::from),
                        interval: row.interval(y)?,
                        across,
                        ..Dot::of(whole, at, value)?
                    });
                }
            }
        }
        let swept = x_label(&series, options).map(|key| Axis::at_values(&key, &values));
        Ok(PanelRuns {
            heading: heading.into(),
            series,
            dots: all,
            swept,
        })
    }

    /// Keeps only the first of each policy's saturated runs that turn no request away. The others stand above one
    /// another, each as high as its run was long.
    fn up_to_saturation(mut self) -> PanelRuns<'i> {
        for dots in &mut self.dots {
            let mut found = false;
            dots.retain(|dot| {
                !dot.saturated || dot.rejected || !std::mem::replace(&mut found, true)
            });
        }
        self
    }

    fn dots(&self) -> impl Iterator<Item = &Dot> + Clone {
        self.dots.iter().flatten()
    }

    fn largest(&self, of: fn(&Dot) -> f64) -> f64 {
        self.dots().map(of).fold(0.0, f64::max)
    }

    /// The least values above 0, infinite if there are none.
    fn least(&self) -> [f64; 2] {
        let least = |of: fn(&Dot) -> f64| {
            self.dots()
                .map(of)
                .filter(|value| *value > 0.0)
                .fold(f64::INFINITY, f64::min)
        };
        [least(|dot| dot.x), least(|dot| dot.y)]
    }

    /// Of the offered rate or the swept key.
    fn x_axis(&self) -> Axis {
        let fastest = self.largest(|dot| dot.x);
        let rate = || Axis::linear("Offered rate (requests/s)", fastest * 1.04, MOST_ACROSS);
        self.swept.clone().unwrap_or_else(rate)
    }

    /// In ms. It holds floors, the objective, and every run that was not saturated; saturated ones, whose latency shows
    /// only how long they were, stretch it only a little.
    fn latency_axis(
        &self,
        label: &str,
        floors: &[f64],
        slo: Option<f64>,
        spread: Option<Spread>,
    ) -> Axis {
        let ends = |dot: &Dot| {
            [dot.span, dot.interval]
                .into_iter()
                .flatten()
                .chain([[dot.y; 2]])
                .collect::<Vec<_>>()
        };
        let low = |dot: &Dot| {
            ends(dot)
                .into_iter()
                .map(|[low, _]| low)
                .filter(|low| *low > 0.0)
                .fold(dot.y, f64::min)
        };
        let high = |dot: &Dot| {
            ends(dot)
                .into_iter()
                .map(|[_, high]| high)
                .fold(dot.y, f64::max)
        };
        let lows = self
            .dots()
            .map(low)
            .chain(floors.iter().copied())
            .chain(slo);
        let low = lows
            .filter(|ms| *ms > 0.0)
            .min_by(f64::total_cmp)
            .unwrap_or(1.0);
        let of = |saturated| {
            self.dots()
                .filter(move |dot| dot.saturated == saturated)
                .map(high)
        };
        let linear = spread == Some(Spread::Linear);
        let stretch = if linear { 1.25 } else { 3.0 };
        let high = match (
            of(false).chain(slo).max_by(f64::total_cmp),
            of(true).max_by(f64::total_cmp),
        ) {
            (Some(held), Some(beyond)) => held.max(beyond.min(held * stretch)),
            (only, None) | (None, only) => only.unwrap_or(low),
        };
        match linear {
            true => Axis::linear_to_tick(label, high, 5),
            // Below the lowest value, whose marker must not overlap the axis.
            false => Axis::log(label, low * 0.93, high),
        }
    }
}

/// `thin`: the width of lines between saturated runs.
fn drawn(
    options: &PlotOptions,
    panels: &[PanelRuns<'_>],
    axes: impl Fn(&PanelRuns<'_>) -> Result<Axes, Undrawn>,
    thin: f64,
) -> Drawing {
    let with_axes = panels
        .iter()
        .map(|runs| Ok((runs, axes(runs)?)))
        .collect::<Result<Vec<_>, Undrawn>>()?;
    let mut legend: Vec<LegendEntry> = Vec::new();
    let series = panels.iter().flat_map(|runs| &runs.series);
    legend.extend(distinct(series.map(|s| &s.label)).into_iter().map(|label| {
        let style = panels
            .iter()
            .flat_map(|runs| &runs.series)
            .find(|s| s.label == *label)
            .map(|s| s.style);
        LegendEntry::new(
            label,
            LegendKey::Line(style.expect("it is the label of one")),
        )
    }));
    let rows = panels
        .iter()
        .flat_map(|runs| &runs.series)
        .flat_map(|s| s.rows.iter().map(|row| row.row));
    let dots = || panels.iter().flat_map(PanelRuns::dots);
    legend.extend(whisker_entries(dots(), &replications(rows)));
    legend.extend(marker_entries(
        with_axes.iter().map(|(runs, ([_, y], _))| (runs.dots(), y)),
    ));
    for remark in with_axes
        .iter()
        .flat_map(|(_, (_, remarks))| remarks)
        .filter(|one| one.in_legend)
    {
        if legend.iter().all(|entry| entry.label != remark.label) {
            legend.push(LegendEntry::new(&remark.label, LegendKey::Stroke(RULE)));
        }
    }
    let fields = with_axes
        .iter()
        .map(|(runs, (axes, remarks))| (runs.heading.clone(), axes.clone(), remarks.clone()));
    let canvas = figure(options, legend, fields.collect(), |canvas, i, panel| {
        let runs = panels.get(i).expect("each panel has its runs");
        let curve = |(s, dots): (&Series<'_>, &Vec<Dot>)| {
            SeriesCurve::through(&s.label, s.style, dots, panel.y.high, thin)
        };
        let curves: Vec<SeriesCurve> = runs.series.iter().zip(&runs.dots).map(curve).collect();
        panel.whiskers(canvas, &curves);
        panel.curves(canvas, &curves);
        curves
            .iter()
            .take(1)
            .for_each(|curve| draw_clients(canvas, panel, curve));
        let data = curves
            .iter()
            .flat_map(|curve| curve.dots.iter().map(move |dot| (&curve.label, dot)));
        canvas
            .data
            .extend(data.flat_map(|(label, dot)| Datum::of_dot(panel, label, dot)));
    });
    Ok(canvas)
}

pub fn throughput(inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
    served(
        Metric::Throughput,
        "Throughput (requests/s)",
        "all that is offered",
        "",
        inputs,
        options,
    )
}

pub fn goodput(inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
    let hint = "; goodput needs an SLO in the scenario";
    let slo = inputs.slo().map_or("the SLO".into(), |slo| {
        format!("{} ms", number(slo.as_millis_f64()))
    });
    let (label, all) = (
        format!("Goodput within {slo} (1/s)"),
        format!("all within {slo}"),
    );
    served(Metric::Goodput, &label, &all, hint, inputs, options)
}

/// With the line where both are equal.
fn served(
    y: Metric,
    label: &str,
    of_all: &str,
    hint: &str,
    inputs: &PlotInputs,
    options: &PlotOptions,
) -> Drawing {
    let panels = PanelRuns::read(inputs, options, [Metric::Offered, y], hint)?;
    let axes = |runs: &PanelRuns<'_>| {
        let highest = runs.largest(|dot| dot.interval.map_or(dot.y, |[_, high]| high));
        let axes = [runs.x_axis(), Axis::linear_to_tick(label, highest, 5)];
        let [x, y] = options.asked(axes, runs.least())?;
        let rates = [x.low.max(y.low), x.high.min(y.high)];
        let equal = Remark {
            in_legend: true,
            ..Remark::new(of_all, rates.map(|rate| (rate, rate)))
        };
        let rules = if runs.swept.is_some() || rates[0] >= rates[1] {
            Vec::new()
        } else {
            vec![equal]
        };
        Ok(([x, y], rules))
    };
    drawn(options, &panels, axes, LINE)
}

/// With the objective of the latency.
pub fn latency(metric: Metric, label: &str, inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
    let panels = PanelRuns::read(inputs, options, [Metric::Offered, metric], "")?;
    let slo = options
        .slo
        .or_else(|| inputs.slo())
        .filter(|_| metric == Metric::P99)
        .map(|slo| slo.as_millis_f64());
    let axes = |runs: &PanelRuns<'_>| {
        let y = runs.latency_axis(label, &[], slo, options.spread());
        let [x, y] = options.asked([runs.x_axis(), y], runs.least())?;
        let rule = |ms| {
            Remark::new(
                format!("SLO {} ms", number(ms)),
                [(x.low, ms), (x.high, ms)],
            )
        };
        let rules = slo.map(rule).into_iter().collect();
        Ok(([x, y], rules))
    };
    drawn(options, &panels, axes, SATURATED_LINE)
}

/// Simulated runs also have the bounds that no policy can beat, equal ones of several scenarios once.
pub fn against_throughput(
    percentile: Metric,
    inputs: &PlotInputs,
    options: &PlotOptions,
) -> Drawing {
    let panels = PanelRuns::read(inputs, options, [Metric::Throughput, percentile], "")?;
    let panels: Vec<PanelRuns<'_>> = panels
        .into_iter()
        .map(PanelRuns::up_to_saturation)
        .collect();
    drawn(
        options,
        &panels,
        |runs| bounded(percentile, runs, inputs, options),
        SATURATED_LINE,
    )
}

fn bounded(
    percentile: Metric,
    runs: &PanelRuns<'_>,
    inputs: &PlotInputs,
    options: &PlotOptions,
) -> Result<Axes, Undrawn> {
    let folders = inputs
        .folders
        .iter()
        .filter(|folder| runs.series.iter().any(|s| s.is_of(folder)));
    let bounds: Vec<Bounds> = folders
        .filter_map(|folder| folder.results.bounds().transpose())
        .collect::<Result<_>>()?;
    let floor = |one: &Bounds| {
        percentile.of(&Summary {
            latency: one.floor,
            ..Summary::default()
        })
    };
    // Clients that wait for their answers mostly wait for each other.
    let is_closed = runs.dots().all(|dot| dot.clients.is_some());
    let floors = distinct(
        bounds
            .iter()
            .filter_map(floor)
            .filter(|ms| *ms > 0.0 && !is_closed),
    );
    let ceilings = distinct(
        bounds
            .iter()
            .filter_map(|one| one.ceiling_rps)
            .filter(|rate| *rate > 0.0),
    );
    let name = percentile.short_name();
    let y = runs.latency_axis(
        &format!("{name} latency (ms)"),
        &floors,
        None,
        options.spread(),
    );
    let fastest = runs.largest(|dot| dot.x);
    let last = ceilings
        .iter()
        .copied()
        .filter(|ceiling| *ceiling <= FAR * fastest)
        .fold(fastest, f64::max);
    let x = Axis::linear("Throughput (requests/s)", last * 1.04, MOST_ACROSS);
    let [x, y] = options.asked([x, y], runs.least())?;

    let floor = |ms: f64| {
        Remark::new(
            format!("no {name} below {} ms", number(short(ms))),
            [(x.low, ms), (x.high, ms)],
        )
    };
    let ceiling = |rate: f64| {
        let label = format!("ceiling {} requests/s", number(rate.round()));
        match rate > x.high {
            true => Remark::new(label + " →", [(x.high, y.high); 2]),
            false => Remark::new(label, [(rate, y.low), (rate, y.high)]),
        }
    };
    let mut rules: Vec<Remark> = floors
        .into_iter()
        .map(floor)
        .chain(ceilings.into_iter().map(ceiling))
        .collect();
    let service = bounds.last().and_then(|one| one.service.as_ref());
    rules.extend(
        service
            .map(|service| mean_at_most(service, &x, &y))
            .filter(|rule| rule.line.len() > 1),
    );
    Ok(([x, y], rules))
}

/// Up to the rate at which it leaves the figure.
fn mean_at_most(service: &AffineService, x: &Axis, y: &Axis) -> Remark {
    const PIECES: u32 = 40;
    let rates = (0..=PIECES).map(|piece| x.high * f64::from(piece) / f64::from(PIECES));
    let means = rates
        .map_while(|rate| Some((rate, service.mean_at_most(rate).filter(|ms| *ms <= y.high)?)));
    let label = "mean at most, if all that wait are taken (Inoue)";
    Remark {
        in_legend: true,
        ..Remark::new(label, means.collect::<Vec<_>>())
    }
}

/// The clients of closed loops, below the markers of the first policy.
fn draw_clients(canvas: &mut Canvas, panel: &PlotPanel, curve: &SeriesCurve) {
    for dot in &curve.dots {
        let (x, y) = panel.at(dot.x, dot.y);
        if let Some(clients) = dot.clients.filter(|_| panel.area.holds((x, y))) {
            canvas.text(
                clients.to_string(),
                (x + 4.0, y + SMALL + 1.0),
                SMALL,
                Align::Left,
                curve.style.color,
            );
        }
    }
}

/// Two decimals, below 1 ms three significant digits.
fn short(ms: f64) -> f64 {
    let scale = if ms >= 1.0 {
        100.0
    } else {
        10f64.powi(2 - ms.log10().floor() as i32)
    };
    (ms * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saturated_run_does_not_set_the_scale() {
        let axis = |dots: &[(f64, bool)], linear: bool| {
            let dots = vec![
                dots.iter()
                    .map(|&(y, saturated)| Dot {
                        y,
                        saturated,
                        ..Dot::default()
                    })
                    .collect(),
            ];
            let runs = PanelRuns {
                heading: String::new(),
                series: Vec::new(),
                dots,
                swept: None,
            };
            runs.latency_axis("", &[5.5], None, linear.then_some(Spread::Linear))
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
