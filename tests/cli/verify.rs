//! `batchlab verify`: results are made again and compared.

use std::fs;

use crate::desk::{Desk, SCENARIO};
use crate::recorded::{RESTLESS, record};

#[test]
fn simulated_results_are_made_again_whatever_made_them() {
    let desk = Desk::new();
    desk.write(
        "t.toml",
        SCENARIO.to_string() + "[output]\nplots = [\"latency-throughput\"]\n",
    );
    for options in [
        &["sim", "t.toml"][..],
        &["sim", "t.toml", "--replications", "3", "--threads", "1"],
        &[
            "sim",
            "t.toml",
            "--sweep",
            "device.workers=1,2",
            "--sweep",
            "policy.B.max_batch=2,4",
        ],
        &[
            "sim",
            "t.toml",
            "--seed",
            "7",
            "--set",
            "policy.A.max_batch=3",
        ],
    ] {
        desk.run(&[options, &["--out", "out", "--quiet"]].concat())
            .ok();
        let ran = desk.run(&["verify", "out/t"]).ok();
        assert!(
            ran.stdout.starts_with("out/t\n  verified: "),
            "{options:?}: {ran:?}"
        );
        assert!(!ran.stdout.contains("differs"), "{options:?}: {ran:?}");
        assert!(
            ran.stdout
                .contains("not compared  host.json: has times of the host"),
            "{ran:?}"
        );
        fs::remove_dir_all(desk.path("out")).unwrap();
    }
    // Two shards, merged.
    for part in [
        &["--shard", "1/2"][..],
        &["--shard", "2/2"],
        &["--merge-only"],
    ] {
        desk.sim(part).ok();
    }
    let json = desk
        .run(&["verify", "out/t", "--format", "json"])
        .ok()
        .json();
    assert!(json["equal"].as_u64().unwrap() > 10, "{json}");
    assert_eq!(json["different"].as_array().unwrap().len(), 0);
    // From elsewhere, the scenario's files are found beside it.
    let parent = desk.path("out");
    let mut command = desk.command(&["verify", "t"]);
    command.current_dir(parent);
    let ran: crate::desk::Ran = command.output().unwrap().into();
    ran.failed(2, "no such file");
}

#[test]
fn searches_are_made_again_with_their_options() {
    let desk = Desk::new();
    let effort = [
        "--tolerance",
        "0.05",
        "--replications",
        "2",
        "--max-requests",
        "4000",
        "--out",
        "out",
        "--quiet",
    ];
    let knee = [
        "find-knee",
        "t.toml",
        "--slo",
        "50ms",
        "--set",
        "policy.A.max_batch=3",
        "--seed",
        "4",
    ];
    desk.run(&[&knee[..], &effort].concat()).ok();
    let ran = desk.run(&["verify", "out/t"]).ok();
    assert!(ran.stdout.starts_with("out/t\n  verified: "), "{ran:?}");
    assert!(!ran.stdout.contains("not compared"), "{ran:?}");
    let workers = [
        "find-workers",
        "t.toml",
        "--rate",
        "900",
        "--slo",
        "50ms",
        "--sweep",
        "policy.B.max_batch=2,4",
    ];
    desk.sim(&[]).ok();
    desk.run(&[&workers[..], &effort].concat()).ok();
    let json = desk
        .run(&["verify", "out/t", "--format", "json"])
        .ok()
        .json();
    assert_eq!(json["unverified"].as_array().unwrap().len(), 1, "{json}");
    let csv = desk.read("out/t/workers.csv");
    desk.write("out/t/workers.csv", csv.replacen(",50,", ",51,", 1));
    let ran = desk.run(&["verify", "out/t"]);
    assert!(
        ran.code == Some(1) && ran.stdout.contains("differs  workers.csv: line 2"),
        "{ran:?}"
    );
    let settings = desk.read("out/t/workers.json");
    desk.write(
        "out/t/workers.json",
        settings.replace("find-workers", "init"),
    );
    desk.run(&["verify", "out/t"]).failed(
        2,
        "out/t/workers.json: command: is not a search of batchlab",
    );
}

#[test]
fn a_changed_byte_a_missing_file_and_a_stranger_are_named() {
    let desk = Desk::new();
    desk.sim(&[]).ok();
    let log = desk.read("out/t/A/200/requests.csv");
    desk.write("out/t/A/200/requests.csv", log.replacen("\n1,", "\n7,", 1));
    fs::remove_file(desk.path("out/t/B/100/tasks.csv")).unwrap();
    desk.write("out/t/notes.txt", "mine");
    let ran = desk.run(&["verify", "out/t"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    for line in [
        "  NOT VERIFIED: ",
        "  differs  A/200/requests.csv: line 3: ",
        "  differs  B/100/tasks.csv: is missing\n",
        "  not compared  notes.txt: nothing in the folder says how it was made\n",
    ] {
        assert!(ran.stdout.contains(line), "{line}: {ran:?}");
    }
    assert!(
        ran.stderr.starts_with("batchlab: out/t: 2 of ") && ran.stderr.lines().count() == 1,
        "{ran:?}"
    );
}

#[test]
fn what_cannot_be_verified_is_said() {
    let desk = Desk::new();
    desk.run(&["verify", "out/t"])
        .failed(2, "out/t: has no run.json");
    desk.sim(&[]).ok();

    // Another build of the program: only what names it may differ.
    let run = desk.read("out/t/run.json");
    let mut other: serde_json::Value = serde_json::from_str(&run).unwrap();
    other["git_commit"] = "0000000".into();
    desk.write("out/t/run.json", format!("{other:#}\n"));
    let ran = desk.run(&["verify", "out/t"]).ok();
    assert!(
        ran.stdout
            .contains("another build of the program made the results"),
        "{ran:?}"
    );

    // A policy that this program lacks, beside one that it has.
    other["scenario"]["policy"][1]["kind"] = "from-python".into();
    desk.write("out/t/run.json", format!("{other:#}\n"));
    let ran = desk.run(&["verify", "out/t"]).ok();
    assert!(
        ran.stdout.contains("its policy is not in this program")
            && ran
                .stdout
                .contains("it also has policies that are not in this program"),
        "{ran:?}"
    );
    other["scenario"]["policy"][0]["kind"] = "from-python".into();
    desk.write("out/t/run.json", format!("{other:#}\n"));
    desk.run(&["verify", "out/t"]).failed(
        2,
        "run.json: no policy of it is in this program (A, B), as policies in Python",
    );

    // An input that has changed, or is gone.
    desk.write("out/t/run.json", &run);
    desk.write(
        "costs.csv",
        "cell,batch,ns\nlstm,1,1000000\nlstm,2,1200000\n",
    );
    desk.run(&["verify", "out/t"]).failed(
        2,
        "out/t/run.json: costs.csv is not what it was in this run",
    );
    fs::remove_file(desk.path("costs.csv")).unwrap();
    desk.run(&["verify", "out/t"])
        .failed(2, "no such file: costs.csv");
}

#[test]
fn real_runs_are_verified_by_replay() {
    let desk = Desk::new();
    record(&desk.path("t.toml"), &desk.path("out"), RESTLESS);
    let ran = desk.run(&["verify", "out/t"]).ok();
    assert!(
        ran.stdout
            .starts_with("out/t\n  verified: 8 files are equal\n"),
        "{ran:?}"
    );
    assert!(
        ran.stdout
            .contains("its times were measured; a replay repeats decisions only"),
        "{ran:?}"
    );
    let tasks = desk.read("out/t/A/100/tasks.csv");
    let last = tasks.trim_end().rfind('\n').unwrap();
    desk.write("out/t/A/100/tasks.csv", &tasks[..=last]);
    let ran = desk.run(&["verify", "out/t"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stdout
            .contains("differs  A/100: another decision in the replay"),
        "{ran:?}"
    );
}
