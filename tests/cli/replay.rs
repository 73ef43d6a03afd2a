//! `batchlab replay`: what it prints, and how it ends.

use std::fs;

use crate::desk::{Desk, SCENARIO};
use crate::recorded::{Quirks, RESTLESS, record};

/// A desk with the recordings of `t.toml` in `out/t`.
fn recorded(quirks: Quirks) -> Desk {
    let desk = Desk::new();
    record(&desk.path("t.toml"), &desk.path("out"), quirks);
    desk
}

#[test]
fn a_scenario_a_policy_or_a_point_is_replayed() {
    let desk = recorded(RESTLESS);
    let ran = desk.run(&["replay", "out/t"]).ok();
    let lines: Vec<Vec<&str>> = ran
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["policy", "point", "rounds", "tasks", "equal"]);
    let points: Vec<(&str, &str, &str)> = lines[1..]
        .iter()
        .map(|line| (line[0], line[1], line[4]))
        .collect();
    assert_eq!(
        points,
        [
            ("A", "100", "yes"),
            ("A", "200", "yes"),
            ("B", "100", "yes"),
            ("B", "200", "yes")
        ]
    );
    assert_eq!(ran.stderr, "");
    assert_eq!(
        desk.run(&["replay", "out/t/B/"])
            .ok()
            .stdout
            .lines()
            .count(),
        3
    );
    assert_eq!(
        desk.run(&["replay", "out/t/B/../B/200"])
            .ok()
            .stdout
            .lines()
            .count(),
        2
    );
}

#[test]
fn json_has_all_of_it() {
    let desk = recorded(RESTLESS);
    let json = desk
        .run(&["replay", "out/t/A", "--format", "json"])
        .ok()
        .json();
    assert_eq!(
        (&json["scenario"], json["rows"].as_array().unwrap().len()),
        (&"t".into(), 2)
    );
    let row = &json["rows"][1];
    assert_eq!(
        (&row["policy"], &row["point"], &row["equal"]),
        (&"A".into(), &"200".into(), &true.into())
    );
    assert!(
        row["tasks"].as_u64().unwrap() > 10
            && row["rounds"] == row["rounds_played"]
            && row["difference"].is_null()
    );
}

#[test]
fn a_difference_is_shown_and_fails() {
    let desk = recorded(RESTLESS);
    let tasks = desk.read("out/t/B/200/tasks.csv");
    desk.write(
        "out/t/B/200/tasks.csv",
        tasks.replacen("\n5,0,0,lstm,", "\n5,0,0,lstm,9", 1),
    );
    let ran = desk.run(&["replay", "out/t"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stdout.contains("\n\nB at 200: round ")
            && ran.stdout.contains(", task 5\n  recorded  lstm"),
        "{ran:?}"
    );
    assert_eq!(
        ran.stderr,
        "batchlab: out/t: 1 of 4 recorded runs have other decisions in the replay\n"
    );
}

#[test]
fn an_interruption_is_told() {
    let desk = recorded(Quirks {
        stop_after: Some(60),
        ..RESTLESS
    });
    let ran = desk.run(&["replay", "out/t/A"]).ok();
    assert_eq!(
        ran.stdout.matches("yes, to its interruption\n").count(),
        2,
        "{ran:?}"
    );
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let desk = Desk::new();
    desk.sim(&[]).ok();
    desk.run(&["replay", "out/t"]).failed(
        2,
        "out/t: there is no rounds.csv in any of its points; a replay needs",
    );
    desk.run(&["replay", "out"]).failed(
        2,
        "out: has no run.json; name the folder that a run wrote its results to",
    );
    desk.run(&["replay", "nowhere"])
        .failed(2, "nowhere: cannot be read");

    let desk = recorded(RESTLESS);
    desk.write("lengths.csv", "length,count\n2,1\n4,3\n9,1\n");
    desk.run(&["replay", "out/t"]).failed(2, "out/t/run.json: ");
    desk.run(&["replay", "out/t"]).failed(
        2,
        "lengths.csv is not what it was in this run, so that the run can't be made",
    );
    fs::remove_file(desk.path("lengths.csv")).unwrap();
    desk.run(&["replay", "out/t"]).failed(
        2,
        "out/t/run.json: workload.dataset: no such file: lengths.csv",
    );

    let desk = recorded(RESTLESS);
    fs::remove_file(desk.path("out/t/A/100/tasks.csv")).unwrap();
    desk.run(&["replay", "out/t"]).failed(
        2,
        "tasks.csv: is not there, and decisions are compared with it",
    );
    desk.write("out/t/A/100/tasks.csv", "task\n");
    desk.run(&["replay", "out/t"])
        .failed(2, "tasks.csv: no column \"worker\"; there are task");
    desk.write(
        "out/t/A/100/rounds.csv",
        "now_ns,completed,arrived\n5,,1\n4,,0\n",
    );
    desk.run(&["replay", "out/t/A/100"])
        .failed(2, "rounds.csv: line 3: now_ns: is before the round above");
    desk.write(
        "out/t/A/100/rounds.csv",
        "now_ns,completed,arrived\n5,x,1\n",
    );
    desk.run(&["replay", "out/t/A/100"]).failed(
        2,
        "rounds.csv: line 2: completed: \"x\" is not a task's number",
    );
}

#[test]
fn files_lie_beside_the_scenario_wherever_one_calls_from() {
    let desk = recorded(RESTLESS);
    fs::create_dir(desk.path("elsewhere")).unwrap();
    let results = desk.path("out/t").display().to_string();
    let mut command = desk.command(&["replay", &results]);
    let output = command
        .current_dir(desk.path("elsewhere"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(SCENARIO.contains("\"lengths.csv\""));
}

#[test]
fn a_ledger_shows_every_term() {
    let desk = recorded(Quirks {
        launch: 900_000,
        ..Quirks::default()
    });
    let ran = desk.run(&["replay", "out/t/A", "--ledger"]).ok();
    assert_eq!(ran.stdout.matches("\nA at ").count(), 2, "{ran:?}");
    for line in [
        "real",
        "all as recorded",
        "durations by the model",
        "dispatch by the model",
        "arrivals by the model",
        "all by the model",
        "owner of the gap: dispatch (by the model, the mean changes by -",
    ] {
        assert_eq!(
            ran.stdout.matches(&format!("\n{line}")).count(),
            2,
            "{line}: {ran:?}"
        );
    }
    let json = desk
        .run(&["replay", "out/t/A/100", "--ledger", "--format", "json"])
        .ok()
        .json();
    let ledger = &json["rows"][0]["ledger"];
    assert_eq!(ledger["owner"], "dispatch");
    assert_eq!(ledger["real"], ledger["recorded"]);
    assert_eq!(
        ledger["by_model"]["dispatch"], ledger["all_by_model"],
        "nothing else differs"
    );
    let effects =
        ["durations", "dispatch", "arrivals"].map(|term| ledger["effects"][term].as_f64().unwrap());
    assert!(
        effects[1] < -0.01 && effects[0] == 0.0 && effects[2] == 0.0,
        "{effects:?}"
    );
    assert!(
        desk.run(&["replay", "out/t/A", "--format", "json"])
            .ok()
            .json()["rows"][0]["ledger"]
            .is_null()
    );
}

#[test]
fn a_ledger_needs_costs() {
    let desk = Desk::new();
    desk.write(
        "t.toml",
        SCENARIO
            .replace("costs = \"costs.csv\"\n", "")
            .replace("requests = 200", "requests = 20"),
    );
    desk.run(&[
        "real",
        "t.toml",
        "-q",
        "--out",
        "out",
        "--set",
        "workload.hidden=8",
    ])
    .ok();
    desk.run(&["replay", "out/t", "--ledger"]).failed(
        2,
        "out/t: its scenario names no costs for \"A\"; name the table to simulate with, as --costs COSTS.csv",
    );
    desk.write("other.csv", "cell,batch,ns\ngru,1,2000000\n");
    let other = desk.run(&["replay", "out/t", "--ledger", "--costs", "other.csv"]);
    assert!(
        other.code == Some(2) && !other.stderr.contains("--costs"),
        "the option was given: {other:?}"
    );
}

#[test]
fn a_ledger_takes_other_costs() {
    let desk = recorded(Quirks::default());
    assert!(
        desk.run(&["replay", "out/t/A", "--ledger"])
            .ok()
            .stdout
            .contains("no term changes anything\n")
    );
    desk.write("slow.csv", "cell,batch,ns\nlstm,1,2000000\n");
    let ran = desk
        .run(&["replay", "out/t/A", "--ledger", "--costs", "slow.csv"])
        .ok();
    assert!(
        ran.stdout
            .contains("owner of the gap: durations (by the model, the mean changes by +"),
        "{ran:?}"
    );
    desk.run(&["replay", "out/t/A", "--ledger", "--costs", "gone.csv"])
        .failed(2, "gone.csv: cannot be read");
    assert_eq!(
        desk.run(&["replay", "out/t/A", "--costs", "slow.csv"]).code,
        Some(2),
        "costs are the ledger's"
    );
    // Where the decisions differ, times belong to nothing.
    let tasks = desk.read("out/t/A/200/tasks.csv");
    desk.write(
        "out/t/A/200/tasks.csv",
        tasks.replacen("\n5,0,0,lstm,", "\n5,0,0,lstm,9", 1),
    );
    let ran = desk.run(&["replay", "out/t/A", "--ledger", "--format", "json"]);
    assert_eq!(ran.code, Some(1));
    let rows = &ran.json()["rows"];
    assert!(rows[0]["ledger"].is_object() && rows[1]["ledger"].is_null());
}

#[test]
fn a_closed_loop_has_no_ledger() {
    let desk = Desk::new();
    desk.write(
        "t.toml",
        SCENARIO.replace(
            "process = \"poisson\"\nrates = [100, 200]",
            "process = \"closed\"\nclients = [3]",
        ),
    );
    record(&desk.path("t.toml"), &desk.path("out"), RESTLESS);
    desk.run(&["replay", "out/t"]).ok();
    desk.run(&["replay", "out/t/A", "--ledger"]).failed(
        2,
        "in a closed loop arrivals follow from the run, so that they",
    );
}
