//! `batchlab verify`: results are made again and compared.

use std::fs;

use crate::desk::{Desk, SCENARIO, files_below};
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
    assert_eq!(ran.code, Some(2));
    for file in ["lengths.csv", "costs.csv"] {
        let message = format!("no such file: {file}");
        assert!(ran.stderr.contains(&message), "{ran:?}");
    }
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
    // Whatever has become of the scenario's file.
    let scenario = desk.read("t.toml");
    desk.write(
        "t.toml",
        scenario.replace("requests = 200", "requests = 300"),
    );
    assert_eq!(desk.run(&["verify", "out/t"]).ok().stdout, ran.stdout);
    fs::remove_file(desk.path("t.toml")).unwrap();
    assert_eq!(desk.run(&["verify", "out/t"]).ok().stdout, ran.stdout);
    desk.write("t.toml", scenario);
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
        "out/t/workers.json: command: is not a call of find-workers",
    );
}

/// A coarse search.
const COARSE: [&str; 12] = [
    "find-knee",
    "t.toml",
    "--slo",
    "50ms",
    "--tolerance",
    "0.1",
    "--replications",
    "2",
    "--out",
    "out",
    "--quiet",
    "--max-requests=2000",
];

#[test]
fn a_search_that_cannot_be_made_again_is_explained() {
    let desk = Desk::new();
    let verify = || desk.run(&["verify", "out/t"]);
    desk.run(&[&COARSE[..], &["--shard", "1/2"]].concat()).ok();
    verify().failed(
        2,
        "out/t: has no knee.json: its search is not finished, or its shards are not merged; call find-knee with --resume",
    );
    desk.run(&[&COARSE[..], &["--resume"]].concat()).ok();
    let settings = desk.read("out/t/knee.json");
    let mut other: serde_json::Value = serde_json::from_str(&settings).unwrap();

    // An own policy beside a known one, then alone.
    let own = settings.replace("\"kind\": \"padded\"", "\"kind\": \"own\"");
    desk.write("out/t/knee.json", own);
    verify().failed(
        2,
        "out/t: nothing in it can be compared: the search has policies that are not in this program (B); verify it with",
    );
    other["scenario"]["policy"]
        .as_array_mut()
        .unwrap()
        .remove(0);
    other["scenario"]["policy"][0]["kind"] = "own".into();
    desk.write("out/t/knee.json", other.to_string());
    verify().failed(
        2,
        "out/t/knee.json: no policy of it is in this program (B), as policies in Python or in another crate are not",
    );

    // An earlier version wrote no command.
    let mut other: serde_json::Value = serde_json::from_str(&settings).unwrap();
    other.as_object_mut().unwrap().remove("command");
    other["git_commit"] = "0000000".into();
    desk.write("out/t/knee.json", format!("{other:#}\n"));
    verify().failed(
        2,
        "out/t: nothing in it can be compared: an earlier version made the search and does not say with which options; \
         call find-knee again",
    );
    desk.sim(&[]).ok();
    let ran = verify().ok();
    assert!(
        ran.stdout.contains(": an earlier version made the search"),
        "{ran:?}"
    );
}

#[test]
fn folders_without_a_whole_run_name_the_way_out() {
    let desk = Desk::new();
    let verify = |folder: &str| desk.run(&["verify", folder]);
    desk.sim(&["--shard", "1/2"]).ok();
    let ran = verify("out/t");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    for line in [
        "  files are missing as in a run that is not finished or whose shards are not merged; if it is one, go on with --resume,",
        "  differs  A/200: is missing with all its files\n",
        "  differs  summary.csv: is missing\n",
    ] {
        assert!(ran.stdout.contains(line), "{line}: {ran:?}");
    }
    desk.sim(&["--resume"]).ok();
    verify("out/t").ok();
    verify("out/t/A/200").failed(
        2,
        "out/t/A/200: is a part of results, which are verified as a whole; name out/t",
    );
    verify("out").failed(2, "out: has no run.json; the results are in out/t");
    fs::remove_dir_all(desk.path("out")).unwrap();
    let words = "tune t.toml --policy A --over max_batch=1,2 --slo 1ns --replications 2 --max-requests 2000 --out out -q";
    desk.run(&words.split(' ').collect::<Vec<_>>()).ok();
    verify("out/t").failed(
        2,
        "out/t: has answers of tune only: no file says with which options tune ran; call it again with another --out, and",
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
        .failed(2, "out/t: cannot be read: ");
    fs::create_dir_all(desk.path("out/t")).unwrap();
    desk.run(&["verify", "out/t"]).failed(
        2,
        "out/t: has no run.json; name the folder that a run wrote",
    );
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
    other["scenario"]["device"]["launch"] = "graph".into();
    desk.write("out/t/run.json", format!("{other:#}\n"));
    let ran = desk.run(&["verify", "out/t"]);
    assert!(
        ran.stdout.contains(
            "differs  run.json: scenario.device.launch: the folder has \"graph\", a new run gives nothing\n"
        ),
        "a key that was removed: {ran:?}"
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
            .starts_with("out/t\n  verified: 10 files are equal\n"),
        "two logs of four points, and two tables: {ran:?}"
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
            .contains("differs  A/100: the replay decides differently: "),
        "{ran:?}"
    );
}

/// A summary of real runs is made again from what the points say of themselves, and each point names its files.
#[test]
fn files_that_real_runs_lack_are_named() {
    let desk = Desk::new();
    let words = "real t.toml --set workload.hidden=4 --set workload.requests=20 --set arrivals.rates=[900,1800] --repeats 2";
    let words: Vec<&str> = words.split(' ').collect();
    desk.run(&[&words[..], &["--out", "out", "-q"]].concat())
        .ok();
    let ran = desk.run(&["verify", "out/t"]).ok();
    assert!(
        ran.stdout
            .starts_with("out/t\n  verified: 11 files are equal\n"),
        "two logs of four points, and three tables: {ran:?}"
    );
    let whole = files_below(&desk.path("out"));
    let restore = || {
        for (name, bytes) in &whole {
            let path = desk.path("out").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    };
    let unfinished = "files are missing as in a run that is not finished";
    for file in [
        "A/1800/batches-2.csv",
        "A/1800/batches.csv",
        "A/1800/point-2.json",
        "A/1800/point.json",
        "A/1800/requests.csv",
        "A/1800/rounds.csv",
        "A/1800/tasks.csv",
        "differences.csv",
        "host.json",
        "lengths.csv",
        "summary.csv",
    ] {
        fs::remove_file(desk.path("out/t").join(file)).unwrap();
        let ran = desk.run(&["verify", "out/t"]);
        let line = format!("  differs  {file}: is missing\n");
        assert!(
            ran.code == Some(1) && ran.stdout.contains(&line),
            "{file}: {ran:?}"
        );
        let is_mark = file.contains("point") || file == "summary.csv";
        assert_eq!(ran.stdout.contains(unfinished), is_mark, "{ran:?}");
        restore();
    }
    fs::remove_dir_all(desk.path("out/t/B")).unwrap();
    let batches = desk.read("out/t/A/900/batches-2.csv");
    desk.write("out/t/A/900/batches-2.csv", &batches[..10]);
    let ran = desk.run(&["verify", "out/t"]);
    for line in [
        "  differs  A/900/batches-2.csv: has 10 bytes, but ",
        "  differs  B/900: is missing with all its files\n",
        "  differs  B/1800: is missing with all its files\n",
        "  differs  summary.csv: line 4: the folder has \"B,",
    ] {
        assert!(ran.stdout.contains(line), "{line}: {ran:?}");
    }
    restore();
    for point in ["A/900", "A/1800", "B/900", "B/1800"] {
        fs::remove_file(desk.path("out/t").join(point).join("rounds.csv")).unwrap();
    }
    let ran = desk.run(&["verify", "out/t"]);
    assert!(
        ran.code == Some(1) && ran.stdout.contains("B/1800/rounds.csv: is missing"),
        "{ran:?}"
    );
}
