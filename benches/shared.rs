//! Completions per second of the simulated device alone, on one stream and on four that share it.
//!
//! Each stream has two tasks, and gets another for each that is done, so that every completion is an event of its own. Batches are drawn from 1
//! to 512, which take and demand what `scenarios/costs/v100.csv` says.

use std::path::PathBuf;
use std::time::Duration;

use batchlab::backend::Backend;
use batchlab::cost::table::{CostTable, Overhead, TableCosts};
use batchlab::sim;
use batchlab::task::{Step, Task};
use batchlab::units::{CellId, Nanos, StreamId, TaskId, WorkerId};
use batchlab::workload::model::Model;
use batchlab::workload::random;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rand::RngExt as _;

const TASKS: u64 = 100_000;

/// Streams, and the hash of what has to come out.
const STREAMS: [(u16, u64); 4] = [
    (1, 0x1a11_edfd_5814_015c),
    (2, 0xa25f_91e6_4fb9_46c7),
    (4, 0x77c8_6e03_e19f_08a8),
    (16, 0x73d0_154e_8bef_2cd5),
];

/// Runs all tasks and hashes when they are done.
fn run(backend: &mut dyn Backend, streams: u16, batches: &[u32]) -> u64 {
    let mut submitted = 0;
    let mut stream_of = Vec::with_capacity(batches.len());
    let mut submit = |backend: &mut dyn Backend, stream_of: &mut Vec<u16>, stream: u16| {
        let Some(batch) = batches.get(submitted as usize) else {
            return;
        };
        let steps = [Step {
            cell: CellId(0),
            batch: *batch,
            times: 1,
            input: 0,
        }];
        let task = Task::whole_requests(WorkerId(0), &steps, &[], 1);
        backend.submit(
            TaskId(submitted),
            &Task {
                stream: StreamId(stream),
                ..task
            },
            None,
        );
        stream_of.push(stream);
        submitted += 1;
    };
    (0..2 * streams).for_each(|number| submit(backend, &mut stream_of, number % streams));
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    while let Some(done) = backend.wait(None) {
        hash = (hash ^ done.finish.0).wrapping_mul(0x0100_0000_01b3);
        let stream = stream_of[done.task.index()];
        submit(backend, &mut stream_of, stream);
    }
    hash
}

fn device() -> TableCosts {
    let costs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scenarios/costs/v100.csv");
    let table = CostTable::read(&costs).expect("the table is there");
    table
        .costs_for(
            &Model::Lstm.cell_types(),
            Overhead {
                task: Some(Nanos::ZERO),
                ..Overhead::default()
            },
        )
        .expect("the table has the cell")
}

fn shared(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("shared");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(3))
        .throughput(Throughput::Elements(TASKS));
    let mut rng = random::sequence(1, 0, "batches");
    let batches: Vec<u32> = (0..TASKS).map(|_| rng.random_range(1..=512)).collect();
    let device = device();
    for (streams, expected) in STREAMS {
        let ready = || sim::backend(1, streams, device.clone());
        let hash = run(&mut *ready(), streams, &batches);
        assert_eq!(
            hash, expected,
            "{streams} streams: tasks finish at other times ({hash:#018x})"
        );
        group.bench_function(format!("streams: {streams}"), |b| {
            b.iter_batched(
                ready,
                |mut backend| run(&mut *backend, streams, &batches),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(all, shared);
criterion_main!(all);
