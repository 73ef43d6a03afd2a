//! What the gate runs: some seeds, and tests of the swarm itself.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::AtomicBool;
use std::thread;

use batchlab::error::{Error, Result};
use batchlab::policy::merged::Merged;
use batchlab::policy::registry::{Batches, Registry};
use batchlab::policy::unbatched::Unbatched;
use batchlab::policy::{Completed, Policy};
use batchlab::prelude::{Dispatch, Outcomes, PolicyKind, Request, Settings, Setup};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::faults;
use crate::search::{Counts, search};

const TESTS: [(&str, fn()); 6] = [
    (
        "swarm::random_scenarios_keep_the_laws",
        random_scenarios_keep_the_laws,
    ),
    (
        "swarm::a_policy_that_loses_requests_is_found",
        a_policy_that_loses_requests_is_found,
    ),
    (
        "swarm::a_policy_that_exceeds_its_batch_is_found",
        a_policy_that_exceeds_its_batch_is_found,
    ),
    ("swarm::each_fault_shows", faults::each_fault_shows),
    ("swarm::a_search_repeats", a_search_repeats),
    (
        "swarm::a_scenario_file_is_checked",
        a_scenario_file_is_checked,
    ),
];

/// Runs the tests whose name contains one of `names`, or all without names, side by side.
pub fn run(names: &[String]) -> Result<()> {
    let mut failed = Vec::new();
    thread::scope(|scope| {
        let mut running = Vec::new();
        for (name, test) in TESTS {
            if names.is_empty() || names.iter().any(|part| name.contains(part.as_str())) {
                running.push((name, scope.spawn(test)));
            }
        }
        for (name, test) in running {
            let outcome = test.join();
            println!(
                "test {name} ... {}",
                if outcome.is_ok() { "ok" } else { "FAILED" }
            );
            if outcome.is_err() {
                failed.push(name);
            }
        }
    });
    if failed.is_empty() {
        return Ok(());
    }
    Err(Error::failure(format!("failed: {}", failed.join(", "))))
}

/// The counts, the reports on cases that fail, and the folder with their files.
fn search_seeds(seeds: Range<u64>, registry: &Registry) -> (Counts, Vec<String>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut reports = Vec::new();
    let counts = search(
        seeds,
        registry,
        folder.path(),
        &AtomicBool::new(false),
        |text| {
            reports.push(text.replace(&folder.path().display().to_string(), "OUT"));
        },
    )
    .unwrap();
    (counts, reports, folder)
}

fn random_scenarios_keep_the_laws() {
    let (counts, reports, folder) = search_seeds(1..111, &Registry::standard());
    assert_eq!(counts.broken, 0, "{}", reports.concat());
    assert!(
        counts.refused * 4 < counts.cases && counts.runs > 200,
        "{counts}"
    );
    assert_eq!(
        folder.path().read_dir().unwrap().count(),
        0,
        "cases that pass leave nothing"
    );
}

/// Never serves every third request.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Forgetful {}

struct Forgetting {
    rest: Box<dyn Policy>,
    arrived: u32,
}

impl Settings for Forgetful {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new("forgetful", "loses every third request")
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        Ok(Box::new(Forgetting {
            rest: Unbatched {}.build(setup)?,
            arrived: 0,
        }))
    }
}

impl Policy for Forgetting {
    fn arrive(&mut self, request: &Request<'_>, outcomes: &mut Outcomes) {
        self.arrived += 1;
        if !self.arrived.is_multiple_of(3) {
            self.rest.arrive(request, outcomes);
        }
    }

    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        self.rest.complete(completed, outcomes);
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        self.rest.schedule(dispatch);
    }
}

/// Runs batches of three, and states that two are the most.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Greedy {}

impl Settings for Greedy {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new("greedy", "exceeds its batch")
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        Merged {
            max_batch: 3,
            ..Merged::default()
        }
        .build(setup)
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(2))
    }
}

/// Asserts that each case that fails breaks this law, is reduced to a few requests, and is reported in the same words
/// when the seeds are searched again.
#[track_caller]
fn assert_found(registry: &Registry, law: &str) {
    let (counts, reports, folder) = search_seeds(1..4, registry);
    assert_eq!(counts.broken as usize, reports.len());
    assert!(!reports.is_empty(), "{counts}");
    for case in folder.path().read_dir().unwrap() {
        let case = case.unwrap().path();
        let scenario = fs::read_to_string(case.join("swarm.toml")).unwrap();
        let scenario: toml::Table = scenario.parse().unwrap();
        let requests = match scenario["workload"].get("requests") {
            Some(number) => number.as_integer().unwrap(),
            None => {
                let trace = fs::read_to_string(case.join("trace.csv")).unwrap();
                trace.lines().count() as i64 - 1
            }
        };
        assert!(
            (3..=5).contains(&requests),
            "{requests} requests: {scenario}"
        );
    }
    for text in &reports {
        assert!(
            text.contains(law)
                && text.contains("repeat it with: cargo test --test swarm -- --case OUT/"),
            "{text}"
        );
    }
    let (_, again, _) = search_seeds(1..4, registry);
    assert_eq!(reports, again);
}

fn a_policy_that_loses_requests_is_found() {
    assert_found(
        &Registry::new().with::<Forgetful>(),
        ": conservation: request 2 never left",
    );
}

fn a_policy_that_exceeds_its_batch_is_found() {
    assert_found(
        &Registry::new().with::<Greedy>(),
        " has a batch of 3; at most 2",
    );
}

/// Calls this program.
fn call(options: &[&str], folder: &Path) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(options)
        .current_dir(folder)
        .output()
        .unwrap()
}

#[track_caller]
fn call_well(options: &[&str], folder: &Path) -> String {
    let output = call(options, folder);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn a_search_repeats() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--seed", "7", "--runs", "3"];
    let first = call_well(&options, folder.path());
    assert!(
        first.starts_with("3 cases, ") && first.ends_with(" runs: 0 break a law\n"),
        "{first}"
    );
    assert_eq!(first, call_well(&options, folder.path()));
}

/// Two policies, two rates, requests of four steps; a task of one takes a millisecond.
const SCENARIO: &str = r#"name = "t"
[workload]
model = "lstm"
dataset = "constant:4"
requests = 200
[arrivals]
process = "poisson"
rates = [100, 200]
[device]
costs = "costs.csv"
[[policy]]
kind = "cellular"
[[policy]]
kind = "padded"
"#;

fn a_scenario_file_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let costs = "cell,batch,ns\nlstm,1,1000000\nlstm,2,1100000\n";
    fs::write(folder.path().join("t.toml"), SCENARIO).unwrap();
    fs::write(folder.path().join("costs.csv"), costs).unwrap();
    let options = ["--case", "t.toml", "--faults", "lost,late"];
    assert_eq!(call_well(&options, folder.path()), "4 runs keep the laws\n");
    let refused = call(&["--case", "costs.csv"], folder.path());
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("not valid TOML"), "{message}");
}
