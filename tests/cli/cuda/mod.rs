//! `--backend cuda` from the command line, on libraries that stand in for the driver, NVRTC and cuBLAS and run the project's kernels on
//! the CPU. All host code is the real one.

mod faults;
mod gpu_check;
mod profiles;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::desk::{Desk, Ran};
use crate::host_cuda;

/// A host with GPUs, and a small scenario to run on it.
pub struct Host {
    pub desk: Desk,
    libraries: PathBuf,
    environment: BTreeMap<String, String>,
}

impl Host {
    /// A host with two GPUs; `None` without a C++ compiler.
    pub fn new() -> Option<Host> {
        let libraries = host_cuda::driver()?;
        let desk = Desk::new();
        let text = desk
            .read("t.toml")
            .replace("[100, 200]", "[4000]")
            .replace("costs = \"costs.csv\"\n", "");
        desk.write(
            "t.toml",
            text.replace("[workload]\n", "[workload]\nhidden = 8\nvocabulary = 11\n"),
        );
        Some(
            Host {
                desk,
                libraries,
                environment: BTreeMap::new(),
            }
            .with("DEVICES", "2"),
        )
    }

    /// The same with other settings of its GPUs: see `tests/host_cuda/driver/settings.hpp`.
    pub fn with(mut self, setting: &'static str, value: &str) -> Host {
        self.environment
            .insert(format!("HOST_CUDA_{setting}"), value.into());
        self
    }

    /// The same with only these libraries.
    fn with_libraries(mut self, names: &[&str]) -> Host {
        let folder = self.desk.path("libraries");
        fs::create_dir(&folder).unwrap();
        for name in names {
            symlink(self.libraries.join(name), folder.join(name)).unwrap();
        }
        self.libraries = folder;
        // The first Python in it may have libraries.
        self.environment.insert("PATH".into(), String::new());
        self
    }

    pub fn run(&self, words: &[&str]) -> Ran {
        let mut command = self.desk.command(words);
        self.prepare(&mut command);
        command.output().expect("the program starts").into()
    }

    /// Gives a command the libraries and the settings of this host.
    fn prepare(&self, command: &mut Command) {
        command
            .env("LD_LIBRARY_PATH", &self.libraries)
            .env("BATCHLAB_CUDA_LIBRARIES", &self.libraries);
        // Only the system's libraries are searched here.
        for variable in ["CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"] {
            command.env_remove(variable);
        }
        // The cache of compiled kernels is not the user's.
        command
            .env("HOME", self.desk.path("home"))
            .env("XDG_CACHE_HOME", self.desk.path("cache"));
        command.envs(&self.environment);
    }

    /// `batchlab real t.toml --backend cuda --out out …` with all requests at once.
    fn real(&self, more: &[&str]) -> Ran {
        let fixed = ["real", "t.toml", "--backend", "cuda", "--out", "out"];
        let offline = [
            "--set",
            "arrivals={ process = 'offline' }",
            "--set",
            "workload.requests=40",
        ];
        self.run(&[&fixed[..], &offline, more].concat())
    }

    /// The same on two GPUs with all requests verified; returns their number.
    #[track_caller]
    fn verified(&self, more: &[&str]) -> u32 {
        let ran = self
            .real(&[&["--verify", "all", "--set", "device.workers=2"], more].concat())
            .ok();
        let line = ran
            .stderr
            .lines()
            .find_map(|line| line.strip_prefix("verified: "));
        let line = line.unwrap_or_else(|| panic!("{more:?}: {}", ran.stderr));
        assert!(
            line.contains(" have the CPU's results, up to rounding in "),
            "{more:?}: {line}"
        );
        line.split_once(' ').unwrap().0.parse().unwrap()
    }
}

/// Two more policies for the scenario, which has one for cells and one for whole requests.
fn every_policy(host: &Host) {
    let desk = &host.desk;
    desk.write(
        "t.toml",
        desk.read("t.toml") + "[[policy]]\nkind = \"merged\"\n[[policy]]\nkind = \"immediate\"\n",
    );
}

/// Policies for whole requests would need trees of the same shape, so trees have a second policy for cells.
const TREES: [&str; 4] = [
    "--set",
    "policy.B.kind=cellular",
    "--set",
    "policy.B.max_batch=3",
];

/// Each model with a dataset and its other settings.
const MODELS: [(&str, &str, &[&str]); 6] = [
    ("lstm", "lengths.csv", &[]),
    ("gru", "lengths.csv", &[]),
    ("seq2seq", "constant:4>5", &[]),
    ("tree-lstm", "complete-tree:5", &TREES),
    ("childsum-tree-lstm", "constant:tree:4 4 4 0", &TREES),
    (
        "childsum-tree-lstm:3",
        "constant:tree:4 4 4 5 7 7 0",
        &TREES,
    ),
];

/// The options that choose a model.
fn of_model((model, dataset, more): (&str, &str, &[&str])) -> Vec<String> {
    let sets = [
        format!("workload.model={model}"),
        format!("workload.dataset={dataset}"),
    ];
    let sets = sets.into_iter().flat_map(|set| ["--set".to_string(), set]);
    sets.chain(more.iter().map(|word| word.to_string()))
        .collect()
}

fn words(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

#[test]
fn devices_are_listed_with_their_libraries() {
    let Some(host) = Host::new() else { return };
    let said = host.run(&["devices"]).ok().stdout;
    let line = |beginning: &str| {
        said.lines()
            .find(|line| line.starts_with(beginning))
            .unwrap_or_else(|| panic!("{said}"))
    };
    for gpu in ["0", "1"] {
        assert_eq!(
            line(gpu).split_whitespace().collect::<Vec<_>>(),
            [gpu, "Host", "CUDA", "8.0", "4", "2.0", "2.0"]
        );
    }
    assert!(line("driver, CUDA").contains("12.8"), "{said}");
    assert!(
        line("NVRTC").contains("12.99") && line("cuBLAS").contains("12.99"),
        "{said}"
    );

    let said = host.run(&["devices", "--format", "json"]).ok().json();
    let said = said.as_array().map_or(&said, |lines| &lines[0]);
    assert_eq!(said["gpus"][1]["name"], "Host CUDA", "{said}");
    assert_eq!(said["gpus"].as_array().unwrap().len(), 2, "{said}");
}

#[test]
fn every_model_under_every_policy_has_right_answers() {
    let Some(host) = Host::new() else { return };
    every_policy(&host);
    for model in MODELS {
        assert_eq!(host.verified(&words(&of_model(model))), 160, "{model:?}");
    }
}

/// A listed network, served by stages on streams of their own, whole and operator by operator.
fn listed(host: &Host) {
    host.desk.write(
        "net.csv",
        "shape,tokens,12\nname,kind,count,rows,inner,columns,elements\nproject,matmul,,tokens,8,24,9\n\
         scores,batched-matmul,2,tokens,4,tokens,9\nsoftmax,memory,,,,,4*tokens*tokens\nmix,batched-matmul,2,tokens,tokens,4,9\n\
         wide,matmul,2,tokens,4,10,9\nclassify,matmul,,1,20,3,9\n",
    );
    let text = host.desk.read("t.toml");
    let (head, _) = text.split_once("[[policy]]").unwrap();
    let head = head.replace("model = \"lstm\"", "model = \"dnn:net.csv\"");
    let [staged, max_batch] = [
        "stages = [\"mix\", \"classify\"]\ncomp_wait = \"20ms\"",
        "max_batch = 4",
    ];
    let policies = [
        (
            "A",
            "dvabatch",
            format!("policy = \"load\"\n{staged}\n{max_batch}"),
        ),
        (
            "B",
            "dvabatch",
            format!(
                "policy = \"input\"\n{staged}\n{max_batch}\nbuffer_pairs = 1\nwindow = \"1ms\""
            ),
        ),
        ("C", "lazy", format!("comp_wait = \"20ms\"\n{max_batch}")),
        (
            "D",
            "padded",
            format!("{max_batch}\nbucket_width = 4\npad_to = \"bucket\""),
        ),
        (
            "E",
            "padded",
            format!("{max_batch}\nbucket_width = 12\npad_to = \"longest\""),
        ),
        ("F", "cellular", max_batch.into()),
        ("G", "merged", max_batch.into()),
        ("H", "immediate", String::new()),
    ];
    let tables = policies.map(|(label, kind, keys)| {
        format!("[[policy]]\nlabel = \"{label}\"\nkind = \"{kind}\"\n{keys}\n")
    });
    host.desk
        .write("t.toml", format!("{head}{}", tables.concat()));
}

#[test]
fn listed_networks_have_right_answers_in_stages_and_whole_and_by_operators() {
    let Some(host) = Host::new() else { return };
    listed(&host);
    let dataset = [
        "--set",
        "workload.dataset=lengths.csv",
        "--set",
        "workload.max_length=12",
    ];
    assert_eq!(host.verified(&dataset), 320);
    let streams: BTreeSet<String> = host
        .desk
        .column("out/t/A/offline/tasks.csv", "stream")
        .into_iter()
        .collect();
    assert!(
        streams.len() > 1,
        "stages have streams of their own: {streams:?}"
    );
    for precision in ["tf32", "bf16", "f16"] {
        let set = format!("device.precision={precision}");
        let more = [
            &dataset[..],
            &["--set", &set, "--set", "workload.requests=12"],
        ]
        .concat();
        assert_eq!(host.verified(&more), 96, "{more:?}");
    }
}

#[test]
fn operators_are_profiled_and_simulated() {
    let Some(host) = Host::new() else { return };
    listed(&host);
    let dataset = [
        "--set",
        "workload.dataset=lengths.csv",
        "--set",
        "workload.max_length=12",
    ];
    let fixed = [
        "profile",
        "--scenario",
        "t.toml",
        "--backend",
        "cuda",
        "--output",
        "gpu.csv",
        "-q",
    ];
    host.run(
        &[
            &fixed[..],
            &dataset,
            &["--batches", "1,4", "--inputs", "4,12", "--repeats", "1"],
        ]
        .concat(),
    )
    .ok();
    let costs = host.desk.read("gpu.csv");
    for (cell, input) in [
        ("project", "4"),
        ("project", "12"),
        ("scores", "12"),
        ("classify", ""),
        ("whole", ""),
    ] {
        for batch in [1, 4] {
            let there = |line: &str| {
                line.starts_with(&format!("{cell},{batch},"))
                    && line.ends_with(&format!(",{input}"))
            };
            assert!(costs.lines().any(there), "{cell} {input}: {costs}");
        }
    }
    // Policies and the simulator use the table.
    let costs = ["--set", "device.costs=gpu.csv"];
    assert_eq!(
        host.verified(&[&dataset[..], &costs, &["--set", "policy.A.stages=2"]].concat()),
        320
    );
    host.desk
        .run(
            &[
                &["sim", "t.toml", "-q", "--out", "simulated"][..],
                &dataset,
                &costs,
            ]
            .concat(),
        )
        .ok();
}

#[test]
fn chains_in_stages_have_right_answers() {
    let Some(host) = Host::new() else { return };
    let stages = [
        "policy.A.kind=dvabatch",
        "policy.A.steps=2",
        "policy.A.policy=input",
        "policy.A.comp_wait=20ms",
    ];
    let sets: Vec<&str> = stages.iter().flat_map(|key| ["--set", key]).collect();
    for model in ["workload.model=lstm", "workload.model=gru"] {
        assert_eq!(host.verified(&[&sets[..], &["--set", model]].concat()), 80);
    }
}

/// Persistent kernels for tasks of several steps.
const PERSISTENT: [&str; 2] = ["--set", "device.grnn=titan-v.toml"];

fn with_persistent_kernels() -> Option<Host> {
    let host = Host::new()?;
    host.desk.write(
        "titan-v.toml",
        include_str!("../../../scenarios/devices/titan-v.toml"),
    );
    Some(host)
}

#[test]
fn chunks_and_whole_requests_in_persistent_kernels_have_right_answers() {
    let Some(host) = with_persistent_kernels() else {
        return;
    };
    every_policy(&host);
    let stages =
        "[[policy]]\nkind = \"dvabatch\"\nsteps = 2\npolicy = \"input\"\ncomp_wait = \"20ms\"\n";
    host.desk.write("t.toml", host.desk.read("t.toml") + stages);
    let chunks = [&PERSISTENT[..], &["--set", "policy.A.chunk=3"]].concat();
    for model in [MODELS[0], MODELS[1]] {
        for precision in ["device.precision=f32", "device.precision=bf16"] {
            let model = of_model(model);
            let more = [&words(&model)[..], &chunks, &["--set", precision]].concat();
            assert_eq!(host.verified(&more), 200, "{model:?} {precision}");
        }
    }
    let run: Value = serde_json::from_str(&host.desk.read("out/t/run.json")).unwrap();
    assert!(
        run["device"]
            .as_str()
            .unwrap()
            .ends_with("bf16, persistent kernels by the model of Titan V"),
        "{run}"
    );
    let kernels = fs::read_dir(host.desk.path("cache/batchlab"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let kernels: Vec<String> = kernels
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    for kernel in ["grnn_lstm", "grnn_gru"] {
        assert!(
            kernels.iter().any(|name| name.starts_with(kernel)),
            "{kernel}: {kernels:?}"
        );
    }
    let rows = host.desk.rows("out/t/summary.csv");
    assert!(
        rows.iter()
            .all(|row| row["completed"] == "40" && row["failed"] == "0"),
        "{rows:?}"
    );
    host.run(&["replay", "out/t"]).ok();
}

#[test]
fn missing_persistent_kernels_are_refused() {
    let Some(host) = with_persistent_kernels() else {
        return;
    };
    let refuses = |more: &[&str], message| {
        host.real(&[&PERSISTENT[..], more].concat())
            .failed(2, message)
    };
    let trees = [
        "--set",
        "workload.model=tree-lstm",
        "--set",
        "workload.dataset=complete-tree:5",
    ];
    refuses(
        &[&trees[..], &TREES].concat(),
        "t.toml: device.grnn: persistent kernels run lstm and gru",
    );
    refuses(
        &["--set", "device.grnn=none.toml"],
        "device.grnn: no such file: none.toml",
    );
}

#[test]
fn a_network_that_no_registers_hold_runs_in_traditional_kernels() {
    let Some(host) = with_persistent_kernels() else {
        return;
    };
    let few = host
        .desk
        .read("titan-v.toml")
        .replace("registers = 65536", "registers = 64");
    host.desk.write("few.toml", few);
    every_policy(&host);
    let few = ["--set", "device.grnn=few.toml", "--set", "policy.A.chunk=3"];
    let ran = host.real(&[&["--verify", "all"], &few[..]].concat()).ok();
    assert!(
        ran.stderr.contains("verified: 160 requests"),
        "{}",
        ran.stderr
    );
    let says =
        "all steps ran in traditional kernels, not in device.grnn's: the registers of Host CUDA";
    assert!(ran.stderr.contains(says), "{}", ran.stderr);
    let run: Value = serde_json::from_str(&host.desk.read("out/t/run.json")).unwrap();
    assert!(
        run["device"]
            .as_str()
            .unwrap()
            .ends_with(", traditional kernels"),
        "{run}"
    );
    let profile = [
        "profile",
        "--scenario",
        "t.toml",
        "--backend",
        "cuda",
        "--batches",
        "1",
        "--repeats",
        "1",
    ];
    let table = host.run(&[&profile[..], &few[..2]].concat()).ok().stdout;
    assert!(
        table.contains("# no rows persistent: the registers of Host CUDA"),
        "{table}"
    );
    assert!(
        table.contains("\nlstm,1,") && !table.contains("lstm.persistent"),
        "{table}"
    );
}

#[test]
fn every_precision_has_right_answers() {
    let Some(host) = Host::new() else { return };
    for precision in ["f32", "tf32", "bf16", "f16"] {
        let set = format!("device.precision={precision}");
        for model in [MODELS[2], MODELS[4]] {
            let model = of_model(model);
            let more = [&words(&model)[..], &["--set", &set]].concat();
            assert_eq!(host.verified(&more), 80, "{more:?}");
        }
    }
}

#[test]
fn answers_do_not_depend_on_the_first_task() {
    for (seed, delay) in [("0", "100"), ("1", "0"), ("2", "50"), ("3", "0")] {
        let Some(host) = Host::new().map(|host| host.with("SEED", seed).with("DELAY_US", delay))
        else {
            return;
        };
        for model in [MODELS[1], MODELS[2], MODELS[3]] {
            let model = of_model(model);
            let more = [&words(&model)[..], &["--set", "workload.requests=12"]].concat();
            assert_eq!(host.verified(&more), 24, "seed {seed}: {model:?}");
        }
    }
}

#[test]
fn requests_arrive_while_others_run() {
    let Some(host) = Host::new() else { return };
    let more = [
        "--set",
        "arrivals={ process = 'poisson', rates = [2000] }",
        "--set",
        "workload.requests=100",
    ];
    assert_eq!(host.verified(&more), 200);
    let rounds = host.desk.rows("out/t/A/2000/rounds.csv");
    let arrived: u64 = rounds
        .iter()
        .map(|round| round["arrived"].parse::<u64>().unwrap())
        .sum();
    assert_eq!(arrived, 100);
    for row in host.desk.rows("out/t/summary.csv") {
        let counts =
            ["backend", "completed", "failed", "rejected"].map(|column| row[column].as_str());
        assert_eq!(counts, ["cuda", "100", "0", "0"]);
    }
    let run: Value = serde_json::from_str(&host.desk.read("out/t/run.json")).unwrap();
    assert_eq!(run["backend"], "cuda");
    assert!(
        run["device"].as_str().unwrap().contains("Host CUDA"),
        "{run}"
    );
    host.run(&["replay", "out/t"]).ok();
}

#[test]
fn results_have_their_own_folder() {
    let Some(host) = Host::new() else { return };
    let fixed = [
        "real",
        "t.toml",
        "--backend",
        "cuda",
        "-q",
        "--set",
        "workload.requests=5",
    ];
    host.run(&fixed).ok();
    assert!(host.desk.path("results/cuda/t/summary.csv").is_file());
}

#[test]
fn kernels_are_compiled_once() {
    let Some(host) = Host::new() else { return };
    let cached = || {
        host.desk
            .files("cache")
            .into_keys()
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(host.verified(&[]), 80);
    let first = cached();
    assert!(!first.is_empty());
    assert_eq!(host.verified(&[]), 80);
    assert_eq!(cached(), first);
    assert_eq!(host.verified(&["--set", "device.precision=f16"]), 80);
    assert!(
        cached().is_superset(&first) && cached().len() > first.len(),
        "another format has kernels of its own"
    );
}

#[test]
fn unsupported_models_are_refused() {
    let Some(host) = Host::new() else { return };
    let model = of_model(("dnn:net", "constant:7", &[]));
    let ran = host.real(&words(&model));
    ran.failed(2, "dnn:net");
    assert!(ran.stderr.contains("--backend cpu"), "{}", ran.stderr);
    let ran = host.real(&["--set", "device.workers=3"]);
    ran.failed(2, "3 workers");
    assert!(!host.desk.path("out").exists());
}
