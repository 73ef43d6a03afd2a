//! Curves: latency against delivered throughput; latency, throughput and goodput against the offered rate.

use super::axis::{Axis, Spread, number};
use super::canvas::{Align, Canvas};
use super::dot::Dot;
use super::folder::{Series, SeriesRow};
use super::input::PlotInputs;
use super::layout::{MOST_ACROSS, PanelPlan, draw_figure};
use super::legend::{LegendEntry, LegendKey, RULE, marker_entries, whisker_entries};
use super::options::PlotOptions;
use super::panel::{PlotPanel, SeriesCurve};
use super::points::{replications, x_label, x_values};
use super::remark::Remark;
use super::style::{LINE_WIDTH, SATURATED_WIDTH, SMALL};
use super::undrawn::{Drawing, Undrawn, nothing};
use crate::base::error::Result;
use crate::core::summary::Summary;
use crate::core::summary::bounds::{AffineService, Bounds};
use crate::lab::results::columns::Metric;
use crate::lab::results::sweep_keys::distinct;

/// The largest number of series that have spans. More would hide the lines.
const MOST_WITH_SPANS: usize = 4;

/// A ceiling above this multiple of the highest throughput is only named in the legend.
const FAR: f64 = 2.5;

/// A marker at the least value of a logarithmic axis must not overlap the other axis, so the axis begins below the
/// value.
const BELOW_LEAST: f64 = 0.93;

/// The metrics on the axes of a figure.
#[derive(Clone, Copy)]
struct Metrics {
    x: Metric,
    y: Metric,
}

/// The runs that a panel shows.
struct PanelRuns<'i> {
    /// The results folder, if it has the panel for itself.
    heading: String,
    series: Vec<Series<'i>>,
    /// The points of each series.
    dots: Vec<Vec<Dot>>,
    /// The axis of the swept key, if one is on the x axis.
    swept: Option<Axis>,
}

/// The axes of a panel, and its remarks.
struct AxesWithRemarks {
    axes: [Axis; 2],
    remarks: Vec<Remark>,
}

impl<'i> PanelRuns<'i> {
    /// Reads the runs of all panels. `hint` says what the user can do if no run has both metrics.
    fn read(
        inputs: &'i PlotInputs,
        options: &PlotOptions,
        metrics: Metrics,
        hint: &str,
    ) -> Result<Vec<PanelRuns<'i>>, Undrawn> {
        let series = inputs.series(options)?;
        let has_spans = metrics.y == Metric::P90
            && options.look.bars.unwrap_or(series.len() <= MOST_WITH_SPANS);
        let mut panels = Vec::new();
        if options.panels {
            for folder in &inputs.folders {
                let own = series.iter().filter(|s| s.is_of(folder)).cloned().collect();
                let heading = options.look.name(&folder.name);
                panels.push(PanelRuns::new(heading, own, metrics, has_spans, options)?);
            }
        } else {
            panels.push(PanelRuns::new("", series, metrics, has_spans, options)?);
        }
        panels.retain(|runs| runs.dots().next().is_some());
        if panels.is_empty() {
            return Err(nothing(format!(
                "summary.csv has no row with {} and {}{hint}",
                metrics.x.name(),
                metrics.y.name()
            )));
        }
        Ok(panels)
    }

    fn new(
        heading: &str,
        series: Vec<Series<'i>>,
        metrics: Metrics,
        has_spans: bool,
        options: &PlotOptions,
    ) -> Result<PanelRuns<'i>> {
        let values = x_values(&series);
        let mut all = Vec::new();
        for s in &series {
            let mut dots = Vec::new();
            for row in &s.rows {
                if let Some(dot) = read_dot(row, metrics, has_spans, &values)? {
                    dots.push(dot);
                }
            }
            all.push(dots);
        }
        let swept = x_label(&series, options).map(|key| Axis::with_values(&key, &values));
        Ok(PanelRuns {
            heading: heading.into(),
            series,
            dots: all,
            swept,
        })
    }

    /// Keeps only the first of each policy's saturated runs that turn no request away. The others would lie above one
    /// another, each as high as its run was long.
    fn keep_first_saturated(&mut self) {
        for dots in &mut self.dots {
            let mut found = false;
            dots.retain(|dot| {
                if !dot.saturated || dot.rejected {
                    return true;
                }
                let is_first = !found;
                found = true;
                is_first
            });
        }
    }

    fn dots(&self) -> impl Iterator<Item = &Dot> + Clone {
        self.dots.iter().flatten()
    }

    fn curves(&self, top: f64, saturated_width: f64) -> Vec<SeriesCurve> {
        let mut curves = Vec::new();
        for (s, dots) in self.series.iter().zip(&self.dots) {
            curves.push(SeriesCurve::through(
                &s.label,
                s.style,
                dots,
                top,
                saturated_width,
            ));
        }
        curves
    }

    fn largest(&self, value: fn(&Dot) -> f64) -> f64 {
        self.dots().map(value).fold(0.0, f64::max)
    }

    /// The least values above 0, infinite if there are none.
    fn least(&self) -> [f64; 2] {
        let mut least = [f64::INFINITY; 2];
        for dot in self.dots() {
            if dot.x > 0.0 {
                least[0] = least[0].min(dot.x);
            }
            if dot.y > 0.0 {
                least[1] = least[1].min(dot.y);
            }
        }
        least
    }

    /// The axis of the offered rate or the swept key.
    fn x_axis(&self) -> Axis {
        match &self.swept {
            Some(axis) => axis.clone(),
            None => {
                let fastest = self.largest(|dot| dot.x);
                Axis::linear("Offered rate (requests/s)", fastest * 1.04, MOST_ACROSS)
            }
        }
    }

    /// The axis of latencies in ms. It includes floors, the objective, and every run that was not saturated.
    /// Saturated runs, whose latency shows only how long they were, stretch it only a little.
    fn latency_axis(
        &self,
        label: &str,
        floors: &[f64],
        slo: Option<f64>,
        spread: Option<Spread>,
    ) -> Axis {
        let is_linear = spread == Some(Spread::Linear);
        let lows = self.dots().map(lower_end);
        let low = lows
            .chain(floors.iter().copied())
            .chain(slo)
            .filter(|ms| *ms > 0.0)
            .min_by(f64::total_cmp)
            .unwrap_or(1.0);
        let highest_held = self
            .dots()
            .filter(|dot| !dot.saturated)
            .map(upper_end)
            .chain(slo)
            .max_by(f64::total_cmp);
        let highest_saturated = self
            .dots()
            .filter(|dot| dot.saturated)
            .map(upper_end)
            .max_by(f64::total_cmp);
        let high = match (highest_held, highest_saturated) {
            (Some(held), Some(saturated)) => {
                let stretch = if is_linear { 1.25 } else { 3.0 };
                held.max(saturated.min(held * stretch))
            }
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => low,
        };
        if is_linear {
            Axis::linear_to_tick(label, high, 5)
        } else {
            Axis::log(label, low * BELOW_LEAST, high)
        }
    }
}

/// The point of a row, or `None` if the row lacks a metric. `values` has the places of the swept key's values.
fn read_dot(
    row: &SeriesRow<'_>,
    metrics: Metrics,
    has_spans: bool,
    values: &[(f64, String)],
) -> Result<Option<Dot>> {
    let x = match &row.x {
        Some(text) => values
            .iter()
            .find(|(_, value)| value == text)
            .map(|(place, _)| *place),
        None => row.row.metric(metrics.x)?,
    };
    let y = row.row.metric_if_known(metrics.y)?;
    let (Some(x), Some(y)) = (x, y) else {
        return Ok(None);
    };
    let across = match row.x {
        Some(_) => None,
        None => row.row.interval(metrics.x)?,
    };
    let mut span = None;
    if has_spans {
        let low = row.row.metric(Metric::P50)?;
        let high = row.row.metric(Metric::P99)?;
        if let (Some(low), Some(high)) = (low, high) {
            span = Some([low, high]);
        }
    }
    Ok(Some(Dot {
        span,
        interval: row.row.interval(metrics.y)?,
        across,
        ..Dot::from_row(&row.whole, x, y)?
    }))
}

/// The lowest end above 0 of a point and its intervals.
fn lower_end(dot: &Dot) -> f64 {
    let mut lowest = dot.y;
    for [low, _] in [dot.span, dot.interval].into_iter().flatten() {
        if low > 0.0 {
            lowest = lowest.min(low);
        }
    }
    lowest
}

/// The highest end of a point and its intervals.
fn upper_end(dot: &Dot) -> f64 {
    let mut highest = dot.y;
    for [_, high] in [dot.span, dot.interval].into_iter().flatten() {
        highest = highest.max(high);
    }
    highest
}

/// Draws panels, whose axes a function makes. Lines between saturated runs have the width `saturated_width`.
fn draw(
    options: &PlotOptions,
    panels: &[PanelRuns<'_>],
    make_axes: impl Fn(&PanelRuns<'_>) -> Result<AxesWithRemarks, Undrawn>,
    saturated_width: f64,
) -> Drawing {
    let mut plans = Vec::new();
    for runs in panels {
        let AxesWithRemarks { axes, remarks } = make_axes(runs)?;
        plans.push(PanelPlan {
            heading: runs.heading.clone(),
            axes,
            remarks,
        });
    }
    let legend = legend(panels, &plans);
    Ok(draw_figure(options, legend, plans, |canvas, i, panel| {
        let curves = panels[i].curves(panel.y.high, saturated_width);
        panel.whiskers(canvas, &curves);
        panel.curves(canvas, &curves);
        if let Some(first) = curves.first() {
            draw_clients(canvas, panel, first);
        }
        for curve in &curves {
            for dot in &curve.dots {
                canvas.data.extend(panel.data_of_dot(&curve.label, dot));
            }
        }
    }))
}

/// The entries of policies, whiskers, markers and remarks, each once.
fn legend(panels: &[PanelRuns<'_>], plans: &[PanelPlan]) -> Vec<LegendEntry> {
    let mut legend: Vec<LegendEntry> = Vec::new();
    for series in panels.iter().flat_map(|runs| &runs.series) {
        if legend.iter().all(|entry| entry.label != series.label) {
            let key = LegendKey::Line(series.style);
            legend.push(LegendEntry::new(&series.label, key));
        }
    }
    let rows = panels
        .iter()
        .flat_map(|runs| &runs.series)
        .flat_map(|s| s.rows.iter().map(|row| row.row));
    let dots = panels.iter().flat_map(PanelRuns::dots);
    legend.extend(whisker_entries(dots, &replications(rows)));
    let with_y_axes = panels
        .iter()
        .zip(plans)
        .map(|(runs, plan)| (runs.dots(), &plan.axes[1]));
    legend.extend(marker_entries(with_y_axes));
    for remark in plans.iter().flat_map(|plan| &plan.remarks) {
        if remark.in_legend && legend.iter().all(|entry| entry.label != remark.label) {
            legend.push(LegendEntry::new(&remark.label, LegendKey::Stroke(RULE)));
        }
    }
    legend
}

/// Draws delivered throughput against the offered rate.
pub fn draw_throughput(inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
    let axis = ServedAxis {
        metric: Metric::Throughput,
        label: "Throughput (requests/s)".into(),
        all: "all that is offered".into(),
        hint: "",
    };
    draw_served(&axis, inputs, options)
}

/// Draws goodput against the offered rate.
pub fn draw_goodput(inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
    let slo = match inputs.slo() {
        Some(slo) => format!("{} ms", number(slo.as_millis_f64())),
        None => "the SLO".into(),
    };
    let axis = ServedAxis {
        metric: Metric::Goodput,
        label: format!("Goodput within {slo} (1/s)"),
        all: format!("all within {slo}"),
        hint: "; goodput needs an SLO in the scenario",
    };
    draw_served(&axis, inputs, options)
}

/// The axis of a rate that is at most the offered one.
struct ServedAxis {
    metric: Metric,
    label: String,
    /// The name of the line where both rates are equal.
    all: String,
    hint: &'static str,
}

fn draw_served(served: &ServedAxis, inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
    let metrics = Metrics {
        x: Metric::Offered,
        y: served.metric,
    };
    let panels = PanelRuns::read(inputs, options, metrics, served.hint)?;
    draw(
        options,
        &panels,
        |runs| served.axes(runs, options),
        LINE_WIDTH,
    )
}

impl ServedAxis {
    /// The axes, and the line where both rates are equal.
    fn axes(
        &self,
        runs: &PanelRuns<'_>,
        options: &PlotOptions,
    ) -> Result<AxesWithRemarks, Undrawn> {
        let highest = runs.largest(|dot| dot.interval.map_or(dot.y, |[_, high]| high));
        let y = Axis::linear_to_tick(&self.label, highest, 5);
        let axes = options.axes([runs.x_axis(), y], runs.least())?;
        let from = axes[0].low.max(axes[1].low);
        let to = axes[0].high.min(axes[1].high);
        let mut remarks = Vec::new();
        if runs.swept.is_none() && from < to {
            remarks.push(Remark {
                in_legend: true,
                ..Remark::new(&self.all, [(from, from), (to, to)])
            });
        }
        Ok(AxesWithRemarks { axes, remarks })
    }
}

/// Draws a latency against the offered rate, with the objective of the 99th percentile.
pub fn draw_latency(
    metric: Metric,
    label: &str,
    inputs: &PlotInputs,
    options: &PlotOptions,
) -> Drawing {
    let metrics = Metrics {
        x: Metric::Offered,
        y: metric,
    };
    let panels = PanelRuns::read(inputs, options, metrics, "")?;
    let mut slo = None;
    if metric == Metric::P99 {
        slo = options.slo.or_else(|| inputs.slo());
    }
    let slo = slo.map(|slo| slo.as_millis_f64());
    draw(
        options,
        &panels,
        |runs| {
            let y = runs.latency_axis(label, &[], slo, options.y_spread());
            let axes = options.axes([runs.x_axis(), y], runs.least())?;
            let mut remarks = Vec::new();
            if let Some(ms) = slo {
                let label = format!("SLO {} ms", number(ms));
                remarks.push(Remark::new(label, [(axes[0].low, ms), (axes[0].high, ms)]));
            }
            Ok(AxesWithRemarks { axes, remarks })
        },
        SATURATED_WIDTH,
    )
}

/// Draws a percentile of latency against delivered throughput. Simulated runs also have the bounds that no policy can
/// beat; equal bounds of several scenarios are drawn once.
pub fn draw_against_throughput(
    percentile: Metric,
    inputs: &PlotInputs,
    options: &PlotOptions,
) -> Drawing {
    let metrics = Metrics {
        x: Metric::Throughput,
        y: percentile,
    };
    let mut panels = PanelRuns::read(inputs, options, metrics, "")?;
    for runs in &mut panels {
        runs.keep_first_saturated();
    }
    draw(
        options,
        &panels,
        |runs| bounded_axes(percentile, runs, inputs, options),
        SATURATED_WIDTH,
    )
}

/// The axes, and the bounds of the panel's folders.
fn bounded_axes(
    percentile: Metric,
    runs: &PanelRuns<'_>,
    inputs: &PlotInputs,
    options: &PlotOptions,
) -> Result<AxesWithRemarks, Undrawn> {
    let bounds = bounds_of_runs(runs, inputs)?;
    let floors = floors(percentile, runs, &bounds);
    let ceilings = ceilings(&bounds);
    let name = percentile.short_name();
    let label = format!("{name} latency (ms)");
    let y = runs.latency_axis(&label, &floors, None, options.y_spread());
    let fastest = runs.largest(|dot| dot.x);
    let last = ceilings
        .iter()
        .copied()
        .filter(|ceiling| *ceiling <= FAR * fastest)
        .fold(fastest, f64::max);
    let x = Axis::linear("Throughput (requests/s)", last * 1.04, MOST_ACROSS);
    let axes = options.axes([x, y], runs.least())?;
    let [x, y] = &axes;

    let mut remarks = Vec::new();
    for ms in floors {
        let label = format!("no {name} below {} ms", number(round_ms(ms)));
        remarks.push(Remark::new(label, [(x.low, ms), (x.high, ms)]));
    }
    for rate in ceilings {
        let label = format!("ceiling {} requests/s", number(rate.round()));
        remarks.push(if rate > x.high {
            Remark::new(label + " →", [(x.high, y.high); 2])
        } else {
            Remark::new(label, [(rate, y.low), (rate, y.high)])
        });
    }
    if let Some(service) = bounds.last().and_then(|one| one.service.as_ref()) {
        let mean = mean_at_most(service, x, y);
        if mean.line.len() > 1 {
            remarks.push(mean);
        }
    }
    Ok(AxesWithRemarks { axes, remarks })
}

/// The bounds of the folders whose runs a panel shows.
fn bounds_of_runs(runs: &PanelRuns<'_>, inputs: &PlotInputs) -> Result<Vec<Bounds>> {
    let mut bounds = Vec::new();
    for folder in &inputs.folders {
        if runs.series.iter().any(|s| s.is_of(folder)) {
            bounds.extend(folder.results.bounds()?);
        }
    }
    Ok(bounds)
}

/// The least latencies that any policy can reach. Clients that wait for their answers mostly wait for each other, so
/// closed loops have none.
fn floors(percentile: Metric, runs: &PanelRuns<'_>, bounds: &[Bounds]) -> Vec<f64> {
    if runs.dots().all(|dot| dot.clients.is_some()) {
        return Vec::new();
    }
    let mut floors = Vec::new();
    for one in bounds {
        let summary = Summary {
            latency: one.floor,
            ..Summary::default()
        };
        floors.extend(percentile.value(&summary));
    }
    floors.retain(|ms| *ms > 0.0);
    distinct(floors)
}

/// The highest throughputs that any policy can reach.
fn ceilings(bounds: &[Bounds]) -> Vec<f64> {
    let rates = bounds.iter().filter_map(|one| one.ceiling_rps);
    distinct(rates.filter(|rate| *rate > 0.0))
}

/// The bound of the mean latency, up to the rate at which it leaves the figure.
fn mean_at_most(service: &AffineService, x: &Axis, y: &Axis) -> Remark {
    const PIECES: u32 = 40;
    let mut line = Vec::new();
    for piece in 0..=PIECES {
        let rate = x.high * f64::from(piece) / f64::from(PIECES);
        match service.mean_at_most(rate) {
            Some(ms) if ms <= y.high => line.push((rate, ms)),
            _ => break,
        }
    }
    let label = "mean at most, if all that wait are taken (Inoue)";
    Remark {
        in_legend: true,
        ..Remark::new(label, line)
    }
}

/// Writes the numbers of clients of closed loops below the markers of a curve.
fn draw_clients(canvas: &mut Canvas, panel: &PlotPanel, curve: &SeriesCurve) {
    for dot in &curve.dots {
        let (x, y) = panel.place(dot.x, dot.y);
        if let Some(clients) = dot.clients
            && panel.area.holds((x, y))
        {
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

/// A time with two decimals, or below 1 ms with three significant digits.
fn round_ms(ms: f64) -> f64 {
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

    fn latency_axis(dots: &[(f64, bool)], spread: Option<Spread>) -> Axis {
        let mut all = Vec::new();
        for &(y, saturated) in dots {
            all.push(Dot {
                y,
                saturated,
                ..Dot::default()
            });
        }
        let runs = PanelRuns {
            heading: String::new(),
            series: Vec::new(),
            dots: vec![all],
            swept: None,
        };
        runs.latency_axis("", &[5.5], None, spread)
    }

    #[test]
    fn a_saturated_run_does_not_set_the_scale() {
        let both = [(40.0, false), (90_000.0, true)];
        let log = latency_axis(&both, None);
        assert_eq!((log.low, log.high), (5.0, 200.0));
        let linear = latency_axis(&both, Some(Spread::Linear));
        assert_eq!((linear.low, linear.high), (0.0, 50.0));
        let only = latency_axis(&[(90.0, true)], None);
        assert_eq!(only.high, 90.0, "unless there is no other");
    }
}
