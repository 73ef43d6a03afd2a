//! The results for a reader at a terminal, and for a program.

use serde_json::{Map, Value, json};

use super::combined::{Estimate, Row};
use super::figure::{Figure, Unit};
use super::stats::Quantile;

/// Stands behind the throughput of a saturated row.
const SATURATED: &str = "*";
/// Stands there where it can't be told.
const UNKNOWN: &str = "?";

/// Stands behind the load of a row whose load generator was late.
const INVALID: &str = "!";

/// The figures that are columns of the terminal's table, with their two lines of heading.
const COLUMNS: [(Figure, [&str; 2]); 9] = [
    (Figure::Throughput, ["throughput", "req/s"]),
    (Figure::Goodput, ["goodput", "req/s"]),
    (Figure::P50, ["p50", "ms"]),
    (Figure::P90, ["p90", "ms"]),
    (Figure::P99, ["p99", "ms"]),
    (Figure::QueueP99, ["queue p99", "ms"]),
    (Figure::MeanBatch, ["batch", "mean"]),
    (Figure::Padding, ["pad", "%"]),
    (Figure::Utilization, ["busy", "%"]),
];

/// The longest policy name that is written out.
const NAME_WIDTH: usize = 20;

/// A table of aligned columns. A quantile with too few samples shows how many it takes (`n<1000`), a figure that there
/// is none of shows `-`, and a row that is saturated or not valid has a mark. Replicated figures show their 95 % half-widths as a share of the
/// figure, all but the last three, which hardly vary.
pub fn table(rows: &[Row]) -> String {
    let mut heading = [vec!["policy".to_string(), "offered".into()], vec![String::new(), "req/s".into()]];
    // Goodput is a column where there is an objective.
    let with_goodput = rows.iter().any(|row| row.figures.estimate(Figure::Goodput).value.is_some());
    let columns: Vec<_> =
        COLUMNS.into_iter().filter(|(figure, _)| *figure != Figure::Goodput || with_goodput).collect();
    for (_, names) in &columns {
        heading.iter_mut().zip(names).for_each(|(line, name)| line.push((*name).into()));
    }
    let body = rows.iter().map(|row| cells(row, &columns));
    let mut text = aligned(&heading.into_iter().chain(body).collect::<Vec<_>>());
    if rows.iter().any(|row| row.figures.saturated() == Some(true)) {
        text.push_str(&format!("{SATURATED} saturated: more requests arrived than could be served\n"));
    }
    if rows.iter().any(|row| row.figures.saturated().is_none() && tells_of_saturation(row)) {
        text.push_str(&format!("{UNKNOWN} the run is too short to tell whether it is saturated\n"));
    }
    if rows.iter().any(is_invalid) {
        text.push_str(&format!(
            "{INVALID} not valid: requests were handed over so late that the latencies are not those of an open loop\n"
        ));
    }
    if rows.iter().any(|row| row.figures.replications() > 1) {
        text.push_str(
            "± half the width of the 95 % confidence interval over the replications, in percent of the figure\n",
        );
    }
    text
}

/// Whether a reader would ask if the row is saturated: not where all requests arrive at once.
fn tells_of_saturation(row: &Row) -> bool {
    row.point != "offline"
}

fn is_invalid(row: &Row) -> bool {
    row.figures.lateness().is_some_and(|late| late.valid == Some(false))
}

fn cells(row: &Row, columns: &[(Figure, [&str; 2])]) -> Vec<String> {
    // A closed loop has no rate of its own: what it offers follows from what is served.
    let offered = row.figures.estimate(Figure::Offered).value.filter(|_| !row.point.starts_with("clients-"));
    let mark = if is_invalid(row) { INVALID } else { "" };
    let offered = offered.map_or_else(|| row.point.clone(), significant);
    let mut line = vec![shortened(&row.policy), format!("{offered}{mark}")];
    for (figure, _) in columns {
        let mut cell = cell(row, *figure);
        if *figure == Figure::Throughput {
            cell.push_str(match row.figures.saturated() {
                Some(true) => SATURATED,
                None if tells_of_saturation(row) => UNKNOWN,
                _ => "",
            });
        }
        line.push(cell);
    }
    line
}

fn cell(row: &Row, figure: Figure) -> String {
    match (row.figures.estimate(figure), figure) {
        (Estimate { value: Some(share), .. }, Figure::Padding | Figure::Utilization) => format!("{:.1}", 100.0 * share),
        (Estimate { value: Some(value), half_width: Some(half) }, _) if figure.unit() != Unit::Ratio => {
            format!("{}{}", significant(value), relative(half, value))
        }
        (Estimate { value: Some(value), .. }, _) => significant(value),
        (Estimate { value: None, .. }, _) => match quantile(figure) {
            Some(quantile) if row.figures.runs.iter().any(|run| run.latency.samples > 0) => {
                format!("n<{}", quantile.samples_needed())
            }
            _ => "-".into(),
        },
    }
}

fn quantile(figure: Figure) -> Option<Quantile> {
    match figure {
        Figure::P50 => Some(Quantile::P50),
        Figure::P90 => Some(Quantile::P90),
        Figure::P99 | Figure::QueueP99 => Some(Quantile::P99),
        _ => None,
    }
}

/// Four significant digits, but no digit before the point is dropped.
pub fn significant(value: f64) -> String {
    let decimals = decimals(value);
    format!("{value:.decimals$}")
}

fn decimals(value: f64) -> usize {
    match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        v if v >= 1.0 || v == 0.0 => 3,
        _ => 4,
    }
}

/// A half-width in percent of its figure; nothing where the figure is zero.
fn relative(half_width: f64, value: f64) -> String {
    match 100.0 * half_width / value {
        percent if percent < 10.0 => format!("±{percent:.1}%"),
        percent if percent.is_finite() => format!("±{percent:.0}%"),
        _ => String::new(),
    }
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_WIDTH {
        return name.into();
    }
    name.chars().take(NAME_WIDTH - 1).chain(['…']).collect()
}

/// The first column to the left, the others to the right, two spaces between them.
pub fn aligned(lines: &[Vec<String>]) -> String {
    let width = |cell: &String| cell.chars().count();
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> =
        (0..columns).map(|c| lines.iter().map(|line| width(&line[c])).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for line in lines {
        for (c, cell) in line.iter().enumerate() {
            let pad = " ".repeat(widths[c] - width(cell));
            match c {
                0 => text.push_str(&format!("{cell}{pad}")),
                _ => text.push_str(&format!("  {pad}{cell}")),
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// The results as one JSON object: the scenario's name and an object for each row, with the names of summary.csv. What
/// there is none of is null.
pub fn to_json(scenario: &str, rows: &[Row]) -> Value {
    json!({ "scenario": scenario, "rows": rows.iter().map(row_to_json).collect::<Vec<_>>() })
}

fn row_to_json(row: &Row) -> Value {
    let mut object = Map::new();
    object.insert("policy".into(), row.policy.as_str().into());
    object.insert("backend".into(), row.backend.as_str().into());
    object.insert("point".into(), row.point.as_str().into());
    object.insert("replications".into(), row.figures.replications().into());
    object.insert("saturated".into(), row.figures.saturated().into());
    let estimates = Figure::ALL.map(|figure| (figure, row.figures.estimate(figure)));
    for (figure, estimate) in estimates {
        object.insert(figure.name().into(), number(estimate.value, figure.unit()));
    }
    object.insert("worker_utilization".into(), row.figures.worker_utilization().into());
    if let Some(late) = row.figures.lateness() {
        object.insert("late_mean_us".into(), late.mean_us.into());
        object.insert("late_p99_us".into(), late.p99_us.into());
        object.insert("late_max_us".into(), late.max_us.into());
        object.insert("valid".into(), late.valid.into());
    }
    if row.figures.replications() > 1 {
        for (figure, estimate) in estimates {
            object.insert(format!("{}_ci", figure.name()), number(estimate.half_width, figure.unit()));
        }
    }
    Value::Object(object)
}

/// A number or null; a whole count has no decimal point.
fn number(value: Option<f64>, unit: Unit) -> Value {
    match value {
        Some(count) if unit == Unit::Count && count.fract() == 0.0 => (count as u64).into(),
        value => value.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::combined::combine;
    use super::super::records::{queue, record};
    use super::super::summary::{Measure, Summary, summarize};
    use super::*;
    use crate::units::Rate;

    fn row(policy: &str, runs: &[Summary]) -> Row {
        Row { policy: policy.into(), backend: "sim".into(), point: "offline".into(), figures: combine(runs) }
    }

    fn measured(requests: usize, load: f64, seed: u64) -> Summary {
        summarize(&queue(requests, load, seed), &Measure { offered: Some(Rate(load * 1e6)), ..Measure::default() })
    }

    #[test]
    fn a_table_by_hand() {
        let mut summary = Summary { offered: Some(Rate(5000.0)), throughput: Some(Rate(4998.1)), ..Summary::default() };
        summary.latency.samples = 500;
        summary.latency.p50_ms = Some(12.345);
        summary.latency.p90_ms = Some(0.0625);
        summary.mean_batch = Some(31.25);
        summary.padding = Some(0.0);
        summary.utilization = Some(0.534);
        let saturated = Summary { saturated: Some(true), throughput: Some(Rate(123.45)), ..Summary::default() };
        assert_eq!(
            table(&[row("BatchMaker", &[summary]), row("a policy with a name beyond all measure", &[saturated])]),
            "\
policy                offered  throughput    p50     p90     p99  queue p99  batch  pad  busy
                        req/s       req/s     ms      ms      ms         ms   mean    %     %
BatchMaker               5000        4998  12.35  0.0625  n<1000     n<1000  31.25  0.0  53.4
a policy with a nam…  offline      123.5*      -       -       -          -      -    -     -
* saturated: more requests arrived than could be served
"
        );
    }

    #[test]
    fn replications_show_their_intervals_within_the_width() {
        let runs = [1, 2, 3, 4].map(|seed| measured(2000, 0.9, seed));
        let text = table(&[row("dynamic batching", &runs)]);
        assert!(text.lines().nth(2).unwrap().contains('±'), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
        assert!(text.contains("95 % confidence"));
    }

    #[test]
    fn programs_get_numbers_or_null() {
        let value = to_json(
            "quick",
            &[row("a", &[measured(200, 0.5, 1)]), row("b", &[summarize(&record(&[]), &Measure::default())])],
        );
        let first = &value["rows"][0];
        assert_eq!(value["scenario"], "quick");
        assert_eq!(first["completed"], json!(200));
        assert!(first["p90_ms"].is_f64());
        assert!(first["p99_ms"].is_null());
        assert!(first["saturated"].is_null());
        assert!(value["rows"][1]["throughput_rps"].is_null());
        let replicated = to_json("quick", &[row("a", &[1, 2].map(|seed| measured(200, 0.5, seed)))]);
        assert!(replicated["rows"][0]["p90_ms_ci"].is_f64());
    }

    #[test]
    fn a_row_that_is_not_valid_has_a_mark() {
        let mut summary = Summary { offered: Some(Rate(50.0)), ..Summary::default() };
        summary.lateness = super::super::lateness::Lateness::of(&[crate::units::Nanos(20_001)], Some(2.0));
        let text = table(&[row("late", &[summary.clone()])]);
        assert!(text.contains("late     50.00!") && text.contains("\n! not valid: "), "{text}");
        assert_eq!(to_json("s", &[row("late", &[summary])])["rows"][0]["valid"], json!(false));
    }

    #[test]
    fn no_rows_make_a_heading() {
        assert_eq!(table(&[]).lines().count(), 2);
    }
}
