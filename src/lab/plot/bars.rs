//! Groups of bars, in one or more panels.

use super::axis::{Axis, Spread, Tick, number};
use super::canvas::{Canvas, Rect, Stroke};
use super::data::{Datum, OF_REPLICATIONS};
use super::input::SeriesRow;
use super::layout::{Content, Frame, drawn};
use super::legend::{
    LegendEntry, LegendKey, MarkerSigns, SPAN, WHISKER, bar, interval_label, marker,
};
use super::panel::PlotPanel;
use super::points::{replications, x_label};
use super::remark::{IN_LEGEND, stated_entry, stated_style};
use super::sheet::Sheet;
use super::style::{INK, Style};
use super::{Drawing, PlotInputs, PlotOptions, Undrawn, lines, nothing};
use crate::lab::results::columns::Metric;
use crate::lab::results::sweep_keys;
use crate::lab::results::sweep_keys::distinct;
use crate::lab::results::table::significant;

const HEIGHT: f64 = 120.0;
const ALONE: f64 = 210.0;
const WHISKERS: &str = "mean to p99";

#[derive(Clone, Debug, Default)]
pub struct Bars {
    pub sheet: Sheet,
    pub title: Option<String>,
    /// The difference between groups, such as "Load".
    pub across: String,
    pub value: String,
    pub series: Vec<String>,
    /// Panels and groups in their order.
    pub bars: Vec<Bar>,
    /// Values of a series `X, paper` are marks on the bars of `X` or `X, model`.
    pub with_papers: bool,
    /// With a logarithmic axis.
    pub log: bool,
    /// Lines over the groups, which are many, instead of bars.
    pub lines: bool,
    /// A last panel that sums up the others in a unit of its own. No claim reads it as a bar of its series.
    pub summary: Vec<Bar>,
    /// Of series that have bars of their own; empty: those of series 0, 1 and so on.
    pub styles: Vec<Style>,
    /// What a cross on a bar says, if not that requests were late.
    pub crossed: Option<&'static str>,
    /// What intervals are, if bars have some.
    pub interval: String,
}

/// A bar and its place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bar {
    pub panel: String,
    pub group: String,
    pub series: String,
    /// `None`: the place is empty.
    pub value: Option<f64>,
    /// The 99th percentile of what the value is the mean of.
    pub upto: Option<f64>,
    /// The ends of the value's 95 % interval over replications.
    pub interval: Option<[f64; 2]>,
    /// Then a hollow marker stands on it.
    pub saturated: bool,
    /// The load generator was late: a crossed marker stands on it.
    pub invalid: bool,
}

impl Bar {
    pub fn new(group: impl ToString, series: impl Into<String>, value: Option<f64>) -> Bar {
        Bar {
            group: group.to_string(),
            series: series.into(),
            value,
            ..Bar::default()
        }
    }
}

impl Bars {
    pub fn drawn(&self) -> Canvas {
        if self.lines {
            lines::drawn(self)
        } else {
            self.with_axes(self.contents())
        }
    }

    /// Draws the bars with the axes that the user asked for.
    pub fn asked(&self, options: &PlotOptions) -> Drawing {
        let least = self
            .bars
            .iter()
            .filter_map(|bar| bar.value)
            .filter(|value| *value > 0.0)
            .fold(f64::INFINITY, f64::min);
        let asked = |content: Content| {
            let axes = [content.x, content.y];
            let [x, y] = options.asked(axes, [1.0, least])?;
            Ok(Content { x, y, ..content })
        };
        Ok(self.with_axes(
            self.contents()
                .into_iter()
                .map(asked)
                .collect::<Result<_, Undrawn>>()?,
        ))
    }

    fn own(&self) -> Vec<&str> {
        self.series
            .iter()
            .filter(|s| self.marked_by(s).is_none())
            .map(String::as_str)
            .collect()
    }

    pub fn style(&self, place: usize) -> Style {
        self.styles.get(place).copied().unwrap_or(Style::of(place))
    }

    fn panels(&self) -> Vec<&str> {
        distinct(self.all().map(|bar| bar.panel.as_str()))
    }

    fn contents(&self) -> Vec<Content> {
        let panels = self.panels();
        panels
            .iter()
            .map(|panel| self.content(panel, panels.len()))
            .collect()
    }

    fn legend(&self) -> Vec<LegendEntry> {
        let own = self.own();
        let mut legend: Vec<LegendEntry> = (0..)
            .zip(&own)
            .map(|(i, label)| LegendEntry::new(*label, LegendKey::Bar(self.style(i))))
            .collect();
        if own.len() == 1 && self.panels().len() > 1 {
            legend.clear();
        }
        let any = |is: fn(&Bar) -> bool| self.all().any(is);
        let intervals = any(|bar| bar.interval.is_some());
        let tail = if intervals {
            LegendKey::Span
        } else {
            LegendKey::Whisker
        };
        let crossed = self.crossed.unwrap_or("not valid: requests were late");
        let cross = MarkerSigns {
            invalid: true,
            ..MarkerSigns::default()
        };
        let more = [
            any(|bar| bar.upto.is_some()).then(|| LegendEntry::new(WHISKERS, tail)),
            intervals.then(|| LegendEntry::new(&self.interval, LegendKey::Whisker)),
            any(|bar| bar.saturated && bar.value.is_some())
                .then(|| LegendEntry::told("saturated", MarkerSigns::default())),
            any(|bar| bar.invalid && bar.value.is_some())
                .then(|| LegendEntry::told(crossed, cross)),
            stated_entry(own.len() < self.series.len()),
        ];
        legend.extend(more.into_iter().flatten());
        legend
    }

    fn with_axes(&self, contents: Vec<Content>) -> Canvas {
        let (legend, panels) = (self.legend(), self.panels());
        // Of three in two columns, one cell would be empty.
        let (title, beside) = (self.title.as_deref(), panels.len() != 3);
        let frame = Frame {
            sheet: &self.sheet,
            title,
            legend: &legend,
            beside,
            right: None,
        };
        drawn(&frame, contents, |canvas, i, panel| {
            self.draw(canvas, panel, panels[i])
        })
    }

    fn draw(&self, canvas: &mut Canvas, panel: &PlotPanel, name: &str) {
        let own = self.own();
        let width = 0.8 / own.len().max(1) as f64;
        // They cover bars.
        let mut markers = Vec::new();
        let groups = distinct(self.of_panel(name).map(|bar| &bar.group));
        let group = |bar: &Bar| groups.iter().position(|group| **group == bar.group);
        let series = |bar: &Bar| self.series.iter().position(|series| *series == bar.series);
        let mut all: Vec<&Bar> = self.of_panel(name).collect();
        all.sort_by_key(|bar| (group(bar), series(bar)));
        for one in all {
            let (label, stated_of) = (one.series.as_str(), self.marked_by(&one.series));
            let place = own
                .iter()
                .position(|own| *own == stated_of.unwrap_or(label));
            let (Some(value), Some(place), Some(group)) = (one.value, place, group(one)) else {
                continue;
            };
            canvas.data.extend(one.data(panel, value));
            let from = group as f64 - 0.4 + place as f64 * width;
            let ((left, bottom), (right, top)) = (
                panel.at(from, panel.y.low),
                panel.at(from + width, value.min(panel.y.high)),
            );
            let middle = ((left + right) / 2.0, top);
            canvas.spot(
                label,
                Rect {
                    left,
                    top,
                    right,
                    bottom,
                },
                self.values(one, value),
            );
            let above = value > panel.y.high;
            let told = MarkerSigns {
                saturated: one.saturated,
                invalid: one.invalid,
                above,
                ..MarkerSigns::default()
            };
            if stated_of.is_some() {
                markers.push((
                    IN_LEGEND,
                    stated_style(),
                    middle,
                    MarkerSigns {
                        above,
                        ..MarkerSigns::default()
                    },
                ));
                continue;
            }
            let gap = ((right - left) * 0.08).min(0.6);
            canvas.group(label, |canvas| {
                bar(
                    canvas,
                    &Rect {
                        left: left + gap,
                        top,
                        right: right - gap,
                        bottom,
                    },
                    &self.style(place),
                );
                let stroke = |width| Stroke::solid(INK, width);
                match (one.upto, one.interval) {
                    (Some(upto), None) => panel.whisker(
                        canvas,
                        from + width / 2.0,
                        0.0,
                        [value, upto],
                        stroke(WHISKER),
                    ),
                    (Some(upto), Some(_)) => {
                        panel.span(canvas, from + width / 2.0, 0.0, [value, upto], stroke(SPAN))
                    }
                    _ => {}
                }
                one.interval.into_iter().for_each(|ends| {
                    panel.whisker(canvas, from + width / 2.0, 0.0, ends, stroke(WHISKER))
                });
            });
            markers.extend((one.saturated || one.invalid || above).then_some((
                label,
                self.style(place),
                middle,
                told,
            )));
        }
        for (label, style, at, told) in markers {
            canvas.group(label, |canvas| marker(canvas, at, &style, 0.0, told));
        }
    }

    /// The series whose bars have the paper's values of this one as marks.
    fn marked_by(&self, label: &str) -> Option<&str> {
        let name = label.strip_suffix(", paper").filter(|_| self.with_papers)?;
        self.series
            .iter()
            .map(String::as_str)
            .find(|of| of.strip_suffix(", model").unwrap_or(of) == name)
    }

    /// Those of the last panel, too.
    pub fn all(&self) -> impl Iterator<Item = &Bar> {
        self.bars.iter().chain(&self.summary)
    }

    fn of_panel(&self, panel: &str) -> impl Iterator<Item = &Bar> {
        self.all().filter(move |bar| bar.panel == panel)
    }

    /// For a page.
    fn values(&self, bar: &Bar, value: f64) -> String {
        let upto = bar.upto.map_or(String::new(), |upto| {
            format!("\n{WHISKERS}: {}", significant(upto))
        });
        let interval = bar.interval.map_or(String::new(), |[_, high]| {
            format!(" ± {}", significant(high - value))
        });
        let of = if self.summary.contains(bar) {
            &bar.panel
        } else {
            &self.value
        };
        format!(
            "{}: {}\n{of}: {}{interval}{upto}",
            self.across,
            bar.group,
            significant(value)
        )
    }

    fn content(&self, panel: &str, panels: usize) -> Content {
        let of_bars = |of: fn(&Bar) -> Option<f64>| self.of_panel(panel).filter_map(of);
        let ends = |bar: &Bar| {
            bar.upto
                .unwrap_or(0.0)
                .max(bar.interval.map_or(0.0, |[_, high]| high))
        };
        let highest = self
            .of_panel(panel)
            .filter_map(|bar| Some(bar.value?.max(ends(bar))))
            .fold(0.0, f64::max);
        let lowest = of_bars(|bar| bar.value.filter(|value| *value > 0.0)).fold(highest, f64::min);
        let (height, room) = if panels > 1 { (HEIGHT, 4) } else { (ALONE, 5) };
        let y = match self.log && lowest > 0.0 {
            // Below the lowest, which would have no bar.
            true => Axis::log(&self.value, 0.7 * lowest, highest),
            false => Axis::linear_to_tick(&self.value, highest, room),
        };
        let groups = distinct(self.of_panel(panel).map(|bar| &bar.group));
        let count = groups.len();
        let ticks = (0..).zip(groups).map(|(i, group)| Tick {
            value: f64::from(i),
            label: group.clone(),
        });
        let x = Axis::bins(&self.across, [-0.5, count as f64 - 0.5], ticks.collect());
        Content::new(panel, height, [x, y])
    }
}

impl Bar {
    fn data(&self, panel: &PlotPanel, value: f64) -> Vec<Datum> {
        let Bar {
            invalid, saturated, ..
        } = *self;
        let plain = Datum {
            invalid,
            saturated,
            ..Datum::new(panel, &self.series, &self.group, value)
        };
        plain.with_each([
            (self.interval, OF_REPLICATIONS),
            (self.upto.map(|upto| [value, upto]), WHISKERS),
        ])
    }
}

pub fn by_load(inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
    let series = inputs.series(&options.in_panels())?;
    let (policies, parts) = inputs.by_folder(&series);
    let mut bars = Vec::new();
    for (folder, own) in &parts {
        let panel = if parts.len() == 1 && options.title.is_some() {
            String::new()
        } else {
            options.look.name(&folder.name).to_string()
        };
        let mut of_folder = Vec::new();
        for s in own {
            for SeriesRow { row, whole, x, .. } in &s.rows {
                let point = row.point()?;
                let load = || {
                    point
                        .parse::<f64>()
                        .map_or(point.to_string(), |rate| number(rate.round()))
                };
                let (panel, group, series) = (
                    panel.clone(),
                    x.clone().unwrap_or_else(load),
                    s.name.clone(),
                );
                let (value, upto) = (row.metric(Metric::Mean)?, row.metric(Metric::P99)?);
                let (interval, saturated, invalid) = (
                    row.interval(Metric::Mean)?,
                    whole.saturated()?,
                    !whole.is_valid()?,
                );
                of_folder.push(Bar {
                    panel,
                    group,
                    series,
                    value,
                    upto,
                    interval,
                    saturated,
                    invalid,
                });
            }
        }
        if options.x.is_some() {
            of_folder.sort_by(|a, b| sweep_keys::order(&a.group, &b.group));
        }
        bars.extend(of_folder);
    }
    let values = || bars.iter().filter_map(|bar| bar.value);
    let (least, most) = values().fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), v| {
        (v.min(a), v.max(b))
    });
    if values().next().is_none() {
        return Err(nothing("summary.csv has no row with mean_ms"));
    }
    /// A linear axis would show the short bars as nothing.
    const WIDE: f64 = 100.0;
    let log = options
        .spread()
        .map_or(most > WIDE * least, |spread| spread == Spread::Log);
    let rows = series.iter().flat_map(|s| s.rows.iter().map(|row| row.row));
    let drawing = Bars {
        sheet: options.sheet(),
        log,
        title: options.title.clone(),
        across: x_label(&series, options).unwrap_or_else(|| "Load (requests/s)".into()),
        value: "Latency (ms)".into(),
        styles: policies.iter().map(|(_, style)| *style).collect(),
        series: policies
            .into_iter()
            .map(|(policy, _)| policy.into())
            .collect(),
        bars,
        interval: interval_label(&replications(rows)),
        ..Bars::default()
    };
    drawing.asked(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::plot::canvas::Mark;

    #[test]
    fn bars_stand_beside_each_other_as_high_as_their_values() {
        let of_panel = |panel: &str| {
            [
                ("low", "a", Some(1.0)),
                ("low", "b", Some(2.0)),
                ("high", "a", None),
                ("high", "b", Some(4.0)),
            ]
            .map(|(group, series, value)| Bar {
                panel: panel.into(),
                upto: value.and(Some(4.0)),
                ..Bar::new(group, series, value)
            })
        };
        let bars = ["one", "two"].into_iter().flat_map(of_panel).collect();
        let canvas = Bars {
            series: vec!["a".into(), "b".into()],
            bars,
            ..Bars::default()
        }
        .drawn();
        let heights = |canvas: &Canvas| -> Vec<f64> {
            let area = |mark: &Mark| {
                let Mark::Area(points, _) = mark else {
                    return None;
                };
                Some(
                    points.iter().map(|p| p.1).fold(f64::MIN, f64::max)
                        - points.iter().map(|p| p.1).fold(f64::MAX, f64::min),
                )
            };
            canvas.marks.iter().filter_map(area).collect()
        };
        // After the two keys of the legend: three bars in each panel.
        let heights = &heights(&canvas)[2..];
        assert_eq!(heights.len(), 6);
        for panel in heights.chunks(3) {
            assert!(
                (panel[1] - 2.0 * panel[0]).abs() < 1e-9 && (panel[2] - HEIGHT).abs() < 1e-9,
                "{panel:?}"
            );
        }
    }

    #[test]
    fn a_papers_values_are_marks_on_bars() {
        let bar = |series: &str, value| Bar::new("one", series, Some(value));
        let series = vec!["ours".into(), "ours, paper".into()];
        let plain = Bars {
            series,
            bars: vec![bar("ours", 1.0), bar("ours, paper", 2.0)],
            ..Bars::default()
        };
        let marked = Bars {
            with_papers: true,
            ..plain.clone()
        };
        let said = |bars: &Bars| {
            let canvas = bars.drawn();
            ["ours, paper", IN_LEGEND].map(|words| {
                canvas
                    .groups
                    .iter()
                    .filter(|group| group.series == words)
                    .count()
            })
        };
        assert_eq!(
            (said(&plain), said(&marked)),
            ([2, 0], [0, 2]),
            "an entry in the legend, and a bar or a mark"
        );
    }
}
