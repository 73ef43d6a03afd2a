//! Records made by hand, for the tests of this folder.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1};

use super::recorder::{Keep, Recorder};
use crate::units::Nanos;

/// A record of requests that are given as arrival, start and finish, `u64::MAX` for what never came. The single worker
/// is busy until the last finish.
pub(super) fn record(rows: &[(u64, u64, u64)]) -> Recorder {
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

/// Poisson arrivals at one server that takes a microsecond for each request, first come first served.
pub(super) fn queue(requests: usize, load: f64, seed: u64) -> Recorder {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut now, mut free) = (0.0, 0);
    let rows: Vec<_> = (0..requests)
        .map(|_| {
            let gap: f64 = Exp1.sample(&mut random);
            now += gap * 1000.0 / load;
            let start = (now as u64).max(free);
            free = start + 1000;
            (now as u64, start, free)
        })
        .collect();
    let mut record = record(&rows);
    record.busy[0] = Nanos(1000 * requests as u64);
    record.task_count = requests as u64;
    record.batch_sum = requests as u64;
    record.executed_cells = requests as u64;
    record.useful_cells = requests as u64;
    record
}
