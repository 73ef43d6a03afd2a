//! `batchlab find-knee` and `batchlab find-window`.

use crate::desk::{Desk, SCENARIO};

/// Requests of one step that take a millisecond each, one after another: at most a thousand per second.
fn deterministic() -> Desk {
    let desk = Desk::new();
    let head = SCENARIO.split("[[policy]]").next().unwrap().replace("lengths.csv", "constant:1");
    desk.write("t.toml", format!("{head}[[policy]]\nkind = \"immediate\"\n"));
    desk
}

#[test]
fn the_capacity_of_a_known_system_is_found() {
    let desk = deterministic();
    for process in ["{ process = 'uniform', rates = [3] }", "{ process = 'uniform', rates = [90000] }"] {
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
        assert!((994.9..1000.3).contains(&knee), "from {process}: {knee}");
        assert_eq!((&ran["quantile"], row["knee_rps_ci"].as_f64()), (&"p99".into(), Some(0.0)), "nothing is random");
        assert_eq!(row["replications"].as_array().unwrap().len(), 2);
    }
    let rows = desk.rows("out/t/knee.csv");
    assert_eq!((rows[0]["policy"].as_str(), rows[0]["slo_ms"].as_str()), ("immediate", "2"));
}

#[test]
fn a_rate_at_which_the_system_falls_behind_does_not_hold() {
    let desk = deterministic();
    // The run ends long before the last request waits for a minute.
    let ran = desk.run(&[
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
        "--format",
        "json",
        "--set",
        "workload.requests=5000",
        "--set",
        "arrivals.process=uniform",
    ]);
    let knee = ran.ok().json()["rows"][0]["knee_rps"].as_f64().unwrap();
    assert!((900.0..1200.0).contains(&knee), "{knee}");
}

#[test]
fn the_scenario_names_the_objective() {
    let desk = deterministic();
    let sets = ["--set", "metrics.slo=500us", "--set", "metrics.quantile=p50", "--replications", "1"];
    let ran = desk.run(&[&["find-knee", "t.toml", "--out", "out"], &sets[..]].concat()).ok();
    assert_eq!(ran.stdout, "t: the highest rate with p50 at most 500us, to 0.5 %\n  immediate  holds at no rate\n");
    assert_eq!(ran.stderr, "results in out/t/knee.csv\n");
    assert_eq!(desk.column("out/t/knee.csv", "knee_rps"), [""]);
}

#[test]
fn searches_that_lead_nowhere_are_refused() {
    let desk = deterministic();
    let refuses = |more: &[&str], message: &str| {
        desk.run(&[&["find-knee", "t.toml", "--out", "out", "-q"], more].concat()).failed(2, message);
        assert!(!desk.path("out").exists());
    };
    refuses(&[], "t.toml: metrics.slo: missing; add it or give --slo 100ms");
    refuses(&["--slo", "5ms"], " are too few for p99; at least 1000 beside the warm-up");
    let offline = "arrivals={ process = 'offline' }";
    refuses(&["--slo", "5ms", "--set", offline], "t.toml: arrivals: a knee is looked for over rates; use the process");
    refuses(
        &["--slo", "100s", "--quantile", "p50", "--set", "policy.0.kind=merged", "--set", "policy.0.max_batch=4096"],
        "t.toml: workload.requests: \"merged\" keeps p50 within 100s even when all of them arrive at once; draw more, or",
    );
}

/// A batch of one is full at once, so windows make no difference, and the shortest is the best.
#[test]
fn the_shortest_of_equal_windows_is_found() {
    let desk = deterministic();
    let scenario =
        desk.read("t.toml").replace("kind = \"immediate\"", "kind = \"padded\"\nmax_batch = 1\nbucket_width = 1");
    desk.write("t.toml", scenario);
    let find = |more: &[&str]| {
        let words = ["find-window", "t.toml", "-q", "--slo", "2ms", "--set", "workload.requests=5000", "--set"];
        let arrivals = ["arrivals={ process = 'uniform', rates = [3] }"];
        desk.run(&[&words[..], &arrivals, more].concat())
    };
    let found = find(&["--policy", "padded", "--windows", "5ms,1ms", "--format", "json"]).ok().json();
    assert_eq!(found["best_ms"], 1.0);
    for row in found["rows"].as_array().unwrap() {
        let knee = row["knee_rps"].as_f64().unwrap();
        assert!((985.0..1000.3).contains(&knee), "{row}");
    }
    let told = find(&["--policy", "padded", "--windows", "5ms,1ms"]).ok().stdout;
    assert!(
        told.lines().any(|line| line.starts_with("  window 1ms") && line.ends_with("the shortest of the best")),
        "{told}"
    );

    find(&["--policy", "absent"]).failed(2, "t.toml: --policy: no policy is labelled \"absent\"; there are padded");
    desk.write(
        "t.toml",
        desk.read("t.toml").replace("padded", "immediate").replace("max_batch = 1\nbucket_width = 1", ""),
    );
    find(&["--policy", "immediate"]).failed(2, "window: unknown key");
}
