//! The results as a table for the terminal.

use std::collections::{BTreeMap, BTreeSet};

use super::columns::{Metric, MetricUnit, decimals};
use super::summary::{MetricEstimate, SummaryRow};
use super::sweep_keys::{self, distinct};
use crate::base::units::Nanos;
use crate::core::summary::Summary;
use crate::core::summary::stats::Quantile;

/// The notes below the table. The first character of a note marks the figure: the throughput for `*`, `?` and `+`, the
/// load for `!`, any for `~`.
const SATURATED: &str =
    "* saturated: more arrived than could be served; latencies grow with the run";
const UNKNOWN: &str = "? the run is too short to tell whether it is saturated";
const ABOVE: &str = "+ above the offered rate: requests of the warm-up were served in the measured time, or more \
    requests arrived than the nominal rate";
const INVALID: &str = "! not valid: requests were handed over so late that the latencies are not those of an open loop";
const REPLICATED: &str = "± half the width of the 95 % confidence interval over the replications, in percent of the figure";
const REPEATED: &str =
    "no interval where all replications are the same, because nothing in them is random";
/// The ratio of throughput to offered rate above which a note is shown; a smaller one is due to random arrivals.
const CLEARLY_ABOVE: f64 = 1.005;

const TOO_SHORT: &str = "~ the runs are too short for an interval of this figure";
/// The number of loads for which a note gives the requests that would be enough.
const LOADS_SHOWN: usize = 4;

/// The columns to leave out if the table is wider than the terminal, the first one first.
const LESS: [&str; 6] = ["queue p99", "p90", "pad", "busy", "batch", "goodput"];

/// The width of a name in characters; longer names are cut.
const NAME_WIDTH: usize = 20;

/// The results as text. A quantile with too few samples shows the number that it needs (`n<1000`), a missing figure
/// `-`, and a saturated or invalid row has a mark. Replicated figures show 95 % half-widths as a share of the metric,
/// except the last three, which hardly vary. A second table has the classes, if there are any.
pub fn table(rows: &[SummaryRow], width: Option<usize>) -> String {
    let classes = ResultTable::class_table(rows)
        .map_or(String::new(), |table| format!("\n{}", fit(table, width)));
    fit(ResultTable::new(rows), width) + &classes
}

/// The text of a table, without columns that do not fit a terminal of this width.
fn fit(table: ResultTable, width: Option<usize>) -> String {
    let ResultTable {
        headings,
        lines,
        notes,
    } = table;
    let mut lines: Vec<Vec<String>> = headings.into_iter().chain(lines).collect();
    lines
        .iter_mut()
        .for_each(|line| line[0] = shorten(&line[0], NAME_WIDTH));
    let mut text = align(&lines);
    let mut left_out = Vec::new();
    for name in LESS {
        if text
            .lines()
            .all(|line| width.is_none_or(|width| line.chars().count() <= width))
        {
            break;
        }
        if let Some(column) = lines[0].iter().position(|heading| heading == name) {
            lines.iter_mut().for_each(|line| drop(line.remove(column)));
            text = align(&lines);
            left_out.push(name);
        }
    }
    if !left_out.is_empty() {
        text += &format!("left out on a narrow terminal: {}\n", left_out.join(", "));
    }
    notes.iter().for_each(|note| text += &format!("{note}\n"));
    text
}

/// The cells of a table, with whole names, and the notes on its marks.
pub struct ResultTable {
    /// The names of the columns, and their units below.
    pub headings: [Vec<String>; 2],
    pub lines: Vec<Vec<String>>,
    pub notes: Vec<String>,
}

impl ResultTable {
    pub fn new(rows: &[SummaryRow]) -> ResultTable {
        let swept = short_keys(rows);
        let any = |is: &dyn Fn(&SummaryRow) -> bool| rows.iter().any(is);
        let with_goodput = any(&|row| row.estimate(Metric::Goodput).value.is_some());
        let with_rejected = any(&rejects);
        let with_tokens = any(&SummaryRow::has_tokens);
        let shown = |metric: &Metric| match metric {
            Metric::Goodput => with_goodput,
            Metric::Rejected => with_rejected,
            Metric::QueueP99 | Metric::P90 => !with_tokens,
            metric => {
                metric.heading().is_some() && (with_tokens || !Metric::OF_TOKENS.contains(metric))
            }
        };
        let metrics: Vec<Metric> = Metric::EVERY.iter().copied().filter(shown).collect();
        let headings = headings(&swept, metrics.iter().filter_map(|metric| metric.heading()));
        let objectives: BTreeSet<Nanos> = rows.iter().filter_map(SummaryRow::slo).collect();
        let objectives: Vec<String> = objectives.iter().map(ToString::to_string).collect();
        let grows = if any(&grows) {
            "; - where queues grew without end, so that the run's length decides"
        } else {
            ""
        };
        let goodput = format!(
            "goodput: requests served within {}, per second{grows}",
            objectives.join(" or ")
        );
        let marked = |note: &'static str| (note, any(&|row| note_of(row) == Some(note)));
        let notes = [
            (goodput.as_str(), !objectives.is_empty()),
            marked(SATURATED),
            marked(UNKNOWN),
            marked(ABOVE),
            (INVALID, any(&is_invalid)),
            (
                REPLICATED,
                any(&|row| row.runs.len() > 1 && !row.is_repeated()),
            ),
            (REPEATED, any(&SummaryRow::is_repeated)),
        ];
        let notes = notes
            .into_iter()
            .filter(|(_, holds)| *holds)
            .map(|(note, _)| note.to_string())
            .chain(describe_too_short(rows, &metrics))
            .collect();
        ResultTable {
            headings,
            lines: rows
                .iter()
                .map(|row| cells(row, &swept, &metrics))
                .collect(),
            notes,
        }
    }

    /// The table with a line for each class of each row, or `None` without classes.
    fn class_table(rows: &[SummaryRow]) -> Option<ResultTable> {
        let swept = short_keys(rows);
        let with_rejected = rows.iter().any(rejects);
        let mut objectives: BTreeMap<String, String> = BTreeMap::new();
        let mut lines = Vec::new();
        for (row, class) in rows
            .iter()
            .flat_map(|row| row.classes().into_iter().map(move |class| (row, class)))
        {
            let arrived =
                class.estimate_by(|run| Some((run.completed + run.failed + run.rejected) as f64));
            let requests = arrived
                .value
                .map_or("-".into(), |requests| format!("{requests:.0}"));
            let within = class.within_slo().value.map_or("-".into(), percent);
            let mut line = head(row, &swept);
            line.extend([
                class.class.clone(),
                requests,
                cell(&class, Metric::P50),
                cell(&class, Metric::P99),
                within,
            ]);
            line.extend(with_rejected.then(|| cell(&class, Metric::Rejected)));
            lines.push(line);
            objectives.extend(class.slo().map(|slo| (class.class, slo.to_string())));
        }
        let rejected = with_rejected.then_some(["rej", "%"]);
        let names = [
            ["class", ""],
            ["requests", ""],
            ["p50", "ms"],
            ["p99", "ms"],
            ["within", "%"],
        ];
        let objectives = objectives
            .iter()
            .map(|(class, slo)| format!("{class} {slo}"))
            .collect::<Vec<_>>()
            .join(", ");
        let note = format!(
            "within: measured requests served within the objective of their class ({objectives})"
        );
        let mut notes = Vec::new();
        if !objectives.is_empty() {
            notes.push(note);
        }
        if lines.iter().flatten().any(|cell| cell.ends_with('~')) {
            notes.push(TOO_SHORT.into());
        }
        let headings = headings(&swept, names.into_iter().chain(rejected));
        if lines.is_empty() {
            return None;
        }
        Some(ResultTable {
            headings,
            lines,
            notes,
        })
    }
}

fn short_keys(rows: &[SummaryRow]) -> Vec<&str> {
    distinct(
        sweep_keys::keys(rows.iter().map(|row| &row.swept[..]))
            .into_iter()
            .map(sweep_keys::short_key),
    )
}

/// The headings of the policy, the swept keys, the load and these columns.
fn headings<'a>(
    swept: &[&'a str],
    columns: impl Iterator<Item = [&'a str; 2]>,
) -> [Vec<String>; 2] {
    let keys = swept.iter().map(|key| [*key, ""]);
    let all: Vec<_> = [["policy", ""]]
        .into_iter()
        .chain(keys)
        .chain([["offered", "req/s"]])
        .chain(columns)
        .collect();
    [0, 1].map(|line| all.iter().map(|names| names[line].to_string()).collect())
}

fn rejects(row: &SummaryRow) -> bool {
    row.runs.iter().any(|run| run.rejected > 0)
}

/// Whether queues grow as long as requests arrive: the row is saturated and rejects no request.
fn grows(row: &SummaryRow) -> bool {
    row.is_saturated() == Some(true) && !rejects(row)
}

fn is_invalid(row: &SummaryRow) -> bool {
    row.lateness().is_some_and(|late| late.valid == Some(false))
}

/// The offered rate, or `None` in a closed loop, whose rate is that of the answers.
fn offered_rate(row: &SummaryRow) -> Option<f64> {
    row.estimate(Metric::Offered)
        .value
        .filter(|_| !row.point.starts_with("clients-"))
}

fn is_above(row: &SummaryRow) -> bool {
    let throughput = row.estimate(Metric::Throughput).value;
    offered_rate(row)
        .zip(throughput)
        .is_some_and(|(offered, throughput)| throughput > CLEARLY_ABOVE * offered)
}

/// The note on the mark of a row's throughput.
fn note_of(row: &SummaryRow) -> Option<&'static str> {
    match row.is_saturated() {
        Some(true) => Some(SATURATED),
        Some(false) => is_above(row).then_some(ABOVE),
        // Saturation means nothing where all requests arrive at once.
        None => (row.point != "offline").then_some(UNKNOWN),
    }
}

/// The first cells of a row: the policy, the swept keys and the load.
fn head(row: &SummaryRow, swept: &[&str]) -> Vec<String> {
    let mark = if is_invalid(row) { &INVALID[..1] } else { "" };
    let offered = offered_rate(row).map_or_else(|| row.point.clone(), significant);
    let mut line = vec![row.policy.clone()];
    line.extend(swept.iter().map(|key| {
        sweep_keys::value(&row.swept, key)
            .unwrap_or_default()
            .to_string()
    }));
    line.push(format!("{offered}{mark}"));
    line
}

fn cells(row: &SummaryRow, swept: &[&str], metrics: &[Metric]) -> Vec<String> {
    let mut line = head(row, swept);
    line.extend(metrics.iter().map(|metric| {
        if *metric == Metric::Goodput && grows(row) {
            return "-".into();
        }
        let note = note_of(row).filter(|_| *metric == Metric::Throughput);
        cell(row, *metric) + note.map_or("", |note| &note[..1])
    }));
    line
}

fn cell(row: &SummaryRow, metric: Metric) -> String {
    let rejected = |run: &Summary| {
        let arrived = run.completed + run.failed + run.rejected;
        (arrived > 0).then(|| run.rejected as f64 / arrived as f64)
    };
    let estimate = if metric == Metric::Rejected {
        row.estimate_by(rejected)
    } else {
        row.estimate(metric)
    };
    let MetricEstimate {
        value: Some(value),
        half_width,
    } = estimate
    else {
        let quantile =
            quantile(metric).filter(|_| row.runs.iter().any(|run| run.latency.samples > 0));
        return quantile.map_or("-".into(), |quantile| {
            format!("n<{}", quantile.samples_needed())
        });
    };
    if metric.heading().is_some_and(|[_, unit]| unit == "%") {
        return percent(value);
    }
    if row.requests_needed(metric).is_some() {
        return format!("{}~", significant(value));
    }
    let half_width = half_width.filter(|_| metric.unit() != MetricUnit::Ratio);
    significant(value) + &half_width.map_or(String::new(), |half_width| relative(half_width, value))
}

/// The note on figures without an interval, because the runs are too short; `None` if there are none.
fn describe_too_short(rows: &[SummaryRow], metrics: &[Metric]) -> Option<String> {
    let mut loads: Vec<(&str, u64)> = Vec::new();
    for row in rows {
        let shown = |metric: &&Metric| row.estimate(**metric).value.is_some();
        let needed = metrics.iter().filter(shown);
        let Some(requests) = needed
            .filter_map(|metric| row.requests_needed(*metric))
            .max()
        else {
            continue;
        };
        match loads.iter_mut().find(|(point, _)| *point == row.point) {
            Some((_, most)) => *most = requests.max(*most),
            None => loads.push((&row.point, requests)),
        }
    }
    loads.sort_by_key(|(_, requests)| std::cmp::Reverse(*requests));
    loads.first()?;
    let mut enough = Vec::new();
    for (point, requests) in loads.iter().take(LOADS_SHOWN) {
        enough.push(format!("{} at {point}", round_up(*requests)));
    }
    let others = match loads.len().saturating_sub(LOADS_SHOWN) {
        0 => "",
        _ => ", and fewer at other loads",
    };
    Some(format!(
        "{TOO_SHORT}; about as many requests would be enough: {}{others}",
        enough.join(", ")
    ))
}

/// A number that is rounded up to two significant digits.
fn round_up(number: u64) -> u64 {
    let unit = 10u64.pow(number.max(10).ilog10() - 1);
    number.div_ceil(unit) * unit
}

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

fn quantile(metric: Metric) -> Option<Quantile> {
    match metric {
        Metric::P50 => Some(Quantile::P50),
        Metric::P90 => Some(Quantile::P90),
        Metric::P99 | Metric::QueueP99 => Some(Quantile::P99),
        _ => None,
    }
}

/// Four significant digits, or more if the whole part has more; three at least from 0.1 downwards.
pub fn significant(value: f64) -> String {
    let decimals = match value {
        0.0 => 3,
        _ => decimals(value, 4).min(decimals(value, 3).max(4)),
    };
    format!("{value:.decimals$}")
}

/// A half-width in percent of the value; empty if the value is zero.
fn relative(half_width: f64, value: f64) -> String {
    match 100.0 * half_width / value {
        percent if percent < 10.0 => format!("±{percent:.1}%"),
        percent if percent > 100.0 && percent.is_finite() => "±>100%".into(),
        percent if percent.is_finite() => format!("±{percent:.0}%"),
        _ => String::new(),
    }
}

/// A name that is cut to at most `width` characters.
pub fn shorten(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.into();
    }
    name.chars().take(width - 1).chain(['…']).collect()
}

/// Ascending numbers as ranges, such as `2`, `5-7`.
pub fn ranges(numbers: &[u32]) -> Vec<String> {
    let range = |run: &[u32]| match run {
        [first, .., last] => format!("{first}-{last}"),
        one => format!("{}", one[0]),
    };
    numbers.chunk_by(|a, b| a + 1 == *b).map(range).collect()
}

/// The heading of a column, and the function that gives its cell in a row.
pub type Heading<'a, T> = (&'a str, &'a dyn Fn(&T) -> String);

/// A table with a line of headings, then a line for each row.
pub fn tabulate<T>(rows: &[T], columns: &[Heading<'_, T>]) -> String {
    let headings = columns
        .iter()
        .map(|(heading, _)| (*heading).to_string())
        .collect();
    let line = |row: &T| columns.iter().map(|(_, cell)| cell(row)).collect();
    align(
        &std::iter::once(headings)
            .chain(rows.iter().map(line))
            .collect::<Vec<_>>(),
    )
}

/// Lines with aligned columns: the first column to the left, the others to the right. Lines may lack columns at their
/// end.
pub fn align(lines: &[Vec<String>]) -> String {
    let mut widths = Vec::new();
    for line in lines {
        widths.resize(widths.len().max(line.len()), 0);
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for line in lines {
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            text += &if column == 0 {
                format!("{cell:<width$}")
            } else {
                format!("  {cell:>width$}")
            };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::summary::to_json;
    use super::*;
    use crate::base::units::Rate;
    use crate::core::record::tests::{queue, record};
    use crate::core::summary::validity::Lateness;
    use crate::core::summary::{Measure, Summary, summarize};

    fn row(policy: &str, runs: &[Summary]) -> SummaryRow {
        let [policy, backend, point] = [policy, "sim", "offline"].map(String::from);
        SummaryRow {
            policy,
            backend,
            point,
            runs: runs.to_vec(),
            ..SummaryRow::default()
        }
    }

    fn measured(requests: usize, load: f64, seed: u64) -> Summary {
        summarize(
            &queue(requests, load, seed),
            &Measure {
                offered: Some(Rate(load * 1e6)),
                ..Measure::default()
            },
        )
    }

    #[test]
    fn a_table_by_hand() {
        let mut summary = Summary {
            offered: Some(Rate(5000.0)),
            throughput: Some(Rate(4998.1)),
            ..Summary::default()
        };
        summary.latency.samples = 500;
        summary.latency.p50_ms = Some(12.345);
        summary.latency.p90_ms = Some(0.0625);
        summary.mean_batch = Some(31.25);
        summary.padding = Some(0.0);
        summary.utilization = Some(0.534);
        let saturated = Summary {
            saturated: Some(true),
            throughput: Some(Rate(123.45)),
            ..Summary::default()
        };
        assert_eq!(
            table(
                &[
                    row("BatchMaker", &[summary]),
                    row("a policy with a name beyond all measure", &[saturated])
                ],
                None
            ),
            "\
policy                offered  throughput    p50     p90     p99  queue p99  batch  pad  busy
                        req/s       req/s     ms      ms      ms         ms   mean    %     %
BatchMaker               5000        4998  12.35  0.0625  n<1000     n<1000  31.25  0.0  53.4
a policy with a nam…  offline      123.5*      -       -       -          -      -    -     -
* saturated: more arrived than could be served; latencies grow with the run
"
        );
    }

    #[test]
    fn replications_show_their_intervals_within_the_width() {
        let runs = [1, 2, 3, 4].map(|seed| measured(2000, 0.9, seed));
        let text = table(&[row("dynamic batching", &runs)], None);
        assert!(text.lines().nth(2).unwrap().contains('±'), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 110),
            "{text}"
        );
        assert!(text.contains("95 % confidence"));
    }

    #[test]
    fn runs_that_are_too_short_have_no_interval_but_a_length() {
        let run = |p99, independent| {
            let mut run = Summary {
                completed: 20_000,
                independent: Some(independent),
                ..Summary::default()
            };
            run.latency.p50_ms = Some(1.0 + p99 / 100.0);
            run.latency.p99_ms = Some(p99);
            run
        };
        let mut short = row("short", &[run(20.0, 100.0), run(24.0, 150.0)]);
        short.point = "900".into();
        let long = row("long", &[run(20.0, 250.0), run(24.0, 250.0)]);
        let text = table(&[short, long], None);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[2].contains("1.220±25%") && lines[2].contains("22.00~"),
            "{text}"
        );
        assert!(lines[3].contains("22.00±>100%"), "{text}");
        // The harmonic mean is 120, and 20,000 (250 / 120)² is 86,806.
        let note = "~ the runs are too short for an interval of this figure; about as many requests would be enough: \
            87000 at 900";
        assert!(lines.contains(&note), "{text}");
    }

    #[test]
    fn replications_that_are_the_same_have_no_interval() {
        let summary = measured(2000, 0.5, 1);
        let text = table(&[row("trace", &[summary.clone(), summary])], None);
        assert!(!text.contains('±'), "{text}");
        assert!(
            text.contains("no interval where all replications are the same"),
            "{text}"
        );
    }

    #[test]
    fn a_narrow_terminal_gets_fewer_columns() {
        let rows = [row(
            "dynamic batching",
            &[1, 2, 3].map(|seed| measured(2000, 0.9, seed)),
        )];
        let text = table(&rows, Some(80));
        assert!(
            text.lines().take(3).all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(
            text.contains("p99") && text.contains("\nleft out on a narrow terminal: queue p99"),
            "{text}"
        );
        assert_eq!(table(&rows, Some(200)), table(&rows, None));
    }

    #[test]
    fn programs_get_numbers_or_null() {
        let value = to_json(
            "quick",
            &[
                row("a", &[measured(200, 0.5, 1)]),
                row("b", &[summarize(&record(&[]), &Measure::default())]),
            ],
        );
        let first = &value["rows"][0];
        assert_eq!(value["scenario"], "quick");
        assert_eq!(first["completed"], json!(200));
        assert!(first["p90_ms"].is_f64());
        assert!(first["p99_ms"].is_null());
        assert!(first["saturated"].is_null());
        assert!(value["rows"][1]["throughput_rps"].is_null());
        let replicated = to_json(
            "quick",
            &[row("a", &[1, 2].map(|seed| measured(200, 0.5, seed)))],
        );
        assert!(replicated["rows"][0]["p90_ms_ci"].is_f64());
    }

    #[test]
    fn a_row_that_is_not_valid_has_a_mark() {
        let mut summary = Summary {
            offered: Some(Rate(50.0)),
            ..Summary::default()
        };
        summary.lateness = Lateness::new(&[crate::base::units::Nanos(20_001)], Some(2.0));
        let text = table(&[row("late", &[summary.clone()])], None);
        assert!(
            text.contains("late     50.00!") && text.contains("\n! not valid: "),
            "{text}"
        );
        assert_eq!(
            to_json("s", &[row("late", &[summary])])["rows"][0]["valid"],
            json!(false)
        );
    }

    #[test]
    fn a_throughput_above_the_offered_rate_has_a_mark() {
        let of = |throughput, saturated| Summary {
            offered: Some(Rate(8000.0)),
            throughput: Some(Rate(throughput)),
            saturated: Some(saturated),
            ..Summary::default()
        };
        let text = table(
            &[
                row("a", &[of(8047.0, false)]),
                row("b", &[of(8010.0, false)]),
            ],
            None,
        );
        assert!(
            text.contains(" 8047+ ") && text.contains(" 8010 "),
            "{text}"
        );
        assert!(text.contains("\n+ above the offered rate: "), "{text}");
        assert!(table(&[row("a", &[of(8047.0, true)])], None).contains(" 8047* "));
    }

    #[test]
    fn a_goodput_that_only_the_length_of_the_run_decides_is_not_shown() {
        let of = |saturated, rejected| Summary {
            slo: Some(Nanos(50_000_000)),
            goodput: Some(Rate(605.0)),
            throughput: Some(Rate(700.0)),
            saturated: Some(saturated),
            rejected,
            ..Summary::default()
        };
        let text = |saturated, rejected| table(&[row("a", &[of(saturated, rejected)])], None);
        assert!(
            !text(true, 0).contains("605")
                && text(true, 0).contains("per second; - where queues grew without end")
        );
        assert!(
            text(false, 0).contains(" 605.0 ") && text(true, 9).contains(" 605.0 "),
            "{}",
            text(true, 9)
        );
        assert!(
            !text(true, 9).contains("queues grew"),
            "a policy that turns requests away serves what it can"
        );
    }

    #[test]
    fn an_interval_wider_than_its_figure_has_no_number() {
        let run = |throughput| Summary {
            throughput: Some(Rate(throughput)),
            ..Summary::default()
        };
        let text = table(&[row("a", &[run(10.0), run(200.0)])], None);
        assert!(text.contains(" 105.0±>100%"), "{text}");
    }

    #[test]
    fn neighbours_are_a_range() {
        assert_eq!(ranges(&[2, 5, 6, 7, 9, 10]), ["2", "5-7", "9-10"]);
        assert_eq!(ranges(&[1]), ["1"]);
    }

    #[test]
    fn no_rows_make_a_heading() {
        assert_eq!(table(&[], None).lines().count(), 2);
    }
}
