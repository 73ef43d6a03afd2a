//! A drawing as a list of marks in units. Lines are clipped and dashed here, so every picture format shows the same.

use std::cmp::Ordering;
use std::ops::Range;

use super::data::Datum;
use super::sheet::Sheet;
use super::style::{PAPER, Rgb, Style};
use crate::base::error::printable;

/// From the left and from the top, in units.
pub type Point = (f64, f64);

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

    pub fn corners(&self) -> [Point; 4] {
        let Rect {
            left,
            top,
            right,
            bottom,
        } = *self;
        [(left, top), (right, top), (right, bottom), (left, bottom)]
    }

    pub fn overlaps(&self, other: &Rect) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    /// Inside or on the border, within a hundredth of a unit.
    pub fn holds(&self, (x, y): Point) -> bool {
        const SLACK: f64 = 0.01;
        x >= self.left - SLACK
            && x <= self.right + SLACK
            && y >= self.top - SLACK
            && y <= self.bottom + SLACK
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Stroke {
    pub color: Rgb,
    pub width: f64,
    /// Dashes and gaps; empty for a solid line.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Center,
    Right,
    /// From bottom to top, with its middle at the place.
    Upright,
}

#[derive(Clone, Debug)]
pub struct TextMark {
    pub words: String,
    /// On the baseline.
    pub at: Point,
    /// Of an em, in units.
    pub size: f64,
    pub align: Align,
    pub color: Rgb,
}

#[derive(Clone, Debug)]
pub enum Mark {
    Line(Vec<Point>, Rgb, f64),
    Area(Vec<Point>, Rgb),
    Text(TextMark),
}

/// Neighbouring marks of one series, which a page can hide.
#[derive(Clone, Debug)]
pub struct SeriesMarks {
    pub series: String,
    pub marks: Range<usize>,
    /// Of a series' entry in the legend: where it is clicked.
    pub key: Option<Rect>,
}

/// An area in which a page shows values of a series.
#[derive(Clone, Debug)]
pub struct Spot {
    pub series: String,
    pub area: Rect,
    pub values: String,
}

#[derive(Clone, Debug)]
pub struct Canvas {
    pub width: f64,
    pub height: f64,
    /// Later marks cover earlier ones.
    pub marks: Vec<Mark>,
    /// In the order of their marks. Only pages use groups and spots.
    pub groups: Vec<SeriesMarks>,
    pub spots: Vec<Spot>,
    pub sheet: Sheet,
    /// What is drawn, as numbers.
    pub data: Vec<Datum>,
}

impl Canvas {
    /// An empty canvas, as high as the sheet if that has a height.
    pub fn new(sheet: Sheet) -> Canvas {
        let (width, height) = (sheet.width, sheet.height.unwrap_or(0.0));
        let (marks, groups, spots, data) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Canvas {
            width,
            height,
            marks,
            groups,
            spots,
            sheet,
            data,
        }
    }

    /// An empty canvas of this size.
    pub fn sized(width: f64, height: f64) -> Canvas {
        Canvas {
            width,
            height,
            ..Canvas::new(Sheet::default())
        }
    }

    /// The marks that `draw` makes are of a series.
    pub fn group(&mut self, series: &str, draw: impl FnOnce(&mut Canvas)) {
        let first = self.marks.len();
        draw(self);
        self.groups.push(SeriesMarks {
            series: series.into(),
            marks: first..self.marks.len(),
            key: None,
        });
    }

    pub fn spot(&mut self, series: &str, area: Rect, values: String) {
        self.spots.push(Spot {
            series: series.into(),
            area,
            values,
        });
    }

    pub fn line(&mut self, points: &[Point], stroke: Stroke) {
        for piece in dashed(points, stroke.dash) {
            self.marks
                .push(Mark::Line(piece, stroke.color, stroke.width));
        }
    }

    pub fn line_within(&mut self, area: &Rect, points: &[Point], stroke: Stroke) {
        for piece in clipped(points, area) {
            self.line(&piece, stroke);
        }
    }

    pub fn fill(&mut self, rect: &Rect, color: Rgb) {
        self.marks.push(Mark::Area(rect.corners().to_vec(), color));
    }

    pub fn border(&mut self, rect: &Rect, stroke: Stroke) {
        let [from, right, below, left] = rect.corners();
        // Half a width before the beginning closes the corner.
        self.line(
            &[
                (from.0 - stroke.width / 2.0, from.1),
                right,
                below,
                left,
                from,
            ],
            stroke,
        );
    }

    /// A thin border of paper sets the marker off from the marks below. `grown` is added to its radius; hollow: paper
    /// inside.
    pub fn marker(&mut self, at: Point, style: &Style, grown: f64, hollow: bool) {
        let radius = 4.6 + grown;
        let mut shape = |radius: f64, color: Rgb| {
            let points = style
                .marker
                .outline(radius)
                .map(|(x, y)| (at.0 + x, at.1 + y))
                .collect();
            self.marks.push(Mark::Area(points, color));
        };
        shape(radius + 1.1, PAPER);
        shape(radius, style.color);
        if hollow {
            shape(radius - 1.8, PAPER);
        }
    }

    /// What a label in the rectangle would hide of the marks from number `first` on, as the distance that is worth it: for
    /// lines the hidden length.
    pub fn hidden(&self, rect: &Rect, first: usize) -> f64 {
        let inside = |pair: &[Point]| clipped_segment(pair[0], pair[1], rect);
        let across = |points: &[Point]| points.windows(2).any(|pair| inside(pair).is_some());
        let length = |(from, to): (Point, Point)| (to.0 - from.0).hypot(to.1 - from.1);
        let cost = |mark: &Mark| match mark {
            Mark::Line(points, ..) => points.windows(2).filter_map(inside).map(length).sum(),
            // Of a marker, or of another label.
            Mark::Area(points, _)
                if across(points) || points.iter().any(|corner| rect.holds(*corner)) =>
            {
                200.0
            }
            // Two texts at one place are both unreadable.
            Mark::Text(text) if self.around(text).overlaps(rect) => 2000.0,
            _ => 0.0,
        };
        self.marks[first..].iter().map(cost).sum()
    }

    /// The area of a text across the figure.
    fn around(&self, text: &TextMark) -> Rect {
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
            self.marks.push(Mark::Text(TextMark {
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

/// `pattern`: dashes and gaps in turn.
fn dashed(points: &[Point], pattern: &[f64]) -> Vec<Vec<Point>> {
    let [first, ..] = points else {
        return Vec::new();
    };
    let mut lengths = pattern.iter().copied().cycle();
    let Some(mut left) = lengths.next() else {
        return vec![points.to_vec()];
    };
    let (mut pieces, mut piece, mut is_dash) = (Vec::new(), vec![*first], true);
    for pair in points.windows(2) {
        let (mut from, to) = (pair[0], pair[1]);
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
            pieces.extend(is_dash.then_some(ended));
            is_dash = !is_dash;
            left = lengths.next().unwrap_or(f64::INFINITY);
        }
        left -= length;
        piece.push(to);
    }
    pieces.extend(Some(piece).filter(|piece| is_dash && piece.len() > 1));
    pieces
}

fn clipped(points: &[Point], area: &Rect) -> Vec<Vec<Point>> {
    let mut pieces: Vec<Vec<Point>> = Vec::new();
    let mut open = false;
    for pair in points.windows(2) {
        let Some((from, to)) = clipped_segment(pair[0], pair[1], area) else {
            open = false;
            continue;
        };
        match pieces.last_mut() {
            Some(piece) if open => piece.push(to),
            _ => pieces.push(vec![from, to]),
        }
        open = to == pair[1];
    }
    pieces
}

/// By Liang and Barsky's parametric clipping.
fn clipped_segment(from: Point, to: Point, area: &Rect) -> Option<(Point, Point)> {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let (mut enter, mut leave) = (0.0f64, 1.0f64);
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
    let at = |share: f64| match share {
        0.0 => from,
        1.0 => to,
        _ => (from.0 + dx * share, from.1 + dy * share),
    };
    Some((at(enter), at(leave)))
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
            clipped(&line, &area),
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
            dashed(&line, &[4.0, 2.0]),
            vec![
                vec![(0.0, 0.0), (3.0, 0.0), (3.0, 1.0)],
                vec![(3.0, 3.0), (3.0, 4.0)]
            ]
        );
    }
}
