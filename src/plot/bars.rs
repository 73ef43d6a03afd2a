//! Groups of bars, in one or more panels.

use super::axis::{Axis, Spread, Tick, number};
use super::canvas::{Canvas, Rect, Stroke};
use super::input::{Part, Series};
use super::legend::{Entry, Key, WHISKER, bar};
use super::panel::{Frame, lay_out};
use super::render::text_width;
use super::style::{INK, SMALL, Style};
use super::{Drawing, Inputs, Kind, Options, nothing};
use crate::error::Result;
use crate::results::columns::Metric;
use crate::results::swept;
use crate::results::table::significant;

/// DVABatch, Figures 14 and 16.
pub const BARS: Kind = Kind {
    name: "bars",
    about: "mean latency by load in groups of bars, with whiskers to the 99th percentile",
    drawn: by_load,
};

const HEIGHT: f64 = 120.0;
const ALONE: f64 = 210.0;

#[derive(Clone, Debug, Default)]
pub struct Bars {
    pub title: Option<String>,
    /// The difference between groups, such as "Load".
    pub across: String,
    pub value: String,
    pub whiskers: Option<String>,
    pub series: Vec<String>,
    pub fields: Vec<Field>,
}

#[derive(Clone, Debug, Default)]
pub struct Field {
    pub name: String,
    pub groups: Vec<Group>,
}

#[derive(Clone, Debug, Default)]
pub struct Group {
    pub name: String,
    /// One for each series; `None` without a value.
    pub bars: Vec<Option<Bar>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bar {
    pub value: f64,
    pub upto: Option<f64>,
}

impl Bars {
    /// In the styles of series 0, 1 and so on.
    pub fn drawn(&self) -> Canvas {
        let styles: Vec<Style> = (0..self.series.len()).map(Style::of).collect();
        self.drawn_in(&styles)
    }

    pub fn drawn_in(&self, styles: &[Style]) -> Canvas {
        let entry = |(label, style): (&String, &Style)| Entry::new(label, Key::Bar(*style));
        let mut legend: Vec<Entry> = self.series.iter().zip(styles).map(entry).collect();
        if self.series.len() == 1 && self.fields.len() > 1 {
            legend.clear();
        }
        legend.extend(self.whiskers.iter().map(|label| Entry::new(label, Key::Whisker)));
        let height = if self.fields.len() > 1 { HEIGHT } else { ALONE };
        let frame = Frame { title: self.title.as_deref(), legend: &legend, height, right: None };
        let (mut canvas, panels) = lay_out(&frame, self.fields.iter().map(|field| self.axes(field)).collect());
        let width = 0.8 / self.series.len().max(1) as f64;
        for (field, panel) in self.fields.iter().zip(&panels) {
            for (i, group) in field.groups.iter().enumerate() {
                for (j, one) in group.bars.iter().enumerate() {
                    let Some(one) = one else { continue };
                    let from = i as f64 - 0.4 + j as f64 * width;
                    let ((left, bottom), (right, top)) = (panel.at(from, 0.0), panel.at(from + width, one.value));
                    let gap = ((right - left) * 0.08).min(0.6);
                    let first = canvas.marks.len();
                    bar(&mut canvas, &Rect { left: left + gap, top, right: right - gap, bottom }, &styles[j]);
                    if let Some(upto) = one.upto {
                        let stroke = Stroke::solid(INK, WHISKER);
                        panel.whisker(&mut canvas, from + width / 2.0, 0.0, (one.value, upto), stroke);
                    }
                    canvas.group(&self.series[j], first);
                    canvas.spot(&self.series[j], Rect { left, top, right, bottom }, self.values(group, one));
                }
            }
            panel.axes(&mut canvas);
        }
        canvas
    }

    /// For a page.
    fn values(&self, group: &Group, bar: &Bar) -> String {
        let upto = bar.upto.zip(self.whiskers.as_ref());
        let upto = upto.map_or(String::new(), |(upto, label)| format!("\n{label}: {}", significant(upto)));
        format!("{}: {}\n{}: {}{upto}", self.across, group.name, self.value, significant(bar.value))
    }

    fn axes(&self, field: &Field) -> (String, Axis, Axis) {
        let all = field.groups.iter().flat_map(|group| group.bars.iter().flatten());
        let highest = all.map(|bar| bar.upto.unwrap_or(bar.value).max(bar.value)).fold(0.0, f64::max);
        // Labels too wide for every group: every second or third has one, counted from the last.
        let widest = field.groups.iter().map(|group| text_width(&group.name, SMALL)).fold(0.0, f64::max) + 6.0;
        let count = field.groups.len();
        let stride = if self.fields.len() > 1 { 1 } else { (widest * count as f64 / 390.0).ceil().max(1.0) as usize };
        let ticks = field.groups.iter().enumerate().map(|(i, group)| {
            let shown = (count - 1 - i).is_multiple_of(stride);
            Tick { value: i as f64, label: shown.then(|| group.name.clone()) }
        });
        let (label, ticks) = (self.across.clone(), ticks.collect());
        let x = Axis { label, spread: Spread::Bins, low: -0.5, high: count as f64 - 0.5, ticks };
        (
            field.name.clone(),
            x,
            Axis::linear_to_tick(&self.value, 0.0, highest, if self.fields.len() > 1 { 4 } else { 5 }),
        )
    }
}

fn by_load(inputs: &Inputs, options: &Options) -> Drawing {
    let series = inputs.series(options)?;
    let (policies, parts) = inputs.by_folder(&series);
    let field =
        |(folder, own): &Part<'_>| Ok(Field { name: folder.name.clone(), groups: groups(own, policies.len())? });
    let mut fields = parts.iter().map(field).collect::<Result<Vec<_>>>()?;
    for field in fields.iter_mut().filter(|_| options.x.is_some()) {
        field.groups.sort_by(|a, b| swept::order(&a.name, &b.name));
    }
    if fields.iter().all(|field| field.groups.iter().all(|group| group.bars.iter().all(Option::is_none))) {
        return Err(nothing("summary.csv has no row with mean_ms"));
    }
    if let ([field], Some(_)) = (fields.as_mut_slice(), &options.title) {
        field.name = String::new();
    }
    let bars = Bars {
        title: options.title.clone(),
        across: options.x.clone().unwrap_or_else(|| "Load (requests/s)".into()),
        value: "Latency (ms)".into(),
        whiskers: Some("mean to p99".into()),
        series: policies.into_iter().map(String::from).collect(),
        fields,
    };
    Ok(bars.drawn())
}

fn groups(series: &[(usize, &Series<'_>)], policies: usize) -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    for (place, s) in series {
        for (value, row) in s.rows_by_x()? {
            let point = row.point()?;
            let load = || point.parse::<f64>().map_or(point.to_string(), |rate| number(rate.round()));
            let name = value.map_or_else(load, String::from);
            let at = groups.iter().position(|group| group.name == name).unwrap_or_else(|| {
                groups.push(Group { name, bars: vec![None; policies] });
                groups.len() - 1
            });
            let (mean, upto) = (row.metric(Metric::Mean)?, row.metric(Metric::P99)?);
            groups[at].bars[*place] = mean.map(|value| Bar { value, upto });
        }
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::canvas::Mark;

    #[test]
    fn bars_stand_beside_each_other_as_high_as_their_values() {
        let bar = |value| Some(Bar { value, upto: Some(4.0) });
        let groups = vec![
            Group { name: "low".into(), bars: vec![bar(1.0), bar(2.0)] },
            Group { name: "high".into(), bars: vec![None, bar(4.0)] },
        ];
        let fields = vec![Field { name: "one".into(), groups: groups.clone() }, Field { name: "two".into(), groups }];
        let series = vec!["a".into(), "b".into()];
        let canvas = Bars { series, fields, whiskers: Some("p99".into()), ..Bars::default() }.drawn();
        let heights = |canvas: &Canvas| -> Vec<f64> {
            let area = |mark: &Mark| {
                let Mark::Area(points, _) = mark else { return None };
                Some(
                    points.iter().map(|p| p.1).fold(f64::MIN, f64::max)
                        - points.iter().map(|p| p.1).fold(f64::MAX, f64::min),
                )
            };
            canvas.marks.iter().filter_map(area).collect()
        };
        // After the two keys of the legend: three bars in each panel.
        let heights = &heights(&canvas)[2..];
        assert_eq!(heights.len(), 6);
        for panel in heights.chunks(3) {
            assert!((panel[1] - 2.0 * panel[0]).abs() < 1e-9 && (panel[2] - HEIGHT).abs() < 1e-9, "{panel:?}");
        }
    }
}
