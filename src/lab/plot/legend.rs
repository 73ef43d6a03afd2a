//! A figure's title and legend, and the samples in it.

use super::axis::Axis;
use super::canvas::{Align, Canvas, HALF_DIGIT, Point, Rect, SeriesMarks, Stroke};
use super::dot::{Dot, MarkerSigns};
use super::face::Face;
use super::style::{
    GRID, INK, LARGE, LINE_WIDTH, PADDING, PAPER, REFERENCE, REFERENCE_DASH, SMALL, SPAN_WIDTH,
    Style, WHISKER_WIDTH,
};

/// The stroke of lines that are not data, such as an objective.
pub const RULE: Stroke = Stroke {
    color: REFERENCE,
    width: 1.6,
    dash: REFERENCE_DASH,
};

/// The height of a row of the legend.
const LEGEND_ROW: f64 = 21.0;
/// The distance between entries of a row.
const LEGEND_GAP: f64 = 12.0;
/// The distance between a sample and its label.
const KEY_GAP: f64 = 6.0;

/// The sample before a label.
#[derive(Clone, Copy, Debug)]
pub enum LegendKey {
    /// A line with a marker.
    Line(Style),
    /// A line without a marker.
    Stroke(Stroke),
    Bar(Style),
    Whisker,
    /// A thin line without caps.
    Span,
    /// A field with a striped corner.
    Corner,
    Marker(Style, MarkerSigns),
}

impl LegendKey {
    fn width(self) -> f64 {
        match self {
            LegendKey::Line(_) | LegendKey::Stroke(_) => 26.0,
            LegendKey::Bar(_) | LegendKey::Corner => 18.0,
            LegendKey::Whisker | LegendKey::Span | LegendKey::Marker(..) => 12.0,
        }
    }

    /// Draws the sample. `x` is its left end, and `y` its middle.
    fn draw(self, canvas: &mut Canvas, x: f64, y: f64) {
        let middle = x + self.width() / 2.0;
        let block = Rect {
            left: x,
            top: y - 6.0,
            right: x + self.width(),
            bottom: y + 6.0,
        };
        let level = [(x, y), (block.right, y)];
        let upright = [(middle, block.top), (middle, block.bottom)];
        match self {
            LegendKey::Line(style) => {
                let stroke = Stroke {
                    color: style.color,
                    width: LINE_WIDTH,
                    dash: style.dash,
                };
                canvas.line(&level, stroke);
                canvas.marker((middle, y), &style, 0.0, MarkerSigns::default());
            }
            LegendKey::Stroke(stroke) => canvas.line(&level, stroke),
            LegendKey::Bar(style) => canvas.bar(&block, &style),
            LegendKey::Whisker => {
                canvas.whisker(upright, &block, Stroke::solid(INK, WHISKER_WIDTH));
            }
            LegendKey::Corner => {
                canvas.border(&block, Stroke::solid(INK, 0.8));
                canvas.striped_corner(&block);
            }
            LegendKey::Span => canvas.line(&upright, Stroke::solid(INK, SPAN_WIDTH)),
            LegendKey::Marker(style, signs) => {
                let room_for_arrow = if signs.above { 4.0 } else { 0.0 };
                canvas.marker((middle, y + room_for_arrow), &style, 0.0, signs);
            }
        }
    }
}

/// A sample with its label.
#[derive(Clone, Debug)]
pub struct LegendEntry {
    pub label: String,
    pub key: LegendKey,
}

impl LegendEntry {
    pub fn new(label: impl Into<String>, key: LegendKey) -> LegendEntry {
        LegendEntry {
            label: label.into(),
            key,
        }
    }

    /// An entry with a marker in ink that has these signs. It is hollow unless the signs say that a run is invalid.
    pub fn with_signs(label: &str, signs: MarkerSigns) -> LegendEntry {
        let style = Style {
            color: INK,
            ..Style::number(0)
        };
        let signs = MarkerSigns {
            saturated: !signs.invalid,
            ..signs
        };
        LegendEntry::new(label, LegendKey::Marker(style, signs))
    }
}

/// Entries for the kinds of whiskers that these points have. `replications` has the numbers of replications behind the
/// intervals.
pub fn whisker_entries<'d>(
    dots: impl Iterator<Item = &'d Dot> + Clone,
    replications: &[u64],
) -> Vec<LegendEntry> {
    let has_spans = dots.clone().any(|dot| dot.span.is_some());
    let has_intervals = dots
        .clone()
        .any(|dot| dot.interval.is_some() || dot.across.is_some());
    let mut entries = Vec::new();
    if has_spans {
        let key = if has_intervals {
            LegendKey::Span
        } else {
            LegendKey::Whisker
        };
        entries.push(LegendEntry::new("p50–p99", key));
    }
    if has_intervals {
        let label = interval_label(replications);
        entries.push(LegendEntry::new(label, LegendKey::Whisker));
    }
    entries
}

/// The label of whiskers over replications.
pub fn interval_label(replications: &[u64]) -> String {
    match (replications.iter().min(), replications.iter().max()) {
        (Some(few), Some(many)) if few == many => format!("95 % interval of {many} replications"),
        (Some(few), Some(many)) => format!("95 % interval of {few} to {many} replications"),
        _ => "95 % interval over replications".into(),
    }
}

/// Entries for the signs that the markers of several panels have. The vertical axis of each panel is next to its
/// points.
pub fn marker_entries<'d, D: Iterator<Item = &'d Dot> + Clone>(
    panels: impl Iterator<Item = (D, &'d Axis)>,
) -> Vec<LegendEntry> {
    let mut any = MarkerSigns::default();
    for (dots, y) in panels {
        for dot in dots {
            any.saturated |= dot.saturated;
            any.rejected |= dot.rejected;
            any.invalid |= dot.invalid;
            any.above |= dot.y > y.high;
        }
    }
    let none = MarkerSigns::default();
    let mut entries = Vec::new();
    if any.saturated {
        entries.push(LegendEntry::with_signs("saturated", none));
    }
    if any.rejected {
        let rejected = MarkerSigns {
            rejected: true,
            ..none
        };
        entries.push(LegendEntry::with_signs("requests rejected", rejected));
    }
    if any.invalid {
        let invalid = MarkerSigns {
            invalid: true,
            ..none
        };
        entries.push(LegendEntry::with_signs(
            "not valid: requests were late",
            invalid,
        ));
    }
    if any.above {
        let above = MarkerSigns {
            above: true,
            ..none
        };
        entries.push(LegendEntry::with_signs("above the axis", above));
    }
    entries
}

/// Draws the title above the rows of the legend, both centred. Returns where the legend ends.
pub fn draw_header(canvas: &mut Canvas, title: Option<&str>, legend: &[LegendEntry]) -> f64 {
    let face = canvas.sheet.face.clone();
    let width = canvas.width - 2.0 * PADDING;
    let mut top = PADDING;
    if let Some(title) = title {
        let title = face.shorten(title, LARGE, width);
        let at = (canvas.width / 2.0, top + LARGE);
        canvas.text(title, at, LARGE, Align::Center, INK);
        top += LARGE + 9.0;
    }
    let places = place_entries(&face, legend, width);
    for (entry, place) in legend.iter().zip(&places) {
        let row_end = places
            .iter()
            .rfind(|other| other.row == place.row)
            .map_or(0.0, |last| last.end);
        let x = PADDING + (width - row_end) / 2.0 + place.x;
        let y = top + (place.row as f64 + 0.5) * LEGEND_ROW;
        draw_entry(canvas, entry, &place.label, (x, y), place.end - place.x);
    }
    match places.last() {
        Some(last) => top + (last.row + 1) as f64 * LEGEND_ROW,
        None => top,
    }
}

/// Draws an entry. The point is the middle of its left end.
fn draw_entry(canvas: &mut Canvas, entry: &LegendEntry, label: &str, (x, y): Point, width: f64) {
    let first = canvas.marks.len();
    entry.key.draw(canvas, x, y);
    let at = (x + entry.key.width() + KEY_GAP, y + HALF_DIGIT * SMALL);
    canvas.text(label, at, SMALL, Align::Left, INK);
    let half = LEGEND_ROW / 2.0;
    let area = Rect {
        left: x,
        top: y - half,
        right: x + width,
        bottom: y + half,
    };
    canvas.groups.push(SeriesMarks {
        series: entry.label.clone(),
        marks: first..canvas.marks.len(),
        key: Some(area),
    });
}

/// The border of a box around its content.
const BOX: f64 = 4.0;
/// The height of a row in a box.
const BOX_ROW: f64 = 18.0;

/// The width and the height of a legend in a box.
fn box_size(face: &Face, legend: &[LegendEntry]) -> [f64; 2] {
    let mut widest: f64 = 0.0;
    for entry in legend {
        let width = entry.key.width() + KEY_GAP + face.width(&entry.label, SMALL);
        widest = widest.max(width);
    }
    let rows = legend.len() as f64 * BOX_ROW;
    [widest + 2.0 * BOX, rows + 2.0 * BOX]
}

/// Draws the legend in a box inside the area of a panel, where it hides least of the marks from number `first` on.
/// Returns `false` if there is no room, or if it would hide markers or labels.
pub fn draw_inside(
    canvas: &mut Canvas,
    legend: &[LegendEntry],
    areas: &[Rect],
    first: usize,
) -> bool {
    /// A marker, or many dashes, would hide more.
    const MOST_HIDDEN: f64 = 150.0;
    let size = box_size(&canvas.sheet.face, legend);
    let mut best = None;
    let mut least = MOST_HIDDEN;
    for area in areas {
        for (place, distance) in box_places(area, size) {
            let cost = distance + canvas.hiding_cost(&place, first);
            if cost < least {
                best = Some(place);
                least = cost;
            }
        }
    }
    let Some(place) = best else {
        return false;
    };
    canvas.fill(&place, PAPER);
    canvas.border(&place, Stroke::solid(GRID, 1.0));
    for (row, entry) in (0..).zip(legend) {
        let middle = place.top + BOX + (f64::from(row) + 0.5) * BOX_ROW;
        let at = (place.left + BOX, middle);
        draw_entry(canvas, entry, &entry.label, at, size[0] - 2.0 * BOX);
    }
    true
}

/// The places that are tried for a box of this size in an area, each with a cost. A place in a corner costs least, and
/// one in the middle most. There are none if the box would cover too much of the area.
fn box_places(area: &Rect, [width, height]: [f64; 2]) -> Vec<(Rect, f64)> {
    const MARGIN: f64 = 6.0;
    /// The largest part of an area's width and height that a box may cover.
    const MOST_COVERED: f64 = 0.7;
    /// The number of places in each direction.
    const TRIED: u32 = 9;
    let mut places = Vec::new();
    if width > MOST_COVERED * area.width() || height > MOST_COVERED * area.height() {
        return places;
    }
    let lefts = [area.right - MARGIN - width, area.left + MARGIN];
    let tops = [area.top + MARGIN, area.bottom - MARGIN - height];
    for row in 0..TRIED {
        for column in 0..TRIED {
            let left = between(lefts, column, TRIED - 1);
            let top = between(tops, row, TRIED - 1);
            let place = Rect {
                left,
                top,
                right: left + width,
                bottom: top + height,
            };
            let away_from_ends = [row, column]
                .into_iter()
                .filter(|i| (1..TRIED - 1).contains(i))
                .count();
            places.push((place, away_from_ends as f64));
        }
    }
    places
}

/// The value at a part of the way from one end to the other.
fn between([from, to]: [f64; 2], part: u32, parts: u32) -> f64 {
    from + (to - from) * f64::from(part) / f64::from(parts)
}

/// The place of an entry in the rows of a legend.
#[derive(Debug)]
struct EntryPlace {
    row: usize,
    /// The distance from the left end of the row.
    x: f64,
    end: f64,
    label: String,
}

/// Places entries side by side, in as many rows of this width as they need.
fn place_entries(face: &Face, legend: &[LegendEntry], width: f64) -> Vec<EntryPlace> {
    let mut row = 0;
    let mut x = 0.0;
    let mut places = Vec::with_capacity(legend.len());
    for entry in legend {
        let key = entry.key.width() + KEY_GAP;
        let label = face.shorten(&entry.label, SMALL, width - key);
        let entry_width = key + face.width(&label, SMALL);
        if x > 0.0 && x + entry_width > width {
            row += 1;
            x = 0.0;
        }
        places.push(EntryPlace {
            row,
            x,
            end: x + entry_width,
            label,
        });
        x += entry_width + LEGEND_GAP;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legend_that_does_not_fit_on_one_row_takes_more() {
        let entries: Vec<LegendEntry> = (0..6)
            .map(|i| LegendEntry {
                label: format!("padded, width {i}0"),
                key: LegendKey::Line(Style::number(i)),
            })
            .collect();
        let places = place_entries(&Face::default(), &entries, 464.0);
        assert_eq!(places[0].row, 0);
        assert!(places[5].row >= 2, "{places:?}");
        assert!(places.iter().all(|place| place.end <= 464.0));
    }
}
