//! A plot area with its axes, and what stands around it: title, legend, labels.

use super::axis::{Axis, Spread, number};
use super::canvas::{Align, Canvas, HALF_DIGIT, Point, Rect, Stroke};
use super::font::{fitted, text_width};
use super::style::{GRID, Hatch, INK, LARGE, MEDIUM, REFERENCE, REFERENCE_DASH, Rgb, SMALL, Style, WIDTH, tint};

/// The space between the border of a figure and what is in it.
pub const PADDING: f64 = 8.0;
/// The width of the lines of series.
pub const LINE: f64 = 2.2;
/// The height of a plot area, unless its content asks for another.
const HEIGHT: f64 = 250.0;

/// How reference lines are drawn.
const RULE: Stroke = Stroke { color: REFERENCE, width: 1.6, dash: REFERENCE_DASH };

const LEGEND_ROW: f64 = 21.0;
const LEGEND_GAP: f64 = 18.0;
const KEY_GAP: f64 = 6.0;

const WHISKER: f64 = 1.4;
const CAP: f64 = 3.0;

/// What a legend shows before a label.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    /// A line with its marker.
    Line(Style),
    /// A bar.
    Bar(Style),
    /// An area of one colour.
    Area(Rgb),
    /// A reference line.
    Rule,
    /// A whisker with its caps.
    Whisker,
    /// A marker that is not filled.
    Hollow,
}

impl Key {
    fn width(self) -> f64 {
        match self {
            Key::Line(_) | Key::Rule => 34.0,
            Key::Bar(_) | Key::Area(_) => 22.0,
            Key::Whisker | Key::Hollow => 12.0,
        }
    }
}

/// One entry of a legend.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What it is called.
    pub label: String,
    /// What it looks like.
    pub key: Key,
}

/// The entry that says what a hollow marker is, if there is one.
pub fn saturated_entry(any: bool) -> Option<Entry> {
    any.then(|| Entry { label: "saturated".into(), key: Key::Hollow })
}

/// A plot area and its axes.
#[derive(Clone, Debug)]
pub struct Panel {
    /// The area between the axes.
    pub area: Rect,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
}

/// A figure with one panel: the title and the legend above it, so that no line runs below them. The axes are drawn last,
/// with [`Panel::axes`], over what touches them.
pub fn figure(title: Option<&str>, legend: &[Entry], x: Axis, y: Axis) -> (Canvas, Panel) {
    let widest = y.ticks.iter().filter_map(|t| t.label.as_deref()).map(|l| text_width(l, SMALL)).fold(0.0, f64::max);
    let left = PADDING + MEDIUM + 8.0 + widest + 7.0;
    let right = WIDTH - PADDING - overhang(&x);
    let top = PADDING + header_height(title, legend, WIDTH - 2.0 * PADDING);
    let area = Rect { left, top: top + 9.0, right, bottom: top + 9.0 + HEIGHT };
    let mut canvas = Canvas::new(WIDTH, (area.bottom + x_axis_height()).ceil());
    header(&mut canvas, title, legend);
    let panel = Panel { area, x, y };
    panel.grid(&mut canvas);
    (canvas, panel)
}

/// The space that a horizontal axis takes below its plot area.
pub fn x_axis_height() -> f64 {
    7.0 + SMALL + 6.0 + MEDIUM + PADDING
}

/// How far the last label of a horizontal axis may stand out to the right of it.
pub fn overhang(x: &Axis) -> f64 {
    x.ticks
        .iter()
        .rev()
        .find_map(|tick| tick.label.as_deref().map(|label| text_width(label, SMALL) / 2.0))
        .unwrap_or(0.0)
        .max(4.0)
}

/// How many labels as wide as this value's fit below a plot area.
pub fn room_for(value: f64) -> usize {
    (380.0 / (text_width(&number(value.round()), SMALL) + 14.0)) as usize
}

/// A logarithmic horizontal axis.
pub fn log_x(label: impl Into<String>, low: f64, high: f64) -> Axis {
    Axis::log(label, low, high, 380.0, |label| text_width(label, SMALL) + 10.0)
}

/// A logarithmic vertical axis.
pub fn log_y(label: impl Into<String>, low: f64, high: f64) -> Axis {
    Axis::log(label, low, high, HEIGHT, |_| SMALL + 3.0)
}

/// The height of title and legend.
pub fn header_height(title: Option<&str>, legend: &[Entry], width: f64) -> f64 {
    let rows = legend_places(legend, width).last().map_or(0, |place| place.row + 1);
    title.map_or(0.0, |_| LARGE + 9.0) + rows as f64 * LEGEND_ROW
}

/// Draws the title in the middle and the legend below it, on as many rows as it needs.
pub fn header(canvas: &mut Canvas, title: Option<&str>, legend: &[Entry]) {
    let width = canvas.width - 2.0 * PADDING;
    let mut top = PADDING;
    if let Some(title) = title {
        let at = (canvas.width / 2.0, top + LARGE);
        canvas.text(fitted(title, LARGE, width), at, LARGE, Align::Center, INK);
        top += LARGE + 9.0;
    }
    let places = legend_places(legend, width);
    for (entry, place) in legend.iter().zip(&places) {
        let end = places.iter().rfind(|p| p.row == place.row).map_or(0.0, |last| last.end);
        let x = PADDING + (width - end) / 2.0 + place.x;
        let y = top + (place.row as f64 + 0.5) * LEGEND_ROW;
        draw_key(canvas, entry.key, x, y);
        let at = (x + entry.key.width() + KEY_GAP, y + HALF_DIGIT * SMALL);
        canvas.text(&place.label, at, SMALL, Align::Left, INK);
    }
}

/// Where an entry of a legend stands.
#[derive(Debug)]
struct Place {
    row: usize,
    x: f64,
    end: f64,
    label: String,
}

fn legend_places(legend: &[Entry], width: f64) -> Vec<Place> {
    let (mut row, mut x) = (0, 0.0);
    let mut places = Vec::with_capacity(legend.len());
    for entry in legend {
        let key = entry.key.width() + KEY_GAP;
        let label = fitted(&entry.label, SMALL, width - key);
        let wide = key + text_width(&label, SMALL);
        if x > 0.0 && x + wide > width {
            (row, x) = (row + 1, 0.0);
        }
        places.push(Place { row, x, end: x + wide, label });
        x += wide + LEGEND_GAP;
    }
    places
}

fn draw_key(canvas: &mut Canvas, key: Key, x: f64, y: f64) {
    let (middle, right) = (x + key.width() / 2.0, x + key.width());
    let block = Rect { left: x, top: y - 6.0, right, bottom: y + 6.0 };
    match key {
        Key::Line(style) => {
            let stroke = Stroke { color: style.color, width: LINE, dash: style.dash };
            canvas.line(&[(x, y), (right, y)], stroke);
            canvas.marker((middle, y), &style, false);
        }
        Key::Bar(style) => bar(canvas, &block, &style),
        Key::Area(color) => canvas.fill(&block, color),
        Key::Rule => canvas.line(&[(x, y), (right, y)], RULE),
        Key::Whisker => {
            let stroke = Stroke::solid(INK, WHISKER);
            canvas.line(&[(middle, y - 7.0), (middle, y + 7.0)], stroke);
            for end in [y - 7.0, y + 7.0] {
                canvas.line(&[(middle - CAP, end), (middle + CAP, end)], stroke);
            }
        }
        Key::Hollow => canvas.marker((middle, y), &Style { color: INK, ..Style::of(0) }, true),
    }
}

/// A bar with its hatch.
pub fn bar(canvas: &mut Canvas, rect: &Rect, style: &Style) {
    const SPACING: f64 = 4.5;
    if style.hatch == Hatch::Plain {
        canvas.fill(rect, style.color);
    } else {
        canvas.fill(rect, tint(style.color, 0.3));
        let stroke = Stroke::solid(style.color, 1.4);
        let (width, height) = (rect.width(), rect.height());
        for i in 1..((width + height) / SPACING).ceil() as usize {
            let d = i as f64 * SPACING;
            let line = match style.hatch {
                Hatch::Rising => [(rect.left + d - height, rect.bottom), (rect.left + d, rect.top)],
                Hatch::Falling => [(rect.left + d - height, rect.top), (rect.left + d, rect.bottom)],
                _ => [(rect.left, rect.bottom - d), (rect.right, rect.bottom - d)],
            };
            canvas.line_within(rect, &line, stroke);
        }
    }
    canvas.border(rect, Stroke::solid(style.color, 1.0));
}

impl Panel {
    /// The place of a pair of values; far outside of the area for values far outside of the axes.
    pub fn at(&self, x: f64, y: f64) -> Point {
        // Bounded, so that the cut of a line at the border stays exact.
        let (across, up) = (self.x.place(x).clamp(-100.0, 100.0), self.y.place(y).clamp(-100.0, 100.0));
        (self.area.left + across * self.area.width(), self.area.bottom - up * self.area.height())
    }

    /// Draws a thin line at each labelled tick.
    pub fn grid(&self, canvas: &mut Canvas) {
        let Rect { left, top, right, bottom } = self.area;
        let stroke = Stroke::solid(GRID, 0.8);
        for tick in self.x.ticks.iter().filter(|t| t.label.is_some() && self.x.spread != Spread::Bins) {
            let (x, _) = self.at(tick.value, self.y.low);
            canvas.line(&[(x, top), (x, bottom)], stroke);
        }
        for tick in self.y.ticks.iter().filter(|t| t.label.is_some()) {
            let (_, y) = self.at(self.x.low, tick.value);
            canvas.line(&[(left, y), (right, y)], stroke);
        }
    }

    /// Draws both axes with ticks and labels.
    pub fn axes(&self, canvas: &mut Canvas) {
        self.x_axis(canvas);
        self.y_axis(canvas);
    }

    /// Draws the horizontal axis.
    pub fn x_axis(&self, canvas: &mut Canvas) {
        let Rect { left, right, bottom, .. } = self.area;
        let stroke = Stroke::solid(INK, 1.2);
        canvas.line(&[(left - 0.6, bottom), (right, bottom)], stroke);
        for tick in &self.x.ticks {
            let (x, _) = self.at(tick.value, self.y.low);
            let length = if tick.label.is_some() { 5.0 } else { 3.0 };
            canvas.line(&[(x, bottom), (x, bottom + length)], stroke);
            if let Some(label) = &tick.label {
                canvas.text(label, (x, bottom + 7.0 + 0.8 * SMALL), SMALL, Align::Center, INK);
            }
        }
        let at = ((left + right) / 2.0, bottom + 7.0 + SMALL + 6.0 + 0.8 * MEDIUM);
        let middle = centred(&self.x.label, at.0, canvas.width);
        canvas.text(&self.x.label, (middle, at.1), MEDIUM, Align::Center, INK);
    }

    /// Draws the vertical axis.
    pub fn y_axis(&self, canvas: &mut Canvas) {
        let Rect { left, top, bottom, .. } = self.area;
        let stroke = Stroke::solid(INK, 1.2);
        canvas.line(&[(left, top), (left, bottom + 0.6)], stroke);
        for tick in &self.y.ticks {
            let (_, y) = self.at(self.x.low, tick.value);
            let length = if tick.label.is_some() { 5.0 } else { 3.0 };
            canvas.line(&[(left - length, y), (left, y)], stroke);
            if let Some(label) = &tick.label {
                canvas.text(label, (left - 7.0, y + HALF_DIGIT * SMALL), SMALL, Align::Right, INK);
            }
        }
        canvas.upright_text(&self.y.label, (PADDING + 0.8 * MEDIUM, (top + bottom) / 2.0), MEDIUM, INK);
    }

    /// Draws a line through pairs of values, as far as it lies in the area.
    pub fn line(&self, canvas: &mut Canvas, values: &[(f64, f64)], stroke: Stroke) {
        let points: Vec<Point> = values.iter().map(|&(x, y)| self.at(x, y)).collect();
        canvas.line_within(&self.area, &points, stroke);
    }

    /// Draws a series: a line through its points and a marker at each, hollow where it says so. A point above the area
    /// is drawn on its upper border, where the line ends, so that its horizontal value can still be read.
    pub fn series(&self, canvas: &mut Canvas, points: &[(f64, f64, bool)], style: &Style) {
        let stroke = Stroke { color: style.color, width: LINE, dash: style.dash };
        let top = self.y.high;
        let mut line: Vec<(f64, f64)> = Vec::new();
        for (i, &(x, y, _)) in points.iter().enumerate() {
            if y > top && i > 0 && points[i - 1].1 > top {
                // Two points above the area: a line between them would tell a latency that is not theirs.
                self.line(canvas, &line, stroke);
                line.clear();
            }
            line.push((x, y.min(top)));
        }
        self.line(canvas, &line, stroke);
        for &(x, y, hollow) in points {
            let at = self.at(x, y.min(top));
            if self.area.holds(at) {
                canvas.marker(at, style, hollow);
            }
        }
    }

    /// Draws a whisker from one value to another, with caps where these lie in the area, so many units beside `x`.
    pub fn whisker(&self, canvas: &mut Canvas, x: f64, beside: f64, (low, high): (f64, f64), color: Rgb) {
        let shifted = |(x, y): Point| (x + beside, y);
        let (lower, upper) = (shifted(self.at(x, low)), shifted(self.at(x, high)));
        canvas.line_within(&self.area, &[lower, upper], Stroke::solid(color, WHISKER));
        for end in [lower, upper] {
            if self.area.holds(end) {
                canvas.line(&[(end.0 - CAP, end.1), (end.0 + CAP, end.1)], Stroke::solid(color, WHISKER));
            }
        }
    }

    /// Draws a dashed reference line.
    pub fn rule(&self, canvas: &mut Canvas, values: &[(f64, f64)]) {
        self.line(canvas, values, RULE);
    }
}

/// The middle of a label that would be centred at `x`, moved so that it does not stick out of the figure.
fn centred(label: &str, x: f64, width: f64) -> f64 {
    let half = text_width(label, MEDIUM) / 2.0;
    x.min(width - PADDING / 2.0 - half).max(PADDING / 2.0 + half)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::canvas::Mark;

    #[test]
    fn a_legend_that_does_not_fit_on_one_row_takes_more() {
        let entries: Vec<Entry> =
            (0..6).map(|i| Entry { label: format!("padded, width {i}0"), key: Key::Line(Style::of(i)) }).collect();
        let places = legend_places(&entries, 464.0);
        assert_eq!(places[0].row, 0);
        assert!(places[5].row >= 2, "{places:?}");
        assert!(places.iter().all(|place| place.end <= 464.0));
    }

    #[test]
    fn the_last_tick_label_is_inside_the_figure() {
        let (canvas, panel) = figure(None, &[], Axis::linear("", 0.0, 20_000.0, 4), Axis::linear("", 0.0, 1.0, 4));
        let (x, _) = panel.at(20_000.0, 0.0);
        assert!(x + text_width("20,000", SMALL) / 2.0 <= canvas.width);
    }

    #[test]
    fn a_point_above_the_area_is_drawn_on_its_border() {
        let (mut canvas, panel) = figure(None, &[], Axis::linear("", 0.0, 10.0, 4), Axis::linear("", 0.0, 1.0, 4));
        canvas.marks.clear();
        panel.series(&mut canvas, &[(2.0, 0.5, false), (4.0, 9.0, true), (6.0, 9.0, true)], &Style::of(0));
        let lines: Vec<&Vec<Point>> = canvas
            .marks
            .iter()
            .filter_map(|mark| if let Mark::Line(points, ..) = mark { Some(points) } else { None })
            .collect();
        assert_eq!(lines, [&vec![panel.at(2.0, 0.5), panel.at(4.0, 1.0)]], "no line from one to the next");
        let areas = canvas.marks.iter().filter(|mark| matches!(mark, Mark::Area(..))).count();
        assert_eq!(areas, 2 + 3 + 3, "a full marker and two hollow ones");
    }
}
