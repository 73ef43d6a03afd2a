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

/// The width of whiskers.
pub const WHISKER: f64 = 1.4;
const CAP: f64 = 3.0;

/// A marker closer than this to another hides it.
const HIDING: f64 = 4.0;
/// By how much the radius of a marker grows for each that would hide it, and for how many of these.
pub const RING: f64 = 1.9;
const MOST_RINGS: usize = 2;

/// What a legend shows before a label.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    /// A line with its marker.
    Line(Style),
    /// A line without a colour or a marker of its own, with these dashes and gaps.
    Stroke(&'static [f64]),
    /// A bar.
    Bar(Style),
    /// An area of one colour.
    Area(Rgb),
    /// A reference line.
    Rule,
    /// An upright reference line.
    UprightRule,
    /// A whisker with its caps.
    Whisker,
    /// A marker that is not filled.
    Hollow,
    /// A marker that is not filled, with an arrow above it.
    Above,
}

impl Key {
    fn width(self) -> f64 {
        match self {
            Key::Line(_) | Key::Stroke(_) | Key::Rule => 34.0,
            Key::Bar(_) | Key::Area(_) => 22.0,
            Key::UprightRule | Key::Whisker | Key::Hollow | Key::Above => 12.0,
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

/// One point of a curve.
#[derive(Clone, Copy, Debug)]
pub struct Dot {
    /// The horizontal value.
    pub x: f64,
    /// The vertical value.
    pub y: f64,
    /// Whether the run behind it was saturated, which its marker says by being hollow.
    pub saturated: bool,
}

/// A line with a marker at each of its points.
#[derive(Clone, Debug)]
pub struct Curve {
    /// How it is drawn.
    pub style: Style,
    /// Its points in their order.
    pub dots: Vec<Dot>,
}

/// The entries that say what hollow markers are, and those with an arrow, as far as there are any.
pub fn marker_entries(curves: &[Curve], y: &Axis) -> Vec<Entry> {
    let any = |says: &dyn Fn(&Dot) -> bool| curves.iter().flat_map(|curve| &curve.dots).any(says);
    let saturated = any(&|dot| dot.saturated).then(|| Entry { label: "saturated".into(), key: Key::Hollow });
    let above = any(&|dot| dot.y > y.high).then(|| Entry { label: "above the axis".into(), key: Key::Above });
    saturated.into_iter().chain(above).collect()
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
    let arrows = legend.iter().any(|entry| matches!(entry.key, Key::Above));
    let top = PADDING + header_height(title, legend, WIDTH - 2.0 * PADDING) + if arrows { 17.0 } else { 9.0 };
    let area = Rect { left, top, right, bottom: top + HEIGHT };
    let mut canvas = Canvas::new(WIDTH, (area.bottom + x_axis_height()).ceil());
    header(&mut canvas, title, legend);
    let panel = Panel { area, x, y };
    panel.grid(&mut canvas);
    (canvas, panel)
}

/// The space that the ticks of a horizontal axis and their labels take below its plot area.
pub const TICKS_HEIGHT: f64 = 7.0 + SMALL;

/// The space that a horizontal axis takes below its plot area.
pub fn x_axis_height() -> f64 {
    TICKS_HEIGHT + 6.0 + MEDIUM + PADDING
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
            canvas.marker((middle, y), &style, 0.0, false);
        }
        Key::Stroke(dash) => canvas.line(&[(x, y), (right, y)], Stroke { color: INK, width: LINE, dash }),
        Key::Bar(style) => bar(canvas, &block, &style),
        Key::Area(color) => canvas.fill(&block, color),
        Key::Rule => canvas.line(&[(x, y), (right, y)], RULE),
        Key::UprightRule => canvas.line(&[(middle, y - 8.0), (middle, y + 8.0)], RULE),
        Key::Whisker => {
            let stroke = Stroke::solid(INK, WHISKER);
            canvas.line(&[(middle, y - 7.0), (middle, y + 7.0)], stroke);
            for end in [y - 7.0, y + 7.0] {
                canvas.line(&[(middle - CAP, end), (middle + CAP, end)], stroke);
            }
        }
        Key::Hollow => canvas.marker((middle, y), &Style { color: INK, ..Style::of(0) }, 0.0, true),
        Key::Above => {
            canvas.marker((middle, y + 4.0), &Style { color: INK, ..Style::of(0) }, 0.0, true);
            arrow_above(canvas, (middle, y + 4.0), INK);
        }
    }
}

/// The arrow above the marker of a point that lies above the axis.
fn arrow_above(canvas: &mut Canvas, (x, y): Point, color: Rgb) {
    const HEAD: f64 = 2.8;
    let (from, tip) = (y - 6.2, y - 13.0);
    canvas.line(&[(x, from), (x, tip)], Stroke::solid(color, WHISKER));
    canvas.line(&[(x - HEAD, tip + HEAD), (x, tip), (x + HEAD, tip + HEAD)], Stroke::solid(color, WHISKER));
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
        self.x_ticks(canvas);
        let at = ((self.area.left + self.area.right) / 2.0, self.area.bottom + TICKS_HEIGHT + 6.0 + 0.8 * MEDIUM);
        let middle = centred(&self.x.label, at.0, canvas.width);
        canvas.text(&self.x.label, (middle, at.1), MEDIUM, Align::Center, INK);
    }

    /// Draws the horizontal axis without what is measured.
    pub fn x_ticks(&self, canvas: &mut Canvas) {
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

    /// Draws curves: first the lines, then the markers, hollow where a run was saturated. A point above the area is drawn
    /// on its upper border with an arrow, where the line ends, so that its horizontal value can still be read. Lines
    /// between saturated runs have a width of their own. A marker that one of a later curve would hide is larger, so
    /// that it shows as a ring around that.
    pub fn curves(&self, canvas: &mut Canvas, curves: &[Curve], between_saturated: f64) {
        let top = self.y.high;
        for Curve { style, dots } in curves {
            for (saturated, piece) in pieces(dots, top) {
                let width = if saturated { between_saturated } else { LINE };
                self.line(canvas, &piece, Stroke { color: style.color, width, dash: style.dash });
            }
        }
        let places: Vec<Vec<Point>> =
            curves.iter().map(|curve| curve.dots.iter().map(|dot| self.at(dot.x, dot.y.min(top))).collect()).collect();
        for (i, Curve { style, dots }) in curves.iter().enumerate() {
            for (dot, &at) in dots.iter().zip(&places[i]).filter(|(_, at)| self.area.holds(**at)) {
                let hides = |other: &Point| (other.0 - at.0).hypot(other.1 - at.1) < HIDING;
                let over = places[i + 1..].iter().filter(|later| later.iter().any(hides)).count();
                let grown = RING * over.min(MOST_RINGS) as f64;
                canvas.marker(at, style, grown, dot.saturated);
                // One arrow says it of all markers at a place.
                if dot.y > top && over == 0 {
                    arrow_above(canvas, at, style.color);
                }
            }
        }
    }

    /// Draws a whisker from one value to another, with caps where these lie in the area, so many units beside `x`.
    pub fn whisker(&self, canvas: &mut Canvas, x: f64, beside: f64, (low, high): (f64, f64), stroke: Stroke) {
        let shifted = |(x, y): Point| (x + beside, y);
        let (lower, upper) = (shifted(self.at(x, low)), shifted(self.at(x, high)));
        canvas.line_within(&self.area, &[lower, upper], stroke);
        for end in [lower, upper] {
            if self.area.holds(end) {
                canvas.line(&[(end.0 - CAP, end.1), (end.0 + CAP, end.1)], stroke);
            }
        }
    }

    /// Draws a dashed reference line.
    pub fn rule(&self, canvas: &mut Canvas, values: &[(f64, f64)]) {
        self.line(canvas, values, RULE);
    }
}

/// The pieces of a curve's line below `top`, each with whether the runs at its points were saturated.
fn pieces(dots: &[Dot], top: f64) -> Vec<(bool, Vec<(f64, f64)>)> {
    let mut pieces: Vec<(bool, Vec<(f64, f64)>)> = Vec::new();
    for pair in dots.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        if from.y > top && to.y > top {
            // A line between two points above the area would tell a latency that is not theirs.
            continue;
        }
        let saturated = from.saturated && to.saturated;
        let (from, to) = ((from.x, from.y.min(top)), (to.x, to.y.min(top)));
        match pieces.last_mut() {
            Some((same, piece)) if *same == saturated && piece.last() == Some(&from) => piece.push(to),
            _ => pieces.push((saturated, vec![from, to])),
        }
    }
    pieces
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

    fn dot((x, y, saturated): (f64, f64, bool)) -> Dot {
        Dot { x, y, saturated }
    }

    fn drawn(curves: &[&[(f64, f64, bool)]]) -> (Panel, Vec<Mark>) {
        let (mut canvas, panel) = figure(None, &[], Axis::linear("", 0.0, 10.0, 4), Axis::linear("", 0.0, 1.0, 4));
        canvas.marks.clear();
        let style = |i| Style { dash: &[], ..Style::of(i) };
        let curves: Vec<Curve> = (0..)
            .zip(curves)
            .map(|(i, dots)| Curve { style: style(i), dots: dots.iter().copied().map(dot).collect() })
            .collect();
        panel.curves(&mut canvas, &curves, 1.0);
        (panel, canvas.marks)
    }

    #[test]
    fn a_point_above_the_area_is_drawn_on_its_border_with_an_arrow() {
        let (panel, marks) = drawn(&[&[(2.0, 0.5, false), (4.0, 9.0, true), (6.0, 9.0, true)]]);
        let line = |mark: &Mark| if let Mark::Line(points, ..) = mark { Some(points.clone()) } else { None };
        let lines: Vec<Vec<Point>> = marks.iter().filter_map(line).collect();
        assert_eq!(lines[0], [panel.at(2.0, 0.5), panel.at(4.0, 1.0)]);
        assert_eq!(lines.len(), 1 + 2 + 2, "two strokes for each arrow, and no line from one point to the next");
        let areas = marks.iter().filter(|mark| matches!(mark, Mark::Area(..))).count();
        assert_eq!(areas, 2 + 3 + 3, "a full marker and two hollow ones");
    }

    #[test]
    fn a_line_between_saturated_runs_has_its_own_width() {
        let dots = [(0.0, 0.1, false), (1.0, 0.2, true), (2.0, 0.3, true), (3.0, 0.4, true)].map(dot);
        let widths: Vec<(bool, usize)> = pieces(&dots, 1.0).iter().map(|(thin, piece)| (*thin, piece.len())).collect();
        assert_eq!(widths, [(false, 2), (true, 3)]);
    }

    #[test]
    fn a_marker_that_would_be_hidden_is_a_ring_around_the_other() {
        let (_, marks) = drawn(&[&[(2.0, 0.5, false), (8.0, 0.5, false)], &[(2.0, 0.5, false)]]);
        let height = |mark: &Mark| {
            let Mark::Area(points, _) = mark else { return None };
            let y = || points.iter().map(|(_, y)| *y);
            Some(y().fold(f64::MIN, f64::max) - y().fold(f64::MAX, f64::min))
        };
        let heights: Vec<f64> = marks.iter().filter_map(height).collect();
        assert!((heights[1] - heights[3] - 2.0 * RING).abs() < 1e-9, "{heights:?}");
    }
}
