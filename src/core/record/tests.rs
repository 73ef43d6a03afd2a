//! Records built by hand, for tests.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1};

use super::RecordOptions;
use super::full::FullRecord;
use crate::base::units::Nanos;

/// The record of a run whose rows are the arrival, start and finish of each request, `u64::MAX` for never. The run ends
/// at the last finish.
pub(crate) fn record(rows: &[(u64, u64, u64)]) -> FullRecord {
    let mut record = FullRecord::new(rows.len(), 1, 1, RecordOptions::default());
    for (i, &(arrival, start, finish)) in rows.iter().enumerate() {
        record.arrival[i] = Nanos(arrival);
        record.start[i] = Nanos(start);
        record.finish[i] = Nanos(finish);
        if finish != u64::MAX {
            record.execution.end = record.execution.end.max(Nanos(finish));
        }
    }
    record
}

/// The record of Poisson arrivals at a server that takes a microsecond for each request, first come first served.
pub(crate) fn queue(requests: usize, load: f64, seed: u64) -> FullRecord {
    batch_server(requests, load, 1, |batch| 1000 * batch as u64, seed)
}

/// The record of Poisson arrivals at a server that takes all waiting requests, up to a cap, as a batch. A load of 1 is
/// the capacity with full batches.
pub(crate) fn batch_server(
    requests: usize,
    load: f64,
    cap: usize,
    time: fn(usize) -> u64,
    seed: u64,
) -> FullRecord {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mean_gap = time(cap) as f64 / cap as f64 / load;
    let mut arrivals = Vec::with_capacity(requests);
    let mut now = 0.0;
    for _ in 0..requests {
        let gap: f64 = Exp1.sample(&mut random);
        now += gap * mean_gap;
        arrivals.push(now as u64);
    }
    let mut rows = Vec::with_capacity(requests);
    let mut free = 0;
    let mut busy = 0;
    let mut batches = 0;
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
    record.execution.busy[0] = Nanos(busy);
    record.execution.task_count = batches;
    record.execution.batch_sum = requests as u64;
    record.execution.executed_cells = requests as u64;
    record.execution.useful_cells = requests as u64;
    record
}
