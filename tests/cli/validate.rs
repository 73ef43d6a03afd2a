//! `batchlab validate` on a tiny network: all of its steps, and what it leaves behind. How far real and simulated are apart
//! decides nothing here.

use crate::desk::Desk;

/// The desk's scenario with a small network, and costs far above what its cells take, so that every load can be borne.
fn desk() -> Desk {
    let desk = Desk::new();
    let text = desk.read("t.toml").replace("costs = \"costs.csv\"\n", "");
    desk.write(
        "t.toml",
        text.replace("[workload]\n", "[workload]\nhidden = 8\nvocabulary = 11\n"),
    );
    desk.write("costs.csv", "cell,batch,ns\nlstm,1,100000\nlstm,8,200000\n");
    desk
}

const QUICK: [&str; 9] = [
    "validate",
    "t.toml",
    "--costs",
    "costs.csv",
    "--seconds",
    "0.01",
    "--repeats",
    "2",
    "--quiet",
];

#[test]
fn each_policy_is_validated_at_loads_of_its_own() {
    let desk = desk();
    let ran = desk
        .run(
            &[
                &QUICK[..],
                &["--loads", "20,80", "--out", "out", "--format", "json"],
            ]
            .concat(),
        )
        .ok();
    let lines = ran.results();
    let places: Vec<(&str, u64)> = lines
        .iter()
        .map(|line| {
            (
                line["scenario"].as_str().unwrap(),
                line["load_percent"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(places, [("t-A", 20), ("t-A", 80), ("t-B", 20), ("t-B", 80)]);
    for line in &lines {
        assert_eq!(line["same_decisions"], true, "{line}");
        assert!(line["ledger"]["durations"].is_number(), "{line}");
        for figure in ["mean_ms", "p99_ms", "throughput_rps"] {
            for side in ["real", "simulated", "difference_percent", "spread_percent"] {
                assert!(
                    line["figures"][figure][side].is_number(),
                    "{figure} {side} in {line}"
                );
            }
        }
    }
    let rate = |line: usize| lines[line]["rate"].as_f64().unwrap();
    assert!(
        (rate(1) / rate(0) - 4.0).abs() < 0.05,
        "80 % are four times 20 %, but for the rounding"
    );

    let rows = desk.rows("out/validation.csv");
    assert_eq!(rows.len(), 4 * 3);
    let point = lines[1]["rate"]
        .to_string()
        .trim_end_matches(".0")
        .to_string();
    for file in [
        format!("out/cpu/t-A/A/{point}/rounds.csv"),
        format!("out/sim/t-A/A/{point}/tasks.csv"),
        "out/compared/t-A/comparison.csv".into(),
        format!("out/compared/t-A/latency-cdf-{point}.svg"),
        format!("out/compared/t-A/latency-cdf-{point}.png"),
    ] {
        assert!(desk.path(&file).is_file(), "{file}");
    }
}

#[test]
fn a_table_names_both_sides_and_the_bounds() {
    let desk = desk();
    let ran = desk
        .run(&[&QUICK[..], &["--loads", "50", "--out", "out"]].concat())
        .ok();
    let table = desk.read("out/validation.txt");
    for part in [
        "t-A",
        "t-B",
        "real",
        "sim",
        "verdict",
        "equal",
        "mean within 3 %",
        "p99 within 5 %",
    ] {
        assert!(table.contains(part), "{part} in {table}");
    }
    // The terminal has the conclusion only.
    assert_eq!(ran.stdout.lines().count(), 4, "{}", ran.stdout);
    let conclusion = ran.stdout.split_once('\n').unwrap().1;
    assert!(table.ends_with(conclusion), "{conclusion} in {table}");
    let last: Vec<&str> = ran.stdout.lines().rev().take(3).collect();
    assert!(
        last[2].starts_with("medians: ") && last[2].contains(" agree, of 4 in all"),
        "{}",
        ran.stdout
    );
    assert_eq!(last[1], "coverage: unknown without noise (--noise)");
    assert!(
        last[0].starts_with("predicted: ") && last[0].contains(" of 8 figures of real runs ("),
        "{}",
        ran.stdout
    );
}

#[test]
fn noise_gives_each_figure_an_interval() {
    let desk = desk();
    // Tasks take from nothing to 200 times their cost, so that all real runs are in the intervals.
    let factor = |ms| if ms < 4_500 { 0.001 } else { 200.0 };
    let rows = (0..9_000u64).map(|ms| format!("{},1,{},1000000\n", ms * 1_000_000, factor(ms)));
    desk.write(
        "noise.csv",
        format!("time_ns,size,factor,ns\n{}", rows.collect::<String>()),
    );
    let words = [
        &QUICK[..],
        &["--noise", "noise.csv", "--loads", "50,120", "--out", "out"],
    ]
    .concat();
    let ran = desk.run(&words).ok();
    let rows = desk.rows("out/validation.csv");
    assert_eq!(rows.len(), 2 * 2 * 3);
    for row in &rows {
        let number = |column: &str| row[column].parse::<f64>().unwrap();
        assert!(
            number("low") <= number("simulated") && number("simulated") <= number("high"),
            "{row:?}"
        );
        let judged = row["load_percent"] == "50" && row["figure"] != "throughput_rps";
        assert_eq!(row["verdict"].starts_with("inside"), judged, "{row:?}");
        assert_eq!(number("real_runs"), 2.0);
    }
    assert!(
        ran.stdout
            .contains("coverage: 8 of 8 figures of real runs (100 %) are in the 95 % interval"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("width: that interval is "),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.ends_with(
            "predicted: 8 of 8 figures of real runs (100 %) are within 5 % of the simulated median or in the interval; \
             the goal of 90 % is reached\n"
        ),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_profile_goes_on_in_turn_with_the_real_runs() {
    let desk = desk();
    desk.write(
        "t.toml",
        desk.read("t.toml")
            .split("[[policy]]\nkind = \"padded\"")
            .next()
            .unwrap(),
    );
    let words = [
        "validate",
        "t.toml",
        "--seconds",
        "0.01",
        "--repeats",
        "2",
        "--loads",
        "50",
        "--out",
        "out",
        "--quiet",
    ];
    desk.run(&words).ok();
    let instants = desk.column("out/t/noise.csv", "time_ns");
    let instants: Vec<u64> = instants.iter().map(|ns| ns.parse().unwrap()).collect();
    assert!(
        instants.is_sorted() && instants.last().unwrap() - instants[0] > 2_000_000_000,
        "two pieces last a second each"
    );
    let late = desk.column("out/t/noise.csv", "late_ns");
    let starts = late.iter().filter(|late| !late.is_empty()).count();
    assert!(
        starts > 100 && starts < late.len(),
        "{starts} of {} rows are starts",
        late.len()
    );
    let rows = |table: &str| {
        desk.read(table)
            .lines()
            .filter(|line| line.starts_with("lstm,"))
            .count()
    };
    // The search finds at least the powers of two up to 512. Pieces measure the same sizes again.
    let before = rows("out/t/costs-before.csv");
    assert!(before >= 10, "{before}");
    assert_eq!(before, rows("out/t/costs.csv"));
    assert!(
        desk.rows("out/validation.csv")
            .iter()
            .all(|row| !row["low"].is_empty())
    );
}

#[test]
fn minutes_are_divided_among_scenarios_and_steps() {
    let desk = desk();
    let other = desk
        .read("t.toml")
        .replacen("name = \"t\"", "name = \"u\"", 1);
    desk.write(
        "u.toml",
        other.split("[[policy]]\nkind = \"padded\"").next().unwrap(),
    );
    let ran = desk.run(&[
        "validate",
        "t.toml",
        "u.toml",
        "--minutes",
        "0.1",
        "--out",
        "out",
        "--strict",
    ]);
    // Times decide whether this machine is good enough; the last line and the exit code say the same.
    let last = ran.stderr.lines().last().unwrap();
    if last == "the validation is usable" {
        assert_eq!(ran.code, Some(0), "{ran:?}");
    } else {
        let sentence = "batchlab: --strict: the validation is not usable: ";
        assert!(ran.code == Some(4) && last.starts_with(sentence), "{ran:?}");
    }
    for part in [
        " s for 2 scenarios with 3 policies; 3 real runs of each at 50, 90 % of its capacity\n",
        "\nt: ",
        " for 12 real runs and ",
        "\nu: ",
        " for 6 real runs and ",
        " of 0.1 minutes\n",
    ] {
        assert!(ran.stderr.contains(part), "{part} in {}", ran.stderr);
    }
    let rows = desk.rows("out/validation.csv");
    let loads: Vec<&str> = rows
        .iter()
        .step_by(3)
        .map(|row| &*row["load_percent"])
        .collect();
    assert_eq!(loads, ["50", "90", "50", "90", "50", "90"]);
    assert!(
        rows.iter()
            .all(|row| row["real_runs"] == "3" && !row["low"].is_empty())
    );
    assert!(
        ran.stdout.contains(" of 36 figures of real runs ("),
        "one conclusion over all scenarios: {}",
        ran.stdout
    );
}

#[test]
fn mistakes_are_named() {
    let desk = desk();
    desk.write("trace.csv", "id,arrival_ns,shape\n0,0,chain:1\n");
    let text = "name = 't'\n[workload]\nmodel = 'lstm'\nhidden = 8\ntrace = 'trace.csv'\n[[policy]]\nkind = 'cellular'\n";
    desk.write("traced.toml", text);
    for (arguments, message) in [
        (
            &["validate", "traced.toml"][..],
            "workload.trace: validation chooses the rates itself",
        ),
        (
            &["validate", "t.toml", "t.toml"],
            "each scenario of one call needs a folder of its own",
        ),
        (&["validate", "t.toml", "--loads", "0"], "--loads"),
        (&["validate", "t.toml", "--repeats", "1"], "--repeats"),
        (
            &["validate", "t.toml", "--seconds", "0"],
            "\"0\" is not a number from 0.01 to 100000",
        ),
        (
            &["validate", "t.toml", "--minutes", "4", "--seconds", "1"],
            "cannot be used with",
        ),
        (
            &["validate", "t.toml", "--minutes", "0"],
            "\"0\" is not a number from 0.01 to 100000",
        ),
        (
            &["validate", "t.toml", "--costs", "none.csv"],
            "none.csv: cannot be read",
        ),
        (
            &["validate", "t.toml", "--noise", "noise.csv"],
            "--costs <COSTS.csv>",
        ),
    ] {
        let ran = desk.run(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains(message), "{arguments:?}: {ran:?}");
    }
}
