//! Whether a system kept up with its load. docs/METRICS.md states the rule.

use super::order::{OrderedRecord, RequestSpans};
use crate::core::record::compact::CompactRecord;

/// The number of standard deviations of a random walk that counts as growth.
const SIGNIFICANCE: f64 = 3.0;
/// A run that is called "not saturated" would show an overload of this fraction more often than not.
const VISIBLE_OVERLOAD: f64 = 0.1;
/// The smallest number of arrivals for which there is an outcome.
const FEWEST_ARRIVALS: usize = 200;
/// A quarter of the arrival period must last this many service times, as the number in the system oscillates with the
/// batches and grows at the start.
const SERVICES_IN_A_QUARTER: u64 = 3;
/// A time that is longer than the wait for the next batch, in service times.
const SERVICES_IN_A_LONG_WAIT: u64 = 2;
/// The first and the last of this number of parts represent the beginning and the end.
const PARTS: usize = 10;

/// Whether the number in the system grew steadily while requests arrived, more than a random walk would. `None` if the
/// run is too short to tell.
pub(super) fn is_saturated(run: &OrderedRecord<'_>) -> Option<bool> {
    let order = &run.order;
    let first = run.arrival(*order.first()?);
    let last = run.arrival(*order.last()?);
    let quarter = (last - first) / 4;
    if order.len() < FEWEST_ARRIVALS || quarter == 0 {
        return None;
    }
    let part = order.len().div_ceil(PARTS);
    let service = median(run, &order[..part], |spans| spans.compute)?;
    // A great overload shows even in a short period: the last requests waited longer than the whole period.
    let last_wait = median(run, &order[order.len() - part..], |spans| spans.queue);
    if last_wait.is_some_and(|wait| wait > last - first && wait > SERVICES_IN_A_LONG_WAIT * service)
    {
        return Some(true);
    }
    if quarter < SERVICES_IN_A_QUARTER * service {
        return None;
    }
    let mut presence = [0u128; 3];
    for &request in order {
        let arrival = run.arrival(request);
        let departure = run.departures[request as usize].0.0;
        for (k, sum) in (1..).zip(&mut presence) {
            let from = first + k * quarter;
            let to = first + (k + 1) * quarter;
            *sum += u128::from(departure.min(to).saturating_sub(arrival.max(from)));
        }
    }
    grows(
        presence.map(|sum| sum as f64 / quarter as f64),
        order.len() as f64,
        gap_variation(run),
    )
}

/// The same rule for a compact record, with quarters of the arrivals instead of their time.
pub(super) fn is_compact_saturated(record: &CompactRecord) -> Option<bool> {
    let presence = &record.presence;
    let requests = record.requests();
    let service = record.whole.compute.value_at(0.5);
    // The mean number in the system and the length of each quarter.
    let mut quarters = Vec::with_capacity(4);
    for ends in presence.quarters.windows(2) {
        let [(sum_before, from), (sum, to)] = [ends[0], ends[1]];
        let length = (to - from).0;
        if length == 0 {
            return None;
        }
        quarters.push(((sum - sum_before) as f64 / length as f64, length));
    }
    let [_, second, third, fourth] = quarters.try_into().ok()?;
    if requests < FEWEST_ARRIVALS as u64 || fourth.1 < SERVICES_IN_A_QUARTER * service {
        return None;
    }
    let gaps = (requests - 1) as f64;
    let mean_gap = (presence.latest - presence.quarters[0].1).0 as f64 / gaps;
    let variation = (presence.squares as f64 / gaps / mean_gap.powi(2) - 1.0)
        .max(0.0)
        .sqrt();
    grows(
        [second, third, fourth].map(|(mean, _)| mean),
        requests as f64,
        variation,
    )
}

/// Whether the number in the system grows, given its means in the second to the fourth quarter, the number of requests,
/// and the coefficient of variation of the gaps between arrivals.
fn grows([second, third, fourth]: [f64; 3], requests: f64, variation: f64) -> Option<bool> {
    let growth = fourth - second;
    // Half of the arrivals lie between the middles of the two quarters.
    let arrivals = requests / 2.0;
    let chance = SIGNIFICANCE * variation.max(1.0) * arrivals.sqrt();
    let lasting = third - second >= growth / 4.0 && fourth - third >= growth / 4.0;
    if growth > chance && lasting {
        Some(true)
    } else if chance <= VISIBLE_OVERLOAD * arrivals {
        Some(false)
    } else {
        None
    }
}

/// The median of a time, or `None` if fewer than half of the requests finished.
fn median(
    run: &OrderedRecord<'_>,
    requests: &[u32],
    which: fn(RequestSpans) -> u64,
) -> Option<u64> {
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

/// The coefficient of variation of the gaps between arrivals.
fn gap_variation(run: &OrderedRecord<'_>) -> f64 {
    let gaps = run.order.windows(2).map(|pair| gap(run, pair));
    let n = (run.order.len() - 1) as f64;
    let mean = gaps.clone().sum::<f64>() / n;
    let variance = gaps.map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
    variance.sqrt() / mean
}

fn gap(run: &OrderedRecord<'_>, pair: &[u32]) -> f64 {
    (run.arrival(pair[1]) - run.arrival(pair[0])) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::record::full::FullRecord;
    use crate::core::record::tests::{batch_server, queue, record};

    fn verdict(record: &FullRecord) -> Option<bool> {
        is_saturated(&OrderedRecord::new(record))
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
                let outcome = verdict(&queue(requests, load, seed));
                assert_eq!(
                    outcome, expected,
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
                let outcome = verdict(&batch_server(requests, load, 512, time, seed));
                assert_eq!(
                    outcome, expected,
                    "load {load}, {requests} requests, seed {seed}"
                );
            }
        }
    }

    #[test]
    fn a_trace_as_short_as_a_request_tells_nothing() {
        // Each request has its own server, but none finishes before the last arrival.
        let rows: Vec<_> = (0..5000).map(|i| (i, i, i + 5000)).collect();
        assert_eq!(verdict(&record(&rows)), None);
        // The next trace is the same, with enough time to settle.
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
}
