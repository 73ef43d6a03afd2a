//! Whether more requests arrived than the system can serve.
//!
//! In an overloaded system the number of requests that are in it grows for as long as requests arrive. In one that keeps
//! up it wanders, at worst as a random walk does (just at its capacity). The rule asks for growth that no such walk would show.

use super::recorder::Recorder;
use crate::units::Nanos;

/// How many standard deviations of a random walk count as growth.
const SIGNIFICANCE: f64 = 3.0;
/// "Not saturated" can be said when an overload of this share of the load would be found more often than missed.
const VISIBLE_OVERLOAD: f64 = 0.1;
/// With fewer arrivals, nothing can be said.
const FEWEST: usize = 200;
/// A quarter of the arrival period has to be so many times as long as a request takes. A system that serves in batches
/// breathes with them, and one that has just begun to fill grows whatever the load.
const SERVICES_IN_A_QUARTER: u64 = 3;
/// A wait of so many times as long as a request takes is no wait for the next batch alone.
const SERVICES_IN_A_LONG_WAIT: u64 = 2;
/// The first and the last of this many parts of the requests tell of the beginning and of the end.
const PARTS: usize = 10;

/// Whether the number in the system grew without end while requests arrived; `None` where the run is too short to tell.
///
/// `order` is the requests that arrived, in the order of arrival, and `left` says when a request left the system
/// ([`Nanos::MAX`] for never). docs/METRICS.md states the rule.
pub(super) fn saturated(record: &Recorder, order: &[u32], left: impl Fn(u32) -> Nanos) -> Option<bool> {
    let arrival = |request: u32| record.arrival[request as usize].0;
    let (first, last) = (arrival(*order.first()?), arrival(*order.last()?));
    let quarter = (last - first) / 4;
    if order.len() < FEWEST || quarter == 0 {
        return None;
    }
    let part = order.len().div_ceil(PARTS);
    let service = median(record, &order[..part], |r| record.finish[r].saturating_since(record.start[r]))?;
    // So short a period may still tell of a great overload: what came last waited for longer than all had taken to come.
    let last_wait =
        median(record, &order[order.len() - part..], |r| record.start[r].saturating_since(record.arrival[r]));
    if last_wait.is_some_and(|wait| wait > last - first && wait > SERVICES_IN_A_LONG_WAIT * service) {
        return Some(true);
    }
    if quarter < SERVICES_IN_A_QUARTER * service {
        return None;
    }
    let mut presence = [0u128; 3];
    for &request in order {
        let (came, went) = (arrival(request), left(request).0);
        for (k, sum) in (1..).zip(&mut presence) {
            let (from, to) = (first + k * quarter, first + (k + 1) * quarter);
            *sum += u128::from(went.min(to).saturating_sub(came.max(from)));
        }
    }
    let [second, third, fourth] = presence.map(|sum| sum as f64 / quarter as f64);
    let growth = fourth - second;
    // Half of the arrivals lie between the middles of the two quarters.
    let arrivals = order.len() as f64 / 2.0;
    let chance = SIGNIFICANCE * gap_variation(record, order).max(1.0) * arrivals.sqrt();
    let lasting = third - second >= growth / 4.0 && fourth - third >= growth / 4.0;
    if growth > chance && lasting { Some(true) } else { (chance <= VISIBLE_OVERLOAD * arrivals).then_some(false) }
}

/// The median of a span of requests; `None` when fewer than half of them finished.
fn median(record: &Recorder, requests: &[u32], span: impl Fn(usize) -> Nanos) -> Option<u64> {
    let finished = |r: &usize| record.finish[*r] != Nanos::MAX;
    let mut spans: Vec<u64> = requests.iter().map(|&r| r as usize).filter(finished).map(|r| span(r).0).collect();
    if spans.is_empty() || 2 * spans.len() < requests.len() {
        return None;
    }
    let middle = spans.len() / 2;
    Some(*spans.select_nth_unstable(middle).1)
}

/// The coefficient of variation of the gaps between arrivals.
fn gap_variation(record: &Recorder, order: &[u32]) -> f64 {
    let gaps = || order.windows(2).map(|w| (record.arrival[w[1] as usize] - record.arrival[w[0] as usize]).0 as f64);
    let n = (order.len() - 1) as f64;
    let mean = gaps().sum::<f64>() / n;
    let variance = gaps().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
    variance.sqrt() / mean
}

#[cfg(test)]
mod tests {
    use super::super::records::{batch_server, queue, record};
    use super::*;

    fn verdict(record: &Recorder) -> Option<bool> {
        let order: Vec<u32> = (0..record.arrival.len() as u32).collect();
        saturated(record, &order, |request| record.finish[request as usize])
    }

    #[test]
    fn the_load_of_a_queue_decides() {
        // Poisson arrivals at one server: load, requests, what should be said.
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
                assert_eq!(said, expected, "load {load}, {requests} requests, seed {seed}");
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
                assert_eq!(said, expected, "load {load}, {requests} requests, seed {seed}");
            }
        }
    }

    #[test]
    fn a_trace_as_short_as_a_request_tells_nothing() {
        // Each request is alone on a server of its own, but none is done before the last has come.
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
        assert_eq!(verdict(&record(&[(0, never, never), (5, never, never), (9, never, never)])), None);
    }
}
