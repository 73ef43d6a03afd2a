//! Output of a validation: a table, JSON and a CSV file.

use std::ops::Range;
use std::path::Path;

use serde_json::{Value, json};

use super::{BOUND_UP_TO, BOUNDS, Judgement, Line};
use crate::error::Result;
use crate::results::columns::{Column, Unit, to_object};
use crate::results::table::{aligned, significant};
use crate::results::write::write_columns;
use crate::validate::compare::Row;
use crate::validate::ledger::{Ledger, Term};

/// A line's figure, and its columns in the CSV file. In JSON, a line has an object of some of them for each figure.
type Figure<'l> = (&'l Line, &'l Row);

fn columns<'l>() -> [Column<'static, Figure<'l>>; 12] {
    let number = |name: &'static str, of: fn(&Row) -> Option<f64>| {
        Column::number(name, Unit::Ratio, move |(_, row): &Figure<'l>| of(row))
    };
    [
        Column::text("scenario", |(line, _): &Figure<'l>| line.scenario.clone()),
        Column::text("policy", |(line, _): &Figure<'l>| line.policy.clone()),
        Column::count("load_percent", |(line, _): &Figure<'l>| line.load as usize),
        Column::text("rate", |(line, _): &Figure<'l>| line.rate.to_string()),
        Column::text("figure", |(_, row): &Figure<'l>| row.metric.name()),
        number("real", |row| row.a),
        number("simulated", |row| row.b),
        number("difference_percent", |row| row.difference),
        number("spread_percent", |row| row.spread),
        Column::text("judgement", |(line, row): &Figure<'l>| line.judgement(row).name().into()),
        Column::truth("same_decisions", |(line, _): &Figure<'l>| Some(line.same_decisions())),
        Column::truth("in_time", |(line, _): &Figure<'l>| line.in_time),
    ]
}

/// Those of [`columns`] in the JSON of a figure.
const OF_FIGURE: Range<usize> = 5..10;

/// Mean latency and 99th percentile for each policy and load: real, simulated, difference and spread of the real runs
/// in percent, and the judgement.
pub fn table(lines: &[Line]) -> String {
    let pair = |above: &str, below: &str| [above.to_string(), below.to_string()];
    let mut heading = vec![pair("", ""), pair("load", "%"), pair("rate", "req/s")];
    for (figure, _) in BOUNDS {
        let unit = figure.name().replace('_', " ");
        heading.extend([
            pair("real", &unit),
            pair("sim", &unit),
            pair("diff", "%"),
            pair("±", "%"),
            pair("verdict", ""),
        ]);
    }
    heading.extend([pair("decisions", "in replay"), pair("", ""), pair("the gap", "is owned by")]);
    let (above, below) = heading.into_iter().map(Into::into).unzip();
    let mut rows: Vec<Vec<String>> = vec![above, below];
    rows.extend(lines.iter().map(cells));
    let bounds: Vec<String> =
        BOUNDS.iter().map(|(figure, bound)| format!("{} within {bound} %", figure.short_name())).collect();
    format!(
        "{}\n± is where one more real run would lie with 95 % confidence. Asked for up to {BOUND_UP_TO} % of capacity: {}.\n\
         {} of {} figures are ok; {} are unclear: outside, but by less than real runs differ; {} are off, by more than that.\n",
        aligned(&rows),
        bounds.join(", "),
        count(lines, Judgement::Within),
        lines.iter().flat_map(Line::judgements).filter(|judgement| *judgement != Judgement::NoBound).count(),
        count(lines, Judgement::Unclear),
        count(lines, Judgement::Off),
    )
}

/// Says so if figures are unclear, with the least and the largest difference of real runs among them.
pub fn inconclusive(lines: &[Line]) -> Option<String> {
    let of_line = |line: &'_ Line| {
        let unclear = |row: &&Row| line.judgement(row) == Judgement::Unclear;
        line.figures.iter().filter(unclear).filter_map(|row| row.spread).collect::<Vec<_>>()
    };
    let mut spreads: Vec<f64> = lines.iter().flat_map(of_line).collect();
    spreads.sort_by(f64::total_cmp);
    let (least, most) = (spreads.first()?, spreads.last()?);
    Some(format!(
        "inconclusive: where {} figures are unclear, real runs differ by {least:.0} to {most:.0} %; quieten the machine or \
         add --repeats",
        spreads.len()
    ))
}

fn count(lines: &[Line], wanted: Judgement) -> usize {
    lines.iter().flat_map(Line::judgements).filter(|judgement| *judgement == wanted).count()
}

fn cells(line: &Line) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or("-".into(), significant);
    let percent = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:+.1}"));
    let spread = |row: &Row| row.spread.map_or("-".into(), |spread| format!("{spread:.1}"));
    let mut cells = vec![line.scenario.clone(), line.load.to_string(), line.rate.to_string()];
    for row in &line.figures[..BOUNDS.len()] {
        let judgement = line.judgement(row).name().to_string();
        cells.extend([number(row.a), number(row.b), percent(row.difference), spread(row), judgement]);
    }
    cells.push(if line.same_decisions() { "equal" } else { "DIFFERENT" }.into());
    cells.push(if line.in_time == Some(false) { "late" } else { "" }.into());
    cells.push(line.ledger.as_ref().map_or(String::new(), owner));
    cells
}

/// The effect is in percent of the real mean.
fn owner(ledger: &Ledger) -> String {
    let effect = |term| ledger.effect(term).map(|effect| format!("{} {:+.1} %", Term::name(term), 100.0 * effect));
    ledger.owner().and_then(effect).unwrap_or_default()
}

pub fn to_json(lines: &[Line]) -> Value {
    lines.iter().map(line_to_json).collect()
}

fn line_to_json(line: &Line) -> Value {
    let figure = |row: &Row| (row.metric.name(), to_object(&columns()[OF_FIGURE], &(line, row)));
    let figures: serde_json::Map<String, Value> = line.figures.iter().map(figure).collect();
    json!({
        "scenario": line.scenario,
        "policy": line.policy,
        "load_percent": line.load,
        "rate": line.rate,
        "figures": figures,
        "ledger": line.ledger.as_ref().map(|ledger| {
            let effect = |term: &Term| (term.name().to_string(), ledger.effect(*term).map(|effect| 100.0 * effect).into());
            Term::ALL.iter().map(effect).collect::<serde_json::Map<String, Value>>()
        }),
        "same_decisions": line.same_decisions(),
        "in_time": line.in_time,
    })
}

pub fn write_csv(path: &Path, lines: &[Line]) -> Result<()> {
    let figures: Vec<Figure<'_>> =
        lines.iter().flat_map(|line| line.figures.iter().map(move |row| (line, row))).collect();
    write_columns(path, &columns(), &figures)
}
