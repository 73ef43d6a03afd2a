//! `batchlab find-knee`, and the commands that were removed.

use crate::desk::{Desk, SCENARIO};

/// Requests of one step that take a millisecond each, one after another: at most a thousand per second.
fn deterministic() -> Desk {
    let desk = Desk::new();
    let head = SCENARIO
        .split("[[policy]]")
        .next()
        .unwrap()
        .replace("lengths.csv", "constant:1");
    desk.write(
        "t.toml",
        format!("{head}[[policy]]\nkind = \"immediate\"\n"),
    );
    desk
}

#[test]
fn the_capacity_of_a_known_system_is_found() {
    let desk = deterministic();
    for process in [
        "{ process = 'uniform', rates = [3] }",
        "{ process = 'uniform', rates = [90000] }",
    ] {
        let ran = desk
            .run(&[
                "find-knee",
                "t.toml",
                "--out",
                "out",
                "-q",
                "--slo",
                "2ms",
                "--replications",
                "2",
                "--format",
                "json",
                "--set",
                "workload.requests=5000",
                "--set",
                &format!("arrivals={process}"),
            ])
            .ok()
            .json();
        let row = &ran["rows"][0];
        let knee = row["knee_rps"].as_f64().unwrap();
        let half_width = row["knee_rps_ci"].as_f64().unwrap();
        assert!((999.0..1000.9).contains(&knee), "from {process}: {knee}");
        assert!(
            half_width < 0.001 * knee,
            "nothing is random but the search's bracket: {half_width}"
        );
        assert_eq!(
            (&ran["quantile"], &row["caveat"]),
            (&"p99".into(), &serde_json::Value::Null)
        );
        assert_eq!(row["replications"].as_array().unwrap().len(), 2);
    }
    let rows = desk.rows("out/t/knee.csv");
    assert_eq!(
        (rows[0]["policy"].as_str(), rows[0]["slo_ms"].as_str()),
        ("immediate", "2")
    );
}

/// The runs are too short to break the objective, however high the rate.
#[test]
fn a_result_that_the_length_limits_is_marked() {
    let desk = deterministic();
    let words = [
        "find-knee",
        "t.toml",
        "--out",
        "out",
        "-q",
        "--slo",
        "60s",
        "--replications",
        "1",
        "--tolerance",
        "0.05",
    ];
    let sets = [
        "--max-requests",
        "5000",
        "--set",
        "workload.requests=5000",
        "--set",
        "arrivals.process=uniform",
    ];
    let ran = desk.run(&[&words[..], &sets].concat()).ok();
    assert!(
        ran.stdout
            .lines()
            .any(|line| line.starts_with("  immediate  ") && line.ends_with(" req/s ?")),
        "{ran:?}"
    );
    assert!(
        ran.stdout
            .contains("? immediate: limited by runs of 5000 requests: an overload below "),
        "{ran:?}"
    );
    let ran = desk
        .run(&[&words[..], &sets, &["--format", "json"]].concat())
        .ok()
        .json();
    let row = &ran["rows"][0];
    let knee = row["knee_rps"].as_f64().unwrap();
    assert!(
        (900.0..=2.0 / 0.0011).contains(&knee),
        "not above the ceiling: {knee}"
    );
    assert!(
        row["caveat"]
            .as_str()
            .unwrap()
            .ends_with("--max-requests allows longer ones"),
        "{row}"
    );
    assert!(
        desk.column("out/t/knee.csv", "caveat")[0].starts_with("limited by runs of 5000 requests")
    );
}

#[test]
fn a_rejected_request_has_missed_the_objective() {
    let desk = deterministic();
    let knee = |more: &[&str]| {
        let words = [
            "find-knee",
            "t.toml",
            "--out",
            "out",
            "-q",
            "--replications",
            "2",
            "--tolerance",
            "0.05",
        ];
        let sets = [
            "--max-requests",
            "20000",
            "--set",
            "workload.requests=5000",
            "--set",
            "device.max_waiting=5",
            "--format",
            "json",
        ];
        desk.run(&[&words[..], &sets, more].concat()).ok().json()["rows"][0].clone()
    };
    let strict = knee(&["--slo", "1s"])["knee_rps"].as_f64().unwrap();
    let relaxed = knee(&["--slo", "1s", "--max-rejected", "0.2"])["knee_rps"]
        .as_f64()
        .unwrap();
    assert!(
        strict < 0.8 * relaxed && relaxed > 1000.0,
        "{strict} {relaxed}"
    );
    let none = knee(&[
        "--set",
        "device.max_waiting=1",
        "--quantile",
        "p50",
        "--slo",
        "1ns",
    ]);
    assert!(
        none["caveat"]
            .as_str()
            .unwrap()
            .contains(" requests took longer than 1ns at "),
        "{none}"
    );
}

#[test]
fn each_combination_of_a_sweep_has_its_knee() {
    let desk = deterministic();
    let words = [
        "find-knee",
        "t.toml",
        "--out",
        "out",
        "-q",
        "--slo",
        "2ms",
        "--replications",
        "1",
        "--max-requests",
        "5000",
    ];
    let sets = [
        "--set",
        "workload.requests=5000",
        "--set",
        "arrivals.process=uniform",
        "--sweep",
        "device.workers=1,2",
    ];
    let ran = desk.run(&[&words[..], &sets].concat()).ok();
    assert!(
        ran.stdout
            .lines()
            .any(|line| line.starts_with("  immediate, device.workers=2  ")),
        "{ran:?}"
    );
    assert_eq!(desk.column("out/t/knee.csv", "device.workers"), ["1", "2"]);
    for (knee, expected) in desk
        .column("out/t/knee.csv", "knee_rps")
        .iter()
        .zip([1000.0, 2000.0])
    {
        let knee: f64 = knee.parse().unwrap();
        assert!(
            (knee / expected - 1.0).abs() < 0.01,
            "{knee} for {expected}"
        );
    }
}

/// The time axis of a trace is scaled: requests of a millisecond, 10 ms apart.
#[test]
fn a_trace_has_a_knee() {
    let desk = deterministic();
    let rows: String = (0..3000u64)
        .map(|id| format!("{id},{},chain:1\n", id * 10_000_000))
        .collect();
    desk.write("trace.csv", format!("id,arrival_ns,shape\n{rows}"));
    let scenario = desk.read("t.toml");
    let (head, rest) = (
        scenario.split("[workload]").next().unwrap(),
        scenario.split("[device]").nth(1).unwrap(),
    );
    let workload =
        "[workload]\nmodel = \"lstm\"\ntrace = \"trace.csv\"\n[arrivals]\nrates = [100]\n";
    desk.write("t.toml", format!("{head}{workload}[device]{rest}"));
    let ran = desk
        .run(&[
            "find-knee",
            "t.toml",
            "--out",
            "out",
            "-q",
            "--slo",
            "2ms",
            "--format",
            "json",
        ])
        .ok()
        .json();
    let row = &ran["rows"][0];
    let knee = row["knee_rps"].as_f64().unwrap();
    assert!((knee / 1000.0 - 1.0).abs() < 0.01, "{row}");
    assert_eq!(
        (
            row["replications"].as_array().unwrap().len(),
            &row["requests"]
        ),
        (1, &3000.into()),
        "{row}"
    );
}

#[test]
fn the_fewest_workers_are_found() {
    let desk = deterministic();
    let words = [
        "find-workers",
        "t.toml",
        "--out",
        "out",
        "--slo",
        "4ms",
        "--replications",
        "2",
        "--max-requests",
        "20000",
    ];
    let ran = desk.run(&[&words[..], &["--rate", "2500"]].concat()).ok();
    assert!(
        ran.stdout.starts_with(
            "t: the smallest number of workers for 2500 req/s with p99 at most 4ms, to 0.5 %\n"
        ),
        "{ran:?}"
    );
    assert_eq!(ran.stderr, "results in out/t/workers.csv\n");
    let workers: u32 = desk.column("out/t/workers.csv", "workers")[0]
        .parse()
        .unwrap();
    assert!((3..=5).contains(&workers), "{workers}");
    let none = desk.run(
        &[
            &words[..],
            &[
                "--rate",
                "2500",
                "--max-workers",
                "2",
                "--format",
                "json",
                "-q",
            ],
        ]
        .concat(),
    );
    let row = none.ok().json()["rows"][0].clone();
    assert!(
        row["workers"].is_null() && row["caveat"].as_str().unwrap().ends_with(" 2 workers"),
        "{row}"
    );
    for (more, message) in [(&[][..], "--rate <RATE>"), (&["--rate", "0"], "'0'")] {
        let ran = desk.run(&[&words[..], more].concat());
        assert!(
            ran.code == Some(2) && ran.stderr.contains(message),
            "{ran:?}"
        );
    }
}

#[test]
fn the_scenario_names_the_objective() {
    let desk = deterministic();
    let sets = [
        "--set",
        "metrics.slo=500us",
        "--set",
        "metrics.quantile=p50",
        "--replications",
        "1",
    ];
    let ran = desk
        .run(&[&["find-knee", "t.toml", "--out", "out"], &sets[..]].concat())
        .ok();
    assert_eq!(
        ran.stdout,
        "t: the highest rate with p50 at most 500us, to 0.5 %\n  immediate  holds at no rate\n? immediate: 200 of 200 requests took longer \
         than 500us at 0.001 req/s\n"
    );
    assert_eq!(ran.stderr, "results in out/t/knee.csv\n");
    assert_eq!(desk.column("out/t/knee.csv", "knee_rps"), [""]);
    desk.sim(&[]).ok();
    assert!(
        !desk.path("out/t/knee.csv").exists(),
        "it may be of other settings"
    );
}

#[test]
fn searches_that_lead_nowhere_are_refused() {
    let desk = deterministic();
    let refuses = |more: &[&str], message: &str| {
        desk.run(&[&["find-knee", "t.toml", "--out", "out", "-q"], more].concat())
            .failed(2, message);
        assert!(!desk.path("out").exists());
    };
    refuses(
        &[],
        "t.toml: metrics.slo: missing; add it or give --slo 100ms",
    );
    let offline = "arrivals={ process = 'offline' }";
    refuses(
        &["--slo", "5ms", "--set", offline],
        "t.toml: arrivals: a knee is looked for over rates; use the process",
    );
}

/// A batch of one is full at once, so windows make no difference, and the first is the best.
#[test]
fn the_first_of_equal_windows_is_found() {
    let desk = deterministic();
    let scenario = desk.read("t.toml").replace(
        "kind = \"immediate\"",
        "kind = \"padded\"\nmax_batch = 1\nbucket_width = 1",
    );
    desk.write("t.toml", scenario);
    let found = desk
        .run(&[
            "tune",
            "t.toml",
            "-q",
            "--slo",
            "2ms",
            "--policy",
            "padded",
            "--over",
            "window=1ms,5ms",
            "--replications",
            "1",
            "--set",
            "workload.requests=5000",
            "--set",
            "arrivals={ process = 'uniform', rates = [3] }",
            "--format",
            "json",
        ])
        .ok()
        .json();
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows[0]["policy.padded.window"], "1ms", "{found}");
    for row in rows {
        let knee = row["knee_rps"].as_f64().unwrap();
        assert!((985.0..1000.3).contains(&knee), "{row}");
    }
}

#[test]
fn removed_commands_and_options_name_their_replacements() {
    let desk = Desk::new();
    desk.run(&["find-window", "t.toml", "--policy", "A"]).failed(
        2,
        "find-window: the command was removed; use batchlab tune SCENARIO --policy LABEL --over window=",
    );
    desk.run(&["swarm", "--runs", "3"]).failed(
        2,
        "swarm: the command was removed; use cargo test --test swarm",
    );
    for option in ["--signal=kernel", "--launch=kernels"] {
        let (name, _) = option.split_once('=').unwrap();
        desk.run(&["profile", "--model", "lstm", option]).failed(
            2,
            &format!("{name}: the option was removed; leave it out: "),
        );
    }
}
