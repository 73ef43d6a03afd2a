//! Sweeps, in a scenario and by `--sweep`.

use serde_json::{Value, json};

use crate::desk::{Desk, Ran, SCENARIO, same};

const BOTH: [&str; 4] = [
    "--sweep",
    "device.workers=1,2",
    "--sweep",
    "policy.B.max_batch=4,16",
];

fn sim(desk: &Desk, more: &[&str]) -> Ran {
    desk.run(&[&["sim", "t.toml", "--out", "out", "--threads", "2"], more].concat())
}

/// Policy, load and the swept columns of each row.
fn rows(desk: &Desk) -> Vec<String> {
    let text = desk.read("out/t/summary.csv");
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        [
            fields[0],
            fields[21],
            fields[fields.len() - 2],
            fields[fields.len() - 1],
        ]
        .join(" ")
    };
    text.lines().map(row).collect()
}

fn host_runs(desk: &Desk) -> usize {
    let host: Value = serde_json::from_str(&desk.read("out/t/host.json")).unwrap();
    host["runs"].as_array().unwrap().len()
}

#[test]
fn a_sweep_has_a_row_and_a_folder_for_each_combination() {
    let desk = Desk::new();
    let ran = sim(&desk, &BOTH).ok();
    assert_eq!(
        rows(&desk)[..7],
        [
            "policy point device.workers policy.B.max_batch",
            "A 100 1 ",
            "A 200 1 ",
            "B 100 1 4",
            "B 200 1 4",
            "B 100 1 16",
            "B 200 1 16",
        ]
    );
    assert_eq!(rows(&desk).len(), 13);
    let heading = ran.stdout.lines().nth(1).unwrap();
    assert!(
        heading.starts_with("policy  device.workers  max_batch  offered"),
        "{heading}"
    );
    for folder in [
        "A/100,device.workers=2",
        "B/200,device.workers=1,policy.B.max_batch=16",
    ] {
        assert!(
            desk.path("out/t")
                .join(folder)
                .join("requests.csv")
                .is_file(),
            "{folder}"
        );
    }
    // Other workers have other bounds, but the same requests.
    assert!(!desk.path("out/t/bounds.json").exists());
    assert!(desk.path("out/t/lengths.csv").exists());
    // Names of folders have a limit, which shows before the first run.
    let long = format!(
        "workload.dataset=lengths.csv,{}lengths.csv",
        "./".repeat(130)
    );
    let refused = desk.run(&["sim", "t.toml", "--out", "none", "--sweep", &long]);
    refused.failed(
        2,
        "sweep: the folder of a point of \"A\" would have a name of 292 letters",
    );
    assert!(!desk.path("none").exists());
    // As JSON, values are numbers.
    let json = sim(&desk, &[&BOTH[..], &["--format", "json"]].concat())
        .ok()
        .json();
    let row = &json["rows"][2];
    assert_eq!(
        (&row["device.workers"], &row["policy.B.max_batch"]),
        (&json!(1), &json!(4))
    );
    assert_eq!(json["rows"][0]["policy.B.max_batch"], Value::Null);
}

#[test]
fn each_combination_is_the_run_with_its_values_set() {
    let desk = Desk::new();
    sim(&desk, &[&BOTH[..], &["--replications", "2"]].concat()).ok();
    let sets = [
        "--set",
        "device.workers=2",
        "--set",
        "policy.B.max_batch=16",
        "--replications",
        "2",
    ];
    desk.run(&[&["sim", "t.toml", "--out", "single"], &sets[..]].concat())
        .ok();
    for (policy, keys) in [("A", ""), ("B", ",policy.B.max_batch=16")] {
        for file in ["requests.csv", "tasks.csv", "batches-2.csv"] {
            let swept = desk.read(&format!("out/t/{policy}/200,device.workers=2{keys}/{file}"));
            assert_eq!(
                swept,
                desk.read(&format!("single/t/{policy}/200/{file}")),
                "{policy} {file}"
            );
        }
    }
    let differences = desk.read("out/t/differences.csv");
    assert!(
        differences
            .contains("\n\"B, device.workers=2, max_batch=16\",\"A, device.workers=2\",200,"),
        "{differences}"
    );
}

#[test]
fn the_table_of_a_scenario_and_the_option_are_the_same() {
    let desk = Desk::new();
    sim(&desk, &BOTH).ok();
    let by_option = desk.files("out");
    desk.write(
        "t.toml",
        format!("{SCENARIO}[sweep]\n\"device.workers\" = [1, 2]\npolicy.B.max_batch = [4, 16]\n"),
    );
    sim(&desk, &[]).ok();
    same(&by_option, &desk.files("out"));
    // An option replaces the list of its key, and the table goes with --set.
    sim(&desk, &["--sweep", "device.workers=3"]).ok();
    assert_eq!(rows(&desk)[1], "A 100 3 ");
    sim(&desk, &["--set", "sweep={}"]).ok();
    assert!(!desk.read("out/t/summary.csv").contains("device.workers"));
}

#[test]
fn a_sweep_is_resumed_and_may_grow() {
    let desk = Desk::new();
    sim(&desk, &BOTH).ok();
    let whole = desk.files("out");
    std::fs::remove_file(desk.path("out/t/A/100,device.workers=2/point.json")).unwrap();
    sim(&desk, &[&BOTH[..], &["--resume"]].concat()).ok();
    assert_eq!(host_runs(&desk), 1);
    same(&whole, &desk.files("out"));
    sim(
        &desk,
        &[
            "--sweep",
            "device.workers=1,2,3",
            BOTH[2],
            BOTH[3],
            "--resume",
        ],
    )
    .ok();
    assert_eq!((host_runs(&desk), rows(&desk).len()), (6, 19));
    let other = sim(
        &desk,
        &["--sweep", "device.workers=1", "--seed", "9", "--resume"],
    );
    other.failed(2, "was run with other settings, seed");
}

#[test]
fn lists_texts_and_loads_can_be_swept() {
    let desk = Desk::new();
    let sweeps = [
        "--sweep",
        "arrivals.rates=[50],[100, 150]",
        "--sweep",
        "policy.A.max_batch={lstm=8},{lstm=16}",
    ];
    sim(&desk, &sweeps).ok();
    let folder = desk.path("out/t/A/150,arrivals.rates=_100,150_,policy.A.max_batch=_lstm=16_");
    assert!(folder.join("requests.csv").is_file());
    let ran = desk
        .run(&["explain", &folder.display().to_string(), "request", "7"])
        .ok();
    assert!(ran.stdout.starts_with("request 7 "), "{ran:?}");
    sim(
        &desk,
        &[
            "--sweep",
            "workload.dataset=constant:2,lengths.csv",
            "--sweep",
            "seed=1,2",
        ],
    )
    .ok();
    assert!(
        desk.path("out/t/B/100,workload.dataset=constant_2,seed=2")
            .is_dir()
    );
    assert!(
        !desk.path("out/t/lengths.csv").exists(),
        "the requests differ"
    );
}

#[test]
fn other_commands_know_the_results_of_sweeps() {
    let desk = Desk::new();
    sim(&desk, &[&BOTH[..], &["--set", "metrics.slo=50ms"]].concat()).ok();
    let point = "out/t/B/100,device.workers=2,policy.B.max_batch=4";
    let ran = desk.run(&["explain", point, "request", "3"]).ok();
    assert!(
        ran.stdout
            .contains("under B, device.workers=2, max_batch=4 at 100"),
        "{ran:?}"
    );
    let several = desk.run(&["explain", "out/t/A", "request", "3"]);
    assert!(
        several.code == Some(2) && several.stderr.contains("holds 4 points"),
        "{several:?}"
    );
    let again = [
        "sim",
        "t.toml",
        "--out",
        "b",
        "--set",
        "overhead.task_ns=9",
        "--sweep",
        "device.workers=2",
    ];
    desk.run(&again).ok();
    let compared = desk
        .run(&["compare", "out/t", "b/t", "--out", "c", "--format", "json"])
        .ok()
        .json();
    assert_eq!(compared["rows"][0]["point"], "100,device.workers=2");
    assert!(
        desk.path("c/latency-cdf-100,device.workers=2.svg")
            .is_file()
    );
    desk.run(&["replay", "out/t"])
        .failed(2, "there is no rounds.csv");
}

#[test]
fn figures_have_a_series_for_each_combination_or_a_key_as_x() {
    let desk = Desk::new();
    let sweeps = [
        "--sweep",
        "device.workers=16,2",
        "--sweep",
        "policy.B.max_batch=8,128,16",
    ];
    sim(
        &desk,
        &[&sweeps[..], &["--set", "workload.requests=2000"]].concat(),
    )
    .ok();
    let plot = |more: &[&str]| {
        desk.run(&[&["plot", "out/t", "--format", "svg", "-o", "f/"], more].concat())
    };
    plot(&["--kind", "latency-rate", "--kind", "latency-cdf"]).ok();
    let by_rate = desk.read("f/latency-rate.svg");
    let at = |svg: &str, text: &str| {
        svg.find(&format!("\n{text}\n"))
            .unwrap_or_else(|| panic!("no {text} in {svg}"))
    };
    let labels = [
        "A, device.workers=2",
        "A, device.workers=16",
        "B, device.workers=2, max_batch=8",
    ];
    let places = labels.map(|label| at(&by_rate, label));
    assert!(places.is_sorted(), "{places:?}");
    at(
        &desk.read("f/latency-cdf.svg"),
        "B, device.workers=2, max_batch=128",
    );
    plot(&["--x", "max_batch", "--point", "200"]).ok();
    let by_key = desk.read("f/latency-rate-by-max_batch.svg");
    let places = ["8", "16", "128"].map(|value| at(&by_key, value));
    assert!(places.is_sorted(), "{places:?}");
    at(&by_key, "B, device.workers=16");
    assert!(!by_key.contains("\nA"), "the key does not concern A");
    assert!(desk.path("f/bars-by-max_batch.svg").is_file());
    plot(&["--x", "device.workers", "--kind", "bars"]).ok();
    at(
        &desk.read("f/bars-by-device.workers.svg"),
        "B, max_batch=16, at 200",
    );
    let loads = [
        "--set",
        "arrivals.rates=[100,150,200,250]",
        "--set",
        "workload.requests=2000",
        "--out",
        "more",
    ];
    desk.run(&[&["sim", "t.toml"], &sweeps[..], &loads].concat())
        .ok();
    let told = desk
        .run(&[
            "plot",
            "more/t",
            "--x",
            "device.workers",
            "--format",
            "svg",
            "-o",
            "g/",
        ])
        .ok()
        .stderr;
    assert!(
        told.contains("figures of one point show 250"),
        "16 series are too many: {told}"
    );
    let one = desk.read("g/latency-rate-by-device.workers.svg");
    at(&one, "B, max_batch=16");
    at(&one, "device.workers at 250 requests/s");
    plot(&["--x", "workers"]).failed(2, "--x workers: is not a swept key of these results");
    plot(&["--x", "device.workers", "--kind", "gantt"])
        .failed(2, "gantt: --x is for latency-rate, throughput-rate,");
}

#[test]
fn a_real_sweep_is_replayed() {
    let desk = Desk::new();
    let sets = [
        "--set",
        "workload.hidden=4",
        "--set",
        "workload.requests=20",
        "--set",
        "arrivals.rates=[2000]",
    ];
    let real = [
        "real",
        "t.toml",
        "--out",
        "out",
        "--sweep",
        "device.workers=1,2",
        "--sweep",
        "policy.B.max_batch=4,8",
    ];
    desk.run(&[&real[..], &sets[..]].concat()).ok();
    let rows = desk
        .run(&["replay", "out/t", "--format", "json"])
        .ok()
        .json();
    assert_eq!(rows["rows"].as_array().unwrap().len(), 6);
    assert_eq!(
        rows["rows"][5]["policy"],
        "B, device.workers=2, max_batch=8"
    );
}

#[test]
fn mistakes_name_the_option_or_the_line() {
    let desk = Desk::new();
    for (sweep, message) in [
        (
            "device.wrokers=1,2",
            "t.toml: --sweep device.wrokers=1,2: device.wrokers: unknown key; did you mean workers?",
        ),
        (
            "device.workers=1,0",
            "t.toml: --sweep device.workers=1,0: device.workers: must be a whole number from 1 to 65535, not 0",
        ),
        (
            "policy.B.max_batch=4,0",
            "--sweep policy.B.max_batch=4,0: policy[1] (padded): max_batch: ",
        ),
        (
            "policy.C.max_batch=4",
            "policy.C.max_batch: there is no \"C\"; known: 0 (A), 1 (B)",
        ),
        (
            "policy.B=4",
            "a key of a policy is needed, such as policy.LABEL.max_batch",
        ),
        (
            "device.workers=1,,2",
            "--sweep device.workers=1,,2: a value is empty; separate values by single commas",
        ),
        ("device.workers=2,2", "two values name the same folder, 2"),
        (
            "device.workers",
            "--sweep device.workers: no value; write it as --sweep key.path=value",
        ),
        ("name=a,b", "name=a,b: name: tells where results go"),
        ("policy.A.label=a,b", "tells where results go"),
    ] {
        sim(&desk, &["--sweep", sweep]).failed(2, message);
    }
    let twice = [
        "--sweep",
        "device.workers=1",
        "--sweep",
        "device.workers=2,3",
    ];
    sim(&desk, &twice).failed(
        2,
        "--sweep device.workers=2,3: its key is in --sweep device.workers=1 too; give all values of a key at once",
    );
    let twice = sim(
        &desk,
        &[
            "--sweep",
            "policy.1.max_batch=4",
            "--sweep",
            "policy.B.max_batch=8",
        ],
    );
    twice.failed(2, "policy.B.max_batch: policy.1.max_batch is swept too");
    sim(&desk, &["--sweep", "seed=1,2", "--seed", "3"])
        .failed(2, "t.toml: --seed: the seed is swept");
    for (table, message) in [
        (
            "\"device.workers\" = [1, 0]",
            "t.toml:18: device.workers: must be a whole number from 1 to 65535, not 0",
        ),
        (
            "\"device.workers\" = 1",
            "t.toml:18: sweep: device.workers: must be a list of values, such as [1, 2, 4], not 1",
        ),
        (
            "\"device.workers\" = []",
            "t.toml:18: sweep: device.workers: there are no values",
        ),
    ] {
        desk.write("t.toml", format!("{SCENARIO}[sweep]\n{table}\n"));
        sim(&desk, &[]).failed(2, message);
    }
    desk.write(
        "t.toml",
        format!("{SCENARIO}[sweep]\n\"device.workers\" = [1, 2]\n"),
    );
    let one = "t.toml:18: sweep: device.workers: this command takes one value of each key";
    desk.run(&["validate", "t.toml"]).failed(2, one);
}
