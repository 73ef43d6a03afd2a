//! Groups of bars, in one or more panels.

use super::axis::{Axis, Spread, Tick, number};
use super::canvas::{Canvas, Rect, Stroke};
use super::input::{Part, Row, Series, x_label};
use super::legend::{Entry, Key, Told, WHISKER, bar};
use super::panel::{Content, Frame, lay_out};
use super::remark::{IN_LEGEND, stated_entry, stated_style};
use super::render::text_width;
use super::style::{INK, SMALL, Style};
use super::{Drawing, Inputs, Options, nothing};
use crate::error::Result;
use crate::results::columns::Metric;
use crate::results::swept;
use crate::results::table::significant;

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
    /// Series of a paper's values, each with the series whose bars have them as marks.
    pub stated: Vec<(String, String)>,
    pub fields: Vec<Field>,
    /// With a logarithmic axis.
    pub log: bool,
    /// Of series that have bars of their own; empty: those of series 0, 1 and so on.
    pub styles: Vec<Style>,
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
    /// Then a hollow marker stands on it.
    pub saturated: bool,
}

impl Bars {
    pub fn drawn(&self) -> Canvas {
        let own: Vec<&String> = self.series.iter().filter(|label| self.marked_by(label).is_none()).collect();
        let style = |place: usize| self.styles.get(place).copied().unwrap_or(Style::of(place));
        let mut legend: Vec<Entry> = (0..).zip(&own).map(|(i, label)| Entry::new(*label, Key::Bar(style(i)))).collect();
        if own.len() == 1 && self.fields.len() > 1 {
            legend.clear();
        }
        legend.extend(self.whiskers.iter().map(|label| Entry::new(label, Key::Whisker)));
        legend.extend(bars(&self.fields).any(|bar| bar.saturated).then(|| Entry::told("saturated", Told::default())));
        legend.extend(stated_entry(own.len() < self.series.len()));
        let frame = Frame { title: self.title.as_deref(), legend: &legend, columns: 2, right: None };
        let (mut canvas, panels) = lay_out(&frame, self.fields.iter().map(|field| self.content(field)).collect());
        let width = 0.8 / own.len().max(1) as f64;
        for (field, panel) in self.fields.iter().zip(&panels) {
            // They cover bars.
            let mut markers = Vec::new();
            let groups = field.groups.iter().enumerate();
            let all = groups.flat_map(|(i, group)| self.series.iter().zip(&group.bars).map(move |bar| (i, group, bar)));
            for (i, group, (label, one)) in all {
                let stated_of = self.marked_by(label);
                let place = own.iter().position(|own| *own == stated_of.unwrap_or(label));
                let (Some(one), Some(place)) = (one, place) else { continue };
                let from = i as f64 - 0.4 + place as f64 * width;
                let ((left, bottom), (right, top)) = (panel.at(from, panel.y.low), panel.at(from + width, one.value));
                let middle = ((left + right) / 2.0, top);
                canvas.spot(label, Rect { left, top, right, bottom }, self.values(group, one));
                if stated_of.is_some() {
                    markers.push((IN_LEGEND, stated_style(), middle, false));
                    continue;
                }
                let gap = ((right - left) * 0.08).min(0.6);
                canvas.group(label, |canvas| {
                    bar(canvas, &Rect { left: left + gap, top, right: right - gap, bottom }, &style(place));
                    if let Some(upto) = one.upto {
                        let stroke = Stroke::solid(INK, WHISKER);
                        panel.whisker(canvas, from + width / 2.0, 0.0, [one.value, upto], stroke);
                    }
                });
                markers.extend(one.saturated.then_some((label.as_str(), style(place), middle, true)));
            }
            for (label, style, at, hollow) in markers {
                canvas.group(label, |canvas| canvas.marker(at, &style, 0.0, hollow));
            }
            panel.axes(&mut canvas);
        }
        canvas
    }

    /// The series whose bars have a paper's values of this one as marks.
    fn marked_by(&self, label: &str) -> Option<&String> {
        self.stated.iter().find(|(stated, _)| stated == label).map(|(_, of)| of)
    }

    /// For a page.
    fn values(&self, group: &Group, bar: &Bar) -> String {
        let upto = bar.upto.zip(self.whiskers.as_ref());
        let upto = upto.map_or(String::new(), |(upto, label)| format!("\n{label}: {}", significant(upto)));
        format!("{}: {}\n{}: {}{upto}", self.across, group.name, self.value, significant(bar.value))
    }

    fn content(&self, field: &Field) -> Content {
        let all = || bars(std::slice::from_ref(field));
        let highest = all().map(|bar| bar.upto.unwrap_or(bar.value).max(bar.value)).fold(0.0, f64::max);
        let lowest = all().map(|bar| bar.value).filter(|value| *value > 0.0).fold(highest, f64::min);
        let (height, room) = if self.fields.len() > 1 { (HEIGHT, 4) } else { (ALONE, 5) };
        let y = match self.log && lowest > 0.0 {
            // Below the lowest, which would have no bar.
            true => Axis::log(&self.value, 0.7 * lowest, highest, height, |_| SMALL + 3.0),
            false => Axis::linear_to_tick(&self.value, highest, room),
        };
        // Labels too wide for every group: every second or third has one, counted from the last.
        let widest = field.groups.iter().map(|group| text_width(&group.name, SMALL)).fold(0.0, f64::max) + 6.0;
        let count = field.groups.len();
        let stride = if self.fields.len() > 1 { 1 } else { (widest * count as f64 / 390.0).ceil().max(1.0) as usize };
        let ticks = field.groups.iter().enumerate().map(|(i, group)| {
            let shown = (count - 1 - i).is_multiple_of(stride);
            Tick { value: i as f64, label: if shown { group.name.clone() } else { String::new() } }
        });
        let (label, ticks) = (self.across.clone(), ticks.collect());
        let x = Axis { label, spread: Spread::Bins, low: -0.5, high: count as f64 - 0.5, ticks };
        Content { heading: field.name.clone(), height, x, y }
    }
}

pub fn by_load(inputs: &Inputs, options: &Options) -> Drawing {
    let series = inputs.series(options)?;
    let (policies, parts) = inputs.by_folder(&series);
    let field =
        |(folder, own): &Part<'_>| Ok(Field { name: folder.name.clone(), groups: groups(own, policies.len())? });
    let mut fields = parts.iter().map(field).collect::<Result<Vec<_>>>()?;
    for field in fields.iter_mut().filter(|_| options.x.is_some()) {
        field.groups.sort_by(|a, b| swept::order(&a.name, &b.name));
    }
    if bars(&fields).next().is_none() {
        return Err(nothing("summary.csv has no row with mean_ms"));
    }
    if let ([field], Some(_)) = (fields.as_mut_slice(), &options.title) {
        field.name = String::new();
    }
    /// A linear axis would show the short bars as nothing.
    const WIDE: f64 = 100.0;
    let (least, most) = bars(&fields).map(|bar| bar.value).fold((f64::INFINITY, 0.0), |(a, b), v| (v.min(a), v.max(b)));
    let drawing = Bars {
        log: !options.linear && most > WIDE * least,
        title: options.title.clone(),
        across: x_label(&series, options).unwrap_or_else(|| "Load (requests/s)".into()),
        value: "Latency (ms)".into(),
        whiskers: Some("mean to p99".into()),
        series: policies.into_iter().map(String::from).collect(),
        fields,
        ..Bars::default()
    };
    Ok(drawing.drawn())
}

fn bars(fields: &[Field]) -> impl Iterator<Item = &Bar> {
    fields.iter().flat_map(|field| &field.groups).flat_map(|group| group.bars.iter().flatten())
}

fn groups(series: &[(usize, &Series<'_>)], policies: usize) -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    for (place, s) in series {
        for Row { row, x, .. } in &s.rows {
            let point = row.point()?;
            let load = || point.parse::<f64>().map_or(point.to_string(), |rate| number(rate.round()));
            let name = x.clone().unwrap_or_else(load);
            let at = groups.iter().position(|group| group.name == name).unwrap_or_else(|| {
                groups.push(Group { name, bars: vec![None; policies] });
                groups.len() - 1
            });
            let (mean, upto, saturated) = (row.metric(Metric::Mean)?, row.metric(Metric::P99)?, row.saturated()?);
            groups[at].bars[*place] = mean.map(|value| Bar { value, upto, saturated });
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
        let bar = |value| Some(Bar { value, upto: Some(4.0), saturated: false });
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

    #[test]
    fn a_papers_values_are_marks_on_bars() {
        let bar = |value| Some(Bar { value, ..Bar::default() });
        let groups = vec![Group { name: "one".into(), bars: vec![bar(1.0), bar(2.0)] }];
        let series = vec!["ours".into(), "theirs".into()];
        let plain = Bars { series, fields: vec![Field { name: String::new(), groups }], ..Bars::default() };
        let marked = Bars { stated: vec![("theirs".into(), "ours".into())], ..plain.clone() };
        let said = |bars: &Bars| {
            let canvas = bars.drawn();
            ["theirs", IN_LEGEND].map(|words| canvas.groups.iter().filter(|group| group.series == words).count())
        };
        assert_eq!((said(&plain), said(&marked)), ([2, 0], [0, 2]), "an entry in the legend, and a bar or a mark");
    }
}
