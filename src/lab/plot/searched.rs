//! What searches have found: over a swept key, or by policy.

use super::axis::Axis;
use super::chart::{Bar, Bars};
use super::dot::{Dot, MarkerSigns};
use super::folder::ResultsFolder;
use super::input::PlotInputs;
use super::layout::{PanelPlan, draw_figure};
use super::legend::{LegendEntry, LegendKey, interval_label};
use super::names;
use super::options::PlotOptions;
use super::panel::SeriesCurve;
use super::points::place_values;
use super::search_file::{SearchFile, SearchRow};
use super::style::{LINE_WIDTH, Style};
use super::undrawn::{Drawing, Undrawn, nothing};
use crate::base::error::Error;
use crate::lab::results::sweep_keys::{self, Swept, distinct};

/// The label of searches that something limited.
const LIMITED: &str = "limited (see caveat)";

/// A row of a search's file, and its folder.
struct SearchAnswer<'i> {
    folder: &'i ResultsFolder,
    row: SearchRow,
}

/// What a search has found for the chosen policies.
struct SearchAnswers<'i> {
    inputs: &'i PlotInputs,
    options: &'i PlotOptions,
    rows: Vec<SearchAnswer<'i>>,
    /// The label of the answers' axis.
    label: &'static str,
}

/// The curve of a policy, before it has a panel.
struct AnswerCurve {
    name: String,
    style: Style,
    dots: Vec<Dot>,
}

impl SearchFile {
    /// Draws what the search has found.
    pub fn draw(&self, inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
        let answers = self.answers(inputs, options)?;
        let keys = answers.swept_keys();
        let Some(asked) = &options.x else {
            return match keys[..] {
                [] => answers.draw_by_policy(),
                [only] => answers.draw_over(only),
                _ => {
                    let keys: Vec<&str> =
                        keys.iter().map(|key| sweep_keys::short_key(key)).collect();
                    Err(nothing(format!(
                        "several keys were tried; choose one with --x: {}",
                        keys.join(", ")
                    )))
                }
            };
        };
        if let Some(key) = keys
            .iter()
            .find(|key| *key == asked || sweep_keys::short_key(key) == asked)
        {
            return answers.draw_over(key);
        }
        let why = if keys.is_empty() {
            format!(
                "--x {asked}: {} has no swept key; run {} with --sweep",
                self.file, self.command
            )
        } else {
            format!(
                "--x {asked}: is not a key of {}; there are {}",
                self.file,
                keys.join(", ")
            )
        };
        Err(Error::input(why).into())
    }

    /// The rows of all folders, of the chosen policies in their order.
    fn answers<'i>(
        &self,
        inputs: &'i PlotInputs,
        options: &'i PlotOptions,
    ) -> Result<SearchAnswers<'i>, Undrawn> {
        let mut rows: Vec<SearchAnswer<'i>> = Vec::new();
        let mut label = "";
        for folder in &inputs.folders {
            if let Some((found, axis_label)) = self.read(&folder.results.path)? {
                rows.extend(found.into_iter().map(|row| SearchAnswer { folder, row }));
                label = axis_label;
            }
        }
        if rows.iter().all(|one| one.row.answer.is_none()) {
            return Err(nothing(format!(
                "there is no {} with an answer; {} writes it",
                self.file, self.command
            )));
        }
        let known = distinct(rows.iter().map(|one| one.row.policy.clone()));
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let order = names::order(&options.look.order, &known)?;
        let chosen = names::chosen("--policies", &options.policies, &known)?;
        rows.retain(|one| chosen.contains(&one.row.policy.as_str()));
        rows.sort_by_key(|one| order.iter().position(|policy| *policy == one.row.policy));
        Ok(SearchAnswers {
            inputs,
            options,
            rows,
            label,
        })
    }
}

impl SearchAnswers<'_> {
    fn swept_keys(&self) -> Vec<&str> {
        let keys = self
            .rows
            .iter()
            .flat_map(|one| one.row.swept.iter().map(|(key, _)| key.as_str()));
        distinct(keys)
    }

    fn has_several_folders(&self) -> bool {
        distinct(self.rows.iter().map(|one| one.folder.name.as_str())).len() > 1
    }

    fn replications(&self) -> Vec<u64> {
        distinct(self.rows.iter().filter_map(|one| one.row.replications))
    }

    fn any(&self, condition: fn(&SearchRow) -> bool) -> bool {
        self.rows.iter().any(|one| condition(&one.row))
    }

    /// Draws bars: a search without a sweep has one answer for each policy.
    fn draw_by_policy(&self) -> Drawing {
        let look = &self.options.look;
        let has_panels = self.has_several_folders();
        let mut bars = Vec::new();
        for one in &self.rows {
            let panel = if has_panels {
                look.name(&one.folder.name).to_string()
            } else {
                String::new()
            };
            bars.push(Bar {
                panel,
                interval: one.row.interval,
                invalid: one.row.is_limited,
                ..Bar::new("", look.name(&one.row.policy), one.row.answer)
            });
        }
        let policies = distinct(self.rows.iter().map(|one| one.row.policy.as_str()));
        let mut styles = Vec::new();
        let mut series = Vec::new();
        for policy in policies {
            styles.push(self.inputs.style(policy, 0));
            series.push(look.name(policy).to_string());
        }
        let bars = Bars {
            sheet: self.options.sheet(),
            title: self.options.title.clone(),
            value: self.label.into(),
            styles,
            series,
            bars,
            interval: interval_label(&self.replications()),
            crossed: Some(LIMITED),
            ..Bars::default()
        };
        bars.draw_with(self.options)
    }

    /// Draws a line over a swept key for each policy with its other swept keys.
    fn draw_over(&self, key: &str) -> Drawing {
        let texts = self
            .rows
            .iter()
            .filter_map(|one| sweep_keys::value(&one.row.swept, key).map(String::from));
        let values = place_values(texts.collect());
        let curves = self.curves(key, &values);
        let mut highest: f64 = 0.0;
        let mut least = f64::INFINITY;
        for dot in curves.iter().flat_map(|curve| &curve.dots) {
            let upper_end = dot.interval.map_or(dot.y, |[_, high]| high);
            highest = highest.max(upper_end);
            if dot.y > 0.0 {
                least = least.min(dot.y);
            }
        }
        let first = values.first().map_or(0.0, |value| value.0);
        let axes = [
            Axis::with_values(sweep_keys::short_key(key), &values),
            Axis::linear_to_tick(self.label, highest, 5),
        ];
        let plan = PanelPlan {
            heading: String::new(),
            axes: self.options.axes(axes, [first, least])?,
            remarks: Vec::new(),
        };
        let legend = self.legend(&curves);
        Ok(draw_figure(
            self.options,
            legend,
            vec![plan],
            |canvas, _, panel| {
                let curves: Vec<SeriesCurve> = curves
                    .iter()
                    .map(|curve| curve.panel_curve(panel.y.high))
                    .collect();
                panel.whiskers(canvas, &curves);
                panel.curves(canvas, &curves);
                for curve in &curves {
                    for dot in &curve.dots {
                        canvas.data.extend(panel.data_of_dot(&curve.label, dot));
                    }
                }
            },
        ))
    }

    /// The curves over a swept key, whose values have these places.
    fn curves(&self, key: &str, values: &[(f64, String)]) -> Vec<AnswerCurve> {
        let mut curves: Vec<AnswerCurve> = Vec::new();
        let mut policies: Vec<&str> = Vec::new();
        for one in &self.rows {
            let Some(dot) = place_answer(&one.row, key, values) else {
                continue;
            };
            let name = self.curve_name(one, key);
            if let Some(known) = curves.iter_mut().find(|curve| curve.name == name) {
                known.dots.push(dot);
                continue;
            }
            let policy = one.row.policy.as_str();
            let combination = policies.iter().filter(|other| **other == policy).count();
            policies.push(policy);
            curves.push(AnswerCurve {
                name,
                style: self.inputs.style(policy, combination),
                dots: vec![dot],
            });
        }
        for curve in &mut curves {
            curve.dots.sort_by(|a, b| a.x.total_cmp(&b.x));
        }
        curves
    }

    /// The name of an answer's curve: the policy with the other swept keys and, if there are several folders, the
    /// folder.
    fn curve_name(&self, one: &SearchAnswer<'_>, key: &str) -> String {
        let look = &self.options.look;
        let others: Vec<Swept> = one
            .row
            .swept
            .iter()
            .filter(|(other, _)| other != key)
            .cloned()
            .collect();
        let name = sweep_keys::label(look.name(&one.row.policy), &others);
        if self.has_several_folders() {
            format!("{}: {name}", look.name(&one.folder.name))
        } else {
            name
        }
    }

    /// The entries of curves, and of what their whiskers and markers show.
    fn legend(&self, curves: &[AnswerCurve]) -> Vec<LegendEntry> {
        let mut legend: Vec<LegendEntry> = curves
            .iter()
            .map(|curve| LegendEntry::new(&curve.name, LegendKey::Line(curve.style)))
            .collect();
        if self.any(|row| row.interval.is_some()) {
            let label = interval_label(&self.replications());
            legend.push(LegendEntry::new(label, LegendKey::Whisker));
        }
        if self.any(|row| row.is_out) {
            let label = "out in an earlier round";
            legend.push(LegendEntry::with_signs(label, MarkerSigns::default()));
        }
        if self.any(|row| row.is_limited) {
            let limited = MarkerSigns {
                invalid: true,
                ..MarkerSigns::default()
            };
            legend.push(LegendEntry::with_signs(LIMITED, limited));
        }
        legend
    }
}

/// The point of an answer over a swept key, or `None` without an answer or the key.
fn place_answer(row: &SearchRow, key: &str, values: &[(f64, String)]) -> Option<Dot> {
    let text = sweep_keys::value(&row.swept, key)?;
    let (x, _) = values.iter().find(|(_, known)| known == text)?;
    Some(Dot {
        x: *x,
        y: row.answer?,
        marked: true,
        saturated: row.is_out,
        invalid: row.is_limited,
        interval: row.interval,
        ..Dot::default()
    })
}

impl AnswerCurve {
    fn panel_curve(&self, top: f64) -> SeriesCurve {
        SeriesCurve::through(&self.name, self.style, &self.dots, top, LINE_WIDTH)
    }
}
