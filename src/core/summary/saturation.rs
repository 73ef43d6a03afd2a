//! Whether a system kept up with its load. docs/METRICS.md states the rule.

use super::order::OrderedRecord;
use crate::base::units::Nanos;
use crate::core::record::histogram::DurationHistogram;
use crate::core::record::presence::Presence;

/// The number of standard deviations of a random walk that counts as growth.
const SIGNIFICANCE: f64 = 3.0;
/// A run that is called "not saturated" would show an overload of this fraction more often than not.
const VISIBLE_OVERLOAD: f64 = 0.1;
/// The smallest number of arrivals for which there is an outcome.
const FEWEST_ARRIVALS: u64 = 200;
/// A quarter of the arrival period must last this many service times, as the number in the system oscillates with the
/// batches and grows at the start.
const SERVICES_IN_A_QUARTER: u64 = 3;
/// A time that is longer than the wait for the next batch, in service times.
const SERVICES_IN_A_LONG_WAIT: u64 = 2;

/// Whether the number in the system grew steadily while requests arrived, more than a random walk would. `None` if the
/// run is too short to tell.
pub(super) fn is_saturated(presence: &Presence) -> Option<bool> {
    let (first, last) = presence.arrivals()?;
    let period = (last - first).0;
    let quarter = period / 4;
    if presence.requests < FEWEST_ARRIVALS || quarter == 0 {
        return None;
    }
    let service = median(&presence.first_services, presence.part)?;
    // A great overload shows even in a short period: the last requests waited longer than the whole period.
    let last_wait = median(&presence.last_waits, presence.part);
    if last_wait.is_some_and(|wait| wait > period && wait > SERVICES_IN_A_LONG_WAIT * service) {
        return Some(true);
    }
    if quarter < SERVICES_IN_A_QUARTER * service {
        return None;
    }
    // The mean number in the system in each quarter of the arrivals.
    let mut quarters = Vec::with_capacity(4);
    for ends in presence.quarters.windows(2) {
        let [(sum_before, from), (sum, to)] = [ends[0], ends[1]];
        if from == to {
            return None;
        }
        quarters.push((sum - sum_before) as f64 / (to - from).0 as f64);
    }
    let [_, second, third, fourth] = quarters.try_into().ok()?;
    let gaps = (presence.requests - 1) as f64;
    let mean_gap = period as f64 / gaps;
    let variation = (presence.squares as f64 / gaps / mean_gap.powi(2) - 1.0)
        .max(0.0)
        .sqrt();
    grows([second, third, fourth], presence.requests as f64, variation)
}

/// What the rule needs of a full record, or `None` without arrivals.
pub(super) fn presence(run: &OrderedRecord<'_>) -> Option<Presence> {
    let order = &run.order;
    if order.is_empty() {
        return None;
    }
    let mut presence = Presence::new(order.len() as u64);
    let bounds = presence
        .bounds
        .map(|rank| run.arrival(order[rank as usize]));
    // Each request adds its time in the system to the sums of all bounds that it has left by. Only the differences
    // between neighbouring sums are kept, so that a request seldom changes more than one.
    let mut steps = [0; 6];
    let mut add = |from: usize, to: usize, time: u64| {
        steps[from] += i128::from(time);
        steps[to] -= i128::from(time);
    };
    let mut latest = None;
    // The bounds up to the arrival, at which the request is not in the system.
    let mut passed = 0;
    for (rank, &request) in order.iter().enumerate() {
        let arrival = run.arrival(request);
        let departure = run.departures.get(request as usize).0.0;
        while bounds.get(passed).is_some_and(|bound| *bound <= arrival) {
            passed += 1;
        }
        let mut next = passed;
        while next < bounds.len() && bounds[next] < departure {
            add(next, next + 1, bounds[next] - arrival);
            next += 1;
        }
        add(next, bounds.len(), departure - arrival);
        let gap = u128::from(arrival - latest.unwrap_or(arrival));
        presence.squares += gap * gap;
        latest = Some(arrival);
        if let Some(spans) = run.spans(request) {
            presence.add_served(rank as u64, spans.queue, spans.compute);
        }
    }
    let mut sum = 0;
    let sums = steps.map(|step| {
        sum += step;
        sum as u128
    });
    presence.latest = Nanos(bounds[4]);
    presence.quarters = sums.into_iter().zip(bounds.map(Nanos)).collect();
    Some(presence)
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

/// The median of the times of this number of requests, or `None` if fewer than half of them were served.
fn median(times: &DurationHistogram, requests: u64) -> Option<u64> {
    if times.len() == 0 || 2 * times.len() < requests {
        return None;
    }
    Some(times.value_at(0.5))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::record::full::FullRecord;
    use crate::core::record::tests::{batch_server, queue, record};

    fn verdict(record: &FullRecord) -> Option<bool> {
        is_saturated(&presence(&OrderedRecord::new(record))?)
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
