//! Tasks of whole requests on a GPU, whose steps are not timed one by one. Their total tells what it costs that a level
//! has fewer or more rows than the one before, because the times of the steps are known. The host's time to queue a
//! level is that of the submission.
//!
//! Chains run in pairs of tasks with equally many levels: all of one length, and a staircase of lengths, of which a
//! twentieth of the rows, and at least one, ends with each level. Encoders in a staircase make decoders begin in one.

use std::collections::BTreeMap;

use super::samples::{MedianCost, QUARTILES};
use super::service::{QueuedSteps, ServiceRun, serve_watched};
use super::targets::ProfileTarget;
use super::{NetworkProfile, ProfileSettings, ProfileSubject};
use crate::base::error::Result;
use crate::base::units::{Nanos, TaskId, WorkerId};
use crate::core::cost::table::{CostTable, Overhead, TableCosts};
use crate::core::cost::timing::task_time;
use crate::core::policy::merged::Merged;
use crate::core::task::{Step, Task};
use crate::core::workload::model::Model;
use crate::core::workload::row_names::{GROW, HOST, SHRINK, WHOLE};
use crate::core::workload::shape::Shape;

/// The tasks of each kind and size, of which the first runs on cold caches and does not count.
const TASKS: usize = 9;

/// The levels before the first change, in which the host gets ahead of the device.
const LEAD: u32 = 8;

/// A staircase has at most one change more than this.
const CHANGES: u32 = 8;

/// The part of the rows that changes with a level.
const PART: u32 = 20;

/// The rows of the widest level over the number of trees, of which leaves have the most.
const LEAVES: u32 = 16;

/// The kinds of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LevelKind {
    /// All levels have the same rows.
    Even,
    /// Rows end.
    Shrinking,
    /// Encoders end, and decoders begin.
    Growing,
    /// All levels have other rows.
    Trees,
}

/// A task of whole requests that has run.
#[derive(Clone, Debug)]
pub struct LevelTask {
    kind: LevelKind,
    /// The batch size of the rows that the task is measured for.
    size: u32,
    requests: u32,
    /// The number of levels whose rows change.
    changes: u32,
    steps: Vec<Step>,
    time: Nanos,
    /// The host's time of the submission.
    host: Nanos,
}

/// The lengths of a staircase. The levels after its changes have a given number of rows in the mean.
struct Staircase {
    requests: u32,
    /// The rows that end with a level.
    part: u32,
    changes: u32,
}

impl Staircase {
    fn new(size: u32) -> Staircase {
        let part = (size / PART).max(1);
        let half = (CHANGES / 2).min((size - 1) / part);
        Staircase {
            requests: size + (half + 1) * part,
            part,
            changes: 2 * half + 1,
        }
    }

    /// The levels of a request. Neighbours have different lengths.
    fn levels(&self, number: u32) -> u32 {
        const STRIDE: u64 = 7919;
        let place = u64::from(number % self.requests) * STRIDE % u64::from(self.requests);
        LEAD + 1 + (place as u32 / self.part).min(self.changes)
    }

    fn most_levels(&self) -> u32 {
        LEAD + 1 + self.changes
    }
}

/// Whether levels are measured: on devices that time tasks as the host sees them, for all cells of a model, unless
/// chains run in persistent kernels or policies run a few sizes only.
pub fn are_measured(wanted: &ProfileTarget, settings: &ProfileSettings) -> bool {
    let abilities = settings.executor.abilities();
    abilities.host_observed_times
        && !abilities.logs_steps
        && settings.persistent.is_none()
        && wanted.supported.is_empty()
        && wanted.cells.len() == wanted.model.cell_types().len()
        && !matches!(wanted.model, Model::Dnn(_))
}

/// Measures tasks whose levels have about this number of rows.
pub fn measure(
    subject: &mut ProfileSubject<'_>,
    size: u32,
    profile: &mut NetworkProfile,
) -> Result<()> {
    let kinds: &[LevelKind] = match &subject.wanted.model {
        model if model.takes_trees() => &[LevelKind::Trees],
        Model::Seq2Seq => &[LevelKind::Even, LevelKind::Shrinking, LevelKind::Growing],
        _ => &[LevelKind::Even, LevelKind::Shrinking],
    };
    let stairs = Staircase::new(size);
    for kind in kinds {
        let requests = match kind {
            LevelKind::Trees => (size / LEAVES).max(1),
            _ => stairs.requests,
        };
        let clients = requests as usize * subject.settings.workers;
        let numbers = 0..(TASKS * clients) as u32;
        // All tasks have the same requests, so that the graphs of all batch sizes are captured by the first.
        let shapes = numbers
            .map(|number| shape(subject.wanted, *kind, &stairs, number % requests))
            .collect();
        let policy = Merged {
            max_batch: requests,
            ..Merged::default()
        };
        let (served, queued) = serve_watched(subject, shapes, clients, &policy, 0)?;
        add_tasks(
            &served,
            &queued,
            *kind,
            size,
            requests,
            stairs.changes,
            profile,
        );
    }
    Ok(())
}

/// The shape of a request of a kind of task.
fn shape(wanted: &ProfileTarget, kind: LevelKind, stairs: &Staircase, number: u32) -> Shape {
    let levels = stairs.levels(number);
    let most = stairs.most_levels();
    let is_chain = wanted.model != Model::Seq2Seq;
    match kind {
        LevelKind::Trees => wanted.trees[number as usize % wanted.trees.len()].clone(),
        LevelKind::Even if is_chain => Shape::Chain(most),
        LevelKind::Even => Shape::Seq2Seq {
            source: LEAD,
            target: most,
        },
        LevelKind::Shrinking if is_chain => Shape::Chain(levels),
        LevelKind::Shrinking => Shape::Seq2Seq {
            source: LEAD,
            target: levels,
        },
        // The first decoders end after the last have begun.
        LevelKind::Growing => Shape::Seq2Seq {
            source: levels,
            target: most,
        },
    }
}

/// Adds the tasks of a run, all but the first of each worker. The size of trees is the mean of their levels.
fn add_tasks(
    served: &ServiceRun,
    queued: &BTreeMap<TaskId, QueuedSteps>,
    kind: LevelKind,
    size: u32,
    requests: u32,
    changes: u32,
    profile: &mut NetworkProfile,
) {
    for (before, task) in served.submission_order() {
        let Some(QueuedSteps { steps, host }) = queued.get(&task.task) else {
            continue;
        };
        if before.is_none() || task.batch != requests {
            continue;
        }
        let levels: u32 = steps.iter().map(|step| step.times).sum();
        let rows: u64 = steps.iter().map(Step::cells).sum();
        let is_tree = kind == LevelKind::Trees;
        let mean = rows.div_ceil(u64::from(levels.max(1))) as u32;
        profile.levels.push(LevelTask {
            kind,
            size: if is_tree { mean } else { size },
            requests,
            changes: if is_tree { levels } else { changes },
            steps: steps.clone(),
            time: task.finish.saturating_since(task.start),
            host: *host,
        });
    }
}

/// The rows of a name.
type NamedRows = (&'static str, BTreeMap<u32, MedianCost>);

/// The rows of whole requests. `csv` is the table of the cells, with its header; each kind of row is what the rows
/// before it leave unexplained. Without the rows of a cell, which an interrupted profile may lack, there are none.
pub fn rows(profile: &NetworkProfile, model: &Model, csv: &str) -> Vec<NamedRows> {
    let mut rows: Vec<NamedRows> = Vec::new();
    if profile.levels.is_empty() {
        return rows;
    }
    rows.push((HOST, host_rows(&profile.levels)));
    for (name, kinds) in [
        (WHOLE, &[LevelKind::Even, LevelKind::Trees][..]),
        (SHRINK, &[LevelKind::Shrinking]),
        (GROW, &[LevelKind::Growing]),
    ] {
        let Some(costs) = costs_with(csv, &rows, model) else {
            return Vec::new();
        };
        let mut left: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for task in profile
            .levels
            .iter()
            .filter(|task| kinds.contains(&task.kind))
        {
            let (batch, parts) = if name == WHOLE {
                (task.requests, 1)
            } else {
                (task.size, task.changes)
            };
            let more = task.time.0 as f64 - predict(task, &costs).0 as f64;
            left.entry(batch).or_default().push(more / f64::from(parts));
        }
        rows.push((name, medians(left)));
    }
    rows.retain(|(_, costs)| !costs.is_empty());
    rows
}

/// The host's time to queue a level whose rows change. That of chains is the difference between a staircase and equal
/// lengths.
fn host_rows(tasks: &[LevelTask]) -> BTreeMap<u32, MedianCost> {
    let mut even: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for task in tasks.iter().filter(|task| task.kind == LevelKind::Even) {
        even.entry(task.size).or_default().push(task.host.0 as f64);
    }
    let even = medians(even);
    let mut levels: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for task in tasks {
        let steady = match task.kind {
            LevelKind::Trees => 0,
            LevelKind::Shrinking => even.get(&task.size).map_or(0, |(host, _)| host.0),
            LevelKind::Even | LevelKind::Growing => continue,
        };
        let each = (task.host.0 as f64 - steady as f64) / f64::from(task.changes.max(1));
        levels.entry(task.size).or_default().push(each);
    }
    medians(levels)
}

/// The medians, which are at least 0, and the standard deviations.
fn medians(values: BTreeMap<u32, Vec<f64>>) -> BTreeMap<u32, MedianCost> {
    let mut costs = BTreeMap::new();
    for (batch, mut values) in values {
        values.sort_by(f64::total_cmp);
        let last = values.len() - 1;
        let [first, middle, third] = [1, 2, 3].map(|quarter| values[last * quarter / 4]);
        let median = Nanos(middle.max(0.0).round() as u64);
        costs.insert(batch, (median, (third - first) / QUARTILES));
    }
    costs
}

/// The costs of a table and of further rows.
pub fn costs_with(csv: &str, rows: &[NamedRows], model: &Model) -> Option<TableCosts> {
    let mut text = csv.to_string();
    let columns = text.lines().next()?.split(',').count();
    for (name, costs) in rows {
        for (batch, (time, _)) in costs {
            let missing = ",".repeat(columns - 3);
            text.push_str(&format!("{name},{batch},{}{missing}\n", time.0));
        }
    }
    let table = CostTable::parse(&text, "the profile").ok()?;
    table
        .costs_for(&model.cell_types(), Overhead::default())
        .ok()
}

/// The time of a task by the table. The task before it was one of the same kind.
fn predict(task: &LevelTask, costs: &TableCosts) -> Nanos {
    let before = task.steps.last().map(|step| step.cell);
    let whole = Task {
        batch: task.requests,
        ..Task::whole_requests(WorkerId(0), &task.steps, &[], 1)
    };
    task_time(costs, &whole, before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::CellId;

    #[test]
    fn a_staircase_loses_a_part_of_its_rows_with_each_level() {
        for size in [1, 2, 3, 9, 64, 512] {
            let stairs = Staircase::new(size);
            let mut lengths: Vec<u32> = (0..stairs.requests)
                .map(|number| stairs.levels(number))
                .collect();
            assert!(size < 9 || !lengths.is_sorted(), "{lengths:?}");
            lengths.sort_unstable();
            let rows = |level: u32| lengths.iter().filter(|length| **length > level).count() as u32;
            assert_eq!(rows(LEAD), stairs.requests);
            for change in 1..=stairs.changes {
                let left = stairs.requests - change * stairs.part;
                assert_eq!(rows(LEAD + change), left, "{size}");
            }
            assert_eq!(rows(stairs.most_levels()), 0);
            assert_eq!(rows(LEAD + 1 + stairs.changes / 2), size);
        }
    }

    /// A task of chains with levels of these rows, timed by the true table.
    fn chains(kind: LevelKind, size: u32, truth: &TableCosts) -> LevelTask {
        let stairs = Staircase::new(size);
        let mut steps = vec![Step {
            cell: CellId(0),
            batch: stairs.requests,
            times: LEAD + 1,
            input: 0,
        }];
        for change in 1..=stairs.changes {
            let ended = if kind == LevelKind::Even { 0 } else { change };
            steps.push(Step {
                batch: stairs.requests - ended * stairs.part,
                times: 1,
                ..steps[0]
            });
        }
        let mut task = LevelTask {
            kind,
            size,
            requests: stairs.requests,
            changes: stairs.changes,
            steps,
            time: Nanos::ZERO,
            host: Nanos(
                1000 + if kind == LevelKind::Even {
                    0
                } else {
                    70 * u64::from(stairs.changes)
                },
            ),
        };
        task.time = predict(&task, truth);
        task
    }

    #[test]
    fn rows_of_whole_requests_are_found_in_the_totals_of_tasks() {
        let cells = "cell,batch,ns,stddev_ns\nlstm,1,1000,0\nlstm,1000,9000,0\n";
        let truth = "whole.host,1,70,\nwhole.host,2,70,\nwhole.shrink,1,300,\nwhole.shrink,101,800,\nwhole,1,50,\nwhole,2,60,\n";
        let costs = costs_with(&format!("{cells}{truth}"), &[], &Model::Lstm).unwrap();
        let mut profile = NetworkProfile::default();
        for size in [1, 21, 101] {
            for kind in [LevelKind::Even, LevelKind::Shrinking] {
                profile.levels.push(chains(kind, size, &costs));
            }
        }
        let rows = rows(&profile, &Model::Lstm, cells);
        let names: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, [HOST, WHOLE, SHRINK]);
        for (name, found) in rows {
            for (batch, (time, _)) in found {
                let expected = match name {
                    HOST => 70,
                    WHOLE => 40 + 10 * u64::from(batch),
                    _ => 295 + 5 * u64::from(batch),
                };
                assert!(
                    time.0.abs_diff(expected) <= 1,
                    "{name} at {batch}: {time:?}"
                );
            }
        }
        assert!(
            super::rows(&profile, &Model::Gru, cells).is_empty(),
            "no rows for its cell"
        );
    }
}
