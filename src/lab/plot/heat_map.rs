//! A value over two swept keys: a panel for each policy, a field for each combination.

use super::axis::{Axis, Tick};
use super::canvas::{Align, Canvas, HALF_DIGIT, Rect, Stroke};
use super::data::Datum;
use super::layout::{Content, Frame, drawn};
use super::legend::{LegendEntry, LegendKey, corner};
use super::panel::PlotPanel;
use super::points::at_point;
use super::searched::{KNEE, TUNE, WORKERS};
use super::style::{Hatch, INK, PAPER, Rgb, SMALL, Style, tint};
use super::{Drawing, PlotInputs, PlotOptions, Undrawn, nothing};
use crate::base::error::{Error, Result};
use crate::lab::results::columns::Metric;
use crate::lab::results::sweep_keys::{self, Swept, distinct};
use crate::lab::results::table::significant;

const COLOR: Rgb = (0, 114, 178);
/// The strengths of the colour for the least and for the largest value.
const STRENGTHS: (f64, f64) = (0.1, 0.95);
const ROW: f64 = 30.0;
/// Beyond it, equal ratios have equal steps of colour.
const WIDE: f64 = 30.0;

struct HeatField {
    panel: String,
    /// All swept keys.
    swept: Vec<Swept>,
    value: f64,
    saturated: bool,
}

/// Cells, and what their values are.
type Cells = (Vec<HeatField>, String);

pub fn over_two_keys(inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
    let (cells, what) = cells(inputs, options)?;
    let keys = distinct(
        cells
            .iter()
            .flat_map(|cell| cell.swept.iter().map(|(key, _)| key.as_str())),
    );
    let [across, up] = two_keys(&keys, options)?;
    let value = |cell: &HeatField, key: &str| sweep_keys::value(&cell.swept, key).map(String::from);
    let mut placed: Vec<(String, [String; 2], &HeatField)> = Vec::new();
    for cell in &cells {
        let (Some(x), Some(y)) = (value(cell, across), value(cell, up)) else {
            continue;
        };
        let others: Vec<Swept> = cell
            .swept
            .iter()
            .filter(|(key, _)| key != across && key != up)
            .cloned()
            .collect();
        placed.push((sweep_keys::label(&cell.panel, &others), [x, y], cell));
    }
    let panels = distinct(placed.iter().map(|(panel, ..)| panel.clone()));
    let values = |of: usize| {
        let mut values = distinct(placed.iter().map(|(_, at, _)| at[of].clone()));
        values.sort_by(|a, b| sweep_keys::order(a, b));
        values
    };
    let values = [values(0), values(1)];
    let shades = Shades::of(placed.iter().map(|(.., cell)| cell.value));
    let axis = |key: &str, values: &[String]| {
        let ticks = (0..).zip(values).map(|(i, value)| Tick {
            value: f64::from(i),
            label: value.clone(),
        });
        Axis::bins(
            sweep_keys::short_key(key),
            [-0.5, values.len() as f64 - 0.5],
            ticks.collect(),
        )
    };
    let axes = options.asked([axis(across, &values[0]), axis(up, &values[1])], [1.0; 2])?;
    let contents = panels
        .iter()
        .map(|panel| Content::new(panel, values[1].len() as f64 * ROW, axes.clone()))
        .collect();
    let sheet = options.sheet();
    let legend = shades.legend(&what, placed.iter().any(|(.., cell)| cell.saturated));
    let frame = Frame {
        sheet: &sheet,
        title: options.title.as_deref(),
        legend: &legend,
        beside: true,
        right: None,
    };
    Ok(drawn(&frame, contents, |canvas, i, panel| {
        for (_, at, cell) in placed.iter().filter(|(of, ..)| *of == panels[i]) {
            let place = |of: usize| {
                values[of]
                    .iter()
                    .position(|value| *value == at[of])
                    .unwrap_or_default() as f64
            };
            draw(canvas, panel, [place(0), place(1)], cell, &shades);
            let axes = [0, 1].map(|of| {
                if of == 0 {
                    panel.x.label.clone()
                } else {
                    what.clone()
                }
            });
            let series = format!("{}={}", panel.y.label, at[1]);
            canvas.data.push(Datum {
                axes,
                saturated: cell.saturated,
                ..Datum::new(panel, &series, &at[0], cell.value)
            });
        }
    }))
}

fn draw(
    canvas: &mut Canvas,
    panel: &PlotPanel,
    [column, row]: [f64; 2],
    cell: &HeatField,
    shades: &Shades,
) {
    let ((left, bottom), (right, top)) = (
        panel.at(column - 0.5, row - 0.5),
        panel.at(column + 0.5, row + 0.5),
    );
    let area = Rect {
        left,
        top,
        right,
        bottom,
    };
    let strength = shades.strength(cell.value);
    canvas.fill(&area, tint(COLOR, strength));
    if cell.saturated {
        corner(canvas, &area);
    }
    canvas.border(&area, Stroke::solid(PAPER, 1.5));
    let words = short(cell.value);
    if canvas.sheet.face.width(&words, SMALL) <= area.width() - 4.0 && area.height() >= SMALL {
        let middle = (
            (left + right) / 2.0,
            (top + bottom) / 2.0 + HALF_DIGIT * SMALL,
        );
        canvas.text(
            &words,
            middle,
            SMALL,
            Align::Center,
            if strength > 0.55 { PAPER } else { INK },
        );
    }
    canvas.spot(
        &panel.name,
        area,
        format!("{}\n{}", significant(cell.value), panel.name),
    );
}

/// Three digits.
fn short(value: f64) -> String {
    let text = significant(value);
    match text.split_once('.') {
        Some((whole, _)) if whole.len() >= 3 => whole.into(),
        Some((whole, rest)) => format!("{whole}.{}", &rest[..(3 - whole.len()).min(rest.len())]),
        None => super::axis::thousands(&text),
    }
}

struct Shades {
    least: f64,
    most: f64,
}

impl Shades {
    fn of(values: impl Iterator<Item = f64>) -> Shades {
        let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), value| {
            (a.min(value), b.max(value))
        });
        Shades { least, most }
    }

    fn strength(&self, value: f64) -> f64 {
        let is_log = self.least > 0.0 && self.most > WIDE * self.least;
        let of = |value: f64| if is_log { value.ln() } else { value };
        let share =
            (of(value) - of(self.least)) / (of(self.most) - of(self.least)).max(f64::MIN_POSITIVE);
        STRENGTHS.0 + (STRENGTHS.1 - STRENGTHS.0) * share
    }

    fn legend(&self, what: &str, saturated: bool) -> Vec<LegendEntry> {
        let key = |value: f64| {
            let color = tint(COLOR, self.strength(value));
            LegendKey::Bar(Style {
                color,
                hatch: Hatch::Plain,
                ..Style::of(0)
            })
        };
        let mut legend = vec![
            LegendEntry::new(format!("{what}: {}", short(self.least)), key(self.least)),
            LegendEntry::new(short(self.most), key(self.most)),
        ];
        if self.most <= self.least {
            legend.truncate(1);
        }
        legend.extend(saturated.then(|| LegendEntry::new("saturated", LegendKey::Corner)));
        legend
    }
}

/// Those asked for, or the only two.
fn two_keys<'k>(keys: &[&'k str], options: &PlotOptions) -> Result<[&'k str; 2], Undrawn> {
    let shown = keys.join(", ");
    let find = |option: &str, asked: &str| {
        let found = keys
            .iter()
            .find(|key| **key == asked || sweep_keys::short_key(key) == asked)
            .copied();
        found.ok_or_else(|| {
            Error::input(format!(
                "{option} {asked}: is not a swept key of these results; there are {shown}"
            ))
        })
    };
    let [x, y] = [("--x", &options.x), ("--y", &options.y)]
        .map(|(option, key)| key.as_deref().map(|key| find(option, key)));
    let (x, y) = (x.transpose()?, y.transpose()?);
    let other = |one: &str| keys.iter().copied().find(|key| *key != one);
    match (x, y, keys) {
        (Some(x), Some(y), _) if x == y => Err(Error::input(format!(
            "--x and --y: both are {x}; name two keys of {shown}"
        ))
        .into()),
        (Some(x), Some(y), _) => Ok([x, y]),
        (None, None, [x, y]) => Ok([x, y]),
        (Some(x), None, [_, _]) => Ok([x, other(x).unwrap_or(x)]),
        (None, Some(y), [_, _]) => Ok([other(y).unwrap_or(y), y]),
        (_, _, [] | [_]) => Err(nothing(
            "needs two swept keys, as of a run with --sweep KEY=V1,V2 --sweep KEY2=V1,V2",
        )),
        _ => Err(nothing(format!(
            "needs two of the swept keys; name them with --x and --y: {shown}"
        ))),
    }
}

/// The fields of the summaries at one point, or of what a search has found.
fn cells(inputs: &PlotInputs, options: &PlotOptions) -> Result<Cells, Undrawn> {
    let asked = options.metric.as_deref().unwrap_or(Metric::P99.name());
    if let Some(search) = [(KNEE, "knee_rps"), (TUNE, "knee_rps"), (WORKERS, "workers")]
        .into_iter()
        .filter(|(_, column)| {
            *column == asked || (options.metric.is_none() && inputs.has_no_summary())
        })
        .map(|(search, _)| search)
        .find(|search| {
            inputs
                .folders
                .iter()
                .any(|folder| folder.results.path.join(search.file).is_file())
        })
    {
        let mut cells = Vec::new();
        let mut what = "";
        for folder in &inputs.folders {
            let Some((rows, label)) = search.read(&folder.results.path)? else {
                continue;
            };
            what = label;
            cells.extend(rows.into_iter().filter_map(|row| {
                let panel = options.look.name(&row.policy).to_string();
                Some(HeatField {
                    panel,
                    value: row.answer?,
                    swept: row.swept,
                    saturated: false,
                })
            }));
        }
        return Ok((cells, what.into()));
    }
    let metric = Metric::named(asked).ok_or_else(|| {
        let known: Vec<&str> = Metric::all()
            .map(Metric::name)
            .chain(["knee_rps", "workers"])
            .collect();
        Error::input(format!(
            "--metric: unknown metric \"{asked}\"; known: {}",
            known.join(", ")
        ))
    })?;
    let plain = PlotOptions {
        x: None,
        ..options.in_panels()
    };
    let (point, series) = inputs.at_point(&plain)?;
    let mut cells = Vec::new();
    for s in &series {
        let rows = s
            .rows
            .iter()
            .filter(|row| row.row.point().is_ok_and(|at| at == point));
        for row in rows {
            let Some(value) = row.row.metric_if_known(metric)? else {
                continue;
            };
            let saturated = row.whole.saturated()?;
            cells.push(HeatField {
                panel: options.look.name(s.policy).into(),
                swept: s.swept.clone(),
                value,
                saturated,
            });
        }
    }
    match cells.is_empty() {
        true => Err(nothing(format!(
            "summary.csv has no row with {} at point {point}",
            metric.name()
        ))),
        false => Ok((cells, format!("{}{}", metric.label(), at_point(&point)))),
    }
}
