//! `batchlab validate` on a tiny network: all of its steps, and what it leaves behind. How far real and simulated are apart
//! decides nothing here.

use crate::desk::Desk;

/// The desk's scenario with a small network, and costs far above what its cells take, so that every load can be borne.
fn desk() -> Desk {
    let desk = Desk::new();
    let text = desk.read("t.toml").replace("costs = \"costs.csv\"\n", "");
    desk.write("t.toml", text.replace("[workload]\n", "[workload]\nhidden = 8\nvocabulary = 11\n"));
    desk.write("costs.csv", "cell,batch,ns\nlstm,1,100000\nlstm,8,200000\n");
    desk
}

const QUICK: [&str; 9] =
    ["validate", "t.toml", "--costs", "costs.csv", "--seconds", "0.01", "--repeats", "2", "--quiet"];

#[test]
fn each_policy_is_validated_at_loads_of_its_own() {
    let desk = desk();
    let ran = desk.run(&[&QUICK[..], &["--loads", "20,80", "--out", "out", "--format", "json"]].concat()).validated();
    let lines = ran.results();
    let places: Vec<(&str, u64)> =
        lines.iter().map(|line| (line["scenario"].as_str().unwrap(), line["load_percent"].as_u64().unwrap())).collect();
    assert_eq!(places, [("t-A", 20), ("t-A", 80), ("t-B", 20), ("t-B", 80)]);
    for line in &lines {
        assert_eq!(line["same_decisions"], true, "{line}");
        assert!(line["ledger"]["durations"].is_number(), "{line}");
        for figure in ["mean_ms", "p99_ms", "throughput_rps"] {
            for side in ["real", "simulated", "difference_percent", "spread_percent"] {
                assert!(line["figures"][figure][side].is_number(), "{figure} {side} in {line}");
            }
        }
    }
    let rate = |line: usize| lines[line]["rate"].as_f64().unwrap();
    assert!((rate(1) / rate(0) - 4.0).abs() < 0.05, "80 % are four times 20 %, but for the rounding");

    let rows = desk.rows("out/validation.csv");
    assert_eq!(rows.len(), 4 * 3);
    let point = lines[1]["rate"].to_string().trim_end_matches(".0").to_string();
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
    let ran = desk.run(&[&QUICK[..], &["--loads", "50", "--out", "out"]].concat());
    for part in ["t-A", "t-B", "real", "sim", "verdict", "equal", "mean within 3 %", "p99 within 5 %"] {
        assert!(ran.stdout.contains(part), "{part} in {}", ran.stdout);
    }
    // The machine decides which, but the table, the message and the exit code agree.
    let judged = desk.column("out/validation.csv", "judgement");
    assert!(judged.iter().all(|judgement| ["", "ok", "unclear", "off"].contains(&judgement.as_str())), "{judged:?}");
    let unclear = judged.iter().filter(|judgement| *judgement == "unclear").count();
    assert!(ran.stdout.contains(&format!("{unclear} are unclear: ")), "{}", ran.stdout);
    match unclear {
        0 => assert_eq!((ran.code, &ran.stderr[..]), (Some(0), "")),
        _ => {
            assert_eq!(ran.code, Some(4));
            assert!(ran.stderr.starts_with("batchlab: inconclusive: where "), "{}", ran.stderr);
        }
    }
}

#[test]
fn mistakes_are_named() {
    let desk = desk();
    desk.write("trace.csv", "id,arrival_ns,shape\n0,0,chain:1\n");
    let text =
        "name = 't'\n[workload]\nmodel = 'lstm'\nhidden = 8\ntrace = 'trace.csv'\n[[policy]]\nkind = 'cellular'\n";
    desk.write("traced.toml", text);
    for (arguments, message) in [
        (&["validate", "traced.toml"][..], "workload.trace: validation chooses the rates itself"),
        (&["validate", "t.toml", "t.toml"], "each scenario of one call needs a folder of its own"),
        (&["validate", "t.toml", "--loads", "0"], "--loads"),
        (&["validate", "t.toml", "--repeats", "1"], "--repeats"),
        (&["validate", "t.toml", "--seconds", "0"], "\"0\" is not a number from 0.01 to 100000"),
        (&["validate", "t.toml", "--costs", "none.csv"], "none.csv: cannot be read"),
    ] {
        let ran = desk.run(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains(message), "{arguments:?}: {ran:?}");
    }
}
