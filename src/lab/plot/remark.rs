//! Values that are not measured: bounds, objectives, and what a paper states. Each is named where there is room.

use serde::Deserialize;

use super::axis::Axis;
use super::canvas::{Align, Canvas, HALF_DIGIT, Point, Rect, Stroke};
use super::dot::MarkerSigns;
use super::legend::{LegendEntry, LegendKey, RULE};
use super::panel::PlotPanel;
use super::style::{PAPER, REFERENCE, SMALL, Style};

/// The stroke of a line that a paper states.
const STATED: Stroke = Stroke {
    color: REFERENCE,
    width: 1.6,
    dash: &[],
};
/// The label of stated values in the legend.
pub const IN_LEGEND: &str = "stated in the paper";
/// A label that is farther away has a line to what it names.
const NEAR: f64 = 12.0;
/// The distance between a label and what it names.
const GAP: f64 = 4.0;

/// A value that a paper states. Figures with this quantity on an axis show it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stated {
    /// The beginning of the axis's label, such as `p90 latency`.
    pub on: String,
    #[serde(skip)]
    pub value: f64,
    /// The place on the other axis; without it, a line crosses the figure.
    pub at: Option<f64>,
    /// The place where such a line ends, if that is not the end of the axis.
    pub upto: Option<f64>,
    /// The policy that the value is about.
    pub of: String,
    #[serde(skip)]
    pub label: String,
}

/// A line with its label, or a point if the line's ends are the same. A point that is not stated has only a label.
#[derive(Clone, Debug)]
pub struct Remark {
    pub label: String,
    pub line: Vec<(f64, f64)>,
    /// Whether the legend has the label, instead of the figure.
    pub in_legend: bool,
    pub stated: bool,
}

impl Remark {
    pub fn new(label: impl Into<String>, line: impl Into<Vec<(f64, f64)>>) -> Remark {
        Remark {
            label: label.into(),
            line: line.into(),
            in_legend: false,
            stated: false,
        }
    }

    fn series(&self) -> &str {
        if self.stated { IN_LEGEND } else { &self.label }
    }
}

/// Remarks for the stated values whose quantity is on one of the axes.
pub fn stated_remarks<'s>(
    all: impl IntoIterator<Item = &'s Stated>,
    x: &Axis,
    y: &Axis,
) -> Vec<Remark> {
    let mut remarks = Vec::new();
    for stated in all {
        let line = if x.label.starts_with(&stated.on) {
            stated.ends(y).map(|place| (stated.value, place))
        } else if y.label.starts_with(&stated.on) {
            stated.ends(x).map(|place| (place, stated.value))
        } else {
            continue;
        };
        remarks.push(Remark {
            stated: true,
            ..Remark::new(&stated.label, line)
        });
    }
    remarks
}

impl Stated {
    /// The ends of the value's line on the other axis.
    fn ends(&self, other: &Axis) -> [f64; 2] {
        let from = self.at.unwrap_or(other.low);
        let to = self.at.or(self.upto).unwrap_or(other.high);
        [from, to]
    }
}

/// The legend's entry for stated values, which are points or lines.
pub fn stated_entry(are_points: bool) -> LegendEntry {
    let key = if are_points {
        LegendKey::Marker(stated_style(), MarkerSigns::default())
    } else {
        LegendKey::Stroke(STATED)
    };
    LegendEntry::new(IN_LEGEND, key)
}

/// The legend's entry for the stated values among remarks, if there are any.
pub fn legend_entry<'r>(remarks: impl Iterator<Item = &'r Remark>) -> Option<LegendEntry> {
    let are_points = remarks
        .filter(|remark| remark.stated)
        .map(|remark| remark.line.first() == remark.line.last())
        .max()?;
    Some(stated_entry(are_points))
}

/// The style of stated values.
pub fn stated_style() -> Style {
    Style {
        color: REFERENCE,
        ..Style::number(3)
    }
}

/// A remark that is in a panel, and the ends of its line on the canvas.
struct PlacedRemark<'r> {
    remark: &'r Remark,
    ends: [Point; 2],
}

impl PlacedRemark<'_> {
    fn is_point(&self) -> bool {
        self.ends[0] == self.ends[1]
    }

    /// The distance between a label and the remark.
    fn distance(&self, label: &Rect) -> f64 {
        let [from, to] = self.ends;
        let across = (label.left - to.0).max(from.0 - label.right).max(0.0);
        let up = (label.top - from.1).max(to.1 - label.bottom).max(0.0);
        across.hypot(up)
    }

    /// Draws a line from the label to what it names.
    fn join(&self, canvas: &mut Canvas, label: &Rect) {
        let [from, to] = self.ends;
        let across = nearest((from.0, to.0), (label.left, label.right));
        let up = nearest((to.1, from.1), (label.top, label.bottom));
        let line = [(across.0, up.0), (across.1, up.1)];
        canvas.line(&line, Stroke::solid(REFERENCE, 0.8));
    }
}

impl PlotPanel {
    /// Draws the lines of remarks, which lie below the data.
    pub fn remark_lines(&self, canvas: &mut Canvas, remarks: &[Remark]) {
        for remark in remarks {
            let width = canvas.sheet.face.width(&remark.label, SMALL);
            // Without its name, a line would say nothing.
            let is_named =
                remark.stated || remark.in_legend || width + 2.0 * GAP <= self.area.width();
            if is_named && remark.line.first() != remark.line.last() {
                let stroke = if remark.stated { STATED } else { RULE };
                canvas.group(remark.series(), |canvas| {
                    self.line(canvas, &remark.line, stroke);
                });
            }
        }
    }

    /// Draws the points and the labels of remarks, which lie above the data. Labels keep off the marks from number
    /// `first` on.
    pub fn remark_labels(&self, canvas: &mut Canvas, remarks: &[Remark], first: usize) {
        let mut placed: Vec<PlacedRemark<'_>> = remarks
            .iter()
            .filter_map(|remark| self.place_remark(remark))
            .collect();
        placed.sort_by(|a, b| a.ends[0].1.total_cmp(&b.ends[0].1));
        for one in &placed {
            if one.remark.stated && one.is_point() {
                canvas.group(IN_LEGEND, |canvas| {
                    canvas.marker(one.ends[0], &stated_style(), 0.0, MarkerSigns::default());
                });
            }
        }
        for one in &placed {
            if !one.remark.in_legend && !one.remark.label.is_empty() {
                self.remark_label(canvas, one, first);
            }
        }
    }

    /// The remark with its ends on the canvas, or `None` if an end is outside the panel.
    fn place_remark<'r>(&self, remark: &'r Remark) -> Option<PlacedRemark<'r>> {
        let first = remark.line.first()?;
        let last = remark.line.last()?;
        let ends = [self.place(first.0, first.1), self.place(last.0, last.1)];
        if ends.iter().all(|end| self.area.holds(*end)) {
            Some(PlacedRemark { remark, ends })
        } else {
            None
        }
    }

    /// Draws a remark's label, unless there is no room for it.
    fn remark_label(&self, canvas: &mut Canvas, placed: &PlacedRemark<'_>, first: usize) {
        let remark = placed.remark;
        let Some((label, distance)) = self.room_for_label(canvas, placed, first) else {
            return;
        };
        canvas.group(remark.series(), |canvas| {
            if distance > NEAR && (remark.stated || !placed.is_point()) {
                placed.join(canvas, &label);
            }
            canvas.fill(&label, PAPER);
            let baseline = (label.top + label.bottom) / 2.0 + HALF_DIGIT * SMALL;
            let at = (label.left, baseline);
            canvas.text(&remark.label, at, SMALL, Align::Left, REFERENCE);
        });
    }

    /// The best place for a label, near its remark and hiding little, and its distance from the remark.
    fn room_for_label(
        &self,
        canvas: &Canvas,
        placed: &PlacedRemark<'_>,
        first: usize,
    ) -> Option<(Rect, f64)> {
        let width = canvas.sheet.face.width(&placed.remark.label, SMALL);
        let mut all: Vec<(Rect, f64)> = Vec::new();
        for left in steps_down(self.area.right - width, self.area.left + GAP) {
            for top in steps_down(self.area.bottom - SMALL - GAP, self.area.top) {
                let label = Rect {
                    left,
                    top,
                    right: left + width,
                    bottom: top + SMALL,
                };
                all.push((label, placed.distance(&label)));
            }
        }
        all.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        let mut best = None;
        let mut least = f64::INFINITY;
        for (label, distance) in all {
            if distance < GAP {
                continue;
            }
            if distance >= least {
                // No label that is farther away can be better.
                break;
            }
            let cost = distance + canvas.hiding_cost(&label, first);
            if cost < least {
                best = Some((label, distance));
                least = cost;
            }
        }
        best
    }
}

/// Equidistant places from one value down to another.
fn steps_down(from: f64, to: f64) -> impl Iterator<Item = f64> {
    const STEP: f64 = 5.0;
    (0..)
        .map(move |i| from - f64::from(i) * STEP)
        .take_while(move |place| *place >= to)
}

/// The places in two intervals that are nearest to each other.
fn nearest(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    let place = a.0.max(b.0);
    (place.min(a.1), place.min(b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_legend_shows_stated_values_as_they_are_drawn() {
        let stated = |line: [(f64, f64); 2]| Remark {
            stated: true,
            ..Remark::new("BatchMaker: 5 ms", line)
        };
        let line = stated([(0.0, 5.0), (9.0, 5.0)]);
        let point = stated([(3.0, 5.0); 2]);
        let objective = Remark::new("objective", [(0.0, 7.0); 2]);
        let key = |remarks: &[Remark]| legend_entry(remarks.iter()).map(|entry| entry.key);
        assert!(key(std::slice::from_ref(&objective)).is_none());
        assert!(matches!(
            key(&[objective, line.clone()]),
            Some(LegendKey::Stroke(_))
        ));
        assert!(matches!(key(&[line, point]), Some(LegendKey::Marker(..))));
    }
}
