//! `batchlab find-knee`, and the commands that were removed.

use crate::desk::{Desk, SCENARIO, same};

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
    let short = [&words[..], &sets, &["--slo", "60s"]].concat();
    let ran = desk.run(&short).ok();
    assert!(
        ran.stdout
            .lines()
            .any(|line| line.starts_with("  immediate  ") && line.ends_with(" req/s ?")),
        "{ran:?}"
    );
    assert!(
        ran.stdout
            .contains("? immediate: limited by runs of 5000 requests: they are too short to show any overload; --max"),
        "{ran:?}"
    );
    let ran = desk
        .run(&[&short[..], &["--format", "json"]].concat())
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
    let caveat = || desk.column("out/t/knee.csv", "caveat")[0].clone();
    assert!(caveat().starts_with("limited by runs of 5000 requests"));
    // 1 s at 1000 requests per second, in 5000 requests.
    desk.run(&[&words[..], &sets, &["--slo", "1s"]].concat())
        .ok();
    assert!(
        caveat().contains("requests: an overload below 2"),
        "{}",
        caveat()
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
        "--set",
        "metrics.warmup=none",
        "--replications",
        "1",
    ];
    let ran = desk
        .run(&[&["find-knee", "t.toml", "--out", "out"], &sets[..]].concat())
        .ok();
    assert_eq!(
        ran.stdout,
        "t: the highest rate with p50 at most 500us, to 0.5 %\n  immediate  holds at no rate\n? immediate: 200 of 200 requests took longer \
         than 500us at 1 req/s\n"
    );
    assert_eq!(ran.stderr, "results in out/t/knee.csv\n");
    assert_eq!(desk.column("out/t/knee.csv", "knee_rps"), [""]);
}

/// A user searches first, then runs the scenario at the rates that were found.
#[test]
fn what_a_search_has_found_survives_a_run() {
    let desk = deterministic();
    let few = ["--slo", "2ms", "--replications", "1", "--tolerance", "0.1"];
    let knee = [&["find-knee", "t.toml", "--out", "out", "-q"], &few[..]].concat();
    let told = desk.run(&knee).ok().stdout;
    let workers = [
        "find-workers",
        "t.toml",
        "--out",
        "out",
        "-q",
        "--rate",
        "90",
    ];
    desk.run(&[&workers[..], &few].concat()).ok();
    let files = ["knee.csv", "knee.json", "workers.csv", "workers.json"];
    let before = files.map(|file| desk.read(&format!("out/t/{file}")));
    desk.sim(&[]).ok();
    desk.sim(&["--seed", "2"]).ok();
    let after = files.map(|file| desk.read(&format!("out/t/{file}")));
    assert_eq!(before, after);
    let merged = desk.run(&[&knee[..], &["--merge-only"]].concat()).ok();
    assert_eq!(merged.stdout, told);
}

/// A batcher that waits for 32 requests misses the objective at low rates, and holds it at middle ones.
fn waiting() -> Desk {
    let desk = Desk::new();
    desk.write(
        "costs.csv",
        "cell,batch,ns\nnet,1,1000000\nnet,64,5000000\n",
    );
    desk.write(
        "t.toml",
        "name = \"t\"\n[workload]\nmodel = \"dnn:net\"\ndataset = \"constant:fixed\"\nrequests = 2000\n[arrivals]\n\
         process = \"uniform\"\nrates = [100]\n[device]\ncosts = \"costs.csv\"\n[[policy]]\nkind = \"control-limit\"\n\
         label = \"W\"\nwait_for = 32\nmax_batch = 64\nwindow = \"10s\"\n",
    );
    desk
}

const FEW: [&str; 8] = [
    "--slo",
    "50ms",
    "--replications",
    "2",
    "--tolerance",
    "0.1",
    "--max-requests",
    "4000",
];

#[test]
fn rates_that_hold_are_found_from_below_and_from_above() {
    let desk = waiting();
    for rates in ["[100]", "[4000]", "[90000]"] {
        let rates = format!("arrivals.rates={rates}");
        let words = ["find-knee", "t.toml", "--out", "out", "-q", "--set", &rates];
        let told = desk.run(&[&words[..], &FEW].concat()).ok().stdout;
        assert!(told.contains(" req/s ?  from 6"), "{told}");
        assert!(
            told.contains("\nfrom: below this rate the objective is missed too"),
            "{told}"
        );
        let row = &desk.rows("out/t/knee.csv")[0];
        let [lowest, highest] =
            ["lowest_rps", "knee_rps"].map(|key| row[key].parse::<f64>().unwrap());
        // The first of 32 requests waits for 31 gaps, and 2.97 ms for its batch.
        let exact = 31.0 / (0.050 - 0.002_968);
        assert!((lowest / exact - 1.0).abs() < 0.03, "{lowest} for {exact}");
        assert!((12_000.0..=12_800.0).contains(&highest), "{highest}");
    }
    let words = [
        "tune",
        "t.toml",
        "--out",
        "out",
        "-q",
        "--policy",
        "W",
        "--over",
        "wait_for=32,64,1",
    ];
    desk.run(&[&words[..], &FEW].concat()).ok();
    let knees = desk.column("out/t/tune.csv", "knee_rps");
    assert!(knees.iter().all(|knee| !knee.is_empty()), "{knees:?}");
}

/// One policy has an answer and the next has none, so that their lines have different columns.
#[test]
fn workers_of_policies_with_and_without_an_answer_are_told() {
    let desk = waiting();
    let scenario = desk.read("t.toml");
    let (head, _) = scenario.split_once("[[policy]]").unwrap();
    let policies = "[[policy]]\nkind = \"unbatched\"\n[[policy]]\nkind = \"padded\"\nwindow = \"20ms\"\nmax_batch = 999\n";
    desk.write("t.toml", format!("{head}{policies}"));
    let words = [
        "find-workers",
        "t.toml",
        "--out",
        "out",
        "-q",
        "--rate",
        "2500",
        "--max-workers",
        "9",
    ];
    let few = [
        &words[..],
        &["--replications", "2", "--slo", "5ms", "--tolerance", "0.1"],
    ]
    .concat();
    let told = desk.run(&few).ok().stdout;
    let lines: Vec<&str> = told.lines().collect();
    assert!(
        lines[1].contains("  3 workers  p99 1.")
            && lines[1].ends_with("  2 workers: the queue grows"),
        "{told}"
    );
    assert_eq!(
        lines[2],
        "  padded     holds with no number up to 9 workers"
    );
    let row = &desk.rows("out/t/workers.csv")[0];
    assert!(
        row["fewer_latency_ms"].parse::<f64>().unwrap() > 5.0,
        "{row:?}"
    );
    assert!(row["fewer_miss"].ends_with(" at 2 workers"), "{row:?}");
    assert_eq!(
        desk.run(&[&few[..], &["--merge-only"]].concat())
            .ok()
            .stdout,
        told
    );
}

#[test]
fn each_class_has_to_meet_its_objective() {
    let desk = waiting();
    let scenario = desk.read("t.toml");
    let (head, _) = scenario.split_once("[[policy]]").unwrap();
    let rest = "[[class]]\nname = \"short\"\nslo = \"5ms\"\n[[class]]\nname = \"long\"\nshare = 3\nslo = \"100ms\"\n\
                [[policy]]\nkind = \"unbatched\"\n";
    desk.write("t.toml", format!("{head}{rest}"));
    let few = [
        "--replications",
        "4",
        "--tolerance",
        "0.1",
        "--max-requests",
        "20000",
    ];
    let find = |more: &[&str]| {
        let words = [
            "find-knee",
            "t.toml",
            "--out",
            "out",
            "-q",
            "--set",
            "arrivals.process=poisson",
        ];
        desk.run(&[&words[..], &few, more].concat()).ok().stdout
    };
    let told = find(&[]);
    assert!(
        told.starts_with("t: the highest rate with p99 of class short at most 5ms, of class long at most 100ms, to 10 %\n"),
        "{told}"
    );
    assert!(told.contains(" req/s  limited by class short\n"), "{told}");
    let knee = || {
        desk.column("out/t/knee.csv", "knee_rps")[0]
            .parse::<f64>()
            .unwrap()
    };
    let limit = || desk.column("out/t/knee.csv", "limiting_class")[0].clone();
    let by_class = knee();
    assert_eq!(
        (
            limit().as_str(),
            &desk.column("out/t/knee.csv", "slo_ms")[0][..]
        ),
        ("short", "5")
    );
    find(&[
        "--set",
        "class.short.slo=1s",
        "--set",
        "class.long.slo=30ms",
    ]);
    assert_eq!(limit(), "long");
    assert!(knee() > 1.3 * by_class, "{} {by_class}", knee());
    // A single class has nothing beside it.
    let head = desk.read("t.toml");
    let one = "[[class]]\nname = \"long\"\nshare = 3\nslo = \"100ms\"\n";
    desk.write("t.toml", head.replace(one, ""));
    let told = find(&[]);
    assert!(
        !told.contains("limited by") && told.contains("of class short at most 5ms"),
        "{told}"
    );
    assert_eq!(limit(), "");
    assert_eq!(desk.column("out/t/knee.csv", "slo_ms"), ["5"]);
    desk.write("t.toml", head);
    let told = find(&["--slo", "100ms"]);
    assert!(
        told.contains("with p99 at most 100ms, to 10 %"),
        "one objective overrides all: {told}"
    );
    assert!(
        limit().is_empty() && knee() > 1.3 * by_class,
        "{} {by_class}",
        knee()
    );
    let words = [
        "find-workers",
        "t.toml",
        "--out",
        "out",
        "-q",
        "--rate",
        "1500",
    ];
    let told = desk.run(&[&words[..], &few].concat()).ok().stdout;
    assert!(told.contains("  limited by class short\n"), "{told}");
    desk.write(
        "t.toml",
        desk.read("t.toml").replace("slo = \"100ms\"\n", ""),
    );
    desk.run(&["find-knee", "t.toml", "-q"]).failed(
        2,
        "t.toml: class[1].slo or metrics.slo: missing; add it or give --slo 100ms",
    );
}

/// A request takes 300 s.
#[test]
fn low_rates_keep_their_digits() {
    let desk = deterministic();
    desk.write("costs.csv", "cell,batch,ns\nlstm,1,300000000000\n");
    desk.sim(&["--set", "arrivals.rates=[0.0012, 0.0014]"]).ok();
    assert_eq!(
        desk.column("out/t/summary.csv", "offered_rps"),
        ["0.001200", "0.001400"]
    );
    let words = [
        "find-knee",
        "t.toml",
        "--out",
        "out",
        "-q",
        "--set",
        "arrivals={ process = 'uniform', rates = [9] }",
    ];
    let ran = desk.run(
        &[
            &words[..],
            &[
                "--slo",
                "1000s",
                "--replications",
                "2",
                "--tolerance",
                "0.05",
                "--max-requests",
                "4000",
            ],
        ]
        .concat(),
    );
    assert!(ran.ok().stdout.contains("  immediate  0.003"), "1 in 300 s");
    let knee = desk.column("out/t/knee.csv", "knee_rps")[0]
        .parse::<f64>()
        .unwrap();
    assert!((knee * 300.0 - 1.0).abs() < 0.05, "{knee}");
}

/// A plan computes nothing, so whatever is there may stay.
#[test]
fn a_plan_is_made_beside_results_of_other_settings() {
    let desk = deterministic();
    let few = [
        "--slo",
        "2ms",
        "--replications",
        "2",
        "--tolerance",
        "0.1",
        "--out",
        "out",
        "-q",
    ];
    let knee = |more: &[&str]| desk.run(&[&["find-knee", "t.toml"], &few[..], more].concat());
    knee(&[]).ok();
    desk.sim(&[]).ok();
    let before = desk.files("out");
    assert!(knee(&["--plan"]).ok().stdout.contains("finished"));
    assert!(
        !knee(&["--plan", "--seed", "2"])
            .ok()
            .stdout
            .contains("finished")
    );
    let sim = desk.sim(&["--plan", "--seed", "2"]).ok().stdout;
    assert!(
        sim.lines().count() == 3 && !sim.contains("finished"),
        "{sim}"
    );
    knee(&["--merge-only", "--seed", "2"]).failed(2, "was run with other settings");
    same(&before, &desk.files("out"));
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
