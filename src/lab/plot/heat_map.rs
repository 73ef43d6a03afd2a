//! A value over two swept keys: a panel for each policy, a field for each combination.

use super::axis::{Axis, thousands};
use super::canvas::{Align, Canvas, HALF_DIGIT, Rect, Stroke};
use super::data::Datum;
use super::input::PlotInputs;
use super::layout::{Content, Frame, draw_panels};
use super::legend::{LegendEntry, LegendKey};
use super::options::PlotOptions;
use super::panel::PlotPanel;
use super::points::point_label;
use super::search_file::{KNEE, SearchFile, TUNE, WORKERS};
use super::style::{Hatch, INK, PAPER, Rgb, SMALL, Style, tint};
use super::undrawn::{Drawing, Undrawn, nothing};
use crate::base::error::{Error, Result};
use crate::lab::results::columns::Metric;
use crate::lab::results::sweep_keys::{self, Swept, distinct};
use crate::lab::results::table::significant;

const COLOR: Rgb = (0, 114, 178);
/// The strengths of the colour for the least and for the largest value.
const STRENGTHS: (f64, f64) = (0.1, 0.95);
/// The height of a row of fields.
const ROW: f64 = 30.0;
/// If the largest value is more than this multiple of the least, equal ratios have equal steps of colour.
const WIDE: f64 = 30.0;

/// A value for a combination of swept keys.
struct HeatField {
    panel: String,
    /// All swept keys.
    swept: Vec<Swept>,
    value: f64,
    saturated: bool,
}

/// The fields of a figure.
struct HeatFields {
    fields: Vec<HeatField>,
    /// The name of the values.
    quantity: String,
}

/// A field with its place.
struct PlacedField<'f> {
    /// The panel's heading: the policy and its other swept keys.
    panel: String,
    x: String,
    y: String,
    field: &'f HeatField,
}

/// Draws a value over two swept keys.
pub fn draw_heat_map(inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
    let all = read_fields(inputs, options)?;
    let keys = all.fields.iter().flat_map(|field| &field.swept);
    let keys = distinct(keys.map(|(key, _)| key.as_str()));
    let [across, up] = choose_keys(&keys, options)?;
    let placed = place_fields(&all.fields, across, up);
    let panels = distinct(placed.iter().map(|one| one.panel.clone()));
    let columns = sorted_values(placed.iter().map(|one| one.x.clone()));
    let rows = sorted_values(placed.iter().map(|one| one.y.clone()));
    let axes = [
        Axis::named_bins(sweep_keys::short_key(across), &columns),
        Axis::named_bins(sweep_keys::short_key(up), &rows),
    ];
    let axes = options.axes(axes, [1.0; 2])?;
    let height = rows.len() as f64 * ROW;
    let contents = panels
        .iter()
        .map(|panel| Content::new(panel, height, axes.clone()))
        .collect();
    let shades = Shades::from_values(placed.iter().map(|one| one.field.value));
    let has_saturated = placed.iter().any(|one| one.field.saturated);
    let legend = shades.legend(&all.quantity, has_saturated);
    let sheet = options.sheet();
    let frame = Frame {
        sheet: &sheet,
        title: options.title.as_deref(),
        legend: &legend,
        beside: true,
        right: None,
    };
    Ok(draw_panels(&frame, contents, |canvas, i, panel| {
        for one in placed.iter().filter(|one| one.panel == panels[i]) {
            let column = columns.iter().position(|value| *value == one.x);
            let row = rows.iter().position(|value| *value == one.y);
            let at = [column, row].map(|place| place.unwrap_or_default() as f64);
            draw_field(canvas, panel, at, one.field, &shades);
            let series = format!("{}={}", panel.y.label, one.y);
            canvas.data.push(Datum {
                axes: [panel.x.label.clone(), all.quantity.clone()],
                saturated: one.field.saturated,
                ..panel.datum(&series, &one.x, one.field.value)
            });
        }
    }))
}

/// The fields that have both keys.
fn place_fields<'f>(fields: &'f [HeatField], across: &str, up: &str) -> Vec<PlacedField<'f>> {
    let mut placed = Vec::new();
    for field in fields {
        let x = sweep_keys::value(&field.swept, across);
        let y = sweep_keys::value(&field.swept, up);
        let (Some(x), Some(y)) = (x, y) else {
            continue;
        };
        let others: Vec<Swept> = field
            .swept
            .iter()
            .filter(|(key, _)| key != across && key != up)
            .cloned()
            .collect();
        placed.push(PlacedField {
            panel: sweep_keys::label(&field.panel, &others),
            x: x.into(),
            y: y.into(),
            field,
        });
    }
    placed
}

/// The values of a swept key, each once, ascending.
fn sorted_values(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut values = distinct(values);
    values.sort_by(|a, b| sweep_keys::order(a, b));
    values
}

/// Draws a field in the column and the row with these numbers.
fn draw_field(
    canvas: &mut Canvas,
    panel: &PlotPanel,
    [column, row]: [f64; 2],
    field: &HeatField,
    shades: &Shades,
) {
    let (left, bottom) = panel.place(column - 0.5, row - 0.5);
    let (right, top) = panel.place(column + 0.5, row + 0.5);
    let area = Rect {
        left,
        top,
        right,
        bottom,
    };
    let strength = shades.strength(field.value);
    canvas.fill(&area, tint(COLOR, strength));
    if field.saturated {
        canvas.striped_corner(&area);
    }
    canvas.border(&area, Stroke::solid(PAPER, 1.5));
    let words = three_digits(field.value);
    if canvas.sheet.face.width(&words, SMALL) <= area.width() - 4.0 && area.height() >= SMALL {
        let baseline = (top + bottom) / 2.0 + HALF_DIGIT * SMALL;
        let color = if strength > 0.55 { PAPER } else { INK };
        let middle = ((left + right) / 2.0, baseline);
        canvas.text(&words, middle, SMALL, Align::Center, color);
    }
    let values = format!("{}\n{}", significant(field.value), panel.name);
    canvas.spot(&panel.name, area, values);
}

/// A value with about three digits.
fn three_digits(value: f64) -> String {
    let text = significant(value);
    match text.split_once('.') {
        None => thousands(&text),
        Some((whole, _)) if whole.len() >= 3 => whole.into(),
        Some((whole, rest)) => {
            let decimals = (3 - whole.len()).min(rest.len());
            format!("{whole}.{}", &rest[..decimals])
        }
    }
}

/// The shades of values between the least and the largest.
struct Shades {
    least: f64,
    most: f64,
}

impl Shades {
    fn from_values(values: impl Iterator<Item = f64>) -> Shades {
        let mut shades = Shades {
            least: f64::INFINITY,
            most: f64::NEG_INFINITY,
        };
        for value in values {
            shades.least = shades.least.min(value);
            shades.most = shades.most.max(value);
        }
        shades
    }

    /// The strength of the colour of a value.
    fn strength(&self, value: f64) -> f64 {
        let least = self.level(self.least);
        let most = self.level(self.most);
        let share = (self.level(value) - least) / (most - least).max(f64::MIN_POSITIVE);
        let (weakest, strongest) = STRENGTHS;
        weakest + (strongest - weakest) * share
    }

    /// The value, or its logarithm if the values span several magnitudes.
    fn level(&self, value: f64) -> f64 {
        if self.least > 0.0 && self.most > WIDE * self.least {
            value.ln()
        } else {
            value
        }
    }

    fn legend(&self, quantity: &str, has_saturated: bool) -> Vec<LegendEntry> {
        let label = format!("{quantity}: {}", three_digits(self.least));
        let mut legend = vec![LegendEntry::new(label, self.key(self.least))];
        if self.most > self.least {
            let label = three_digits(self.most);
            legend.push(LegendEntry::new(label, self.key(self.most)));
        }
        if has_saturated {
            legend.push(LegendEntry::new("saturated", LegendKey::Corner));
        }
        legend
    }

    fn key(&self, value: f64) -> LegendKey {
        LegendKey::Bar(Style {
            color: tint(COLOR, self.strength(value)),
            hatch: Hatch::Plain,
            ..Style::number(0)
        })
    }
}

/// The keys that the user asks for, or the only two.
fn choose_keys<'k>(keys: &[&'k str], options: &PlotOptions) -> Result<[&'k str; 2], Undrawn> {
    let x = find_key("--x", options.x.as_deref(), keys)?;
    let y = find_key("--y", options.y.as_deref(), keys)?;
    let known = keys.join(", ");
    match (x, y, keys) {
        (Some(x), Some(y), _) if x == y => {
            let why = format!("--x and --y: both are {x}; name two keys of {known}");
            Err(Error::input(why).into())
        }
        (Some(x), Some(y), _) => Ok([x, y]),
        (None, None, [x, y]) => Ok([x, y]),
        (Some(x), None, [first, second]) => Ok([x, if x == *first { second } else { first }]),
        (None, Some(y), [first, second]) => Ok([if y == *first { second } else { first }, y]),
        (_, _, [] | [_]) => Err(nothing(
            "needs two swept keys, as of a run with --sweep KEY=V1,V2 --sweep KEY2=V1,V2",
        )),
        _ => Err(nothing(format!(
            "needs two of the swept keys; name them with --x and --y: {known}"
        ))),
    }
}

/// The swept key that an option names.
fn find_key<'k>(option: &str, asked: Option<&str>, keys: &[&'k str]) -> Result<Option<&'k str>> {
    let Some(asked) = asked else {
        return Ok(None);
    };
    match keys
        .iter()
        .find(|key| **key == asked || sweep_keys::short_key(key) == asked)
    {
        Some(key) => Ok(Some(key)),
        None => Err(Error::input(format!(
            "{option} {asked}: is not a swept key of these results; there are {}",
            keys.join(", ")
        ))),
    }
}

/// The fields of the summaries at one point, or of what a search has found.
fn read_fields(inputs: &PlotInputs, options: &PlotOptions) -> Result<HeatFields, Undrawn> {
    let asked = options.metric.as_deref().unwrap_or(Metric::P99.name());
    let is_search_default = options.metric.is_none() && inputs.has_no_summary();
    for (search, column) in [(KNEE, "knee_rps"), (TUNE, "knee_rps"), (WORKERS, "workers")] {
        let is_asked = column == asked || is_search_default;
        if is_asked && has_file(inputs, &search) {
            return Ok(fields_of_search(&search, inputs, options)?);
        }
    }
    let Some(metric) = Metric::find(asked) else {
        let mut known: Vec<&str> = Metric::all().map(Metric::name).collect();
        known.extend(["knee_rps", "workers"]);
        return Err(Error::input(format!(
            "--metric: unknown metric \"{asked}\"; known: {}",
            known.join(", ")
        ))
        .into());
    };
    fields_of_summaries(metric, inputs, options)
}

fn has_file(inputs: &PlotInputs, search: &SearchFile) -> bool {
    inputs
        .folders
        .iter()
        .any(|folder| folder.results.path.join(search.file).is_file())
}

fn fields_of_search(
    search: &SearchFile,
    inputs: &PlotInputs,
    options: &PlotOptions,
) -> Result<HeatFields> {
    let mut fields = Vec::new();
    let mut quantity = "";
    for folder in &inputs.folders {
        let Some((rows, label)) = search.read(&folder.results.path)? else {
            continue;
        };
        quantity = label;
        for row in rows {
            if let Some(value) = row.answer {
                fields.push(HeatField {
                    panel: options.look.name(&row.policy).to_string(),
                    swept: row.swept,
                    value,
                    saturated: false,
                });
            }
        }
    }
    Ok(HeatFields {
        fields,
        quantity: quantity.into(),
    })
}

fn fields_of_summaries(
    metric: Metric,
    inputs: &PlotInputs,
    options: &PlotOptions,
) -> Result<HeatFields, Undrawn> {
    // The keys of both axes are swept keys of a series here, so no key becomes its x axis.
    let without_x = PlotOptions {
        x: None,
        ..options.with_panels()
    };
    let (point, series) = inputs.compared_point(&without_x)?;
    let mut fields = Vec::new();
    for s in &series {
        for row in &s.rows {
            if row.row.point().ok() != Some(point.as_str()) {
                continue;
            }
            if let Some(value) = row.row.metric_if_known(metric)? {
                fields.push(HeatField {
                    panel: options.look.name(s.policy).into(),
                    swept: s.swept.clone(),
                    value,
                    saturated: row.whole.is_saturated()?,
                });
            }
        }
    }
    if fields.is_empty() {
        return Err(nothing(format!(
            "summary.csv has no row with {} at point {point}",
            metric.name()
        )));
    }
    Ok(HeatFields {
        fields,
        quantity: format!("{}{}", metric.label(), point_label(&point)),
    })
}
