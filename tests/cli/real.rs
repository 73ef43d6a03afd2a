//! Real runs: the files and columns of a simulation, correct outputs, failures and interruptions. No test depends on times.

#![expect(clippy::disallowed_methods, reason = "waits for a child process")]

use std::collections::BTreeSet;

use batchlab::network::Spec;
use batchlab::network::weights::{Tensor, Weights, tensors};
use batchlab::workload::model::Model;
use safetensors::tensor::{Dtype, TensorView, serialize};
use serde_json::{Value, json};

use crate::desk::{Desk, Ran};

/// The desk's scenario with a small network and without a cost table. A run takes a tenth of a second.
fn desk() -> Desk {
    let desk = Desk::new();
    let text = desk
        .read("t.toml")
        .replace("[100, 200]", "[2000, 4000]")
        .replace("costs = \"costs.csv\"\n", "");
    desk.write(
        "t.toml",
        text.replace("[workload]\n", "[workload]\nhidden = 8\nvocabulary = 11\n"),
    );
    desk
}

/// `batchlab real t.toml --out out --quiet …`
fn real(desk: &Desk, more: &[&str]) -> Ran {
    desk.run(&[&["real", "t.toml", "--out", "out", "--quiet"], more].concat())
}

/// The notes of such a run.
fn notes(desk: &Desk, more: &[&str]) -> String {
    desk.run(&[&["real", "t.toml", "--out", "out"], more].concat())
        .ok()
        .stderr
}

fn document(desk: &Desk, name: &str) -> Value {
    serde_json::from_str(&desk.read(name)).unwrap()
}

/// The runs of the last call in their order: policy, point, replication.
fn carried_out(desk: &Desk) -> Vec<(String, String, u64)> {
    let runs = document(desk, "out/t/host.json")["runs"].clone();
    let text = |run: &Value, key: &str| run[key].as_str().unwrap().to_string();
    let runs = runs.as_array().unwrap().iter();
    runs.map(|run| {
        (
            text(run, "policy"),
            text(run, "point"),
            run["replication"].as_u64().unwrap(),
        )
    })
    .collect()
}

const COSTS: [&str; 2] = ["--set", "device.costs=costs.csv"];

#[test]
fn files_and_columns_are_those_of_a_simulation() {
    let desk = desk();
    let more = [
        "--set",
        "output.timeline=true",
        "--set",
        "output.plots=[\"latency-throughput\", \"queue-cdf\"]",
    ];
    real(&desk, &more).ok();
    desk.run(
        &[
            &["sim", "t.toml", "--out", "simulated", "-q"],
            &COSTS[..],
            &more,
        ]
        .concat(),
    )
    .ok();
    let names = |out: &str| desk.files(out).into_keys().collect::<BTreeSet<String>>();
    let (ours, theirs) = (names("out"), names("simulated"));
    assert_eq!(
        theirs.difference(&ours).collect::<Vec<_>>(),
        ["t/bounds.json"]
    );
    let more: Vec<&str> = ours.difference(&theirs).map(String::as_str).collect();
    assert_eq!(
        more,
        [
            "t/A/2000/rounds.csv",
            "t/A/4000/rounds.csv",
            "t/B/2000/rounds.csv",
            "t/B/4000/rounds.csv"
        ]
    );

    let header = |name: String| desk.read(&name).lines().next().unwrap().to_string();
    for name in theirs
        .iter()
        .filter(|name| name.ends_with(".csv") && !name.ends_with("summary.csv"))
    {
        assert_eq!(
            header(format!("out/{name}")),
            header(format!("simulated/{name}")),
            "{name}"
        );
    }
    let columns =
        header("simulated/t/summary.csv".into()) + ",late_mean_us,late_p99_us,late_max_us,valid";
    assert_eq!(header("out/t/summary.csv".into()), columns);
    assert_eq!(
        header("out/t/A/2000/rounds.csv".into()),
        "now_ns,completed,arrived"
    );
    for policy in ["A", "B"] {
        for column in ["id", "arrival_ns"] {
            let of =
                |out: &str| desk.column(&format!("{out}/t/{policy}/2000/requests.csv"), column);
            assert_eq!(
                of("out"),
                of("simulated"),
                "the same requests arrive at the same times"
            );
        }
    }
    for row in desk.rows("out/t/summary.csv") {
        let counts =
            ["backend", "completed", "failed", "rejected"].map(|column| row[column].as_str());
        assert_eq!(counts, ["cpu", "200", "0", "0"]);
        assert!(
            ["true", "false"].contains(&row["valid"].as_str()),
            "{row:?}"
        );
    }
    let run = document(&desk, "out/t/run.json");
    assert_eq!(run["backend"], "cpu");
    assert!(run["device"].as_str().unwrap().contains(" core"), "{run}");
    assert_eq!(
        run["scenario"]["device"],
        json!({
            "workers": 1, "costs": null, "roofline": null, "grnn": null, "max_waiting": 1_000_000, "precision": "f32",
        })
    );
}

#[test]
fn rounds_list_all_calls_of_a_policy() {
    let desk = desk();
    real(&desk, &[]).ok();
    for point in ["A/2000", "A/4000", "B/2000", "B/4000"] {
        let rounds = desk.rows(&format!("out/t/{point}/rounds.csv"));
        let arrived: u64 = rounds
            .iter()
            .map(|round| round["arrived"].parse::<u64>().unwrap())
            .sum();
        assert_eq!(arrived, 200, "{point}");
        let told = rounds.iter().flat_map(|round| {
            round["completed"]
                .split(';')
                .filter(|task| !task.is_empty())
        });
        let told: BTreeSet<u64> = told.map(|task| task.parse().unwrap()).collect();
        assert_eq!(
            told.into_iter().collect::<Vec<_>>(),
            (0..told_of(&desk, point)).collect::<Vec<_>>(),
            "{point}"
        );
        let instants: Vec<u64> = rounds
            .iter()
            .map(|round| round["now_ns"].parse().unwrap())
            .collect();
        assert!(instants.is_sorted(), "{point}");
    }
    desk.run(&["replay", "out/t"]).ok();
}

fn told_of(desk: &Desk, point: &str) -> u64 {
    desk.rows(&format!("out/t/{point}/tasks.csv")).len() as u64
}

#[test]
fn repeats_take_turns_and_give_intervals() {
    let desk = desk();
    let said = real(&desk, &["--repeats", "2", "--format", "json"])
        .ok()
        .json();
    assert_eq!(said["rows"][0]["replications"], 2);
    assert!(
        said["rows"][0]["mean_ms_ci"].is_f64() && said["rows"][0]["valid"].is_boolean(),
        "{said}"
    );
    let labels: Vec<&Value> = said["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["policy"])
        .collect();
    assert_eq!(
        labels,
        ["A", "A", "B", "B"],
        "rows are in the order of the scenario"
    );
    let order: Vec<(String, String, u64)> = [0, 1]
        .into_iter()
        .flat_map(|repeat| {
            ["2000", "4000"]
                .map(|load| ["A", "B"].map(|p| (p.to_string(), load.to_string(), repeat)))
        })
        .flatten()
        .collect();
    assert_eq!(carried_out(&desk), order);
    for repeat in ["point.json", "point-2.json"] {
        let lateness = &document(&desk, &format!("out/t/B/4000/{repeat}"))["summary"]["lateness"];
        assert!(
            lateness["mean_us"].is_f64() && lateness["valid"].is_boolean(),
            "{lateness}"
        );
    }
    assert!(desk.rows("out/t/summary.csv")[0].contains_key("p99_ms_ci"));
    assert!(desk.path("out/t/differences.csv").is_file());
}

#[test]
fn every_model_under_every_policy_has_right_answers() {
    let desk = desk();
    let policies =
        desk.read("t.toml") + "[[policy]]\nkind = \"merged\"\n[[policy]]\nkind = \"immediate\"\n";
    desk.write("t.toml", policies);
    let trees = [
        "--set",
        "policy.B.kind=cellular",
        "--set",
        "policy.B.max_batch=3",
    ];
    for (model, dataset, more) in [
        ("lstm", "lengths.csv", &[][..]),
        ("gru", "lengths.csv", &[]),
        ("seq2seq", "constant:4>5", &[]),
        ("tree-lstm", "complete-tree:5", &trees),
        ("childsum-tree-lstm", "constant:tree:4 4 4 0", &trees),
        (
            "childsum-tree-lstm:3",
            "constant:tree:4 4 4 5 7 7 0",
            &trees,
        ),
        ("dnn:net", "constant:7", &[]),
    ] {
        let sets = [
            format!("workload.model={model}"),
            format!("workload.dataset={dataset}"),
        ];
        let sets = sets.iter().flat_map(|set| ["--set", set.as_str()]);
        let fixed = [
            "--set",
            "arrivals={ process = 'offline' }",
            "--set",
            "workload.requests=40",
            "--verify",
            "all",
        ];
        let words: Vec<&str> = sets
            .chain(fixed)
            .chain(["--set", "device.workers=2"])
            .chain(more.iter().copied())
            .collect();
        let said = notes(&desk, &words);
        assert!(
            said.contains("verified: 160 requests have the same bits as when run alone\n"),
            "{model}: {said}"
        );
    }
}

#[test]
fn the_number_of_verified_requests_is_a_setting() {
    let desk = desk();
    let verified = |which: &[&str]| {
        let said = notes(&desk, which);
        let line = said
            .lines()
            .find_map(|line| line.strip_prefix("verified: "))
            .map(str::to_string);
        line.map(|line| line.split_once(' ').unwrap().0.parse::<u32>().unwrap())
    };
    assert_eq!(verified(&[]), Some(4 * 32));
    assert_eq!(verified(&["--verify", "all"]), Some(4 * 200));
    assert_eq!(verified(&["--verify", "none"]), None);
    assert_eq!(
        verified(&["--set", "workload.requests=7", "--verify", "sample"]),
        Some(4 * 7)
    );
}

#[test]
fn the_notes_tell_how_late_the_generator_was() {
    let desk = desk();
    let said = notes(&desk, &[]);
    for point in [
        "\"A\" at 2000: ",
        "\"A\" at 4000: ",
        "\"B\" at 2000: ",
        "\"B\" at 4000: ",
    ] {
        let line = said
            .lines()
            .find(|line| line.starts_with(point))
            .unwrap_or_else(|| panic!("{said}"));
        assert!(
            line.contains("the generator was late by ") && line.contains("VALID"),
            "{line}"
        );
    }
    let last: Vec<&str> = said.lines().rev().take(2).collect();
    assert_eq!(last[1], "results in out/t");
    assert!(last[0].starts_with("the runs are "), "{said}");
    assert_eq!(real(&desk, &[]).ok().stderr, "", "quiet");
    let closed = "arrivals={ process = 'closed', clients = [3] }";
    let said = notes(&desk, &["--set", closed]);
    assert!(
        !said.contains("generator"),
        "clients wait for their answers: {said}"
    );
    assert!(!desk.read("out/t/summary.csv").contains("valid"));
    desk.run(&["real", "t.toml", "-q"]).ok();
    assert!(
        desk.path("results/cpu/t/summary.csv").is_file(),
        "the folder is named by the backend"
    );
}

/// Changes the summaries of finished runs. Their marks are named from the folder of the results.
fn change_summaries(desk: &Desk, marks: &[String], change: impl Fn(&mut Value)) {
    for mark in marks {
        let mut point = document(desk, mark);
        change(&mut point["summary"]);
        desk.write(mark, point.to_string());
    }
}

#[test]
fn the_last_line_says_whether_runs_are_usable() {
    let desk = desk();
    real(&desk, &["--repeats", "2"]).ok();
    let mut marks = Vec::new();
    for point in ["A/2000", "A/4000", "B/2000", "B/4000"] {
        marks.extend(["point", "point-2"].map(|mark| format!("out/t/{point}/{mark}.json")));
    }
    // A machine that is never late and always equally fast.
    change_summaries(&desk, &marks, |summary| {
        summary["lateness"]["valid"] = true.into();
        summary["throughput"] = 1000.0.into();
        summary["mean_batch"] = 2.0.into();
        for quantile in ["mean_ms", "p50_ms", "p90_ms"] {
            summary["latency"][quantile] = 1.0.into();
        }
    });
    let again = ["--repeats", "2", "--resume"];
    let said = notes(&desk, &again);
    assert_eq!(said.lines().last(), Some("the runs are usable"));
    let strict = [&again[..], &["--strict"]].concat();
    real(&desk, &strict).ok();
    let set = |key: &'static str, value: f64| {
        change_summaries(&desk, &marks[..1], |summary| {
            summary["latency"][key] = value.into();
        });
    };
    // The spread of two runs is 15.6 standard deviations: 95 % for 1 and 1.09, and 124 % for 1 and 1.12.
    set("mean_ms", 1.09);
    real(&desk, &strict).ok();
    set("mean_ms", 1.12);
    set("p50_ms", 3.0);
    let said = notes(&desk, &again);
    let wide = "the runs are not usable: 2 of 20 figures vary by more than 100 % from one run to the next, up to 1100 %; use \
                more or longer runs, or a machine that does nothing else";
    assert_eq!(said.lines().last(), Some(wide));
    change_summaries(&desk, &marks[5..6], |summary| {
        summary["lateness"]["valid"] = false.into();
    });
    let late = "batchlab: --strict: the runs are not usable: requests were handed over too late at 1 of 4 points; 2 of 20";
    let ran = real(&desk, &strict);
    assert!(
        ran.code == Some(4) && ran.stderr.lines().count() == 1 && ran.stderr.starts_with(late),
        "{ran:?}"
    );
    assert_eq!(desk.rows("out/t/summary.csv").len(), 4, "they are written");
}

#[test]
fn resuming_keeps_finished_points() {
    let desk = desk();
    let resume = |more: &[&str]| real(&desk, &[&["--repeats", "2", "--resume"], more].concat());
    let only = ["--set", "arrivals.rates=[2000]"];
    resume(&only).ok();
    let first = desk.files("out/t/A/2000");
    resume(&[]).ok();
    assert_eq!(carried_out(&desk).len(), 4);
    assert!(
        carried_out(&desk)
            .iter()
            .all(|(_, point, _)| point == "4000"),
        "{:?}",
        carried_out(&desk)
    );
    assert_eq!(first, desk.files("out/t/A/2000"), "what is finished stays");
    assert_eq!(desk.rows("out/t/summary.csv").len(), 4);
    resume(&COSTS).ok();
    assert_eq!(carried_out(&desk), [], "costs play no part in a real run");
    resume(&["--set", "workload.hidden=9"]).failed(2, "point.json: was run with other settings");
}

/// Writes random weights. In tensors for which `spoil` returns a row, that row and all after it are NaN.
fn weights(desk: &Desk, model: &Model, spoil: impl Fn(&str) -> Option<usize>) {
    let spec = Spec {
        hidden: 8,
        embedding: 8,
        vocabulary: 11,
        seed: 1,
        weights: None,
    };
    let (drawn, tensors) = (Weights::open(model, &spec).unwrap(), tensors(model, &spec));
    let bytes = |tensor: &Tensor| -> Vec<u8> {
        let mut numbers = drawn.take(&tensor.name);
        if let Some(row) = spoil(&tensor.name) {
            let width = numbers.len() / tensor.shape[0];
            numbers[row * width..].fill(f32::NAN);
        }
        numbers.into_iter().flat_map(f32::to_le_bytes).collect()
    };
    let bytes: Vec<Vec<u8>> = tensors.iter().map(bytes).collect();
    let views = tensors.iter().zip(&bytes).map(|(tensor, bytes)| {
        (
            &tensor.name,
            TensorView::new(Dtype::F32, tensor.shape.clone(), bytes).unwrap(),
        )
    });
    desk.write("weights.safetensors", serialize(views, None).unwrap());
}

const WEIGHTS: [&str; 2] = ["--set", "workload.weights=weights.safetensors"];

#[test]
fn weights_come_from_a_file() {
    let desk = desk();
    weights(&desk, &Model::Lstm, |_| None);
    real(&desk, &WEIGHTS).ok();
    let inputs = &document(&desk, "out/t/run.json")["inputs"];
    assert!(inputs["weights.safetensors"].is_string(), "{inputs}");
    real(&desk, &[&WEIGHTS[..], &["--resume"]].concat()).ok();
    assert_eq!(carried_out(&desk), []);
    weights(&desk, &Model::Lstm, |name| {
        name.starts_with("embedding").then_some(0)
    });
    real(&desk, &[&WEIGHTS[..], &["--resume"]].concat())
        .failed(2, "point.json: was run with other settings");
}

#[test]
fn requests_without_a_result_are_counted_and_named() {
    let desk = desk();
    // The last of eleven words is NaN: requests with it fail, others in the same batches finish.
    weights(&desk, &Model::Lstm, |name| {
        name.starts_with("embedding").then_some(10)
    });
    let all = [&WEIGHTS[..], &["--verify", "all", "--repeats", "2"]].concat();
    let ran = desk.run(&[&["real", "t.toml", "--out", "out"], &all[..]].concat());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let failed: Vec<Vec<String>> =
        ["A", "B"]
            .iter()
            .flat_map(|policy| {
                ["failures.csv", "failures-2.csv"].map(|file| format!("out/t/{policy}/2000/{file}"))
            })
            .map(|file| {
                let rows = desk.rows(&file);
                assert!(rows.iter().all(|row| row["at_ns"].parse::<u64>().is_ok()
                    && row["reason"].contains("non-finite")));
                let mut ids: Vec<String> = rows.into_iter().map(|row| row["id"].clone()).collect();
                ids.sort();
                ids
            })
            .collect();
    let count = failed[0].len();
    assert!((1..200).contains(&count), "{count}");
    assert!(
        failed.iter().all(|ids| *ids == failed[0]),
        "the same requests fail under every policy"
    );
    for row in desk.rows("out/t/summary.csv") {
        assert_eq!(
            (&row["failed"], &row["completed"]),
            (&count.to_string(), &(200 - count).to_string())
        );
    }
    let requests = desk.rows("out/t/A/2000/requests.csv");
    let unfinished = requests
        .iter()
        .filter(|row| row["finish_ns"].is_empty())
        .map(|row| row["id"].clone());
    assert_eq!(
        unfinished.collect::<BTreeSet<_>>(),
        failed[0].iter().cloned().collect()
    );

    assert_eq!(
        ran.stderr
            .lines()
            .filter(|line| line.contains("non-finite"))
            .count(),
        3,
        "{}",
        ran.stderr
    );
    let last = format!(
        "batchlab: {} requests failed; failures.csv beside the logs of a point in out/t names",
        8 * count
    );
    assert!(
        ran.stderr.lines().last().unwrap().starts_with(&last),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr
            .contains(&format!("verified: {} requests", 8 * (200 - count))),
        "{}",
        ran.stderr
    );
    desk.run(&["replay", "out/t"]).ok();

    // A resumed run reports them too; a run without failures leaves no list.
    assert_eq!(
        real(&desk, &[&all[..], &["--resume"]].concat()).code,
        Some(1)
    );
    real(&desk, &[]).ok();
    assert!(
        desk.files("out")
            .keys()
            .all(|name| !name.contains("failures"))
    );
}

#[test]
fn all_can_fail() {
    let desk = desk();
    weights(&desk, &Model::Lstm, |_| Some(0));
    let ran = real(&desk, &[&WEIGHTS[..], &["--format", "json"]].concat());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let row = &ran.json()["rows"][0];
    assert_eq!(
        (&row["failed"], &row["completed"], &row["mean_ms"]),
        (&json!(200), &json!(0), &Value::Null)
    );
    assert_eq!(
        row["valid"],
        Value::Null,
        "without latencies there is no verdict"
    );
}

#[test]
fn arrivals_beyond_the_bound_are_rejected() {
    let desk = desk();
    let bound = [
        "--set",
        "device.max_waiting=10",
        "--set",
        "arrivals={ process = 'offline' }",
    ];
    real(&desk, &bound).ok();
    desk.run(
        &[
            &["sim", "t.toml", "--out", "simulated", "-q"],
            &COSTS[..],
            &bound,
        ]
        .concat(),
    )
    .ok();
    for out in ["out", "simulated"] {
        for row in desk.rows(&format!("{out}/t/summary.csv")) {
            let counts = ["completed", "failed", "rejected"].map(|column| row[column].as_str());
            assert_eq!(counts, ["10", "0", "190"], "{out}");
        }
        let finished = desk.column(&format!("{out}/t/B/offline/requests.csv"), "finish_ns");
        assert!(
            finished[..10].iter().all(|at| !at.is_empty())
                && finished[10..].iter().all(String::is_empty)
        );
    }
    desk.run(&["replay", "out/t"]).ok();
    let said = notes(&desk, &bound);
    assert!(
        said.contains("\"B\" at offline: 190 requests were rejected\n"),
        "{said}"
    );
    // Exact in the simulation, also if requests leave between arrivals.
    let crowded = [
        "--set",
        "device.max_waiting=3",
        "--set",
        "arrivals.rates=[400]",
    ];
    let run = |out: &str| {
        desk.run(&[&["sim", "t.toml", "--out", out, "-q"], &COSTS[..], &crowded].concat())
            .ok();
        desk.files(out)
    };
    assert_eq!(run("one"), run("two"));
    for row in desk.rows("one/t/summary.csv") {
        let count = |column: &str| row[column].parse::<u32>().unwrap();
        assert!(
            count("rejected") > 0 && count("completed") + count("rejected") == 200,
            "{row:?}"
        );
    }
}

#[test]
fn mistakes_are_named() {
    let desk = desk();
    let refuses = |words: &[&str], message: &str| {
        real(&desk, words).failed(2, message);
        assert!(!desk.path("out").exists(), "{message}: a folder was made");
    };
    refuses(
        &["--set", "device.workers=1025"],
        "device.workers: 1025; real runs have at most 1024",
    );
    let sizes = [
        "--set",
        "workload.hidden=65536",
        "--set",
        "workload.vocabulary=16777216",
    ];
    refuses(&sizes, "model lstm with hidden = 65536 needs about 4");
    refuses(
        &["--set", "workload.hidden=0"],
        "workload.hidden: must be a whole number from 1 to 65536, not 0",
    );
    refuses(
        &["--set", "workload.vocabulary=0"],
        "workload.vocabulary: must be a whole number from 1 to 16777216, not 0",
    );
    refuses(
        &["--set", "device.precision=bf16"],
        "t.toml: device.precision: the CPU computes only in f32, not in bf16",
    );
    let coarse = [
        "sim",
        "t.toml",
        "--out",
        "simulated",
        "-q",
        "--set",
        "device.precision=bf16",
    ];
    desk.run(&[&coarse[..], &COSTS].concat()).ok();
    refuses(
        &["--set", "device.max_waiting=0"],
        "device.max_waiting: must be a whole number from 1 to",
    );
    refuses(
        &WEIGHTS,
        "workload.weights: no such file: weights.safetensors",
    );
    weights(&desk, &Model::Gru, |_| None);
    refuses(&WEIGHTS, "weights.safetensors: ");
    desk.write("weights.safetensors", "no weights");
    refuses(&WEIGHTS, "weights.safetensors: ");
    refuses(
        &[
            "--set",
            "workload.model=tree-lstm",
            "--set",
            "workload.dataset=constant:tree:4 4 4 0",
            "--set",
            "policy.B.kind=merged",
        ],
        "t.toml: request 0: node ",
    );
    desk.sim(&[]).failed(
        2,
        "t.toml: device.costs: missing; the simulator takes the times of \"A\" from a cost table",
    );
    desk.run(&["find-knee", "t.toml", "--slo", "5ms", "-q"])
        .failed(2, "t.toml: device.costs: missing; the simulator");
    for words in [
        &["--backend", "tpu"][..],
        &["--repeats", "0"],
        &["--verify", "some"],
        &["--replications", "2"],
    ] {
        let ran = real(&desk, words);
        assert_eq!(ran.code, Some(2), "{words:?}: {ran:?}");
        assert!(ran.stderr.contains("--help"), "{words:?}: {ran:?}");
    }
}

#[cfg(unix)]
mod interrupted {
    use std::process::{Child, Command, Stdio};
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use super::*;

    /// Two fast points, and then one of a minute and a half.
    const RATES: [&str; 4] = [
        "--set",
        "arrivals.rates=[20000, 20]",
        "--set",
        "workload.requests=2000",
    ];

    fn start(desk: &Desk, more: &[&str]) -> Child {
        let words = [&["real", "t.toml", "--out", "out"], &RATES[..], more].concat();
        desk.command(&words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn stop(child: Child) -> Ran {
        assert!(
            Command::new("kill")
                .args(["-INT", &child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        Ran::from(child.wait_with_output().unwrap())
    }

    /// Waits until a file exists, or no longer does.
    fn wait_for(desk: &Desk, file: &str, there: bool) {
        let patience = Instant::now();
        while desk.path(file).is_file() != there {
            assert!(
                patience.elapsed() < Duration::from_secs(60),
                "{file} does not come or go"
            );
            sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn ctrl_c_keeps_finished_points_and_part_of_the_current_one() {
        let desk = desk();
        let child = start(&desk, &[]);
        wait_for(&desk, "out/t/B/20000/point.json", true);
        sleep(Duration::from_millis(500)); // A point has probably begun; nothing below depends on it.
        let ran = stop(child);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let message = "batchlab: interrupted: 2 of 4 runs are finished and kept in out/t; go on with --resume\n";
        assert!(ran.stderr.ends_with(message), "{ran:?}");
        assert_eq!(
            desk.column("out/t/summary.csv", "point"),
            ["20000", "20000"]
        );

        let files: Vec<String> = desk.files("out/t/A/20").into_keys().collect();
        assert_eq!(
            files,
            [
                "batches.csv",
                "interrupted.json",
                "requests.csv",
                "rounds.csv",
                "tasks.csv"
            ]
        );
        let requests = desk.rows("out/t/A/20/requests.csv");
        assert!(requests.len() < 2000, "only those that arrived");
        let finished = requests
            .iter()
            .filter(|row| !row["finish_ns"].is_empty())
            .count();
        let summary = &document(&desk, "out/t/A/20/interrupted.json")["summary"];
        assert_eq!(summary["completed"], json!(finished));
        desk.run(&["replay", "out/t"]).ok();

        // The interrupted point runs again.
        let child = start(&desk, &["--resume"]);
        wait_for(&desk, "out/t/summary.csv", false); // A resumed run removes it.
        let ran = stop(child);
        assert!(ran.stderr.ends_with(message), "{ran:?}");
        assert_eq!(carried_out(&desk), []);
        let child = start(&desk, &["--resume", "--set", "arrivals.rates=[20000]"]);
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert!(
            ran.ok()
                .stderr
                .contains("taken over from before: 2 of 2 runs\n")
        );
    }
}

/// Policies that batch below cells, bit for bit. What copies there are depends on the order of the launches only.
#[test]
fn operators_of_many_nodes_run_in_one_launch() {
    let desk = desk();
    let text = desk.read("t.toml");
    let policies =
        "[[policy]]\nkind = \"jit\"\ngranularity = \"operator\"\n[[policy]]\nkind = \"dynet\"\n";
    desk.write(
        "t.toml",
        text[..text.find("[[policy]]").unwrap()].to_string() + policies,
    );
    let offline = [
        "--verify",
        "all",
        "--set",
        "arrivals={ process = 'offline' }",
    ];
    let told = notes(&desk, &offline);
    assert!(
        told.contains("have the same bits as when run alone"),
        "{told}"
    );
    for run in document(&desk, "out/t/host.json")["runs"]
        .as_array()
        .unwrap()
    {
        let count = |key: &str| run[key].as_u64().unwrap();
        assert!(
            count("launches") > 0 && count("copies") < count("launches"),
            "{run}"
        );
    }
    let refused = real(
        &desk,
        &[&offline[..], &["--set", "workload.model=gru"]].concat(),
    );
    refused.failed(
        2,
        "model: the CPU computes gru in whole cells only; operator by operator it has lstm, ",
    );
}
