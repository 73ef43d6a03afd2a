//! Values by group as lines, one for each series: the drawing of [`Bars`] whose groups are many.

use super::axis::{Axis, Tick};
use super::bars::{Bar, Bars};
use super::canvas::{Canvas, Stroke};
use super::data::Datum;
use super::layout::{Content, Frame, drawn as laid_out};
use super::legend::{LegendEntry, LegendKey};
use super::panel::{Dot, LINE, SeriesCurve};
use crate::lab::results::sweep_keys::distinct;

const HEIGHT: f64 = 210.0;
/// Groups that are more have a tick for each fifth.
const EVERY: usize = 20;

/// On one plot area, with a logarithmic axis if that is asked for.
pub fn drawn(bars: &Bars) -> Canvas {
    let groups = distinct(bars.bars.iter().map(|bar| bar.group.as_str()));
    let place = |bar: &Bar| {
        groups
            .iter()
            .position(|group| *group == bar.group)
            .unwrap_or(0) as f64
    };
    let curve = |(series, label): (usize, &String)| {
        let own = bars.bars.iter().filter(|bar| bar.series == *label);
        let dots = own.filter_map(|bar| {
            Some(Dot {
                x: place(bar),
                y: bar.value?,
                ..Dot::default()
            })
        });
        let dots: Vec<Dot> = dots.collect();
        let line = dots.iter().map(|dot| (dot.x, dot.y)).collect();
        SeriesCurve {
            label: label.clone(),
            style: bars.style(series),
            lines: vec![(LINE, line)],
            dots,
        }
    };
    let curves: Vec<SeriesCurve> = bars.series.iter().enumerate().map(curve).collect();
    let key = |one: &SeriesCurve| {
        LegendKey::Stroke(Stroke {
            color: one.style.color,
            width: LINE,
            dash: one.style.dash,
        })
    };
    let legend: Vec<LegendEntry> = curves
        .iter()
        .map(|one| LegendEntry::new(&one.label, key(one)))
        .collect();
    let values = || curves.iter().flat_map(|one| &one.dots).map(|dot| dot.y);
    let (least, most) = values().fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), v| {
        (v.min(a), v.max(b))
    });
    let y = if bars.log {
        Axis::log(&bars.value, least, most)
    } else {
        Axis::linear_to_tick(&bars.value, most, 5)
    };
    let shown = |i: usize| groups.len() <= EVERY || i == 0 || (i + 1).is_multiple_of(5);
    let ticks = groups.iter().enumerate().filter(|(i, _)| shown(*i));
    let ticks = ticks
        .map(|(i, group)| Tick {
            value: i as f64,
            label: (*group).into(),
        })
        .collect();
    let x = Axis::bins(&bars.across, [-0.5, groups.len() as f64 - 0.5], ticks);
    let title = bars.title.as_deref();
    let frame = Frame {
        sheet: &bars.sheet,
        title,
        legend: &legend,
        beside: false,
        right: None,
    };
    laid_out(
        &frame,
        vec![Content::new("", HEIGHT, [x, y])],
        |canvas, _, panel| {
            panel.curves(canvas, &curves);
            for (curve, dot) in curves
                .iter()
                .flat_map(|curve| curve.dots.iter().map(move |dot| (curve, dot)))
            {
                canvas.data.push(Datum::new(
                    panel,
                    &curve.label,
                    groups[dot.x as usize],
                    dot.y,
                ));
            }
        },
    )
}
