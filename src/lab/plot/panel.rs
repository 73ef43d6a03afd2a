//! Plot areas with their axes and curves.

use super::axis::{Axis, Tick};
use super::canvas::{Align, Canvas, HALF_DIGIT, Point, Rect, Stroke};
use super::legend::{MarkerSigns, SPAN, WHISKER, marker, whisker};
use super::style::{GRID, INK, SMALL, Style};
use crate::base::error::Result;
use crate::lab::results::read::CsvRow;
use crate::lab::results::table::significant;

pub const LINE: f64 = 2.2;
/// The width of lines to saturated runs, whose latency shows only how long they were.
pub const SATURATED_LINE: f64 = 0.8;

/// A closer marker hides another.
const HIDING: f64 = 4.0;
/// Growth of a marker's radius for each marker that would hide it, at most [`MOST_RINGS`].
const RING: f64 = 1.9;
const MOST_RINGS: usize = 2;

#[derive(Clone, Copy, Debug, Default)]
pub struct Dot {
    pub x: f64,
    pub y: f64,
    /// With a marker; a page shows the values of the others, too.
    pub marked: bool,
    /// Then its marker is hollow.
    pub saturated: bool,
    /// Requests were turned away: a bar through its marker.
    pub rejected: bool,
    /// The load generator was late: a cross over its marker.
    pub invalid: bool,
    /// The median and the 99th percentile, joined by a line.
    pub span: Option<[f64; 2]>,
    /// The 95 % interval of y, over replications.
    pub interval: Option<[f64; 2]>,
    /// The same of x.
    pub across: Option<[f64; 2]>,
    /// The number of clients of a closed loop.
    pub clients: Option<u32>,
}

impl Dot {
    /// A dot whose marker tells of the run.
    pub fn of(row: &CsvRow<'_>, x: f64, y: f64) -> Result<Dot> {
        let (saturated, rejected, invalid) = (row.saturated()?, row.rejects()?, !row.is_valid()?);
        let clients = row
            .point()?
            .strip_prefix("clients-")
            .and_then(|clients| clients.parse().ok());
        Ok(Dot {
            x,
            y,
            marked: true,
            saturated,
            rejected,
            invalid,
            clients,
            ..Dot::default()
        })
    }
}

#[derive(Clone, Debug)]
pub struct SeriesCurve {
    pub label: String,
    pub style: Style,
    /// With their widths.
    pub lines: Vec<(f64, Vec<(f64, f64)>)>,
    pub dots: Vec<Dot>,
}

impl SeriesCurve {
    /// Through its dots below `top`. `saturated`: the width of lines between saturated runs.
    pub fn through(
        label: &str,
        style: Style,
        dots: &[Dot],
        top: f64,
        saturated: f64,
    ) -> SeriesCurve {
        let mut lines: Vec<(f64, Vec<(f64, f64)>)> = Vec::new();
        for pair in dots.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            if from.y > top && to.y > top {
                // It would show a latency that is not theirs.
                continue;
            }
            let width = if from.saturated && to.saturated {
                saturated
            } else {
                LINE
            };
            let (from, to) = ((from.x, from.y.min(top)), (to.x, to.y.min(top)));
            match lines.last_mut() {
                Some((same, line)) if *same == width && line.last() == Some(&from) => line.push(to),
                _ => lines.push((width, vec![from, to])),
            }
        }
        SeriesCurve {
            label: label.into(),
            style,
            lines,
            dots: dots.to_vec(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct PlotPanel {
    /// Its heading.
    pub name: String,
    pub area: Rect,
    pub x: Axis,
    pub y: Axis,
}

impl PlotPanel {
    pub fn at(&self, x: f64, y: f64) -> Point {
        // So that clipping at the border stays exact.
        let (across, up) = (
            self.x.place(x).clamp(-100.0, 100.0),
            self.y.place(y).clamp(-100.0, 100.0),
        );
        (
            self.area.left + across * self.area.width(),
            self.area.bottom - up * self.area.height(),
        )
    }

    pub fn grid(&self, canvas: &mut Canvas) {
        let Rect {
            left,
            top,
            right,
            bottom,
        } = self.area;
        let stroke = Stroke::solid(GRID, 0.8);
        for tick in self.x.in_grid() {
            let (x, _) = self.at(tick.value, self.y.low);
            canvas.line(&[(x, top), (x, bottom)], stroke);
        }
        for tick in self.y.in_grid() {
            let (_, y) = self.at(self.x.low, tick.value);
            canvas.line(&[(left, y), (right, y)], stroke);
        }
    }

    pub fn axes(&self, canvas: &mut Canvas) {
        let Rect {
            left,
            top,
            right,
            bottom,
        } = self.area;
        let stroke = Stroke::solid(INK, 1.2);
        let length = |tick: &Tick| if tick.label.is_empty() { 3.0 } else { 5.0 };
        canvas.line(&[(left, top), (left, bottom), (right, bottom)], stroke);
        for tick in &self.x.ticks {
            let (x, _) = self.at(tick.value, self.y.low);
            canvas.line(&[(x, bottom), (x, bottom + length(tick))], stroke);
            canvas.text(
                &tick.label,
                (x, bottom + 7.0 + 0.8 * SMALL),
                SMALL,
                Align::Center,
                INK,
            );
        }
        for tick in &self.y.ticks {
            let (_, y) = self.at(self.x.low, tick.value);
            canvas.line(&[(left - length(tick), y), (left, y)], stroke);
            canvas.text(
                &tick.label,
                (left - 7.0, y + HALF_DIGIT * SMALL),
                SMALL,
                Align::Right,
                INK,
            );
        }
    }

    pub fn line(&self, canvas: &mut Canvas, values: &[(f64, f64)], stroke: Stroke) {
        let points: Vec<Point> = values.iter().map(|&(x, y)| self.at(x, y)).collect();
        canvas.line_within(&self.area, &points, stroke);
    }

    /// First the lines, then the markers. A point above the area has an arrow on the upper border, so that its
    /// horizontal value can be read. A marker that a later curve's would hide is a larger ring.
    pub fn curves(&self, canvas: &mut Canvas, curves: &[SeriesCurve]) {
        /// Of the area in which a page shows a dot's values.
        const REACH: f64 = 7.0;
        for SeriesCurve {
            label,
            style,
            lines,
            ..
        } in curves
        {
            canvas.group(label, |canvas| {
                for (width, line) in lines {
                    self.line(
                        canvas,
                        line,
                        Stroke {
                            color: style.color,
                            width: *width,
                            dash: style.dash,
                        },
                    );
                }
            });
        }
        let at = |dot: &Dot| self.at(dot.x, dot.y.min(self.y.high));
        for (
            i,
            SeriesCurve {
                label, style, dots, ..
            },
        ) in curves.iter().enumerate()
        {
            for (dot, (x, y)) in dots
                .iter()
                .map(|dot| (dot, at(dot)))
                .filter(|(_, at)| self.area.holds(*at))
            {
                if dot.marked {
                    let near =
                        |(other_x, other_y): Point| (other_x - x).hypot(other_y - y) < HIDING;
                    let hides = |other: &Dot| other.marked && near(at(other));
                    let over = curves[i + 1..]
                        .iter()
                        .filter(|later| later.dots.iter().any(hides))
                        .count();
                    // Markers at one place share an arrow.
                    let above = dot.y > self.y.high && over == 0;
                    let told = MarkerSigns {
                        saturated: dot.saturated,
                        rejected: dot.rejected,
                        above,
                        invalid: dot.invalid,
                    };
                    let grown = RING * over.min(MOST_RINGS) as f64;
                    canvas.group(label, |canvas| marker(canvas, (x, y), style, grown, told));
                }
                let area = Rect {
                    left: x - REACH,
                    top: y - REACH,
                    right: x + REACH,
                    bottom: y + REACH,
                };
                canvas.spot(label, area, self.values(dot));
            }
        }
    }

    /// For a page.
    fn values(&self, dot: &Dot) -> String {
        let more = [
            (dot.saturated, "\nsaturated"),
            (dot.rejected, "\nrequests rejected"),
            (dot.invalid, "\nnot valid: requests were late"),
        ];
        let more: String = more
            .iter()
            .filter(|(is, _)| *is)
            .map(|(_, words)| *words)
            .collect();
        let within = |interval: Option<[f64; 2]>| {
            interval.map_or(String::new(), |[low, high]| {
                format!(" ± {}", significant((high - low) / 2.0))
            })
        };
        let (of_x, of_y) = (
            significant(dot.x) + &within(dot.across),
            significant(dot.y) + &within(dot.interval),
        );
        format!("{}: {of_x}\n{}: {of_y}{more}", self.x.label, self.y.label)
    }

    /// `beside` units beside `x`.
    pub fn whisker(
        &self,
        canvas: &mut Canvas,
        x: f64,
        beside: f64,
        ends: [f64; 2],
        stroke: Stroke,
    ) {
        let ends = ends.map(|y| self.at(x, y)).map(|(x, y)| (x + beside, y));
        whisker(canvas, ends, &self.area, stroke);
    }

    /// Those of several policies stand side by side, so that they do not hide each other. Intervals are wider than the spans
    /// below them.
    pub fn whiskers(&self, canvas: &mut Canvas, curves: &[SeriesCurve]) {
        /// Within a marker.
        const BESIDE: f64 = 5.4;
        let last = curves.len().saturating_sub(1) as f64;
        let has_intervals = curves
            .iter()
            .flat_map(|curve| &curve.dots)
            .any(|dot| dot.interval.is_some());
        for (
            place,
            SeriesCurve {
                label, style, dots, ..
            },
        ) in curves.iter().enumerate()
        {
            let beside = (place as f64 - last / 2.0) * BESIDE / last.max(2.0);
            for dot in dots {
                let wide = if dot.saturated {
                    SATURATED_LINE
                } else {
                    WHISKER
                };
                let stroke = |width| Stroke::solid(style.color, width);
                canvas.group(label, |canvas| {
                    match dot.span {
                        Some(ends) if has_intervals => {
                            self.span(canvas, dot.x, beside, ends, stroke(SPAN))
                        }
                        Some(ends) => self.whisker(canvas, dot.x, beside, ends, stroke(wide)),
                        None => {}
                    }
                    dot.interval
                        .into_iter()
                        .for_each(|ends| self.whisker(canvas, dot.x, 0.0, ends, stroke(wide)));
                    dot.across
                        .into_iter()
                        .for_each(|ends| self.whisker_across(canvas, dot.y, ends, stroke(wide)));
                });
            }
        }
    }

    /// A line without caps.
    pub fn span(&self, canvas: &mut Canvas, x: f64, beside: f64, ends: [f64; 2], stroke: Stroke) {
        let ends = ends.map(|y| self.at(x, y)).map(|(x, y)| (x + beside, y));
        canvas.line_within(&self.area, &ends, stroke);
    }

    /// From left to right.
    pub fn whisker_across(&self, canvas: &mut Canvas, y: f64, ends: [f64; 2], stroke: Stroke) {
        whisker(canvas, ends.map(|x| self.at(x, y)), &self.area, stroke);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::plot::PlotOptions;
    use crate::lab::plot::canvas::Mark;
    use crate::lab::plot::face::Face;
    use crate::lab::plot::layout::figure;

    fn empty(longest: f64) -> (Canvas, PlotPanel) {
        let axes = [longest, 1.0].map(|end| Axis::linear("", end, 4));
        let mut shown = None;
        let fields = vec![(String::new(), axes, Vec::new())];
        let canvas = figure(
            &PlotOptions::default(),
            Vec::new(),
            fields,
            |_, _, panel| shown = Some(panel.clone()),
        );
        (canvas, shown.unwrap())
    }

    #[test]
    fn the_last_tick_label_is_inside_the_figure() {
        let (canvas, panel) = empty(20_000.0);
        let (x, _) = panel.at(20_000.0, 0.0);
        assert!(x + Face::default().width("20,000", SMALL) / 2.0 <= canvas.width);
    }

    fn dot((x, y, saturated): (f64, f64, bool)) -> Dot {
        Dot {
            x,
            y,
            marked: true,
            saturated,
            ..Dot::default()
        }
    }

    fn drawn(curves: &[&[(f64, f64, bool)]]) -> (PlotPanel, Vec<Mark>) {
        let (mut canvas, panel) = empty(10.0);
        canvas.marks.clear();
        let style = |i| Style {
            dash: &[],
            ..Style::of(i)
        };
        let dots = curves
            .iter()
            .map(|dots| dots.iter().copied().map(dot).collect::<Vec<_>>());
        let curves: Vec<SeriesCurve> = (0..)
            .zip(dots)
            .map(|(i, dots)| SeriesCurve::through("", style(i), &dots, 1.0, 1.0))
            .collect();
        panel.curves(&mut canvas, &curves);
        (panel, canvas.marks)
    }

    #[test]
    fn a_point_above_the_area_is_drawn_on_its_border_with_an_arrow() {
        let (panel, marks) = drawn(&[&[(2.0, 0.5, false), (4.0, 9.0, true), (6.0, 9.0, true)]]);
        let line = |mark: &Mark| {
            if let Mark::Line(points, ..) = mark {
                Some(points.clone())
            } else {
                None
            }
        };
        let lines: Vec<Vec<Point>> = marks.iter().filter_map(line).collect();
        assert_eq!(lines[0], [panel.at(2.0, 0.5), panel.at(4.0, 1.0)]);
        assert_eq!(
            lines.len(),
            1 + 2 + 2,
            "two strokes for each arrow, and no line from one point to the next"
        );
        let areas = marks
            .iter()
            .filter(|mark| matches!(mark, Mark::Area(..)))
            .count();
        assert_eq!(areas, 2 + 3 + 3, "a full marker and two hollow ones");
    }

    #[test]
    fn a_line_between_saturated_runs_has_its_own_width() {
        let dots = [
            (0.0, 0.1, false),
            (1.0, 0.2, true),
            (2.0, 0.3, true),
            (3.0, 0.4, true),
        ]
        .map(dot);
        let lines = SeriesCurve::through("", Style::of(0), &dots, 1.0, 0.5).lines;
        let widths: Vec<(f64, usize)> = lines
            .iter()
            .map(|(width, line)| (*width, line.len()))
            .collect();
        assert_eq!(widths, [(LINE, 2), (0.5, 3)]);
    }

    #[test]
    fn a_marker_that_would_be_hidden_is_a_ring_around_the_other() {
        let (_, marks) = drawn(&[
            &[(2.0, 0.5, false), (8.0, 0.5, false)],
            &[(2.0, 0.5, false)],
        ]);
        let height = |mark: &Mark| {
            let Mark::Area(points, _) = mark else {
                return None;
            };
            let y = || points.iter().map(|(_, y)| *y);
            Some(y().fold(f64::MIN, f64::max) - y().fold(f64::MAX, f64::min))
        };
        let heights: Vec<f64> = marks.iter().filter_map(height).collect();
        assert!(
            (heights[1] - heights[3] - 2.0 * RING).abs() < 1e-9,
            "{heights:?}"
        );
    }
}
