//! A figure's title and legend, and the samples in it.

use super::axis::Axis;
use super::canvas::{Align, Canvas, HALF_DIGIT, Point, Rect, SeriesMarks, Stroke};
use super::face::Face;
use super::layout::PADDING;
use super::panel::{Dot, LINE, PlotPanel};
use super::style::{GRID, Hatch, INK, LARGE, PAPER, REFERENCE, REFERENCE_DASH, SMALL, Style, tint};

pub const WHISKER: f64 = 1.4;
/// The width of a line beside whiskers that have another meaning.
pub const SPAN: f64 = 0.9;
const CAP: f64 = 3.0;
const CROSS: f64 = 1.6;

pub const RULE: Stroke = Stroke {
    color: REFERENCE,
    width: 1.6,
    dash: REFERENCE_DASH,
};

const LEGEND_ROW: f64 = 21.0;
const LEGEND_GAP: f64 = 12.0;
const KEY_GAP: f64 = 6.0;

/// The sample before a label.
#[derive(Clone, Copy, Debug)]
pub enum LegendKey {
    /// With a marker.
    Line(Style),
    Stroke(Stroke),
    Bar(Style),
    Whisker,
    /// A thin line without caps.
    Span,
    /// A field with a striped corner.
    Corner,
    Marker(Style, MarkerSigns),
}

/// What a marker tells of its run.
#[derive(Clone, Copy, Debug, Default)]
pub struct MarkerSigns {
    /// Then it is hollow.
    pub saturated: bool,
    /// Requests were turned away: a bar through it.
    pub rejected: bool,
    /// Its value is above the axis: an arrow.
    pub above: bool,
    /// The load generator was late: a cross.
    pub invalid: bool,
}

impl LegendKey {
    fn width(self) -> f64 {
        match self {
            LegendKey::Line(_) | LegendKey::Stroke(_) => 26.0,
            LegendKey::Bar(_) | LegendKey::Corner => 18.0,
            LegendKey::Whisker | LegendKey::Span | LegendKey::Marker(..) => 12.0,
        }
    }
}

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

    /// With the hollow marker of saturated runs, and what else it tells.
    pub fn told(label: &str, told: MarkerSigns) -> LegendEntry {
        LegendEntry::new(
            label,
            LegendKey::Marker(
                Style {
                    color: INK,
                    ..Style::of(0)
                },
                MarkerSigns {
                    saturated: !told.invalid,
                    ..told
                },
            ),
        )
    }
}

/// For what whiskers are. `replications`: the numbers of replications behind the intervals.
pub fn whisker_entries<'d>(
    dots: impl Iterator<Item = &'d Dot> + Clone,
    replications: &[u64],
) -> Vec<LegendEntry> {
    let intervals = dots
        .clone()
        .any(|dot| dot.interval.is_some() || dot.across.is_some());
    let spans = dots.clone().any(|dot| dot.span.is_some());
    let span = LegendEntry::new(
        "p50–p99",
        if intervals {
            LegendKey::Span
        } else {
            LegendKey::Whisker
        },
    );
    let interval = LegendEntry::new(interval_label(replications), LegendKey::Whisker);
    [(spans, span), (intervals, interval)]
        .into_iter()
        .filter_map(|(is, entry)| is.then_some(entry))
        .collect()
}

/// What a whisker over replications is.
pub fn interval_label(replications: &[u64]) -> String {
    match (replications.iter().min(), replications.iter().max()) {
        (Some(few), Some(many)) if few == many => format!("95 % interval of {many} replications"),
        (Some(few), Some(many)) => format!("95 % interval of {few} to {many} replications"),
        _ => "95 % interval over replications".into(),
    }
}

/// For what the markers of panels, with their vertical axes, tell.
pub fn marker_entries<'d, D: Iterator<Item = &'d Dot> + Clone>(
    panels: impl Iterator<Item = (D, &'d Axis)>,
) -> Vec<LegendEntry> {
    let panels: Vec<(D, &Axis)> = panels.collect();
    let any = |says: &dyn Fn(&Dot) -> bool| panels.iter().any(|(dots, _)| dots.clone().any(says));
    let above = panels
        .iter()
        .any(|(dots, y)| dots.clone().any(|dot| dot.y > y.high));
    let none = MarkerSigns::default();
    let entries: [(bool, &str, MarkerSigns); 4] = [
        (any(&|dot| dot.saturated), "saturated", none),
        (
            any(&|dot| dot.rejected),
            "requests rejected",
            MarkerSigns {
                rejected: true,
                ..none
            },
        ),
        (
            any(&|dot| dot.invalid),
            "not valid: requests were late",
            MarkerSigns {
                invalid: true,
                ..none
            },
        ),
        (
            above,
            "above the axis",
            MarkerSigns {
                above: true,
                ..none
            },
        ),
    ];
    entries
        .into_iter()
        .filter(|(any, ..)| *any)
        .map(|(_, label, told)| LegendEntry::told(label, told))
        .collect()
}

/// The title, centred, above the legend's rows. Returns where they end.
pub fn header(canvas: &mut Canvas, title: Option<&str>, legend: &[LegendEntry]) -> f64 {
    let face = canvas.sheet.face.clone();
    let wide = canvas.width - 2.0 * PADDING;
    let mut top = PADDING;
    if let Some(title) = title {
        let at = (canvas.width / 2.0, top + LARGE);
        canvas.text(
            face.fitted(title, LARGE, wide),
            at,
            LARGE,
            Align::Center,
            INK,
        );
        top += LARGE + 9.0;
    }
    let places = legend_places(&face, legend, wide);
    for (entry, place) in legend.iter().zip(&places) {
        let end = places
            .iter()
            .rfind(|p| p.row == place.row)
            .map_or(0.0, |last| last.end);
        let x = PADDING + (wide - end) / 2.0 + place.x;
        let y = top + (place.row as f64 + 0.5) * LEGEND_ROW;
        draw_entry(canvas, entry, &place.label, (x, y), place.end - place.x);
    }
    top + places
        .last()
        .map_or(0.0, |last| (last.row + 1) as f64 * LEGEND_ROW)
}

/// From the left end of its middle.
fn draw_entry(canvas: &mut Canvas, entry: &LegendEntry, label: &str, (x, y): Point, wide: f64) {
    let first = canvas.marks.len();
    draw_key(canvas, entry.key, x, y);
    let at = (x + entry.key.width() + KEY_GAP, y + HALF_DIGIT * SMALL);
    canvas.text(label, at, SMALL, Align::Left, INK);
    let half = LEGEND_ROW / 2.0;
    let key = Some(Rect {
        left: x,
        top: y - half,
        right: x + wide,
        bottom: y + half,
    });
    canvas.groups.push(SeriesMarks {
        series: entry.label.clone(),
        marks: first..canvas.marks.len(),
        key,
    });
}

/// The border of a box around its content.
const BOX: f64 = 4.0;
const BOX_ROW: f64 = 18.0;

/// Width and height of a legend in a box.
fn box_of(face: &Face, legend: &[LegendEntry]) -> [f64; 2] {
    let wide = |entry: &LegendEntry| entry.key.width() + KEY_GAP + face.width(&entry.label, SMALL);
    let widest = legend.iter().map(wide).fold(0.0, f64::max);
    [
        widest + 2.0 * BOX,
        legend.len() as f64 * BOX_ROW + 2.0 * BOX,
    ]
}

/// Draws the legend in a box inside a panel, where it hides least of the marks from number `first` on. Returns
/// `false` if there is no room, or if it would hide markers or labels.
pub fn draw_inside(
    canvas: &mut Canvas,
    legend: &[LegendEntry],
    panels: &[PlotPanel],
    first: usize,
) -> bool {
    const MARGIN: f64 = 6.0;
    /// More is hidden by a marker, or by many dashes.
    const MOST_HIDDEN: f64 = 150.0;
    /// The largest part of a panel's width and height that a legend may cover.
    const MOST_COVERED: f64 = 0.7;
    let [width, height] = box_of(&canvas.sheet.face, legend);
    /// Places in each direction.
    const TRIED: u32 = 9;
    let places = |panel: &PlotPanel| {
        let Rect {
            left,
            top,
            right,
            bottom,
        } = panel.area;
        let part =
            |from: f64, to: f64, i: u32| from + (to - from) * f64::from(i) / f64::from(TRIED - 1);
        let lefts = move |i| part(right - MARGIN - width, left + MARGIN, i);
        let tops = move |i| part(top + MARGIN, bottom - MARGIN - height, i);
        (0..TRIED).flat_map(move |row| {
            (0..TRIED).map(move |column| {
                let (left, top) = (lefts(column), tops(row));
                // In a corner rather than along a side, and along a side rather than in the middle.
                let [row, column] = [row, column].map(|i| u32::from(i > 0 && i + 1 < TRIED));
                (
                    Rect {
                        left,
                        top,
                        right: left + width,
                        bottom: top + height,
                    },
                    f64::from(row + column),
                )
            })
        })
    };
    let fits = |area: &Rect| {
        width <= MOST_COVERED * area.width() && height <= MOST_COVERED * area.height()
    };
    let all = panels
        .iter()
        .filter(|panel| fits(&panel.area))
        .flat_map(places)
        .map(|(place, cost)| (place, cost + canvas.hidden(&place, first)));
    let best = all
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .filter(|(_, cost)| *cost < MOST_HIDDEN);
    let Some((place, _)) = best else { return false };
    canvas.fill(&place, PAPER);
    canvas.border(&place, Stroke::solid(GRID, 1.0));
    for (row, entry) in (0..).zip(legend) {
        let at = (
            place.left + BOX,
            place.top + BOX + (f64::from(row) + 0.5) * BOX_ROW,
        );
        draw_entry(canvas, entry, &entry.label, at, width - 2.0 * BOX);
    }
    true
}

/// From the left of its row.
#[derive(Debug)]
struct EntryPlace {
    row: usize,
    x: f64,
    end: f64,
    label: String,
}

fn legend_places(face: &Face, legend: &[LegendEntry], width: f64) -> Vec<EntryPlace> {
    let (mut row, mut x) = (0, 0.0);
    let mut places = Vec::with_capacity(legend.len());
    for entry in legend {
        let key = entry.key.width() + KEY_GAP;
        let label = face.fitted(&entry.label, SMALL, width - key);
        let wide = key + face.width(&label, SMALL);
        if x > 0.0 && x + wide > width {
            (row, x) = (row + 1, 0.0);
        }
        places.push(EntryPlace {
            row,
            x,
            end: x + wide,
            label,
        });
        x += wide + LEGEND_GAP;
    }
    places
}

fn draw_key(canvas: &mut Canvas, key: LegendKey, x: f64, y: f64) {
    let (middle, right) = (x + key.width() / 2.0, x + key.width());
    let block = Rect {
        left: x,
        top: y - 6.0,
        right,
        bottom: y + 6.0,
    };
    match key {
        LegendKey::Line(style) => {
            let stroke = Stroke {
                color: style.color,
                width: LINE,
                dash: style.dash,
            };
            canvas.line(&[(x, y), (right, y)], stroke);
            marker(canvas, (middle, y), &style, 0.0, MarkerSigns::default());
        }
        LegendKey::Stroke(stroke) => canvas.line(&[(x, y), (right, y)], stroke),
        LegendKey::Bar(style) => bar(canvas, &block, &style),
        LegendKey::Whisker => whisker(
            canvas,
            [(middle, block.top), (middle, block.bottom)],
            &block,
            Stroke::solid(INK, WHISKER),
        ),
        LegendKey::Corner => {
            canvas.border(&block, Stroke::solid(INK, 0.8));
            corner(canvas, &block);
        }
        LegendKey::Span => canvas.line(
            &[(middle, block.top), (middle, block.bottom)],
            Stroke::solid(INK, SPAN),
        ),
        // Room for the arrow.
        LegendKey::Marker(style, told) if told.above => {
            marker(canvas, (middle, y + 4.0), &style, 0.0, told)
        }
        LegendKey::Marker(style, told) => marker(canvas, (middle, y), &style, 0.0, told),
    }
}

/// With the caps that are in the area.
pub fn whisker(canvas: &mut Canvas, ends: [Point; 2], area: &Rect, stroke: Stroke) {
    canvas.line_within(area, &ends, stroke);
    let upright = ends[0].0 == ends[1].0;
    for (x, y) in ends.into_iter().filter(|end| area.holds(*end)) {
        let (across, up) = if upright { (CAP, 0.0) } else { (0.0, CAP) };
        canvas.line(&[(x - across, y - up), (x + across, y + up)], stroke);
    }
}

/// `grown` is added to its radius.
pub fn marker(canvas: &mut Canvas, (x, y): Point, style: &Style, grown: f64, told: MarkerSigns) {
    const HEAD: f64 = 2.8;
    canvas.marker((x, y), style, grown, told.saturated);
    if told.rejected {
        let reach = 6.2 + grown;
        canvas.line(
            &[(x - reach, y - reach), (x + reach, y + reach)],
            Stroke::solid(INK, WHISKER),
        );
    }
    if told.invalid {
        let reach = 6.8 + grown;
        for side in [-reach, reach] {
            canvas.line(
                &[(x - side, y - reach), (x + side, y + reach)],
                Stroke::solid(INK, CROSS),
            );
        }
    }
    if told.above {
        let (from, tip, stroke) = (y - 6.2, y - 13.0, Stroke::solid(style.color, WHISKER));
        canvas.line(&[(x, from), (x, tip)], stroke);
        canvas.line(
            &[(x - HEAD, tip + HEAD), (x, tip), (x + HEAD, tip + HEAD)],
            stroke,
        );
    }
}

/// Stripes in the upper right corner.
pub fn corner(canvas: &mut Canvas, area: &Rect) {
    let reach = area.width().min(area.height()) * 0.45;
    for part in [0.4, 0.7, 1.0] {
        let (x, y) = (area.right - reach * part, area.top + reach * part);
        canvas.line(&[(x, area.top), (area.right, y)], Stroke::solid(INK, 1.0));
    }
}

pub fn bar(canvas: &mut Canvas, rect: &Rect, style: &Style) {
    const SPACING: f64 = 4.5;
    let Rect {
        left,
        top,
        right,
        bottom,
    } = *rect;
    let strokes = if style.hatch == Hatch::Plain {
        0
    } else {
        ((right - left + bottom - top) / SPACING).ceil() as u32
    };
    canvas.fill(
        rect,
        if strokes > 0 {
            tint(style.color, 0.3)
        } else {
            style.color
        },
    );
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
        let entries: Vec<LegendEntry> = (0..6)
            .map(|i| LegendEntry {
                label: format!("padded, width {i}0"),
                key: LegendKey::Line(Style::of(i)),
            })
            .collect();
        let places = legend_places(&Face::default(), &entries, 464.0);
        assert_eq!(places[0].row, 0);
        assert!(places[5].row >= 2, "{places:?}");
        assert!(places.iter().all(|place| place.end <= 464.0));
    }
}
