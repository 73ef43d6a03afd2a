//! Records built by hand, for tests.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1};

use super::recorder::{Keep, Recorder};
use crate::base::units::Nanos;

/// Arrival, start and finish of each request, `u64::MAX` for never. The run ends at the last finish.
pub(crate) fn record(rows: &[(u64, u64, u64)]) -> Recorder {
    let mut record = Recorder::new(rows.len(), 1, 1, Keep::default());
    for (i, &(arrival, start, finish)) in rows.iter().enumerate() {
        record.arrival[i] = Nanos(arrival);
        record.start[i] = Nanos(start);
        record.finish[i] = Nanos(finish);
        if finish != u64::MAX {
            record.end = record.end.max(Nanos(finish));
        }
    }
    record
}

/// Poisson arrivals at one server that takes a microsecond each, first come first served.
pub(crate) fn queue(requests: usize, load: f64, seed: u64) -> Recorder {
    batch_server(requests, load, 1, |batch| 1000 * batch as u64, seed)
}

/// The server takes all waiting requests, up to a cap, as a batch. A load of 1 is the capacity with full batches.
pub(crate) fn batch_server(
    requests: usize,
    load: f64,
    cap: usize,
    time: fn(usize) -> u64,
    seed: u64,
) -> Recorder {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mean_gap = time(cap) as f64 / cap as f64 / load;
    let mut now = 0.0;
    let mut next_arrival = || {
        let gap: f64 = Exp1.sample(&mut random);
        now += gap * mean_gap;
        now as u64
    };
    let arrivals: Vec<u64> = (0..requests).map(|_| next_arrival()).collect();
    let mut rows = Vec::with_capacity(requests);
    let (mut free, mut busy, mut batches) = (0, 0, 0);
    while let Some(&first) = arrivals.get(rows.len()) {
        let start = first.max(free);
        let waiting = &arrivals[rows.len()..];
        let batch = waiting
            .iter()
            .take(cap)
            .take_while(|&&arrival| arrival <= start)
            .count();
        free = start + time(batch);
        busy += time(batch);
        batches += 1;
        rows.extend(
            waiting[..batch]
                .iter()
                .map(|&arrival| (arrival, start, free)),
        );
    }
    let mut record = record(&rows);
    record.busy[0] = Nanos(busy);
    record.task_count = batches;
    record.batch_sum = requests as u64;
    record.executed_cells = requests as u64;
    record.useful_cells = requests as u64;
    record
}
