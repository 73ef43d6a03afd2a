//! `batchlab reproduce`: the papers' figures by name, and their claims.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::desk::{Desk, Ran, program};

/// All claims and their kinds, in the papers' order.
const CLAIMS: [(&str, &str); 94] = [
    ("bm-fig5-graph", "exact"),
    ("bm-fig5-cell", "exact"),
    ("bm-v100-64", "input"),
    ("bm-v100-512", "input"),
    ("bm-v100-64-real", "input"),
    ("bm-lstm-lat-flat", "sim"),
    ("bm-lstm-lat-base", "sim"),
    ("bm-lstm-peak", "sim"),
    ("bm-lstm-peak-base", "sim"),
    ("bm-lstm-gain", "sim"),
    ("bm-lstm-cut-most", "sim"),
    ("bm-lstm-cut-least", "sim"),
    ("bm-bmax", "sim"),
    ("bm-fig8", "sim"),
    ("bm-no-timeout", "sim"),
    ("bm-chains", "sim"),
    ("bm-chains-latency", "sim"),
    ("bm-batch-moderate", "sim"),
    ("bm-batch-64", "sim"),
    ("bm-queue99", "sim"),
    ("bm-queue99-base", "sim"),
    ("bm-fixed-ideal", "sim"),
    ("bm-fixed", "sim"),
    ("bm-fig11", "sim"),
    ("bm-s2s-2gpu", "sim"),
    ("bm-s2s-4gpu", "sim"),
    ("bm-s2s-gain", "sim"),
    ("bm-s2s-cut-most", "sim"),
    ("bm-s2s-cut-least", "sim"),
    ("bm-s2s-512-256", "sim"),
    ("bm-s2s-share", "input"),
    ("bm-tree-1k", "sim"),
    ("bm-tree-1k-dynet", "sim"),
    ("bm-tree-peak", "sim"),
    ("bm-tree-peak-dynet", "sim"),
    ("bm-tree-gain", "sim"),
    ("bm-tree-cut", "sim"),
    ("bm-abstract-cut", "sim"),
    ("bm-abstract-gain", "sim"),
    ("bm-tree-fold", "sim"),
    ("bm-fig15", "sim"),
    ("late-fig1", "exact"),
    ("late-gain", "sim"),
    ("late-fixed", "sim"),
    ("late-fold", "sim"),
    ("jit-kernel-none", "magnitude"),
    ("jit-kernel", "magnitude"),
    ("jit-cell-none", "exact"),
    ("jit-cell", "exact"),
    ("jit-infer", "cpu"),
    ("jit-train", "cpu"),
    ("dva-case1", "exact"),
    ("dva-case2", "exact"),
    ("dva-case3", "exact"),
    ("dva-lengths", "input"),
    ("dva-avg-zero", "sim"),
    ("dva-avg-delay", "sim"),
    ("dva-p99-zero", "sim"),
    ("dva-p99-delay", "sim"),
    ("dva-mean-cut", "sim"),
    ("dva-order-high", "sim"),
    ("dva-order-low", "sim"),
    ("dva-peak-bertbase", "sim"),
    ("dva-peak-bertlarge", "sim"),
    ("dva-peak-most", "sim"),
    ("dva-peak-same", "sim"),
    ("dva-glue", "sim"),
    ("dva-split", "sim"),
    ("dva-split-batches", "sim"),
    ("dva-buffers", "sim"),
    ("dva-stages", "sim"),
    ("dva-memory", "sim"),
    ("dva-overhead", "sim"),
    ("grnn-space", "exact"),
    ("grnn-table2", "exact"),
    ("grnn-top1", "cuda"),
    ("grnn-top5", "cuda"),
    ("grnn-table1", "cuda"),
    ("grnn-cudnn-trad", "cuda"),
    ("grnn-cudnn-pers", "cuda"),
    ("grnn-table3", "cuda"),
    ("grnn-crossover", "exact"),
    ("grnn-cudnn-1024", "cuda"),
    ("grnn-cudnn-5", "cuda"),
    ("grnn-cpu", "sim"),
    ("grnn-cpu-gru", "sim"),
    ("grnn-share", "sim"),
    ("grnn-oracle", "cuda"),
    ("grnn-worst", "cuda"),
    ("grnn-median", "cuda"),
    ("grnn-networks", "cuda"),
    ("cont-orca", "sim"),
    ("cont-vllm", "sim"),
    ("cont-sarathi", "sim"),
];

/// Runs the command on the shipped scenarios; results go to the desk. No data folder is set.
fn reproduce(desk: &Desk, words: &str) -> Ran {
    Ran::from(command(desk, words).output().unwrap())
}

fn command(desk: &Desk, words: &str) -> Command {
    let mut command = program();
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("BATCHLAB_DATA");
    command
        .args(["reproduce", "--quiet", "--out"])
        .arg(desk.path("out"))
        .args(words.split_whitespace());
    command
}

fn text<'a>(claim: &'a Value, key: &str) -> &'a str {
    claim[key]
        .as_str()
        .unwrap_or_else(|| panic!("{key}: {claim}"))
}

#[test]
fn every_claim_is_checked_and_shown_on_a_page() {
    let desk = Desk::new();
    let claims = reproduce(&desk, "all --format json").ok().results();
    let found: Vec<(&str, &str)> = claims
        .iter()
        .map(|claim| (text(claim, "id"), text(claim, "kind")))
        .collect();
    assert_eq!(found, CLAIMS);
    for claim in &claims {
        let verdict = text(claim, "verdict");
        assert!(
            [
                "holds",
                "direction",
                "off",
                "derived",
                "other-gpu",
                "not-run"
            ]
            .contains(&verdict),
            "{claim}"
        );
        assert!(
            !text(claim, "paper").is_empty() && !text(claim, "ours").is_empty(),
            "{claim}"
        );
        assert!(
            claim["gap_percent"].is_number() || claim["gap_percent"].is_null(),
            "{claim}"
        );
        match verdict {
            "holds" => assert!(claim["reason"].is_null(), "{claim}"),
            _ => assert!(
                text(claim, "reason").len() > 20,
                "a miss has its reason: {claim}"
            ),
        }
        if ["exact", "input"].contains(&text(claim, "kind")) && text(claim, "of") != "jit" {
            assert_eq!(verdict, "holds", "{claim}");
        }
    }

    let page = fs::read_to_string(desk.path("out/index.html")).unwrap();
    for (id, _) in CLAIMS {
        assert!(page.contains(&format!(", {id}</span>")), "{id}");
    }
    let figures = reproduce(&desk, "list").ok().stdout;
    let figures: Vec<&str> = figures
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .collect();
    assert_eq!(figures.len(), 56, "{figures:?}");
    for figure in &figures {
        let name: Vec<&str> = figure.split_whitespace().take(2).collect();
        assert!(
            page.contains(&format!("<article id=\"{}\">", name.join("-"))),
            "{figure}"
        );
        assert!(
            page.contains(&format!(
                "<code>batchlab reproduce {}</code>",
                name.join(" ")
            )),
            "{figure}"
        );
    }
    let claims: toml::Table =
        toml::from_str(include_str!("../../src/papers/batchmaker.toml")).unwrap();
    let mut marks = 0;
    for claim in claims["claim"].as_array().unwrap() {
        let Some(mark) = claim
            .get("mark")
            .filter(|mark| mark["on"].as_str() != Some("Time"))
        else {
            continue;
        };
        let kind = if mark["on"].as_str() == Some("Queueing time") {
            "queue-cdf"
        } else {
            "latency-throughput"
        };
        let place = desk
            .path("out/batchmaker")
            .join(claim["exhibits"][0].as_str().unwrap())
            .join(kind);
        let [of, value] = [&mark["of"], &claim["paper"]].map(|text| text.as_str().unwrap());
        let label = format!("\n{of}: {}\n", value.trim_end_matches(" req/s"));
        assert!(
            fs::read_to_string(place.with_extension("svg"))
                .unwrap()
                .contains(&label),
            "{claim}"
        );
        marks += 1;
    }
    assert_eq!(marks, 16, "every value that a figure has on an axis");
    assert!(
        page.matches("<svg").count() >= figures.len() - 2,
        "all but JIT's tables have a picture"
    );
    for link in page
        .split("href=\"")
        .skip(1)
        .map(|rest| &rest[..rest.find('"').unwrap()])
    {
        match link.strip_prefix('#') {
            Some(id) => assert!(page.contains(&format!(" id=\"{id}\">")), "{link}"),
            None => assert!(desk.path("out").join(link).is_file(), "{link}"),
        }
    }
}

#[test]
fn a_figure_is_drawn_with_its_claims() {
    let desk = Desk::new();
    let told = reproduce(&desk, "batchmaker fig5").ok().stdout;
    assert!(told.starts_with("batchmaker fig5: Figure 5\n"), "{told}");
    assert!(
        told.contains("exact        bm-fig5-graph (Fig. 5)"),
        "{told}"
    );
    let figure = fs::read_to_string(desk.path("out/batchmaker/fig5/gantt.svg")).unwrap();
    assert!(figure.contains("stated in the paper"), "{figure}");
    for file in [
        "batchmaker/fig5/gantt.svg",
        "batchmaker/fig5/gantt.png",
        "batchmaker/fig5/summary.csv",
    ] {
        assert!(desk.path("out").join(file).is_file(), "{file}");
    }
    assert!(!desk.path("out/index.html").exists(), "a page is for all");
    let json = reproduce(&desk, "batchmaker fig5 --format json")
        .ok()
        .json();
    assert_eq!(json["figure"], "batchmaker fig5");
    assert_eq!(json["claims"].as_array().unwrap().len(), 2);
}

/// A figure of several runs, whose means are exact.
#[test]
fn a_study_has_its_schedules_its_numbers_and_its_claims() {
    let desk = Desk::new();
    let told = reproduce(&desk, "dvabatch fig3").ok().stdout;
    for id in ["dva-case1", "dva-case2", "dva-case3"] {
        assert!(
            told.contains(&format!("exact        {id} (Fig. 3)")),
            "{told}"
        );
    }
    for file in [
        "case1/gantt.svg",
        "case2/gantt.png",
        "case3/summary.csv",
        "bars.svg",
        "bars.png",
        "numbers.csv",
    ] {
        assert!(
            desk.path("out/dvabatch/fig3").join(file).is_file(),
            "{file}"
        );
    }
    let json = reproduce(&desk, "dvabatch fig3 --format json").ok().json();
    let bars = json["results"].as_array().unwrap();
    let of = |papers: bool| -> Vec<f64> {
        let own = bars
            .iter()
            .filter(|bar| text(bar, "series").ends_with(", paper") == papers);
        own.map(|bar| bar["value"].as_f64().unwrap()).collect()
    };
    assert_eq!(of(false), [4.0, 2.5, 4.0, 2.875, 8.0, 5.25]);
    assert_eq!(
        of(true),
        of(false),
        "the paper's, which the figure has as marks"
    );
    reproduce(&desk, "dvabatch fig3 --scenarios nowhere").failed(2, "nowhere/dvabatch/case1.toml");
}

/// A table of the model: numbers as text and as JSON, a picture, and claims that the model or the measurements that ship answer.
#[test]
fn a_table_of_the_model_is_shown_beside_the_papers() {
    let desk = Desk::new();
    let told = reproduce(&desk, "grnn table3").ok().stdout;
    assert!(
        told.contains("order holds  grnn-crossover (7.2, Table 3)"),
        "{told}"
    );
    assert!(
        told.contains("order holds  grnn-table3 (Table 3)"),
        "{told}"
    );
    let file = "results/reference/gpu/measured.csv";
    assert!(
        told.contains(&format!(
            "Measured on NVIDIA H100 80GB HBM3 with 132 multiprocessors ({file})"
        )),
        "{told}"
    );
    for file in ["bars.svg", "bars.png", "bars-2.svg", "numbers.csv"] {
        assert!(desk.path("out/grnn/table3").join(file).is_file(), "{file}");
    }
    let json = reproduce(&desk, "grnn table2 --format json").ok().json();
    let of = |series: &str, value: &str| -> Vec<f64> {
        let bars = json["results"].as_array().unwrap().iter();
        let own = bars.filter(|bar| bar["series"] == series && bar["value_of"] == value);
        own.map(|bar| bar["value"].as_f64().unwrap()).collect()
    };
    assert_eq!(of("GRNN, model", "Rank"), [17.0, 3.0, 1.0, 14.0, 35.0]);
    assert_eq!(
        of("GRNN, model", "Cost")
            .iter()
            .map(|cost| cost.trunc())
            .collect::<Vec<_>>(),
        of("GRNN, paper", "Cost")
    );
    assert_eq!(
        of("GRNN, H100 80GB HBM3", "Latency (ms)").len(),
        5,
        "all mappings"
    );
}

/// Two pairs, in a folder as `--data` takes it: a leaf and a chain of two; two leaves under a root, twice.
#[test]
fn table_1_is_counted_where_its_trees_are() {
    let desk = Desk::new();
    let without = reproduce(&desk, "jit table1").ok().stdout;
    assert!(
        without.contains("not counted: The trees of SICK's test split are not part of the project"),
        "{without}"
    );
    assert!(
        without.contains("not run      jit-cell (Table 1)"),
        "{without}"
    );

    fs::create_dir_all(desk.path("data/trees")).unwrap();
    fs::create_dir_all(desk.path("data/jit")).unwrap();
    desk.write(
        "data/trees/sick_test.txt",
        "1\t0\n1\t2 0\n2\t3 3 0\n2\t3 3 0\n",
    );
    desk.write("data/jit/sick_test_order.csv", "position,pair\n0,1\n1,0\n");
    let data = desk.path("data").display().to_string();
    let json = reproduce(&desk, &format!("jit table1 --format json --data {data}"))
        .ok()
        .json();
    // Nine nodes, six leaves and two heads; together an initial state, cells (1,0) (2,1) (2,2), and both heads at level 3.
    let cells = &json["results"]["cells"];
    assert_eq!(
        (cells["unbatched"].as_u64(), cells["batched"].as_u64()),
        (Some(17), Some(1 + 3 + 1))
    );
    assert_eq!(json["claims"][3]["ours"], "5 cells");
    assert_eq!(json["claims"][3]["verdict"], "off");
}

/// Eight trees of two leaves under a root. How fast they are is not tested.
#[test]
fn table_2_is_measured_if_asked_for() {
    let desk = Desk::new();
    let without = reproduce(&desk, "jit table2").ok().stdout;
    assert!(
        without.contains(
            "not measured: A measurement, no simulation: batchlab reproduce jit table2 --measure"
        ),
        "{without}"
    );
    assert!(
        without.contains("trend only   jit-infer (Table 2)"),
        "{without}"
    );
    assert!(
        without.contains("ours 2.24 x, on two shared cores of a virtual AMD EPYC"),
        "what ships: {without}"
    );
    assert!(
        without.contains("not run      jit-train (Table 2)"),
        "{without}"
    );
    let planned = reproduce(&desk, "jit table2 --measure --plan");
    assert!(
        planned.code == Some(2)
            && planned
                .stderr
                .contains("'--measure' cannot be used with '--plan'"),
        "{planned:?}"
    );

    fs::create_dir_all(desk.path("data/trees")).unwrap();
    fs::create_dir_all(desk.path("data/jit")).unwrap();
    desk.write("data/trees/sick_test.txt", "2\t3 3 0\n".repeat(8));
    desk.write(
        "data/jit/sick_test_order.csv",
        "position,pair\n0,0\n1,1\n2,2\n3,3\n",
    );
    let small = ["requests=8", "hidden=5", "embedding=3", "vocabulary=9"]
        .map(|set| format!("--set workload.{set}"));
    let data = desk.path("data").display().to_string();
    let told = reproduce(
        &desk,
        &format!("jit table2 --measure --data {data} {}", small.join(" ")),
    )
    .ok()
    .stdout;
    let row = |policy: &str| -> Vec<&str> {
        let line = told
            .lines()
            .find_map(|line| line.strip_prefix(policy))
            .unwrap_or_else(|| panic!("{policy}: {told}"));
        line.split_whitespace().collect()
    };
    // All of it is for 512 trees, 64 times as many. Cells: the leaves and the roots, each a launch; alone each cell.
    assert_eq!(
        row("one at a time")[3..5],
        [(64 * 8 * 3).to_string(), (64 * 8 * 3).to_string()]
    );
    assert_eq!(row("JIT, cells")[3..5], ["128", "128"]);
    // 10 operators of leaves, 22 of roots and 2 for children, of which the word's three run as one with the leaves'.
    assert_eq!(row("JIT, operators")[3], (64 * (10 + 24 - 3)).to_string());
    assert!(
        told.contains(&format!("trees: {data}/trees/sick_test.txt; results in ")),
        "{told}"
    );
    assert!(
        told.contains("jit-infer (Table 2)") && told.contains(" x, on this processor, gap "),
        "{told}"
    );
    let host: Value =
        serde_json::from_str(&fs::read_to_string(desk.path("out/jit/table2/host.json")).unwrap())
            .unwrap();
    for run in host["runs"].as_array().unwrap() {
        assert_eq!(run["verified"], 8, "bit for bit: {run}");
        assert!(
            run["scheduler_s"].as_f64() > Some(0.0) && run["busy_s"].as_f64() > Some(0.0),
            "{run}"
        );
        assert!(run["copying_s"].as_f64() <= run["busy_s"].as_f64(), "{run}");
    }
}

/// A folder that the user names must have its files.
#[test]
fn a_folder_of_data_without_its_files_is_refused() {
    let desk = Desk::new();
    let folder = desk.path("data").display().to_string();
    let by_variable = || {
        command(&desk, "jit table1")
            .env("BATCHLAB_DATA", &folder)
            .output()
            .unwrap()
    };
    let missing = |file: &str, by: &str| {
        format!(
            "{folder}/{file}: there is no such file, but {by} names the folder {folder}, which has to hold trees/sick_test.txt, a \
             line for each tree (batchlab trace import --format parents makes such lines from the public .parents files), and \
             jit/sick_test_order.csv, the order of the pairs (position,pair); with no folder named, the table is left out"
        )
    };
    for figures in ["jit table1", "all"] {
        let ran = reproduce(&desk, &format!("{figures} --data {folder}"));
        ran.failed(2, &missing("trees/sick_test.txt", "--data"));
    }
    Ran::from(by_variable()).failed(2, &missing("trees/sick_test.txt", "BATCHLAB_DATA"));
    fs::create_dir_all(desk.path("data/trees")).unwrap();
    desk.write("data/trees/sick_test.txt", "1\t0\n1\t2 0\n");
    Ran::from(by_variable()).failed(2, &missing("jit/sick_test_order.csv", "BATCHLAB_DATA"));
    assert!(!desk.path("out").exists(), "nothing was run");
    let unset = command(&desk, "jit table1")
        .env("BATCHLAB_DATA", "")
        .output()
        .unwrap();
    assert!(
        Ran::from(unset)
            .ok()
            .stdout
            .contains("not run      jit-cell (Table 1)")
    );
}

#[test]
fn mistakes_are_told_before_anything_is_run() {
    let desk = Desk::new();
    reproduce(&desk, "batchmaker fig7").failed(
        2,
        "unknown figure \"fig7\"; known: batchmaker fig3, fig3-cpu, fig5, fig7a, ",
    );
    reproduce(&desk, "fig3").failed(
        2,
        "\"fig3\" is a figure of several papers; say batchmaker fig3 or late fig3 or dvabatch fig3 or grnn fig3",
    );
    reproduce(&desk, "late").failed(2, "late: name a figure or a list; known: late fig1, ");
    reproduce(&desk, "batchmaker fig5 --scenarios nowhere")
        .failed(2, "nowhere/batchmaker/fig5.toml");
    assert!(!desk.path("out").exists());
}
