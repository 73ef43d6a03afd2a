//! `batchlab grnn` on the command line.

use crate::cuda::Host;
use crate::desk::Desk;

const RANK: [&str; 8] = ["grnn", "rank", "--cell", "lstm", "--hidden", "256", "--batch", "20"];

#[test]
fn mappings_are_ranked_with_the_terms_of_their_costs() {
    let desk = Desk::new();
    let ran = desk.run(&[&RANK[..], &["--top", "2", "--csv", "all.csv"]].concat()).ok();
    let lines: Vec<Vec<&str>> = ran.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(ran.stdout.starts_with("lstm, hidden 256, batch 20, on Titan V: 150 of 21672 mappings are valid\n"));
    let best = "1 32 2 32 8 - 4 256 80 128 24.00 0 47.292750 181.14 252.432750";
    assert_eq!(lines[2], best.split(' ').collect::<Vec<_>>());
    assert_eq!(lines.len(), 4);
    let csv = desk.read("all.csv");
    assert_eq!(csv.lines().count(), 151);
    assert_eq!(csv.lines().nth(1), Some("1,32,2,32,8,,4,256,80,24.0,0,47.292750,181.14,252.432750"));

    let json = desk.run(&[&RANK[..], &["--loose", "--max-tile-width", "256", "--format", "json"]].concat()).ok().json();
    assert_eq!((&json["space"], &json["top"].as_array().unwrap().len()), (&111_888.into(), &5));
    // No wider tile is valid, but threads may be any number.
    assert_eq!(json["valid"], 456);
    assert_eq!(json["top"][0]["cost"]["memory"], 24.0);
}

#[test]
fn both_synchronisations_of_a_gru_are_ranked_together() {
    let desk = Desk::new();
    let words =
        ["grnn", "rank", "--cell", "gru", "--hidden", "256", "--batch", "10", "--top", "40", "--format", "json"];
    let json = desk.run(&words).ok().json();
    let kernels: Vec<&str> =
        json["top"].as_array().unwrap().iter().map(|one| one["kernel"].as_str().unwrap()).collect();
    assert_eq!((kernels[0], kernels[35]), ("gru-single", "gru-double"));
}

#[test]
fn a_size_without_valid_mappings_says_what_runs_instead() {
    let desk = Desk::new();
    for (cell, hidden, batch, says) in [
        ("gru", "1024", "20", "the batch runs as 2 launches, one behind the other: 2 of 10\n"),
        ("gru", "1024", "19", "the batch runs as 2 launches, one behind the other: 1 of 10, 1 of 9\n"),
        ("lstm", "256", "61", "the batch runs padded to 63: grnn rank --batch 63\n"),
        (
            "lstm",
            "4096",
            "1",
            "no batch fits: with tiles of up to 64 elements the blocks are more than the multiprocessors",
        ),
    ] {
        let ran =
            desk.run(&["grnn", "rank", "--cell", cell, "--hidden", hidden, "--batch", batch, "--csv", "x.csv"]).ok();
        assert!(ran.stdout.contains(": 0 of ") && ran.stdout.contains(says), "{}", ran.stdout);
        assert_eq!(desk.read("x.csv").lines().count(), 1);
    }
}

#[test]
fn mistakes_are_named() {
    let desk = Desk::new();
    let device = titan_v();
    desk.write("plain.toml", device.split("[grnn]").next().unwrap());
    desk.write("slow.toml", device.replace("shuffle = 7", "shuffle = -7"));
    desk.write("huge.toml", device.replace("multiprocessors = 80", "multiprocessors = 80000"));
    desk.write("steep.toml", device.replace("warps = 1.6", "warps = 0"));
    desk.write("endless.toml", device.replace("value = 1.03, bound = 12", "value = 1000, bound = 200"));
    for (name, message) in [
        ("titan-z", "unknown device \"titan-z\"; known: titan-v, v100, titan-rtx, h200, or a file such as"),
        ("none.toml", "none.toml: cannot be read"),
        ("plain.toml", "plain.toml: no table [grnn]"),
        ("slow.toml", "slow.toml:49: invalid value: integer `-7`, expected u32"),
        ("huge.toml", "huge.toml: multiprocessors: 80000 is out of range; a whole number from 1 to 4096"),
        ("steep.toml", "steep.toml: grnn.products.warps: 0 is out of range; a number from 0.001 to 1000"),
        (
            "endless.toml",
            "endless.toml: grnn.reductions: 1000 to the power of 200 is larger than any number; take a smaller",
        ),
    ] {
        desk.run(&[&RANK[..], &["--device", name]].concat()).failed(2, message);
    }
    for (option, value, allowed) in
        [("--hidden", "0", "1..=65536"), ("--batch", "0", "1..=65536"), ("--max-tile-width", "1025", "1..=1024")]
    {
        let mut words = vec!["grnn", "rank", "--cell", "lstm", option, value];
        for needed in ["--hidden", "--batch"].into_iter().filter(|needed| *needed != option) {
            words.extend([needed, "20"]);
        }
        let ran = desk.run(&words);
        assert!(ran.code == Some(2) && ran.stderr.contains(&format!("{value} is not in {allowed}")), "{ran:?}");
    }
    std::fs::create_dir(desk.path("taken.csv")).unwrap();
    desk.run(&[&RANK[..], &["--csv", "taken.csv"]].concat()).failed(1, "taken.csv: cannot be written: ");
    let left = std::fs::read_dir(desk.path(".")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().contains("taken.csv") || name == "taken.csv"));
}

/// A scenario on persistent kernels alone; what takes no part in it is left out.
const SCENARIO: &str = r#"name = "t"
[workload]
model = "lstm"
hidden = 256
dataset = "constant:20"
requests = 200
[arrivals]
process = "poisson"
rates = [100]
[device]
grnn = "titan-v.toml"
[[policy]]
kind = "cellular"
chunk = 8
[[policy]]
kind = "padded"
"#;

#[test]
fn a_scenario_runs_on_persistent_kernels() {
    let desk = Desk::new();
    desk.write("titan-v.toml", titan_v());
    desk.write("t.toml", SCENARIO);
    let json = desk.sim(&["--format", "json"]).ok().json();
    let p50 = |row: usize| json["rows"][row]["p50_ms"].as_f64().unwrap_or_else(|| panic!("{json}"));
    // Alone, three launches against one.
    assert!(p50(0) > p50(1) + 0.1 && p50(1) > 0.054, "{json}");
    for (set, message) in [
        ("workload.model=seq2seq", "device.grnn: persistent kernels run lstm and gru, and the model is seq2seq"),
        ("workload.hidden=4096", "no persistent kernel runs lstm with hidden 4096 on the Titan V"),
        ("device.grnn=plain.toml", "plain.toml: no table [grnn]"),
        ("device.grnn=timeless.toml", "timeless.toml: no table [grnn.time] for the Titan V"),
        (
            "policy.cellular.chunk=0",
            "t.toml: --set policy.cellular.chunk=0: policy[0] (cellular): chunk: 0 is too small; at least 1",
        ),
    ] {
        desk.write("plain.toml", titan_v().split("[grnn]").next().unwrap());
        desk.write("timeless.toml", titan_v().split("[grnn.time]").next().unwrap());
        desk.sim(&["--set", set]).failed(2, message);
    }
}

#[test]
fn chunks_are_of_chains() {
    let desk = Desk::new();
    let trees =
        SCENARIO.replace("lstm", "tree-lstm").replace("constant:20", "complete-tree:4").replace("grnn", "roofline");
    desk.write("titan-v.toml", titan_v());
    desk.write("t.toml", trees);
    desk.sim(&[]).failed(2, "chunk: 8 steps are of chains, and subgraphs of the cell \"internal\" are none");
}

fn titan_v() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/devices/titan-v.toml")).unwrap()
}

const TUNE: [&str; 12] =
    ["grnn", "tune", "--cell", "gru", "--hidden", "12", "--batch", "3", "--steps", "6", "--times", "1"];

#[test]
fn the_fastest_mapping_is_measured_once_and_kept() {
    let Some(host) = Host::new() else { return };
    let first = host.run(&[&TUNE[..], &["--top", "2", "--all", "2", "--csv", "tuned.csv"]].concat()).ok();
    let head = "gru, hidden 12, batch 3, 6 steps, on Host CUDA: ";
    assert!(first.stdout.starts_with(head) && first.stdout.contains("the fastest is rank "), "{first:?}");
    assert!(first.stdout.contains("the first 2 are "), "{first:?}");

    let known = host.run(&TUNE).ok();
    assert!(known.stdout.starts_with("known from an earlier run on Host CUDA: gru-"), "{known:?}");
    let json = host.run(&[&TUNE[..], &["--again", "--top", "1", "--format", "json"]].concat()).ok().json();
    assert_eq!(json["measured"].as_array().unwrap().len(), 1);
    assert_eq!((&json["best"]["rank"], &json["regret"]), (&1.into(), &serde_json::Value::Null));
    assert!(json["best"]["ms"].as_f64() > Some(0.0), "{json}");
}

#[test]
fn tuning_takes_a_gpu_and_a_size_that_fits_it() {
    let Some(host) = Host::new() else { return };
    let wide = ["grnn", "tune", "--cell", "lstm", "--hidden", "1024", "--batch", "1"];
    host.run(&wide).failed(2, "no mapping of lstm with hidden 1024 and batch 1 is valid on Host CUDA");
    let host = host.with("DEVICES", "0");
    host.run(&TUNE).failed(2, "tune runs kernels on a GPU, and batchlab grnn rank needs none");
}

const FIT: [&str; 8] = ["grnn", "fit", "--device-name", "Mine", "--out", "mine.toml", "--times", "1"];

#[test]
fn a_device_is_measured_and_ranks() {
    let Some(host) = Host::new() else { return };
    let said = host.run(&FIT).ok().stdout;
    let text = host.desk.read("mine.toml");
    assert!(said.starts_with(&text) && said.contains("The fits miss products by up to "), "{said}");
    assert!(text.starts_with("# Host CUDA, as batchlab grnn fit has measured it, at 1000 MHz"), "{text}");
    for line in ["name = \"Mine\"", "multiprocessors = 4", "schedulers = 4", "registers = 65536", "threads = 1024"] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let rank = ["grnn", "rank", "--cell", "gru", "--hidden", "12", "--batch", "3", "--device", "mine.toml"];
    let ranked = host.desk.run(&rank).ok().stdout;
    assert!(ranked.starts_with("gru, hidden 12, batch 3, on Mine: "), "{ranked}");
}

#[test]
fn nothing_is_measured_for_a_file_that_can_not_be_written() {
    let desk = Desk::new();
    std::fs::create_dir(desk.path("mine.toml")).unwrap();
    desk.run(&FIT).failed(1, "mine.toml: cannot be written: ");
}

#[test]
fn measuring_takes_a_gpu_and_a_name_for_the_file() {
    let Some(host) = Host::new() else { return };
    host.run(&["grnn", "fit", "--device-name", "Mine", "--out", "mine"]).failed(2, "a device file ends with .toml");
    let host = host.with("DEVICES", "0");
    host.run(&FIT).failed(2, "fit measures on a GPU");
    assert!(!host.desk.path("mine.toml").exists());
}
