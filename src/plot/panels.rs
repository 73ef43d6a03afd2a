//! Several plot areas in one figure, in one or two columns, with a heading above each.

use super::axis::Axis;
use super::canvas::{Align, Canvas, Rect};
use super::font::{fitted, text_width};
use super::panel::{Entry, PADDING, Panel, TICKS_HEIGHT, header, header_height};
use super::style::{INK, MEDIUM, SMALL, WIDTH};

const HEADING: f64 = 24.0;
const GAP: f64 = 14.0;

/// What stands around the areas.
pub struct Around<'a> {
    /// The line above the figure.
    pub title: Option<&'a str>,
    /// The legend above all areas.
    pub legend: &'a [Entry],
    /// What is measured on the horizontal axes.
    pub x: &'a str,
    /// What is measured on the vertical axes.
    pub y: &'a str,
    /// The room that tick labels need on the right of each area; 0 for none.
    pub right: f64,
    /// What is measured on the axes on the right.
    pub y_right: Option<&'a str>,
    /// The height of an area.
    pub height: f64,
}

/// An area's heading and axes.
pub struct Content {
    /// What stands above it.
    pub heading: String,
    /// Its horizontal axis.
    pub x: Axis,
    /// Its vertical axis.
    pub y: Axis,
}

/// The width of an area in a figure of so many columns, where tick labels are so wide.
fn width(columns: usize, left: f64, around: &Around<'_>) -> f64 {
    let labels = 2.0 * PADDING + MEDIUM + 8.0 + around.y_right.map_or(0.0, |_| MEDIUM + 8.0);
    (WIDTH - labels - columns as f64 * (left + around.right) - (columns - 1) as f64 * GAP) / columns as f64
}

/// Lays areas out, two beside each other where their horizontal labels leave room for that, and draws what stands around them. The axes
/// are drawn by [`Panel::axes`], over what touches them.
pub fn lay_out(around: &Around<'_>, contents: Vec<Content>) -> (Canvas, Vec<Panel>) {
    let widest = |axis: &Axis| {
        axis.ticks.iter().filter_map(|t| t.label.as_deref()).map(|l| text_width(l, SMALL)).fold(0.0, f64::max)
    };
    let left = contents.iter().map(|content| widest(&content.y)).fold(0.0, f64::max) + 7.0;
    let needed = |x: &Axis| x.ticks.iter().filter_map(|t| t.label.as_deref()).map(|l| text_width(l, SMALL) + 7.0).sum();
    let needed = contents.iter().map(|content| needed(&content.x)).fold(0.0, f64::max);
    let columns = if contents.len() > 1 && needed <= width(2, left, around) { 2 } else { 1 };
    let wide = width(columns, left, around);
    let rows = contents.len().div_ceil(columns);
    let top = PADDING + header_height(around.title, around.legend, WIDTH - 2.0 * PADDING);
    let row = HEADING + around.height + TICKS_HEIGHT + GAP;
    let height = top + rows as f64 * row - GAP + 6.0 + MEDIUM + PADDING;
    let mut canvas = Canvas::new(WIDTH, height.ceil());
    header(&mut canvas, around.title, around.legend);
    let first = PADDING + MEDIUM + 8.0 + left;
    let panels = contents.into_iter().enumerate().map(|(i, Content { heading, x, y })| {
        let from = first + (i % columns) as f64 * (wide + around.right + GAP + left);
        let above = top + (i / columns) as f64 * row + HEADING;
        let area = Rect { left: from, top: above, right: from + wide, bottom: above + around.height };
        canvas.text(fitted(&heading, MEDIUM, wide), (from, above - 7.0), MEDIUM, Align::Left, INK);
        let panel = Panel { area, x, y };
        panel.grid(&mut canvas);
        panel
    });
    let panels: Vec<Panel> = panels.collect();
    let middle = top + (height - top) / 2.0 - MEDIUM;
    canvas.upright_text(around.y, (PADDING + 0.8 * MEDIUM, middle), MEDIUM, INK);
    if let Some(label) = around.y_right {
        canvas.upright_text(label, (WIDTH - PADDING, middle), MEDIUM, INK);
    }
    canvas.text(around.x, (WIDTH / 2.0, height - PADDING), MEDIUM, Align::Center, INK);
    (canvas, panels)
}
