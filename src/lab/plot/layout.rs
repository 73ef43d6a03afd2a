//! The places of panels on a sheet, with their headings and the labels of their axes.

use super::axis::{Axis, Spread, number};
use super::canvas::{Align, Canvas, Rect};
use super::dot::MarkerSigns;
use super::face::Face;
use super::legend::{LegendEntry, LegendKey, draw_header, draw_inside};
use super::look::Legend;
use super::options::PlotOptions;
use super::panel::PlotPanel;
use super::remark::{Remark, legend_entry, stated_remarks};
use super::sheet::Sheet;
use super::style::{INK, MEDIUM, PADDING, SMALL};

/// The largest number of labels of an x axis. An axis has as many labels as fit.
pub const MOST_ACROSS: usize = 8;
/// The height of a panel with curves.
const HEIGHT: f64 = 250.0;
/// The height of a heading.
const HEADING: f64 = 24.0;
/// The height of the ticks and labels of a horizontal axis.
const TICKS_HEIGHT: f64 = 7.0 + SMALL;
const X_AXIS_HEIGHT: f64 = TICKS_HEIGHT + 6.0 + MEDIUM + PADDING;
/// The width of the label of a vertical axis.
const Y_LABEL_WIDTH: f64 = PADDING + MEDIUM + 8.0;
/// The distance between panels.
const GAP: f64 = 14.0;
/// The width of a second vertical axis.
const RIGHT_TICKS: f64 = 48.0;
/// The least width and height of a panel. A smaller one shows nothing.
const LEAST: f64 = 45.0;
/// The least width of a panel next to another, its labels included.
const LEAST_BESIDE: f64 = 215.0;

/// What all panels of a figure share.
pub struct Frame<'a> {
    pub sheet: &'a Sheet,
    pub title: Option<&'a str>,
    pub legend: &'a [LegendEntry],
    /// Whether panels may be next to each other.
    pub beside: bool,
    /// The label of second vertical axes, whose ticks the figure draws.
    pub right: Option<&'a str>,
}

/// What a panel shows.
#[derive(Clone)]
pub struct Content {
    pub heading: String,
    /// The height, unless the sheet's height decides.
    pub height: f64,
    /// Whether the panel has its height whatever the sheet's is.
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

/// A panel with curves, before it has a place.
pub struct PanelPlan {
    pub heading: String,
    pub axes: [Axis; 2],
    pub remarks: Vec<Remark>,
}

/// Draws panels whose remarks are extended by a paper's values on their axes. `draw_data` draws between the lines of
/// the remarks and their labels.
pub fn draw_figure(
    options: &PlotOptions,
    mut legend: Vec<LegendEntry>,
    mut plans: Vec<PanelPlan>,
    mut draw_data: impl FnMut(&mut Canvas, usize, &PlotPanel),
) -> Canvas {
    for plan in &mut plans {
        let [x, y] = &plan.axes;
        plan.remarks.extend(stated_remarks(&options.stated, x, y));
    }
    legend.extend(legend_entry(plans.iter().flat_map(|plan| &plan.remarks)));
    let sheet = options.sheet();
    let frame = Frame {
        sheet: &sheet,
        title: options.title.as_deref(),
        legend: &legend,
        beside: true,
        right: None,
    };
    let contents = plans
        .iter()
        .map(|plan| Content::new(&plan.heading, HEIGHT, plan.axes.clone()))
        .collect();
    draw_panels(&frame, contents, |canvas, i, panel| {
        let remarks = &plans[i].remarks;
        let first = canvas.marks.len();
        panel.remark_lines(canvas, remarks);
        draw_data(canvas, i, panel);
        panel.remark_labels(canvas, remarks, first);
    })
}

/// Draws panels. `draw_data` fills a panel, which it gets with its number. The axes are drawn over what touches them.
pub fn draw_panels(
    frame: &Frame<'_>,
    contents: Vec<Content>,
    mut draw_data: impl FnMut(&mut Canvas, usize, &PlotPanel),
) -> Canvas {
    if frame.sheet.legend == Legend::Outside {
        let (mut canvas, panels) = lay_out(frame, frame.legend, contents);
        fill_panels(&mut canvas, &panels, &mut draw_data);
        return canvas;
    }
    let (mut canvas, panels) = lay_out(frame, &[], contents.clone());
    let first = canvas.marks.len();
    fill_panels(&mut canvas, &panels, &mut draw_data);
    if frame.sheet.legend == Legend::Inside {
        let areas: Vec<Rect> = panels.iter().map(|panel| panel.area).collect();
        if !draw_inside(&mut canvas, frame.legend, &areas, first) {
            let (mut canvas, panels) = lay_out(frame, frame.legend, contents);
            fill_panels(&mut canvas, &panels, &mut draw_data);
            return canvas;
        }
    }
    canvas
}

fn fill_panels(
    canvas: &mut Canvas,
    panels: &[PlotPanel],
    draw_data: &mut impl FnMut(&mut Canvas, usize, &PlotPanel),
) {
    for (i, panel) in panels.iter().enumerate() {
        draw_data(canvas, i, panel);
        panel.axes(canvas);
    }
}

/// What is left of the sheet's height for panels in rows, or `None` if the sheet has no height.
pub fn room_for_panels(
    frame: &Frame<'_>,
    legend: &[LegendEntry],
    rows: usize,
    has_headings: bool,
) -> Option<f64> {
    let mut trial = Canvas::new(frame.sheet.clone());
    let top = draw_header(&mut trial, frame.title, legend);
    let heading = heading_height(frame, has_headings);
    let between = rows.saturating_sub(1) as f64 * (TICKS_HEIGHT + GAP + heading);
    Some(frame.sheet.height? - top - heading - X_AXIS_HEIGHT - between)
}

/// The distance between the legend, or the panel above, and a panel.
fn heading_height(frame: &Frame<'_>, has_headings: bool) -> f64 {
    if has_headings {
        return HEADING;
    }
    let has_arrows = frame.legend.iter().any(|entry| {
        matches!(
            entry.key,
            LegendKey::Marker(_, MarkerSigns { above: true, .. })
        )
    });
    if has_arrows { 17.0 } else { 9.0 }
}

/// Places panels on a canvas. All areas have room for the widest vertical labels, and those next to each other have one
/// height.
fn lay_out(
    frame: &Frame<'_>,
    legend: &[LegendEntry],
    mut contents: Vec<Content>,
) -> (Canvas, Vec<PlotPanel>) {
    let face = &frame.sheet.face;
    let columns = count_columns(frame, &contents);
    let has_headings = contents.iter().any(|one| !one.heading.is_empty());
    let rows = contents.len().div_ceil(columns);
    let room = room_for_panels(frame, legend, rows, has_headings);
    set_heights(&mut contents, columns, room);
    for one in &mut contents {
        if one.y.spread != Spread::Bins {
            one.y = one.y.clone().fit(one.height, |_| SMALL + 3.0);
        }
    }
    let left = 7.0 + largest(&contents, |one| widest_label(face, &one.y));
    let right = match frame.right {
        Some(_) => RIGHT_TICKS,
        None => largest(&contents, |one| overhang(face, &one.x)),
    };
    let width = panel_width(frame, columns, left + right).max(LEAST);
    let mut canvas = Canvas::new(frame.sheet.clone());
    let mut panels: Vec<PlotPanel> = Vec::new();
    let heading = heading_height(frame, has_headings);
    let mut bottom = draw_header(&mut canvas, frame.title, legend);
    let mut top = bottom + heading;
    for (i, content) in contents.into_iter().enumerate() {
        let column = i % columns;
        if i > 0 && column == 0 {
            top = bottom + TICKS_HEIGHT + GAP + heading;
        }
        bottom = top + content.height;
        let left = Y_LABEL_WIDTH + left + column as f64 * (width + right + GAP + left);
        let area = Rect {
            left,
            top,
            right: left + width,
            bottom,
        };
        let heading = face.shorten(&content.heading, MEDIUM, width + right);
        canvas.text(heading, (left, top - 7.0), MEDIUM, Align::Left, INK);
        let panel = PlotPanel {
            name: content.heading,
            area,
            x: content
                .x
                .fit(width, |label| face.width(label, SMALL) + 10.0),
            y: content.y,
        };
        panel.grid(&mut canvas);
        panels.push(panel);
    }
    let row_end = panels.get(columns - 1).map(|last| last.area.right + right);
    set_size(&mut canvas, bottom, row_end);
    label_axes(&mut canvas, frame, &panels, columns);
    (canvas, panels)
}

/// Gives the canvas the size of its sheet, or what panels with these lower and right ends need if that is more.
fn set_size(canvas: &mut Canvas, bottom: f64, right: Option<f64>) {
    let needed = bottom + X_AXIS_HEIGHT;
    canvas.height = match canvas.sheet.height {
        Some(height) if needed <= height + 1.0 => height,
        _ => needed.ceil(),
    };
    if let Some(right) = right {
        let needed = right + PADDING;
        if needed > canvas.width + 1.0 {
            canvas.width = needed;
        }
    }
}

/// The number of panels in a row. Rows have equal numbers, if panels may be next to each other and the labels of all
/// bins fit.
fn count_columns(frame: &Frame<'_>, contents: &[Content]) -> usize {
    /// The approximate width of vertical labels.
    const SIDES: f64 = 60.0;
    let count = contents.len();
    let most = if frame.beside {
        (frame.sheet.width / LEAST_BESIDE) as usize
    } else {
        1
    };
    let needed = largest(contents, |one| bin_labels_width(&frame.sheet.face, &one.x));
    for columns in (1..=most.min(count)).rev() {
        let rows = count.div_ceil(columns);
        let balanced = count.div_ceil(rows);
        if needed <= panel_width(frame, balanced, SIDES) {
            return balanced;
        }
    }
    1
}

/// The width that the labels of all bins need; 0 for other axes, whose labels can be left out.
fn bin_labels_width(face: &Face, x: &Axis) -> f64 {
    if x.spread == Spread::Bins {
        x.labels().map(|label| face.width(label, SMALL) + 7.0).sum()
    } else {
        0.0
    }
}

/// The width of each panel. `sides` is what its vertical labels take.
fn panel_width(frame: &Frame<'_>, columns: usize, sides: f64) -> f64 {
    let columns = columns as f64;
    let right_label = match frame.right {
        Some(_) => MEDIUM + 8.0,
        None => 0.0,
    };
    let margins = Y_LABEL_WIDTH + PADDING + right_label;
    (frame.sheet.width - margins - columns * sides - (columns - 1.0) * GAP) / columns
}

/// Gives panels their heights. Rows share the room in proportion to what they would have without a limit.
fn set_heights(contents: &mut [Content], columns: usize, room: Option<f64>) {
    let wanted: f64 = contents.chunks(columns).map(row_height).sum();
    let scale = match room {
        Some(room) => room / wanted,
        None => 1.0,
    };
    for row in contents.chunks_mut(columns) {
        let height = (row_height(row) * scale).max(LEAST);
        for content in row {
            if !content.is_fixed {
                content.height = height;
            }
        }
    }
}

fn row_height(row: &[Content]) -> f64 {
    largest(row, |one| one.height)
}

/// Draws one label for the vertical axes of all panels. Horizontal labels that differ are below the panels of the last
/// row.
fn label_axes(canvas: &mut Canvas, frame: &Frame<'_>, panels: &[PlotPanel], columns: usize) {
    let ([first, ..], [.., last]) = (panels, panels) else {
        return;
    };
    let middle = (first.area.top + last.area.bottom) / 2.0;
    label_upright(canvas, &first.y.label, PADDING + 0.8 * MEDIUM, middle);
    let right = frame.right.unwrap_or_default();
    label_upright(canvas, right, frame.sheet.width - PADDING, middle);
    if panels.iter().all(|panel| panel.x.label == first.x.label) {
        let ends = (first.area.left, panels[columns - 1].area.right);
        let most = frame.sheet.width - PADDING;
        label_across(canvas, &first.x.label, ends, most);
        return;
    }
    let last_row = (panels.len() - 1) / columns * columns;
    for panel in &panels[last_row..] {
        let ends = (panel.area.left, panel.area.right);
        let most = panel.area.width() + 40.0;
        label_across(canvas, &panel.x.label, ends, most);
    }
}

/// Draws the label of a vertical axis, moved up or down if it would stick out of the figure.
fn label_upright(canvas: &mut Canvas, words: &str, x: f64, middle: f64) {
    let most = canvas.height - PADDING;
    let words = canvas.sheet.face.shorten(words, MEDIUM, most);
    let half = (canvas.sheet.face.width(&words, MEDIUM) + PADDING) / 2.0;
    let middle = middle.min(canvas.height - half).max(half);
    canvas.text(words, (x, middle), MEDIUM, Align::Upright, INK);
}

/// Draws the label of a horizontal axis between two ends, moved aside if it would stick out of the figure.
fn label_across(canvas: &mut Canvas, words: &str, (from, to): (f64, f64), most: f64) {
    let baseline = canvas.height - PADDING - 0.2 * MEDIUM;
    let words = canvas.sheet.face.shorten(words, MEDIUM, most);
    let half = (canvas.sheet.face.width(&words, MEDIUM) + PADDING) / 2.0;
    let middle = ((from + to) / 2.0).min(canvas.sheet.width - half).max(half);
    canvas.text(words, (middle, baseline), MEDIUM, Align::Center, INK);
}

fn largest(contents: &[Content], size: impl Fn(&Content) -> f64) -> f64 {
    contents.iter().map(size).fold(0.0, f64::max)
}

fn widest_label(face: &Face, axis: &Axis) -> f64 {
    axis.labels()
        .map(|label| face.width(label, SMALL))
        .fold(0.0, f64::max)
}

/// How far a horizontal axis's last label reaches beyond the right end.
fn overhang(face: &Face, x: &Axis) -> f64 {
    let last = x.labels().next_back();
    match x.spread {
        // The label of the last bin is half a bin before the end.
        Spread::Bins => {
            let half = last.map_or(0.0, |label| face.width(label, SMALL) / 2.0);
            (half - 190.0 / (x.high - x.low)).max(0.0)
        }
        Spread::Linear | Spread::Log => {
            // An axis that has no ticks yet will have a label at its end.
            let half = match last {
                Some(label) => face.width(label, SMALL) / 2.0,
                None => face.width(&number(x.high), SMALL) / 2.0,
            };
            half.max(4.0)
        }
    }
}
