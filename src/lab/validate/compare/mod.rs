//! Compares two runs of one trace: by how much each metric differs, and whether that exceeds the differences among the
//! runs of A (docs/METRICS.md).

pub mod report;
pub mod side;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use self::side::{Batches, ComparedPoint, Side};
use crate::base::error::{Error, Result};
use crate::base::units::{Nanos, RequestId};
use crate::core::summary::Summary;
use crate::core::summary::stats::prediction;
use crate::lab::results::columns::{COMPARED, Metric};
use crate::lab::results::logs::RequestLine;
use crate::lab::results::summary::is_repeated;
use crate::lab::usability::{Usability, is_too_wide};

/// The settings that determine the requests. The dataset's path may differ.
const SAME: [&str; 6] = [
    "/seed",
    "/scenario/workload/model",
    "/scenario/workload/requests",
    "/scenario/workload/max_length",
    "/scenario/workload/time_scale",
    "/scenario/arrivals/process",
];

/// The keys of the arrivals that are loads, and the process, which is compared first. All other keys determine the
/// requests.
const OTHERS: [&str; 3] = ["rates", "clients", "process"];

/// A comparison of two results folders.
#[derive(Debug)]
pub struct Comparison {
    /// The folder that is the reference.
    pub a: Side,
    pub b: Side,
    /// The points that both folders have, in the order of A.
    pub places: Vec<ComparedPoint>,
    pub rows: Vec<ComparisonRow>,
    pub notes: Vec<String>,
    /// Whether the verdicts of the rows can be used.
    pub usability: Usability,
}

/// What a row compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    Metric(Metric),
    /// The distribution of a cell type's batch sizes.
    Batches(String),
}

impl Compared {
    /// The column of summary.csv, or `batches_ks:CELL`.
    pub fn name(&self) -> String {
        match self {
            Compared::Metric(metric) => metric.name().into(),
            Compared::Batches(cell) => format!("batches_ks:{cell}"),
        }
    }
}

/// One metric of a point in both folders.
#[derive(Clone, Debug)]
pub struct ComparisonRow {
    pub place: ComparedPoint,
    pub metric: Compared,
    /// The mean over A's runs; for two simulations, over as many first runs as both have. `None` for a distribution.
    pub a: Option<f64>,
    /// The mean over B's runs, chosen in the same way.
    pub b: Option<f64>,
    /// The smallest and the largest value of A's runs.
    pub range: Option<(f64, f64)>,
    /// The numbers of runs of A and B.
    pub runs: (usize, usize),
    /// The difference in percent of A; for distributions, their distance in percentage points.
    pub difference: Option<f64>,
    /// The half-width of the 95 % prediction interval of one more run of A, in percent of A; for distributions, the
    /// largest distance of a run of A from its other runs. `None` with a single run.
    pub spread: Option<f64>,
    /// Whether both folders are of simulations.
    pub simulated: bool,
    /// Whether a real run of the point is not valid.
    pub late: bool,
}

/// Whether B differs from A by more than runs of A differ from each other. Single runs of two simulations of the same
/// requests need no spread: they are equal or differ. This is unknown without a second run of A, without a figure, if a
/// real run is not valid, or if runs of A differ too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Verdict {
    /// inside the spread of A
    Inside,
    /// outside
    Outside,
    /// equal
    Equal,
    /// differ
    Differs,
    /// unknown
    Unknown,
}

impl ComparisonRow {
    /// The verdict on the row. Equal values are inside any spread.
    pub fn verdict(&self) -> Verdict {
        match (self.difference, self.spread) {
            _ if self.late => Verdict::Unknown,
            (Some(0.0), None) if self.simulated => Verdict::Equal,
            (Some(_), None) if self.simulated => Verdict::Differs,
            (Some(0.0), _) => Verdict::Inside,
            (_, Some(spread)) if is_too_wide(spread) => Verdict::Unknown,
            (Some(difference), Some(spread)) if difference.abs() <= spread => Verdict::Inside,
            (Some(_), Some(_)) => Verdict::Outside,
            _ => Verdict::Unknown,
        }
    }
}

/// Compares two results folders. Fails for a folder without results, different requests, or no common policy and point.
pub fn compare(a: &Path, b: &Path) -> Result<Comparison> {
    let a = Side::open(a)?;
    let b = Side::open(b)?;
    same_settings(&a, &b)?;
    let (places, alone): (Vec<ComparedPoint>, Vec<ComparedPoint>) = a
        .places
        .iter()
        .cloned()
        .partition(|place| b.places.contains(place));
    if places.is_empty() {
        return Err(Error::input(format!(
            "{} and {} have no policy and point in common; the first has {}, the second {}",
            a.results.path.display(),
            b.results.path.display(),
            list_points(&a.places),
            list_points(&b.places)
        )));
    }
    same_arrivals(&a, &b, &places)?;
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    let mut warmups_differ = 0;
    let mut not_valid = 0;
    let paired = a.is_simulated() && b.is_simulated();
    for place in &places {
        let mut of_a = runs(&a, &b, place)?;
        if is_repeated(&of_a) {
            of_a.truncate(1);
        }
        let of_b = runs(&b, &a, place)?;
        warmups_differ += usize::from(of_a[0].warmup != of_b[0].warmup);
        let late = of_a.iter().chain(&of_b).any(is_invalid);
        not_valid += usize::from(late);
        let first = rows.len();
        rows.extend(COMPARED.map(|metric| metric_row(place, metric, &of_a, &of_b, paired)));
        rows.extend(batch_rows(
            place,
            (&a, of_a.len()),
            (&b, of_b.len()),
            paired,
        )?);
        for row in &mut rows[first..] {
            row.late = late;
        }
    }
    let only_in_b: Vec<ComparedPoint> = b
        .places
        .iter()
        .filter(|place| !places.contains(place))
        .cloned()
        .collect();
    for (side, alone) in [(&a, alone), (&b, only_in_b)] {
        if !alone.is_empty() {
            notes.push(format!(
                "only in {}: {}",
                side.results.path.display(),
                list_points(&alone)
            ));
        }
    }
    if warmups_differ > 0 {
        notes.push(format!(
            "at {warmups_differ} of {} points the warm-ups of A and B leave out different requests; with a number for \
             metrics.warmup both leave out the same",
            places.len()
        ));
    }
    for side in [&a, &b] {
        let path = side.results.path.display();
        let costs = side.setting("/not_usable").as_array();
        for why in costs.into_iter().flatten().filter_map(Value::as_str) {
            notes.push(format!("{path}: costs that are not usable: {why}"));
        }
    }
    let mut usability = Usability::new("the comparison is");
    usability.judge_lateness(not_valid, places.len());
    usability.judge_spreads(rows.iter().map(|row| row.spread));
    if !paired && rows.iter().all(|row| row.spread.is_none()) {
        let path = a.results.path.display();
        usability.refuse(
            format!("{path} has one run of each point, so there is no verdict"),
            "--repeats 5 (or --replications 5 in a simulation) gives it a spread",
        );
    }
    Ok(Comparison {
        a,
        b,
        places,
        rows,
        notes,
        usability,
    })
}

fn is_invalid(run: &Summary) -> bool {
    run.lateness
        .is_some_and(|lateness| lateness.valid == Some(false))
}

/// The runs that can be compared. Each simulated run draws its own requests, so only the first has the requests of a
/// real run.
fn runs(results: &Side, other: &Side, place: &ComparedPoint) -> Result<Vec<Summary>> {
    let mut runs = results.runs(place)?;
    if results.is_simulated() && !other.is_simulated() {
        runs.truncate(1);
    }
    Ok(runs)
}

/// Compares the settings that determine the requests.
fn same_settings(a: &Side, b: &Side) -> Result<()> {
    let arrivals = [a, b]
        .into_iter()
        .filter_map(|side| side.setting("/scenario/arrivals").as_object());
    let keys: BTreeSet<&String> = arrivals.flat_map(|arrivals| arrivals.keys()).collect();
    let arrivals = keys
        .into_iter()
        .filter(|key| !OTHERS.contains(&key.as_str()));
    let differing: Vec<String> = SAME
        .into_iter()
        .map(String::from)
        .chain(arrivals.map(|key| format!("/scenario/arrivals/{key}")))
        .map(|pointer| (a.setting(&pointer), b.setting(&pointer), pointer))
        .filter(|(a, b, _)| a != b)
        .map(|(a, b, pointer)| {
            let shown = |value: &Value| {
                if value.is_null() {
                    "not given".into()
                } else {
                    value.to_string()
                }
            };
            let key = pointer
                .trim_start_matches("/scenario/")
                .trim_start_matches('/')
                .replace('/', ".");
            format!("{key} is {} there and {} here", shown(a), shown(b))
        })
        .collect();
    if !differing.is_empty() {
        return Err(other_requests(a, b, &differing.join(", ")));
    }
    match (a.lengths(), b.lengths()) {
        (Some(of_a), Some(of_b)) if of_a != of_b => Err(other_requests(
            a,
            b,
            "the lengths of the requests (lengths.csv) are not the same",
        )),
        _ => Ok(()),
    }
}

/// Compares the arrivals. Every policy replays the same trace, so one log of each point is enough. In a closed loop,
/// arrivals depend on the system, so they are not compared.
fn same_arrivals(a: &Side, b: &Side, places: &[ComparedPoint]) -> Result<()> {
    let mut seen = BTreeSet::new();
    for place in places
        .iter()
        .filter(|place| !place.point.starts_with("clients-"))
    {
        if seen.contains(&place.point) {
            continue;
        }
        let log = |side: &Side| side.results.log::<RequestLine>(&place.policy, &place.point);
        let (Some(mut of_a), Some(mut of_b)) = (log(a)?, log(b)?) else {
            continue;
        };
        seen.insert(&place.point);
        loop {
            let arrival = |request: RequestLine| (request.id, request.arrival_ns);
            match (of_a.read()?.map(arrival), of_b.read()?.map(arrival)) {
                (None, None) => break,
                (one, other) if one == other => {}
                (one, other) => {
                    let text =
                        |(id, at): (RequestId, Nanos)| format!("request {id} at {} ns", at.0);
                    let shown = |request: Option<_>| request.map_or("nothing more".into(), text);
                    let what = format!(
                        "at {} the log has {} there and {} here",
                        place.point,
                        shown(one),
                        shown(other)
                    );
                    return Err(other_requests(a, b, &what));
                }
            }
        }
    }
    Ok(())
}

fn other_requests(a: &Side, b: &Side, what: &str) -> Error {
    Error::input(format!(
        "{} did not serve the same requests as {}: {what}; run the same scenario with the same seed on both backends",
        b.results.path.display(),
        a.results.path.display()
    ))
}

/// A list of points, such as `A at 100, 200; B at 100`.
fn list_points(places: &[ComparedPoint]) -> String {
    let of_policy = |places: &[&ComparedPoint]| {
        let points: Vec<&str> = places.iter().map(|place| &*place.point).collect();
        format!("{} at {}", places[0].policy, points.join(", "))
    };
    let mut places: Vec<&ComparedPoint> = places.iter().collect();
    places.sort_by_key(|place| &place.policy);
    let each: Vec<String> = places
        .chunk_by(|a, b| a.policy == b.policy)
        .map(of_policy)
        .collect();
    if each.is_empty() {
        "none".into()
    } else {
        each.join("; ")
    }
}

/// Compares a metric. If the sides are `paired`, their n-th runs have the same requests, so that only the runs that
/// both sides have are compared.
fn metric_row(
    place: &ComparedPoint,
    metric: Metric,
    a: &[Summary],
    b: &[Summary],
    paired: bool,
) -> ComparisonRow {
    // A mean over only the runs that have a value would be biased.
    let values = |runs: &[Summary]| {
        runs.iter()
            .map(|run| metric.value(run))
            .collect::<Option<Vec<f64>>>()
    };
    let common = if paired {
        a.len().min(b.len())
    } else {
        usize::MAX
    };
    let mean = |values: &Vec<f64>| {
        let taken = &values[..common.min(values.len())];
        taken.iter().sum::<f64>() / taken.len() as f64
    };
    let of_a = values(a);
    let of_b = values(b);
    let mean_a = of_a.as_ref().map(mean);
    let mean_b = of_b.as_ref().map(mean);
    let percent = |part: f64| mean_a.filter(|a| *a != 0.0).map(|a| 100.0 * part / a);
    let several = of_a.as_ref().filter(|values| values.len() > 1);
    ComparisonRow {
        place: place.clone(),
        metric: Compared::Metric(metric),
        a: mean_a,
        b: mean_b,
        range: several.and_then(|v| {
            v.iter()
                .copied()
                .reduce(f64::min)
                .zip(v.iter().copied().reduce(f64::max))
        }),
        runs: (a.len(), b.len()),
        difference: mean_a.zip(mean_b).and_then(|(a, b)| percent(b - a)),
        spread: several
            .and_then(|values| prediction(values))
            .and_then(|interval| percent(interval.half_width)),
        simulated: paired,
        late: false,
    }
}

/// Compares the batch sizes of each cell type that either side has run. There is no row if a side has no log.
fn batch_rows(
    place: &ComparedPoint,
    a: (&Side, usize),
    b: (&Side, usize),
    paired: bool,
) -> Result<Vec<ComparisonRow>> {
    let common = if paired { a.1.min(b.1) } else { usize::MAX };
    let read = |(results, runs): (&Side, usize)| {
        (0..runs)
            .map(|run| results.batches(place, run))
            .collect::<Result<Vec<_>>>()
    };
    let of_a = read(a)?;
    let of_b = read(b)?;
    let logged: Vec<_> = of_b.into_iter().flatten().collect();
    if of_a[0].is_none() || logged.is_empty() {
        return Ok(Vec::new());
    }
    let all_runs_logged = of_a.iter().all(Option::is_some);
    let of_a: Vec<BTreeMap<String, Batches>> = of_a.into_iter().flatten().collect();
    let cells: BTreeSet<&String> = of_a
        .iter()
        .chain(&logged)
        .flat_map(BTreeMap::keys)
        .collect();
    let row = |cell: &String| {
        let of_cell = |runs: &[BTreeMap<String, Batches>]| {
            runs.iter()
                .map(|run| run.get(cell).cloned().unwrap_or_default())
                .collect::<Vec<Batches>>()
        };
        let of_a = of_cell(&of_a);
        let of_b = of_cell(&logged);
        let from_others = |run: usize| {
            let others = of_a.iter().enumerate().filter(|(other, _)| *other != run);
            distance(&of_a[run], &pool(others.map(|(_, batches)| batches)))
        };
        let spread = (all_runs_logged && of_a.len() > 1)
            .then(|| (0..of_a.len()).map(from_others).fold(0.0, f64::max));
        let difference = distance(
            &pool(of_a.iter().take(common)),
            &pool(of_b.iter().take(common)),
        );
        ComparisonRow {
            place: place.clone(),
            metric: Compared::Batches(cell.clone()),
            a: None,
            b: None,
            range: None,
            runs: (of_a.len(), of_b.len()),
            difference: Some(100.0 * difference),
            spread: spread.map(|share| 100.0 * share),
            simulated: paired,
            late: false,
        }
    };
    Ok(cells.into_iter().map(row).collect())
}

/// The sum of the batches of several runs.
fn pool<'b>(runs: impl Iterator<Item = &'b Batches>) -> Batches {
    let mut sum = Batches::new();
    runs.flatten()
        .for_each(|(batch, cells)| *sum.entry(*batch).or_default() += cells);
    sum
}

/// The Kolmogorov-Smirnov distance between distributions of cells over batch sizes. An empty distribution is at
/// distance 1 from any other.
fn distance(a: &Batches, b: &Batches) -> f64 {
    let all_a: f64 = a.values().sum();
    let all_b: f64 = b.values().sum();
    if all_a == 0.0 || all_b == 0.0 {
        return if all_a == all_b { 0.0 } else { 1.0 };
    }
    let sizes: BTreeSet<&u64> = a.keys().chain(b.keys()).collect();
    let mut below_a = 0.0;
    let mut below_b = 0.0;
    let mut largest = 0.0f64;
    for size in sizes {
        below_a += a.get(size).unwrap_or(&0.0);
        below_b += b.get(size).unwrap_or(&0.0);
        largest = largest.max((below_a / all_a - below_b / all_b).abs());
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_are_as_far_apart_as_their_shares() {
        let counts = |tasks: &[(u64, u64)]| {
            tasks
                .iter()
                .map(|(batch, tasks)| (*batch, *batch as f64 * *tasks as f64))
                .collect::<Batches>()
        };
        let even = counts(&[(1, 4), (4, 1)]); // Half of its cells in batches of one.
        assert_eq!(distance(&even, &counts(&[(1, 40), (4, 10)])), 0.0);
        assert_eq!(distance(&even, &counts(&[(1, 2), (2, 1), (4, 1)])), 0.25);
        assert_eq!(distance(&even, &counts(&[(8, 3)])), 1.0);
        let most = counts(&[(u64::MAX, u64::MAX), (u64::MAX - 1, u64::MAX)]);
        assert_eq!((distance(&most, &most), distance(&even, &most)), (0.0, 1.0));
        assert_eq!(
            (
                distance(&even, &counts(&[])),
                distance(&counts(&[]), &counts(&[]))
            ),
            (1.0, 0.0)
        );
    }

    fn run(mean: f64, p99: Option<f64>) -> Summary {
        let mut summary = Summary::default();
        (summary.latency.mean_ms, summary.latency.p99_ms) = (Some(mean), p99);
        summary
    }

    #[test]
    fn a_difference_is_judged_by_the_spread_of_the_runs_of_a() {
        let place = ComparedPoint {
            policy: "p".into(),
            point: "100".into(),
            ..ComparedPoint::default()
        };
        let a = [run(9.0, Some(1.0)), run(10.0, None), run(11.0, Some(1.0))];
        let row =
            |metric, a: &[Summary], b| metric_row(&place, metric, a, &[run(b, Some(2.0))], false);
        let inside = row(Metric::Mean, &a, 14.9);
        assert_eq!(
            (inside.a, inside.b, inside.range),
            (Some(10.0), Some(14.9), Some((9.0, 11.0)))
        );
        // t(0.975; 2) = 4.303, and the standard deviation is 1: 4.303 · √(1 + 1/3) = 4.968.
        assert!(
            (inside.spread.unwrap() - 49.68).abs() < 0.01
                && (inside.difference.unwrap() - 49.0).abs() < 1e-9
        );
        assert_eq!(inside.verdict(), Verdict::Inside);
        assert_eq!(row(Metric::Mean, &a, 5.0).verdict(), Verdict::Outside);
        assert_eq!(
            row(Metric::P99, &a, 10.0).verdict(),
            Verdict::Unknown,
            "one run of A has no p99"
        );
        assert_eq!(
            row(Metric::Mean, &a[..1], 9.1).verdict(),
            Verdict::Unknown,
            "a single run has no spread"
        );
        assert_eq!(
            row(Metric::Mean, &a[..1], 9.0).verdict(),
            Verdict::Inside,
            "no difference at all"
        );
        let paired = metric_row(&place, Metric::Mean, &a, &[run(9.0, None)], true);
        assert_eq!(
            (paired.a, paired.range),
            (Some(9.0), inside.range),
            "one run of each, and the spread of all"
        );
    }
}
