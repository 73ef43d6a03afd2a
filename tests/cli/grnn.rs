//! `batchlab grnn` on the command line.

use crate::cuda::Host;
use crate::desk::Desk;

const RANK: [&str; 8] = [
    "grnn", "rank", "--cell", "lstm", "--hidden", "256", "--batch", "20",
];

#[test]
fn mappings_are_ranked_with_the_terms_of_their_costs() {
    let desk = Desk::new();
    let ran = desk
        .run(&[&RANK[..], &["--top", "2", "--csv", "all.csv"]].concat())
        .ok();
    let lines: Vec<Vec<&str>> = ran
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert!(
        ran.stdout.starts_with(
            "lstm, hidden 256, batch 20, on Titan V: 150 of 21672 mappings are valid\n"
        )
    );
    let best = "1 32 2 32 8 - 4 256 80 128 24.00 0 47.292750 181.14 252.432750";
    assert_eq!(lines[2], best.split(' ').collect::<Vec<_>>());
    assert_eq!(lines.len(), 4);
    let csv = desk.read("all.csv");
    assert_eq!(csv.lines().count(), 151);
    assert_eq!(
        csv.lines().nth(1),
        Some("1,32,2,32,8,,4,256,80,24.0,0,47.292750,181.14,252.432750")
    );

    let json = desk
        .run(
            &[
                &RANK[..],
                &["--loose", "--max-tile-width", "256", "--format", "json"],
            ]
            .concat(),
        )
        .ok()
        .json();
    assert_eq!(
        (&json["space"], &json["top"].as_array().unwrap().len()),
        (&111_888.into(), &5)
    );
    // No wider tile is valid, but threads may be any number.
    assert_eq!(json["valid"], 456);
    assert_eq!(json["top"][0]["cost"]["memory"], 24.0);
    assert_eq!(json["top"][0]["thread_weights"], 128.0);
}

#[test]
fn both_synchronisations_of_a_gru_are_ranked_together() {
    let desk = Desk::new();
    let words = [
        "grnn", "rank", "--cell", "gru", "--hidden", "256", "--batch", "10", "--top", "40",
        "--format", "json",
    ];
    let json = desk.run(&words).ok().json();
    let kernels: Vec<&str> = json["top"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["kernel"].as_str().unwrap())
        .collect();
    assert_eq!((kernels[0], kernels[35]), ("gru-single", "gru-double"));
}

#[test]
fn a_size_without_valid_mappings_says_what_runs_instead() {
    let desk = Desk::new();
    for (cell, hidden, batch, says) in [
        (
            "gru",
            "1024",
            "20",
            "the batch runs as 2 launches, one after another: 2 of 10\n",
        ),
        (
            "gru",
            "1024",
            "19",
            "the batch runs as 2 launches, one after another: 1 of 10, 1 of 9\n",
        ),
        (
            "lstm",
            "256",
            "61",
            "the batch runs padded to 63: grnn rank --batch 63\n",
        ),
        (
            "lstm",
            "4096",
            "1",
            "no batch fits: with tiles of up to 64 elements there are more blocks than multiprocessors",
        ),
    ] {
        let ran = desk
            .run(&[
                "grnn", "rank", "--cell", cell, "--hidden", hidden, "--batch", batch, "--csv",
                "x.csv",
            ])
            .ok();
        assert!(
            ran.stdout.contains(": 0 of ") && ran.stdout.contains(says),
            "{}",
            ran.stdout
        );
        assert_eq!(desk.read("x.csv").lines().count(), 1);
    }
}

#[test]
fn mistakes_are_named() {
    let desk = Desk::new();
    let device = titan_v();
    desk.write("plain.toml", device.split("[grnn]").next().unwrap());
    desk.write("slow.toml", device.replace("shuffle = 7", "shuffle = -7"));
    desk.write(
        "huge.toml",
        device.replace("multiprocessors = 80", "multiprocessors = 80000"),
    );
    desk.write("steep.toml", device.replace("warps = 1.6", "warps = 0"));
    desk.write(
        "endless.toml",
        device.replace("value = 1.03, bound = 12", "value = 1000, bound = 200"),
    );
    let line = 1 + device
        .lines()
        .position(|line| line.contains("shuffle = 7"))
        .unwrap();
    let slow = format!("slow.toml:{line}: invalid value: integer `-7`, expected u32");
    for (name, message) in [
        (
            "titan-z",
            "did you mean titan-v?; known: a100, h100, h200, titan-rtx, titan-v, v100",
        ),
        ("none.toml", "none.toml: cannot be read"),
        ("plain.toml", "plain.toml: no table [grnn]"),
        ("slow.toml", &slow),
        (
            "huge.toml",
            "huge.toml: multiprocessors: 80000 is out of range; a whole number from 1 to 4096",
        ),
        (
            "steep.toml",
            "steep.toml: grnn.products.warps: 0 is out of range; a number from 0.001 to 1000",
        ),
        (
            "endless.toml",
            "endless.toml: grnn.reductions: 1000 to the power of 200 is larger than any number; take a smaller",
        ),
    ] {
        desk.run(&[&RANK[..], &["--device", name]].concat())
            .failed(2, message);
    }
    for (option, value, allowed) in [
        ("--hidden", "0", "1..=65536"),
        ("--batch", "0", "1..=65536"),
        ("--max-tile-width", "1025", "1..=1024"),
    ] {
        let mut words = vec!["grnn", "rank", "--cell", "lstm", option, value];
        for needed in ["--hidden", "--batch"]
            .into_iter()
            .filter(|needed| *needed != option)
        {
            words.extend([needed, "20"]);
        }
        let ran = desk.run(&words);
        assert!(
            ran.code == Some(2) && ran.stderr.contains(&format!("{value} is not in {allowed}")),
            "{ran:?}"
        );
    }
    std::fs::create_dir(desk.path("taken.csv")).unwrap();
    desk.run(&[&RANK[..], &["--csv", "taken.csv"]].concat())
        .failed(1, "taken.csv: cannot be written: ");
    let left = std::fs::read_dir(desk.path("."))
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert!(
        left.into_iter()
            .all(|name| !name.to_string_lossy().contains("taken.csv") || name == "taken.csv")
    );
}

/// A scenario that uses only persistent kernels.
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
    let p50 = |row: usize| {
        json["rows"][row]["p50_ms"]
            .as_f64()
            .unwrap_or_else(|| panic!("{json}"))
    };
    // Alone, three launches against one.
    assert!(p50(0) > p50(1) + 0.1 && p50(1) > 0.054, "{json}");
    for (set, message) in [
        (
            "workload.model=seq2seq",
            "device.grnn: persistent kernels run lstm and gru, and the model is seq2seq",
        ),
        ("device.grnn=plain.toml", "plain.toml: no table [grnn]"),
        (
            "device.grnn=timeless.toml",
            "timeless.toml: no table [grnn.time] for the Titan V",
        ),
        (
            "policy.cellular.chunk=0",
            "t.toml: --set policy.cellular.chunk=0: policy[0] (cellular): chunk: 0 is too small; at least 1",
        ),
    ] {
        desk.write("plain.toml", titan_v().split("[grnn]").next().unwrap());
        desk.write(
            "timeless.toml",
            titan_v().split("[grnn.time]").next().unwrap(),
        );
        desk.sim(&["--set", set]).failed(2, message);
    }
}

#[test]
fn a_network_too_wide_for_registers_is_simulated_in_traditional_kernels() {
    let desk = Desk::new();
    desk.write("titan-v.toml", titan_v());
    let device = titan_v();
    let (_, kernels) = device.split_once("[grnn]").unwrap();
    desk.write(
        "bare.toml",
        format!("name = \"Bare\"\nmultiprocessors = 80\n[grnn]{kernels}"),
    );
    desk.write(
        "costs.csv",
        "cell,batch,ns\nlstm,1,1000000\nlstm,512,1000000\n",
    );
    desk.write("t.toml", SCENARIO);
    let wide = ["--set", "workload.hidden=4096", "--format", "json"];
    let run =
        |more: &[&str]| desk.run(&[&["sim", "t.toml", "--out", "out"], &wide[..], more].concat());
    let because = "all steps ran in traditional kernels, not in device.grnn's: no persistent kernel runs lstm with hidden \
                   4096 on the Titan V: its registers do not hold the weights";
    let without = SCENARIO.replace("grnn = ", "roofline = ");
    for (times, plain) in [
        // The device's own data sheet, one that is named, and rows of a table.
        (&[][..], &[][..]),
        (&["--set", "device.roofline=titan-v.toml"], &[]),
        (
            &["--set", "device.costs=costs.csv"],
            &["--set", "device.costs=costs.csv"],
        ),
    ] {
        desk.write("t.toml", SCENARIO);
        let fallen_back = run(times).ok();
        assert!(
            fallen_back.stderr.contains(because),
            "{}",
            fallen_back.stderr
        );
        desk.write("t.toml", &without);
        assert_eq!(
            fallen_back.json()["rows"],
            run(plain).ok().json()["rows"],
            "{times:?}"
        );
    }
    desk.write("t.toml", SCENARIO);
    let narrow = desk.run(&["sim", "t.toml", "--out", "out"]).ok();
    assert!(!narrow.stderr.contains("traditional"), "{}", narrow.stderr);
    let message = "device.grnn: no persistent kernel runs lstm with hidden 4096 on the Bare: its registers do not hold the \
                   weights; the times of its traditional kernels are unknown, since bare.toml";
    run(&["--set", "device.grnn=bare.toml"]).failed(2, message);
}

#[test]
fn chunks_are_of_chains() {
    let desk = Desk::new();
    let (alone, _) = SCENARIO
        .split_once("[[policy]]\nkind = \"padded\"")
        .unwrap();
    let trees = alone
        .replace("lstm", "tree-lstm")
        .replace("constant:20", "complete-tree:4")
        .replace("grnn", "roofline");
    desk.write("titan-v.toml", titan_v());
    desk.write("t.toml", trees);
    desk.sim(&[]).failed(
        2,
        "chunk: 8 steps need chains, and subgraphs of the cell \"internal\" are not chains",
    );
}

fn titan_v() -> String {
    std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios/devices/titan-v.toml"
    ))
    .unwrap()
}

const TUNE: [&str; 12] = [
    "grnn", "tune", "--cell", "gru", "--hidden", "12", "--batch", "3", "--steps", "6", "--times",
    "1",
];

#[test]
fn the_fastest_mapping_is_measured_once_and_kept() {
    let Some(host) = Host::new() else { return };
    let first = host
        .run(&[&TUNE[..], &["--top", "2", "--all", "2"]].concat())
        .ok();
    let head = "gru, hidden 12, batch 3, 6 steps, on Host CUDA: ";
    assert!(
        first.stdout.starts_with(head) && first.stdout.contains("the fastest is rank "),
        "{first:?}"
    );
    assert!(first.stdout.contains("the first 2 are "), "{first:?}");

    let known = host.run(&TUNE).ok();
    assert!(
        known
            .stdout
            .starts_with("known from an earlier run on Host CUDA: gru-"),
        "{known:?}"
    );
    let json = host
        .run(&[&TUNE[..], &["--again", "--top", "1", "--format", "json"]].concat())
        .ok()
        .json();
    assert_eq!(json["measured"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&json["best"]["rank"], &json["regret"]),
        (&1.into(), &serde_json::Value::Null)
    );
    assert!(json["best"]["ms"].as_f64() > Some(0.0), "{json}");
}

#[test]
fn a_gpu_that_breaks_off_ends_the_tuning_and_leaves_what_was_measured() {
    // A mapping takes 17 kernels: one is checked, and eight at a time are timed twice.
    let Some(host) = Host::new().map(|host| host.with("LOSE", "20")) else {
        return;
    };
    let ran = host.run(&[&TUNE[..], &["--top", "3", "--csv", "m.csv"]].concat());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stdout.contains("1 of ") && !ran.stderr.contains("passed over"),
        "{ran:?}"
    );
    assert_eq!(host.desk.rows("m.csv").len(), 1);
}

#[test]
fn tuning_takes_a_gpu_and_a_size_that_fits_it() {
    let Some(host) = Host::new() else { return };
    let wide = [
        "grnn", "tune", "--cell", "lstm", "--hidden", "1024", "--batch", "1",
    ];
    host.run(&wide).failed(
        2,
        "no mapping of lstm with hidden 1024 and batch 1 is valid on Host CUDA",
    );
    let host = host.with("DEVICES", "0");
    host.run(&TUNE).failed(
        2,
        "tune runs kernels on a GPU, and batchlab grnn rank needs none",
    );
}

const FIT: [&str; 8] = [
    "grnn",
    "fit",
    "--device-name",
    "Mine",
    "--out",
    "mine.toml",
    "--times",
    "1",
];

#[test]
fn a_device_is_measured_and_ranks() {
    let Some(host) = Host::new() else { return };
    let said = host.run(&FIT).ok().stdout;
    let text = host.desk.read("mine.toml");
    assert!(
        said.starts_with(&text) && said.contains("The fits miss products by up to "),
        "{said}"
    );
    assert!(
        text.starts_with("# Host CUDA, as batchlab grnn fit has measured it, at 1000 MHz"),
        "{text}"
    );
    assert!(!text.contains("cluster_synchronisation"), "{text}");
    for line in [
        "name = \"Mine\"",
        "multiprocessors = 4",
        "schedulers = 4",
        "registers = 65536",
        "threads = 1024",
        "states_on_chip = true",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let rank = [
        "grnn",
        "rank",
        "--cell",
        "gru",
        "--hidden",
        "12",
        "--batch",
        "3",
        "--device",
        "mine.toml",
    ];
    let ranked = host.desk.run(&rank).ok().stdout;
    assert!(
        ranked.starts_with("gru, hidden 12, batch 3, on Mine: "),
        "{ranked}"
    );
    let host = host.with("CAPABILITY", "90");
    host.run(&FIT).ok();
    let text = host.desk.read("mine.toml");
    assert!(
        text.contains("\ncluster_synchronisation = ") && text.contains(", of a cluster "),
        "{text}"
    );
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
    host.run(&["grnn", "fit", "--device-name", "Mine", "--out", "mine"])
        .failed(2, "a device file ends with .toml");
    let host = host.with("DEVICES", "0");
    host.run(&FIT).failed(2, "fit measures on a GPU");
    assert!(!host.desk.path("mine.toml").exists());
}

/// The rows that a tuner wrote on Host CUDA, by column.
fn rows(host: &Host, name: &str) -> Vec<std::collections::HashMap<String, String>> {
    csv::Reader::from_path(host.desk.path(name))
        .unwrap()
        .deserialize()
        .map(|row| row.unwrap())
        .collect()
}

#[test]
fn what_was_measured_is_gathered_in_a_file_that_figures_read() {
    let Some(host) = Host::new() else { return };
    let tune = |more: &[&str]| host.run(&[&TUNE[..], &["--csv", "m.csv"], more].concat());
    tune(&["--top", "2", "--all", "2"]).ok();
    let first = rows(&host, "m.csv");
    assert!(
        first
            .iter()
            .filter(|row| row["chosen"] == "first")
            .map(|row| &row["rank"])
            .eq(["1", "2"]),
        "{first:?}"
    );
    assert_eq!(
        (
            &*first[0]["gpu"],
            &*first[0]["way"],
            &*first[0]["constants"]
        ),
        ("Host CUDA", "grnn", "Titan V (states on chip)")
    );
    assert!(
        first.len() > 2
            && first
                .iter()
                .all(|row| row["ms"].parse::<f64>().unwrap() > 0.0),
        "{first:?}"
    );

    // A file asks for times, whatever is known; what it has of the same mappings is replaced, all else stays.
    let again = tune(&["--top", "2"]).ok().stdout;
    assert!(again.contains("valid mappings were run"), "{again}");
    assert_eq!(rows(&host, "m.csv").len(), first.len());
    let second_kernel = if first[0]["kernel"] == "gru-single" {
        "gru-double"
    } else {
        "gru-single"
    };
    tune(&["--kernel", second_kernel, "--top", "1"]).ok();
    let second = rows(&host, "m.csv").pop().unwrap();
    assert_eq!(
        (&*second["kernel"], &*second["chosen"]),
        (second_kernel, "first")
    );
    assert!(
        second["rank"].parse::<u32>().unwrap() > 1,
        "its place is that among both kernels: {second:?}"
    );

    // A mapping that is named, in two launches.
    let mapping = ["tile_width", "tile_height", "work_groups", "group_size"]
        .map(|name| first[0][name].clone());
    let named = [
        "--mapping",
        &mapping.join(","),
        "--launches",
        "2",
        "--kernel",
        "gru-single",
    ];
    let json = tune(&[&named[..], &["--format", "json"]].concat())
        .ok()
        .json();
    let given = rows(&host, "m.csv").pop().unwrap();
    assert_eq!(
        (&*given["batch"], &*given["launches"], &*given["chosen"]),
        ("3", "2", "given")
    );
    let ms = json["best"]["ms"].as_f64().unwrap();
    assert!(
        (ms - given["ms"].parse::<f64>().unwrap()).abs() < 1e-6,
        "{given:?}"
    );

    let table = host
        .desk
        .run(&[
            "reproduce",
            "grnn",
            "table3",
            "--measured",
            "m.csv",
            "--out",
            "out",
        ])
        .ok()
        .stdout;
    assert!(
        table.contains("one, Host CUDA")
            && table.contains("Measured on Host CUDA with 4 multiprocessors"),
        "{table}"
    );
}

#[test]
fn a_mapping_or_a_file_that_can_t_be_is_told_before_anything_is_measured() {
    let Some(host) = Host::new() else { return };
    host.desk.write("other.csv", MADE_UP);
    host.desk.write("t.csv", "a,b\n1,2\n");
    for (more, message) in [
        (
            &["--mapping", "64,3,2,32"][..],
            "--mapping 64,3,2,32: is not valid on Host CUDA; ",
        ),
        (&["--kernel", "lstm"], "--kernel lstm: none of the "),
        (
            &["--launches", "4"],
            "--launches 4: a batch of 3 in parts of 1 is 3 launches",
        ),
        (
            &["--csv", "other.csv"],
            "other.csv: is of Made-up H200 with 132 multiprocessors, and this is Host CUDA with 4",
        ),
        (
            &["--csv", "t.csv"],
            "t.csv: line 1: the header is \"a,b\"; that of measured sequences is gpu,multiprocessors,",
        ),
    ] {
        host.run(&[&TUNE[..], more].concat()).failed(2, message);
    }
    assert_eq!(host.desk.read("other.csv"), MADE_UP);
    let ran = host.run(&[&TUNE[..], &["--mapping", "64,3,2"]].concat());
    assert!(
        ran.code == Some(2) && ran.stderr.contains("four whole numbers above 0"),
        "{ran:?}"
    );
}

/// Invented times: round numbers, on a GPU that does not exist.
const MADE_UP: &str = include_str!("../data/grnn-made-up.csv");

#[test]
fn measured_times_stand_beside_the_models_and_the_papers() {
    let desk = Desk::new();
    desk.write("made-up.csv", MADE_UP);
    let reproduce = |what: &str, more: &[&str]| {
        desk.run(
            &[
                &[
                    "reproduce",
                    "grnn",
                    what,
                    "--measured",
                    "made-up.csv",
                    "--out",
                    "out",
                ],
                more,
            ]
            .concat(),
        )
        .ok()
    };
    let of_title =
        |title: &str, what: &str, value_of: &str, panel: &str, group: &str, series: &str| {
            let json = reproduce(what, &["--format", "json"]).json();
            let wanted = [
                ("value_of", value_of),
                ("panel", panel),
                ("group", group),
                ("series", series),
            ];
            let is = |bar: &&serde_json::Value| {
                bar["title"].as_str().unwrap().contains(title)
                    && wanted.iter().all(|(key, text)| bar[key] == **text)
            };
            json["results"]
                .as_array()
                .unwrap()
                .iter()
                .find(is)
                .and_then(|bar| bar["value"].as_f64())
        };
    let value = |what: &str, value_of: &str, panel: &str, group: &str, series: &str| {
        of_title("", what, value_of, panel, group, series)
    };
    // Of a drawing of measured times only.
    let measured = |what: &str, value_of: &str, panel: &str, group: &str, series: &str| {
        of_title(", Made-up H200", what, value_of, panel, group, series)
    };
    // The fastest of ranks 1 to 5; a faster one of rank 20 was drawn, and is what the others are held against.
    assert_eq!(
        measured("table1", "Latency (ms)", "LSTM of 256", "20", "GRNN"),
        Some(0.25)
    );
    assert_eq!(
        measured(
            "table1",
            "Latency (ms)",
            "LSTM of 64",
            "20",
            "cuDNN persistent"
        ),
        Some(1.0)
    );
    assert_eq!(
        measured(
            "table1",
            "Latency (ms)",
            "LSTM of 64",
            "10",
            "cuDNN persistent"
        ),
        None
    );
    assert_eq!(
        value("table2", "Rank", "", "64×4", "model, Made-up H200"),
        Some(3.0)
    );
    assert_eq!(
        value("table2", "Latency (ms)", "", "16×16", "GRNN, Made-up H200"),
        Some(0.3)
    );
    assert_eq!(
        value("table2", "Latency (ms)", "", "128×2", "GRNN, Made-up H200"),
        None
    );
    assert_eq!(
        value(
            "table3",
            "Latency (ms)",
            "GRU of 1024",
            "20",
            "one, Made-up H200"
        ),
        Some(80.0)
    );
    assert_eq!(
        measured(
            "fig3",
            "Latency (ms)",
            "State of 256",
            "20",
            "cuDNN float16"
        ),
        Some(0.7)
    );
    let speed_up = measured("fig11", "Speed-up", "State of 256", "20", "GRNN").unwrap();
    assert!((speed_up - 6.4 / 0.25).abs() < 1e-9);
    // 16 · 1024² · 20 · 100 operations in 4 ms, of 66,908 in a nanosecond.
    let share = value(
        "fig13",
        "Share of the peak (%)",
        "State of 1024",
        "20",
        "GRNN, Made-up H200",
    )
    .unwrap();
    assert!((share - 100.0 * 33_554_432_000.0 / (4e6 * 66_908.0)).abs() < 1e-9);
    let of_sample = |series| {
        measured(
            "fig14",
            "Latency over the best",
            "State of 256",
            "20",
            series,
        )
        .unwrap()
    };
    let expected = [0.26 / 0.24, 0.25 / 0.24, 0.26 / 0.24, 0.6 / 0.24];
    for (series, expected) in ["Top-1", "Top-5", "median", "slowest"]
        .into_iter()
        .zip(expected)
    {
        assert!(
            (of_sample(series) - expected).abs() < 1e-9,
            "{series}: {}",
            of_sample(series)
        );
    }
    assert_eq!(
        measured("fig15", "Latency (ms)", "CharRNN", "1", "GRNN"),
        None
    );
    // Three layers in one launch of 102 steps; one after the other they are three launches of 100 steps.
    let of_layers = ["GRNN, model", "model, layers in one launch"];
    let [apart, at_once] =
        of_layers.map(|series| value("fig15", "Latency (ms)", "CharRNN", "1", series).unwrap());
    assert!(at_once < apart, "{at_once} {apart}");
    // 8.01 ms without 101 rows of 20 · 1024 numbers at 15.75 GB/s.
    let kernels = value(
        "table1",
        "Latency (ms)",
        "LSTM of 1024",
        "20",
        "paper, without PCIe",
    )
    .unwrap();
    assert!(
        (kernels - (8.01 - 101.0 * 20.0 * 4096.0 / 15.754e6)).abs() < 1e-3,
        "{kernels}"
    );

    let told = reproduce("table1", &[]).stdout;
    assert!(
        told.contains("Measured on Made-up H200 with 132 multiprocessors (made-up.csv): "),
        "{told}"
    );
    assert!(desk.path("out/grnn/table1/bars.svg").is_file());

    // A GPU of which no data sheet is known has no peak.
    desk.write("made-up.csv", MADE_UP.replace("Made-up H200", "Made-up"));
    let told = reproduce("fig13", &[]).stdout;
    assert!(
        told.contains("no device file says the peak of the Made-up")
            && !told.contains("GRNN, Made-up"),
        "{told}"
    );
}

#[test]
fn claims_about_times_are_judged_where_they_were_measured() {
    let desk = Desk::new();
    let claims = |text: &str| {
        desk.write("made-up.csv", text);
        let words = [
            "reproduce",
            "grnn",
            "claims",
            "--measured",
            "made-up.csv",
            "--out",
            "out",
            "--format",
            "json",
        ];
        let claims = desk.run(&words).ok().results();
        let of_times = claims.iter().filter(|claim| claim["kind"] == "cuda");
        let text = |claim: &serde_json::Value, key: &str| {
            claim[key].as_str().unwrap_or_default().to_string()
        };
        of_times
            .map(|claim| ["id", "verdict", "ours", "reason"].map(|key| text(claim, key)))
            .collect::<Vec<_>>()
    };
    let found = claims(MADE_UP);
    let words: Vec<[&str; 3]> = found
        .iter()
        .map(|claim| [&*claim[0], &*claim[1], &*claim[2]])
        .collect();
    assert_eq!(
        words,
        [
            [
                "grnn-top1",
                "off",
                "1.08, the mean of 1 of nine sizes, 5 mappings, on Made-up H200"
            ],
            [
                "grnn-top5",
                "holds",
                "1.04, the mean of 1 of nine sizes, 5 mappings, on Made-up H200"
            ],
            [
                "grnn-table1",
                "other-gpu",
                "0.10 to 4.00 ms, on Made-up H200"
            ],
            ["grnn-cudnn-trad", "direction", "5; 4, on Made-up H200"],
            ["grnn-cudnn-pers", "holds", "10.0, on Made-up H200"],
            [
                "grnn-table3",
                "holds",
                "64: 1.50 1.50 1.50; 256: 1.25 1.25 1.25; 1024: 0.10 0.05 0.05 times as fast with one, on Made-up H200"
            ],
            ["grnn-cudnn-1024", "not-run", "not measured"],
            ["grnn-cudnn-5", "not-run", "not measured"],
            ["grnn-oracle", "off", "0 of 1 measured, on Made-up H200"],
            [
                "grnn-worst",
                "holds",
                "1.08; 1.04 x, the worst of 1 of nine sizes, on Made-up H200"
            ],
            [
                "grnn-median",
                "off",
                "1.00 x, the mean of 1 of nine sizes (1.00), on Made-up H200"
            ],
            ["grnn-networks", "not-run", "not measured"],
        ]
    );
    // The paper's GPU is judged, another is not.
    let own = claims(&MADE_UP.replace("Made-up H200", "NVIDIA TITAN V"));
    assert_eq!([&*own[2][0], &*own[2][1]], ["grnn-table1", "direction"]);
    // Both layers of a network, at one batch: twice as fast as traditional kernels, and 15 times.
    let of_networks =
        [("256,20,20", 1.0, 2.0), ("128,20,100", 0.1, 1.5)].map(|(size, grnn, cudnn)| {
            let of = |way: &str| format!("Made-up H200,132,{way},lstm,{size},");
            format!(
                "{}1,{grnn},lstm,16,1,32,4,1,50,101,H200,first\n{}200,{cudnn},,,,,,,,,,\n",
                of("grnn"),
                of("cudnn-f32")
            )
        });
    let found = claims(&(MADE_UP.to_string() + &of_networks.concat()));
    let of_both = "15.0 x (Text classification 2.0 over traditional kernels, batch 20; CharRNN 15.0 over traditional kernels, batch 20)";
    assert_eq!(
        found.last().unwrap()[..3],
        [
            "grnn-networks",
            "holds",
            &format!("{of_both}, on Made-up H200")
        ]
    );
    // Each without a row that it needs: not run, with what to run.
    for (id, row) in [
        ("grnn-top1", ",drawn\n"),
        ("grnn-table1", "grnn,gru,1024,1,"),
        ("grnn-cudnn-trad", "cudnn-f32-packed,lstm,64,10,"),
        ("grnn-cudnn-pers", "cudnn-f32,lstm,64,20,"),
        ("grnn-table3", "gru-single,16,1,32,4,30,"),
    ] {
        let rest: String = MADE_UP
            .split_inclusive('\n')
            .filter(|line| !line.contains(row))
            .collect();
        let found = claims(&rest);
        let claim = found.iter().find(|claim| claim[0] == id).unwrap();
        assert_eq!(claim[1], "not-run", "{claim:?}");
        assert!(
            claim[3].contains("scripts/gpu-check.sh measures it (part "),
            "{claim:?}"
        );
    }
}

#[test]
fn a_wrong_row_is_named_with_its_file_line_column_and_value() {
    let desk = Desk::new();
    let (header, row) = (
        "gpu,multiprocessors,way",
        "Made-up H200,132,grnn,lstm,64,1,100,1,0.1,lstm,16,1,32,4,1,50,101,H200,first",
    );
    assert!(MADE_UP.lines().nth(1) == Some(row) && MADE_UP.starts_with(header));
    let with = |old: &str, new: &str| MADE_UP.replacen(old, new, 1);
    for (text, message) in [
        (
            String::new(),
            "bad.csv: is empty; it should begin with a header",
        ),
        (
            with(header, "gpu,way"),
            "bad.csv: line 1: the header is \"gpu,way,cell,",
        ),
        (
            MADE_UP.lines().next().unwrap().to_string() + "\n",
            "bad.csv: no rows below the header",
        ),
        (
            with(row, "a,b"),
            "bad.csv: line 2: has 2 fields, but the header has 19",
        ),
        (
            with(row, &row.replace("Made-up", "Other")),
            "bad.csv: line 3: gpu: \"Made-up H200\" with 132 multiprocessors, where the rows above are of Other",
        ),
        (
            with(row, &row.replace(",lstm,64", ",rnn,64")),
            "bad.csv: line 2: cell: unknown \"rnn\"; known: lstm, gru",
        ),
        (
            with(row, &row.replace("grnn,", "cudnn,")),
            "bad.csv: line 2: way: unknown \"cudnn\"; known: grnn, cudnn-f32, cudnn-f32-packed, ",
        ),
        (
            with(row, &row.replace(",64,", ",0,")),
            "bad.csv: line 2: hidden: \"0\" is out of range; a whole number from 1 to ",
        ),
        (
            with(row, &row.replace(",1,100,", ",x,100,")),
            "bad.csv: line 2: batch: \"x\" is not a whole number",
        ),
        (
            with(row, &row.replace(",0.1,", ",0,")),
            "bad.csv: line 2: ms: \"0\" is not a time; must be above 0",
        ),
        (
            with(row, &row.replace(",0.1,", ",,")),
            "bad.csv: line 2: ms: is empty; a number is needed",
        ),
        (
            with(row, &row.replace(",lstm,16", ",gru-double,16")),
            "bad.csv: line 2: kernel: unknown \"gru-double\"; known: lstm",
        ),
        (
            with(row, &row.replace(",1,50,", ",51,50,")),
            "bad.csv: line 2: rank: \"51\" of 50 valid mappings; from 1 to 50",
        ),
        (
            with(row, &row.replace("first", "best")),
            "bad.csv: line 2: chosen: unknown \"best\"; known: first, drawn, given",
        ),
        (
            with(row, &row.replace("grnn,", "cudnn-f32,")),
            "bad.csv: line 2: kernel: \"lstm\", but cuDNN has no mappings; empty",
        ),
    ] {
        desk.write("bad.csv", text);
        desk.run(&[
            "reproduce",
            "grnn",
            "fig3",
            "--measured",
            "bad.csv",
            "--out",
            "out",
        ])
        .failed(2, message);
    }
    desk.run(&[
        "reproduce",
        "grnn",
        "fig3",
        "--measured",
        "none.csv",
        "--out",
        "out",
    ])
    .failed(2, "none.csv: cannot be read");
    assert!(!desk.path("out").exists());
}
