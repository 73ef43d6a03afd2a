//! Groups of bars, one bar for each policy: the mean latency at each load, with a whisker up to the 99th percentile (DVABatch, Figures 14
//! and 16). A panel for each results folder.

use super::axis::{Axis, Spread, Tick, number};
use super::canvas::{Canvas, Rect, Stroke};
use super::input::Series;
use super::panel::{Entry, Key, WHISKER, bar};
use super::panels::{Around, Content, lay_out};
use super::style::{INK, Style};
use super::{Drawing, Inputs, Nothing, Options, or_nothing};
use crate::error::Result;

/// The height of one of several panels, and of a single one.
const HEIGHT: f64 = 120.0;
const ALONE: f64 = 210.0;

/// A figure of bars.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    /// The line above the figure.
    pub title: Option<String>,
    /// What tells groups apart, as "Load".
    pub across: String,
    /// What bars show, with its unit.
    pub value: String,
    /// What whiskers reach up to, if there are any.
    pub whiskers: Option<String>,
    /// What the bars of a group are.
    pub series: Vec<String>,
    /// The panels.
    pub fields: Vec<Field>,
}

/// A panel.
#[derive(Clone, Debug, Default)]
pub struct Field {
    /// What stands above it.
    pub name: String,
    /// Its groups.
    pub groups: Vec<Group>,
}

/// A group of bars.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// What stands below it.
    pub name: String,
    /// A bar for each series; nothing where there is no value.
    pub bars: Vec<Option<Bar>>,
}

/// A bar.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bar {
    /// Its height.
    pub value: f64,
    /// The end of its whisker.
    pub upto: Option<f64>,
}

/// Draws bars.
pub fn drawn(bars: &Bars) -> Canvas {
    let mut legend: Vec<Entry> =
        (0..).zip(&bars.series).map(|(i, label)| Entry { label: label.clone(), key: Key::Bar(Style::of(i)) }).collect();
    if bars.series.len() == 1 {
        legend.clear();
    }
    legend.extend(bars.whiskers.iter().map(|label| Entry { label: label.clone(), key: Key::Whisker }));
    let around = Around {
        title: bars.title.as_deref(),
        legend: &legend,
        x: &bars.across,
        y: &bars.value,
        right: 0.0,
        y_right: None,
        height: if bars.fields.len() > 1 { HEIGHT } else { ALONE },
    };
    let content = |field: &Field| {
        let all = field.groups.iter().flat_map(|group| group.bars.iter().flatten());
        let highest = all.map(|bar| bar.upto.unwrap_or(bar.value).max(bar.value)).fold(0.0, f64::max);
        let tick = |(i, group): (usize, &Group)| Tick { value: i as f64, label: Some(group.name.clone()) };
        let ticks = field.groups.iter().enumerate().map(tick).collect();
        let high = field.groups.len() as f64 - 0.5;
        let x = Axis { label: String::new(), spread: Spread::Bins, low: -0.5, high, ticks };
        Content { heading: field.name.clone(), x, y: Axis::linear_to_tick("", 0.0, highest, 4) }
    };
    let (mut canvas, panels) = lay_out(&around, bars.fields.iter().map(content).collect());
    let count = bars.series.len().max(1) as f64;
    for (field, panel) in bars.fields.iter().zip(&panels) {
        for (i, group) in field.groups.iter().enumerate() {
            for (j, one) in group.bars.iter().enumerate() {
                let Some(one) = one else { continue };
                let place = |j: f64| i as f64 + (j / count - 0.5) * 0.8;
                let (left, bottom) = panel.at(place(j as f64), 0.0);
                let (right, top) = panel.at(place(j as f64 + 1.0), one.value);
                bar(&mut canvas, &Rect { left: left + 0.6, top, right: right - 0.6, bottom }, &Style::of(j));
                if let Some(upto) = one.upto {
                    let stroke = Stroke::solid(INK, WHISKER);
                    panel.whisker(&mut canvas, place(j as f64 + 0.5), 0.0, (one.value, upto), stroke);
                }
            }
        }
        panel.axes(&mut canvas);
    }
    canvas
}

pub(super) fn figure(inputs: &Inputs, options: &Options) -> Drawing {
    let series = or_nothing!(inputs.series(options)?);
    let mut policies: Vec<String> = Vec::new();
    for s in &series {
        if !policies.iter().any(|policy| policy == s.policy()) {
            policies.push(s.policy().to_string());
        }
    }
    let mut fields = Vec::new();
    for folder in inputs.folders() {
        let own: Vec<&Series<'_>> = series.iter().filter(|s| s.is_of(folder)).collect();
        fields.push(Field { name: folder.name.clone(), groups: groups(&own, &policies)? });
    }
    if fields.iter().all(|field| field.groups.iter().all(|group| group.bars.iter().all(Option::is_none))) {
        return Ok(Err(Nothing("summary.csv has no row with mean_ms".into())));
    }
    if let ([field], Some(_)) = (fields.as_mut_slice(), &options.title) {
        field.name = String::new();
    }
    Ok(Ok(drawn(&Bars {
        title: options.title.clone(),
        across: "Load (requests/s)".into(),
        value: "Latency (ms)".into(),
        whiskers: Some("mean to p99".into()),
        series: policies,
        fields,
    })))
}

/// The points of a folder in their order, with a bar for each policy.
fn groups(series: &[&Series<'_>], policies: &[String]) -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    for s in series {
        let place = policies.iter().position(|policy| policy == s.policy()).expect("every series has its policy");
        for row in s.rows_by_rate()? {
            let point = s.point(row)?;
            let name = point.parse::<f64>().map_or(point.to_string(), |rate| number(rate.round()));
            let at = match groups.iter().position(|group| group.name == name) {
                Some(at) => at,
                None => {
                    groups.push(Group { name, bars: vec![None; policies.len()] });
                    groups.len() - 1
                }
            };
            let mean = s.number(row, "mean_ms")?;
            let upto = s.number(row, "p99_ms")?;
            groups[at].bars[place] = mean.map(|value| Bar { value, upto });
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
        let canvas = drawn(&Bars { series, fields, whiskers: Some("p99".into()), ..Bars::default() });
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
        // Behind the legend's two keys: three bars of each panel.
        let heights = &heights(&canvas)[2..];
        assert_eq!(heights.len(), 6);
        for panel in heights.chunks(3) {
            assert!((panel[1] - 2.0 * panel[0]).abs() < 1e-9 && (panel[2] - HEIGHT).abs() < 1e-9, "{panel:?}");
        }
    }
}
