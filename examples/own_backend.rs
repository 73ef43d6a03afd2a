//! A backend of your own, outside of the crate: the simulated device with random delays.
//!
//! Adding it to the executors makes it a value of `sim --backend`:
//!
//!     cargo run --release --example own_backend -- sim examples/own_backend.toml --backend jitter
//!
//! An executor that computes implements [`batchlab::run::executor::Executor`] and joins `real --backend` with
//! [`Executors::with`].

use std::process::ExitCode;

use batchlab::backend::Backend;
use batchlab::cost::task_times::TaskTimes;
use batchlab::cost::timing::{Start, Timing};
use batchlab::policy::registry::Registry;
use batchlab::run::executor::{Executors, Simulation, Simulator};
use batchlab::sim;
use batchlab::task::Task;
use batchlab::units::{CellId, Nanos, Share};
use batchlab::workload::random::RandomSequence;
use rand::RngExt as _;

fn main() -> ExitCode {
    batchlab::cli::main_with(
        &Registry::standard(),
        &Executors::standard().with_simulator(&Jitter { share: 0.2 }),
    )
}

/// Each task takes longer than its cost by a random share, uniform from 0 up to `share`.
#[derive(Debug)]
struct Jitter {
    share: f64,
}

impl Simulator for Jitter {
    fn name(&self) -> &'static str {
        "jitter"
    }

    fn about(&self) -> &'static str {
        "As sim, but each task takes up to 20 % longer"
    }

    fn start(&self, simulation: Simulation) -> Box<dyn Backend> {
        let Simulation {
            workers,
            streams,
            costs,
            random,
        } = simulation;
        sim::backend(
            workers,
            streams,
            Jittered {
                costs,
                share: self.share,
                random,
            },
        )
    }
}

/// The costs of the simulated device, with jitter. The stream is seeded, so a run repeats to the byte.
struct Jittered {
    costs: TaskTimes,
    share: f64,
    random: RandomSequence,
}

impl Timing for Jittered {
    fn start(&mut self, task: &Task<'_>, submit: Nanos, idle: bool) -> Start {
        self.costs.start(task, submit, idle)
    }

    fn duration(&mut self, task: &Task<'_>, before: Option<CellId>) -> Nanos {
        let cost = self.costs.duration(task, before);
        let delay = cost.0 as f64 * self.share * self.random.random::<f64>();
        cost.saturating_add(Nanos(delay as u64))
    }

    fn disturb(&mut self, time: Nanos, start: Nanos) -> Nanos {
        self.costs.disturb(time, start)
    }

    fn demand(&mut self, task: &Task<'_>) -> Share {
        Timing::demand(&mut self.costs, task)
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        Timing::batches(&self.costs, cell)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    use batchlab::record::RecordOptions;
    use batchlab::record::full::FullRecord;
    use batchlab::results::write;
    use batchlab::run::executor::SelectedBackend;
    use batchlab::run::{Run, prepare};
    use batchlab::scenario::Scenario;
    use batchlab::summary::laws;
    use batchlab::workload::model::Model;

    use super::*;

    /// The records of all policies at the highest load.
    fn records(target: SelectedBackend) -> Vec<FullRecord> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/own_backend.toml");
        let scenario = Scenario::load(
            &file,
            &["workload.requests=300".into()],
            &Registry::standard(),
        )
        .unwrap();
        let (inputs, device) = prepare(&scenario, target).unwrap();
        let load = *scenario.points().last().unwrap();
        let keep = RecordOptions {
            tasks: true,
            ..RecordOptions::default()
        };
        let run = |policy| {
            device
                .execute(
                    &inputs,
                    &Run {
                        policy,
                        load,
                        replication: 0,
                    },
                    keep,
                    &AtomicBool::new(false),
                )
                .unwrap()
                .record
        };
        (0..scenario.policies.len()).map(run).collect()
    }

    /// The logs as they are written.
    fn tables(record: &FullRecord) -> [Vec<u8>; 2] {
        let (mut requests, mut tasks) = (Vec::new(), Vec::new());
        write::write_requests(&mut requests, record, 0).unwrap();
        write::write_tasks(&mut tasks, &record.execution, &Model::Lstm.cell_types()).unwrap();
        [requests, tasks]
    }

    #[test]
    fn jitter_keeps_the_laws_and_without_jitter_nothing_changes() {
        let exact = records(SelectedBackend::SIM);
        let none = records(SelectedBackend::Simulated(&Jitter { share: 0.0 }));
        let jittered = records(SelectedBackend::Simulated(&Jitter { share: 0.2 }));
        for ((exact, none), jittered) in exact.iter().zip(&none).zip(&jittered) {
            assert_eq!(tables(exact), tables(none));
            assert_ne!(tables(exact), tables(jittered));
            assert!(jittered.finish.iter().max() > exact.finish.iter().max());
            laws::causality(jittered).unwrap();
            laws::littles_law(jittered).unwrap();
            laws::busy_is_covered_by_tasks(jittered).unwrap();
        }
    }
}
