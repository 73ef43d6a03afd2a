//! Whether more requests arrived than the system can serve.
//!
//! In an overloaded system the number of requests that are in it grows for as long as requests arrive. In one that keeps
//! up it wanders, at worst as a random walk does (just at its capacity). The rule asks for growth that no such walk would show.

use super::recorder::Recorder;
use crate::units::Nanos;

/// How many standard deviations of a random walk count as growth.
const SIGNIFICANCE: f64 = 3.0;
/// With fewer arrivals, an overload of a tenth can hide behind chance, and "not saturated" can't be said.
const FEWEST_ARRIVALS: usize = 2000;
/// The part of the requests, from the first on, that tells how long a request takes when the system has only begun to fill.
const EARLY_PART: usize = 10;

/// Whether the number in the system grew without end while requests arrived; `None` where the run is too short to tell.
///
/// `order` is the requests that arrived, in the order of arrival, and `left` says when a request left the system
/// ([`Nanos::MAX`] for never).
///
/// The arrival period is cut in four quarters with the mean numbers in the system N1 to N4. The run is saturated if
/// N4 - N2 exceeds `3 max(1, c) sqrt(n / 2)`, with n arrivals of which the gaps have a coefficient of variation c, and
/// both N3 - N2 and N4 - N3 are at least a quarter of it. If it is not, n decides between "no" and "can't tell".
pub(super) fn saturated(record: &Recorder, order: &[u32], left: impl Fn(u32) -> Nanos) -> Option<bool> {
    let arrival = |request: u32| record.arrival[request as usize].0;
    let (first, last) = (arrival(*order.first()?), arrival(*order.last()?));
    let quarter = (last - first) / 4;
    if quarter == 0 || fill_time(record, order)? > quarter {
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
    let walk = gap_variation(record, order).max(1.0) * (order.len() as f64 / 2.0).sqrt();
    let steady_growth = third - second >= growth / 4.0 && fourth - third >= growth / 4.0;
    if growth > SIGNIFICANCE * walk && steady_growth {
        Some(true)
    } else {
        (order.len() >= FEWEST_ARRIVALS).then_some(false)
    }
}

/// How long the number in the system grows merely because the first requests are not done yet: the median time from
/// start to finish of the earliest requests. `None` when fewer than half of these finished.
fn fill_time(record: &Recorder, order: &[u32]) -> Option<u64> {
    let early = &order[..order.len().div_ceil(EARLY_PART)];
    let mut times: Vec<u64> = early
        .iter()
        .map(|&request| request as usize)
        .filter(|&request| record.finish[request] != Nanos::MAX)
        .map(|request| record.finish[request].saturating_since(record.start[request]).0)
        .collect();
    if times.is_empty() || 2 * times.len() < early.len() {
        return None;
    }
    let middle = times.len() / 2;
    Some(*times.select_nth_unstable(middle).1)
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
    use super::super::records::{queue, record};
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
            (0.5, 300, None),
        ] {
            for seed in 0..20 {
                let said = verdict(&queue(requests, load, seed));
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
        let rows: Vec<_> = (0..50_000).map(|i| (i, i, i + 5000)).collect();
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
