//! Output of a validation: a table, JSON and a CSV file.

use std::path::Path;

use serde_json::{Value, json};

use super::{BOUND_UP_TO, BOUNDS, Judgement, Line};
use crate::error::Result;
use crate::files::write_whole;
use crate::results::table::{aligned, significant};
use crate::validate::compare::Row;
use crate::validate::ledger::{Ledger, Term};

const HEADING: [&str; 16] =
    ["", "load", "rate", "real", "sim", "diff", "±", "", "real", "sim", "diff", "±", "", "decisions", "", "the gap"];

const COLUMNS: [&str; 12] = [
    "scenario",
    "policy",
    "load_percent",
    "rate",
    "figure",
    "real",
    "simulated",
    "difference_percent",
    "spread_percent",
    "judgement",
    "same_decisions",
    "in_time",
];

/// Mean latency and 99th percentile for each policy and load: real, simulated, difference and spread of the real runs
/// in percent, and the judgement.
pub fn table(lines: &[Line]) -> String {
    let title = [
        "",
        "%",
        "req/s",
        "mean ms",
        "mean ms",
        "%",
        "%",
        "",
        "p99 ms",
        "p99 ms",
        "%",
        "%",
        "",
        "in replay",
        "",
        "is owned by",
    ];
    let mut rows = vec![HEADING.map(String::from).to_vec(), title.map(String::from).to_vec()];
    rows.extend(lines.iter().map(cells));
    let bounds: Vec<String> = BOUNDS
        .iter()
        .map(|(figure, bound)| format!("{} within {bound} %", figure.name().trim_end_matches("_ms")))
        .collect();
    format!(
        "{}\n± is where one more real run would lie with 95 % confidence. Asked for up to {BOUND_UP_TO} % of capacity: {}.\n\
         {} of {} figures are within; {} are beyond, but not by more than real runs differ among each other; {} are beyond.\n",
        aligned(&rows),
        bounds.join(", "),
        count(lines, Judgement::Within),
        lines.iter().flat_map(Line::judgements).filter(|judgement| *judgement != Judgement::NoBound).count(),
        count(lines, Judgement::WithinNoise),
        count(lines, Judgement::Beyond),
    )
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
    cells.push(if line.same_decisions { "equal" } else { "DIFFERENT" }.into());
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
    let figures: serde_json::Map<String, Value> = line
        .figures
        .iter()
        .map(|row| {
            let figure = json!({
                "real": row.a,
                "simulated": row.b,
                "difference_percent": row.difference,
                "spread_percent": row.spread,
                "judgement": line.judgement(row).name(),
            });
            (row.metric.name(), figure)
        })
        .collect();
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
        "same_decisions": line.same_decisions,
        "in_time": line.in_time,
    })
}

pub fn write_csv(path: &Path, lines: &[Line]) -> Result<()> {
    write_whole(path, |out| {
        let mut table = csv::Writer::from_writer(out);
        table.write_record(COLUMNS)?;
        let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.6}"));
        for line in lines {
            for row in &line.figures {
                let [real, simulated, difference, spread] = [row.a, row.b, row.difference, row.spread].map(number);
                table.write_record([
                    line.scenario.clone(),
                    line.policy.clone(),
                    line.load.to_string(),
                    line.rate.to_string(),
                    row.metric.name(),
                    real,
                    simulated,
                    difference,
                    spread,
                    line.judgement(row).name().into(),
                    line.same_decisions.to_string(),
                    line.in_time.map_or(String::new(), |in_time| in_time.to_string()),
                ])?;
            }
        }
        table.flush()
    })
}
