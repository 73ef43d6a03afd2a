//! Cumulative distributions of queueing time, computation time and latency at one point, and their drawing.

use super::axis::{Axis, Spread};
use super::canvas::{Canvas, Stroke};
use super::data::Datum;
use super::input::{ResultsFolder, Series};
use super::layout::{MOST_ACROSS, figure};
use super::legend::{LegendEntry, LegendKey};
use super::look::Scale;
use super::panel::{Dot, LINE, SeriesCurve};
use super::points::at_point;
use super::style::{INK, Style};
use super::{Drawing, FigureKind, PlotInputs, PlotOptions, Undrawn, nothing};
use crate::base::error::Result;
use crate::base::units::Nanos;
use crate::lab::results::logs::RequestLine;

/// A part of the time from a request's arrival over its start to its finish; `None` if it is negative.
type Span = fn([u64; 3]) -> Option<u64>;

pub fn latency([arrival, _, finish]: [u64; 3]) -> Option<u64> {
    finish.checked_sub(arrival)
}

/// The shares with markers, so that a curve can be recognised without colour.
const MARKED: [f64; 4] = [0.1, 0.5, 0.9, 0.99];
/// The shares whose values a page shows.
const SHOWN: [f64; 13] = [
    0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99,
];

/// Of saturated runs, whose times show only how long they were.
const SATURATED: &[f64] = &[4.0, 5.0];

pub struct CdfLine {
    pub label: String,
    pub style: Style,
    pub hollow: bool,
    pub cdf: Cdf,
}

/// A panel's heading, its lines and its axes.
pub type Lines = (String, Vec<CdfLine>, [Axis; 2]);

/// Lines of one label share an entry in the legend. With `tail`, the share above each value.
pub fn drawn(
    options: &PlotOptions,
    panels: Vec<Lines>,
    more: Vec<LegendEntry>,
    tail: bool,
) -> Canvas {
    let mut legend: Vec<LegendEntry> = Vec::new();
    for line in panels.iter().flat_map(|(_, lines, _)| lines) {
        if legend.iter().all(|entry| entry.label != line.label) {
            legend.push(LegendEntry::new(&line.label, LegendKey::Line(line.style)));
        }
    }
    legend.extend(more);
    let fields = panels
        .iter()
        .map(|(heading, _, axes)| (heading.clone(), axes.clone(), Vec::new()))
        .collect();
    figure(options, legend, fields, |canvas, i, panel| {
        let lines = &panels[i].1;
        // Hollow markers first: rings around full ones at the same point.
        let (hollow, full): (Vec<&CdfLine>, Vec<&CdfLine>) =
            lines.iter().partition(|line| line.hollow);
        let curves: Vec<SeriesCurve> = hollow
            .into_iter()
            .chain(full)
            .map(|line| line.curve(tail))
            .collect();
        panel.curves(canvas, &curves);
        for line in lines {
            let datum = |(x, y)| Datum {
                saturated: line.hollow,
                ..Datum::new(panel, &line.label, x, y)
            };
            canvas
                .data
                .extend(line.cdf.curve(tail).into_iter().map(datum));
        }
    })
}

impl CdfLine {
    fn curve(&self, tail: bool) -> SeriesCurve {
        let CdfLine {
            label,
            style,
            hollow,
            cdf,
        } = self;
        let shown = |share: f64| if tail { 1.0 - share } else { share };
        let dot = |share: f64| {
            let (x, y, marked) = (cdf.quantile(share), shown(share), MARKED.contains(&share));
            Dot {
                x,
                y,
                marked,
                saturated: *hollow,
                ..Dot::default()
            }
        };
        let dots = SHOWN
            .into_iter()
            .filter(|share| *share <= cdf.served())
            .map(dot)
            .collect();
        SeriesCurve {
            label: label.clone(),
            style: *style,
            lines: vec![(LINE, cdf.curve(tail))],
            dots,
        }
    }
}

pub fn times(name: &str, span: Span, inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
    let panels = inputs.at_points(options)?;
    let panels = panels
        .into_iter()
        .map(|(heading, point, series)| lines(name, span, heading, &point, &series, options));
    Ok(drawn(
        options,
        panels.collect::<Result<_, _>>()?,
        Vec::new(),
        options.tail,
    ))
}

fn lines(
    name: &str,
    span: Span,
    heading: String,
    point: &str,
    series: &[Series<'_>],
    options: &PlotOptions,
) -> Result<Lines, Undrawn> {
    let line = |s: &Series<'_>| {
        let hollow = s.saturated_at(point)?;
        let (suffix, dash) = if hollow {
            (" (saturated)", SATURATED)
        } else {
            ("", s.style.dash)
        };
        let (label, style) = (format!("{}{suffix}", s.label), Style { dash, ..s.style });
        Ok(CdfLine {
            label,
            style,
            hollow,
            cdf: distribution(s, point, span)?,
        })
    };
    let lines = series
        .iter()
        .map(line)
        .collect::<Result<Vec<_>, Undrawn>>()?;
    let Some((least, largest)) = ends(&lines) else {
        return Err(nothing(format!(
            "every time at point {point} is 0, which a logarithmic axis does not show"
        )));
    };
    let label = format!("{name}{} (ms)", at_point(point));
    let x = match options.look.x_scale {
        Some(Scale::Linear) => Axis::linear_to_tick(label, largest, MOST_ACROSS),
        _ => Axis::log(label, least, largest),
    };
    let requests = lines.iter().map(|line| line.cdf.count()).max().unwrap_or(1);
    let fewest = 0.5 / requests as f64;
    let y = if options.tail {
        Axis::log("Share of slower requests", fewest, 1.0)
    } else {
        shares()
    };
    let axes = options.asked_of(
        [x, y],
        options.look.y_scale.map(Spread::from),
        [least, fewest],
    )?;
    Ok((heading, lines, axes))
}

pub fn shares() -> Axis {
    Axis::linear("Share of requests", 1.0, 5)
}

/// The ends of a logarithmic axis; `None` if all times are 0. It begins where the first curve rises, at most five
/// decades below the largest time of the fastest policy: the slowest policy's could cut off the fastest.
fn ends(lines: &[CdfLine]) -> Option<(f64, f64)> {
    let largest = || lines.iter().map(|line| line.cdf.largest());
    let most = largest().fold(0.0, f64::max);
    let starts = lines.iter().filter_map(|line| line.cdf.low_end());
    let fastest = largest().filter(|time| *time > 0.0).fold(most, f64::min);
    (most > 0.0).then(|| (starts.fold(most, f64::min).max(fastest / 1e5), most))
}

/// In milliseconds, of the requests after the warm-up. The curve ends at the share that was served.
fn distribution(series: &Series<'_>, point: &str, span: Span) -> Result<Cdf, Undrawn> {
    let (path, mut rows) = series.requests(point)?;
    // Of a class, requests say themselves whether they count.
    let class = series.class();
    let warmup = series.row_at(point).filter(|_| class.is_none());
    let mut warmup = warmup.map_or(Ok(0), |row| row.warmup())?;
    let mut times = Vec::new();
    let mut unserved = 0;
    while let Some(RequestLine {
        arrival_ns,
        start_ns,
        finish_ns,
        class: own,
        measured,
        ..
    }) = rows.read()?
    {
        if class.is_some_and(|class| own != class || measured == 0) {
            continue;
        }
        if warmup > 0 {
            warmup -= 1;
            continue;
        }
        let (Some(start), Some(finish)) = (start_ns, finish_ns) else {
            unserved += 1;
            continue;
        };
        let Some(time) = span([arrival_ns.0, start.0, finish.0]) else {
            let why = "the request's times run backwards; arrival, start, finish is the order";
            return Err(rows.error("finish_ns", why).into());
        };
        times.push(Nanos(time).as_millis_f64());
    }
    let cdf = Cdf::of(times).map(|cdf| Cdf {
        all: cdf.count() + unserved,
        ..cdf
    });
    cdf.ok_or_else(|| {
        nothing(format!(
            "{}: no request finished after the warm-up",
            path.display()
        ))
    })
}

/// Draws the latencies of a point in two results folders over each other (the first solid, the second dashed with
/// hollow markers); `None` without request logs.
///
/// Panics unless the inputs are two results folders.
pub fn compared(inputs: &PlotInputs, point: &str, options: &PlotOptions) -> Result<Option<Canvas>> {
    const SECOND: &[f64] = &[6.0, 3.5];
    let [first, second] = &inputs.folders[..] else {
        panic!("two results folders are compared")
    };
    let all = inputs
        .series(&options.in_panels())
        .map_err(|undrawn| undrawn.error(FigureKind::LatencyCdf))?;
    let found = |series: &Series<'_>| match series
        .row_at(point)
        .map(|_| distribution(series, point, latency))
    {
        None | Some(Err(Undrawn::Nothing(_))) => Ok(None),
        Some(Err(Undrawn::Broken(error))) => Err(error),
        Some(Ok(cdf)) => Ok(Some(cdf)),
    };
    let mut lines: Vec<CdfLine> = Vec::new();
    let (of_first, of_second): (Vec<_>, Vec<_>) =
        all.iter().partition(|series| series.is_of(first));
    let pairs = of_first
        .iter()
        .filter_map(|one| Some((one, of_second.iter().find(|s| s.name == one.name)?)));
    for (one, other) in pairs {
        let (Some(cdf), Some(other_cdf)) = (found(one)?, found(other)?) else {
            continue;
        };
        for (cdf, dash, hollow) in [(cdf, &[][..], false), (other_cdf, SECOND, true)] {
            let style = Style { dash, ..one.style };
            lines.push(CdfLine {
                label: one.name.clone(),
                style,
                hollow,
                cdf,
            });
        }
    }
    let Some((least, largest)) = ends(&lines) else {
        return Ok(None);
    };
    let folder = |of: &ResultsFolder, dash| {
        LegendEntry::new(
            &of.name,
            LegendKey::Stroke(Stroke {
                color: INK,
                width: LINE,
                dash,
            }),
        )
    };
    let folders = vec![folder(first, &[]), folder(second, SECOND)];
    let x = Axis::log(format!("Latency{} (ms)", at_point(point)), least, largest);
    Ok(Some(drawn(
        options,
        vec![(String::new(), lines, [x, shares()])],
        folders,
        false,
    )))
}

/// Of at least one sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Cdf {
    /// Values, ascending, with the number of samples at or below each.
    steps: Vec<(f64, u64)>,
    /// Those without a value, too.
    all: u64,
}

impl Cdf {
    /// `None` without samples.
    pub fn of(mut samples: Vec<f64>) -> Option<Cdf> {
        samples.sort_by(f64::total_cmp);
        Cdf::weighted(samples.into_iter().map(|value| (value, 1)))
    }

    /// Of ascending values with their counts; `None` if all counts are 0.
    pub fn weighted(ascending: impl IntoIterator<Item = (f64, u64)>) -> Option<Cdf> {
        let mut cdf = Cdf {
            steps: Vec::new(),
            all: 0,
        };
        for (value, times) in ascending.into_iter().filter(|(_, times)| *times > 0) {
            cdf.all += times;
            match cdf.steps.last_mut() {
                Some(last) if last.0 == value => last.1 = cdf.all,
                _ => cdf.steps.push((value, cdf.all)),
            }
        }
        (cdf.all > 0).then_some(cdf)
    }

    fn last(&self) -> (f64, u64) {
        *self.steps.last().expect("there is at least one sample")
    }

    /// Of the samples with a value.
    fn count(&self) -> u64 {
        self.last().1
    }

    pub fn largest(&self) -> f64 {
        self.last().0
    }

    /// Where the curve ends: the share of the samples with a value.
    fn served(&self) -> f64 {
        self.count() as f64 / self.all as f64
    }

    /// The first percentile of the samples above 0.
    pub fn low_end(&self) -> Option<f64> {
        let zeros = self
            .steps
            .first()
            .map_or(0, |&(value, below)| if value > 0.0 { 0 } else { below });
        let rank = zeros + (self.count() - zeros).div_ceil(100);
        let place = self.steps.partition_point(|(_, below)| *below < rank);
        self.steps
            .get(place)
            .map(|(value, _)| *value)
            .filter(|value| *value > 0.0)
    }

    /// The smallest sample with at least this share of the samples at or below it.
    pub fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.all as f64).ceil();
        let place = self
            .steps
            .partition_point(|(_, below)| (*below as f64) < rank);
        self.steps
            .get(place)
            .map_or(self.largest(), |(value, _)| *value)
    }

    /// With `tail`, of the share above each value. The corners of a staircase; of one with more steps than can be seen,
    /// points that lie close to each other.
    fn curve(&self, tail: bool) -> Vec<(f64, f64)> {
        const MOST: usize = 500;
        if self.steps.len() > MOST {
            let end = if tail {
                (1.0 - self.served()).max(1.0 / self.all as f64)
            } else {
                self.served()
            };
            let part = |i: usize| i as f64 / MOST as f64;
            let share = |i| {
                if tail {
                    end.powf(part(i))
                } else {
                    end * part(i)
                }
            };
            let point = |share: f64| (self.quantile(if tail { 1.0 - share } else { share }), share);
            return (0..=MOST)
                .map(|i| point(share(i)))
                .chain([(self.largest(), end)])
                .collect();
        }
        let share =
            |below: u64| if tail { self.all - below } else { below } as f64 / self.all as f64;
        let before = [0]
            .into_iter()
            .chain(self.steps.iter().map(|(_, below)| *below));
        let corners = before
            .zip(&self.steps)
            .flat_map(|(before, (value, below))| [(*value, before), (*value, *below)]);
        // A logarithmic axis has no place for a share of 0.
        corners
            .map(|(value, below)| (value, share(below)))
            .filter(|(_, share)| !tail || *share > 0.0)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_count_equal_samples_together() {
        let cdf = Cdf::of(vec![3.0, 1.0, 2.0, 2.0]).unwrap();
        assert_eq!(
            cdf.curve(false),
            [
                (1.0, 0.0),
                (1.0, 0.25),
                (2.0, 0.25),
                (2.0, 0.75),
                (3.0, 0.75),
                (3.0, 1.0)
            ]
        );
        assert_eq!(
            cdf.curve(true),
            [
                (1.0, 1.0),
                (1.0, 0.75),
                (2.0, 0.75),
                (2.0, 0.25),
                (3.0, 0.25)
            ]
        );
        assert_eq!(Cdf::of(vec![]), None);
        assert_eq!(Cdf::weighted([(1.0, 0)]), None);
    }

    #[test]
    fn a_curve_ends_at_the_share_that_was_served() {
        let cdf = Cdf {
            all: 4,
            ..Cdf::of(vec![1.0, 2.0, 2.0]).unwrap()
        };
        assert_eq!(cdf.curve(false).last(), Some(&(2.0, 0.75)));
        assert_eq!(
            (cdf.served(), cdf.quantile(0.25), cdf.quantile(0.5)),
            (0.75, 1.0, 2.0)
        );
    }

    #[test]
    fn a_weight_is_as_many_samples() {
        assert_eq!(
            Cdf::weighted([(1.0, 1), (2.0, 2), (3.0, 1)]),
            Cdf::of(vec![1.0, 2.0, 2.0, 3.0])
        );
    }

    #[test]
    fn quantiles_are_samples() {
        let cdf = Cdf::of((0..=100).map(f64::from).collect()).unwrap();
        for (share, value) in [(0.0, 0.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            assert_eq!(cdf.quantile(share), value);
        }
        assert_eq!(cdf.low_end(), Some(1.0), "the zero does not count");
        assert_eq!(Cdf::of(vec![0.0]).unwrap().low_end(), None);
    }

    #[test]
    fn a_curve_of_many_samples_has_few_points_on_the_staircase() {
        let cdf = Cdf {
            all: 12_500,
            ..Cdf::of((0..10_000).map(f64::from).collect()).unwrap()
        };
        for tail in [false, true] {
            let curve = cdf.curve(tail);
            assert!(
                curve.len() < 600 && curve.windows(2).all(|pair| pair[0].0 <= pair[1].0),
                "{curve:?}"
            );
            for &(value, share) in &curve {
                let below = if tail { 1.0 - share } else { share } * 12_500.0;
                assert!((value - below).abs() <= 1.5, "{value} {share}");
            }
            assert!(
                (curve.last().unwrap().1 - if tail { 0.2 } else { 0.8 }).abs() < 1e-9,
                "the share that was served"
            );
        }
    }
}
