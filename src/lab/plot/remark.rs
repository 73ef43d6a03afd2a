//! Values beside the data: bounds, objectives, and what a paper states. Each is named where there is room.

use serde::Deserialize;

use super::axis::Axis;
use super::canvas::{Align, Canvas, HALF_DIGIT, Point, Rect, Stroke};
use super::legend::{LegendEntry, LegendKey, MarkerSigns, RULE};
use super::panel::PlotPanel;
use super::style::{PAPER, REFERENCE, SMALL, Style};

const LINE: Stroke = Stroke {
    color: REFERENCE,
    width: 1.6,
    dash: &[],
};
pub const IN_LEGEND: &str = "stated in the paper";
/// A label that is farther away has a line to what it names.
const NEAR: f64 = 12.0;
/// Between a label and what it names.
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
    /// Where such a line ends, if not at the end of the axis.
    pub upto: Option<f64>,
    /// The policy that the value is about.
    pub of: String,
    #[serde(skip)]
    pub label: String,
}

/// A line, or a point if its ends are the same. Of a point that is not stated, only the label is shown.
#[derive(Clone, Debug)]
pub struct Remark {
    pub label: String,
    pub line: Vec<(f64, f64)>,
    /// Instead of a label in the figure.
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

/// Of those values whose quantity is on one of the axes.
pub fn stated<'s>(all: impl IntoIterator<Item = &'s Stated>, x: &Axis, y: &Axis) -> Vec<Remark> {
    let remark = |one: &Stated| {
        let upright = x.label.starts_with(&one.on);
        let other = if upright { y } else { x };
        let from = one.at.unwrap_or(other.low);
        let to = one.at.or(one.upto).unwrap_or(other.high);
        let line = [from, to].map(|other| {
            if upright {
                (one.value, other)
            } else {
                (other, one.value)
            }
        });
        let shown = upright || y.label.starts_with(&one.on);
        shown.then(|| Remark {
            stated: true,
            ..Remark::new(&one.label, line)
        })
    };
    all.into_iter().filter_map(remark).collect()
}

/// If there are any.
pub fn stated_entry(any: bool) -> Option<LegendEntry> {
    any.then(|| {
        LegendEntry::new(
            IN_LEGEND,
            LegendKey::Marker(stated_style(), MarkerSigns::default()),
        )
    })
}

pub fn stated_style() -> Style {
    Style {
        color: REFERENCE,
        ..Style::of(3)
    }
}

impl PlotPanel {
    /// Below the data.
    pub fn remark_lines(&self, canvas: &mut Canvas, remarks: &[Remark]) {
        let face = canvas.sheet.face.clone();
        // Without its name, a line would say nothing.
        let is_named = |remark: &&Remark| {
            remark.stated
                || remark.in_legend
                || face.width(&remark.label, SMALL) + 2.0 * GAP <= self.area.width()
        };
        let lines = remarks
            .iter()
            .filter(|remark| remark.line.first() != remark.line.last());
        for remark in lines.filter(is_named) {
            let stroke = if remark.stated { LINE } else { RULE };
            canvas.group(remark.series(), |canvas| {
                self.line(canvas, &remark.line, stroke)
            });
        }
    }

    /// Above the data: points, and all labels. Labels keep off the marks from number `first` on.
    pub fn remark_labels(&self, canvas: &mut Canvas, remarks: &[Remark], first: usize) {
        let at = |(x, y): (f64, f64)| Some(self.at(x, y)).filter(|at| self.area.holds(*at));
        let ends = |remark: &Remark| Some([at(*remark.line.first()?)?, at(*remark.line.last()?)?]);
        let mut points: Vec<_> = remarks
            .iter()
            .filter_map(|remark| Some((remark, ends(remark)?)))
            .collect();
        points.sort_by(|(_, a), (_, b)| a[0].1.total_cmp(&b[0].1));
        for (_, ends) in points
            .iter()
            .filter(|(remark, ends)| remark.stated && ends[0] == ends[1])
        {
            canvas.group(IN_LEGEND, |canvas| {
                canvas.marker(ends[0], &stated_style(), 0.0, false)
            });
        }
        for (remark, ends) in points
            .iter()
            .filter(|(remark, _)| !remark.in_legend && !remark.label.is_empty())
        {
            let Some((label, apart)) = self.room(
                canvas,
                *ends,
                canvas.sheet.face.width(&remark.label, SMALL),
                first,
            ) else {
                continue;
            };
            canvas.group(remark.series(), |canvas| {
                if apart > NEAR && (remark.stated || ends[0] != ends[1]) {
                    let across = nearest((ends[0].0, ends[1].0), (label.left, label.right));
                    let up = nearest((ends[1].1, ends[0].1), (label.top, label.bottom));
                    canvas.line(
                        &[(across.0, up.0), (across.1, up.1)],
                        Stroke::solid(REFERENCE, 0.8),
                    );
                }
                canvas.fill(&label, PAPER);
                let baseline = (label.top + label.bottom) / 2.0 + HALF_DIGIT * SMALL;
                canvas.text(
                    &remark.label,
                    (label.left, baseline),
                    SMALL,
                    Align::Left,
                    REFERENCE,
                );
            });
        }
    }

    /// The best place for a label, near its line and hiding little, and the distance.
    fn room(
        &self,
        canvas: &Canvas,
        [from, to]: [Point; 2],
        width: f64,
        first: usize,
    ) -> Option<(Rect, f64)> {
        const STEP: f64 = 5.0;
        let Rect {
            left,
            top,
            right,
            bottom,
        } = self.area;
        let steps = |from: f64, to: f64| {
            (0..)
                .map(move |i| from - f64::from(i) * STEP)
                .take_while(move |at| *at >= to)
        };
        let place = |left: f64, top: f64| Rect {
            left,
            top,
            right: left + width,
            bottom: top + SMALL,
        };
        let tops = || steps(bottom - SMALL - GAP, top);
        let all = steps(right - width, left + GAP)
            .flat_map(|left| tops().map(move |top| place(left, top)));
        let apart = |label: &Rect| {
            let across = (label.left - to.0).max(from.0 - label.right).max(0.0);
            across.hypot((label.top - from.1).max(to.1 - label.bottom).max(0.0))
        };
        let mut all: Vec<(Rect, f64)> = all.map(|label| (label, apart(&label))).collect();
        all.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        let (mut best, mut least) = (None, f64::INFINITY);
        for (label, far) in all.into_iter().filter(|(_, far)| *far >= GAP) {
            // None that is farther can be better.
            let cost = if far < least {
                far + canvas.hidden(&label, first)
            } else {
                break;
            };
            if cost < least {
                (best, least) = (Some((label, far)), cost);
            }
        }
        best
    }
}

/// The places in two intervals that are nearest to each other.
fn nearest(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    let place = a.0.max(b.0);
    (place.min(a.1), place.min(b.1))
}
