//! The points that figures show: the one whose requests are compared, and the values of a swept key on the x axis.

use std::path::Path;

use super::axis::number;
use super::folder::{Series, is_point};
use super::options::PlotOptions;
use crate::base::error::{Error, Result};
use crate::lab::results::columns::Metric;
use crate::lab::results::read::CsvRow;
use crate::lab::results::sweep_keys::{self, Swept, distinct};

/// A policy with its swept keys, at any load.
#[derive(Clone, Copy, PartialEq)]
struct Contender<'s> {
    folder: &'s Path,
    policy: &'s str,
    swept: &'s [Swept],
}

/// A run of a contender.
struct PointRun<'s> {
    contender: Contender<'s>,
    point: &'s str,
    /// The offered rate, which is negative and infinite if it is unknown.
    rate: f64,
    is_saturated: bool,
}

/// The point whose requests are compared: the user's choice, or the highest rate that saturates no policy. Policies
/// that are saturated at every rate do not count. If a policy ran with several values of a swept key, one
/// value with which it is not saturated suffices.
pub fn choose_point(series: &[Series<'_>], options: &PlotOptions) -> Result<String> {
    let runs = point_runs(series)?;
    let known = distinct(runs.iter().map(|run| run.point));
    if let Some(asked) = &options.point {
        return find_point(asked, series, &known);
    }
    let mut best: Option<(&str, f64)> = None;
    for point in &known {
        if !all_keep_up(&runs, point) {
            continue;
        }
        let rate = rate_of_point(&runs, point);
        // The first of equal rates is chosen.
        if best.is_none_or(|(_, highest)| rate.total_cmp(&highest).is_gt()) {
            best = Some((point, rate));
        }
    }
    match best {
        Some((point, _)) => Ok(point.to_string()),
        None => Ok(known[0].to_string()),
    }
}

fn point_runs<'s>(series: &'s [Series<'_>]) -> Result<Vec<PointRun<'s>>> {
    let mut runs = Vec::new();
    for s in series {
        let contender = Contender {
            folder: &s.folder.full,
            policy: s.policy,
            swept: &s.swept,
        };
        for row in &s.rows {
            runs.push(PointRun {
                contender,
                point: row.row.point()?,
                rate: row
                    .row
                    .metric(Metric::Offered)?
                    .unwrap_or(f64::NEG_INFINITY),
                is_saturated: row.whole.is_saturated()?,
            });
        }
    }
    Ok(runs)
}

/// The point that the user asks for.
fn find_point(asked: &str, series: &[Series<'_>], known: &[&str]) -> Result<String> {
    if series.iter().any(|s| s.row_at(asked).is_some()) {
        return Ok(asked.to_string());
    }
    match known.iter().find(|point| is_point(point, asked)) {
        Some(point) => Ok(point.to_string()),
        None => Err(Error::input(format!(
            "--point: no point \"{asked}\" in these results; there are {}",
            known.join(", ")
        ))),
    }
}

/// Whether each contender that has this point keeps up there, or at no point at all.
fn all_keep_up(runs: &[PointRun<'_>], point: &str) -> bool {
    runs.iter()
        .filter(|run| run.point == point)
        .all(|run| keeps_up_at(runs, run.contender, point) || !keeps_up(runs, run.contender))
}

fn keeps_up_at(runs: &[PointRun<'_>], contender: Contender<'_>, point: &str) -> bool {
    runs.iter()
        .any(|run| !run.is_saturated && run.contender == contender && run.point == point)
}

fn keeps_up(runs: &[PointRun<'_>], contender: Contender<'_>) -> bool {
    runs.iter()
        .any(|run| !run.is_saturated && run.contender == contender)
}

fn rate_of_point(runs: &[PointRun<'_>], point: &str) -> f64 {
    runs.iter()
        .filter(|run| run.point == point)
        .map(|run| run.rate)
        .fold(f64::MIN, f64::max)
}

/// The part of an axis label with the point's rate or clients. Empty for a trace.
pub fn point_label(point: &str) -> String {
    let (load, keys) = point.split_at(point.find(',').unwrap_or(point.len()));
    let keys = keys.replacen(',', ", ", 1);
    if let Ok(rate) = load.parse::<f64>() {
        format!(" at {} requests/s{keys}", number(rate))
    } else if let Some(clients) = load.strip_prefix("clients-") {
        format!(" with {clients} clients{keys}")
    } else {
        String::new()
    }
}

/// The label of a swept key on the x axis, with the load if there is only one, or `None` without such a key.
pub fn x_label(series: &[Series<'_>], options: &PlotOptions) -> Option<String> {
    let key = options.x.as_ref()?;
    let loads = distinct(series.iter().filter_map(|s| s.load));
    match loads[..] {
        [only] => Some(format!("{key}{}", point_label(only))),
        _ => Some(key.clone()),
    }
}

/// The numbers of replications of the rows that have several, each once.
pub fn replications<'r>(rows: impl Iterator<Item = CsvRow<'r>>) -> Vec<u64> {
    let numbers = rows
        .filter_map(|row| row.replications().ok())
        .filter(|runs| *runs > 1);
    distinct(numbers)
}

/// The values of a swept key on the x axis, each with its place.
pub fn x_values(series: &[Series<'_>]) -> Vec<(f64, String)> {
    let values = series
        .iter()
        .flat_map(|s| &s.rows)
        .filter_map(|row| row.x.clone());
    place_values(values.collect())
}

/// The places of values on an axis, ascending: numbers at their size, texts side by side.
pub fn place_values(mut values: Vec<String>) -> Vec<(f64, String)> {
    values.sort_by(|a, b| sweep_keys::order(a, b));
    values.dedup();
    let numbers: Option<Vec<f64>> = values
        .iter()
        .map(|value| sweep_keys::number(value))
        .collect();
    let places = match numbers {
        Some(numbers) => numbers,
        None => (0..values.len()).map(|place| place as f64).collect(),
    };
    places.into_iter().zip(values).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_names_the_load_and_the_swept_keys() {
        for (point, label) in [
            ("5000", " at 5,000 requests/s"),
            (
                "5000,device.workers=2",
                " at 5,000 requests/s, device.workers=2",
            ),
            ("clients-8", " with 8 clients"),
            ("trace", ""),
        ] {
            assert_eq!(point_label(point), label);
        }
    }
}
