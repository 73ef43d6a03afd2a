//! Requests that the engine serves with cellular batching, for the cells of trees and the time of a decision.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::slice;

use super::samples::{TaskKind, TimedTask, as_seen, costs, curve};
use super::targets::{children, shape_with_input};
use super::{NetworkProfile, ProfileSettings, ProfileSubject, build_requests};
use crate::base::error::{Error, Result};
use crate::base::units::{CellId, Nanos, TaskId, WorkerId};
use crate::core::backend::Backend;
use crate::core::backend::watcher::{Watch, WatchedBackend, Watcher};
use crate::core::cost::curve::Curve;
use crate::core::engine;
use crate::core::policy::cellular::Cellular;
use crate::core::policy::registry::{self, Setup};
use crate::core::policy::values::PerCell;
use crate::core::record::RecordOptions;
use crate::core::record::execution::Decisions;
use crate::core::record::full::FullRecord;
use crate::core::task::{MemberList, Step, Task, TaskRow};
use crate::core::workload::arrivals::{ClosedLoop, Think};
use crate::core::workload::model::Model;
use crate::core::workload::random;
use crate::core::workload::shape::Shape;
use crate::devices::cpu::StepTime;

/// A run in which requests were served.
pub struct ServiceRun {
    pub tasks: Vec<TaskRow>,
    pub decisions: Decisions,
    /// The steps of tasks of whole requests, on devices that time them.
    pub steps: BTreeMap<TaskId, Vec<StepTime>>,
    /// When the run started, since the start of the profile.
    started: Nanos,
    block: u32,
}

/// A start on an idle worker.
#[derive(Clone, Copy, Debug)]
pub struct WatchedStart {
    /// When the task before had ended.
    pub due: Nanos,
    /// The time since the start before this one was due.
    pub since: Nanos,
    /// The time from then to the task's start, or on a GPU to its end, because the host does not see it start.
    pub took: Nanos,
}

/// The steps of a task, and the host's time to queue them.
pub struct QueuedSteps {
    pub steps: Vec<Step>,
    pub host: Nanos,
}

/// Serves requests, `clients` at a time.
pub fn serve(
    subject: &mut ProfileSubject<'_>,
    shapes: Vec<Shape>,
    clients: usize,
    policy: &dyn registry::Settings,
    largest: u32,
) -> Result<ServiceRun> {
    run(subject, shapes, clients, policy, largest, None)
}

/// Serves requests as [`serve`] does, and notes each task's steps and the host's time to queue them.
pub fn serve_watched(
    subject: &mut ProfileSubject<'_>,
    shapes: Vec<Shape>,
    clients: usize,
    policy: &dyn registry::Settings,
    largest: u32,
) -> Result<(ServiceRun, BTreeMap<TaskId, QueuedSteps>)> {
    let noted: RefCell<BTreeMap<TaskId, QueuedSteps>> = RefCell::default();
    let mut see = |id: TaskId, task: &Task<'_>, _: Option<&MemberList>| {
        let queued = QueuedSteps {
            steps: task.steps.to_vec(),
            host: Nanos::ZERO,
        };
        noted.borrow_mut().insert(id, queued);
    };
    let mut queued = |id: TaskId, host: Nanos| {
        if let Some(task) = noted.borrow_mut().get_mut(&id) {
            task.host = host;
        }
    };
    let watcher = Watcher {
        watch: Watch::default(),
        see: &mut see,
        queued: Some(&mut queued),
    };
    let served = run(subject, shapes, clients, policy, largest, Some(watcher))?;
    Ok((served, noted.into_inner()))
}

fn run(
    subject: &mut ProfileSubject<'_>,
    shapes: Vec<Shape>,
    clients: usize,
    policy: &dyn registry::Settings,
    largest: u32,
    watcher: Option<Watcher<'_>>,
) -> Result<ServiceRun> {
    let ProfileSubject {
        wanted,
        settings: ProfileSettings { workers, .. },
        steps,
        now,
        ..
    } = *subject;
    let requests = build_requests(shapes, &wanted.model)?;
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
            all_decisions: true,
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
    let mut watched;
    let backend_of_run: &mut dyn Backend = match watcher {
        Some(watcher) => {
            watched = WatchedBackend {
                backend: &mut *backend,
                watcher,
            };
            &mut watched
        }
        None => &mut *backend,
    };
    engine::run(
        &mut source,
        &mut *policy,
        backend_of_run,
        &mut recorder,
        *workers,
        steps.stop,
    )?;
    let started = now
        .time
        .replace(now.time.get().saturating_add(backend.now()));
    if let Some((_, _, reason)) = recorder.failures.first() {
        return Err(Error::failure(format!("a measured task failed: {reason}")));
    }
    let mut steps: BTreeMap<TaskId, Vec<StepTime>> = BTreeMap::new();
    for step in log.try_iter() {
        steps.entry(step.task).or_default().push(step);
    }
    Ok(ServiceRun {
        tasks: recorder.execution.tasks,
        decisions: recorder.execution.decisions,
        steps,
        started,
        block: now.block.get(),
    })
}

impl ServiceRun {
    /// A measured time of a task that began at this instant of the run.
    pub fn timed_task(&self, start: Nanos, time: Nanos) -> TimedTask {
        TimedTask {
            time,
            at: self.started + start,
            block: self.block,
        }
    }

    /// The tasks of the first worker that were submitted to it while it was idle, and their starts. `seen` means that the
    /// host sees only the ends of tasks.
    pub fn starts(&self, seen: bool) -> Vec<(&TaskRow, WatchedStart)> {
        let mut found = Vec::new();
        let mut last = None;
        for (before, task) in self.submission_order() {
            let Some(before) = before.filter(|before| before.finish <= task.submit) else {
                continue;
            };
            if task.worker != WorkerId(0) {
                continue;
            }
            let due = before.finish;
            let known = if seen { task.finish } else { task.start };
            // The first one also warms up.
            if let Some(last) = last.replace(due) {
                let start = WatchedStart {
                    due: self.started + due,
                    since: due.saturating_since(last),
                    took: known.saturating_since(due),
                };
                found.push((task, start));
            }
        }
        found
    }

    /// The tasks in the order of submission, each with the task before it on its worker.
    pub fn submission_order(&self) -> impl Iterator<Item = (Option<&TaskRow>, &TaskRow)> {
        let mut last: BTreeMap<WorkerId, &TaskRow> = BTreeMap::new();
        self.tasks
            .iter()
            .map(move |task| (last.insert(task.worker, task), task))
    }
}

/// The batch sizes whose launches are measured. Launches grow slowly with the batch, so a few sizes suffice.
pub fn launch_batches(batches: &[u32]) -> Vec<u32> {
    let [smallest, largest] =
        [batches.first(), batches.last()].map(|size| size.copied().unwrap_or(1));
    let fours = (0..16).map(|power| 1u32 << (2 * power));
    fours
        .filter(|batch| (smallest..largest).contains(batch))
        .chain([largest])
        .collect()
}

/// The number of members of all tasks of a size, so that small sizes have more samples.
const DECIDED_MEMBERS: usize = 1024;

/// Serves requests in about this many tasks for each worker, decided one by one. All requests arrive at the start.
pub fn serve_tasks(
    subject: &mut ProfileSubject<'_>,
    batch: u32,
    tasks: usize,
) -> Result<ServiceRun> {
    let wanted = subject.wanted;
    let workers = subject.settings.workers;
    let members = batch as usize * workers;
    let shapes = match &wanted.model {
        Model::Dnn(_) => vec![shape_with_input(wanted.input_sizes()[0]); tasks * members],
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
    let policy = Cellular {
        max_tasks: 1,
        max_batch: PerCell::All(batch),
        batch_sizes: wanted.batch_sizes(),
        ..Cellular::default()
    };
    let clients = shapes.len();
    serve(subject, shapes, clients, &policy, batch)
}

/// Measures decisions of one task each. A GPU's launch is the time from finish to finish without the step.
pub fn measure_launch(
    subject: &mut ProfileSubject<'_>,
    batch: u32,
    profile: &mut NetworkProfile,
) -> Result<()> {
    let tasks = (DECIDED_MEMBERS / batch as usize).clamp(12, 120);
    let steps: Vec<Option<Curve>> = subject
        .wanted
        .model
        .cell_types()
        .iter()
        .map(|cell| curve(&costs(profile.times.get(TaskKind::Task, &cell.name, 0)?)))
        .collect();
    let seen = subject.host_observed_times();
    let served = serve_tasks(subject, batch, tasks)?;
    let times = profile.launches.entry(batch).or_default();
    for (before, task) in served
        .submission_order()
        .filter(|(_, task)| task.batch == batch)
    {
        // The first task waits for all arrivals.
        let Some(before) = before else { continue };
        let start = if seen {
            let cell = task.cells.first();
            let step = cell.and_then(|cell| steps[cell.index()].as_ref());
            let step = step.map_or(Nanos::ZERO, |step| step.time(task.batch));
            task.finish.saturating_since(step)
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

/// The nodes of each cell of trees that are measured at a batch size.
const NODES: usize = 2048;

/// The first tasks, which run on cold caches and do not count.
const WARM_UP: usize = 3;

/// The tasks of a decision: two, for a gap between them, and no more, so that cells alternate as in service.
const HELD_TASKS: u32 = 2;

/// The tasks of a decision on a GPU, where the host only sees the later ones end.
const SEEN_TASKS: u32 = 5;

/// The smallest batch size to which a policy is held. Smaller batches occur near the roots of a few trees; a policy
/// that is held to such a size would alternate between leaves and internal cells.
const FEW: u32 = 16;

/// A free policy runs this many times the nodes, because it also makes tasks of other sizes.
const FREE_NODES: usize = 4;

/// The largest batch of a free policy.
const FREE_BATCH: u32 = 512;

/// Measures the cells of trees in runs of whole trees, because the time of a node depends on where its children's
/// states are.
pub fn measure_trees(
    subject: &mut ProfileSubject<'_>,
    batch: u32,
    profile: &mut NetworkProfile,
) -> Result<()> {
    let ProfileSubject {
        wanted,
        settings: ProfileSettings { workers, .. },
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
        // The later tasks of a decision are not smaller.
        min_batch: PerCell::All(batch),
        batch_sizes: wanted.batch_sizes(),
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
    for (before, task) in runs[0].submission_order() {
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
        let largest = wanted.supported.last();
        let free_batch = largest.map_or(FREE_BATCH, |largest| FREE_BATCH.min(*largest));
        let free = Cellular {
            max_batch: PerCell::All(free_batch),
            batch_sizes: wanted.batch_sizes(),
            ..Cellular::default()
        };
        for trees in [batch, batch.div_ceil(2)] {
            let shapes = enough(&wanted.trees, FREE_NODES * nodes);
            runs.push(serve(
                subject,
                shapes,
                trees as usize * workers,
                &free,
                free_batch,
            )?);
        }
    }
    for (id, cell) in (0..).map(CellId).zip(wanted.model.cell_types()) {
        if wanted.cells.contains(&cell.name) {
            let only = !wanted.supported.is_empty();
            add_cell(&runs, (id, &cell.name), batch, only, seen, profile);
        }
    }
    Ok(())
}

/// Adds the times of a cell's tasks to the profile, `only` those of this batch size or those of the largest below it.
fn add_cell(
    runs: &[ServiceRun],
    (id, cell): (CellId, &str),
    batch: u32,
    only: bool,
    seen: bool,
    profile: &mut NetworkProfile,
) {
    let mut found: Vec<CellTask> = runs.iter().flat_map(|run| tasks_of_cell(run, id)).collect();
    // This is the requested batch size, unless fewer nodes are ready at a time.
    let size = found
        .iter()
        .map(|one| one.batch)
        .filter(|size| *size <= batch && !only)
        .max()
        .unwrap_or(batch);
    found.retain(|one| one.batch == size);
    if found.is_empty() {
        return;
    }
    if seen {
        // The first task of a decision waits for the host.
        profile
            .times
            .samples(TaskKind::Task, cell, 0, size)
            .extend(as_seen(&group_by_decision(&found)));
        return;
    }
    for one in found {
        let kind = if one.switched {
            TaskKind::Switched
        } else {
            TaskKind::Task
        };
        profile
            .times
            .samples(kind, cell, 0, size)
            .extend([one.timed]);
    }
}

/// The tasks of each decision, and whether the host saw each begin.
fn group_by_decision(found: &[CellTask]) -> Vec<Vec<(TimedTask, bool)>> {
    let decisions = found.chunk_by(|a, b| a.decision == b.decision);
    decisions
        .map(|tasks| tasks.iter().map(|one| (one.timed, one.watched)).collect())
        .collect()
}

/// Repeats the trees until they have this many leaves and as many other nodes.
fn enough(trees: &[Shape], nodes: usize) -> Vec<Shape> {
    let mut leaves = 0;
    let mut others = 0;
    let mut taken = Vec::new();
    for tree in trees.iter().cycle() {
        if leaves.min(others) >= nodes {
            break;
        }
        let children = children(slice::from_ref(tree));
        let own_leaves = children.filter(|count| *count == 0).count();
        leaves += own_leaves;
        others += tree.length() as usize - own_leaves;
        taken.push(tree.clone());
    }
    taken
}

/// A task of one cell that has run.
#[derive(Clone, Copy)]
struct CellTask {
    batch: u32,
    decision: (WorkerId, Nanos),
    /// Whether the task came directly after one of another cell on its worker.
    switched: bool,
    /// Whether the task began after the host's first look at its decision.
    watched: bool,
    timed: TimedTask,
}

/// The tasks of a cell, without those on cold caches.
fn tasks_of_cell(served: &ServiceRun, cell: CellId) -> Vec<CellTask> {
    let mut first_looks: BTreeMap<(WorkerId, Nanos), Nanos> = BTreeMap::new();
    let mut found = Vec::new();
    for (before, task) in served.submission_order() {
        let decision = (task.worker, task.submit);
        let first_look = *first_looks.entry(decision).or_insert(task.finish);
        if task.cells[..] == [cell] {
            let switched = before.is_some_and(|before| before.cells[..] != [cell]);
            let timed = served.timed_task(task.start, task.finish - task.start);
            found.push(CellTask {
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
        let ran = |(start, finish, watched): (u64, u64, bool)| CellTask {
            batch: 8,
            decision: (WorkerId(0), Nanos(start / 100)),
            switched: false,
            watched,
            timed: TimedTask {
                time: Nanos(finish - start),
                at: Nanos(start),
                block: 0,
            },
        };
        // The host looks after the first and the third task of a decision.
        let decision = [(0, 40, false), (40, 64, true), (64, 64, true)].map(ran);
        let next = [(100, 190, false), (190, 190, false), (190, 190, false)].map(ran);
        let times = |found: &[CellTask]| {
            as_seen(&group_by_decision(found))
                .iter()
                .map(|one| one.time)
                .collect::<Vec<_>>()
        };
        assert_eq!(times(&[decision, next].concat()), [Nanos(12)]);
        assert_eq!(times(&next), [Nanos(30)]);
        assert!(times(&[]).is_empty());
    }
}
