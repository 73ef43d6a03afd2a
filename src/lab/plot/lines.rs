//! Values by group as lines, one for each series: the drawing of [`Bars`] whose groups are many.

use super::axis::{Axis, Tick};
use super::canvas::{Canvas, Stroke};
use super::chart::Bars;
use super::dot::Dot;
use super::layout::{Content, Frame, draw_panels};
use super::legend::{LegendEntry, LegendKey};
use super::panel::{CurveLine, SeriesCurve};
use super::style::LINE_WIDTH;
use crate::lab::results::sweep_keys::distinct;

/// The height of the panel.
const HEIGHT: f64 = 210.0;
/// The largest number of groups that have a tick each. If there are more, each fifth has one.
const MOST_TICKS: usize = 20;

/// Draws lines on one plot area, with a logarithmic axis if that is asked for.
pub fn draw_lines(bars: &Bars) -> Canvas {
    let groups = distinct(bars.bars.iter().map(|bar| bar.group.as_str()));
    let mut curves = Vec::new();
    let mut legend = Vec::new();
    for (i, series) in bars.series.iter().enumerate() {
        let curve = series_curve(bars, i, &groups);
        let stroke = Stroke {
            color: curve.style.color,
            width: LINE_WIDTH,
            dash: curve.style.dash,
        };
        legend.push(LegendEntry::new(series, LegendKey::Stroke(stroke)));
        curves.push(curve);
    }
    let values = curves.iter().flat_map(|curve| &curve.dots).map(|dot| dot.y);
    let most = values.clone().fold(0.0, f64::max);
    let y = if bars.log {
        let least = values.fold(f64::INFINITY, f64::min);
        Axis::log(&bars.value, least, most)
    } else {
        Axis::linear_to_tick(&bars.value, most, 5)
    };
    let x = group_axis(&bars.across, &groups);
    let frame = Frame {
        sheet: &bars.sheet,
        title: bars.title.as_deref(),
        legend: &legend,
        beside: false,
        right: None,
    };
    let contents = vec![Content::new("", HEIGHT, [x, y])];
    draw_panels(&frame, contents, |canvas, _, panel| {
        panel.curves(canvas, &curves);
        for curve in &curves {
            for dot in &curve.dots {
                let group = groups[dot.x as usize];
                canvas.data.push(panel.datum(&curve.label, group, dot.y));
            }
        }
    })
}

/// The curve of the series with this number over the groups.
fn series_curve(bars: &Bars, series: usize, groups: &[&str]) -> SeriesCurve {
    let label = &bars.series[series];
    let mut dots = Vec::new();
    for bar in bars.bars.iter().filter(|bar| bar.series == *label) {
        if let Some(value) = bar.value {
            let place = groups.iter().position(|group| *group == bar.group);
            dots.push(Dot {
                x: place.unwrap_or(0) as f64,
                y: value,
                ..Dot::default()
            });
        }
    }
    let line = CurveLine {
        width: LINE_WIDTH,
        values: dots.iter().map(|dot| (dot.x, dot.y)).collect(),
    };
    SeriesCurve {
        label: label.clone(),
        style: bars.style(series),
        lines: vec![line],
        dots,
    }
}

/// The axis of the groups.
fn group_axis(label: &str, groups: &[&str]) -> Axis {
    let mut ticks = Vec::new();
    for (i, group) in groups.iter().enumerate() {
        if groups.len() <= MOST_TICKS || i == 0 || (i + 1).is_multiple_of(5) {
            ticks.push(Tick {
                value: i as f64,
                label: (*group).into(),
            });
        }
    }
    Axis::bins(label, [-0.5, groups.len() as f64 - 0.5], ticks)
}
