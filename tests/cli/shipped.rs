//! The scenarios in the repository, which are inside the program too.

use std::fs;
use std::path::{Path, PathBuf};

use batchlab::policy::registry::Registry;
use batchlab::scenario::Scenario;

use crate::desk::{Desk, Ran, files_below, program, same};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Runs a shipped scenario from the repository; results go to the desk.
fn sim(desk: &Desk, scenario: &str) -> String {
    let out = desk.path("out");
    let mut command = program();
    let output = command
        .current_dir(ROOT)
        .args(["sim", scenario, "-q", "--out"])
        .arg(out)
        .output()
        .unwrap();
    assert!(output.status.success(), "{scenario}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_scenario_loads() {
    let mut folders = vec![PathBuf::from(ROOT).join("scenarios")];
    let mut names = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                // Files of devices and language models are TOML too, but not scenarios.
                folders.extend(
                    (!path.ends_with("devices") && !path.ends_with("llms")).then_some(path),
                );
            } else if path.extension() == Some("toml".as_ref()) {
                let scenario = Scenario::load(&path, &[], &Registry::standard())
                    .unwrap_or_else(|error| panic!("{error}"));
                assert!(!scenario.points().is_empty());
                names.push(scenario.name);
            }
        }
    }
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(
        names.len(),
        count,
        "two scenarios of one name write into one folder: {names:?}"
    );
    assert!(count >= 10, "{names:?}");
}

#[test]
fn the_first_look_runs() {
    let desk = Desk::new();
    let text = sim(&desk, "scenarios/quickstart.toml");
    assert_eq!(
        text.lines()
            .filter(|line| line.starts_with("Cellular batching"))
            .count(),
        5,
        "{text}"
    );
    for figure in [
        "latency-throughput.svg",
        "latency-throughput.png",
        "queue-cdf.svg",
        "queue-cdf.png",
    ] {
        assert!(
            desk.path("out/quickstart").join(figure).is_file(),
            "{figure}"
        );
    }
}

/// BatchMaker, Figure 5: graph batching ends at 5 and 12; under cellular batching requests leave one by one, and each place
/// is refilled at once.
#[test]
fn figure_5_has_the_papers_times() {
    let desk = Desk::new();
    sim(&desk, "scenarios/batchmaker/fig5.toml");
    let milliseconds = |policy: &str, column: &str| -> Vec<f64> {
        let column = desk.column(&format!("out/fig5/{policy}/trace/requests.csv"), column);
        column
            .iter()
            .map(|ns| ns.parse::<f64>().unwrap() / 1e6)
            .collect()
    };
    assert_eq!(
        milliseconds("Graph batching", "finish_ns"),
        [5.0, 5.0, 5.0, 5.0, 12.0, 12.0, 12.0, 12.0]
    );
    assert_eq!(
        milliseconds("Cellular batching", "finish_ns"),
        [2.0, 3.0, 3.0, 5.0, 7.0, 10.0, 6.0, 6.0]
    );
    assert_eq!(
        milliseconds("Cellular batching", "start_ns"),
        [0.0, 0.0, 0.0, 0.0, 2.0, 3.0, 3.0, 5.0]
    );
    for file in [
        "gantt.svg",
        "gantt.png",
        "Cellular batching/trace/timeline.json",
    ] {
        assert!(
            Path::new(&desk.path("out/fig5")).join(file).is_file(),
            "{file}"
        );
    }
}

/// Runs the program in the repository; results go to the desk.
fn in_repository(desk: &Desk, words: &[&str]) -> Ran {
    program()
        .current_dir(ROOT)
        .args(words)
        .arg("--out")
        .arg(desk.path("there"))
        .output()
        .unwrap()
        .into()
}

#[test]
fn results_have_the_same_bytes_in_any_folder() {
    for (name, file, more) in [
        (
            "graphs/attention",
            "scenarios/graphs/attention.toml",
            &["--set", "workload.requests=100"][..],
        ),
        (
            "two-models.toml",
            "scenarios/classes/two-models.toml",
            &["--set", "workload.requests=100"],
        ),
        ("case1", "scenarios/dvabatch/case1.toml", &[]),
    ] {
        let desk = Desk::new();
        let here = desk
            .run(&[&["sim", name, "--out", "here"], more].concat())
            .ok();
        assert!(
            here.stderr.starts_with("built-in files: scenarios/"),
            "{}",
            here.stderr
        );
        let there = in_repository(&desk, &[&["sim", file], more].concat()).ok();
        assert!(
            !there.stderr.contains("built-in"),
            "a file on disk comes first: {}",
            there.stderr
        );
        same(&desk.files("here"), &desk.files("there"));
        let quiet = [&["sim", file, "--out", "here", "--resume", "-q"], more].concat();
        assert_eq!(desk.run(&quiet).ok().stderr, "");
        same(&desk.files("here"), &desk.files("there"));
    }
}

#[test]
fn results_of_a_built_in_scenario_are_read_in_any_folder() {
    let desk = Desk::new();
    let less = [
        "--set",
        "workload.requests=200",
        "--set",
        "arrivals.rates=[500]",
        "--set",
        "output.plots=[]",
    ];
    let real = [
        "real",
        "quickstart",
        "--out",
        "out",
        "-q",
        "--set",
        "workload.hidden=8",
        "--set",
        "workload.vocabulary=50",
    ];
    desk.run(&[&real[..], &less].concat()).ok();
    desk.run(&[&["sim", "quickstart", "--out", "sim", "-q"], &less[..]].concat())
        .ok();
    for (words, part) in [
        (
            &["replay", "out/quickstart", "--ledger", "--costs", "v100"][..],
            "yes",
        ),
        (&["compare", "out/quickstart", "sim/quickstart"], "p99"),
        (
            &[
                "explain",
                "sim/quickstart/Cellular batching/500",
                "request",
                "3",
            ],
            "request 3",
        ),
        (&["report", "sim/quickstart", "--out", "page.html"], ""),
        (
            &["network", "unet", "--roofline", "titan-rtx"],
            "multiply-adds",
        ),
        (&["trace", "info", "figure5"], "requests"),
        (
            &[
                "trace",
                "gen",
                "--dataset",
                "traces/europarl-en.csv",
                "-n",
                "3",
                "--rate",
                "5",
            ],
            "chain:",
        ),
        (&["reproduce", "batchmaker", "fig5"], "figure 5"),
    ] {
        let ran = desk.run(words).ok();
        assert!(
            ran.stdout.to_lowercase().contains(&part.to_lowercase()),
            "{words:?}: {ran:?}"
        );
    }
}

/// Copying loads each scenario.
#[test]
fn scenarios_are_listed_and_copied_with_all_that_they_name() {
    let desk = Desk::new();
    let listed = desk.run(&["scenarios", "--format", "json"]).ok().results();
    let names: Vec<&str> = listed
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert!(
        names.len() >= 50 && names.contains(&"batchmaker/fig7a") && names.is_sorted(),
        "{names:?}"
    );
    assert!(
        listed
            .iter()
            .all(|one| one["about"].as_str().unwrap().len() > 15),
        "{listed:?}"
    );
    assert_eq!(
        desk.run(&["scenarios"]).ok().stdout.lines().count(),
        names.len()
    );

    let printed = desk
        .run(&[&["scenarios", "copy"], &names[..], &["new/copies"]].concat())
        .ok()
        .stdout;
    let copies = files_below(&desk.path("new/copies"));
    assert_eq!(printed.lines().count(), copies.len());
    for (name, copy) in &copies {
        assert_eq!(
            *copy,
            fs::read(Path::new(ROOT).join(name)).unwrap(),
            "{name}"
        );
    }
    for (one, name) in listed.iter().zip(&names) {
        assert!(copies.contains_key(one["file"].as_str().unwrap()), "{name}");
    }
    // Scenarios share files, so those that are there already are left as they are, unless they differ.
    let fig7a = "new/copies/scenarios/batchmaker/fig7a.toml";
    assert!(
        desk.run(&["scenarios", "copy", "fig7a", "new/copies"])
            .ok()
            .stdout
            .contains(fig7a)
    );
    desk.write(fig7a, "# mine\n");
    desk.run(&["scenarios", "copy", "fig7a", "fig7b", "new/copies"])
        .failed(
            2,
            "fig7a.toml: exists already with other contents; name another folder",
        );
    assert_eq!(fs::read_to_string(desk.path(fig7a)).unwrap(), "# mine\n");
}

/// A changed copy is what runs, from its folder and from elsewhere.
#[test]
fn a_copy_uses_its_own_files() {
    let desk = Desk::new();
    desk.run(&[
        "scenarios",
        "copy",
        "graphs/tree",
        "batchmaker/fig5",
        "mine",
    ])
    .ok();
    desk.write("mine/scenarios/costs/unit.csv", "cell,batch,ns\nlstm,1,7\n");
    let sim = |folder: &str, file: &str| {
        let out = desk.path("out");
        let mut command = desk.command(&["sim", file, "--out", out.to_str().unwrap()]);
        let ran: Ran = command
            .current_dir(desk.path(folder))
            .output()
            .unwrap()
            .into();
        assert!(!ran.ok().stderr.contains("built-in"));
        desk.column("out/fig5/Cellular batching/trace/requests.csv", "finish_ns")
    };
    let finished = sim("mine", "scenarios/batchmaker/fig5.toml");
    assert_eq!(finished[0], "56", "two steps of four cells: {finished:?}");
    assert_eq!(sim(".", "mine/scenarios/batchmaker/fig5.toml"), finished);
}

#[test]
fn names_that_mean_nothing_or_several_files_are_refused() {
    let desk = Desk::new();
    for (words, message) in [
        (
            &["sim", "fig3"][..],
            "fig3: several built-in files have this name; name one of batchmaker/fig3, late/fig3",
        ),
        (
            &["find-knee", "quikstart"],
            "quikstart: cannot be read: No such file or directory (os error 2); nothing built in",
        ),
        (
            &["profile", "--scenario", "quikstart"],
            "did you mean quickstart?; batchlab scenarios lists what is",
        ),
        (
            &["sim", "t.toml", "--set", "device.costs=traces/none.csv"],
            "no such file: traces/none.csv, nor built in",
        ),
        (
            &["network", "lenet"],
            "did you mean unet?; known: bert-base, bert-large, example, linknet",
        ),
        (
            &["scenarios", "copy", "t.toml", "/etc/hosts", "x"],
            "/etc/hosts",
        ),
    ] {
        desk.run(words).failed(2, message);
    }
}
