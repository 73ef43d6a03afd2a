//! The files of a run: names and contents.

use serde_json::{Value, json};

use crate::desk::{Desk, SCENARIO};

/// The columns that come first, in this order.
const SUMMARY: &str = "policy,backend,offered_rps,throughput_rps,goodput_rps,completed,failed,rejected,mean_ms,p50_ms,\
    p90_ms,p95_ms,p99_ms,p999_ms,queue_p50_ms,queue_p99_ms,compute_p50_ms,compute_p99_ms,mean_batch,padding,utilization";
const FURTHER: &str =
    "point,saturated,warmup,max_ms,queue_p90_ms,compute_p90_ms,slo_ms,replications";

#[test]
fn columns_are_those_of_the_design() {
    let desk = Desk::new();
    desk.sim(&["--set", "metrics.slo=20ms"]).ok();
    let header = |name: &str| desk.read(name).lines().next().unwrap().to_string();
    assert_eq!(
        header("out/t/A/100/requests.csv"),
        "id,arrival_ns,start_ns,finish_ns,class,length,measured,outcome"
    );
    assert_eq!(
        header("out/t/A/100/tasks.csv"),
        "task,worker,stream,cell,batch,submit_ns,start_ns,finish_ns"
    );
    assert_eq!(header("out/t/A/100/batches.csv"), "cell,batch,tasks");
    assert_eq!(header("out/t/lengths.csv"), "length,count");
    assert_eq!(header("out/t/summary.csv"), format!("{SUMMARY},{FURTHER}"));
    let rows = desk.rows("out/t/summary.csv");
    let points: Vec<_> = rows
        .iter()
        .map(|row| (row["policy"].as_str(), row["point"].as_str()))
        .collect();
    assert_eq!(
        points,
        [("A", "100"), ("A", "200"), ("B", "100"), ("B", "200")]
    );
    for row in &rows {
        assert_eq!(
            (row["backend"].as_str(), row["p999_ms"].as_str()),
            ("sim", ""),
            "too few for a 999th permille"
        );
        let number = |key: &str| {
            row[key]
                .parse::<f64>()
                .unwrap_or_else(|_| panic!("{key} = {:?}", row[key]))
        };
        assert!(number("goodput_rps") <= number("throughput_rps"));
        assert!(number("p50_ms") <= number("p90_ms") && number("p90_ms") <= number("max_ms"));
    }
}

#[test]
fn columns_of_intervals_stand_behind_all_others() {
    let desk = Desk::new();
    desk.sim(&["--replications", "2"]).ok();
    let text = desk.read("out/t/summary.csv");
    let header = text.lines().next().unwrap();
    let intervals = header
        .strip_prefix(&format!("{SUMMARY},{FURTHER},"))
        .expect("the others as without");
    assert!(
        intervals.split(',').all(|column| column.ends_with("_ci")),
        "{intervals}"
    );
    assert!(
        intervals.contains("throughput_rps_ci,") && intervals.contains(",p99_ms_ci,"),
        "{intervals}"
    );
}

#[test]
fn only_what_is_asked_for_is_written() {
    let desk = Desk::new();
    let names = || {
        let files = desk.files("out/t/A/100");
        files.keys().cloned().collect::<Vec<_>>()
    };
    desk.sim(&["--set", "output.timeline=true"]).ok();
    assert_eq!(
        names(),
        [
            "batches.csv",
            "point.json",
            "requests.csv",
            "tasks.csv",
            "timeline.json"
        ]
    );
    let timeline: Value = serde_json::from_str(&desk.read("out/t/A/100/timeline.json")).unwrap();
    assert!(
        timeline["traceEvents"]
            .as_array()
            .is_some_and(|events| events.len() > 200)
    );
    // Files of an earlier run that this run does not write must not remain.
    desk.sim(&[
        "--set",
        "output.requests=false",
        "--set",
        "output.tasks=false",
        "--seed",
        "2",
    ])
    .ok();
    assert_eq!(names(), ["batches.csv", "point.json"]);
}

#[test]
fn batches_beyond_the_cost_table_are_counted() {
    let desk = Desk::new();
    let ran = desk.run(&["sim", "t.toml", "--out", "out"]).ok();
    let note = ran
        .stderr
        .lines()
        .find(|line| line.starts_with("extrapolated: "))
        .expect("a note");
    assert!(
        note.contains("batches of lstm")
            && note.ends_with(
                "were larger than the measured 1..2 of costs.csv; above 2 the slope of the last two rows goes on"
            ),
        "{note}"
    );
    let point: Value = serde_json::from_str(&desk.read("out/t/A/200/point.json")).unwrap();
    let beyond = &point["summary"]["extrapolated"][0];
    let batches = desk.rows("out/t/A/200/batches.csv");
    let tasks = |rule: &dyn Fn(u64) -> bool| -> u64 {
        let of_size = batches
            .iter()
            .filter(|row| rule(row["batch"].parse().unwrap()));
        of_size
            .map(|row| row["tasks"].parse::<u64>().unwrap())
            .sum()
    };
    assert_eq!(beyond["above"], tasks(&|batch| batch > 2));
    assert_eq!(
        (&beyond["below"], &beyond["batches"]),
        (&json!(0), &json!(tasks(&|_| true)))
    );
    // A resumed run repeats its notes.
    let again = desk
        .run(&["sim", "t.toml", "--out", "out", "--resume"])
        .ok();
    assert!(again.stderr.contains(note), "{}", again.stderr);

    desk.write(
        "costs.csv",
        "cell,batch,ns\nlstm,1,1000000\nlstm,512,1100000\n",
    );
    assert!(
        !desk
            .run(&["sim", "t.toml", "--out", "out"])
            .ok()
            .stderr
            .contains("extrapolated")
    );
    assert!(!desk.read("out/t/A/200/point.json").contains("extrapolated"));
}

#[test]
fn steps_are_padded_to_supported_sizes() {
    let desk = Desk::new();
    desk.write(
        "costs.csv",
        "cell,batch,ns\nlstm,1,1000000\nlstm,4,4000000\ntask,1,10\ntask,4,40\n",
    );
    desk.sim(&[
        "--set",
        "policy.A.max_batch=3",
        "--set",
        "policy.A.batch_sizes=[2, 4]",
    ])
    .ok();
    let number = |row: &std::collections::BTreeMap<String, String>, key: &str| {
        row[key].parse::<u64>().unwrap()
    };
    let (mut nodes, mut rows) = (0, 0);
    let tasks = desk.rows("out/t/A/200/tasks.csv");
    for task in &tasks {
        let batch = number(task, "batch");
        let size = [0, 2, 2, 4][batch as usize];
        assert_eq!(
            number(task, "finish_ns") - number(task, "start_ns"),
            size * 1_000_000 + batch * 10
        );
        (nodes, rows) = (nodes + batch, rows + size);
    }
    let batches = desk.rows("out/t/A/200/batches.csv");
    let counted: Vec<u64> = batches.iter().map(|row| number(row, "batch")).collect();
    assert_eq!(counted, [2, 4]);
    assert_eq!(
        batches
            .iter()
            .map(|row| number(row, "batch") * number(row, "tasks"))
            .sum::<u64>(),
        rows
    );
    let summary = desk.rows("out/t/summary.csv");
    let ours = summary
        .iter()
        .find(|row| row["policy"] == "A" && row["offered_rps"] == "200.000")
        .expect("a row");
    let padding: f64 = ours["padding"].parse().unwrap();
    assert!(
        (padding - (1.0 - nodes as f64 / rows as f64)).abs() < 1e-6,
        "{padding}"
    );
}

#[test]
fn folders_are_named_by_label_and_rate() {
    let desk = Desk::new();
    let label = "BW 10, 64+ü:µs (x=1)";
    desk.sim(&[
        "--set",
        &format!("policy.B.label='{label}'"),
        "--set",
        "arrivals.rates=[0.5, 1e3, 250.25]",
    ])
    .ok();
    for point in ["0.5", "1000", "250.25"] {
        assert!(
            desk.path(&format!("out/t/BW 10, 64+___s (x=1)/{point}/requests.csv"))
                .is_file(),
            "{point}"
        );
    }
    assert!(
        desk.read("out/t/summary.csv")
            .contains(&format!("\"{label}\",sim,"))
    );
}

#[test]
fn run_json_holds_what_reproduces_the_run() {
    let desk = Desk::new();
    desk.sim(&["--seed", "18446744073709551615"]).ok();
    let run: Value = serde_json::from_str(&desk.read("out/t/run.json")).unwrap();
    assert_eq!(run["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        (&run["backend"], &run["replications"]),
        (&json!("sim"), &json!(1))
    );
    assert_eq!(run["seed"], json!(u64::MAX));
    assert!(run["git_commit"].is_string());
    let scenario = &run["scenario"];
    assert_eq!(
        scenario["workload"]["hidden"], 1024,
        "defaults are filled in"
    );
    assert_eq!(scenario["policy"][1]["bucket_width"], 10);
    assert_eq!(scenario["metrics"]["warmup"], "auto");
    let host: Value = serde_json::from_str(&desk.read("out/t/host.json")).unwrap();
    assert_eq!(host["runs"].as_array().unwrap().len(), 4);
    assert!(
        host["runs"][0]["scheduler_ns_per_decision"]
            .as_f64()
            .unwrap()
            > 0.0
    );
}

#[test]
fn a_policy_has_costs_and_overheads_of_its_own() {
    let desk = Desk::new();
    desk.write("slow.csv", "cell,batch,ns\nlstm,1,7000000\n");
    let head = SCENARIO
        .split("[arrivals]")
        .next()
        .unwrap()
        .replace("lengths.csv", "constant:3");
    let rest = "[arrivals]\nprocess = \"offline\"\n[device]\ncosts = \"costs.csv\"\n[overhead]\ntask_ns = 10\n";
    let policies = "[[policy]]\nkind = \"immediate\"\nlabel = \"plain\"\n\
        [[policy]]\nkind = \"immediate\"\nlabel = \"slow\"\ncosts = \"slow.csv\"\n\
        [[policy]]\nkind = \"immediate\"\nlabel = \"free\"\noverhead = { task_ns = 0 }\n";
    desk.write("t.toml", format!("{head}{rest}{policies}"));
    desk.sim(&["--set", "workload.requests=2"]).ok();
    for (policy, cell, overhead) in [
        ("plain", 1_000_000, 10),
        ("slow", 7_000_000, 10),
        ("free", 1_000_000, 0),
    ] {
        let tasks = desk.rows(&format!("out/t/{policy}/offline/tasks.csv"));
        let time = |row: &std::collections::BTreeMap<String, String>, key: &str| {
            row[key].parse::<u64>().unwrap()
        };
        let busy: u64 = tasks
            .iter()
            .map(|task| time(task, "finish_ns") - time(task, "start_ns"))
            .sum();
        assert_eq!(busy, 6 * cell + tasks.len() as u64 * overhead, "{policy}");
    }
}

#[test]
fn replications_give_paired_differences() {
    let desk = Desk::new();
    desk.sim(&[]).ok();
    assert!(
        !desk.path("out/t/differences.csv").exists(),
        "one run has none"
    );
    desk.sim(&["--replications", "3"]).ok();
    let text = desk.read("out/t/differences.csv");
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("policy,against,point,figure,difference,difference_ci")
    );
    let row = lines
        .find(|line| line.starts_with("B,A,100,mean_ms,"))
        .expect("B is compared with A");
    let difference: f64 = row.split(',').nth(4).unwrap().parse().unwrap();
    assert!(difference > 0.0, "padding is slower here: {row}");
}
