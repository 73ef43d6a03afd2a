//! Decisions as a GPU's host makes them under load, with one task and with several. Members are exchanged, requests
//! arrive while tasks run, and more requests wait than fit. What such a decision takes beyond the tasks themselves is a
//! launch.

use std::collections::BTreeMap;

use super::samples::{MedianCost, SamplesByBatch, costs};
use super::service::{ServiceRun, serve};
use super::steady::WORDS;
use super::targets::ProfileTarget;
use super::{NetworkProfile, ProfileSettings, ProfileSubject};
use crate::base::error::Result;
use crate::base::units::{CellId, Nanos, WorkerId};
use crate::core::cost::table::TableCosts;
use crate::core::cost::timing::task_time;
use crate::core::policy::cellular::Cellular;
use crate::core::policy::values::PerCell;
use crate::core::task::{Members, Step, Task, TaskRow};
use crate::core::workload::model::Model;
use crate::core::workload::shape::Shape;

/// The tasks of a decision: one, and BatchMaker's number.
const TASKS: [u32; 2] = [1, 5];

/// The decisions that are measured with each number of tasks.
const DECISIONS: u32 = 40;

/// The first decisions, which run on cold caches and do not count.
const WARM_UP: usize = 3;

/// From the finish of a decision's last task to the finish of the next decision's.
#[derive(Clone, Debug)]
pub struct DecisionTime {
    batch: u32,
    /// The cells of its tasks.
    cells: Vec<CellId>,
    time: Nanos,
}

/// Whether decisions are measured: where the times of tasks are the host's, a launch includes its work.
pub fn are_measured(wanted: &ProfileTarget, settings: &ProfileSettings) -> bool {
    settings.executor.abilities().host_observed_times && !matches!(wanted.model, Model::Dnn(_))
}

/// Measures decisions of tasks of this size. The launches of trees always have other members, so only decisions of
/// several tasks are left to measure.
pub fn measure(
    subject: &mut ProfileSubject<'_>,
    batch: u32,
    profile: &mut NetworkProfile,
) -> Result<()> {
    let wanted = subject.wanted;
    let clients = 2 * batch as usize * subject.settings.workers;
    let is_tree = wanted.model.takes_trees();
    for tasks in TASKS {
        if is_tree && tasks == 1 {
            continue;
        }
        let policy = Cellular {
            max_tasks: tasks,
            max_batch: PerCell::All(batch),
            min_batch: PerCell::All(batch),
            batch_sizes: wanted.batch_sizes(),
            ..Cellular::default()
        };
        let runs = DECISIONS * tasks;
        let words = WORDS.min(batch).max(1);
        let ends = (runs * batch).div_ceil(words) as usize * subject.settings.workers;
        let shapes: Vec<Shape> = if is_tree {
            let trees = wanted.trees.iter().cycle();
            let nodes = wanted.trees.iter().map(Shape::length).max().unwrap_or(1);
            let count = (runs * batch).div_ceil(nodes) as usize + clients;
            trees.take(count).cloned().collect()
        } else {
            let numbers = 0..(ends + clients) as u32;
            numbers
                .map(|number| shape(wanted, number, batch, words))
                .collect()
        };
        let served = serve(subject, shapes, clients, &policy, batch)?;
        add_decisions(&served, batch, tasks as usize, profile);
    }
    Ok(())
}

/// The shape of a request: a sentence. The first ones differ in length, so that they do not all end at once.
fn shape(wanted: &ProfileTarget, number: u32, batch: u32, words: u32) -> Shape {
    let length = if number < batch {
        1 + number % words
    } else {
        words
    };
    if wanted.model == Model::Seq2Seq {
        let half = length.div_ceil(2);
        Shape::Seq2Seq {
            source: half,
            target: half,
        }
    } else {
        Shape::Chain(length)
    }
}

/// Adds the decisions of this number of full tasks that follow another such decision.
fn add_decisions(served: &ServiceRun, batch: u32, tasks: usize, profile: &mut NetworkProfile) {
    let mut by_worker: BTreeMap<WorkerId, Vec<&TaskRow>> = BTreeMap::new();
    for task in &served.tasks {
        by_worker.entry(task.worker).or_default().push(task);
    }
    for rows in by_worker.values() {
        let decisions: Vec<&[&TaskRow]> = rows
            .chunk_by(|a, b| a.submit == b.submit)
            .skip(WARM_UP)
            .collect();
        for pair in decisions.windows(2) {
            let is_full = |decision: &[&TaskRow]| {
                decision.len() == tasks && decision.iter().all(|task| task.batch == batch)
            };
            if is_full(pair[0])
                && is_full(pair[1])
                && let (Some(before), Some(last)) = (pair[0].last(), pair[1].last())
            {
                let cells = pair[1].iter().flat_map(|task| task.cells.first().copied());
                profile.decided.push(DecisionTime {
                    batch,
                    cells: cells.collect(),
                    time: last.finish.saturating_since(before.finish),
                });
            }
        }
    }
}

/// The rows of launches of tasks that gather, and of the extra time for each further task of a decision.
pub fn launches(profile: &NetworkProfile, table: &TableCosts) -> [BTreeMap<u32, MedianCost>; 2] {
    let [mut one, mut several] = [SamplesByBatch::new(), SamplesByBatch::new()];
    for decision in &profile.decided {
        let samples = if decision.cells.len() == 1 {
            &mut one
        } else {
            &mut several
        };
        let left = decision
            .time
            .saturating_since(time_of_tasks(decision, table));
        samples.entry(decision.batch).or_default().add(left);
    }
    let gather = costs(&one);
    let mut further = BTreeMap::new();
    for (batch, (time, spread)) in costs(&several) {
        let single = match gather.get(&batch) {
            Some(single) => Some(*single),
            None => profile.launches.get(&batch).map(|samples| samples.cost()),
        };
        if let Some((alone, deviation)) = single {
            let more = u64::from(TASKS[1] - TASKS[0]);
            let each = Nanos(time.saturating_since(alone).0 / more);
            further.insert(batch, (each, spread.hypot(deviation) / more as f64));
        }
    }
    [gather, further]
}

/// The time of the tasks of a decision by the table.
fn time_of_tasks(decision: &DecisionTime, table: &TableCosts) -> Nanos {
    let mut before = decision.cells.last().copied();
    let mut time = Nanos::ZERO;
    for cell in &decision.cells {
        let steps = [Step {
            cell: *cell,
            batch: decision.batch,
            times: 1,
            input: 0,
        }];
        let task = Task {
            gather: true,
            members: Members::Nodes(&|_| ()),
            ..Task::new(WorkerId(0), &steps, &[], 1)
        };
        time += task_time(table, &task, before);
        before = Some(*cell);
    }
    time
}
