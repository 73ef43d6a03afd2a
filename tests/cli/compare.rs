//! `batchlab compare` on two results of one trace.

use std::fs;

use serde_json::{Value, json};

use crate::desk::{Desk, Ran};

/// Results in `one/t` with three runs of each point, and in `two/t` with higher costs.
fn with_results() -> Desk {
    let desk = Desk::new();
    let requests = ["--quiet", "--set", "workload.requests=400"];
    desk.run(
        &[
            &["sim", "t.toml", "--out", "one", "--replications", "3"],
            &requests[..],
        ]
        .concat(),
    )
    .ok();
    desk.write(
        "dearer.csv",
        "cell,batch,ns\nlstm,1,1500000\nlstm,2,1650000\n",
    );
    desk.run(
        &[
            &[
                "sim",
                "t.toml",
                "--out",
                "two",
                "--set",
                "device.costs=dearer.csv",
            ],
            &requests[..],
        ]
        .concat(),
    )
    .ok();
    desk
}

/// Real results in `real/t` whose figures are those of a simulation in `sim/t`, apart from small deviations.
fn with_real_results(repeats: &str) -> Desk {
    let desk = Desk::new();
    let small = [
        "--quiet",
        "--set",
        "workload.requests=100",
        "--set",
        "workload.hidden=8",
        "--set",
        "workload.vocabulary=11",
    ];
    desk.run(&[&["sim", "t.toml", "--out", "sim"], &small[..]].concat())
        .ok();
    let real = ["real", "t.toml", "--out", "real", "--repeats", repeats];
    desk.run(&[&real[..], &small].concat()).ok();
    for point in POINTS {
        let simulated: Value =
            serde_json::from_str(&desk.read(&format!("sim/t/{point}/point.json"))).unwrap();
        for (mark, factor) in MARKS.iter().zip([0.99, 1.01, 1.0]) {
            let file = format!("real/t/{point}/{mark}");
            if !desk.path(&file).is_file() {
                continue;
            }
            change_summary(&desk, &file, |summary| {
                *summary = simulated["summary"].clone();
                let mean = summary["latency"]["mean_ms"].as_f64().unwrap();
                summary["latency"]["mean_ms"] = (mean * factor).into();
                summary["lateness"] = json!({ "mean_us": 0.0, "p99_us": 0.0, "max_us": 0.0, "share": 0.0, "valid": true });
            });
        }
    }
    desk
}

const POINTS: [&str; 4] = ["A/100", "A/200", "B/100", "B/200"];
const MARKS: [&str; 3] = ["point.json", "point-2.json", "point-3.json"];

fn change_summary(desk: &Desk, file: &str, change: impl Fn(&mut Value)) {
    let mut point: Value = serde_json::from_str(&desk.read(file)).unwrap();
    change(&mut point["summary"]);
    desk.write(file, point.to_string());
}

/// The verdicts on a policy's mean latencies at both loads.
fn verdicts_on_means(ran: &Ran) -> Vec<String> {
    let rows = ran.json()["rows"].as_array().unwrap().clone();
    let means = rows.iter().filter(|row| row["figure"] == "mean_ms");
    means
        .map(|row| row["verdict"].as_str().unwrap().to_string())
        .collect()
}

#[test]
fn the_last_line_says_whether_a_comparison_is_usable() {
    let desk = with_real_results("3");
    let call = ["compare", "real/t", "sim/t", "--format", "json"];
    let ran = desk.run(&[&call[..], &["--strict"]].concat()).ok();
    assert_eq!(ran.stderr.lines().last(), Some("the comparison is usable"));
    assert_eq!(ran.json()["not_usable"], json!([]));
    assert_eq!(verdicts_on_means(&ran), ["inside"; 4]);

    // A figure that varies by more than itself has no verdict.
    change_summary(&desk, "real/t/A/200/point.json", |summary| {
        let mean = summary["latency"]["mean_ms"].as_f64().unwrap();
        summary["latency"]["mean_ms"] = (mean * 4.0).into();
    });
    let ran = desk.run(&call).ok();
    let last = ran.stderr.lines().last().unwrap();
    assert!(
        last.starts_with("the comparison is not usable: 1 of ")
            && last.contains(" figures vary by more than 100 % from one run to the next, up to "),
        "{last}"
    );
    assert_eq!(
        verdicts_on_means(&ran),
        ["inside", "unknown", "inside", "inside"]
    );

    // Nothing has a verdict where requests were handed over too late.
    change_summary(&desk, "real/t/B/100/point-2.json", |summary| {
        summary["lateness"]["valid"] = false.into();
    });
    let ran = desk.run(&call).ok();
    assert_eq!(
        verdicts_on_means(&ran),
        ["inside", "unknown", "unknown", "inside"]
    );
    let reasons = ran.json()["not_usable"].as_array().unwrap().len();
    assert_eq!(reasons, 2);
    let ran = desk.run(&[&call[..], &["--strict", "--quiet"]].concat());
    let sentence = "batchlab: --strict: the comparison is not usable: requests were handed over too late at 1 of 4 points; 1 of ";
    assert!(
        ran.code == Some(4) && ran.stderr.starts_with(sentence),
        "{ran:?}"
    );
}

#[test]
fn one_real_run_gives_no_verdict() {
    let desk = with_real_results("1");
    let ran = desk.run(&["compare", "real/t", "sim/t"]).ok();
    let sentence = "the comparison is not usable: real/t has one run of each point, so there is no verdict; --repeats 5 (or \
                    --replications 5 in a simulation) gives it a spread";
    assert_eq!(ran.stderr.lines().last(), Some(sentence));
    // Two simulations need no spread.
    let same = ["compare", "sim/t", "sim/t", "--strict"];
    let ran = desk.run(&same).ok();
    assert_eq!(ran.stderr.lines().last(), Some("the comparison is usable"));
}

#[test]
fn figures_differ_beside_the_spread_of_the_first() {
    let desk = with_results();
    let ran = desk.run(&["compare", "one/t", "two/t"]).ok();
    assert!(
        !ran.stderr.contains("comparison in"),
        "without --out nothing is written: {}",
        ran.stderr
    );
    desk.run(&["compare", "one/t", "two/t", "--out", "c"]).ok();
    for part in [
        "A: one/t (sim, 3 runs)",
        "B: two/t (sim, 1 run)",
        "A at 100",
        "B at 200",
        "batches of lstm (KS)",
    ] {
        assert!(ran.stdout.contains(part), "{part}\n{}", ran.stdout);
    }
    let rows = desk.rows("c/comparison.csv");
    assert_eq!(
        rows.len(),
        2 * 2 * 7,
        "two policies at two rates, with seven figures each"
    );
    let number = |row: usize, column: &str| rows[row][column].parse::<f64>().unwrap();
    assert_eq!(
        (rows[0]["figure"].as_str(), rows[0]["point"].as_str()),
        ("mean_ms", "100")
    );
    // The first runs of two simulations have the same requests.
    let first: Value = serde_json::from_str(&desk.read("one/t/A/100/point.json")).unwrap();
    let first = first["summary"]["latency"]["mean_ms"].as_f64().unwrap();
    assert!((number(0, "a") - first).abs() < 1e-6);
    assert_eq!(rows[0]["b"], desk.rows("two/t/summary.csv")[0]["mean_ms"]);
    let percent = 100.0 * (number(0, "b") / number(0, "a") - 1.0);
    assert!((number(0, "difference_percent") - percent).abs() < 1e-3);
    // Student's t of the mean of three runs, times √(1 + 3) for one more run.
    let means = ["point", "point-2", "point-3"].map(|run| {
        let saved = desk.read(&format!("one/t/A/100/{run}.json"));
        let saved: Value = serde_json::from_str(&saved).unwrap();
        saved["summary"]["latency"]["mean_ms"].as_f64().unwrap()
    });
    let mean = means.iter().sum::<f64>() / 3.0;
    let squares: f64 = means.iter().map(|run| (run - mean).powi(2)).sum();
    let interval = 2.0 * 4.302653 * (squares / 2.0 / 3.0).sqrt();
    assert!((number(0, "spread_percent") - 100.0 * interval / number(0, "a")).abs() < 1e-3);
    assert!(number(0, "a_min") <= number(0, "a") && number(0, "a") <= number(0, "a_max"));
    assert_eq!(
        (rows[0]["a_runs"].as_str(), rows[0]["b_runs"].as_str()),
        ("3", "1")
    );
    for row in &rows {
        let [difference, spread] =
            ["difference_percent", "spread_percent"].map(|column| row[column].parse::<f64>().ok());
        let verdict = match (difference, spread) {
            (Some(0.0), _) => "inside",
            (Some(difference), Some(spread)) if difference.abs() <= spread => "inside",
            (Some(_), Some(_)) => "outside",
            (Some(_), None) => "differs",
            _ => "unknown",
        };
        assert_eq!(row["verdict"], verdict, "{row:?}");
    }
    let p99 = rows.iter().find(|row| row["figure"] == "p99_ms").unwrap();
    assert_eq!(
        (p99["a"].as_str(), p99["verdict"].as_str()),
        ("", "unknown"),
        "400 requests have no p99"
    );
    for point in ["100", "200"] {
        let svg = desk.read(&format!("c/latency-cdf-{point}.svg"));
        assert!(
            svg.contains("one/t") && svg.contains("two/t"),
            "the legend names both"
        );
        assert!(desk.path(&format!("c/latency-cdf-{point}.png")).is_file());
    }
    let json = desk
        .run(&[
            "compare", "one/t", "two/t", "--format", "json", "--quiet", "--out", "here",
        ])
        .ok();
    assert_eq!(json.stderr, "");
    assert_eq!(json.json()["rows"].as_array().unwrap().len(), rows.len());
    assert_eq!(desk.rows("here/comparison.csv"), rows);
}

#[test]
fn a_single_run_has_no_spread_and_no_figures_without_logs() {
    let desk = with_results();
    desk.run(&["compare", "one/t", "two/t", "--out", "c"]).ok();
    assert!(desk.path("c/latency-cdf-100.svg").exists());
    fs::remove_file(desk.path("one/t/A/100/requests.csv")).unwrap();
    fs::remove_file(desk.path("one/t/B/100/requests.csv")).unwrap();
    let ran = desk.run(&["compare", "two/t", "one/t", "--out", "c"]).ok();
    assert!(ran.stderr.contains("comparison in c\n"), "{}", ran.stderr);
    assert!(ran.stdout.contains(" differ"), "{}", ran.stdout);
    let rows = desk.rows("c/comparison.csv");
    let verdict = |row: &std::collections::BTreeMap<String, String>| match row["difference_percent"]
        .parse()
    {
        Ok(0.0) => "equal",
        Ok(_) => "differs",
        Err(_) => "unknown",
    };
    assert!(
        rows.iter()
            .all(|row| row["spread_percent"].is_empty() && row["verdict"] == verdict(row)),
        "{rows:?}"
    );
    let same = desk
        .run(&["compare", "two/t", "two/t", "--out", "same"])
        .ok()
        .stdout;
    assert!(same.ends_with("24 equal, 4 unknown\n"), "{same}");
    assert!(
        !desk.path("c/latency-cdf-100.svg").exists(),
        "it was another comparison's"
    );
    assert!(desk.path("c/latency-cdf-200.svg").exists());
}

#[test]
fn other_requests_are_refused() {
    let desk = with_results();
    let other = |out: &str, more: &[&str]| {
        desk.run(
            &[
                &[
                    "sim",
                    "t.toml",
                    "--quiet",
                    "--out",
                    out,
                    "--set",
                    "workload.requests=400",
                ],
                more,
            ]
            .concat(),
        )
        .ok();
        desk.run(&["compare", "two/t", &format!("{out}/t")])
    };
    other("a", &["--seed", "2"]).failed(
        2,
        "a/t did not serve the same requests as two/t: seed is 1 there and 2 here",
    );
    other("b", &["--set", "workload.requests=300"]).failed(
        2,
        "workload.requests is 400 there and 300 here; run the same scenario",
    );
    other("c", &["--set", "arrivals.process='uniform'"]).failed(
        2,
        "arrivals.process is \"poisson\" there and \"uniform\" here",
    );
    desk.write("other.csv", "length,count\n5,1\n");
    other("d", &["--set", "workload.dataset=other.csv"])
        .failed(2, "the lengths of the requests (lengths.csv)");
    other("e", &["--set", "arrivals.rates=[300]"]).failed(
        2,
        "no policy and point in common; the first has A at 100, 200; B at 100, 200, the second A at 300; B at 300",
    );
    other("f", &["--set", "arrivals.rates=[300]", "--sweep", "device.workers=1,2"]).failed(
        2,
        "the second A at 300,device.workers=1, 300,device.workers=2; B at 300,device.workers=1, 300,device.workers=2",
    );
    let log = desk
        .read("two/t/A/200/requests.csv")
        .replacen("\n1,", "\n1,1", 1);
    desk.write("one/t/A/200/requests.csv", log);
    desk.run(&["compare", "two/t", "one/t"])
        .failed(2, "at 200 the log has request 1 at ");
    let parent = "two: has no summary.csv; the results are in two/t";
    desk.run(&["compare", "two", "one/t"]).failed(2, parent);
    desk.write("one/t/A/100/point.json", "{}");
    desk.write(
        "one/t/A/200/requests.csv",
        desk.read("two/t/A/200/requests.csv"),
    );
    desk.run(&["compare", "two/t", "one/t"])
        .failed(2, "one/t/A/100/point.json: is not a point of this version");
}
