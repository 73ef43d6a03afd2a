//! Groups of bars, in one or more panels.

use super::axis::{Axis, Spread, Tick, number};
use super::canvas::{Canvas, Rect, Stroke};
use super::input::{Row, x_label};
use super::legend::{Entry, Key, Told, WHISKER, bar};
use super::panel::{Content, Frame, lay_out};
use super::remark::{IN_LEGEND, stated_entry, stated_style};
use super::render::text_width;
use super::style::{INK, SMALL, Style};
use super::{Drawing, Inputs, Options, nothing};
use crate::results::columns::Metric;
use crate::results::swept;
use crate::results::swept::distinct;
use crate::results::table::significant;

const HEIGHT: f64 = 120.0;
const ALONE: f64 = 210.0;
const WHISKERS: &str = "mean to p99";

#[derive(Clone, Debug, Default)]
pub struct Bars {
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
    /// Of series that have bars of their own; empty: those of series 0, 1 and so on.
    pub styles: Vec<Style>,
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
    /// Then a hollow marker stands on it.
    pub saturated: bool,
}

impl Bar {
    pub fn new(group: impl ToString, series: impl Into<String>, value: Option<f64>) -> Bar {
        Bar { group: group.to_string(), series: series.into(), value, ..Bar::default() }
    }
}

impl Bars {
    pub fn drawn(&self) -> Canvas {
        let own: Vec<&str> = self.series.iter().filter(|s| self.marked_by(s).is_none()).map(String::as_str).collect();
        let style = |place: usize| self.styles.get(place).copied().unwrap_or(Style::of(place));
        let mut legend: Vec<Entry> = (0..).zip(&own).map(|(i, label)| Entry::new(*label, Key::Bar(style(i)))).collect();
        let names = distinct(self.bars.iter().map(|bar| bar.panel.as_str()));
        if own.len() == 1 && names.len() > 1 {
            legend.clear();
        }
        let any = |is: fn(&Bar) -> bool| self.bars.iter().any(is);
        legend.extend(any(|bar| bar.upto.is_some()).then(|| Entry::new(WHISKERS, Key::Whisker)));
        legend
            .extend(any(|bar| bar.saturated && bar.value.is_some()).then(|| Entry::told("saturated", Told::default())));
        legend.extend(stated_entry(own.len() < self.series.len()));
        let frame = Frame { title: self.title.as_deref(), legend: &legend, columns: 2, right: None };
        let (mut canvas, panels) = lay_out(&frame, names.iter().map(|name| self.content(name, names.len())).collect());
        let width = 0.8 / own.len().max(1) as f64;
        for (name, panel) in names.iter().zip(&panels) {
            // They cover bars.
            let mut markers = Vec::new();
            let groups = distinct(self.of_panel(name).map(|bar| &bar.group));
            let group = |bar: &Bar| groups.iter().position(|group| **group == bar.group);
            let series = |bar: &Bar| self.series.iter().position(|series| *series == bar.series);
            let mut all: Vec<&Bar> = self.of_panel(name).collect();
            all.sort_by_key(|bar| (group(bar), series(bar)));
            for one in all {
                let (label, stated_of) = (one.series.as_str(), self.marked_by(&one.series));
                let place = own.iter().position(|own| *own == stated_of.unwrap_or(label));
                let (Some(value), Some(place), Some(group)) = (one.value, place, group(one)) else { continue };
                let from = group as f64 - 0.4 + place as f64 * width;
                let ((left, bottom), (right, top)) = (panel.at(from, panel.y.low), panel.at(from + width, value));
                let middle = ((left + right) / 2.0, top);
                canvas.spot(label, Rect { left, top, right, bottom }, self.values(one, value));
                if stated_of.is_some() {
                    markers.push((IN_LEGEND, stated_style(), middle, false));
                    continue;
                }
                let gap = ((right - left) * 0.08).min(0.6);
                canvas.group(label, |canvas| {
                    bar(canvas, &Rect { left: left + gap, top, right: right - gap, bottom }, &style(place));
                    if let Some(upto) = one.upto {
                        panel.whisker(canvas, from + width / 2.0, 0.0, [value, upto], Stroke::solid(INK, WHISKER));
                    }
                });
                markers.extend(one.saturated.then_some((label, style(place), middle, true)));
            }
            for (label, style, at, hollow) in markers {
                canvas.group(label, |canvas| canvas.marker(at, &style, 0.0, hollow));
            }
            panel.axes(&mut canvas);
        }
        canvas
    }

    /// The series whose bars have the paper's values of this one as marks.
    fn marked_by(&self, label: &str) -> Option<&str> {
        let name = label.strip_suffix(", paper").filter(|_| self.with_papers)?;
        self.series.iter().map(String::as_str).find(|of| of.strip_suffix(", model").unwrap_or(of) == name)
    }

    fn of_panel(&self, panel: &str) -> impl Iterator<Item = &Bar> {
        self.bars.iter().filter(move |bar| bar.panel == panel)
    }

    /// For a page.
    fn values(&self, bar: &Bar, value: f64) -> String {
        let upto = bar.upto.map_or(String::new(), |upto| format!("\n{WHISKERS}: {}", significant(upto)));
        format!("{}: {}\n{}: {}{upto}", self.across, bar.group, self.value, significant(value))
    }

    fn content(&self, panel: &str, panels: usize) -> Content {
        let of_bars = |of: fn(&Bar) -> Option<f64>| self.of_panel(panel).filter_map(of);
        let highest = of_bars(|bar| Some(bar.value?.max(bar.upto.unwrap_or(0.0)))).fold(0.0, f64::max);
        let lowest = of_bars(|bar| bar.value.filter(|value| *value > 0.0)).fold(highest, f64::min);
        let (height, room) = if panels > 1 { (HEIGHT, 4) } else { (ALONE, 5) };
        let y = match self.log && lowest > 0.0 {
            // Below the lowest, which would have no bar.
            true => Axis::log(&self.value, 0.7 * lowest, highest, height, |_| SMALL + 3.0),
            false => Axis::linear_to_tick(&self.value, highest, room),
        };
        // Labels too wide for every group: every second or third has one, counted from the last.
        let groups = distinct(self.of_panel(panel).map(|bar| &bar.group));
        let widest = groups.iter().map(|group| text_width(group, SMALL)).fold(0.0, f64::max) + 6.0;
        let count = groups.len();
        let stride = if panels > 1 { 1 } else { (widest * count as f64 / 390.0).ceil().max(1.0) as usize };
        let ticks = groups.into_iter().enumerate().map(|(i, group)| {
            let shown = (count - 1 - i).is_multiple_of(stride);
            Tick { value: i as f64, label: if shown { group.clone() } else { String::new() } }
        });
        let (label, ticks) = (self.across.clone(), ticks.collect());
        let x = Axis { label, spread: Spread::Bins, low: -0.5, high: count as f64 - 0.5, ticks };
        Content { heading: panel.into(), height, x, y }
    }
}

pub fn by_load(inputs: &Inputs, options: &Options) -> Drawing {
    let series = inputs.series(options)?;
    let (policies, parts) = inputs.by_folder(&series);
    let mut bars = Vec::new();
    for (folder, own) in &parts {
        let panel = if parts.len() == 1 && options.title.is_some() { String::new() } else { folder.name.clone() };
        let mut of_folder = Vec::new();
        for (_, s) in own {
            for Row { row, x, .. } in &s.rows {
                let point = row.point()?;
                let load = || point.parse::<f64>().map_or(point.to_string(), |rate| number(rate.round()));
                let (panel, group, series) = (panel.clone(), x.clone().unwrap_or_else(load), s.name.clone());
                let (value, upto) = (row.metric(Metric::Mean)?, row.metric(Metric::P99)?);
                of_folder.push(Bar { panel, group, series, value, upto, saturated: row.saturated()? });
            }
        }
        if options.x.is_some() {
            of_folder.sort_by(|a, b| swept::order(&a.group, &b.group));
        }
        bars.extend(of_folder);
    }
    let values = || bars.iter().filter_map(|bar| bar.value);
    let (least, most) = values().fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), v| (v.min(a), v.max(b)));
    if values().next().is_none() {
        return Err(nothing("summary.csv has no row with mean_ms"));
    }
    /// A linear axis would show the short bars as nothing.
    const WIDE: f64 = 100.0;
    let drawing = Bars {
        log: !options.linear && most > WIDE * least,
        title: options.title.clone(),
        across: x_label(&series, options).unwrap_or_else(|| "Load (requests/s)".into()),
        value: "Latency (ms)".into(),
        series: policies.into_iter().map(String::from).collect(),
        bars,
        ..Bars::default()
    };
    Ok(drawing.drawn())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::canvas::Mark;

    #[test]
    fn bars_stand_beside_each_other_as_high_as_their_values() {
        let of_panel = |panel: &str| {
            [("low", "a", Some(1.0)), ("low", "b", Some(2.0)), ("high", "a", None), ("high", "b", Some(4.0))].map(
                |(group, series, value)| Bar {
                    panel: panel.into(),
                    upto: value.and(Some(4.0)),
                    ..Bar::new(group, series, value)
                },
            )
        };
        let bars = ["one", "two"].into_iter().flat_map(of_panel).collect();
        let canvas = Bars { series: vec!["a".into(), "b".into()], bars, ..Bars::default() }.drawn();
        let heights = |canvas: &Canvas| -> Vec<f64> {
            let area = |mark: &Mark| {
                let Mark::Area(points, _) = mark else { return None };
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
            assert!((panel[1] - 2.0 * panel[0]).abs() < 1e-9 && (panel[2] - HEIGHT).abs() < 1e-9, "{panel:?}");
        }
    }

    #[test]
    fn a_papers_values_are_marks_on_bars() {
        let bar = |series: &str, value| Bar::new("one", series, Some(value));
        let series = vec!["ours".into(), "ours, paper".into()];
        let plain = Bars { series, bars: vec![bar("ours", 1.0), bar("ours, paper", 2.0)], ..Bars::default() };
        let marked = Bars { with_papers: true, ..plain.clone() };
        let said = |bars: &Bars| {
            let canvas = bars.drawn();
            ["ours, paper", IN_LEGEND].map(|words| canvas.groups.iter().filter(|group| group.series == words).count())
        };
        assert_eq!((said(&plain), said(&marked)), ([2, 0], [0, 2]), "an entry in the legend, and a bar or a mark");
    }
}
