//! The points that figures show: the one whose requests are compared, and the values of a swept key on the x axis.

use super::PlotOptions;
use super::axis::number;
use super::input::{Series, SeriesRow};
use crate::base::error::{Error, Result};
use crate::lab::results::columns::Metric;
use crate::lab::results::read::CsvRow;
use crate::lab::results::sweep_keys::{self, distinct};

/// The point whose requests are compared: the user's choice, or the highest rate that saturates no policy. Policies
/// that are saturated at every rate do not count. One with several values of a swept key has to hold with one of them.
pub fn point(series: &[Series<'_>], options: &PlotOptions) -> Result<String> {
    // Each policy with its swept keys, at any load; the load and its rate; whether it holds.
    let mut runs = Vec::new();
    for s in series {
        let of = (&*s.folder.full, s.policy, &*s.swept);
        for SeriesRow { row, whole, .. } in &s.rows {
            let rate = row.metric(Metric::Offered)?.unwrap_or(f64::NEG_INFINITY);
            runs.push((of, row.point()?, rate, !whole.saturated()?));
        }
    }
    let known = distinct(runs.iter().map(|(_, load, ..)| *load));
    if let Some(asked) = &options.point {
        if series.iter().any(|s| s.row_at(asked).is_some()) {
            return Ok(asked.clone());
        }
        let same = |point: &&&str| is_point(point, asked);
        let unknown = || {
            format!(
                "--point: no point \"{asked}\" in these results; there are {}",
                known.join(", ")
            )
        };
        return known
            .iter()
            .find(same)
            .map(ToString::to_string)
            .ok_or_else(|| Error::input(unknown()));
    }
    let at = |point| runs.iter().filter(move |(_, load, ..)| *load == point);
    let holds = |of, point: Option<&str>| {
        runs.iter().any(|(other, load, _, holds)| {
            *holds && *other == of && point.is_none_or(|point| *load == point)
        })
    };
    let rate = |point| {
        at(point)
            .map(|(_, _, rate, _)| *rate)
            .fold(f64::MIN, f64::max)
    };
    let held = known
        .iter()
        .copied()
        .filter(|point| at(*point).all(|(of, ..)| holds(*of, Some(*point)) || !holds(*of, None)));
    // Of equal rates, the first.
    let best = held.rev().max_by(|a, b| rate(*a).total_cmp(&rate(*b)));
    Ok(best.unwrap_or(known[0]).to_string())
}

/// Rates may be written in several ways.
pub fn is_point(point: &str, asked: &str) -> bool {
    point == asked
        || matches!((point.parse::<f64>(), asked.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
}

/// The part of an axis label with the point's rate or clients. Empty for a trace.
pub fn at_point(point: &str) -> String {
    let (load, keys) = point.split_at(point.find(',').unwrap_or(point.len()));
    let keys = keys.replacen(',', ", ", 1);
    match (load.parse::<f64>(), load.strip_prefix("clients-")) {
        (Ok(rate), _) => format!(" at {} requests/s{keys}", number(rate)),
        (_, Some(clients)) => format!(" with {clients} clients{keys}"),
        _ => String::new(),
    }
}

/// The label of a swept key on the x axis, with the load if there is only one. `None` without such a key.
pub fn x_label(series: &[Series<'_>], options: &PlotOptions) -> Option<String> {
    let loads = distinct(series.iter().filter_map(|s| s.load));
    let load = loads
        .first()
        .filter(|_| loads.len() == 1)
        .map_or(String::new(), |load| at_point(load));
    options.x.as_ref().map(|key| format!("{key}{load}"))
}

/// The numbers of replications of the rows that have several, each once.
pub fn replications<'r>(rows: impl Iterator<Item = CsvRow<'r>>) -> Vec<u64> {
    distinct(
        rows.filter_map(|row| row.replications().ok())
            .filter(|runs| *runs > 1),
    )
}

/// The places of the values of a swept key on an axis, ascending: numbers at their size, texts side by side.
pub fn x_values(series: &[Series<'_>]) -> Vec<(f64, String)> {
    let mut values: Vec<&String> = series
        .iter()
        .flat_map(|s| &s.rows)
        .filter_map(|row| row.x.as_ref())
        .collect();
    values.sort_by(|a, b| sweep_keys::order(a, b));
    values.dedup();
    let numbers: Option<Vec<f64>> = values
        .iter()
        .map(|value| sweep_keys::number(value))
        .collect();
    let places = numbers.unwrap_or_else(|| (0..values.len()).map(|place| place as f64).collect());
    places
        .into_iter()
        .zip(values.into_iter().cloned())
        .collect()
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
            assert_eq!(at_point(point), label);
        }
    }
}
