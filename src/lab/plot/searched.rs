//! What searches have found, from `knee.csv`, `workers.csv` and `tune.csv`: over a swept key, or by policy.

use std::path::Path;

use super::axis::Axis;
use super::bars::{Bar, Bars};
use super::data::Datum;
use super::input::ResultsFolder;
use super::layout::{MOST_ACROSS, figure};
use super::legend::{LegendEntry, LegendKey, MarkerSigns, interval_label};
use super::names;
use super::panel::{Dot, LINE, SeriesCurve};
use super::style::Style;
use super::{Drawing, PlotInputs, PlotOptions, Undrawn, nothing};
use crate::base::error::{Error, Result};
use crate::lab::results::read::{CsvRow, CsvTable};
use crate::lab::results::saved_results::within;
use crate::lab::results::sweep_keys::{self, Swept, distinct};

/// The columns that are no swept keys.
const COLUMNS: [&str; 12] = [
    "policy",
    "rate_rps",
    "slo_ms",
    "quantile",
    "round",
    "knee_rps",
    "knee_rps_ci",
    "replications",
    "workers",
    "latency_ms",
    "requests",
    "caveat",
];

const LIMITED: &str = "limited (see caveat)";

/// A file of a search, what it looks for, and the command that writes it.
pub struct SearchFile {
    pub file: &'static str,
    /// The column of the answer, and the label of its axis.
    answers: &'static [(&'static str, &'static str)],
    command: &'static str,
}

const RATE: (&str, &str) = ("knee_rps", "Highest rate (requests/s)");
const FEWEST: (&str, &str) = ("workers", "Fewest workers");

pub const KNEE: SearchFile = SearchFile {
    file: "knee.csv",
    answers: &[RATE],
    command: "find-knee",
};
pub const WORKERS: SearchFile = SearchFile {
    file: "workers.csv",
    answers: &[FEWEST],
    command: "find-workers",
};
pub const TUNE: SearchFile = SearchFile {
    file: "tune.csv",
    answers: &[RATE, FEWEST],
    command: "tune",
};

/// A row of such a file.
#[derive(Clone, Debug)]
pub struct SearchRow {
    pub policy: String,
    pub swept: Vec<Swept>,
    /// `None`: the objective holds nowhere.
    pub answer: Option<f64>,
    interval: Option<[f64; 2]>,
    replications: Option<u64>,
    /// Whether a later round of `tune` went on without it.
    is_out: bool,
    /// Whether something limited the search.
    is_limited: bool,
}

/// The rows of several folders.
type Rows<'i> = Vec<(&'i ResultsFolder, SearchRow)>;

impl SearchFile {
    /// The rows of a folder and the label of their answers; `None` if the file isn't there.
    pub fn read(&self, folder: &Path) -> Result<Option<(Vec<SearchRow>, &'static str)>> {
        let path = within(folder, &[self.file])?;
        if !path.is_file() {
            return Ok(None);
        }
        let table = CsvTable::read(&path)?;
        let has = |name: &str| table.file.names().any(|known| known == name);
        let (answer, label) = self
            .answers
            .iter()
            .find(|(column, _)| has(column))
            .ok_or_else(|| {
                let known: Vec<&str> = self.answers.iter().map(|(column, _)| *column).collect();
                Error::at(
                    &path,
                    format_args!(
                        "has no column {}; {} writes it",
                        known.join(" or "),
                        self.command
                    ),
                )
            })?;
        let keys: Vec<&str> = table
            .file
            .names()
            .filter(|name| !COLUMNS.contains(name))
            .collect();
        let rows = table
            .rows()
            .map(|row| found(&row, answer, &keys))
            .collect::<Result<Vec<_>>>()?;
        let last = table
            .rows()
            .map(|row| number(&row, "round"))
            .collect::<Result<Vec<_>>>()?;
        let most = last.iter().flatten().copied().fold(0.0, f64::max);
        let rows = rows.into_iter().zip(last);
        let rows = rows
            .map(|(row, round)| SearchRow {
                is_out: round.is_some_and(|round| round < most),
                ..row
            })
            .collect();
        Ok(Some((rows, label)))
    }

    /// The rows of all folders that have some, and the label of their answers.
    fn all<'i>(&self, inputs: &'i PlotInputs) -> Result<(Rows<'i>, &'static str), Undrawn> {
        let mut all = Vec::new();
        let mut label = "";
        for folder in &inputs.folders {
            if let Some((rows, of_rows)) = self.read(&folder.results.path)? {
                all.extend(rows.into_iter().map(|row| (folder, row)));
                label = of_rows;
            }
        }
        match all.iter().any(|(_, row)| row.answer.is_some()) {
            true => Ok((all, label)),
            false => Err(nothing(format!(
                "there is no {} with an answer; {} writes it",
                self.file, self.command
            ))),
        }
    }

    pub fn drawn(&self, inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
        let (rows, label) = self.all(inputs)?;
        let known = distinct(rows.iter().map(|(_, row)| row.policy.as_str()));
        let order = names::ordered(&options.look.order, &known)?;
        let chosen = names::chosen("--policies", &options.policies, &known)?;
        let mut rows: Vec<(&ResultsFolder, &SearchRow)> =
            rows.iter().map(|(folder, row)| (*folder, row)).collect();
        rows.retain(|(_, row)| chosen.contains(&row.policy.as_str()));
        rows.sort_by_key(|(_, row)| order.iter().position(|policy| *policy == row.policy));
        let keys = distinct(
            rows.iter()
                .flat_map(|(_, row)| row.swept.iter().map(|(key, _)| key.as_str())),
        );
        match (&options.x, &keys[..]) {
            (None, []) => by_policy(&rows, label, inputs, options),
            (None, [only]) => over(only, &rows, label, inputs, options),
            (Some(asked), _) => match keys
                .iter()
                .find(|key| *key == asked || sweep_keys::short_key(key) == asked)
            {
                Some(key) => over(key, &rows, label, inputs, options),
                None if keys.is_empty() => Err(Error::input(format!(
                    "--x {asked}: {} has no swept key; run {} with --sweep",
                    self.file, self.command
                ))
                .into()),
                None => Err(Error::input(format!(
                    "--x {asked}: is no key of {}; there are {}",
                    self.file,
                    keys.join(", ")
                ))
                .into()),
            },
            (None, several) => {
                let keys: Vec<&str> = several
                    .iter()
                    .map(|key| sweep_keys::short_key(key))
                    .collect();
                Err(nothing(format!(
                    "several keys were tried; choose one with --x: {}",
                    keys.join(", ")
                )))
            }
        }
    }
}

fn found(row: &CsvRow<'_>, answer: &str, keys: &[&str]) -> Result<SearchRow> {
    let half = number(row, "knee_rps_ci")?;
    let swept = keys
        .iter()
        .map(|key| Ok((key.to_string(), row.text(key)?.to_string())));
    let swept = swept
        .collect::<Result<Vec<Swept>>>()?
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let value = row.number(answer)?;
    Ok(SearchRow {
        policy: row.text("policy")?.into(),
        swept,
        answer: value,
        interval: half
            .zip(value)
            .map(|(half, middle)| [middle - half, middle + half]),
        replications: number(row, "replications")?.map(|runs| runs as u64),
        is_out: false,
        is_limited: row.text("caveat").is_ok_and(|why| !why.is_empty()),
    })
}

/// `None` also without the column.
fn number(row: &CsvRow<'_>, name: &str) -> Result<Option<f64>> {
    row.text(name).map_or(Ok(None), |_| row.number(name))
}

/// What its whiskers and markers tell.
fn entries(rows: &[(&ResultsFolder, &SearchRow)]) -> Vec<LegendEntry> {
    let any = |is: fn(&SearchRow) -> bool| rows.iter().any(|(_, row)| is(row));
    let runs = distinct(rows.iter().filter_map(|(_, row)| row.replications));
    let limited = MarkerSigns {
        invalid: true,
        ..MarkerSigns::default()
    };
    let entries = [
        any(|row| row.interval.is_some())
            .then(|| LegendEntry::new(interval_label(&runs), LegendKey::Whisker)),
        any(|row| row.is_out)
            .then(|| LegendEntry::told("out in an earlier round", MarkerSigns::default())),
        any(|row| row.is_limited).then(|| LegendEntry::told(LIMITED, limited)),
    ];
    entries.into_iter().flatten().collect()
}

/// Bars: a search without a sweep has one answer for each policy.
fn by_policy(
    rows: &[(&ResultsFolder, &SearchRow)],
    label: &str,
    inputs: &PlotInputs,
    options: &PlotOptions,
) -> Drawing {
    let several = distinct(rows.iter().map(|(folder, _)| folder.name.as_str())).len() > 1;
    let bar = |(folder, row): &(&ResultsFolder, &SearchRow)| Bar {
        panel: if several {
            options.look.name(&folder.name).into()
        } else {
            String::new()
        },
        interval: row.interval,
        invalid: row.is_limited,
        ..Bar::new("", options.look.name(&row.policy), row.answer)
    };
    let policies = distinct(rows.iter().map(|(_, row)| row.policy.as_str()));
    let runs = distinct(rows.iter().filter_map(|(_, row)| row.replications));
    let bars = Bars {
        sheet: options.sheet(),
        title: options.title.clone(),
        value: label.into(),
        styles: policies
            .iter()
            .map(|policy| inputs.style(policy, 0))
            .collect(),
        series: policies
            .iter()
            .map(|policy| options.look.name(policy).to_string())
            .collect(),
        bars: rows.iter().map(bar).collect(),
        interval: interval_label(&runs),
        crossed: Some(LIMITED),
        ..Bars::default()
    };
    bars.asked(options)
}

/// A line for each policy with its other swept keys.
fn over(
    key: &str,
    rows: &[(&ResultsFolder, &SearchRow)],
    label: &str,
    inputs: &PlotInputs,
    options: &PlotOptions,
) -> Drawing {
    let value = |row: &SearchRow| sweep_keys::value(&row.swept, key).map(String::from);
    let mut texts: Vec<String> = rows.iter().filter_map(|(_, row)| value(row)).collect();
    texts.sort_by(|a, b| sweep_keys::order(a, b));
    texts.dedup();
    let numbers: Option<Vec<f64>> = texts.iter().map(|text| sweep_keys::number(text)).collect();
    let places = numbers.unwrap_or_else(|| (0..texts.len()).map(|place| place as f64).collect());
    let values: Vec<(f64, String)> = places.into_iter().zip(texts).collect();
    let several = distinct(rows.iter().map(|(folder, _)| folder.name.as_str())).len() > 1;
    let mut curves: Vec<(String, Style, Vec<Dot>)> = Vec::new();
    let mut of_policy: Vec<&str> = Vec::new();
    for (folder, row) in rows {
        let (Some(text), Some(y)) = (value(row), row.answer) else {
            continue;
        };
        let Some((x, _)) = values.iter().find(|(_, known)| *known == text) else {
            continue;
        };
        let others: Vec<Swept> = row
            .swept
            .iter()
            .filter(|(of, _)| of != key)
            .cloned()
            .collect();
        let name = sweep_keys::label(options.look.name(&row.policy), &others);
        let name = if several {
            format!("{}: {name}", options.look.name(&folder.name))
        } else {
            name
        };
        let dot = Dot {
            x: *x,
            y,
            marked: true,
            saturated: row.is_out,
            invalid: row.is_limited,
            interval: row.interval,
            ..Dot::default()
        };
        match curves.iter_mut().find(|(known, ..)| *known == name) {
            Some((.., dots)) => dots.push(dot),
            None => {
                let before = of_policy
                    .iter()
                    .filter(|policy| **policy == row.policy)
                    .count();
                of_policy.push(&row.policy);
                curves.push((name, inputs.style(&row.policy, before), vec![dot]));
            }
        }
    }
    curves
        .iter_mut()
        .for_each(|(.., dots)| dots.sort_by(|a, b| a.x.total_cmp(&b.x)));
    let dots = || curves.iter().flat_map(|(.., dots)| dots);
    let highest = dots()
        .map(|dot| dot.interval.map_or(dot.y, |[_, high]| high))
        .fold(0.0, f64::max);
    let least = dots()
        .map(|dot| dot.y)
        .filter(|y| *y > 0.0)
        .fold(f64::INFINITY, f64::min);
    let axes = [
        Axis::at_values(sweep_keys::short_key(key), &values),
        Axis::linear_to_tick(label, highest, MOST_ACROSS.min(5)),
    ];
    let axes = options.asked(axes, [values.first().map_or(0.0, |value| value.0), least])?;
    let mut legend: Vec<LegendEntry> = curves
        .iter()
        .map(|(name, style, _)| LegendEntry::new(name, LegendKey::Line(*style)))
        .collect();
    legend.extend(entries(rows));
    Ok(figure(
        options,
        legend,
        vec![(String::new(), axes, Vec::new())],
        |canvas, _, panel| {
            let through = |(name, style, dots): &(String, Style, Vec<Dot>)| {
                SeriesCurve::through(name, *style, dots, panel.y.high, LINE)
            };
            let curves: Vec<SeriesCurve> = curves.iter().map(through).collect();
            panel.whiskers(canvas, &curves);
            panel.curves(canvas, &curves);
            for curve in &curves {
                canvas.data.extend(
                    curve
                        .dots
                        .iter()
                        .flat_map(|dot| Datum::of_dot(panel, &curve.label, dot)),
                );
            }
        },
    ))
}
