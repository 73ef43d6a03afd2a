//! The scenarios in the repository.

use std::path::{Path, PathBuf};

use batchlab::policy::registry::Registry;
use batchlab::scenario::Scenario;

use crate::desk::{Desk, program};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Runs a shipped scenario from the repository; results go to the desk.
fn sim(desk: &Desk, scenario: &str) -> String {
    let out = desk.path("out");
    let mut command = program();
    let output = command.current_dir(ROOT).args(["sim", scenario, "-q", "--out"]).arg(out).output().unwrap();
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
                // Device files are TOML too, but not scenarios.
                folders.extend((!path.ends_with("devices")).then_some(path));
            } else if path.extension() == Some("toml".as_ref()) {
                let scenario =
                    Scenario::load(&path, &[], &Registry::standard()).unwrap_or_else(|error| panic!("{error}"));
                assert!(!scenario.points().is_empty());
                names.push(scenario.name);
            }
        }
    }
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count, "two scenarios of one name write into one folder: {names:?}");
    assert!(count >= 10, "{names:?}");
}

#[test]
fn the_first_look_runs() {
    let desk = Desk::new();
    let text = sim(&desk, "scenarios/quickstart.toml");
    assert_eq!(text.lines().filter(|line| line.starts_with("Cellular batching")).count(), 5, "{text}");
    for figure in ["latency-throughput.svg", "latency-throughput.png", "queue-cdf.svg", "queue-cdf.png"] {
        assert!(desk.path("out/quickstart").join(figure).is_file(), "{figure}");
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
        column.iter().map(|ns| ns.parse::<f64>().unwrap() / 1e6).collect()
    };
    assert_eq!(milliseconds("Graph batching", "finish_ns"), [5.0, 5.0, 5.0, 5.0, 12.0, 12.0, 12.0, 12.0]);
    assert_eq!(milliseconds("Cellular batching", "finish_ns"), [2.0, 3.0, 3.0, 5.0, 7.0, 10.0, 6.0, 6.0]);
    assert_eq!(milliseconds("Cellular batching", "start_ns"), [0.0, 0.0, 0.0, 0.0, 2.0, 3.0, 3.0, 5.0]);
    for file in ["gantt.svg", "gantt.png", "Cellular batching/trace/timeline.json"] {
        assert!(Path::new(&desk.path("out/fig5")).join(file).is_file(), "{file}");
    }
}
