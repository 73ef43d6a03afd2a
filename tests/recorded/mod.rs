//! Recordings as a real machine would make them: on a clock that goes on while one looks at it, with durations that vary,
//! wake-ups that are late and completions that are told late and in bunches.

#![allow(dead_code)] // each test uses a part of it

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use batchlab::backend::Backend;
use batchlab::cost::table::TableCosts;
use batchlab::cost::{CostModel, Extra};
use batchlab::run::executor::SelectedBackend;
use batchlab::run::{self, Run, RunOptions};

use batchlab::policy::registry::Registry;
use batchlab::record::RecordOptions;
use batchlab::record::full::FullRecord;
use batchlab::results::write;
use batchlab::scenario::Scenario;
use batchlab::summary::summarize;
use batchlab::task::{Completion, MemberList, Step, Task};
use batchlab::units::{CellId, Nanos, RequestId, TaskId};
use batchlab::workload::random::{self, RandomSequence};
use rand::RngExt as _;

/// How a machine differs from its cost table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quirks {
    /// A duration is up to this share longer.
    pub spread: f64,
    /// From a submission to the start on an idle worker, at most; half of it at least.
    pub launch: u64,
    /// How late a completion is told, at most.
    pub notice: u64,
    /// How late the driver wakes up for an arrival, at most; half of it at least.
    pub oversleep: u64,
    /// A cell that takes twice as long.
    pub slow: Option<CellId>,
    /// What the clock goes on with each look at it.
    pub tick: u64,
    /// The user stops the run after this number of waits.
    pub stop_after: Option<u64>,
    /// A request that leaves without a result.
    pub failing: Option<RequestId>,
}

/// Everything at once.
pub const RESTLESS: Quirks = Quirks {
    spread: 0.6,
    launch: 60_000,
    notice: 300_000,
    oversleep: 400_000,
    slow: None,
    tick: 150,
    stop_after: None,
    failing: None,
};

/// Workers on a clock of their own.
pub struct Machine<'a> {
    costs: TableCosts,
    quirks: Quirks,
    rng: RandomSequence,
    now: Cell<u64>,
    free: Vec<u64>,
    /// When each is told, the task, its start and its finish.
    done: BinaryHeap<Reverse<(u64, u64, u64, u64)>>,
    waits: u64,
    stop: &'a AtomicBool,
}

impl<'a> Machine<'a> {
    pub fn new(workers: usize, costs: TableCosts, quirks: Quirks, stop: &'a AtomicBool) -> Self {
        let rng = random::sequence(7, 0, "machine");
        Machine {
            costs,
            quirks,
            rng,
            now: Cell::new(0),
            free: vec![0; workers],
            done: BinaryHeap::new(),
            waits: 0,
            stop,
        }
    }

    /// Between half of `most` and all of it.
    fn late(&mut self, most: u64) -> u64 {
        self.rng.random_range(most / 2..=most)
    }

    fn tell(&mut self) -> Option<Completion> {
        let Reverse((_, task, start, finish)) = self.done.pop()?;
        Some(Completion {
            task: TaskId(task),
            start: Nanos(start),
            finish: Nanos(finish),
        })
    }
}

impl Backend for Machine<'_> {
    fn now(&self) -> Nanos {
        self.now.set(self.now.get() + self.quirks.tick);
        Nanos(self.now.get())
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>, _: Option<MemberList>) {
        self.now.set(self.now.get() + self.quirks.tick);
        let cell = |step: &Step| {
            let slower = if self.quirks.slow == Some(step.cell) {
                2
            } else {
                1
            };
            self.costs.cell(step).0 * u64::from(step.times) * slower
        };
        let cells: u64 = task.steps.iter().map(cell).sum();
        let gather = if task.gather {
            self.costs.extra(Extra::Gather, task.batch).0
        } else {
            0
        };
        let duration = cells + gather + self.costs.extra(Extra::Task, task.batch).0;
        let longer = (duration as f64 * self.rng.random_range(0.0..=self.quirks.spread)) as u64;
        let start =
            (self.now.get() + self.late(self.quirks.launch)).max(self.free[task.worker.index()]);
        let finish = start + duration + longer;
        self.free[task.worker.index()] = finish;
        let told = finish + self.rng.random_range(0..=self.quirks.notice);
        self.done.push(Reverse((told, id.0, start, finish)));
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        self.waits += 1;
        if self
            .quirks
            .stop_after
            .is_some_and(|waits| self.waits > waits)
        {
            self.stop.store(true, Ordering::Relaxed);
        }
        let now = self.now.get();
        let due = self.done.peek().map(|Reverse((told, ..))| *told);
        if due.is_some_and(|due| due <= now) {
            return self.tell();
        }
        let (due, until) = (
            due.unwrap_or(u64::MAX),
            until.map_or(u64::MAX, |until| until.0),
        );
        let wake = due.min(until);
        if wake == u64::MAX || wake <= now {
            return None;
        }
        let late = self.late(self.quirks.oversleep);
        let until = until.saturating_add(late);
        if due <= until {
            self.now.set(due);
            return self.tell();
        }
        // Sometimes it comes back early, as a backend that looks after its user does.
        let early = self.quirks.oversleep > 0 && self.rng.random_range(0..40) == 0;
        self.now
            .set(if early { now + (wake - now) / 2 } else { until });
        None
    }

    fn failure(&mut self, request: RequestId) -> Option<String> {
        (self.quirks.failing == Some(request)).then(|| "it was not to be".into())
    }
}

/// Runs every point of a scenario on such a machine, and gives the folder of the results.
pub fn record(scenario: &Path, out: &Path, quirks: Quirks) -> PathBuf {
    record_with(scenario, out, quirks, &|_, _| {})
}

/// As [`record()`]; `look` sees each record.
pub fn record_with(
    scenario: &Path,
    out: &Path,
    quirks: Quirks,
    look: &dyn Fn(&Run, &FullRecord),
) -> PathBuf {
    let scenario =
        Scenario::load(scenario, &[], &Registry::standard()).expect("the scenario is sound");
    let options = RunOptions {
        backend: SelectedBackend::SIM,
        out: out.to_path_buf(),
        replications: 1,
        resume: false,
        shard: None,
    };
    // For the files beside the logs of the points.
    let report =
        run::run(&scenario, &options, &AtomicBool::new(false), &|| {}).expect("the scenario runs");
    let (inputs, device) =
        run::prepare(&scenario, SelectedBackend::SIM).expect("the scenario is sound");
    for policy in 0..scenario.policies.len() {
        for load in scenario.points() {
            let run = Run {
                policy,
                load,
                replication: 0,
            };
            let stop = AtomicBool::new(false);
            let costs = device.costs(policy).expect("it is simulated").clone();
            let mut machine = Machine::new(inputs.workers(), costs, quirks, &stop);
            let keep = RecordOptions {
                tasks: true,
                rounds: true,
                ..RecordOptions::default()
            };
            let mut prepared = inputs.prepare(&run, keep).expect("requests can be drawn");
            let finished = prepared.serve(&mut machine, &stop).is_ok();
            let record = prepared.record;
            assert_eq!(finished, quirks.stop_after.is_none());
            look(&run, &record);
            let folder = report.folder.point(&run);
            let warmup = summarize(&record, &inputs.measure(load)).warmup;
            let log =
                |name: &str| File::create(folder.join(name)).expect("the folder can be written");
            write::write_requests(&mut log("requests.csv"), &record, warmup)
                .expect("the folder can be written");
            write::write_tasks(&mut log("tasks.csv"), &record.execution, &inputs.steps)
                .expect("the folder can be written");
            write::write_rounds(&folder.join("rounds.csv"), &record.execution)
                .expect("the folder can be written");
            if !finished {
                std::fs::remove_file(folder.join("point.json")).expect("it was there");
            }
            let failures: String = record
                .failures
                .iter()
                .map(|(id, at, reason)| format!("{id},{},{reason}\n", at.0))
                .collect();
            if !failures.is_empty() {
                let text = format!("id,at_ns,reason\n{failures}");
                std::fs::write(folder.join("failures.csv"), text)
                    .expect("the folder can be written");
            }
        }
    }
    report.folder.path.to_path_buf()
}
