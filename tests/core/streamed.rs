//! A streamed record says what a full record says.

use std::fs;
use std::path::Path;

use batchlab::policy::registry::Registry;
use batchlab::scenario::Scenario;
use batchlab::summary::{Summary, Times};
use batchlab::workload::random;
use rand::RngExt as _;
use rand::seq::IndexedRandom as _;

use crate::allocations::most_allocated;
use crate::lab::simulated;

fn scenario(folder: &Path, text: &str) -> Scenario {
    let file = folder.join("s.toml");
    let costs = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/costs/v100.csv");
    fs::write(&file, text.replace("COSTS", &costs.display().to_string())).unwrap();
    Scenario::load(&file, &[], &Registry::standard()).unwrap()
}

/// Of the only point.
fn run(text: &str) -> (Summary, String) {
    let folder = tempfile::tempdir().unwrap();
    let report = simulated(&scenario(folder.path(), text), folder.path().join("out"));
    let row = &report.rows[0];
    let point = fs::read_dir(report.folder.path.join(&row.policy))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let requests = fs::read_to_string(point.path().join("requests.csv")).unwrap();
    (row.runs[0].clone(), requests)
}

/// Quantiles within 0.1 %, all else equal.
fn near(full: &Times, stream: &Times) -> bool {
    let within = |(full, stream): (Option<f64>, Option<f64>)| match (full, stream) {
        (Some(full), Some(stream)) => full <= stream && stream <= full * 1.001,
        (full, stream) => full == stream,
    };
    let quantiles = |of: &Times| [of.p50_ms, of.p90_ms, of.p95_ms, of.p99_ms, of.p999_ms];
    quantiles(full)
        .into_iter()
        .zip(quantiles(stream))
        .all(within)
        && (full.samples, full.mean_ms, full.max_ms)
            == (stream.samples, stream.mean_ms, stream.max_ms)
}

fn same(full: &Summary, stream: &Summary, case: &str) {
    for (of, full, stream) in [
        ("latency", &full.latency, &stream.latency),
        ("queue", &full.queue, &stream.queue),
        ("compute", &full.compute, &stream.compute),
    ] {
        assert!(
            near(full, stream),
            "{of}: {full:?}, as a stream {stream:?}\n{case}"
        );
    }
    let rest = |summary: &Summary| Summary {
        latency: Times::default(),
        queue: Times::default(),
        compute: Times::default(),
        classes: Vec::new(),
        ..summary.clone()
    };
    assert_eq!(rest(full), rest(stream), "{case}");
    assert_eq!(full.classes.len(), stream.classes.len(), "{case}");
    for ((name, full), (again, stream)) in full.classes.iter().zip(&stream.classes) {
        assert_eq!(name, again, "{case}");
        same(full, stream, case);
    }
}

const POLICIES: [&str; 4] = [
    "kind = 'cellular'\nmax_batch = 16",
    "kind = 'padded'\nmax_batch = 8\nwindow = '1ms'",
    "kind = 'unbatched'",
    "kind = 'late'\nmax_batch = 16",
];
const MODELS: [&str; 3] = [
    "model = 'lstm'\ndataset = 'generator:europarl-en'",
    "model = 'seq2seq'\ndataset = 'generator:europarl-de-en'",
    "model = 'tree-lstm'\ndataset = 'generator:treebank'",
];
const CLASSES: &str = "[[class]]\nname = 'gold'\nshare = 0.3\nslo = '20ms'\n[[class]]\nname = 'rest'\ndeadline = '50ms'";

/// A scenario with the keys of a full record at the end of `[output]`.
fn drawn(seed: u64) -> String {
    let mut random = random::sequence(seed, 0, "streamed");
    let (model, policy) = (
        *MODELS.choose(&mut random).unwrap(),
        POLICIES.choose(&mut random).unwrap(),
    );
    // Padding takes sequences.
    let policy = if model.contains("tree") && policy.contains("padded") {
        POLICIES[0]
    } else {
        policy
    };
    let rate = [200, 1000, 4000].choose(&mut random).unwrap();
    let arrivals = match random.random_range(0..5) {
        0 => "process = 'offline'".into(),
        1 => "process = 'closed'\nclients = [20]\nthink = '2ms'".into(),
        2 => format!("process = 'uniform'\nrates = [{rate}]"),
        3 => format!("process = 'mmpp'\nratio = 5\nlow = '100ms'\nhigh = '30ms'\nrates = [{rate}]"),
        _ => format!("process = 'poisson'\nrates = [{rate}]"),
    };
    let classes = if random.random() { CLASSES } else { "" };
    let bound = if random.random() {
        "max_waiting = 50"
    } else {
        ""
    };
    let warmup = ["'none'", "'10%'", "37", "'auto'"]
        .choose(&mut random)
        .unwrap();
    let requests = [1, 30, 500, 2500].choose(&mut random).unwrap();
    let workers = random.random_range(1..4);
    format!(
        "name = 's'\nseed = {seed}\n[workload]\n{model}\nhidden = 1024\nrequests = {requests}\n[arrivals]\n{arrivals}\n\
         [device]\nworkers = {workers}\ncosts = 'COSTS'\n{bound}\n[metrics]\nslo = '30ms'\nwarmup = {warmup}\n{classes}\n\
         [[policy]]\n{policy}\n[output]\ntasks = false\n"
    )
}

#[test]
fn a_stream_says_what_a_full_record_says() {
    for seed in 0..120 {
        let text = drawn(seed);
        let (full, rows) = run(&text);
        let (stream, logged) = run(&format!("{text}record = 'stream'\nlog_every = 7\n"));
        same(&full, &stream, &text);
        let every = |(number, row): (usize, &str)| (number % 7 == 0).then(|| row.to_string());
        let (header, rows) = rows.split_once('\n').unwrap();
        let expected: Vec<String> = rows.lines().enumerate().filter_map(every).collect();
        let (again, logged) = logged.split_once('\n').unwrap();
        assert_eq!(
            (again, logged.lines().collect::<Vec<_>>()),
            (header, expected.iter().map(|row| &**row).collect())
        );
    }
}

#[test]
fn the_memory_of_a_stream_does_not_grow_with_its_requests() {
    let text = |requests: u32| {
        format!(
            "name = 's'\n[workload]\nmodel = 'lstm'\nhidden = 1024\ndataset = 'generator:europarl-en'\nrequests = {requests}\n\
             [arrivals]\nprocess = 'poisson'\nrates = [4000]\n[device]\ncosts = 'COSTS'\n[[policy]]\nkind = 'cellular'\n\
             max_batch = 64\n[output]\nrecord = 'stream'\ntasks = false\n"
        )
    };
    let [(_, short), (_, long)] =
        [100_000, 400_000].map(|requests| most_allocated(|| run(&text(requests))));
    assert!(
        long < short + 1_000_000,
        "{short} bytes for 100,000 requests, {long} for 400,000"
    );
}
