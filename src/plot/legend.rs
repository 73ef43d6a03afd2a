//! A figure's title and legend, and the samples in it.

use super::axis::Axis;
use super::canvas::{Align, Canvas, Group, HALF_DIGIT, Point, Rect, Stroke};
use super::panel::{Curve, Dot, LINE, PADDING};
use super::remark::stated_style;
use super::render::{fitted, text_width};
use super::style::{Hatch, INK, LARGE, REFERENCE, REFERENCE_DASH, Rgb, SMALL, Style, WIDTH, tint};

pub const WHISKER: f64 = 1.4;
pub const CAP: f64 = 3.0;

pub const RULE: Stroke = Stroke { color: REFERENCE, width: 1.6, dash: REFERENCE_DASH };

const LEGEND_ROW: f64 = 21.0;
const LEGEND_GAP: f64 = 12.0;
const KEY_GAP: f64 = 6.0;

/// The sample before a label.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    Line(Style),
    /// In ink without a marker, with these dashes.
    Stroke(&'static [f64]),
    Bar(Style),
    Area(Rgb),
    Rule,
    Whisker,
    Hollow,
    /// With an arrow above it.
    Above,
    /// With a bar through it.
    Struck,
    Stated,
}

impl Key {
    fn width(self) -> f64 {
        match self {
            Key::Line(_) | Key::Stroke(_) | Key::Rule => 26.0,
            Key::Bar(_) | Key::Area(_) => 18.0,
            Key::Whisker | Key::Hollow | Key::Above | Key::Struck | Key::Stated => 12.0,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub label: String,
    pub key: Key,
}

impl Entry {
    pub fn new(label: impl Into<String>, key: Key) -> Entry {
        Entry { label: label.into(), key }
    }
}

/// For hollow markers and markers with a bar or an arrow, if the curves have any.
pub fn marker_entries(curves: &[Curve], y: &Axis) -> Vec<Entry> {
    let any = |says: &dyn Fn(&Dot) -> bool| curves.iter().flat_map(|curve| &curve.dots).any(says);
    let saturated = any(&|dot| dot.saturated).then(|| Entry::new("saturated", Key::Hollow));
    let above = any(&|dot| dot.y > y.high).then(|| Entry::new("above the axis", Key::Above));
    let rejected = any(&|dot| dot.rejected).then(|| Entry::new("requests rejected", Key::Struck));
    saturated.into_iter().chain(rejected).chain(above).collect()
}

const HEADER_WIDTH: f64 = WIDTH - 2.0 * PADDING;

pub fn header_height(title: Option<&str>, legend: &[Entry]) -> f64 {
    let rows = legend_places(legend).last().map_or(0, |place| place.row + 1);
    title.map_or(0.0, |_| LARGE + 9.0) + rows as f64 * LEGEND_ROW
}

/// The title, centred, above the legend's rows.
pub fn header(canvas: &mut Canvas, title: Option<&str>, legend: &[Entry]) {
    let mut top = PADDING;
    if let Some(title) = title {
        let at = (canvas.width / 2.0, top + LARGE);
        canvas.text(fitted(title, LARGE, HEADER_WIDTH), at, LARGE, Align::Center, INK);
        top += LARGE + 9.0;
    }
    let places = legend_places(legend);
    for (entry, place) in legend.iter().zip(&places) {
        let end = places.iter().rfind(|p| p.row == place.row).map_or(0.0, |last| last.end);
        let x = PADDING + (HEADER_WIDTH - end) / 2.0 + place.x;
        let y = top + (place.row as f64 + 0.5) * LEGEND_ROW;
        let first = canvas.marks.len();
        draw_key(canvas, entry.key, x, y);
        let at = (x + entry.key.width() + KEY_GAP, y + HALF_DIGIT * SMALL);
        canvas.text(&place.label, at, SMALL, Align::Left, INK);
        let half = LEGEND_ROW / 2.0;
        let key = Some(Rect { left: x, top: y - half, right: x + place.end - place.x, bottom: y + half });
        canvas.groups.push(Group { series: entry.label.clone(), marks: first..canvas.marks.len(), key });
    }
}

/// From the left of its row.
#[derive(Debug)]
struct Place {
    row: usize,
    x: f64,
    end: f64,
    label: String,
}

fn legend_places(legend: &[Entry]) -> Vec<Place> {
    let (mut row, mut x) = (0, 0.0);
    let mut places = Vec::with_capacity(legend.len());
    for entry in legend {
        let key = entry.key.width() + KEY_GAP;
        let label = fitted(&entry.label, SMALL, HEADER_WIDTH - key);
        let wide = key + text_width(&label, SMALL);
        if x > 0.0 && x + wide > HEADER_WIDTH {
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
        Key::Stated => canvas.marker((middle, y), &stated_style(), 0.0, false),
        Key::Struck => {
            canvas.marker((middle, y), &Style { color: INK, ..Style::of(0) }, 0.0, true);
            struck(canvas, (middle, y), 0.0);
        }
    }
}

/// A bar through a marker that has grown by so much.
pub fn struck(canvas: &mut Canvas, (x, y): Point, grown: f64) {
    let reach = 6.2 + grown;
    canvas.line(&[(x - reach, y - reach), (x + reach, y + reach)], Stroke::solid(INK, WHISKER));
}

pub fn arrow_above(canvas: &mut Canvas, (x, y): Point, color: Rgb) {
    const HEAD: f64 = 2.8;
    let (from, tip) = (y - 6.2, y - 13.0);
    canvas.line(&[(x, from), (x, tip)], Stroke::solid(color, WHISKER));
    canvas.line(&[(x - HEAD, tip + HEAD), (x, tip), (x + HEAD, tip + HEAD)], Stroke::solid(color, WHISKER));
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legend_that_does_not_fit_on_one_row_takes_more() {
        let entries: Vec<Entry> =
            (0..6).map(|i| Entry { label: format!("padded, width {i}0"), key: Key::Line(Style::of(i)) }).collect();
        let places = legend_places(&entries);
        assert_eq!(places[0].row, 0);
        assert!(places[5].row >= 2, "{places:?}");
        assert!(places.iter().all(|place| place.end <= 464.0));
    }
}
