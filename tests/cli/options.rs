//! The options that all commands share, and what is printed.

use std::fs::File;
use std::process::Stdio;

use serde_json::json;

use crate::desk::{Desk, program};

#[test]
fn overrides_and_seed_reach_the_run() {
    let desk = Desk::new();
    desk.sim(&[
        "--seed",
        "7",
        "--set",
        "policy.A.max_batch=3",
        "--set",
        "arrivals.rates=[50]",
    ])
    .ok();
    let run: serde_json::Value = serde_json::from_str(&desk.read("out/t/run.json")).unwrap();
    assert_eq!(
        (&run["seed"], &run["scenario"]["seed"]),
        (&json!(7), &json!(7))
    );
    assert_eq!(run["scenario"]["policy"][0]["max_batch"], 3);
    assert_eq!(run["scenario"]["arrivals"]["rates"], json!([50]));
    let largest = desk
        .rows("out/t/A/50/batches.csv")
        .iter()
        .map(|row| row["batch"].parse::<u32>().unwrap())
        .max();
    assert!(largest <= Some(3), "{largest:?}");
}

#[test]
fn a_policy_may_work_ahead_without_a_limit() {
    let desk = Desk::new();
    let tasks = |ahead: &str| {
        let set = format!("policy.A.ahead={ahead}");
        desk.sim(&["--set", &set, "--set", "arrivals.rates=[50]"])
            .ok();
        desk.read("out/t/A/50/tasks.csv")
    };
    // Each is more than the tasks of the run; no worker's tasks are looked for one number after the other.
    assert_eq!(tasks("1000000"), tasks("4294967295"));
}

#[test]
fn quiet_leaves_the_results() {
    let desk = Desk::new();
    let loud = desk.run(&["sim", "t.toml", "--out", "out"]).ok();
    assert!(
        loud.stderr.ends_with("results in out/t\n"),
        "{}",
        loud.stderr
    );
    assert!(
        !loud.stderr.contains("runs,"),
        "no progress bar on a pipe: {}",
        loud.stderr
    );
    let quiet = desk.sim(&[]).ok();
    assert_eq!((quiet.stderr.as_str(), &quiet.stdout), ("", &loud.stdout));
}

#[test]
fn the_table_has_a_row_for_each_point() {
    let desk = Desk::new();
    let text = desk.sim(&[]).ok().stdout;
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["t"]);
    assert_eq!(lines[1][..3], ["policy", "offered", "throughput"]);
    let rows: Vec<&[&str]> = lines[3..7].iter().map(|row| &row[..2]).collect();
    assert_eq!(
        rows,
        [
            ["A", "100.0"],
            ["A", "200.0"],
            ["B", "100.0"],
            ["B", "200.0"]
        ]
    );
    assert!(
        text.contains("n<1000"),
        "two hundred requests are too few for a 99th percentile: {text}"
    );
    let closed = "arrivals={ process = 'closed', clients = [1, 300] }";
    let text = desk.sim(&["--set", closed]).ok().stdout;
    assert!(
        text.contains("clients-1 ") && text.contains("clients-300 "),
        "{text}"
    );
}

#[test]
fn json_is_one_array() {
    let desk = Desk::new();
    let document = desk.sim(&["--format", "json"]).ok().json();
    assert_eq!(document["scenario"], "t");
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        for key in [
            "offered_rps",
            "throughput_rps",
            "mean_ms",
            "p50_ms",
            "mean_batch",
            "padding",
            "utilization",
        ] {
            assert!(row[key].is_f64(), "{key}: {}", row[key]);
        }
        assert!(row["p999_ms"].is_null() && row["goodput_rps"].is_null());
        assert!(row["completed"].is_u64());
    }
    desk.write("u.toml", desk.read("t.toml").replace("\"t\"", "\"u\""));
    let several = desk
        .run(&[
            "sim", "t.toml", "u.toml", "--out", "out", "--format", "json",
        ])
        .ok()
        .results();
    assert_eq!(
        (&several[0]["scenario"], &several[1]["scenario"]),
        (&json!("t"), &json!("u"))
    );
    assert_eq!(
        several[0]["rows"], several[1]["rows"],
        "a name changes no figure"
    );
}

#[test]
fn replications_bring_intervals() {
    let desk = Desk::new();
    let document = desk
        .sim(&["--replications", "3", "--format", "json"])
        .ok()
        .json();
    let row = &document["rows"][0];
    assert!(row["mean_ms_ci"].as_f64().unwrap() > 0.0);
    assert_eq!(row["replications"], 3);
    let rows = desk.rows("out/t/summary.csv");
    assert!(rows[0]["mean_ms_ci"].parse::<f64>().unwrap() > 0.0);
    assert!(desk.path("out/t/A/100/point-3.json").is_file());
}

#[test]
fn help_and_version_are_there() {
    let desk = Desk::new();
    let version = desk.run(&["--version"]).ok().stdout;
    let commit = version
        .strip_prefix(concat!("batchlab ", env!("CARGO_PKG_VERSION"), " ("))
        .map(|rest| rest.len());
    assert_eq!(commit, Some("04f953d)\n".len()), "{version}");
    for command in [
        &[][..],
        &["sim"],
        &["real"],
        &["find-knee"],
        &["plot"],
        &["policies"],
        &["trace"],
        &["trace", "gen"],
        &["trace", "info"],
        &["trace", "import"],
        &["trace", "convert"],
    ] {
        let help = desk.run(&[command, &["--help"]].concat()).ok();
        assert!(
            help.stdout.contains("Usage: batchlab") && help.stderr.is_empty(),
            "{command:?}: {help:?}"
        );
        assert!(
            help.stdout.lines().all(|line| line.chars().count() <= 100),
            "{command:?}: {}",
            help.stdout
        );
    }
    let policies = desk.run(&["policies"]).ok().stdout;
    for kind in ["cellular", "padded", "merged", "unbatched"] {
        assert!(
            policies.lines().any(|line| line.starts_with(kind)),
            "{policies}"
        );
    }
}

/// A reader that stops early is no failure; output that can't be written is.
#[test]
#[cfg(target_os = "linux")]
fn a_reader_that_goes_away_is_no_failure() {
    let desk = Desk::new();
    desk.sim(&[]).ok();
    desk.run(&[
        "trace",
        "gen",
        "--dataset",
        "constant:4",
        "-n",
        "2000",
        "--rate",
        "9",
        "-o",
        "trace.csv",
    ])
    .ok();
    for words in [
        &["sim", "t.toml", "--out", "out", "-q"][..],
        &[
            "find-knee",
            "t.toml",
            "--out",
            "out",
            "-q",
            "--slo",
            "1ns",
            "--quantile",
            "p50",
        ],
        &[
            "plot",
            "out/t",
            "--kind",
            "queue-cdf",
            "--format",
            "svg",
            "--point",
            "100",
        ],
        &["policies"],
        &["trace", "info", "trace.csv"],
        &["trace", "convert", "trace.csv"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = desk
            .command(words)
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert_eq!(
            (output.status.code(), output.stderr.len()),
            (Some(0), 0),
            "{words:?}: {output:?}"
        );

        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = desk
            .command(words)
            .stdout(full)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {message}");
        assert!(
            message.starts_with("batchlab: standard output: cannot be written: No space left"),
            "{message}"
        );
    }
    // The exit code tells of a mistake, even if the message can't be written.
    let full = File::options().write(true).open("/dev/full").unwrap();
    assert_eq!(
        desk.command(&["sim", "none.toml"])
            .stderr(full)
            .status()
            .unwrap()
            .code(),
        Some(2)
    );
    assert_eq!(
        program()
            .arg("--help")
            .stdout(Stdio::null())
            .status()
            .unwrap()
            .code(),
        Some(0)
    );
}
