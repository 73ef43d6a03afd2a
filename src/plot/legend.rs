//! A figure's title and legend, and the samples in it.

use super::axis::Axis;
use super::canvas::{Align, Canvas, Group, HALF_DIGIT, Point, Rect, Stroke};
use super::panel::{Dot, LINE, PADDING};
use super::render::{fitted, text_width};
use super::style::{Hatch, INK, LARGE, REFERENCE, REFERENCE_DASH, SMALL, Style, WIDTH, tint};

pub const WHISKER: f64 = 1.4;
const CAP: f64 = 3.0;

pub const RULE: Stroke = Stroke { color: REFERENCE, width: 1.6, dash: REFERENCE_DASH };

const LEGEND_ROW: f64 = 21.0;
const LEGEND_GAP: f64 = 12.0;
const KEY_GAP: f64 = 6.0;

/// The sample before a label.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    /// With a marker.
    Line(Style),
    Stroke(Stroke),
    Bar(Style),
    Whisker,
    Marker(Style, Told),
}

/// What a marker tells of its run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    /// Then it is hollow.
    pub saturated: bool,
    /// Requests were turned away: a bar through it.
    pub rejected: bool,
    /// Its value is above the axis: an arrow.
    pub above: bool,
}

impl Key {
    fn width(self) -> f64 {
        match self {
            Key::Line(_) | Key::Stroke(_) => 26.0,
            Key::Bar(_) => 18.0,
            Key::Whisker | Key::Marker(..) => 12.0,
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

    /// With the hollow marker of saturated runs, and what else it tells.
    pub fn told(label: &str, told: Told) -> Entry {
        Entry::new(label, Key::Marker(Style { color: INK, ..Style::of(0) }, Told { saturated: true, ..told }))
    }
}

/// For what the markers tell.
pub fn marker_entries<'d>(dots: impl Iterator<Item = &'d Dot> + Clone, y: &Axis) -> Vec<Entry> {
    let any = |says: &dyn Fn(&Dot) -> bool| dots.clone().any(says);
    let none = Told::default();
    let entries = [
        (any(&|dot| dot.saturated), "saturated", none),
        (any(&|dot| dot.rejected), "requests rejected", Told { rejected: true, ..none }),
        (any(&|dot| dot.y > y.high), "above the axis", Told { above: true, ..none }),
    ];
    entries.into_iter().filter(|(any, ..)| *any).map(|(_, label, told)| Entry::told(label, told)).collect()
}

const HEADER_WIDTH: f64 = WIDTH - 2.0 * PADDING;

/// The title, centred, above the legend's rows. Returns where they end.
pub fn header(canvas: &mut Canvas, title: Option<&str>, legend: &[Entry]) -> f64 {
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
    top + places.last().map_or(0.0, |last| (last.row + 1) as f64 * LEGEND_ROW)
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
            marker(canvas, (middle, y), &style, 0.0, Told::default());
        }
        Key::Stroke(stroke) => canvas.line(&[(x, y), (right, y)], stroke),
        Key::Bar(style) => bar(canvas, &block, &style),
        Key::Whisker => {
            whisker(canvas, [(middle, block.top), (middle, block.bottom)], &block, Stroke::solid(INK, WHISKER))
        }
        // Room for the arrow.
        Key::Marker(style, told) if told.above => marker(canvas, (middle, y + 4.0), &style, 0.0, told),
        Key::Marker(style, told) => marker(canvas, (middle, y), &style, 0.0, told),
    }
}

/// With the caps that are in the area.
pub fn whisker(canvas: &mut Canvas, ends: [Point; 2], area: &Rect, stroke: Stroke) {
    canvas.line_within(area, &ends, stroke);
    for (x, y) in ends.into_iter().filter(|end| area.holds(*end)) {
        canvas.line(&[(x - CAP, y), (x + CAP, y)], stroke);
    }
}

/// `grown` is added to its radius.
pub fn marker(canvas: &mut Canvas, (x, y): Point, style: &Style, grown: f64, told: Told) {
    const HEAD: f64 = 2.8;
    canvas.marker((x, y), style, grown, told.saturated);
    if told.rejected {
        let reach = 6.2 + grown;
        canvas.line(&[(x - reach, y - reach), (x + reach, y + reach)], Stroke::solid(INK, WHISKER));
    }
    if told.above {
        let (from, tip, stroke) = (y - 6.2, y - 13.0, Stroke::solid(style.color, WHISKER));
        canvas.line(&[(x, from), (x, tip)], stroke);
        canvas.line(&[(x - HEAD, tip + HEAD), (x, tip), (x + HEAD, tip + HEAD)], stroke);
    }
}

pub fn bar(canvas: &mut Canvas, rect: &Rect, style: &Style) {
    const SPACING: f64 = 4.5;
    let Rect { left, top, right, bottom } = *rect;
    let strokes = if style.hatch == Hatch::Plain { 0 } else { ((right - left + bottom - top) / SPACING).ceil() as u32 };
    canvas.fill(rect, if strokes > 0 { tint(style.color, 0.3) } else { style.color });
    for along in (1..strokes).map(|i| left + f64::from(i) * SPACING) {
        let line = match style.hatch {
            Hatch::Falling => [(along + top - bottom, top), (along, bottom)],
            _ => [(along + top - bottom, bottom), (along, top)],
        };
        canvas.line_within(rect, &line, Stroke::solid(style.color, 1.4));
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
