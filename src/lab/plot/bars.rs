//! Groups of bars, in one or more panels.

use super::axis::{Axis, Spread, number};
use super::canvas::{Canvas, Point, Rect, Stroke};
use super::chart::{Bar, Bars};
use super::data::{Datum, OF_REPLICATIONS};
use super::dot::MarkerSigns;
use super::folder::{Series, SeriesRow};
use super::input::{PlotInputs, distinct_names};
use super::layout::{Content, Frame, draw_panels};
use super::legend::{LegendEntry, LegendKey, interval_label};
use super::lines::draw_lines;
use super::options::PlotOptions;
use super::panel::PlotPanel;
use super::points::{replications, x_label};
use super::remark::{IN_LEGEND, stated_entry, stated_style};
use super::style::{INK, SPAN_WIDTH, Style, WHISKER_WIDTH};
use super::undrawn::{Drawing, nothing};
use crate::base::error::Result;
use crate::lab::results::columns::Metric;
use crate::lab::results::sweep_keys;
use crate::lab::results::sweep_keys::distinct;
use crate::lab::results::table::significant;

/// The height of a panel among several.
const HEIGHT: f64 = 120.0;
/// The height of a panel that is alone.
const ALONE: f64 = 210.0;
/// The name of a bar's whiskers in legends, on pages and in the data.
const WHISKERS: &str = "mean to p99";
/// The share of a group's width that its bars take.
const GROUP_WIDTH: f64 = 0.8;

/// A marker on a bar. Markers are drawn after all bars, which they cover.
struct BarMarker<'b> {
    series: &'b str,
    style: Style,
    at: Point,
    signs: MarkerSigns,
}

/// The place of a bar on the canvas.
struct BarPlace {
    area: Rect,
    /// The middle of the bar on the horizontal axis.
    middle: f64,
    /// Whether the value lies above the axis.
    is_above: bool,
}

impl Bars {
    /// Draws the bars.
    pub fn draw(&self) -> Canvas {
        if self.lines {
            draw_lines(self)
        } else {
            self.draw_contents(self.contents())
        }
    }

    /// Draws the bars with the axes that the user asked for.
    pub(super) fn draw_with(&self, options: &PlotOptions) -> Drawing {
        let least = self
            .bars
            .iter()
            .filter(|bar| bar.is_positive())
            .filter_map(|bar| bar.value)
            .fold(f64::INFINITY, f64::min);
        let mut contents = Vec::new();
        for content in self.contents() {
            let axes = [content.x.clone(), content.y.clone()];
            let [x, y] = options.axes(axes, [1.0, least])?;
            contents.push(Content { x, y, ..content });
        }
        Ok(self.draw_contents(contents))
    }

    fn contents(&self) -> Vec<Content> {
        let panels = self.panels();
        panels
            .iter()
            .map(|panel| self.content(panel, panels.len()))
            .collect()
    }

    fn content(&self, panel: &str, panels: usize) -> Content {
        let highest = self
            .panel_bars(panel)
            .filter_map(Bar::highest)
            .fold(0.0, f64::max);
        let lowest = self
            .panel_bars(panel)
            .filter(|bar| bar.is_positive())
            .filter_map(|bar| bar.value)
            .fold(highest, f64::min);
        let (height, room) = if panels > 1 { (HEIGHT, 4) } else { (ALONE, 5) };
        let y = if self.log && lowest > 0.0 {
            // The axis begins below the lowest value, which would have no bar otherwise.
            Axis::log(&self.value, 0.7 * lowest, highest)
        } else {
            Axis::linear_to_tick(&self.value, highest, room)
        };
        let groups = distinct(self.panel_bars(panel).map(|bar| &bar.group));
        let x = Axis::named_bins(&self.across, groups);
        Content::new(panel, height, [x, y])
    }

    fn legend(&self) -> Vec<LegendEntry> {
        let own = self.own_series();
        let mut legend = Vec::new();
        if own.len() != 1 || self.panels().len() <= 1 {
            for (i, label) in own.iter().enumerate() {
                legend.push(LegendEntry::new(*label, LegendKey::Bar(self.style(i))));
            }
        }
        let has_intervals = self.all().any(|bar| bar.interval.is_some());
        if self.all().any(|bar| bar.upto.is_some()) {
            let key = if has_intervals {
                LegendKey::Span
            } else {
                LegendKey::Whisker
            };
            legend.push(LegendEntry::new(WHISKERS, key));
        }
        if has_intervals {
            legend.push(LegendEntry::new(&self.interval, LegendKey::Whisker));
        }
        if self.all().any(|bar| bar.saturated && bar.value.is_some()) {
            legend.push(LegendEntry::with_signs("saturated", MarkerSigns::default()));
        }
        if self.all().any(|bar| bar.invalid && bar.value.is_some()) {
            let label = self.crossed.unwrap_or("not valid: requests were late");
            let cross = MarkerSigns {
                invalid: true,
                ..MarkerSigns::default()
            };
            legend.push(LegendEntry::with_signs(label, cross));
        }
        if own.len() < self.series.len() {
            legend.push(stated_entry(true));
        }
        legend
    }

    fn draw_contents(&self, contents: Vec<Content>) -> Canvas {
        let legend = self.legend();
        let panels = self.panels();
        let frame = Frame {
            sheet: &self.sheet,
            title: self.title.as_deref(),
            legend: &legend,
            // Three panels in two columns would leave a place empty.
            beside: panels.len() != 3,
            right: None,
        };
        draw_panels(&frame, contents, |canvas, i, panel| {
            self.draw_panel(canvas, panel, panels[i]);
        })
    }

    fn draw_panel(&self, canvas: &mut Canvas, panel: &PlotPanel, name: &str) {
        let own = self.own_series();
        let groups = distinct(self.panel_bars(name).map(|bar| &bar.group));
        let mut all: Vec<&Bar> = self.panel_bars(name).collect();
        all.sort_by_key(|bar| {
            let group = groups.iter().position(|group| **group == bar.group);
            let series = self.series.iter().position(|series| *series == bar.series);
            (group, series)
        });
        let mut markers: Vec<BarMarker<'_>> = Vec::new();
        for bar in all {
            let marked = self.marked_series(&bar.series);
            let label = marked.unwrap_or(&bar.series);
            let place = own.iter().position(|own| *own == label);
            let group = groups.iter().position(|group| **group == bar.group);
            let (Some(value), Some(place), Some(group)) = (bar.value, place, group) else {
                continue;
            };
            canvas.data.extend(bar.data(panel, value));
            let on_canvas = place_bar(panel, value, [group, place], own.len());
            canvas.spot(&bar.series, on_canvas.area, self.values(bar, value));
            let area = on_canvas.area;
            let top = ((area.left + area.right) / 2.0, area.top);
            if marked.is_some() {
                markers.push(BarMarker {
                    series: IN_LEGEND,
                    style: stated_style(),
                    at: top,
                    signs: MarkerSigns {
                        above: on_canvas.is_above,
                        ..MarkerSigns::default()
                    },
                });
                continue;
            }
            let style = self.style(place);
            canvas.group(&bar.series, |canvas| {
                draw_bar(canvas, panel, bar, value, &on_canvas, &style);
            });
            if bar.saturated || bar.invalid || on_canvas.is_above {
                markers.push(BarMarker {
                    series: &bar.series,
                    style,
                    at: top,
                    signs: MarkerSigns {
                        saturated: bar.saturated,
                        invalid: bar.invalid,
                        above: on_canvas.is_above,
                        ..MarkerSigns::default()
                    },
                });
            }
        }
        for marker in markers {
            canvas.group(marker.series, |canvas| {
                canvas.marker(marker.at, &marker.style, 0.0, marker.signs);
            });
        }
    }

    /// The text with which a page shows a bar.
    fn values(&self, bar: &Bar, value: f64) -> String {
        let quantity = if self.summary.contains(bar) {
            &bar.panel
        } else {
            &self.value
        };
        let mut text = format!(
            "{}: {}\n{quantity}: {}",
            self.across,
            bar.group,
            significant(value)
        );
        if let Some([_, high]) = bar.interval {
            text += &format!(" ± {}", significant(high - value));
        }
        if let Some(upto) = bar.upto {
            text += &format!("\n{WHISKERS}: {}", significant(upto));
        }
        text
    }
}

/// The place of a bar. Each group has the same number of bars.
fn place_bar(
    panel: &PlotPanel,
    value: f64,
    [group, number]: [usize; 2],
    bars_in_group: usize,
) -> BarPlace {
    let width = GROUP_WIDTH / bars_in_group.max(1) as f64;
    let from = group as f64 - GROUP_WIDTH / 2.0 + number as f64 * width;
    let (left, bottom) = panel.place(from, panel.y.low);
    let (right, top) = panel.place(from + width, value.min(panel.y.high));
    BarPlace {
        area: Rect {
            left,
            top,
            right,
            bottom,
        },
        middle: from + width / 2.0,
        is_above: value > panel.y.high,
    }
}

/// Draws a bar with its whiskers.
fn draw_bar(
    canvas: &mut Canvas,
    panel: &PlotPanel,
    bar: &Bar,
    value: f64,
    place: &BarPlace,
    style: &Style,
) {
    let gap = (place.area.width() * 0.08).min(0.6);
    let narrower = Rect {
        left: place.area.left + gap,
        right: place.area.right - gap,
        ..place.area
    };
    canvas.bar(&narrower, style);
    let whisker = Stroke::solid(INK, WHISKER_WIDTH);
    if let Some(upto) = bar.upto {
        let ends = [value, upto];
        if bar.interval.is_some() {
            let thin = Stroke::solid(INK, SPAN_WIDTH);
            panel.span(canvas, place.middle, 0.0, ends, thin);
        } else {
            panel.whisker(canvas, place.middle, 0.0, ends, whisker);
        }
    }
    if let Some(ends) = bar.interval {
        panel.whisker(canvas, place.middle, 0.0, ends, whisker);
    }
}

impl Bar {
    /// The bar with its intervals, as rows of the figure's data.
    fn data(&self, panel: &PlotPanel, value: f64) -> Vec<Datum> {
        let plain = Datum {
            invalid: self.invalid,
            saturated: self.saturated,
            ..panel.datum(&self.series, &self.group, value)
        };
        plain.with_each([
            (self.interval, OF_REPLICATIONS),
            (self.upto.map(|upto| [value, upto]), WHISKERS),
        ])
    }
}

/// Draws mean latencies by load. Each results folder has a panel.
pub fn draw_by_load(inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
    let series = inputs.series(&options.with_panels())?;
    let parts = inputs.group_by_folder(&series);
    let mut bars = Vec::new();
    for part in &parts {
        let panel = if parts.len() == 1 && options.title.is_some() {
            ""
        } else {
            options.look.name(&part.folder.name)
        };
        let mut of_folder = bars_of_series(panel, &part.series)?;
        if options.x.is_some() {
            of_folder.sort_by(|a, b| sweep_keys::order(&a.group, &b.group));
        }
        bars.extend(of_folder);
    }
    if bars.iter().all(|bar| bar.value.is_none()) {
        return Err(nothing("summary.csv has no row with mean_ms"));
    }
    let rows = series.iter().flat_map(|s| s.rows.iter().map(|row| row.row));
    let policies = distinct_names(&series);
    let mut chart = Bars {
        sheet: options.sheet(),
        title: options.title.clone(),
        across: x_label(&series, options).unwrap_or_else(|| "Load (requests/s)".into()),
        value: "Latency (ms)".into(),
        styles: policies.iter().map(|(_, style)| *style).collect(),
        series: policies
            .iter()
            .map(|(policy, _)| policy.to_string())
            .collect(),
        bars,
        interval: interval_label(&replications(rows)),
        ..Bars::default()
    };
    chart.log = match options.y_spread() {
        Some(spread) => spread == Spread::Log,
        None => chart.spans_magnitudes(),
    };
    chart.draw_with(options)
}

impl Bars {
    /// Whether the shortest bars would be invisible on a linear axis.
    fn spans_magnitudes(&self) -> bool {
        const WIDE: f64 = 100.0;
        let [least, most] = self.least_and_most();
        most > WIDE * least
    }
}

/// A bar for each row of these series.
fn bars_of_series(panel: &str, series: &[&Series<'_>]) -> Result<Vec<Bar>> {
    let mut bars = Vec::new();
    for s in series {
        for row in &s.rows {
            let group = group_name(row)?;
            let mean = row.row.metric(Metric::Mean)?;
            bars.push(Bar {
                panel: panel.to_string(),
                upto: row.row.metric(Metric::P99)?,
                interval: row.row.interval(Metric::Mean)?,
                saturated: row.whole.is_saturated()?,
                invalid: !row.whole.is_valid()?,
                ..Bar::new(group, &s.name, mean)
            });
        }
    }
    Ok(bars)
}

/// The value of the swept key on the x axis, or the load.
fn group_name(row: &SeriesRow<'_>) -> Result<String> {
    let point = row.row.point()?;
    if let Some(x) = &row.x {
        return Ok(x.clone());
    }
    Ok(match point.parse::<f64>() {
        Ok(rate) => number(rate.round()),
        Err(_) => point.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::plot::canvas::CanvasMark;

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
        .draw();
        let heights = |canvas: &Canvas| -> Vec<f64> {
            let area = |mark: &CanvasMark| {
                let CanvasMark::Area(points, _) = mark else {
                    return None;
                };
                Some(
                    points.iter().map(|p| p.1).fold(f64::MIN, f64::max)
                        - points.iter().map(|p| p.1).fold(f64::MAX, f64::min),
                )
            };
            canvas.marks.iter().filter_map(area).collect()
        };
        // The first two heights are those of keys in the legend; each panel has three bars.
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
            let canvas = bars.draw();
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
