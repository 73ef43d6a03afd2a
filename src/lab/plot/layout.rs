//! The places of panels on a sheet, with their headings and the labels of their axes.

use super::PlotOptions;
use super::axis::{Axis, Spread};
use super::canvas::{Align, Canvas, Rect};
use super::face::Face;
use super::legend::{LegendEntry, LegendKey, MarkerSigns, draw_inside, header};
use super::look::Legend;
use super::panel::PlotPanel;
use super::remark::{Remark, stated, stated_entry};
use super::sheet::Sheet;
use super::style::{INK, MEDIUM, SMALL};

/// Between a figure's border and its content.
pub const PADDING: f64 = 8.0;
/// Most labels of an x axis; as many of them as fit.
pub const MOST_ACROSS: usize = 8;
/// The height of a panel.
const HEIGHT: f64 = 250.0;
const HEADING: f64 = 24.0;
/// Ticks and labels of a horizontal axis.
const TICKS_HEIGHT: f64 = 7.0 + SMALL;
const X_AXIS_HEIGHT: f64 = TICKS_HEIGHT + 6.0 + MEDIUM + PADDING;
/// The label of a vertical axis.
const Y_LABEL_WIDTH: f64 = PADDING + MEDIUM + 8.0;
const GAP: f64 = 14.0;
/// The width of a second vertical axis.
const RIGHT_TICKS: f64 = 48.0;
/// A smaller panel shows nothing.
const LEAST: f64 = 45.0;
/// A panel beside another is at least as wide, its labels included.
const LEAST_BESIDE: f64 = 215.0;

pub struct Frame<'a> {
    pub sheet: &'a Sheet,
    pub title: Option<&'a str>,
    pub legend: &'a [LegendEntry],
    /// Whether panels may stand beside each other.
    pub beside: bool,
    /// The label of second vertical axes, whose ticks the figure draws.
    pub right: Option<&'a str>,
}

/// What a panel shows.
#[derive(Clone)]
pub struct Content {
    pub heading: String,
    /// If the sheet does not say.
    pub height: f64,
    /// Whatever the sheet says.
    pub is_fixed: bool,
    pub x: Axis,
    pub y: Axis,
}

impl Content {
    pub fn new(heading: &str, height: f64, [x, y]: [Axis; 2]) -> Content {
        Content {
            heading: heading.into(),
            height,
            is_fixed: false,
            x,
            y,
        }
    }
}

/// A panel's heading, its axes, and its remarks.
pub type Field = (String, [Axis; 2], Vec<Remark>);

/// Panels with a paper's values on their axes among the remarks. `data` draws between the lines of the remarks and their
/// labels.
pub fn figure(
    options: &PlotOptions,
    mut legend: Vec<LegendEntry>,
    mut fields: Vec<Field>,
    mut data: impl FnMut(&mut Canvas, usize, &PlotPanel),
) -> Canvas {
    let mut any = false;
    for (_, [x, y], remarks) in &mut fields {
        let stated = stated(&options.stated, x, y);
        any |= !stated.is_empty();
        remarks.extend(stated);
    }
    legend.extend(stated_entry(any));
    let sheet = options.sheet();
    let frame = Frame {
        sheet: &sheet,
        title: options.title.as_deref(),
        legend: &legend,
        beside: true,
        right: None,
    };
    let contents = fields
        .iter()
        .map(|(heading, axes, _)| Content::new(heading, HEIGHT, axes.clone()))
        .collect();
    drawn(&frame, contents, |canvas, i, panel| {
        let (first, remarks) = (canvas.marks.len(), &fields[i].2);
        panel.remark_lines(canvas, remarks);
        data(canvas, i, panel);
        panel.remark_labels(canvas, remarks, first);
    })
}

/// Panels, filled by `data`, with their numbers. The axes are drawn over what touches them.
pub fn drawn(
    frame: &Frame<'_>,
    contents: Vec<Content>,
    mut data: impl FnMut(&mut Canvas, usize, &PlotPanel),
) -> Canvas {
    let mut with_legend = |legend: &[LegendEntry]| {
        let (mut canvas, panels) = lay_out(frame, legend, contents.clone());
        let first = canvas.marks.len();
        for (i, panel) in panels.iter().enumerate() {
            data(&mut canvas, i, panel);
            panel.axes(&mut canvas);
        }
        (canvas, panels, first)
    };
    if frame.sheet.legend == Legend::Outside {
        return with_legend(frame.legend).0;
    }
    let (mut canvas, panels, first) = with_legend(&[]);
    if frame.sheet.legend == Legend::Inside
        && !draw_inside(&mut canvas, frame.legend, &panels, first)
    {
        return with_legend(frame.legend).0;
    }
    canvas
}

/// What is left of the sheet's height for panels in rows, if the sheet has one.
pub fn room(
    frame: &Frame<'_>,
    legend: &[LegendEntry],
    rows: usize,
    has_headings: bool,
) -> Option<f64> {
    let top = header(&mut Canvas::new(frame.sheet.clone()), frame.title, legend);
    let heading = heading(frame, has_headings);
    let between = rows.saturating_sub(1) as f64 * (TICKS_HEIGHT + GAP + heading);
    Some(frame.sheet.height? - top - heading - X_AXIS_HEIGHT - between)
}

fn heading(frame: &Frame<'_>, has_headings: bool) -> f64 {
    let arrows = frame.legend.iter().any(|entry| {
        matches!(
            entry.key,
            LegendKey::Marker(_, MarkerSigns { above: true, .. })
        )
    });
    match has_headings {
        true => HEADING,
        false if arrows => 17.0,
        false => 9.0,
    }
}

/// All areas have room for the widest vertical labels, and those beside each other have one height.
fn lay_out(
    frame: &Frame<'_>,
    legend: &[LegendEntry],
    mut contents: Vec<Content>,
) -> (Canvas, Vec<PlotPanel>) {
    let face = &frame.sheet.face;
    let columns = columns(frame, &contents);
    let has_headings = contents.iter().any(|one| !one.heading.is_empty());
    let room = room(
        frame,
        legend,
        contents.len().div_ceil(columns),
        has_headings,
    );
    set_heights(&mut contents, columns, room);
    for one in contents
        .iter_mut()
        .filter(|one| one.y.spread != Spread::Bins)
    {
        one.y = one.y.clone().fitted(one.height, |_| SMALL + 3.0);
    }
    let left = 7.0 + largest(&contents, |one| widest(face, &one.y));
    let right = frame
        .right
        .map_or(largest(&contents, |one| overhang(face, &one.x)), |_| {
            RIGHT_TICKS
        });
    let wide = panel_width(frame, columns, left + right).max(LEAST);
    let mut canvas = Canvas::new(frame.sheet.clone());
    let mut panels: Vec<PlotPanel> = Vec::new();
    let heading = heading(frame, has_headings);
    let mut bottom = header(&mut canvas, frame.title, legend);
    let mut top = bottom + heading;
    for (
        i,
        Content {
            heading: name,
            height,
            x,
            y,
            ..
        },
    ) in contents.into_iter().enumerate()
    {
        let column = i % columns;
        if i > 0 && column == 0 {
            top = bottom + TICKS_HEIGHT + GAP + heading;
        }
        bottom = top + height;
        let left = Y_LABEL_WIDTH + left + column as f64 * (wide + right + GAP + left);
        let area = Rect {
            left,
            top,
            right: left + wide,
            bottom,
        };
        canvas.text(
            face.fitted(&name, MEDIUM, wide + right),
            (left, top - 7.0),
            MEDIUM,
            Align::Left,
            INK,
        );
        let x = x.fitted(wide, |label| face.width(label, SMALL) + 10.0);
        let panel = PlotPanel { name, area, x, y };
        panel.grid(&mut canvas);
        panels.push(panel);
    }
    let needed = bottom + X_AXIS_HEIGHT;
    canvas.height = frame
        .sheet
        .height
        .filter(|height| needed <= height + 1.0)
        .unwrap_or(needed.ceil());
    if let Some(last) = panels.get(columns - 1) {
        let needed = last.area.right + right + PADDING;
        canvas.width = Some(canvas.width)
            .filter(|width| needed <= width + 1.0)
            .unwrap_or(needed);
    }
    label_axes(&mut canvas, frame, &panels, columns);
    (canvas, panels)
}

/// The number of panels in a row. Rows have equal numbers, if panels may stand beside each other and the labels of
/// all bins fit.
fn columns(frame: &Frame<'_>, contents: &[Content]) -> usize {
    /// About what vertical labels take.
    const SIDES: f64 = 60.0;
    let count = contents.len();
    let most = if frame.beside {
        (frame.sheet.width / LEAST_BESIDE) as usize
    } else {
        1
    };
    let face = &frame.sheet.face;
    let needed = largest(contents, |one| match one.x.spread {
        Spread::Bins => one
            .x
            .labels()
            .map(|label| face.width(label, SMALL) + 7.0)
            .sum(),
        _ => 0.0,
    });
    let balanced = (1..=most.min(count))
        .rev()
        .map(|columns| count.div_ceil(count.div_ceil(columns)));
    let mut all = balanced.filter(|columns| needed <= panel_width(frame, *columns, SIDES));
    all.next().unwrap_or(1)
}

/// The width of each panel. `sides` is what its vertical labels take.
fn panel_width(frame: &Frame<'_>, columns: usize, sides: f64) -> f64 {
    let columns = columns as f64;
    let margins = Y_LABEL_WIDTH + PADDING + frame.right.map_or(0.0, |_| MEDIUM + 8.0);
    (frame.sheet.width - margins - columns * sides - (columns - 1.0) * GAP) / columns
}

/// Rows share the room in proportion to what they would have without it.
fn set_heights(contents: &mut [Content], columns: usize, room: Option<f64>) {
    let row = |row: &[Content]| largest(row, |one| one.height);
    let all: f64 = contents.chunks(columns).map(row).sum();
    let scale = room.map_or(1.0, |room| room / all);
    for contents in contents.chunks_mut(columns) {
        let height = row(contents) * scale;
        contents
            .iter_mut()
            .filter(|one| !one.is_fixed)
            .for_each(|one| one.height = height.max(LEAST));
    }
}

/// One label for all panels; horizontal ones that differ stand below the panels of the last row.
fn label_axes(canvas: &mut Canvas, frame: &Frame<'_>, panels: &[PlotPanel], columns: usize) {
    let face = &frame.sheet.face;
    let ([first, ..], [.., last]) = (panels, panels) else {
        return;
    };
    let middle = (first.area.top + last.area.bottom) / 2.0;
    let mut upright = |words: &str, x: f64| {
        let words = face.fitted(words, MEDIUM, canvas.height - PADDING);
        // Moved if it would stick out of the figure.
        let half = (face.width(&words, MEDIUM) + PADDING) / 2.0;
        let middle = middle.min(canvas.height - half).max(half);
        canvas.text(words, (x, middle), MEDIUM, Align::Upright, INK);
    };
    upright(&first.y.label, PADDING + 0.8 * MEDIUM);
    upright(frame.right.unwrap_or_default(), frame.sheet.width - PADDING);
    let baseline = canvas.height - PADDING - 0.2 * MEDIUM;
    let mut across = |words: &str, (from, to): (f64, f64), most: f64| {
        let words = face.fitted(words, MEDIUM, most);
        let half = (face.width(&words, MEDIUM) + PADDING) / 2.0;
        let middle = ((from + to) / 2.0).min(frame.sheet.width - half).max(half);
        canvas.text(words, (middle, baseline), MEDIUM, Align::Center, INK);
    };
    if panels.iter().all(|panel| panel.x.label == first.x.label) {
        let end = panels[columns - 1].area.right;
        return across(
            &first.x.label,
            (first.area.left, end),
            frame.sheet.width - PADDING,
        );
    }
    let last_row = (panels.len() - 1) / columns * columns;
    for panel in &panels[last_row..] {
        across(
            &panel.x.label,
            (panel.area.left, panel.area.right),
            panel.area.width() + 40.0,
        );
    }
}

fn largest(contents: &[Content], of: impl Fn(&Content) -> f64) -> f64 {
    contents.iter().map(of).fold(0.0, f64::max)
}

fn widest(face: &Face, axis: &Axis) -> f64 {
    axis.labels()
        .map(|label| face.width(label, SMALL))
        .fold(0.0, f64::max)
}

/// Reach of a horizontal axis's last label beyond the right end.
fn overhang(face: &Face, x: &Axis) -> f64 {
    let half = |label: &str| face.width(label, SMALL) / 2.0;
    match x.spread {
        // The last bin's label stands half a bin before the end.
        Spread::Bins => {
            (x.labels().next_back().map_or(0.0, half) - 190.0 / (x.high - x.low)).max(0.0)
        }
        Spread::Linear | Spread::Log => {
            // Without ticks yet, the end's own label.
            let end = super::axis::number(x.high);
            x.labels().next_back().map_or(half(&end), half).max(4.0)
        }
    }
}
