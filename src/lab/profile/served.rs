//! Requests served by the real driver with cellular batching, for the cells of trees and the time of a decision.

use std::collections::BTreeMap;
use std::slice;

use super::samples::{Kind, Timed, as_seen, costs, curve};
use super::wanted::{children, of_input};
use super::{Profile, Settings, Subject, unfolded};
use crate::base::error::{Error, Result};
use crate::base::units::{CellId, Nanos, TaskId, WorkerId};
use crate::core::cost::curve::Curve;
use crate::core::engine;
use crate::core::policy::cellular::Cellular;
use crate::core::policy::registry::{self, Setup};
use crate::core::policy::values::PerCell;
use crate::core::record::RecordOptions;
use crate::core::record::execution::Decisions;
use crate::core::record::full::FullRecord;
use crate::core::task::TaskRow;
use crate::core::workload::arrivals::{ClosedLoop, Think};
use crate::core::workload::model::{CellType, Model};
use crate::core::workload::random;
use crate::core::workload::shape::Shape;
use crate::devices::cpu::StepTime;

pub struct Served {
    pub tasks: Vec<TaskRow>,
    pub decisions: Decisions,
    /// On devices that time the steps of tasks of whole requests.
    pub steps: BTreeMap<TaskId, Vec<StepTime>>,
    /// Since the start of the profile.
    started: Nanos,
    block: u32,
}

/// Serves `clients` requests at a time.
pub fn serve(
    subject: &mut Subject<'_>,
    shapes: Vec<Shape>,
    clients: usize,
    policy: &dyn registry::Settings,
    largest: u32,
) -> Result<Served> {
    let Subject {
        wanted,
        settings: Settings { workers, .. },
        steps,
        now,
        ..
    } = *subject;
    let requests = unfolded(shapes, &wanted.model)?;
    let cells = wanted.model.cell_types();
    let setup = Setup {
        model: &wanted.model,
        cells: &cells,
        workers: *workers,
        costs: None,
        longest: None,
    };
    let mut policy = policy.build(&setup).map_err(Error::input)?;
    let mut recorder = FullRecord::new(
        requests.len(),
        *workers,
        cells.len(),
        RecordOptions {
            tasks: true,
            ..RecordOptions::default()
        },
    );
    let mut source = ClosedLoop::new(
        &requests,
        clients as u32,
        Think::Constant(Nanos::ZERO),
        &mut random::sequence(0, 0, "profile"),
    );
    let (mut backend, log) = subject.start(&requests, largest)?;
    engine::run(
        &mut source,
        &mut *policy,
        &mut *backend,
        &mut recorder,
        *workers,
        steps.stop,
    )?;
    let started = now
        .time
        .replace(now.time.get().saturating_add(backend.now()));
    if let Some((_, _, reason)) = recorder.failures.first() {
        return Err(Error::failed(format!("a measured task failed: {reason}")));
    }
    let mut steps: BTreeMap<TaskId, Vec<StepTime>> = BTreeMap::new();
    log.try_iter()
        .for_each(|step| steps.entry(step.task).or_default().push(step));
    Ok(Served {
        tasks: recorder.execution.tasks,
        decisions: recorder.execution.decisions,
        steps,
        started,
        block: now.block.get(),
    })
}

impl Served {
    /// A time that begins at this instant.
    pub fn timed(&self, start: Nanos, time: Nanos) -> Timed {
        Timed {
            time,
            at: self.started + start,
            block: self.block,
        }
    }

    /// In the order of submission, each with the task before it on its worker.
    pub fn in_turn(&self) -> impl Iterator<Item = (Option<&TaskRow>, &TaskRow)> {
        let mut last: BTreeMap<WorkerId, &TaskRow> = BTreeMap::new();
        self.tasks
            .iter()
            .map(move |task| (last.insert(task.worker, task), task))
    }
}

/// Their times grow slowly with the batch, so a few sizes suffice.
pub fn launch_batches(settings: &Settings) -> Vec<u32> {
    let [smallest, largest] =
        [settings.batches.first(), settings.batches.last()].map(|size| size.copied().unwrap_or(1));
    let fours = (0..16).map(|power| 1u32 << (2 * power));
    fours
        .filter(|batch| (smallest..largest).contains(batch))
        .chain([largest])
        .collect()
}

/// The members of all tasks of a size: more samples for small ones.
const DECIDED_MEMBERS: usize = 1024;

/// Decisions of one task each, with all requests there from the start. A GPU's launch is the time from finish to finish
/// without the step.
pub fn measure_launch(subject: &mut Subject<'_>, batch: u32, profile: &mut Profile) -> Result<()> {
    let (wanted, workers) = (subject.wanted, subject.settings.workers);
    let members = batch as usize * workers;
    let tasks = (DECIDED_MEMBERS / batch as usize).clamp(12, 120);
    let shapes = match &wanted.model {
        Model::Dnn(_) => vec![of_input(wanted.input_sizes()[0]); tasks * members],
        Model::Seq2Seq => {
            let half = tasks as u32 / 2;
            vec![
                Shape::Seq2Seq {
                    source: half,
                    target: half
                };
                members
            ]
        }
        model if model.takes_trees() => {
            let nodes = wanted.trees.iter().map(Shape::length).max().unwrap_or(1) as usize;
            let count = (tasks * members).div_ceil(nodes).max(workers);
            wanted.trees.iter().cycle().take(count).cloned().collect()
        }
        _ => vec![Shape::Chain(tasks as u32); members],
    };
    let of_cell = |cell: CellType| curve(&costs(profile.times.get(Kind::Task, &cell.name, 0)?));
    let steps: Vec<Option<Curve>> = wanted.model.cell_types().into_iter().map(of_cell).collect();
    let step = |task: &TaskRow| {
        let curve = task
            .cells
            .first()
            .and_then(|cell| steps[cell.index()].as_ref());
        curve.map_or(Nanos::ZERO, |curve| curve.at(task.batch))
    };
    let policy = Cellular {
        max_tasks: 1,
        max_batch: PerCell::All(batch),
        ..Cellular::default()
    };
    let (clients, seen) = (shapes.len(), subject.host_observed_times());
    let served = serve(subject, shapes, clients, &policy, batch)?;
    let times = profile.launches.entry(batch).or_default();
    for (before, task) in served.in_turn().filter(|(_, task)| task.batch == batch) {
        // The first task waits for all arrivals.
        let Some(before) = before else { continue };
        let start = if seen {
            task.finish.saturating_since(step(task))
        } else {
            task.start
        };
        times.add(start.saturating_since(before.finish));
    }
    profile
        .decisions
        .entry(batch)
        .or_default()
        .push(served.decisions);
    Ok(())
}

/// Nodes of each cell of trees at a batch size.
const NODES: usize = 2048;

/// The first tasks run on cold caches.
const WARM_UP: usize = 3;

/// Two for a gap between them, and no more, so that cells take turns as in service.
const HELD_TASKS: u32 = 2;

/// On a GPU the host only sees the later tasks of a decision end.
const SEEN_TASKS: u32 = 5;

/// Smaller batches occur near the roots of a few trees; a policy held to such a size would alternate between leaves and
/// internal cells.
const FEW: u32 = 16;

/// A free policy makes tasks of other sizes too, so it runs this many times the nodes.
const FREE_NODES: usize = 4;

const FREE_BATCH: u32 = 512;

/// In runs of whole trees, as the time of a node depends on where its children's states are.
pub fn measure_trees(subject: &mut Subject<'_>, batch: u32, profile: &mut Profile) -> Result<()> {
    let Subject {
        wanted,
        settings: Settings { workers, .. },
        ..
    } = *subject;
    let seen = subject.host_observed_times();
    if wanted.trees.iter().all(|tree| tree.length() == 1) {
        return Err(Error::input(
            "none of the trees has a node with children, so that no internal cell can be measured",
        ));
    }
    let held = Cellular {
        max_tasks: if seen { SEEN_TASKS } else { HELD_TASKS },
        max_batch: PerCell::All(batch),
        min_batch: PerCell::All(batch), // The later tasks of a decision are not smaller.
        ..Cellular::default()
    };
    let nodes = batch as usize * (NODES / batch as usize).clamp(16, 128) * workers;
    let mut runs = vec![serve(
        subject,
        enough(&wanted.trees, nodes),
        batch as usize * workers,
        &held,
        batch,
    )?];
    for (before, task) in runs[0].in_turn() {
        if let Some(before) = before.filter(|before| task.submit < before.finish)
            && [task.batch, before.batch] == [batch; 2]
        {
            profile
                .between
                .entry(batch)
                .or_default()
                .add(task.start.saturating_since(before.finish));
        }
    }
    if batch < FEW {
        let free = Cellular {
            max_batch: PerCell::All(FREE_BATCH),
            ..Cellular::default()
        };
        for trees in [batch, batch.div_ceil(2)] {
            let shapes = enough(&wanted.trees, FREE_NODES * nodes);
            runs.push(serve(
                subject,
                shapes,
                trees as usize * workers,
                &free,
                FREE_BATCH,
            )?);
        }
    }
    for (id, cell) in (0..).map(CellId).zip(wanted.model.cell_types()) {
        if wanted.cells.contains(&cell.name) {
            add_cell(&runs, id, &cell.name, batch, seen, profile);
        }
    }
    Ok(())
}

fn add_cell(
    runs: &[Served],
    id: CellId,
    cell: &str,
    batch: u32,
    seen: bool,
    profile: &mut Profile,
) {
    let mut found: Vec<Ran> = runs.iter().flat_map(|run| of_cell(run, id)).collect();
    // The requested batch size, unless fewer nodes are ready together.
    let size = found
        .iter()
        .map(|one| one.batch)
        .filter(|size| *size <= batch)
        .max()
        .unwrap_or(batch);
    found.retain(|one| one.batch == size);
    if seen {
        // The first of a decision waits for the host.
        profile
            .times
            .at(Kind::Task, cell, 0, size)
            .extend(as_seen(&by_decision(&found)));
        return;
    }
    for one in found {
        let kind = if one.switched {
            Kind::Switched
        } else {
            Kind::Task
        };
        profile.times.at(kind, cell, 0, size).extend([one.timed]);
    }
}

/// Tasks by their decisions, and whether the host saw each begin.
fn by_decision(found: &[Ran]) -> Vec<Vec<(Timed, bool)>> {
    let decisions = found.chunk_by(|a, b| a.decision == b.decision);
    decisions
        .map(|tasks| tasks.iter().map(|one| (one.timed, one.watched)).collect())
        .collect()
}

/// Repeats the trees until they have this many leaves and as many other nodes.
fn enough(trees: &[Shape], nodes: usize) -> Vec<Shape> {
    let (mut leaves, mut others) = (0, 0);
    let are_missing = |tree: &&Shape| {
        let missing = leaves.min(others) < nodes;
        let own = children(slice::from_ref(tree))
            .filter(|count| *count == 0)
            .count();
        (leaves, others) = (leaves + own, others + tree.length() as usize - own);
        missing
    };
    trees
        .iter()
        .cycle()
        .take_while(are_missing)
        .cloned()
        .collect()
}

#[derive(Clone, Copy)]
struct Ran {
    batch: u32,
    decision: (WorkerId, Nanos),
    /// Directly after a task of another cell on its worker.
    switched: bool,
    /// It began after the host's first look at its decision.
    watched: bool,
    timed: Timed,
}

fn of_cell(served: &Served, cell: CellId) -> Vec<Ran> {
    let mut first_looks: BTreeMap<(WorkerId, Nanos), Nanos> = BTreeMap::new();
    let mut found = Vec::new();
    for (before, task) in served.in_turn() {
        let decision = (task.worker, task.submit);
        let first_look = *first_looks.entry(decision).or_insert(task.finish);
        if task.cells[..] == [cell] {
            let switched = before.is_some_and(|before| before.cells[..] != [cell]);
            let timed = served.timed(task.start, task.finish - task.start);
            found.push(Ran {
                batch: task.batch,
                decision,
                switched,
                watched: task.start > first_look,
                timed,
            });
        }
    }
    found.drain(..WARM_UP.min(found.len().saturating_sub(1)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_looks_late_gives_no_task_a_time_of_zero() {
        let ran = |(start, finish, watched): (u64, u64, bool)| Ran {
            batch: 8,
            decision: (WorkerId(0), Nanos(start / 100)),
            switched: false,
            watched,
            timed: Timed {
                time: Nanos(finish - start),
                at: Nanos(start),
                block: 0,
            },
        };
        // The host looks after the first and the third task of a decision.
        let decision = [(0, 40, false), (40, 64, true), (64, 64, true)].map(ran);
        let next = [(100, 190, false), (190, 190, false), (190, 190, false)].map(ran);
        let times = |found: &[Ran]| {
            as_seen(&by_decision(found))
                .iter()
                .map(|one| one.time)
                .collect::<Vec<_>>()
        };
        assert_eq!(times(&[decision, next].concat()), [Nanos(12)]);
        assert_eq!(times(&next), [Nanos(30)]);
        assert!(times(&[]).is_empty());
    }
}
