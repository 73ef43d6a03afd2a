//! Parsers on mutated files of the repository: no panic, no arithmetic that wraps (tests check it), no memory beyond a
//! bound, no input that never ends. `BATCHLAB_FUZZ=1000000` reads as many inputs with each parser instead of 2,000, and
//! `BATCHLAB_FUZZ_SEED` draws others.

use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use batchlab::cost::grnn;
use batchlab::cost::noise::NoiseRecord;
use batchlab::cost::roofline::Roofline;
use batchlab::cost::table::CostTable;
use batchlab::import::perf_analyzer::MeasuredTimes;
use batchlab::import::triton;
use batchlab::network::Spec;
use batchlab::network::weights::Weights;
use batchlab::policy::closed_batches::Version;
use batchlab::policy::registry::Registry;
use batchlab::precision::Precision;
use batchlab::results::saved_results::SavedResults;
use batchlab::scenario::Scenario;
use batchlab::validate::recording::Recording;
use batchlab::validate::results::Results;
use batchlab::workload::dnn::Dnn;
use batchlab::workload::graph_model::GraphModel;
use batchlab::workload::import::{ImportFormat, ImportOptions, read_text};
use batchlab::workload::model::Model;
use batchlab::workload::random::{self, RandomSequence};
use batchlab::workload::trace::Trace;
use batchlab::workload::treebanks::{self, Notation};
use rand::RngExt as _;

use crate::allocations::most_allocated;
use crate::lab::simulated;

const INPUTS: u64 = 2_000;
/// Files are cut off here, so that an input takes microseconds.
const LONGEST: usize = 8 << 10;
/// For one input, in bytes.
const MEMORY: usize = 256 << 20;

/// Values at which arithmetic and syntax tend to break.
const TOKENS: [&str; 32] = [
    "0",
    "-1",
    "1",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "-1e-308",
    "NaN",
    "inf",
    "1ns",
    "1e9s",
    "\"",
    "'",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    ",",
    "=",
    "\n",
    "\r\n",
    "\t",
    "#",
    "\u{feff}",
    "\0",
];

fn corpus(folders: &[&str], ending: &str) -> Vec<Vec<u8>> {
    let mut folders: Vec<PathBuf> = folders
        .iter()
        .map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))
        .collect();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            match path.is_dir() {
                true => folders.push(path),
                false if path.to_string_lossy().ends_with(ending) => files.push(path),
                false => {}
            }
        }
    }
    files.sort();
    assert!(!files.is_empty(), "no *{ending}");
    let read = |path| {
        let mut bytes = fs::read(path).unwrap();
        bytes.truncate(LONGEST);
        bytes
    };
    files.into_iter().map(read).collect()
}

/// A file of the corpus after a few edits, mostly of its numbers.
fn mutated(corpus: &[Vec<u8>], random: &mut RandomSequence) -> Vec<u8> {
    let other = &corpus[random.random_range(0..corpus.len())];
    let mut bytes = corpus[random.random_range(0..corpus.len())].clone();
    for _ in 0..random.random_range(1..6) {
        let from = random.random_range(0..=bytes.len());
        let to = (from + random.random_range(0..40)).min(bytes.len());
        let number = |from: usize| {
            let digit = |byte: &u8| byte.is_ascii_digit();
            let start = from + bytes[from..].iter().position(digit)?;
            Some(start..start + bytes[start..].iter().take_while(|byte| digit(byte)).count())
        };
        let token = TOKENS[random.random_range(0..TOKENS.len())].as_bytes();
        match random.random_range(0..8) {
            0..=2 => {
                if let Some(place) = number(from) {
                    drop(bytes.splice(place, token.iter().copied()));
                }
            }
            3 => drop(bytes.splice(from..from, token.iter().copied())),
            4 => drop(bytes.drain(from..to)),
            5 => bytes.truncate(from),
            6 => {
                let start = random.random_range(0..=other.len());
                let end = (start + random.random_range(0..200)).min(other.len());
                drop(bytes.splice(from..to, other[start..end].iter().copied()));
            }
            _ if from < bytes.len() => bytes[from] ^= 1 << random.random_range(0..8),
            _ => {}
        }
    }
    bytes
}

/// Passes mutated inputs, drawn by the parser's name, to `parse`.
fn fuzz(name: &str, corpus: &[Vec<u8>], parse: impl Fn(&[u8])) {
    let number = |key: &str, default: u64| {
        env::var(key).map_or(default, |text| text.parse().expect("a number"))
    };
    let (inputs, seed) = (
        number("BATCHLAB_FUZZ", INPUTS),
        number("BATCHLAB_FUZZ_SEED", 0),
    );
    let mut random = random::sequence(seed, 0, name);
    for input in 0..inputs {
        let bytes = mutated(corpus, &mut random);
        let (ended, memory) = most_allocated(|| catch_unwind(AssertUnwindSafe(|| parse(&bytes))));
        let shown = || {
            format!(
                "{name}, seed {seed}, input {input}:\n{}",
                String::from_utf8_lossy(&bytes)
            )
        };
        assert!(ended.is_ok(), "panic: {}", shown());
        assert!(memory <= MEMORY, "{memory} bytes: {}", shown());
    }
}

fn text(parse: impl Fn(&str)) -> impl Fn(&[u8]) {
    move |bytes| parse(&String::from_utf8_lossy(bytes))
}

#[test]
fn scenarios() {
    let registry = Registry::standard();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/fuzzed.toml");
    fuzz("scenario", &corpus(&["scenarios"], ".toml"), |bytes| {
        drop(Scenario::parse(
            String::from_utf8_lossy(bytes).into_owned(),
            &file,
            &[],
            &registry,
        ));
    });
}

#[test]
fn traces_and_imports() {
    let corpus = corpus(&["traces"], "");
    fuzz("trace", &corpus, |bytes| drop(Trace::read_from(bytes)));
    let options = ImportOptions::default();
    for format in [
        ImportFormat::Azure,
        ImportFormat::AzureLmm,
        ImportFormat::BurstGpt,
        ImportFormat::Mooncake,
        ImportFormat::Alibaba,
        ImportFormat::Csv,
        ImportFormat::Sentences,
        ImportFormat::Parents,
        ImportFormat::Treebank,
        ImportFormat::Conllu,
    ] {
        fuzz("import", &corpus, |bytes| {
            drop(read_text(bytes).and_then(|text| format.read(&text, &options)))
        });
    }
}

#[test]
fn trees() {
    let trees = [
        "(3 (2 It) (4 (2 's) (4 good)))\n(0 a)\n",
        "0 1 1 2\n",
        "1\tA\t_\t_\t_\t_\t2\t_\t_\t_\n2\tB\t_\t_\t_\t_\t0\t_\t_\t_\n\n",
    ];
    let trees = trees.map(|tree| tree.repeat(5).into_bytes());
    for notation in [
        treebanks::brackets as Notation,
        treebanks::parents,
        treebanks::conllu,
    ] {
        fuzz(
            "trees",
            &trees,
            text(|text| drop(treebanks::read(notation, text))),
        );
    }
}

#[test]
fn costs_and_devices() {
    fuzz(
        "costs",
        &corpus(&["scenarios/costs"], ".csv"),
        text(|text| drop(CostTable::parse(text, "costs.csv"))),
    );
    let devices = corpus(&["scenarios/devices"], ".toml");
    fuzz(
        "roofline",
        &devices,
        text(|text| drop(Roofline::parse(text, "device.toml", Precision::F32))),
    );
    let noise =
        b"time_ns,size,factor,ns,late_ns\n0,1,1.25,1000,\n2000,64,0.5,30000,\n2500,8,,400,-30\n900000000,2,88.5,3000000,\n"
            .to_vec();
    fuzz(
        "noise",
        &[noise],
        text(|text| drop(NoiseRecord::parse(text, "noise.csv").map(|record| record.describe()))),
    );
    fuzz(
        "grnn",
        &devices,
        text(|text| drop(grnn::DataSheet::parse(text, "device.toml"))),
    );
}

#[test]
fn networks_and_graph_rules() {
    let file = Path::new("fuzzed");
    fuzz(
        "network",
        &corpus(&["scenarios/networks"], ".csv"),
        text(|text| drop(Dnn::parse("n", file, text))),
    );
    fuzz(
        "graph",
        &corpus(&["scenarios/graphs"], ".json"),
        text(|text| drop(GraphModel::parse("g", file, text))),
    );
}

#[test]
fn weights() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    let model = Model::parse("lstm").unwrap();
    let spec = |weights| Spec {
        hidden: 8,
        embedding: 5,
        vocabulary: 11,
        seed: 1,
        weights,
    };
    let whole =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/pytorch/lstm.safetensors"))
            .unwrap();
    fuzz("weights", &[whole], |bytes| {
        fs::write(&path, bytes).unwrap();
        drop(Weights::open(&model, &spec(Some(path.clone()))));
    });
}

/// The files that `plot`, `compare`, `replay` and `explain` read.
#[test]
fn results() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/batchmaker/fig5.toml");
    let registry = Registry::standard();
    let scenario = Scenario::load(&scenario, &[], &registry).unwrap();
    let report = simulated(&scenario, folder.path().join("out"));
    let root = &report.folder.path;
    for name in ["run.json", "summary.csv", "bounds.json"] {
        let whole = fs::read(root.join(name)).unwrap();
        fuzz(name, std::slice::from_ref(&whole), |bytes| {
            fs::write(root.join(name), bytes).unwrap();
            drop(SavedResults::open(root).map(|saved| drop((saved.bounds(), saved.settings()))));
            drop(Results::open(root, &registry));
        });
        fs::write(root.join(name), whole).unwrap();
    }
    // The logs of a point, with the rounds of a real run.
    let saved = SavedResults::open(root).unwrap();
    let row = saved.rows().next().unwrap();
    let point = saved
        .file(row.policy(), row.point().unwrap(), "point.json")
        .unwrap()
        .parent()
        .unwrap()
        .to_owned();
    let cells = scenario.workload.model.cell_types();
    fs::write(
        point.join("rounds.csv"),
        "now_ns,completed,arrived\n0,,1\n9,0,2\n20,1;2,0\n",
    )
    .unwrap();
    for name in ["tasks.csv", "rounds.csv", "failures.csv", "point.json"] {
        let whole =
            fs::read(point.join(name)).unwrap_or_else(|_| b"id,at_ns,reason\n3,7,lost\n".to_vec());
        fuzz(name, std::slice::from_ref(&whole), |bytes| {
            fs::write(point.join(name), bytes).unwrap();
            drop(Recording::read(&point, &cells).map(|read| drop(read.check(Some(8)))));
            drop(Results::open(root, &registry));
        });
        fs::write(point.join(name), whole).unwrap();
    }
}

#[test]
fn imports() {
    fuzz(
        "triton",
        &corpus(&["tests/data/triton"], ".pbtxt"),
        text(|text| drop(triton::policy(text, Version::default()).map(|one| one.table()))),
    );
    let measurements = corpus(&["tests/data/triton"], ".csv");
    let read = |text: &str| {
        let mut measured = MeasuredTimes::default();
        if measured.add(text, "perf.csv", None).is_ok() && !measured.times.is_empty() {
            let table = measured.table("net").expect("there are rows");
            CostTable::parse(&table, "costs.csv").expect("what is imported can be read");
        }
    };
    fuzz("perf-analyzer", &measurements, text(read));
}
