//! Requests per second of the whole simulation: the loop from the first arrival to the last completion, and the summary.
//!
//! Drawing the workload is not timed. Loads are 90 % of what the device can serve, unless said otherwise.

mod common;

use std::path::Path;
use std::time::Duration;

use batchlab::policy::cellular::Cellular;
use batchlab::policy::dvabatch::DvaBatch;
use batchlab::policy::merged::Merged;
use batchlab::policy::padded::Padded;
use batchlab::policy::registry::Settings;
use batchlab::policy::values::PerCell;
use batchlab::policy::vllm::Vllm;
use batchlab::summary::warmup::Warmup;
use batchlab::summary::{Measure, summarize};
use batchlab::workload::model::Model;
use common::{Case, fingerprint};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

const REQUESTS: usize = 100_000;
/// LSTM cells per second in batches of 512, with the gathering: 512 / (784 + 117) µs.
const CELLS_PER_SECOND: f64 = 512.0 / 901e-6;
/// The mean length of the Europarl sentences.
const MEAN_LENGTH: f64 = 24.6;

/// What DVABatch serves of ResNet152 at most in a second, by `scenarios/devices/titan-rtx.toml`: an offline run's throughput.
const RESNET_PEAK: f64 = 584.4;

/// A network of the repository.
fn network(name: &str) -> Model {
    let in_repository = |file: &str| Ok(Path::new(env!("CARGO_MANIFEST_DIR")).join(file));
    Model::open(name, &in_repository).expect("the network is there")
}

/// One bench: what is simulated, and the hash of what has to come out.
struct Bench {
    name: &'static str,
    model: Model,
    dataset: &'static str,
    workers: usize,
    rate: f64,
    policy: Box<dyn Settings>,
    expected: u64,
}

fn benches() -> Vec<Bench> {
    let europarl = "traces/europarl-en.csv";
    let lstm = |name, workers, rate, policy, expected| Bench {
        name,
        model: Model::Lstm,
        dataset: europarl,
        workers,
        rate,
        policy,
        expected,
    };
    let peak = CELLS_PER_SECOND / MEAN_LENGTH;
    let cellular = || Box::new(Cellular::default());
    let chain = |name, dataset, length: f64, expected| Bench {
        dataset,
        ..lstm(
            name,
            1,
            0.9 * CELLS_PER_SECOND / length,
            cellular(),
            expected,
        )
    };
    let seq2seq = Cellular {
        max_batch: PerCell::Each(
            [("encoder".to_string(), 512), ("decoder".to_string(), 256)].into(),
        ),
        ..Cellular::default()
    };
    let tree = |name, rate, policy, expected| Bench {
        name,
        model: Model::TreeLstm,
        dataset: "generator:treebank",
        workers: 1,
        rate,
        policy,
        expected,
    };
    vec![
        lstm("cellular", 1, 0.9 * peak, cellular(), 0x749c_715a_3408_eece),
        lstm(
            "cellular, 4 workers",
            4,
            0.9 * 4.0 * peak,
            cellular(),
            0x9d37_fab7_545b_c833,
        ),
        lstm(
            "padded",
            1,
            0.6 * peak,
            Box::<Padded>::default(),
            0x347b_cd42_57bf_97cb,
        ),
        lstm(
            "merged",
            1,
            0.1 * peak,
            Box::<Merged>::default(),
            0x2f34_476b_84dc_7042,
        ),
        chain("chains of 24", "constant:24", 24.0, 0xacb0_a271_dcec_1a8a),
        chain(
            "chains of 240",
            "constant:240",
            240.0,
            0x3f65_ebc4_5445_a95c,
        ),
        chain(
            "chains of 2400",
            "constant:2400",
            2400.0,
            0x615c_6f81_c522_bab4,
        ),
        Bench {
            model: Model::Seq2Seq,
            dataset: "traces/europarl-de-en.csv",
            ..lstm(
                "seq2seq",
                1,
                4500.0,
                Box::new(seq2seq),
                0x916f_c924_aa19_2004,
            )
        },
        Bench {
            name: "dvabatch, four stages",
            model: network("dnn:scenarios/networks/resnet152.csv"),
            dataset: "constant:fixed",
            workers: 1,
            rate: 0.9 * RESNET_PEAK,
            policy: Box::<DvaBatch>::default(),
            expected: 0xdbe3_1db0_c78b_8300,
        },
        tree(
            "trees",
            2500.0,
            Box::new(Cellular {
                max_batch: PerCell::All(64),
                ..Cellular::default()
            }),
            0x6546_05cd_9f2f_ba3e,
        ),
        Bench {
            name: "vllm",
            model: network("llm:scenarios/llms/llama-2-7b.toml"),
            dataset: "generator:azure-conversation",
            workers: 1,
            rate: 5.0,
            policy: Box::<Vllm>::default(),
            expected: 0xec09_15c0_df30_4470,
        },
        tree(
            "trees, merged",
            1200.0,
            Box::<Merged>::default(),
            0x8cfa_945c_d334_aa92,
        ),
    ]
}

fn simulation(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("simulation");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(3))
        .throughput(Throughput::Elements(REQUESTS as u64));
    for bench in benches() {
        let case = Case::new(
            bench.model,
            bench.dataset,
            REQUESTS,
            bench.workers,
            &*bench.policy,
        );
        let arrivals = case.arrivals(bench.rate);
        let record = case.run(case.ready(), &arrivals);
        assert_eq!(
            fingerprint(&record),
            bench.expected,
            "{}: requests finish at other times",
            bench.name
        );
        let measure = Measure {
            warmup: Warmup::Mser5,
            ..Measure::default()
        };
        group.bench_function(bench.name, |b| {
            b.iter_batched(
                || case.ready(),
                |ready| {
                    let record = case.run(ready, &arrivals);
                    (summarize(&record, &measure), record)
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(all, simulation);
criterion_main!(all);
