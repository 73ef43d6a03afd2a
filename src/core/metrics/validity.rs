//! Whether the numbers of a run can be trusted. docs/METRICS.md states the rules.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::recorder::Recorder;
use super::stats::{Quantile, mean, quantiles};
use super::summary::RunRecord;
use crate::base::units::Nanos;

/// Requests are counted in the order of arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Warmup {
    /// The caller takes [`Warmup::Mser5`] if the load has a steady state. Without that, none.
    #[default]
    Auto,
    None,
    /// As many as [`mser5`] finds for the latencies.
    Mser5,
    /// Of the requests that arrived, from 0 up to 1.
    Share(f64),
    Requests(u32),
}

/// The result of [`mser5`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncation {
    /// The series is steady after this many samples.
    Steady(usize),
    /// Dropping up to half would still have helped, so nothing is dropped.
    NotSteady,
    /// There are too few samples to tell.
    TooFew,
}

/// Samples averaged to one point of the series.
const BATCH: usize = 5;
/// The fewest points that the rule applies to.
const FEWEST_BATCHES: usize = 10;

/// MSER-5 (White, Cobb and Spratt 2000): drops the batches of five samples whose removal minimises the standard error
/// of the mean of the rest: the smallest d up to m / 2 that minimises the sum of (y - mean)² over the m batch means
/// after the first d, divided by (m - d)².
pub fn mser5(samples: &[f64]) -> Truncation {
    let batches: Vec<f64> = samples
        .chunks_exact(BATCH)
        .map(|batch| batch.iter().sum::<f64>() / BATCH as f64)
        .collect();
    if batches.len() < FEWEST_BATCHES {
        return Truncation::TooFew;
    }
    let last = batches.len() / 2;
    let mut best = (f64::INFINITY, last);
    // From the end, so that one running mean and sum of squares (Welford's) serves every d.
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    for (d, &y) in batches.iter().enumerate().rev() {
        count += 1.0;
        let off = y - mean;
        mean += off / count;
        squares += off * (y - mean);
        let error = squares / (count * count);
        if d <= last && error <= best.0 {
            best = (error, d);
        }
    }
    // A minimum near the last candidate means that the series still falls or rises there.
    if best.1 * 10 >= last * 9 {
        Truncation::NotSteady
    } else {
        Truncation::Steady(best.1 * BATCH)
    }
}

/// Standard deviations of a random walk that count as growth.
const SIGNIFICANCE: f64 = 3.0;
/// A "not saturated" run would show an overload of this fraction more often than not.
const VISIBLE_OVERLOAD: f64 = 0.1;
/// With fewer arrivals there is no verdict.
pub(super) const FEWEST_ARRIVALS: usize = 200;
/// A quarter of the arrival period must last this many service times, as the number in the system oscillates with the
/// batches and grows at the start.
pub(super) const SERVICES_IN_A_QUARTER: u64 = 3;
/// Longer than a wait for the next batch, in service times.
const SERVICES_IN_A_LONG_WAIT: u64 = 2;
/// The first and last part of this many stand for the beginning and the end.
const PARTS: usize = 10;

/// Whether the number in the system grew steadily while requests arrived, more than a random walk would; `None` where
/// the run is too short to tell.
pub(super) fn saturated(run: &RunRecord<'_>) -> Option<bool> {
    let RunRecord {
        record,
        order,
        departures,
    } = run;
    let arrival = |request: u32| record.arrival[request as usize].0;
    let (first, last) = (arrival(*order.first()?), arrival(*order.last()?));
    let quarter = (last - first) / 4;
    if order.len() < FEWEST_ARRIVALS || quarter == 0 {
        return None;
    }
    let part = order.len().div_ceil(PARTS);
    let service = median(run, &order[..part], |[.., compute]| compute)?;
    // A great overload shows even in a short period: the last waited longer than the whole of it.
    let last_wait = median(run, &order[order.len() - part..], |[_, queue, _]| queue);
    if last_wait.is_some_and(|wait| wait > last - first && wait > SERVICES_IN_A_LONG_WAIT * service)
    {
        return Some(true);
    }
    if quarter < SERVICES_IN_A_QUARTER * service {
        return None;
    }
    let mut presence = [0u128; 3];
    for &request in order {
        let (came, went) = (arrival(request), departures[request as usize].0.0);
        for (k, sum) in (1..).zip(&mut presence) {
            let (from, to) = (first + k * quarter, first + (k + 1) * quarter);
            *sum += u128::from(went.min(to).saturating_sub(came.max(from)));
        }
    }
    grows(
        presence.map(|sum| sum as f64 / quarter as f64),
        order.len() as f64,
        gap_variation(record, order),
    )
}

/// `presence`: the mean number in the system in the second to the fourth quarter. `variation` is that of the gaps.
pub(super) fn grows(
    [second, third, fourth]: [f64; 3],
    requests: f64,
    variation: f64,
) -> Option<bool> {
    let growth = fourth - second;
    // Half of the arrivals lie between the middles of the two quarters.
    let arrivals = requests / 2.0;
    let chance = SIGNIFICANCE * variation.max(1.0) * arrivals.sqrt();
    let lasting = third - second >= growth / 4.0 && fourth - third >= growth / 4.0;
    if growth > chance && lasting {
        Some(true)
    } else {
        (chance <= VISIBLE_OVERLOAD * arrivals).then_some(false)
    }
}

/// `None` if fewer than half of the requests finished.
fn median(run: &RunRecord<'_>, requests: &[u32], which: fn([u64; 3]) -> u64) -> Option<u64> {
    let mut spans: Vec<u64> = requests
        .iter()
        .filter_map(|request| run.spans(*request).map(which))
        .collect();
    if spans.is_empty() || 2 * spans.len() < requests.len() {
        return None;
    }
    let middle = spans.len() / 2;
    Some(*spans.select_nth_unstable(middle).1)
}

/// Of the gaps between arrivals.
fn gap_variation(record: &Recorder, order: &[u32]) -> f64 {
    let gaps = || {
        order
            .windows(2)
            .map(|w| (record.arrival[w[1] as usize] - record.arrival[w[0] as usize]).0 as f64)
    };
    let n = (order.len() - 1) as f64;
    let mean = gaps().sum::<f64>() / n;
    let variance = gaps().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
    variance.sqrt() / mean
}

/// The mean lateness of a valid run, as a fraction of its median latency.
pub const LATENESS_BOUND: f64 = 0.01;

/// How late the load generator handed the measured requests to the policy. Latencies include the lateness, but delayed
/// requests are handed over together, in bursts that the trace does not have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    pub mean_us: f64,
    /// `None` with too few requests for a 99th percentile.
    pub p99_us: Option<f64>,
    pub max_us: f64,
    /// The mean as a fraction of the median latency.
    pub share: Option<f64>,
    /// Whether `share` is at most [`LATENESS_BOUND`], so that the loop is open.
    pub valid: Option<bool>,
}

impl Lateness {
    /// `None` without any request.
    pub fn of(spans: &[Nanos], median_ms: Option<f64>) -> Option<Lateness> {
        let micros = |ns: u64| ns as f64 / 1e3;
        let mut spans: Vec<u64> = spans.iter().map(|span| span.0).collect();
        let max_us = micros(spans.iter().copied().max()?);
        let mean_us = mean(&spans)? / 1e3;
        let [p99] = quantiles(&mut spans, [Quantile::P99]);
        let share = median_ms
            .filter(|median| *median > 0.0)
            .map(|median| mean_us / 1e3 / median);
        let (p99_us, valid) = (p99.map(micros), share.map(|share| share <= LATENESS_BOUND));
        Some(Lateness {
            mean_us,
            p99_us,
            max_us,
            share,
            valid,
        })
    }

    /// Means of the means and percentiles, the maximum of the maxima. Valid if all runs are, invalid if one is.
    pub fn over(runs: &[Lateness]) -> Option<Lateness> {
        let count = runs.len() as f64;
        let average = |of: fn(&Lateness) -> Option<f64>| -> Option<f64> {
            runs.iter()
                .map(of)
                .sum::<Option<f64>>()
                .map(|sum| sum / count)
        };
        let invalid = runs.iter().any(|run| run.valid == Some(false));
        let all_valid = runs.iter().all(|run| run.valid == Some(true));
        Some(Lateness {
            max_us: runs.iter().map(|run| run.max_us).reduce(f64::max)?,
            mean_us: average(|run| Some(run.mean_us))?,
            p99_us: average(|run| run.p99_us),
            share: average(|run| run.share),
            valid: if invalid {
                Some(false)
            } else {
                all_valid.then_some(true)
            },
        })
    }
}

/// Executions of a cell type outside the measured batch sizes, where costs are guesses: constant below the smallest
/// size, linear above the largest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extrapolation {
    pub cell: String,
    pub from: u32,
    pub to: u32,
    pub batches: u64,
    /// Batches smaller than any measured one.
    pub below: u64,
    /// Batches larger than any measured one.
    pub above: u64,
    pub cells: u64,
    /// Cells in batches outside the measured sizes.
    pub cells_beyond: u64,
}

impl Extrapolation {
    /// `counts[size]` are executions; `None` if all sizes are within the measured ones.
    pub fn of(cell: &str, measured: &RangeInclusive<u32>, counts: &[u64]) -> Option<Extrapolation> {
        let (from, to) = (*measured.start(), *measured.end());
        let mut sum = Extrapolation {
            cell: cell.to_string(),
            from,
            to,
            ..Extrapolation::default()
        };
        for (size, count) in counts.iter().enumerate() {
            let cells = size as u64 * count;
            sum.batches += count;
            sum.cells += cells;
            if !measured.contains(&(size as u32)) {
                sum.cells_beyond += cells;
                *(if (size as u32) < from {
                    &mut sum.below
                } else {
                    &mut sum.above
                }) += count;
            }
        }
        (sum.below + sum.above > 0).then_some(sum)
    }

    pub fn add(&mut self, other: &Extrapolation) {
        self.batches += other.batches;
        self.below += other.below;
        self.above += other.above;
        self.cells += other.cells;
        self.cells_beyond += other.cells_beyond;
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::super::tests::{batch_server, queue, record};
    use super::*;

    fn noise(n: usize, seed: u64) -> impl Iterator<Item = f64> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        (0..n).map(move |_| random.random_range(-1.0..1.0))
    }

    /// The definition, in the plainest form.
    fn statistic(samples: &[f64], d: usize) -> f64 {
        let batches: Vec<f64> = samples
            .chunks_exact(5)
            .map(|b| b.iter().sum::<f64>() / 5.0)
            .collect();
        let rest = &batches[d..];
        let mean = rest.iter().sum::<f64>() / rest.len() as f64;
        rest.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / (rest.len() as f64).powi(2)
    }

    #[test]
    fn a_transient_is_dropped_and_little_more() {
        let series: Vec<f64> = noise(2000, 3)
            .enumerate()
            .map(|(i, x)| x + if i < 100 { 20.0 } else { 0.0 })
            .collect();
        let Truncation::Steady(dropped) = mser5(&series) else {
            panic!("the series settles")
        };
        assert!((100..=150).contains(&dropped), "{dropped}");
        let least = (0..=200)
            .map(|d| statistic(&series, d))
            .fold(f64::INFINITY, f64::min);
        assert!((statistic(&series, dropped / 5) / least - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_constant_series_loses_nothing() {
        assert_eq!(mser5(&[4.0; 100]), Truncation::Steady(0));
    }

    #[test]
    fn a_series_that_grows_does_not_settle() {
        let series: Vec<f64> = noise(2000, 5)
            .enumerate()
            .map(|(i, x)| x + i as f64)
            .collect();
        assert_eq!(mser5(&series), Truncation::NotSteady);
    }

    #[test]
    fn a_short_series_says_nothing() {
        assert_eq!(mser5(&[1.0; 49]), Truncation::TooFew);
        assert_eq!(mser5(&[]), Truncation::TooFew);
        assert_eq!(mser5(&[1.0; 50]), Truncation::Steady(0));
    }

    fn verdict(record: &Recorder) -> Option<bool> {
        saturated(&RunRecord::new(record))
    }

    #[test]
    fn the_load_of_a_queue_decides() {
        for (load, requests, expected) in [
            (0.5, 10_000, Some(false)),
            (0.9, 10_000, Some(false)),
            (0.98, 100_000, Some(false)),
            (1.1, 100_000, Some(true)),
            (1.5, 10_000, Some(true)),
            (2.0, 300, Some(true)),
            (1.05, 300, None),
            (10.0, 199, None),
            (0.5, 300, None),
        ] {
            for seed in 0..20 {
                let said = verdict(&queue(requests, load, seed));
                assert_eq!(
                    said, expected,
                    "load {load}, {requests} requests, seed {seed}"
                );
            }
        }
    }

    #[test]
    fn batches_do_not_pass_for_growth() {
        let time = |batch| 9_000_000 + 20_000 * batch as u64;
        for (load, requests, expected) in [
            (0.9, 2000, None), // as long as five full batches
            (10.0, 2000, Some(true)),
            (0.9, 20_000, Some(false)),
            (1.2, 50_000, Some(true)),
            (10.0, 50_000, Some(true)),
        ] {
            for seed in 0..10 {
                let said = verdict(&batch_server(requests, load, 512, time, seed));
                assert_eq!(
                    said, expected,
                    "load {load}, {requests} requests, seed {seed}"
                );
            }
        }
    }

    #[test]
    fn a_trace_as_short_as_a_request_tells_nothing() {
        // Each request has its own server, but none is done before the last arrival.
        let rows: Vec<_> = (0..5000).map(|i| (i, i, i + 5000)).collect();
        assert_eq!(verdict(&record(&rows)), None);
        // The same with time enough to settle.
        let rows: Vec<_> = (0..100_000).map(|i| (i, i, i + 5000)).collect();
        assert_eq!(verdict(&record(&rows)), Some(false));
    }

    #[test]
    fn without_a_period_of_arrivals_nothing_can_be_said() {
        assert_eq!(verdict(&record(&[])), None);
        assert_eq!(verdict(&record(&[(3, 4, 5)])), None);
        assert_eq!(verdict(&record(&vec![(0, 5, 9); 5000])), None);
        let never = u64::MAX;
        assert_eq!(
            verdict(&record(&[
                (0, never, never),
                (5, never, never),
                (9, never, never)
            ])),
            None
        );
    }

    fn late(spans: &[u64], median_ms: Option<f64>) -> Lateness {
        let spans: Vec<Nanos> = spans.iter().copied().map(Nanos).collect();
        Lateness::of(&spans, median_ms).unwrap()
    }

    #[test]
    fn a_run_is_valid_up_to_the_bound() {
        let at_bound = late(&[0, 20_000, 10_000], Some(1.0));
        assert_eq!(
            (at_bound.mean_us, at_bound.max_us, at_bound.p99_us),
            (10.0, 20.0, None)
        );
        assert_eq!((at_bound.share, at_bound.valid), (Some(0.01), Some(true)));
        assert_eq!(late(&[0, 20_000, 10_003], Some(1.0)).valid, Some(false));
        assert_eq!(
            late(&[5], None).valid,
            None,
            "without a median there is no verdict"
        );
        assert_eq!(Lateness::of(&[], Some(1.0)), None);
        assert_eq!(late(&vec![7_000; 1000], Some(1.0)).p99_us, Some(7.0));
    }

    #[test]
    fn one_invalid_run_is_enough() {
        let (good, bad, open) = (
            late(&[1_000], Some(1.0)),
            late(&[21_000], Some(1.0)),
            late(&[2_000], None),
        );
        let both = Lateness::over(&[good, bad]).unwrap();
        assert_eq!(
            (both.mean_us, both.max_us, both.valid),
            (11.0, 21.0, Some(false))
        );
        assert!((both.share.unwrap() - 0.011).abs() < 1e-12);
        assert_eq!(Lateness::over(&[good, open]).unwrap().valid, None);
        assert_eq!(Lateness::over(&[open, bad]).unwrap().valid, Some(false));
        assert_eq!(Lateness::over(&[good, good]).unwrap().valid, Some(true));
        assert_eq!(Lateness::over(&[]), None);
    }

    #[test]
    fn sizes_beyond_the_measured_ones_are_counted() {
        let counts = [0, 7, 10, 0, 2, 1];
        assert_eq!(Extrapolation::of("lstm", &(1..=5), &counts), None);
        let found = Extrapolation::of("lstm", &(2..=4), &counts).unwrap();
        assert_eq!((found.batches, found.below, found.above), (20, 7, 1));
        assert_eq!((found.cells, found.cells_beyond), (40, 12));
        let mut twice = found.clone();
        twice.add(&found);
        assert_eq!((twice.batches, twice.cells_beyond, twice.to), (40, 24, 4));
    }
}
