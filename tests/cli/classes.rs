//! Classes of requests, and requests that are turned away.

use crate::desk::{Desk, SCENARIO};

const CLASSES: &str = "[[class]]\nname = \"gold\"\nslo = \"6ms\"\npriority = 1\ndeadline = \"1s\"\n\
                       [[class]]\nname = \"basic\"\nshare = 3\ndataset = \"constant:7\"\n[device]";

fn with_classes() -> Desk {
    let desk = Desk::new();
    desk.write("t.toml", SCENARIO.replace("[device]", CLASSES));
    desk
}

#[test]
fn results_tell_classes_apart() {
    let desk = with_classes();
    let text = desk
        .sim(&["--set", "workload.requests=2000", "--format", "json"])
        .ok()
        .json()
        .to_string();
    assert!(text.contains("\"classes\":[{\"class\":\"gold\""), "{text}");
    let table = desk.sim(&["--set", "workload.requests=2000"]).ok().stdout;
    let (whole, of_classes) = table.split_once("\n\n").expect("two tables");
    assert!(whole.lines().all(|line| !line.contains("gold")), "{table}");
    assert_eq!(
        of_classes
            .lines()
            .filter(|line| line.contains(" gold "))
            .count(),
        4,
        "{table}"
    );
    assert!(
        of_classes.contains("objective of their class (gold 6ms)"),
        "{table}"
    );
    assert!(
        of_classes
            .lines()
            .take(10)
            .all(|line| line.chars().count() <= 80),
        "{table}"
    );
    let rows = desk.rows("out/t/classes.csv");
    let summary = desk.rows("out/t/summary.csv");
    assert_eq!(rows.len(), 2 * summary.len());
    for (parts, whole) in rows.chunks(2).zip(&summary) {
        let sum = |column: &str| {
            parts
                .iter()
                .map(|row| row[column].parse::<f64>().unwrap())
                .sum::<f64>()
        };
        assert_eq!(
            (&parts[0]["class"][..], &parts[1]["class"][..]),
            ("gold", "basic")
        );
        assert_eq!(sum("completed"), whole["completed"].parse::<f64>().unwrap());
        assert_eq!(sum("warmup"), whole["warmup"].parse::<f64>().unwrap());
        assert!(
            (sum("throughput_rps") - whole["throughput_rps"].parse::<f64>().unwrap()).abs() < 0.01
        );
        assert_ne!(parts[0]["within_slo"], "");
        assert_eq!(
            (&parts[0]["slo_ms"][..], &parts[1]["slo_ms"][..]),
            ("6.000000", "")
        );
        assert_eq!(parts[1]["within_slo"], "", "it has no objective");
    }
    let log = desk.rows("out/t/A/200/requests.csv");
    let of = |class: &str| {
        log.iter()
            .filter(|row| row["class"] == class)
            .collect::<Vec<_>>()
    };
    assert!(
        (400..600).contains(&of("gold").len()),
        "a quarter: {}",
        of("gold").len()
    );
    assert!(
        of("basic").iter().all(|row| row["length"] == "7"),
        "its own data set"
    );
    // The share is that of the log.
    let measured: Vec<_> = of("gold")
        .into_iter()
        .filter(|row| row["measured"] == "1")
        .collect();
    let time = |row: &std::collections::BTreeMap<String, String>, key: &str| {
        row[key].parse::<u64>().unwrap()
    };
    let within = measured
        .iter()
        .filter(|row| time(row, "finish_ns") - time(row, "arrival_ns") <= 6_000_000)
        .count();
    let share = format!("{:.6}", within as f64 / measured.len() as f64);
    let found = rows
        .iter()
        .find(|row| row["policy"] == "A" && row["point"] == "200" && row["class"] == "gold");
    assert_eq!(found.unwrap()["within_slo"], share);
    assert!(
        of_classes.contains(&format!(
            " {:.1}\n",
            100.0 * within as f64 / measured.len() as f64
        )),
        "{table}"
    );
    // Another policy has the same requests.
    assert_eq!(
        desk.column("out/t/A/200/requests.csv", "class"),
        desk.column("out/t/B/200/requests.csv", "class")
    );
    desk.run(&["explain", "out/t/A/200", "request", "7"]).ok();
    desk.sim(&[
        "--set",
        "workload.requests=2000",
        "--set",
        "class.gold.share=3",
        "--replications",
        "2",
    ])
    .ok();
    assert!(desk.rows("out/t/classes.csv")[0].contains_key("p50_ms_ci"));
    // Without a data set of the workload, each class needs its own.
    let without = desk
        .read("t.toml")
        .replace("dataset = \"lengths.csv\"\n", "");
    desk.write("t.toml", &without);
    desk.sim(&[]).failed(
        2,
        "workload.dataset: missing; a dataset to draw requests from (or one for each class)",
    );
    let own = [
        "--set",
        "class.gold.dataset='lengths.csv'",
        "--sweep",
        "class.gold.share=1,3",
    ];
    desk.sim(&own).ok();
    assert_eq!(
        desk.column("out/t/A/200,class.gold.share=1/requests.csv", "class")
            .len(),
        200
    );
    let rows = desk.rows("out/t/classes.csv");
    assert_eq!(rows.len(), 2 * 2 * 2 * 2);
    assert_eq!(
        (
            &rows[0]["class.gold.share"][..],
            &rows[15]["class.gold.share"][..]
        ),
        ("1", "3")
    );
    desk.write("t.toml", SCENARIO);
    desk.sim(&[]).ok();
    assert!(
        !desk.path("out/t/classes.csv").exists(),
        "it was another run's"
    );
}

#[test]
fn a_trace_names_the_class_of_each_request() {
    let desk = Desk::new();
    let (head, rest) = SCENARIO.split_once("dataset").unwrap();
    let device = &rest[rest.find("[device]").unwrap()..];
    let scenario = format!("{head}trace = \"trace.csv\"\n{device}");
    desk.write("t.toml", &scenario);
    desk.write(
        "trace.csv",
        "id,arrival_ns,shape,class\n0,0,chain:3,b\n1,5,chain:2,a\n2,9,chain:1,b\n",
    );
    desk.sim(&[]).ok();
    assert_eq!(
        desk.column("out/t/A/trace/requests.csv", "class"),
        ["b", "a", "b"]
    );
    assert_eq!(
        desk.column("out/t/classes.csv", "class"),
        ["b", "a", "b", "a"]
    );
    assert_eq!(
        desk.column("out/t/classes.csv", "completed"),
        ["2", "1", "2", "1"]
    );
    desk.write(
        "t.toml",
        scenario.replace("[device]", "[[class]]\nname = \"b\"\n[device]"),
    );
    std::fs::remove_dir_all(desk.path("out")).unwrap();
    desk.refuses(
        &[],
        "trace.csv: request 1: class \"a\" is not in the scenario; its [[class]] tables are b",
    );
    let own = "class.b.dataset='constant:2'";
    desk.refuses(
        &["--set", own],
        "class[0].dataset: the trace has its requests; remove it",
    );
}

#[test]
fn requests_that_are_turned_away_are_results() {
    let desk = Desk::new();
    let more = [
        "--set",
        "device.max_waiting=4",
        "--set",
        "arrivals.rates=[100, 3000]",
        "--set",
        "workload.requests=2000",
    ];
    let plots = [
        "--set",
        "output.plots=['latency-throughput', 'latency-cdf']",
        "--set",
        "output.plot_point=3000",
    ];
    let table = desk.sim(&[&more[..], &plots[..]].concat()).ok().stdout;
    assert!(table.contains(" rej "), "{table}");
    let row = &desk.rows("out/t/summary.csv")[1];
    let log = desk.rows("out/t/A/3000/requests.csv");
    let outcomes = |outcome: &str| log.iter().filter(|row| row["outcome"] == outcome).count();
    assert!(outcomes("rejected") > 200);
    assert_eq!(row["rejected"], outcomes("rejected").to_string());
    assert_eq!(row["completed"], outcomes("served").to_string());
    let percent = format!("{:.1}", 100.0 * (outcomes("rejected") as f64 / 2000.0));
    assert!(table.contains(&format!(" {percent} ")), "{table}");
    assert!(
        desk.read("out/t/latency-throughput.svg")
            .contains("requests rejected")
    );
    let without = desk
        .sim(&["--set", "output.plots=['latency-throughput']"])
        .ok()
        .stdout;
    assert!(!without.contains(" rej "));
    assert!(
        !desk
            .read("out/t/latency-throughput.svg")
            .contains("requests rejected")
    );
}

#[test]
fn mistakes_about_classes_are_named() {
    let desk = with_classes();
    for (set, message) in [
        (
            "class.0.share=-1",
            "class[0].share: must be a number, at least 0, not -1",
        ),
        (
            "class.basic.name='gold'",
            "class[1].name: \"gold\" is the name of class[0] too",
        ),
        (
            r#"class.0.name="a\u001b""#,
            r#"class[0].name: "a\u{1b}" is not a class; leave out commas, quotes, control"#,
        ),
        (
            "class.0.name='a,b'",
            "class[0].name: \"a,b\" is not a class; leave out commas",
        ),
        ("class.0.deadline=0", "class[0].deadline: must be "),
        (
            "class.0.nonsense=1",
            "class[0].nonsense: unknown key; known: name, share, slo, priority, deadline, dataset",
        ),
        (
            "class.0.dataset='none.csv'",
            "class[0].dataset: no such file: none.csv",
        ),
        (
            "class.1.dataset='constant:0'",
            "t.toml: class[1].dataset: constant:0: bad shape",
        ),
        (
            "class.silver.share=1",
            "class: there is no \"silver\"; known: 0 (gold), 1 (basic)",
        ),
    ] {
        desk.refuses(&["--set", set], message);
    }
    desk.refuses(
        &["--set", "class.0.share=0", "--set", "class.1.share=0"],
        "the shares add up to 0; at least one is above 0",
    );
}
