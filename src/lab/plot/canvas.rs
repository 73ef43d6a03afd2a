//! A drawing as a list of marks in units. Lines are clipped and dashed here, so every picture format shows the same.

use std::cmp::Ordering;
use std::ops::Range;

use super::data::Datum;
use super::sheet::Sheet;
use super::style::{PAPER, Rgb, Style};
use crate::base::error::printable;

/// The distances from the left and from the top, in units.
pub type Point = (f64, f64);

/// A rectangle with horizontal and vertical sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Rect {
    pub fn width(&self) -> f64 {
        self.right - self.left
    }

    pub fn height(&self) -> f64 {
        self.bottom - self.top
    }

    /// The corners, clockwise from the upper left.
    pub fn corners(&self) -> [Point; 4] {
        [
            (self.left, self.top),
            (self.right, self.top),
            (self.right, self.bottom),
            (self.left, self.bottom),
        ]
    }

    pub fn overlaps(&self, other: &Rect) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    /// Whether a point lies inside or on the border, within a hundredth of a unit.
    pub fn holds(&self, (x, y): Point) -> bool {
        const SLACK: f64 = 0.01;
        x >= self.left - SLACK
            && x <= self.right + SLACK
            && y >= self.top - SLACK
            && y <= self.bottom + SLACK
    }
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Stroke {
    pub color: Rgb,
    pub width: f64,
    /// The lengths of dashes and gaps in turn; empty for a solid line.
    pub dash: &'static [f64],
}

impl Stroke {
    pub fn solid(color: Rgb, width: f64) -> Stroke {
        Stroke {
            color,
            width,
            dash: &[],
        }
    }
}

/// The part of a text that is at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Center,
    Right,
    /// The text runs from bottom to top, and its middle is at the place.
    Upright,
}

/// A text on the canvas.
#[derive(Clone, Debug)]
pub struct TextMark {
    pub words: String,
    /// The place on the baseline.
    pub at: Point,
    /// The size of an em, in units.
    pub size: f64,
    pub align: Align,
    pub color: Rgb,
}

/// What a picture format has to draw: a line with its colour and width, an area with its colour, or a text.
#[derive(Clone, Debug)]
pub enum CanvasMark {
    Line(Vec<Point>, Rgb, f64),
    Area(Vec<Point>, Rgb),
    Text(TextMark),
}

/// Neighbouring marks of one series, which a page can hide.
#[derive(Clone, Debug)]
pub struct SeriesMarks {
    pub series: String,
    pub marks: Range<usize>,
    /// The area that a reader can click, if these marks are the series' entry in the legend.
    pub key: Option<Rect>,
}

/// An area in which a page shows values of a series.
#[derive(Clone, Debug)]
pub struct Spot {
    pub series: String,
    pub area: Rect,
    pub values: String,
}

/// A figure as a list of marks.
#[derive(Clone, Debug)]
pub struct Canvas {
    pub width: f64,
    pub height: f64,
    /// The marks in the order in which they are drawn. Later ones cover earlier ones.
    pub marks: Vec<CanvasMark>,
    /// The marks of each series, in the order of the marks. Only pages use groups and spots.
    pub groups: Vec<SeriesMarks>,
    pub spots: Vec<Spot>,
    pub sheet: Sheet,
    /// The drawn values as numbers.
    pub data: Vec<Datum>,
}

impl Canvas {
    /// An empty canvas, as high as the sheet if that has a height.
    pub fn new(sheet: Sheet) -> Canvas {
        Canvas {
            width: sheet.width,
            height: sheet.height.unwrap_or(0.0),
            marks: Vec::new(),
            groups: Vec::new(),
            spots: Vec::new(),
            sheet,
            data: Vec::new(),
        }
    }

    /// An empty canvas of this size.
    pub fn with_size(width: f64, height: f64) -> Canvas {
        Canvas {
            width,
            height,
            ..Canvas::new(Sheet::default())
        }
    }

    /// Draws marks that belong to a series.
    pub fn group(&mut self, series: &str, draw: impl FnOnce(&mut Canvas)) {
        let first = self.marks.len();
        draw(self);
        self.groups.push(SeriesMarks {
            series: series.into(),
            marks: first..self.marks.len(),
            key: None,
        });
    }

    /// Adds an area in which a page shows values of a series.
    pub fn spot(&mut self, series: &str, area: Rect, values: String) {
        self.spots.push(Spot {
            series: series.into(),
            area,
            values,
        });
    }

    pub fn line(&mut self, points: &[Point], stroke: Stroke) {
        for piece in dash(points, stroke.dash) {
            self.marks
                .push(CanvasMark::Line(piece, stroke.color, stroke.width));
        }
    }

    /// Draws the parts of a line that lie in an area.
    pub fn line_within(&mut self, area: &Rect, points: &[Point], stroke: Stroke) {
        for piece in clip(points, area) {
            self.line(&piece, stroke);
        }
    }

    pub fn fill(&mut self, rect: &Rect, color: Rgb) {
        self.marks
            .push(CanvasMark::Area(rect.corners().to_vec(), color));
    }

    pub fn border(&mut self, rect: &Rect, stroke: Stroke) {
        let [from, right, below, left] = rect.corners();
        // The line begins half a width before the corner, so that the corner is closed.
        let before = (from.0 - stroke.width / 2.0, from.1);
        self.line(&[before, right, below, left, from], stroke);
    }

    /// Draws a marker with a thin border of paper, which sets it off from the marks below. A hollow one has paper
    /// inside.
    pub(super) fn marker_shape(&mut self, at: Point, style: &Style, grown: f64, hollow: bool) {
        let radius = 4.6 + grown;
        self.marker_area(at, style, radius + 1.1, PAPER);
        self.marker_area(at, style, radius, style.color);
        if hollow {
            self.marker_area(at, style, radius - 1.8, PAPER);
        }
    }

    fn marker_area(&mut self, (x, y): Point, style: &Style, radius: f64, color: Rgb) {
        let corners = style.marker.outline(radius);
        let points = corners.map(|(right, down)| (x + right, y + down)).collect();
        self.marks.push(CanvasMark::Area(points, color));
    }

    /// The cost of hiding marks, from number `first` on, behind a label in the rectangle. It is a length in units: that
    /// of the hidden parts of lines, and for each other mark the detour that is worth leaving it free.
    pub fn hiding_cost(&self, rect: &Rect, first: usize) -> f64 {
        self.marks[first..]
            .iter()
            .map(|mark| self.hidden_of(mark, rect))
            .sum()
    }

    fn hidden_of(&self, mark: &CanvasMark, rect: &Rect) -> f64 {
        const AREA: f64 = 200.0;
        /// Two texts at one place are both unreadable.
        const TEXT: f64 = 2000.0;
        match mark {
            CanvasMark::Line(points, ..) => points
                .windows(2)
                .filter_map(|pair| clip_segment(pair[0], pair[1], rect))
                .map(|(from, to)| (to.0 - from.0).hypot(to.1 - from.1))
                .sum(),
            // The area belongs to a marker, or to another label.
            CanvasMark::Area(points, _) => {
                let is_crossed = points
                    .windows(2)
                    .any(|pair| clip_segment(pair[0], pair[1], rect).is_some());
                if is_crossed || points.iter().any(|corner| rect.holds(*corner)) {
                    AREA
                } else {
                    0.0
                }
            }
            CanvasMark::Text(text) => {
                if self.extent(text).overlaps(rect) {
                    TEXT
                } else {
                    0.0
                }
            }
        }
    }

    /// The area that a text covers, if it runs from left to right.
    fn extent(&self, text: &TextMark) -> Rect {
        let (x, y) = text.at;
        let width = self.sheet.face.width(&text.words, text.size);
        let left = match text.align {
            Align::Left => x,
            Align::Center | Align::Upright => x - width / 2.0,
            Align::Right => x - width,
        };
        Rect {
            left,
            top: y - 2.0 * HALF_DIGIT * text.size,
            right: left + width,
            bottom: y,
        }
    }

    pub fn text(&mut self, words: impl AsRef<str>, at: Point, size: f64, align: Align, color: Rgb) {
        let words = printable(words.as_ref()).replace(['\n', '\t'], " ");
        if !words.is_empty() {
            self.marks.push(CanvasMark::Text(TextMark {
                words,
                at,
                size,
                align,
                color,
            }));
        }
    }
}

/// The middle of a digit above the baseline, as a share of the text size.
pub const HALF_DIGIT: f64 = 0.365;

/// The dashes of a line. `pattern` has the lengths of dashes and gaps in turn.
fn dash(points: &[Point], pattern: &[f64]) -> Vec<Vec<Point>> {
    let [first, ..] = points else {
        return Vec::new();
    };
    let mut lengths = pattern.iter().copied().cycle();
    let Some(mut left) = lengths.next() else {
        return vec![points.to_vec()];
    };
    let mut pieces = Vec::new();
    let mut piece = vec![*first];
    let mut is_dash = true;
    for pair in points.windows(2) {
        let mut from = pair[0];
        let to = pair[1];
        let mut length = (to.0 - from.0).hypot(to.1 - from.1);
        while length > left {
            let share = left / length;
            from = (
                from.0 + (to.0 - from.0) * share,
                from.1 + (to.1 - from.1) * share,
            );
            length -= left;
            piece.push(from);
            let ended = std::mem::replace(&mut piece, vec![from]);
            if is_dash {
                pieces.push(ended);
            }
            is_dash = !is_dash;
            left = lengths.next().unwrap_or(f64::INFINITY);
        }
        left -= length;
        piece.push(to);
    }
    if is_dash && piece.len() > 1 {
        pieces.push(piece);
    }
    pieces
}

/// The parts of a line that lie in an area.
fn clip(points: &[Point], area: &Rect) -> Vec<Vec<Point>> {
    let mut pieces: Vec<Vec<Point>> = Vec::new();
    let mut is_open = false;
    for pair in points.windows(2) {
        let Some((from, to)) = clip_segment(pair[0], pair[1], area) else {
            is_open = false;
            continue;
        };
        match pieces.last_mut() {
            Some(piece) if is_open => piece.push(to),
            _ => pieces.push(vec![from, to]),
        }
        is_open = to == pair[1];
    }
    pieces
}

/// The part of a segment that lies in an area, found by Liang and Barsky's parametric clipping.
fn clip_segment(from: Point, to: Point, area: &Rect) -> Option<(Point, Point)> {
    let dx = to.0 - from.0;
    let dy = to.1 - from.1;
    let mut enter = 0.0f64;
    let mut leave = 1.0f64;
    let sides = [
        (-dx, from.0 - area.left),
        (dx, area.right - from.0),
        (-dy, from.1 - area.top),
        (dy, area.bottom - from.1),
    ];
    for (towards, room) in sides {
        match towards.partial_cmp(&0.0)? {
            Ordering::Less => enter = enter.max(room / towards),
            Ordering::Equal if room < 0.0 => return None,
            Ordering::Equal => {}
            Ordering::Greater => leave = leave.min(room / towards),
        }
    }
    if enter > leave {
        return None;
    }
    Some((along(from, to, enter), along(from, to, leave)))
}

/// The point at a share of the way, which is exact at both ends.
fn along(from: Point, to: Point, share: f64) -> Point {
    if share == 0.0 {
        from
    } else if share == 1.0 {
        to
    } else {
        (
            from.0 + (to.0 - from.0) * share,
            from.1 + (to.1 - from.1) * share,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_at_the_border_and_goes_on_where_it_comes_back() {
        let area = Rect {
            left: 0.0,
            top: 0.0,
            right: 10.0,
            bottom: 10.0,
        };
        let line = [(5.0, 5.0), (5.0, -5.0), (7.0, -5.0), (7.0, 5.0), (8.0, 5.0)];
        assert_eq!(
            clip(&line, &area),
            vec![
                vec![(5.0, 5.0), (5.0, 0.0)],
                vec![(7.0, 0.0), (7.0, 5.0), (8.0, 5.0)]
            ]
        );
    }

    #[test]
    fn dashes_go_on_around_corners() {
        let line = [(0.0, 0.0), (3.0, 0.0), (3.0, 4.0)];
        assert_eq!(
            dash(&line, &[4.0, 2.0]),
            vec![
                vec![(0.0, 0.0), (3.0, 0.0), (3.0, 1.0)],
                vec![(3.0, 3.0), (3.0, 4.0)]
            ]
        );
    }
}
