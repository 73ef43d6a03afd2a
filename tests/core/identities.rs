//! Exact identities, without statistics: arithmetic of offline runs, and relations between runs.

use crate::lab::{Device, Run, policy};
use batchlab::cost::table::Overhead;
use batchlab::record::RecordOptions;
use batchlab::record::full::FullRecord;
use batchlab::units::Nanos;
use batchlab::workload::random;
use batchlab::workload::shape::Shape;
use rand::RngExt as _;

const PADDED: &str =
    "kind = 'padded'\nturn = 'batch'\nbucket_width = 100\npad_to = 'longest'\nmax_batch = 4";

fn offline(device: &Device, policy_text: &str, lengths: &[u32]) -> FullRecord {
    let requests = device.requests(lengths.iter().map(|n| Shape::Chain(*n)));
    device.run(
        &*policy(policy_text),
        &requests,
        &vec![Nanos::ZERO; lengths.len()],
        RecordOptions::default(),
    )
}

/// N requests of T steps in batches of B take (N/B)·T·H(B), however the tasks are submitted.
#[test]
fn the_makespan_of_equal_requests_does_not_depend_on_the_policy() {
    let device = Device::new(
        "lstm",
        1,
        "lstm,1,1000\nlstm,3,1700\nlstm,4,1850",
        Overhead::default(),
    );
    for text in [
        PADDED,
        "kind = 'merged'\nmax_batch = 4",
        "kind = 'cellular'\nmax_batch = 4\nmax_tasks = 1",
        "kind = 'cellular'\nmax_batch = 4\nmax_tasks = 5",
    ] {
        let record = offline(&device, text, &[7; 24]);
        assert_eq!(record.execution.end, Nanos(24 / 4 * 7 * 1850), "{text}");
        assert_eq!(record.execution.busy, [record.execution.end], "{text}");
        assert_eq!(
            (
                record.execution.executed_cells,
                record.execution.useful_cells
            ),
            (24 * 7, 24 * 7),
            "{text}"
        );
    }
}

/// Padded to the longest of each four, the waste is 1 - sum of lengths / sum of batch · longest. Cellular batching has
/// none.
#[test]
fn padding_wastes_what_it_must() {
    let device = Device::new("lstm", 1, "lstm,1,1000", Overhead::default());
    let lengths = [3, 9, 1, 4, 6, 6, 6, 6, 20, 1, 1, 2, 8];
    let useful: u64 = lengths.iter().map(|n| u64::from(*n)).sum();
    let padded: u64 = lengths
        .chunks(4)
        .map(|batch| batch.len() as u64 * u64::from(*batch.iter().max().unwrap()))
        .sum();
    let record = offline(&device, PADDED, &lengths);
    assert_eq!(
        (
            record.execution.executed_cells,
            record.execution.useful_cells
        ),
        (padded, useful)
    );
    let record = offline(&device, "kind = 'cellular'\nmax_batch = 4", &lengths);
    assert_eq!(
        (
            record.execution.executed_cells,
            record.execution.useful_cells
        ),
        (useful, useful)
    );
}

/// Requests far apart do not wait and are not batched: a request takes the sum of its cells, and padded batching runs
/// the rest of its bucket.
#[test]
fn far_apart_all_policies_agree() {
    for workers in 1..=3 {
        for (text, bucket) in [
            ("kind = 'immediate'", 1),
            ("kind = 'merged'\nmax_batch = 8", 1),
            ("kind = 'cellular'\nmax_batch = 8", 1),
            ("kind = 'padded'\nbucket_width = 1\nmax_batch = 8", 1),
            ("kind = 'padded'\nbucket_width = 4\nmax_batch = 8", 4),
        ] {
            let pairs: [(u64, u64); 5] = [(3, 5), (1, 1), (8, 2), (7, 9), (4, 4)];
            let trace: Vec<String> = pairs
                .iter()
                .zip(0..)
                .map(|((s, t), i)| format!("{} seq2seq:{s}>{t}", 1000 * i))
                .collect();
            let run = Run {
                model: "seq2seq".into(),
                workers,
                policy: text.parse().unwrap(),
                task_ns: None,
                gather_ns: None,
                launch_ns: None,
                costs: "encoder,1,10\nencoder,2,11\ndecoder,1,13\ndecoder,2,15".into(),
                trace: trace.join("\n"),
                classes: Default::default(),
            };
            let record = run.run();
            for (id, (source, target)) in pairs.into_iter().enumerate() {
                assert_eq!(record.start[id], record.arrival[id], "{text}");
                let latency = record.finish[id] - record.arrival[id];
                assert_eq!(
                    latency,
                    Nanos(10 * source.next_multiple_of(bucket) + 13 * target),
                    "{text}"
                );
            }
        }
    }
}

/// Requests of one cell, one task at a time: cellular and padded batching are the same policy.
#[test]
fn on_single_cells_cellular_and_padded_are_the_same() {
    let device = Device::new(
        "lstm",
        2,
        "lstm,1,1000\nlstm,6,1500",
        Overhead {
            task: Some(Nanos(100)),
            ..Overhead::default()
        },
    );
    let requests = device.requests(vec![Shape::Chain(1); 2_000]);
    let arrivals = random_arrivals(3, 2_000, 300);
    let cellular = policy("kind = 'cellular'\nmax_tasks = 1\nmax_batch = 8");
    let padded = policy("kind = 'padded'\nturn = 'batch'\nbucket_width = 1\nmax_batch = 8");
    let one = device.run(
        &*cellular,
        &requests,
        &arrivals,
        RecordOptions {
            tasks: true,
            ..RecordOptions::default()
        },
    );
    let other = device.run(
        &*padded,
        &requests,
        &arrivals,
        RecordOptions {
            tasks: true,
            ..RecordOptions::default()
        },
    );
    assert_eq!(one.execution.tasks, other.execution.tasks);
    assert_eq!((one.start, one.finish), (other.start, other.finish));
}

/// Without a delay, the two closed batches of a single instance are two more with fixed members.
#[test]
fn closed_batches_of_one_instance_are_two_more_ahead() {
    let device = Device::new(
        "lstm",
        1,
        "lstm,1,1000\nlstm,3,1700\nlstm,4,1850",
        Overhead::default(),
    );
    for (seed, ahead) in (0..30).zip([0, 1, 3].into_iter().cycle()) {
        let mut rng = random::sequence(seed, 0, "closed");
        let requests = device.requests((0..300).map(|_| Shape::Chain(rng.random_range(1..=9))));
        let arrivals = random_arrivals(seed, 300, 5_000);
        let run = |text: String| {
            device.run(
                &*policy(&text),
                &requests,
                &arrivals,
                RecordOptions::default(),
            )
        };
        let triton = "kind = 'triton'\nmax_batch = 4";
        let open = run(format!("{triton}\nahead = {}", ahead + 2));
        for closed in [PADDED, triton] {
            let closed = run(format!("{closed}\nahead = {ahead}\nversion = '21.10'"));
            assert_eq!(
                (&closed.start, &closed.finish),
                (&open.start, &open.finish),
                "seed {seed}"
            );
        }
    }
}

/// If every time is seven times as long, overheads and windows included, every latency is seven times as long. With one
/// stage and one set of buffers DVABatch neither stretches nor splits: it is a dynamic batcher with a window.
#[test]
fn a_network_in_one_stage_is_batched_as_a_whole() {
    let lstm = Device::new(
        "lstm",
        2,
        "lstm,1,1000\nlstm,3,1700\nlstm,4,1850",
        Overhead::default(),
    );
    let rows = "A,1,70\nA,4,100\nB,1,40\nB,4,160\nC,1,10\nC,4,30\nD,1,20\nD,4,20";
    let network = Device::new(
        "dnn:tests/schedules/four-fixed-operators.csv",
        2,
        rows,
        Overhead::default(),
    );
    for seed in 0..50 {
        let mut rng = random::sequence(seed, 0, "shapes");
        let chains: Vec<Shape> = (0..200)
            .map(|_| Shape::Chain(rng.random_range(1..=40)))
            .collect();
        let window = [0, 300, 20_000][rng.random_range(0..3)];
        let staged = "kind = 'dvabatch'\npolicy = 'load'\nmax_batch = 4\ncomp_wait = '0ns'\nbuffer_pairs = 1";
        for (device, shapes, stages, longest) in [
            (&lstm, chains, "steps = 40", 20_000),
            (&network, vec![Shape::Fixed; 200], "stages = 1", 150),
        ] {
            let requests = device.requests(shapes);
            let arrivals = random_arrivals(seed, 200, longest);
            let run = |text: &str| {
                device.run(
                    &*policy(text),
                    &requests,
                    &arrivals,
                    RecordOptions::default(),
                )
            };
            let whole = run(&format!("{PADDED}\nwindow = '{window}ns'"));
            let staged = run(&format!("{staged}\n{stages}\nwindow = '{window}ns'"));
            assert_eq!(
                (&staged.start, &staged.finish),
                (&whole.start, &whole.finish),
                "seed {seed}, {stages}"
            );
            assert_eq!(
                (staged.execution.end, staged.execution.executed_cells),
                (whole.execution.end, whole.execution.executed_cells),
                "seed {seed}, {stages}"
            );
        }
    }
}

#[test]
fn scaling_all_times_scales_all_latencies() {
    for (model, kind) in [
        ("lstm", "kind = 'cellular'\nmax_batch = 6\nmin_batch = 2"),
        (
            "seq2seq",
            "kind = 'cellular'\nmax_batch = { encoder = 6, decoder = 3 }",
        ),
        ("tree-lstm", "kind = 'cellular'\nmax_batch = 6"),
        (
            "lstm",
            "kind = 'padded'\nbucket_width = 3\nmax_batch = 6\nwindow = '<40>ns'",
        ),
        (
            "seq2seq",
            "kind = 'padded'\nbucket_width = 3\nmax_batch = 6\npad_to = 'longest'",
        ),
        ("tree-lstm", "kind = 'merged'\nmax_batch = 6"),
        ("seq2seq", "kind = 'immediate'"),
    ] {
        for workers in [1, 3] {
            let once = scaled(model, kind, workers, 1);
            let seven = scaled(model, kind, workers, 7);
            let times = |all: &[Nanos]| all.iter().map(|at| *at * 7).collect::<Vec<_>>();
            assert_eq!(times(&once.start), seven.start, "{model}, {kind}");
            assert_eq!(times(&once.finish), seven.finish, "{model}, {kind}");
        }
    }
}

/// About three hundred requests at a load that makes them wait, with every time `k` times as long.
fn scaled(model: &str, kind: &str, workers: usize, k: u64) -> FullRecord {
    let mut rng = random::sequence(5, 0, model);
    let shape = |rng: &mut batchlab::workload::random::RandomSequence| match model {
        "lstm" => format!("chain:{}", rng.random_range(1..12)),
        "seq2seq" => format!(
            "seq2seq:{}>{}",
            rng.random_range(1..9),
            rng.random_range(1..9)
        ),
        _ => [
            "tree:0",
            "tree:3 3 0",
            "tree:5 5 6 6 7 7 0",
            "tree:2 3 0",
            "tree:4 4 4 0",
        ][rng.random_range(0..5)]
        .into(),
    };
    let trace: Vec<String> = random_arrivals(4, 300, 40)
        .iter()
        .map(|at| format!("{} {}", at.0 * k, shape(&mut rng)))
        .collect();
    // A row for each batch, and integer slopes after the last: nothing is rounded.
    let row = |cell: &str, base: u64| -> Vec<String> {
        (1..=8)
            .map(|batch| format!("{cell},{batch},{}", k * (base + batch * (batch + 1))))
            .collect()
    };
    let cells: &[(&str, u64)] = match model {
        "lstm" => &[("lstm", 20)],
        "seq2seq" => &[("encoder", 15), ("decoder", 22)],
        _ => &[("leaf", 9), ("internal", 25)],
    };
    let costs: Vec<String> = cells
        .iter()
        .flat_map(|(cell, base)| row(cell, *base))
        .collect();
    let run = Run {
        model: model.into(),
        workers,
        policy: kind.replace("<40>", &(40 * k).to_string()).parse().unwrap(),
        task_ns: Some(3 * k),
        gather_ns: Some(5 * k),
        launch_ns: Some(7 * k),
        costs: costs.join("\n"),
        trace: trace.join("\n"),
        classes: Default::default(),
    };
    run.run()
}

/// Arrivals with gaps up to `longest`.
fn random_arrivals(seed: u64, count: usize, longest: u64) -> Vec<Nanos> {
    let mut rng = random::sequence(seed, 0, "arrivals");
    let mut at = 0;
    (0..count)
        .map(|_| {
            at += rng.random_range(0..=longest);
            Nanos(at)
        })
        .collect()
}

/// Chunks of k steps of sequences whose lengths are multiples of k equal single steps, k times as long, of sequences of
/// a k-th of the length.
#[test]
fn chunks_of_whole_multiples_are_longer_steps() {
    let rng = &mut random::sequence(7, 0, "chunks");
    for k in 1..=6 {
        for workers in 1..=3 {
            for tasks in [1, 3] {
                let times = [(1, 90), (2, 97), (5, 139)];
                let costs = |k: u64| {
                    times
                        .map(|(batch, ns)| format!("lstm,{batch},{}\n", k * ns))
                        .concat()
                };
                let overhead = Overhead {
                    task: Some(Nanos(11)),
                    gather: Some(Nanos(7)),
                    launch: None,
                };
                let arrivals: Vec<Nanos> = (0..300)
                    .map(|_| Nanos(rng.random_range(0..200_000)))
                    .collect();
                let mut arrivals = arrivals;
                arrivals.sort();
                let lengths: Vec<u32> = (0..300).map(|_| rng.random_range(1..20)).collect();
                let run = |k: u32, cost: u64, chunk: u32| {
                    let device = Device::new("lstm", workers, &costs(cost), overhead);
                    let requests = device.requests(lengths.iter().map(|n| Shape::Chain(k * n)));
                    let text = format!(
                        "kind = 'cellular'\nmax_batch = 5\nmax_tasks = {tasks}\nchunk = {chunk}"
                    );
                    let record = device.run(
                        &*policy(&text),
                        &requests,
                        &arrivals,
                        RecordOptions::default(),
                    );
                    (record.start, record.finish, record.execution.busy)
                };
                assert_eq!(
                    run(k, 1, k),
                    run(1, u64::from(k), 1),
                    "{k}, {workers} workers, {tasks} tasks"
                );
            }
        }
    }
}
