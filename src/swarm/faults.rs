//! A simulated device with faults, drawn from the scenario's seed. They reach policies and the recorder as those of real
//! backends do: the tasks of a failed request complete, and the request has no result when it leaves.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use rand::RngExt as _;

use crate::base::units::{CellId, Nanos, RequestId, Share, TaskId, WorkerId};
use crate::core::backend::Backend;
use crate::core::cost::timing::{Start, Timing};
use crate::core::cost::transfer::Transfers;
use crate::core::sim;
use crate::core::task::{Completion, MemberList, Task};
use crate::core::workload::random::RandomSequence;
use crate::lab::run::executor::{Simulation, Simulator};

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

/// A run with more events has no end.
const MOST_EVENTS: u64 = 2_000_000;

/// A simulator whose device has these faults.
#[derive(Debug)]
pub(super) struct Faulty(pub Vec<Fault>);

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
        let delay = self
            .0
            .contains(&Fault::Late)
            .then(|| Nanos(random.random_range(1..5_000)));
        let timing = Faults {
            costs,
            faults: self.0.clone(),
            delay: delay.unwrap_or_default(),
            slower: vec![Some(1); workers],
            last: BTreeMap::new(),
            failed: Rc::clone(&failed),
            random,
        };
        Box::new(Failing {
            device: sim::device(workers, streams, timing),
            failed,
            events: 0,
        })
    }
}

/// The requests that have no result, and why.
type Failed = Rc<RefCell<BTreeMap<RequestId, String>>>;

struct Faults {
    costs: Transfers,
    faults: Vec<Fault>,
    delay: Nanos,
    /// By which factor each worker is slower; `None` if it is lost.
    slower: Vec<Option<u64>>,
    /// Where each request ran last, and so where its states are.
    last: BTreeMap<RequestId, WorkerId>,
    failed: Failed,
    random: RandomSequence,
}

impl Faults {
    /// About one in `tasks`.
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
        let requests: Vec<RequestId> = MemberList::of(task, None).requests().collect();
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
            self.events < MOST_EVENTS,
            "liveness: the run has no end after {MOST_EVENTS} events"
        );
        self.device.wait(until)
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        self.device.batches(cell)
    }

    fn failure(&mut self, request: RequestId) -> Option<String> {
        self.failed.borrow_mut().remove(&request)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    use clap::ValueEnum as _;

    use super::*;
    use crate::core::metrics::recorder::{Keep, Recorder};
    use crate::core::policy::registry::Registry;
    use crate::lab::run::executor::Target;
    use crate::lab::run::{Run, prepare};
    use crate::lab::scenario::Scenario;

    fn served(faults: &[Fault]) -> Recorder {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/quickstart.toml");
        let scenario = Scenario::load(
            &file,
            &["workload.requests=200".into()],
            &Registry::standard(),
        )
        .unwrap();
        let target = Target::Simulated(Box::leak(Box::new(Faulty(faults.to_vec()))));
        let (inputs, device) = prepare(&scenario, target).unwrap();
        let run = Run {
            policy: 0,
            load: scenario.points()[0],
            replication: 0,
        };
        device
            .run(&inputs, &run, Keep::default(), &AtomicBool::new(false))
            .unwrap()
            .record
    }

    #[test]
    fn each_fault_shows() {
        let well = served(&[]);
        assert!(well.failures.is_empty());
        for fault in Fault::value_variants() {
            let record = served(&[*fault]);
            let why = |reason: &str| {
                record
                    .failures
                    .iter()
                    .filter(|(.., why)| why == reason)
                    .count()
            };
            let all: usize = match fault {
                Fault::Lost => why("its worker was lost") + why("its worker was lost before"),
                Fault::NonFinite => why("its result is NaN"),
                Fault::Refused => why("its task was not launched"),
                Fault::Slow | Fault::Stall => {
                    usize::from(record.busy[0] > Nanos(2 * well.busy[0].0))
                }
                Fault::Late => usize::from(
                    record
                        .start
                        .iter()
                        .zip(&well.start)
                        .any(|(late, well)| late > well),
                ),
            };
            assert!(all > 0, "{fault:?}");
            let failing = [Fault::Lost, Fault::NonFinite, Fault::Refused].contains(fault);
            assert_eq!(
                record.failures.len(),
                if failing { all } else { 0 },
                "{fault:?}"
            );
        }
    }
}
