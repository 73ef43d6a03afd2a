//! Graph models: the shipped examples and their schema, users' files, and mistakes in them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::desk::{Desk, program};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn of_project(path: &str) -> PathBuf {
    Path::new(ROOT).join(path)
}

fn document(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The shipped graph models, by name.
fn examples() -> Vec<String> {
    let files = std::fs::read_dir(of_project("scenarios/graphs"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let models = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let mut names: Vec<String> = models
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_string())
        .collect();
    names.sort();
    names
}

#[test]
fn the_examples_have_the_form_of_the_schema() {
    let cell = r#"{"cells": [{"name": "a"}], "graphs": [{"nodes": ["a"]}]}"#;
    let shipped = |name: &String| document(&of_project(&format!("scenarios/graphs/{name}.json")));
    let mut documents: Vec<Value> = examples().iter().map(shipped).collect();
    documents.push(serde_json::from_str(cell).unwrap());
    let right = documents.len();
    // Both reject mistakes of form.
    for (part, mistake) in [
        (r#""graphs""#, r#""graph""#),
        (r#"{"nodes": ["a"]}"#, r#"{"nodes": []}"#),
        (
            r#"{"nodes": ["a"]}"#,
            r#"{"nodes": ["a"], "edges": [[0, 1]]}"#,
        ),
        (r#"{"name": "a"}"#, r#"{"name": "whole"}"#),
        (r#"{"name": "a"}"#, r#"{"name": "a", "batches": [0]}"#),
        (
            r#"{"name": "a"}"#,
            r#"{"name": "a", "operators": [{"name": "x", "kind": "affine"}]}"#,
        ),
        (
            r#"{"name": "a"}"#,
            r#"{"name": "a", "operators": [{"name": "x", "kind": "sum", "weight": "W"}]}"#,
        ),
        (
            r#""graphs": [{"nodes": ["a"]}]"#,
            r#""unfold": {"shape": "ring", "nodes": [{"name": "f", "cell": "a"}]}"#,
        ),
        (
            r#""graphs": [{"nodes": ["a"]}]"#,
            r#""unfold": {"shape": "chain", "nodes": [{"name": "F", "cell": "a"}]}"#,
        ),
    ] {
        let text = cell.replace(part, mistake);
        documents.push(serde_json::from_str(&text).unwrap());
        let desk = with_model(&text);
        desk.refuses(&[], "t.toml:3: workload.model: m.json: ");
    }
    for (place, valid) in valid_by_schema(&of_project("docs/graph.schema.json"), &documents)
        .into_iter()
        .enumerate()
    {
        assert_eq!(valid, place < right, "{}", documents[place]);
    }
}

/// Whether the schema accepts each document, by Python's `jsonschema`. Without it nothing is checked, unless
/// REQUIRE_JSONSCHEMA is set.
pub fn valid_by_schema(schema: &Path, documents: &[Value]) -> Vec<bool> {
    const SCRIPT: &str = "import json, sys, jsonschema
valid = jsonschema.Draft202012Validator(json.load(open(sys.argv[1]))).is_valid
json.dump([valid(document) for document in json.load(sys.stdin)], sys.stdout)";
    let mut python = Command::new("python3");
    python.args(["-c", SCRIPT]).arg(schema);
    let child = python
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let output = child.and_then(|mut child| {
        // Python ends before it reads if it lacks the package.
        let _ = serde_json::to_writer(child.stdin.take().unwrap(), documents);
        child.wait_with_output()
    });
    match output {
        Ok(output) if output.status.success() => serde_json::from_slice(&output.stdout).unwrap(),
        failed => {
            assert!(
                std::env::var_os("REQUIRE_JSONSCHEMA").is_none(),
                "{failed:?}"
            );
            eprintln!("skipped: python3 has no jsonschema");
            Vec::new()
        }
    }
}

#[test]
fn the_examples_run() {
    let desk = Desk::new();
    for name in examples() {
        let scenario = format!("scenarios/graphs/{name}.toml");
        let mut command = program();
        let command = command.current_dir(ROOT).args([
            "sim",
            &scenario,
            "-q",
            "--set",
            "workload.requests=300",
            "--out",
        ]);
        let output = command.arg(desk.path("out")).output().unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        let rows = desk.rows(&format!("out/graph-{name}/summary.csv"));
        assert!(rows.iter().all(|row| row["completed"] == "300"), "{rows:?}");
        let policies = if name == "attention" { 3 } else { 2 };
        assert_eq!(rows.len(), 2 * policies, "{name}");
    }
}

/// A scenario with a model in a file of this text.
fn with_model(text: &str) -> Desk {
    let desk = Desk::new();
    desk.write("m.json", text);
    desk.write(
        "t.toml",
        desk.read("t.toml").replace("\"lstm\"", "\"graph:m.json\""),
    );
    desk
}

/// A chain of the cell `lstm`, equal to the model of this name.
const CHAIN: &str = r#"{
    "cells": [{ "name": "lstm" }],
    "unfold": { "shape": "chain", "nodes": [{ "name": "s", "cell": "lstm", "over": { "i": "N" }, "needs": ["s[i-1]"] }] }
}"#;

const PAIR: &str = r#"{
    "cells": [{ "name": "encoder" }, { "name": "decoder", "priority": 1 }],
    "unfold": { "shape": "seq2seq", "nodes": [
        { "name": "e", "cell": "encoder", "over": { "i": "S" }, "needs": ["e[i-1]"] },
        { "name": "d", "cell": "decoder", "over": { "i": "T" }, "needs": ["d[i-1]", "e[S]"] }
    ] }
}"#;

const TREE: &str = r#"{
    "cells": [{ "name": "internal", "priority": 1 }, { "name": "leaf" }],
    "unfold": { "shape": "tree", "nodes": [
        { "name": "w", "cell": "leaf", "over": { "v": "tree" }, "children": 0 },
        { "name": "p", "cell": "internal", "over": { "v": "tree" }, "children": "1..", "needs": ["w[v.children]", "p[v.children]"] }
    ] }
}"#;

#[test]
fn a_model_that_is_built_in_has_the_same_schedule_from_a_file() {
    let costs = "cell,batch,ns\nlstm,1,9\nlstm,8,20\nencoder,1,8\nencoder,8,19\ndecoder,1,7\ndecoder,8,30\nleaf,1,5\n\
                 internal,1,9\ninternal,8,12\ngather,1,2\n";
    for (text, model, dataset) in [
        (CHAIN, "lstm", "lengths.csv"),
        (PAIR, "seq2seq", "generator:europarl-de-en"),
        (TREE, "tree-lstm", "generator:treebank"),
    ] {
        let desk = with_model(text);
        desk.write("costs.csv", costs);
        let more = "[[policy]]\nkind = \"merged\"\n[[policy]]\nkind = \"immediate\"\n";
        desk.write("t.toml", desk.read("t.toml") + more);
        let dataset = format!("workload.dataset={dataset}");
        let mut words = vec![
            "--set",
            &dataset,
            "--set",
            "arrivals.rates=[1e6, 1e7]",
            "--set",
            "device.workers=2",
        ];
        if model == "tree-lstm" {
            words.extend([
                "--set",
                "policy.B.kind=cellular",
                "--set",
                "policy.B.max_batch=3",
            ]);
        }
        desk.sim(&words).ok();
        let own: Vec<_> = logs(&desk);
        let built_in = format!("workload.model={model}");
        desk.sim(&[&words[..], &["--set", &built_in]].concat()).ok();
        assert_eq!(own.len(), 16);
        assert!(own == logs(&desk), "{model}");
    }
}

/// The logs of all points.
fn logs(desk: &Desk) -> Vec<(String, Vec<u8>)> {
    let files = desk.files("out/t").into_iter();
    files
        .filter(|(name, _)| name.ends_with("requests.csv") || name.ends_with("tasks.csv"))
        .collect()
}

#[test]
fn a_batch_is_padded_to_a_size_that_there_is() {
    let desk = with_model(&CHAIN.replace("\"lstm\" }", "\"lstm\", \"batches\": [1, 4] }"));
    desk.write("lengths.csv", "length,count\n1,1\n");
    desk.write("costs.csv", "cell,batch,ns\nlstm,1,1000\nlstm,4,4000\n");
    let offline = [
        "--set",
        "arrivals={ process = 'offline' }",
        "--set",
        "workload.requests=7",
    ];
    desk.sim(&offline).ok();
    // Four, and three padded to four; whole requests likewise, at the largest size.
    let took = |policy: &str| -> Vec<(u64, String)> {
        let rows = desk.rows(&format!("out/t/{policy}/offline/tasks.csv"));
        let ns = |row: &std::collections::BTreeMap<String, String>, key: &str| {
            row[key].parse::<u64>().unwrap()
        };
        rows.iter()
            .map(|row| {
                (
                    ns(row, "finish_ns") - ns(row, "start_ns"),
                    row["batch"].clone(),
                )
            })
            .collect()
    };
    assert_eq!(
        took("A"),
        [(4000, "4".to_string()), (4000, "3".to_string())]
    );
    let summary = desk.rows("out/t/summary.csv");
    let padding: Vec<f64> = summary
        .iter()
        .map(|row| row["padding"].parse().unwrap())
        .collect();
    assert!((padding[0] - 1.0 / 8.0).abs() < 1e-6, "{padding:?}");
    // A smaller max_batch in the scenario holds, a larger one does not.
    desk.sim(&[&offline[..], &["--set", "policy.A.max_batch=2"]].concat())
        .ok();
    assert_eq!(took("A").len(), 4);
    desk.sim(&[&offline[..], &["--set", "policy.A.max_batch=6"]].concat())
        .ok();
    assert_eq!(took("A").len(), 2);
}

#[test]
fn a_file_that_changed_is_noticed() {
    let desk = with_model(CHAIN);
    desk.sim(&[]).ok();
    let run: Value = serde_json::from_str(&desk.read("out/t/run.json")).unwrap();
    let inputs: Vec<&String> = run["inputs"].as_object().unwrap().keys().collect();
    assert_eq!(inputs, ["lengths.csv", "costs.csv", "m.json"]);
    assert_eq!(run["scenario"]["workload"]["model"], "graph:m.json");
    let resumed = || desk.run(&["sim", "t.toml", "--out", "out", "--resume"]);
    assert!(
        resumed()
            .ok()
            .stderr
            .contains("taken over from before: 4 of 4"),
        "nothing has changed"
    );
    // The same graphs from another file.
    desk.write(
        "m.json",
        CHAIN.replace("\"s\"", "\"t\"").replace("s[", "t["),
    );
    resumed().failed(2, "was run with other settings, seed, input files");
    desk.run(&["replay", "out/t"])
        .failed(2, "m.json is not what it was in this run");
}

#[test]
fn what_does_not_fit_is_refused_with_the_way_out() {
    let two = std::fs::read_to_string(of_project("scenarios/graphs/two-layers.json")).unwrap();
    let desk = with_model(&two);
    desk.refuses(
        &[],
        "t.toml:14: policy[1] (padded): padded batching takes sequences only",
    );
    let ran = desk.run(&[
        "real",
        "t.toml",
        "--out",
        "out",
        "-q",
        "--set",
        "policy.B.kind=merged",
    ]);
    ran.failed(
        2,
        "model: graph:m.json describes cells and graphs, and has no weights to compute with; run it with batchlab sim",
    );
    desk.run(&[
        "profile",
        "--scenario",
        "t.toml",
        "--set",
        "policy.B.kind=merged",
    ])
    .failed(2, "has no weights to compute with");
    let ran = desk.run(&["profile", "--model", "graph:m.json"]);
    assert!(
        ran.code == Some(2) && ran.stderr.contains("describes a model without weights"),
        "{ran:?}"
    );
    let merged = &["--set", "policy.B.kind=merged"];
    desk.refuses(
        &[&merged[..], &["--set", "workload.model=graph:n.json"]].concat(),
        "no such file: n.json",
    );
    desk.refuses(
        &[&merged[..], &["--set", "workload.dataset=complete-tree:4"]].concat(),
        "complete-tree:4: is a tree, but the model graph:m.json takes a CSV file with the header length,count",
    );
    desk.write("costs.csv", "cell,batch,ns\nlstm1,1,1\n");
    desk.refuses(merged, "costs.csv: no rows for the cell \"lstm2\"");
    desk.write("m.json", two.replace("lower[i]", "lower[k]"));
    desk.refuses(
        merged,
        "t.toml:3: workload.model: m.json: unfold.nodes[1].needs[1]: \"lower[k]\": unknown name \"k\"; known here: i, N",
    );
}
