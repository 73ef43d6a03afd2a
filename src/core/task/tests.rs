use std::collections::BTreeSet;

use rand::RngExt as _;

use super::*;
use crate::core::workload::random;

#[test]
fn a_set_of_workers_equals_a_tree() {
    let mut random = random::sequence(1, 0, "workers");
    for workers in [1, 64, 65, 4096, 10_000] {
        let mut set = WorkerSet::all(workers);
        let mut tree: BTreeSet<usize> = (0..workers).collect();
        for _ in 0..2000 {
            let worker = random.random_range(0..workers);
            if tree.remove(&worker) {
                set.remove(worker);
            } else {
                tree.insert(worker);
                set.insert(worker);
            }
            let from = random.random_range(0..=workers);
            assert_eq!(
                set.first_from(from),
                tree.range(from..).next().copied(),
                "{workers} from {from}"
            );
            // Most workers are removed, as in a busy fleet.
            if let Some(first) = tree.pop_first() {
                set.remove(first);
            }
        }
    }
}

#[test]
fn a_batch_is_padded_to_the_sizes_of_the_device() {
    assert_eq!(padded(5, &[]), [(5, 3)]);
    assert_eq!(padded(5, &[1, 4, 8]), [(8, 3)]);
    assert_eq!(padded(4, &[1, 4, 8]), [(4, 3)]);
    // Two full batches in each of three runs.
    assert_eq!(padded(19, &[1, 4, 8]), [(8, 6), (4, 3)]);
    assert_eq!(padded(16, &[8]), [(8, 6)]);
}

/// The batch and the times of each step that three runs of a batch become.
fn padded(batch: u32, sizes: &[u32]) -> Vec<(u32, u32)> {
    let step = Step {
        cell: CellId(0),
        batch,
        times: 3,
        input: 0,
    };
    let steps = step.pad(sizes);
    steps.map(|step| (step.batch, step.times)).collect()
}
