//! Values by group and series, before they are drawn as bars or as lines.

use super::sheet::Sheet;
use super::style::Style;
use crate::lab::results::sweep_keys::distinct;

/// Values by group and series, in one or more panels.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    pub sheet: Sheet,
    pub title: Option<String>,
    /// The label of the groups, such as "Load".
    pub across: String,
    /// The label of the values.
    pub value: String,
    pub series: Vec<String>,
    /// The bars, with panels and groups in their order.
    pub bars: Vec<Bar>,
    /// Whether values of a series `X, paper` are marks on the bars of `X` or `X, model`.
    pub with_papers: bool,
    /// Whether the axis of the values is logarithmic.
    pub log: bool,
    /// Whether the values are drawn as lines over the groups, which are many.
    pub lines: bool,
    /// A last panel that sums up the others in a unit of its own. No claim reads it as a bar of its series.
    pub summary: Vec<Bar>,
    /// The styles of series that have bars of their own. Without any, series 0, 1 and so on have the styles of these
    /// numbers.
    pub styles: Vec<Style>,
    /// The meaning of a cross on a bar, or `None` if it means that requests were late.
    pub crossed: Option<&'static str>,
    /// The legend's label of intervals, if bars have some.
    pub interval: String,
}

/// A bar and its place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bar {
    pub panel: String,
    pub group: String,
    pub series: String,
    /// The value, or `None` if the place is empty.
    pub value: Option<f64>,
    /// The 99th percentile of the sample whose mean is the value.
    pub upto: Option<f64>,
    /// The ends of the value's 95 % interval over replications.
    pub interval: Option<[f64; 2]>,
    /// Whether the run was saturated; the bar then has a hollow marker.
    pub saturated: bool,
    /// Whether the load generator was late; the bar then has a crossed marker.
    pub invalid: bool,
}

impl Bar {
    pub fn new(group: impl ToString, series: impl Into<String>, value: Option<f64>) -> Bar {
        Bar {
            group: group.to_string(),
            series: series.into(),
            value,
            ..Bar::default()
        }
    }

    /// The highest end of the bar and its intervals, or `None` without a value.
    pub(super) fn highest(&self) -> Option<f64> {
        let value = self.value?;
        let upto = self.upto.unwrap_or(0.0);
        let upper_end = self.interval.map_or(0.0, |[_, high]| high);
        Some(value.max(upto.max(upper_end)))
    }

    pub(super) fn is_positive(&self) -> bool {
        self.value.is_some_and(|value| value > 0.0)
    }
}

impl Bars {
    /// The series that have bars; others have marks on these bars.
    pub(super) fn own_series(&self) -> Vec<&str> {
        self.series
            .iter()
            .filter(|s| self.marked_series(s).is_none())
            .map(String::as_str)
            .collect()
    }

    /// The series whose bars have the paper's values of this one as marks.
    pub(super) fn marked_series(&self, label: &str) -> Option<&str> {
        if !self.with_papers {
            return None;
        }
        let name = label.strip_suffix(", paper")?;
        self.series
            .iter()
            .map(String::as_str)
            .find(|series| series.strip_suffix(", model").unwrap_or(series) == name)
    }

    /// The style of the series with this number.
    pub(super) fn style(&self, series: usize) -> Style {
        match self.styles.get(series) {
            Some(style) => *style,
            None => Style::number(series),
        }
    }

    /// The names of the panels.
    pub(super) fn panels(&self) -> Vec<&str> {
        distinct(self.all().map(|bar| bar.panel.as_str()))
    }

    /// All bars, including those of the last panel that sums up the others.
    pub fn all(&self) -> impl Iterator<Item = &Bar> {
        self.bars.iter().chain(&self.summary)
    }

    /// The bars of a panel.
    pub(super) fn panel_bars(&self, panel: &str) -> impl Iterator<Item = &Bar> {
        self.all().filter(move |bar| bar.panel == panel)
    }

    /// The least and the largest value, without the last panel's. The least is infinite if there is none.
    pub(super) fn least_and_most(&self) -> [f64; 2] {
        let mut least = f64::INFINITY;
        let mut most: f64 = 0.0;
        for value in self.bars.iter().filter_map(|bar| bar.value) {
            least = least.min(value);
            most = most.max(value);
        }
        [least, most]
    }
}
