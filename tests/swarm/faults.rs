//! A simulated device with faults, which are drawn from the scenario's seed. Faults reach policies and the recorder as
//! those of real backends do: the tasks of a failed request complete, and the request has no result when it leaves.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use batchlab::backend::Backend;
use batchlab::cost::task_times::TaskTimes;
use batchlab::cost::timing::{Start, Timing};
use batchlab::policy::registry::Registry;
use batchlab::record::RecordOptions;
use batchlab::record::full::FullRecord;
use batchlab::run::executor::{SelectedBackend, Simulation, Simulator};
use batchlab::run::{Run, prepare};
use batchlab::scenario::Scenario;
use batchlab::sim;
use batchlab::task::{Completion, DecodeTask, MemberList, Members, NextDecode, Task};
use batchlab::units::{CellId, Nanos, RequestId, Share, TaskId, WorkerId};
use batchlab::workload::random::RandomSequence;
use clap::ValueEnum as _;
use rand::RngExt as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Fault {
    /// A worker is lost while it runs a task
    Lost,
    /// A worker becomes slower
    Slow,
    /// A task takes far longer
    Stall,
    /// Completions are reported late
    Late,
    /// A result is NaN or infinity
    NonFinite,
    /// A task is not launched
    Refused,
}

/// A run with more events than this is assumed never to end.
const MAX_EVENTS: u64 = 2_000_000;

/// A simulator whose device has these faults.
#[derive(Debug)]
pub struct Faulty(pub Vec<Fault>);

impl Simulator for Faulty {
    fn name(&self) -> &'static str {
        "swarm"
    }

    fn about(&self) -> &'static str {
        "As sim, with faults"
    }

    fn start(
        &self,
        Simulation {
            workers,
            streams,
            costs,
            mut random,
        }: Simulation,
    ) -> Box<dyn Backend> {
        let failed: Failed = Rc::default();
        let delay = if self.0.contains(&Fault::Late) {
            Nanos(random.random_range(1..5_000))
        } else {
            Nanos::ZERO
        };
        let timing = Faults {
            costs,
            faults: self.0.clone(),
            delay,
            slower: vec![Some(1); workers],
            last: BTreeMap::new(),
            failed: Rc::clone(&failed),
            random,
        };
        Box::new(Failing {
            device: sim::backend(workers, streams, timing),
            failed,
            events: 0,
        })
    }
}

/// The requests that have no result, with the reasons.
type Failed = Rc<RefCell<BTreeMap<RequestId, String>>>;

struct Faults {
    costs: TaskTimes,
    faults: Vec<Fault>,
    delay: Nanos,
    /// The factor by which each worker is slower, or `None` if the worker is lost.
    slower: Vec<Option<u64>>,
    /// The worker on which each request ran last, and which has its states.
    last: BTreeMap<RequestId, WorkerId>,
    failed: Failed,
    random: RandomSequence,
}

impl Faults {
    /// Draws whether the fault happens to this task: to about one in `tasks`.
    fn happens(&mut self, fault: Fault, tasks: u32) -> bool {
        self.faults.contains(&fault) && self.random.random_range(0..tasks) == 0
    }

    fn fail(&self, requests: &[RequestId], why: &str) {
        let mut failed = self.failed.borrow_mut();
        for request in requests {
            failed.entry(*request).or_insert_with(|| why.into());
        }
    }
}

impl Timing for Faults {
    fn start(&mut self, task: &Task<'_>, submit: Nanos, idle: bool) -> Start {
        self.costs.start(task, submit, idle)
    }

    fn duration(&mut self, task: &Task<'_>, before: Option<CellId>) -> Nanos {
        let cost = self.costs.duration(task, before);
        let requests = requests_of(task);
        let worker = task.worker.index();
        let Some(slower) = self.slower[worker] else {
            self.fail(&requests, "its worker was lost before");
            return Nanos::ZERO;
        };
        self.last
            .extend(requests.iter().map(|request| (*request, task.worker)));
        if self.happens(Fault::Refused, 8) {
            self.fail(&requests, "its task was not launched");
            return Nanos::ZERO;
        }
        if self.happens(Fault::NonFinite, 8) {
            self.fail(&requests[..requests.len().min(1)], "its result is NaN");
        }
        if self.happens(Fault::Lost, 12) {
            self.slower[worker] = None;
            let held = self
                .last
                .iter()
                .filter(|(_, on)| **on == task.worker)
                .map(|(request, _)| *request);
            self.fail(&held.collect::<Vec<_>>(), "its worker was lost");
            return Nanos(self.random.random_range(0..=cost.0));
        }
        if self.happens(Fault::Slow, 12) {
            self.slower[worker] = Some(self.random.random_range(2..50));
        }
        let stall = if self.happens(Fault::Stall, 20) {
            self.random.random_range(0..1_000_000_000_000)
        } else {
            0
        };
        cost.saturating_mul(slower).saturating_add(Nanos(stall))
    }

    fn demand(&mut self, task: &Task<'_>) -> Share {
        Timing::demand(&mut self.costs, task)
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        Timing::batches(&self.costs, cell)
    }

    fn completion_delay(&mut self) -> Nanos {
        self.delay
    }
}

/// The requests of a task's members; one may occur several times.
fn requests_of(task: &Task<'_>) -> Vec<RequestId> {
    match task.members {
        Members::Requests | Members::Operators(_) => task.requests.to_vec(),
        Members::Nodes(list) => {
            let mut nodes = Vec::new();
            list(&mut nodes);
            nodes.iter().map(|node| node.request).collect()
        }
        Members::Parts(list) => {
            let mut parts = Vec::new();
            list(&mut parts);
            parts.iter().map(|part| part.request).collect()
        }
    }
}

struct Failing {
    device: Box<dyn Backend>,
    failed: Failed,
    events: u64,
}

impl Backend for Failing {
    fn now(&self) -> Nanos {
        self.device.now()
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>, members: Option<MemberList>) {
        self.device.submit(id, task, members);
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        self.events += 1;
        assert!(
            self.events < MAX_EVENTS,
            "liveness: the run has no end after {MAX_EVENTS} events"
        );
        self.device.wait(until)
    }

    fn next_completion(&self) -> Option<Nanos> {
        self.device.next_completion()
    }

    fn repeat(
        &mut self,
        task: DecodeTask,
        follow: &mut dyn FnMut(&Completion, Nanos) -> Option<NextDecode>,
    ) {
        self.device.repeat(task, follow);
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        self.device.batches(cell)
    }

    fn failure(&mut self, request: RequestId) -> Option<String> {
        self.failed.borrow_mut().remove(&request)
    }
}

/// Runs 200 requests on a device with these faults.
fn run_with(faults: &[Fault]) -> FullRecord {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/quickstart.toml");
    let scenario = Scenario::load(
        &file,
        &["workload.requests=200".into()],
        &Registry::standard(),
    )
    .unwrap();
    let target = SelectedBackend::Simulated(Box::leak(Box::new(Faulty(faults.to_vec()))));
    let (inputs, device) = prepare(&scenario, target).unwrap();
    let run = Run {
        policy: 0,
        load: scenario.points()[0],
        replication: 0,
    };
    device
        .execute(
            &inputs,
            &run,
            RecordOptions::default(),
            &AtomicBool::new(false),
        )
        .unwrap()
        .record
}

fn count_failures(record: &FullRecord, reason: &str) -> usize {
    let failures = record.failures.iter();
    failures.filter(|(.., why)| why == reason).count()
}

/// A test that the gate runs.
pub fn each_fault_shows() {
    let without_faults = run_with(&[]);
    assert!(without_faults.failures.is_empty());
    for fault in Fault::value_variants() {
        let record = run_with(&[*fault]);
        let failures = match fault {
            Fault::Lost => {
                count_failures(&record, "its worker was lost")
                    + count_failures(&record, "its worker was lost before")
            }
            Fault::NonFinite => count_failures(&record, "its result is NaN"),
            Fault::Refused => count_failures(&record, "its task was not launched"),
            Fault::Slow | Fault::Stall | Fault::Late => 0,
        };
        let shows = match fault {
            Fault::Lost | Fault::NonFinite | Fault::Refused => failures > 0,
            Fault::Slow | Fault::Stall => {
                record.execution.busy[0] > Nanos(2 * without_faults.execution.busy[0].0)
            }
            Fault::Late => {
                let mut starts = record.start.iter().zip(&without_faults.start);
                starts.any(|(late, usual)| late > usual)
            }
        };
        assert!(shows, "{fault:?}");
        assert_eq!(record.failures.len(), failures, "{fault:?}");
    }
}
