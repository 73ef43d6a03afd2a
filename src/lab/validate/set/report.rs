//! Output of a validation: a table, JSON and a CSV file.

use std::ops::Range;
use std::path::Path;

use serde_json::{Value, json};
use statrs::statistics::{Data, Median as _, OrderStatistics as _};

use super::{BOUND_UP_TO, BOUNDS, GOAL, NEAR, ValidationFigure, ValidationRow};
use crate::base::error::Result;
use crate::base::files::write_whole;
use crate::lab::results::columns::{Column, MetricUnit, name_of, to_object};
use crate::lab::results::table::{align, significant};
use crate::lab::results::write::write_columns;
use crate::lab::usability::Usability;
use crate::lab::validate::ledger::{Ledger, Term};

/// A row and one of its figures, which make a row of the CSV file. In JSON, a row has an object with some of the
/// columns for each figure.
type RowFigure<'l> = (&'l ValidationRow, &'l ValidationFigure);

fn columns<'l>() -> [Column<'static, RowFigure<'l>>; 17] {
    let number = |name: &'static str, of: fn(&ValidationFigure) -> Option<f64>| {
        Column::number(
            name,
            MetricUnit::Ratio,
            move |(_, figure): &RowFigure<'l>| of(figure),
        )
    };
    [
        Column::text("scenario", |(line, _): &RowFigure<'l>| {
            line.scenario.clone()
        }),
        Column::text("policy", |(line, _): &RowFigure<'l>| line.policy.clone()),
        Column::count("load_percent", |(line, _): &RowFigure<'l>| {
            line.load as usize
        }),
        Column::text("rate", |(line, _): &RowFigure<'l>| line.rate.to_string()),
        Column::text("figure", |(_, figure): &RowFigure<'l>| {
            figure.metric.name().into()
        }),
        number("real", |figure| figure.medians().map(|[real, _]| real)),
        number("simulated", |figure| {
            figure.medians().map(|[_, simulated]| simulated)
        }),
        number("difference_percent", ValidationFigure::difference),
        number("spread_percent", ValidationFigure::spread),
        number("low", |figure| figure.interval().map(|[low, _]| low)),
        number("high", |figure| figure.interval().map(|[_, high]| high)),
        Column::count("real_runs", |(_, figure): &RowFigure<'l>| figure.real.len()),
        Column::count("real_runs_inside", |(_, figure): &RowFigure<'l>| {
            figure.inside()
        }),
        Column::count("real_runs_predicted", |(_, figure): &RowFigure<'l>| {
            figure.count_predicted()
        }),
        Column::text("verdict", |(_, figure): &RowFigure<'l>| figure.verdict()),
        Column::truth("same_decisions", |(line, _): &RowFigure<'l>| {
            Some(line.same_decisions())
        }),
        Column::truth("in_time", |(line, _): &RowFigure<'l>| line.in_time),
    ]
}

/// The part of [`columns`] that the JSON of a figure has.
const OF_FIGURE: Range<usize> = 5..15;

/// A figure's columns in the table: the heading, its second line (by default the figure's name), and the cell.
type Cell = (
    &'static str,
    Option<&'static str>,
    fn(&ValidationFigure) -> Option<String>,
);

const CELLS: [Cell; 6] = [
    ("real", None, |figure| {
        figure.medians().map(|[real, _]| significant(real))
    }),
    ("±", Some("%"), |figure| {
        figure.spread().map(|spread| format!("{spread:.1}"))
    }),
    ("sim", None, |figure| {
        figure
            .medians()
            .map(|[_, simulated]| significant(simulated))
    }),
    ("95 % of sims", None, |figure| {
        figure
            .interval()
            .map(|interval| interval.map(significant).join(" to "))
    }),
    ("diff", Some("%"), |figure| {
        figure
            .difference()
            .map(|difference| format!("{difference:+.1}"))
    }),
    ("verdict", Some(""), |figure| Some(figure.verdict())),
];

/// The table of mean latency and 99th percentile for each policy and load, with a legend.
pub fn table(lines: &[ValidationRow]) -> String {
    let pair = |above: &str, below: &str| [above.to_string(), below.to_string()];
    let mut heading = vec![pair("", ""), pair("load", "%"), pair("rate", "req/s")];
    for (figure, _) in BOUNDS {
        let unit = figure.name().replace('_', " ");
        heading.extend(CELLS.map(|(above, below, _)| pair(above, below.unwrap_or(&unit))));
    }
    heading.extend([
        pair("decisions", "in replay"),
        pair("", ""),
        pair("the gap", "is owned by"),
    ]);
    let (above, below) = heading.into_iter().map(Into::into).unzip();
    let mut rows: Vec<Vec<String>> = vec![above, below];
    rows.extend(lines.iter().map(cells));
    let bounds: Vec<String> = BOUNDS
        .iter()
        .map(|(figure, bound)| format!("{} within {bound} %", figure.short_name()))
        .collect();
    format!(
        "{}\nMedians. ± is where one more real run would lie with 95 % confidence. Up to {BOUND_UP_TO} % of capacity, \
         medians should agree ({}) where real runs do.\n",
        align(&rows),
        bounds.join(", ")
    )
}

/// How many medians agree, how many real runs are in their intervals, how wide these are, and how many real runs were
/// predicted.
pub fn conclusion(lines: &[ValidationRow]) -> String {
    let figures = lines.iter().flat_map(|line| &line.figures);
    let bounded: Vec<&ValidationFigure> = figures.filter(|one| one.bound.is_some()).collect();
    let agree: Vec<bool> = bounded
        .iter()
        .filter_map(|figure| figure.agrees())
        .collect();
    format!(
        "medians: {} of {} agree, of {} in all; real runs of the others repeat too badly to tell\n{}{}",
        agree.iter().filter(|agree| **agree).count(),
        agree.len(),
        bounded.len(),
        coverage(&bounded),
        predictions(&bounded)
    )
}

/// Whether the validation says anything of the simulator: real runs are valid, and they agree with each other.
pub fn judge(lines: &[ValidationRow]) -> Usability {
    let figures = lines.iter().flat_map(|line| &line.figures);
    let late = lines.iter().filter(|line| line.in_time == Some(false));
    let mut usability = Usability::new("the validation is");
    usability.judge_lateness(late.count(), lines.len());
    usability.judge_spreads(figures.map(ValidationFigure::spread));
    usability
}

/// The share of real figures that are in their intervals or near the simulated median.
fn predictions(figures: &[&ValidationFigure]) -> String {
    let runs: usize = figures.iter().map(|figure| figure.real.len()).sum();
    let predicted: usize = figures.iter().map(|figure| figure.count_predicted()).sum();
    let share = 100.0 * predicted as f64 / runs.max(1) as f64;
    let verdict = if share >= GOAL { "reached" } else { "missed" };
    format!(
        "predicted: {predicted} of {runs} figures of real runs ({share:.0} %) are within {NEAR} % of the simulated median or in \
         the interval; the goal of {GOAL} % is {verdict}\n"
    )
}

fn coverage(figures: &[&ValidationFigure]) -> String {
    let figures: Vec<&&ValidationFigure> = figures
        .iter()
        .filter(|figure| figure.interval().is_some())
        .collect();
    if figures.is_empty() {
        return "coverage: unknown without noise (--noise)\n".into();
    }
    let (runs, inside): (usize, usize) = figures.iter().fold((0, 0), |(runs, inside), figure| {
        (runs + figure.real.len(), inside + figure.inside())
    });
    let widths: Vec<f64> = figures
        .iter()
        .filter_map(|figure| figure.relative_width())
        .collect();
    let mut widths = Data::new(widths);
    format!(
        "coverage: {inside} of {runs} figures of real runs ({:.0} %) are in the 95 % interval of simulated runs\n\
         width: that interval is {:.2} times as wide as that of one more real run (median; at most {:.2})\n",
        100.0 * inside as f64 / runs.max(1) as f64,
        widths.median(),
        widths.quantile(1.0)
    )
}

fn cells(line: &ValidationRow) -> Vec<String> {
    let mut cells = vec![
        line.scenario.clone(),
        line.load.to_string(),
        line.rate.to_string(),
    ];
    for figure in &line.figures[..BOUNDS.len()] {
        cells.extend(CELLS.map(|(_, _, cell)| cell(figure).unwrap_or("-".into())));
    }
    cells.push(
        if line.same_decisions() {
            "equal"
        } else {
            "DIFFERENT"
        }
        .into(),
    );
    cells.push(
        if line.in_time == Some(false) {
            "late"
        } else {
            ""
        }
        .into(),
    );
    cells.push(line.ledger.as_ref().map_or(String::new(), owner));
    cells
}

/// The term with the largest effect, and the effect in percent of the real mean.
fn owner(ledger: &Ledger) -> String {
    let effect = |term| {
        ledger
            .effect(term)
            .map(|effect| format!("{} {:+.1} %", name_of(&term), 100.0 * effect))
    };
    ledger.owner().and_then(effect).unwrap_or_default()
}

pub fn to_json(lines: &[ValidationRow]) -> Value {
    lines.iter().map(line_to_json).collect()
}

fn line_to_json(line: &ValidationRow) -> Value {
    let object = |figure: &ValidationFigure| {
        (
            figure.metric.name().into(),
            to_object(&columns()[OF_FIGURE], &(line, figure)),
        )
    };
    let figures: serde_json::Map<String, Value> = line.figures.iter().map(object).collect();
    json!({
        "scenario": line.scenario,
        "policy": line.policy,
        "load_percent": line.load,
        "rate": line.rate,
        "figures": figures,
        "ledger": line.ledger.as_ref().map(|ledger| {
            let effect = |term: &Term| (name_of(term), ledger.effect(*term).map(|effect| 100.0 * effect).into());
            Term::ALL.iter().map(effect).collect::<serde_json::Map<String, Value>>()
        }),
        "same_decisions": line.same_decisions(),
        "in_time": line.in_time,
    })
}

/// Writes `validation.csv`, which has a row for each figure, and `validation.txt`, which has the table and the conclusion
/// for a reader.
pub fn write(out: &Path, device: &str, lines: &[ValidationRow]) -> Result<()> {
    let figures: Vec<RowFigure<'_>> = lines
        .iter()
        .flat_map(|line| line.figures.iter().map(move |figure| (line, figure)))
        .collect();
    write_columns(&out.join("validation.csv"), &columns(), &figures)?;
    let text = format!("{device}\n{}{}", table(lines), conclusion(lines));
    write_whole(&out.join("validation.txt"), |file| {
        file.write_all(text.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::Rate;
    use crate::lab::results::columns::Metric;

    fn row(in_time: bool, real: &[f64]) -> ValidationRow {
        let figure = |metric| ValidationFigure {
            metric,
            real: real.to_vec(),
            simulated: vec![1.0],
            bound: Some(3.0),
        };
        ValidationRow {
            scenario: "t-A".into(),
            policy: "A".into(),
            load: 50,
            rate: Rate(100.0),
            figures: vec![figure(Metric::Mean), figure(Metric::P99)],
            ledger: None,
            in_time: Some(in_time),
        }
    }

    #[test]
    fn a_machine_that_varies_shows_nothing_of_the_simulator() {
        let steady = [1.0, 1.1, 0.9];
        let good = [row(true, &steady), row(true, &steady)];
        assert_eq!(judge(&good).sentence(), "the validation is usable");
        let restless = [row(true, &steady), row(false, &[1.0, 2.0, 15.0])];
        let sentence = judge(&restless).sentence();
        let reasons = "the validation is not usable: requests were handed over too late at 1 of 2 points; 2 of 4 figures \
                       vary by more than 100 % from one run to the next, up to ";
        assert!(sentence.starts_with(reasons), "{sentence}");
    }

    #[test]
    fn the_conclusion_counts_what_can_be_told() {
        let lines = [row(true, &[1.0, 1.0, 1.0]), row(true, &[1.0, 1.5, 0.9])];
        assert_eq!(
            conclusion(&lines),
            "medians: 2 of 2 agree, of 4 in all; real runs of the others repeat too badly to tell\n\
             coverage: unknown without noise (--noise)\n\
             predicted: 8 of 12 figures of real runs (67 %) are within 5 % of the simulated median or in the interval; the goal \
             of 90 % is missed\n"
        );
    }
}
