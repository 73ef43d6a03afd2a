use std::collections::BTreeSet;

use rand::RngExt as _;

use super::*;
use crate::core::workload::random;

#[test]
fn a_set_of_workers_equals_a_tree() {
    let mut random = random::sequence(1, 0, "workers");
    for workers in [1, 64, 65, 4096, 10_000] {
        let (mut set, mut tree) = (
            WorkerSet::of_all(workers),
            (0..workers).collect::<BTreeSet<_>>(),
        );
        for _ in 0..2000 {
            let worker = random.random_range(0..workers);
            match tree.remove(&worker) {
                true => set.remove(worker),
                false => {
                    tree.insert(worker);
                    set.insert(worker);
                }
            }
            let from = random.random_range(0..=workers);
            assert_eq!(
                set.first_from(from),
                tree.range(from..).next().copied(),
                "{workers} from {from}"
            );
            // Most are removed, as in a busy fleet.
            if let Some(first) = tree.pop_first() {
                set.remove(first);
            }
        }
    }
}

#[test]
fn a_batch_is_padded_to_the_sizes_of_the_device() {
    let runs = |batch, sizes: &[u32]| -> Vec<(u32, u32)> {
        let step = Step {
            cell: CellId(0),
            batch,
            times: 3,
            input: 0,
        };
        step.padded(sizes)
            .map(|step| (step.batch, step.times))
            .collect()
    };
    assert_eq!(runs(5, &[]), [(5, 3)]);
    assert_eq!(runs(5, &[1, 4, 8]), [(8, 3)]);
    assert_eq!(runs(4, &[1, 4, 8]), [(4, 3)]);
    // Two full batches in each of three runs.
    assert_eq!(runs(19, &[1, 4, 8]), [(8, 6), (4, 3)]);
    assert_eq!(runs(16, &[8]), [(8, 6)]);
}
