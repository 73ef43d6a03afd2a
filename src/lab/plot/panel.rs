//! Plot areas with their axes and curves.

use super::axis::{Axis, Tick};
use super::canvas::{Align, Canvas, HALF_DIGIT, Point, Rect, Stroke};
use super::data::{Datum, OF_REPLICATIONS, P50_TO_P99};
use super::dot::{Dot, MarkerSigns};
use super::style::{
    GRID, INK, LINE_WIDTH, SATURATED_WIDTH, SMALL, SPAN_WIDTH, Style, WHISKER_WIDTH,
};
use crate::lab::results::table::significant;

/// A marker that is closer to another hides it.
const HIDING: f64 = 4.0;
/// The growth of a marker's radius for each marker that would hide it, at most [`MOST_RINGS`] times.
const RING: f64 = 1.9;
const MOST_RINGS: usize = 2;

/// A line through values, with its width.
#[derive(Clone, Debug)]
pub struct CurveLine {
    pub width: f64,
    pub values: Vec<(f64, f64)>,
}

/// The lines and the points of a series.
#[derive(Clone, Debug)]
pub struct SeriesCurve {
    pub label: String,
    pub style: Style,
    pub lines: Vec<CurveLine>,
    pub dots: Vec<Dot>,
}

impl SeriesCurve {
    /// A curve through the points below `top`. Lines between saturated runs have the width `saturated`.
    pub fn through(
        label: &str,
        style: Style,
        dots: &[Dot],
        top: f64,
        saturated: f64,
    ) -> SeriesCurve {
        let mut lines: Vec<CurveLine> = Vec::new();
        for pair in dots.windows(2) {
            let from = pair[0];
            let to = pair[1];
            if from.y > top && to.y > top {
                // A line along the border would show a latency that neither run had.
                continue;
            }
            let width = if from.saturated && to.saturated {
                saturated
            } else {
                LINE_WIDTH
            };
            let start = (from.x, from.y.min(top));
            let end = (to.x, to.y.min(top));
            match lines.last_mut() {
                Some(line) if line.width == width && line.values.last() == Some(&start) => {
                    line.values.push(end);
                }
                _ => lines.push(CurveLine {
                    width,
                    values: vec![start, end],
                }),
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

/// A plot area with its axes.
#[derive(Clone, Debug)]
pub struct PlotPanel {
    /// The heading.
    pub name: String,
    pub area: Rect,
    pub x: Axis,
    pub y: Axis,
}

impl PlotPanel {
    /// The place of a value on the canvas.
    pub fn place(&self, x: f64, y: f64) -> Point {
        // Clipping at the border stays exact only if no place is extremely far away.
        let across = self.x.place(x).clamp(-100.0, 100.0);
        let up = self.y.place(y).clamp(-100.0, 100.0);
        (
            self.area.left + across * self.area.width(),
            self.area.bottom - up * self.area.height(),
        )
    }

    /// A value of a series, as a row of the figure's data.
    pub fn datum(&self, series: &str, x: impl ToString, y: f64) -> Datum {
        Datum {
            panel: self.name.clone(),
            series: series.into(),
            axes: [self.x.label.clone(), self.y.label.clone()],
            x: x.to_string(),
            y,
            ..Datum::default()
        }
    }

    /// A point of a series with its intervals, as rows of the figure's data.
    pub fn data_of_dot(&self, series: &str, dot: &Dot) -> Vec<Datum> {
        let plain = Datum {
            across: dot.across,
            invalid: dot.invalid,
            saturated: dot.saturated,
            ..self.datum(series, dot.x, dot.y)
        };
        plain.with_each([(dot.interval, OF_REPLICATIONS), (dot.span, P50_TO_P99)])
    }

    /// Draws the lines of the grid.
    pub fn grid(&self, canvas: &mut Canvas) {
        let Rect {
            left,
            top,
            right,
            bottom,
        } = self.area;
        let stroke = Stroke::solid(GRID, 0.8);
        for tick in self.x.grid_ticks() {
            let (x, _) = self.place(tick.value, self.y.low);
            canvas.line(&[(x, top), (x, bottom)], stroke);
        }
        for tick in self.y.grid_ticks() {
            let (_, y) = self.place(self.x.low, tick.value);
            canvas.line(&[(left, y), (right, y)], stroke);
        }
    }

    /// Draws the axes with their ticks and the ticks' labels.
    pub fn axes(&self, canvas: &mut Canvas) {
        const LABEL_GAP: f64 = 7.0;
        let Rect {
            left,
            top,
            right,
            bottom,
        } = self.area;
        let stroke = Stroke::solid(INK, 1.2);
        canvas.line(&[(left, top), (left, bottom), (right, bottom)], stroke);
        for tick in &self.x.ticks {
            let (x, _) = self.place(tick.value, self.y.low);
            canvas.line(&[(x, bottom), (x, bottom + tick_length(tick))], stroke);
            let at = (x, bottom + LABEL_GAP + 0.8 * SMALL);
            canvas.text(&tick.label, at, SMALL, Align::Center, INK);
        }
        for tick in &self.y.ticks {
            let (_, y) = self.place(self.x.low, tick.value);
            canvas.line(&[(left - tick_length(tick), y), (left, y)], stroke);
            let at = (left - LABEL_GAP, y + HALF_DIGIT * SMALL);
            canvas.text(&tick.label, at, SMALL, Align::Right, INK);
        }
    }

    /// Draws a line through values, as far as it lies in the area.
    pub fn line(&self, canvas: &mut Canvas, values: &[(f64, f64)], stroke: Stroke) {
        let points: Vec<Point> = values.iter().map(|&(x, y)| self.place(x, y)).collect();
        canvas.line_within(&self.area, &points, stroke);
    }

    /// Draws the lines of curves, and then their markers. A point above the area has an arrow on the upper border, so
    /// that its horizontal value can be read. A marker that a later curve's marker would hide is drawn as a larger
    /// ring.
    pub fn curves(&self, canvas: &mut Canvas, curves: &[SeriesCurve]) {
        for curve in curves {
            canvas.group(&curve.label, |canvas| {
                for line in &curve.lines {
                    let stroke = Stroke {
                        color: curve.style.color,
                        width: line.width,
                        dash: curve.style.dash,
                    };
                    self.line(canvas, &line.values, stroke);
                }
            });
        }
        for (i, curve) in curves.iter().enumerate() {
            for dot in &curve.dots {
                let at = self.marker_place(dot);
                if !self.area.holds(at) {
                    continue;
                }
                if dot.marked {
                    let hiding = self.count_hiding(at, &curves[i + 1..]);
                    self.marker(canvas, curve, dot, hiding);
                }
                self.spot(canvas, &curve.label, dot);
            }
        }
    }

    /// The place of a point, or of its arrow on the upper border.
    fn marker_place(&self, dot: &Dot) -> Point {
        self.place(dot.x, dot.y.min(self.y.high))
    }

    /// The number of curves whose markers would hide one at this place.
    fn count_hiding(&self, (x, y): Point, later: &[SeriesCurve]) -> usize {
        let mut count = 0;
        for curve in later {
            let hides = curve.dots.iter().any(|other| {
                let (other_x, other_y) = self.marker_place(other);
                other.marked && (other_x - x).hypot(other_y - y) < HIDING
            });
            if hides {
                count += 1;
            }
        }
        count
    }

    fn marker(&self, canvas: &mut Canvas, curve: &SeriesCurve, dot: &Dot, hiding: usize) {
        let signs = MarkerSigns {
            saturated: dot.saturated,
            rejected: dot.rejected,
            // Markers at one place share an arrow.
            above: dot.y > self.y.high && hiding == 0,
            invalid: dot.invalid,
        };
        let grown = RING * hiding.min(MOST_RINGS) as f64;
        let at = self.marker_place(dot);
        canvas.group(&curve.label, |canvas| {
            canvas.marker(at, &curve.style, grown, signs);
        });
    }

    /// Marks the area in which a page shows the values of a point.
    fn spot(&self, canvas: &mut Canvas, series: &str, dot: &Dot) {
        const REACH: f64 = 7.0;
        let (x, y) = self.marker_place(dot);
        let area = Rect {
            left: x - REACH,
            top: y - REACH,
            right: x + REACH,
            bottom: y + REACH,
        };
        canvas.spot(series, area, self.values(dot));
    }

    /// The text with which a page shows a point.
    fn values(&self, dot: &Dot) -> String {
        let mut text = format!(
            "{}: {}{}\n{}: {}{}",
            self.x.label,
            significant(dot.x),
            half_width(dot.across),
            self.y.label,
            significant(dot.y),
            half_width(dot.interval)
        );
        if dot.saturated {
            text += "\nsaturated";
        }
        if dot.rejected {
            text += "\nrequests rejected";
        }
        if dot.invalid {
            text += "\nnot valid: requests were late";
        }
        text
    }

    /// Draws the intervals of curves. Spans of several policies are side by side, so that they do not hide each other.
    /// Intervals over replications are wider than the spans below them.
    pub fn whiskers(&self, canvas: &mut Canvas, curves: &[SeriesCurve]) {
        /// The spans of a point stay within its marker.
        const WIDTH: f64 = 5.4;
        let last = curves.len().saturating_sub(1) as f64;
        let has_intervals = curves
            .iter()
            .flat_map(|curve| &curve.dots)
            .any(|dot| dot.interval.is_some());
        for (place, curve) in curves.iter().enumerate() {
            let offset = (place as f64 - last / 2.0) * WIDTH / last.max(2.0);
            for dot in &curve.dots {
                canvas.group(&curve.label, |canvas| {
                    self.whiskers_of_dot(canvas, curve.style, dot, offset, has_intervals);
                });
            }
        }
    }

    fn whiskers_of_dot(
        &self,
        canvas: &mut Canvas,
        style: Style,
        dot: &Dot,
        offset: f64,
        has_intervals: bool,
    ) {
        let width = if dot.saturated {
            SATURATED_WIDTH
        } else {
            WHISKER_WIDTH
        };
        let stroke = Stroke::solid(style.color, width);
        if let Some(ends) = dot.span {
            if has_intervals {
                let thin = Stroke::solid(style.color, SPAN_WIDTH);
                self.span(canvas, dot.x, offset, ends, thin);
            } else {
                self.whisker(canvas, dot.x, offset, ends, stroke);
            }
        }
        if let Some(ends) = dot.interval {
            self.whisker(canvas, dot.x, 0.0, ends, stroke);
        }
        if let Some(ends) = dot.across {
            self.whisker_across(canvas, dot.y, ends, stroke);
        }
    }

    /// Draws a vertical whisker, `offset` units to the right of `x`.
    pub fn whisker(
        &self,
        canvas: &mut Canvas,
        x: f64,
        offset: f64,
        ends: [f64; 2],
        stroke: Stroke,
    ) {
        let ends = self.upright(x, offset, ends);
        canvas.whisker(ends, &self.area, stroke);
    }

    /// Draws a vertical line without caps, `offset` units to the right of `x`.
    pub fn span(&self, canvas: &mut Canvas, x: f64, offset: f64, ends: [f64; 2], stroke: Stroke) {
        let ends = self.upright(x, offset, ends);
        canvas.line_within(&self.area, &ends, stroke);
    }

    /// The ends of a vertical line on the canvas.
    fn upright(&self, x: f64, offset: f64, ends: [f64; 2]) -> [Point; 2] {
        ends.map(|end| {
            let (left, top) = self.place(x, end);
            (left + offset, top)
        })
    }

    /// Draws a horizontal whisker.
    fn whisker_across(&self, canvas: &mut Canvas, y: f64, ends: [f64; 2], stroke: Stroke) {
        let ends = ends.map(|x| self.place(x, y));
        canvas.whisker(ends, &self.area, stroke);
    }
}

fn tick_length(tick: &Tick) -> f64 {
    if tick.label.is_empty() { 3.0 } else { 5.0 }
}

/// Half the width of an interval, such as ` ± 0.4`. Empty without an interval.
fn half_width(interval: Option<[f64; 2]>) -> String {
    match interval {
        Some([low, high]) => format!(" ± {}", significant((high - low) / 2.0)),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::plot::canvas::CanvasMark;
    use crate::lab::plot::face::Face;
    use crate::lab::plot::layout::{PanelPlan, draw_figure};
    use crate::lab::plot::options::PlotOptions;

    fn empty(longest: f64) -> (Canvas, PlotPanel) {
        let axes = [longest, 1.0].map(|end| Axis::linear("", end, 4));
        let mut shown = None;
        let plan = PanelPlan {
            heading: String::new(),
            axes,
            remarks: Vec::new(),
        };
        let options = PlotOptions::default();
        let canvas = draw_figure(&options, Vec::new(), vec![plan], |_, _, panel| {
            shown = Some(panel.clone());
        });
        (canvas, shown.unwrap())
    }

    #[test]
    fn the_last_tick_label_is_inside_the_figure() {
        let (canvas, panel) = empty(20_000.0);
        let (x, _) = panel.place(20_000.0, 0.0);
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

    fn draw(curves: &[&[(f64, f64, bool)]]) -> (PlotPanel, Vec<CanvasMark>) {
        let (mut canvas, panel) = empty(10.0);
        canvas.marks.clear();
        let mut all = Vec::new();
        for (i, dots) in curves.iter().enumerate() {
            let dots: Vec<Dot> = dots.iter().copied().map(dot).collect();
            let style = Style {
                dash: &[],
                ..Style::number(i)
            };
            all.push(SeriesCurve::through("", style, &dots, 1.0, 1.0));
        }
        panel.curves(&mut canvas, &all);
        (panel, canvas.marks)
    }

    #[test]
    fn a_point_above_the_area_is_drawn_on_its_border_with_an_arrow() {
        let (panel, marks) = draw(&[&[(2.0, 0.5, false), (4.0, 9.0, true), (6.0, 9.0, true)]]);
        let mut lines: Vec<&Vec<Point>> = Vec::new();
        let mut areas = 0;
        for mark in &marks {
            match mark {
                CanvasMark::Line(points, ..) => lines.push(points),
                CanvasMark::Area(..) => areas += 1,
                CanvasMark::Text(_) => {}
            }
        }
        assert_eq!(*lines[0], [panel.place(2.0, 0.5), panel.place(4.0, 1.0)]);
        assert_eq!(
            lines.len(),
            1 + 2 + 2,
            "two strokes for each arrow, and no line from one point to the next"
        );
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
        let lines = SeriesCurve::through("", Style::number(0), &dots, 1.0, 0.5).lines;
        let widths: Vec<(f64, usize)> = lines
            .iter()
            .map(|line| (line.width, line.values.len()))
            .collect();
        assert_eq!(widths, [(LINE_WIDTH, 2), (0.5, 3)]);
    }

    #[test]
    fn a_marker_that_would_be_hidden_is_a_ring_around_the_other() {
        let (_, marks) = draw(&[
            &[(2.0, 0.5, false), (8.0, 0.5, false)],
            &[(2.0, 0.5, false)],
        ]);
        let mut heights = Vec::new();
        for mark in &marks {
            if let CanvasMark::Area(points, _) = mark {
                let lowest = points.iter().map(|(_, y)| *y).fold(f64::MIN, f64::max);
                let highest = points.iter().map(|(_, y)| *y).fold(f64::MAX, f64::min);
                heights.push(lowest - highest);
            }
        }
        assert!(
            (heights[1] - heights[3] - 2.0 * RING).abs() < 1e-9,
            "{heights:?}"
        );
    }
}
