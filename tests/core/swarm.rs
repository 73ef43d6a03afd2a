//! Random scenarios on devices with faults.

use std::sync::atomic::AtomicBool;

use batchlab::policy::merged::Merged;
use batchlab::policy::registry::{Batches, Registry};
use batchlab::policy::unbatched::Unbatched;
use batchlab::policy::{Completed, Policy};
use batchlab::prelude::*;
use batchlab::swarm::{Counts, search};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

/// The counts, what is told of cases that fail, and the folder of these.
fn searched(seeds: std::ops::Range<u64>, registry: &Registry) -> (Counts, Vec<String>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut told = Vec::new();
    let tell = |text: &str| {
        told.push(text.replace(&folder.path().display().to_string(), "OUT"));
        Ok(())
    };
    let counts = search(
        seeds,
        registry,
        folder.path(),
        &AtomicBool::new(false),
        tell,
    )
    .unwrap();
    (counts, told, folder)
}

#[test]
fn random_scenarios_keep_the_laws() {
    let (counts, told, folder) = searched(1..111, &Registry::standard());
    assert_eq!(counts.broken, 0, "{}", told.concat());
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

/// Has batches of three, and says two.
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

/// Asserts that each case that fails breaks this law, is reduced to a few requests, and is told of in the same words
/// when the seeds are searched again.
#[track_caller]
fn finds(registry: &Registry, law: &str) {
    let (counts, told, folder) = searched(1..4, registry);
    assert_eq!(counts.broken as usize, told.len());
    assert!(!told.is_empty(), "{counts}");
    for case in folder.path().read_dir().unwrap() {
        let read = |name: &str| std::fs::read_to_string(case.as_ref().unwrap().path().join(name));
        let scenario: toml::Table = read("swarm.toml").unwrap().parse().unwrap();
        let drawn = scenario["workload"]
            .get("requests")
            .map(|number| number.as_integer().unwrap());
        let requests =
            drawn.unwrap_or_else(|| read("trace.csv").unwrap().lines().count() as i64 - 1);
        assert!(
            (3..=5).contains(&requests),
            "{requests} requests: {scenario}"
        );
    }
    for text in &told {
        assert!(
            text.contains(law) && text.contains("repeat it with: batchlab swarm --case OUT/"),
            "{text}"
        );
    }
    assert_eq!(told, searched(1..4, registry).1);
}

#[test]
fn a_policy_that_loses_requests_is_found() {
    finds(
        &Registry::new().with::<Forgetful>(),
        ": conservation: request 2 never left",
    );
}

#[test]
fn a_policy_that_exceeds_its_batch_is_found() {
    finds(
        &Registry::new().with::<Greedy>(),
        " has a batch of 3; at most 2",
    );
}
