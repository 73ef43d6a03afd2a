//! Tasks of whole requests. Their steps are faster than tasks of one step (no hand-over, weights in the cache), so the
//! worker times each step. Steps at which no request joins or ends are samples of the cell; the additional time of
//! others, and the time in no step, belong to the task.

use std::collections::BTreeMap;

use super::samples::{CellTimes, SamplesByBatch, TaskKind, WHOLE, curve};
use super::service::{ServiceRun, serve};
use super::steady::measure_operators;
use super::targets::{ProfileTarget, cells_of, children, shape_with_input};
use super::{NetworkProfile, ProfileSettings, ProfileSubject};
use crate::base::error::Result;
use crate::base::units::Nanos;
use crate::core::cost::curve::Curve;
use crate::core::policy::merged::Merged;
use crate::core::policy::padded::{PadTo, Padded};
use crate::core::policy::registry;
use crate::core::policy::unbatched::Unbatched;
use crate::core::workload::model::Model;
use crate::core::workload::shape::Shape;

/// The time of a task of whole requests outside typical steps.
#[derive(Debug)]
pub struct TaskTime {
    requests: u32,
    /// The time outside all steps.
    outside: Nanos,
    /// The steps at which requests joined or ended: the cell, the batch and the time.
    others: Vec<(String, u32, Nanos)>,
}

/// The times of tasks in addition to typical steps, for each number of requests.
pub fn additional_times(tasks: &[TaskTime], times: &CellTimes) -> SamplesByBatch {
    let mut typical: BTreeMap<&str, Option<Curve>> = BTreeMap::new();
    let mut found = SamplesByBatch::new();
    for task in tasks {
        let mut time = task.outside.0 as i64;
        for (cell, batch, took) in &task.others {
            let curve = typical
                .entry(cell)
                .or_insert_with(|| curve(&times.steady_costs(WHOLE, cell, 0)));
            time += curve
                .as_ref()
                .map_or(0, |curve| took.0 as i64 - curve.time(*batch).0 as i64);
        }
        found
            .entry(task.requests)
            .or_default()
            .add(Nanos(time.max(0) as u64));
    }
    found
}

/// The length of chains, so that members stay most of the time.
const LENGTH: u32 = 16;

/// The requests that are served at a batch size.
const REQUESTS: usize = 64;

/// The width of the leaves over the smallest width of a level of internal nodes.
const WIDTHS: f64 = 3.0;

/// The numbers of requests to measure. There are fewer for trees, of which many nodes are ready at a time, and none if
/// not all cells are wanted or if the device does not time single steps.
pub fn sizes(wanted: &ProfileTarget, settings: &ProfileSettings, batches: &[u32]) -> Vec<u32> {
    let mut sizes = batches.to_vec();
    let all_cells = wanted.cells.len() == wanted.model.cell_types().len();
    // Tasks of a feed-forward network are one step.
    if !all_cells
        || !settings.executor.abilities().logs_steps
        || matches!(wanted.model, Model::Dnn(_))
    {
        return Vec::new();
    }
    if wanted.model.takes_trees() {
        let largest = sizes.last().copied().unwrap_or(1);
        let leaves = children(&wanted.trees).filter(|count| *count == 0).count();
        let leaves = leaves as f64 / wanted.trees.len().max(1) as f64;
        let enough =
            sizes.partition_point(|size| f64::from(*size) * leaves < WIDTHS * f64::from(largest));
        sizes.truncate(enough + 1);
    }
    sizes
}

/// Measures tasks of this number of requests, once under each policy.
pub fn measure(
    subject: &mut ProfileSubject<'_>,
    requests: u32,
    profile: &mut NetworkProfile,
) -> Result<()> {
    let ProfileSubject {
        wanted, settings, ..
    } = *subject;
    let trees = wanted.model.takes_trees();
    let padded = Padded {
        bucket_width: LENGTH,
        max_batch: requests,
        ..Padded::default()
    };
    let merged = Merged {
        max_batch: requests,
        ..Merged::default()
    };
    let policies: &[&dyn registry::Settings] = match (trees, requests) {
        (false, 1) => &[&padded],
        (false, _) => &[&padded, &merged],
        (true, 1) => &[&merged, &Unbatched {}],
        (true, _) => &[&merged],
    };
    // The first task of each worker runs on cold caches.
    let tasks = 1 + (REQUESTS / requests as usize).clamp(2, 24);
    let clients = requests as usize * settings.workers;
    let count = (tasks * clients) as u32;
    for (place, policy) in policies.iter().enumerate() {
        let is_uneven = place > 0;
        let served = serve(
            subject,
            (0..count)
                .map(|number| shape(wanted, number, is_uneven))
                .collect(),
            clients,
            *policy,
            0,
        )?;
        add_steps(wanted, &served, requests, profile);
    }
    Ok(())
}

/// The shape of a request: a tree, or a chain of [`LENGTH`] or of uneven lengths.
fn shape(wanted: &ProfileTarget, number: u32, is_uneven: bool) -> Shape {
    match &wanted.model {
        model if model.takes_trees() => wanted.trees[number as usize % wanted.trees.len()].clone(),
        Model::Seq2Seq if is_uneven => Shape::Seq2Seq {
            source: mixed_length(number, 7),
            target: mixed_length(number, 11),
        },
        Model::Seq2Seq => Shape::Seq2Seq {
            source: LENGTH,
            target: LENGTH,
        },
        _ if is_uneven => Shape::Chain(mixed_length(number, 7)),
        _ => Shape::Chain(LENGTH),
    }
}

/// Lengths from 1 to twice [`LENGTH`] in a mixed order.
fn mixed_length(place: u32, stride: u32) -> u32 {
    place * stride % (2 * LENGTH) + 1
}

/// Adds the steps of a run's tasks to the profile.
fn add_steps(
    wanted: &ProfileTarget,
    served: &ServiceRun,
    requests: u32,
    profile: &mut NetworkProfile,
) {
    let names = cells_of(&wanted.model);
    let trees = wanted.model.takes_trees();
    for (before, task) in served.submission_order() {
        let last = before.and_then(|before| served.steps.get(&before.task)?.last());
        let (Some(last), Some(steps)) = (last, served.steps.get(&task.task)) else {
            continue;
        };
        let mut before = last.cell;
        let mut others = Vec::new();
        let mut end = task.start;
        for step in steps {
            let start = end;
            end += step.time;
            let name = &names[step.cell.index()];
            let switched = std::mem::replace(&mut before, step.cell) != step.cell;
            // The members of trees always change.
            if !switched && !step.stayed && !trees {
                others.push((name.clone(), step.batch, step.time));
            } else if let Some(batch) = nearest(step.batch, &profile.sizes.batches) {
                let kind = if switched {
                    TaskKind::WholeSwitched
                } else {
                    TaskKind::Whole
                };
                let time = Nanos(step.time.0 * u64::from(batch) / u64::from(step.batch));
                profile
                    .times
                    .samples(kind, name, 0, batch)
                    .extend([served.timed_task(start, time)]);
            }
        }
        if task.batch == requests {
            let within: Nanos = steps.iter().map(|step| step.time).sum();
            let outside = (task.finish - task.start).saturating_since(within);
            profile.whole.push(TaskTime {
                requests,
                outside,
                others,
            });
        }
    }
}

/// The nearest batch size, to which the time of this size is scaled, if one is near enough. Above `batches`, sizes grow
/// by an eighth.
fn nearest(size: u32, batches: &[u32]) -> Option<u32> {
    const NEAR: u32 = 16;
    let largest = batches.last().copied()?;
    let beyond = std::iter::successors(Some(largest), |last| {
        Some(last + (last / (NEAR / 2)).max(1))
    });
    let around = batches
        .iter()
        .copied()
        .chain(beyond.skip(1).take_while(|beyond| *beyond <= 2 * size));
    around
        .min_by_key(|batch| batch.abs_diff(size))
        .filter(|batch| batch.abs_diff(size) <= batch / NEAR)
}

/// The requests of a listed network that are served at a batch size.
const LISTED_REQUESTS: u32 = 16;

/// Measures the operators of a listed network in tasks of whole requests. The first step includes the gather; the
/// scatter belongs to the task. On a GPU each operator is also measured by itself.
pub fn measure_listed(
    subject: &mut ProfileSubject<'_>,
    batch: u32,
    profile: &mut NetworkProfile,
) -> Result<()> {
    let ProfileSubject {
        wanted, settings, ..
    } = *subject;
    for &input in wanted.input_sizes() {
        if !settings.executor.abilities().logs_steps {
            measure_operators(subject, input, batch, profile)?;
        }
        let clients = batch as usize * settings.workers;
        let tasks = 1 + (LISTED_REQUESTS / batch).clamp(2, 8) as usize;
        let policy = Padded {
            bucket_width: input.max(1),
            max_batch: batch,
            pad_to: PadTo::Longest,
            ..Padded::default()
        };
        let served = serve(
            subject,
            vec![shape_with_input(input); clients * tasks],
            clients,
            &policy,
            0,
        )?;
        let seen = subject.host_observed_times();
        profile.starts.add(&served, input, seen);
        add_operators(wanted, settings, input, batch, &served, profile);
    }
    Ok(())
}

/// Adds the operators of a run's tasks to the profile.
fn add_operators(
    wanted: &ProfileTarget,
    settings: &ProfileSettings,
    input: u32,
    batch: u32,
    served: &ServiceRun,
    profile: &mut NetworkProfile,
) {
    let cells = wanted.model.cell_types();
    let apart = if settings.executor.abilities().logs_steps {
        None
    } else {
        Some(sum_of_operators(wanted, input, batch, profile))
    };
    for (before, task) in served
        .submission_order()
        .filter(|(_, task)| task.batch == batch)
    {
        let Some(before) = before else { continue };
        let steps = served.steps.get(&task.task).map_or(&[][..], Vec::as_slice);
        let mut end = task.start;
        for step in steps {
            let start = end;
            end += step.time;
            let cell = &cells[step.cell.index()];
            let input = if cell.sized { input } else { 0 };
            profile
                .times
                .samples(TaskKind::Task, &cell.name, input, batch)
                .extend([served.timed_task(start, step.time)]);
        }
        let within = apart.unwrap_or_else(|| steps.iter().map(|step| step.time).sum());
        let outside = (task.finish - task.start).saturating_since(within);
        profile.whole.push(TaskTime {
            requests: batch,
            outside,
            others: Vec::new(),
        });
        // The policy submits to idle workers, so the task was decided upon in between.
        profile
            .launches
            .entry(batch)
            .or_default()
            .add(task.start.saturating_since(before.finish));
    }
    profile
        .decisions
        .entry(batch)
        .or_default()
        .push(served.decisions);
}

/// The sum of the operators' times, each measured by itself.
fn sum_of_operators(
    wanted: &ProfileTarget,
    input: u32,
    batch: u32,
    profile: &NetworkProfile,
) -> Nanos {
    let Some(network) = wanted.model.network() else {
        return Nanos::ZERO;
    };
    let mut sum = Nanos::ZERO;
    for operator in network.operators() {
        let input = network.input(operator, input);
        let samples = profile.times.get(TaskKind::Task, &operator.name, input);
        if let Some(samples) = samples.and_then(|samples| samples.get(&batch)) {
            sum += samples.median();
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::profile::samples::MedianCost;

    fn leaves(steps: &[(u32, u64)], turns: &[(u32, u64)]) -> CellTimes {
        let mut times = CellTimes::default();
        steps.iter().for_each(|(batch, ns)| {
            times
                .samples(TaskKind::Whole, "leaf", 0, *batch)
                .add(Nanos(*ns))
        });
        turns.iter().for_each(|(batch, ns)| {
            times
                .samples(TaskKind::WholeSwitched, "leaf", 0, *batch)
                .add(Nanos(*ns))
        });
        times
    }

    #[test]
    fn a_switch_is_the_additional_time_after_another_cell() {
        let times = leaves(&[(1, 10), (2, 12)], &[(1, 15), (4, 30)]);
        let ns = |costs: BTreeMap<u32, MedianCost>| {
            costs
                .iter()
                .map(|(b, (t, _))| (*b, t.0))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            ns(times.steady_costs(WHOLE, "leaf", 0)),
            [(1, 10), (2, 12), (4, 30)]
        );
        assert_eq!(ns(times.more(WHOLE, "leaf", 0)), [(1, 5), (4, 0)]);
    }

    #[test]
    fn a_task_has_the_time_in_no_step_and_that_above_typical_steps() {
        let others = |times: &[u64]| {
            times
                .iter()
                .map(|ns| ("leaf".to_string(), 3, Nanos(*ns)))
                .collect()
        };
        let task = |requests, outside, times: &[u64]| TaskTime {
            requests,
            outside: Nanos(outside),
            others: others(times),
        };
        // A step of three rows takes 14.
        let tasks = vec![
            task(2, 7, &[16, 13]),
            task(2, 7, &[]),
            task(2, 9, &[20]),
            task(5, 1, &[2]),
        ];
        let times = additional_times(&tasks, &leaves(&[(2, 12), (4, 16)], &[]));
        assert_eq!(times[&2].median(), Nanos(8), "of 8, 7 and 15");
        assert_eq!(times[&5].median(), Nanos(0), "never negative");
    }

    #[test]
    fn a_size_counts_for_a_near_one() {
        let sizes = [16, 24, 25, 27, 30, 49, 54, 55, 60, 61, 64, 80, 448, 512];
        let near = |size| nearest(size, &sizes);
        assert_eq!(
            [16, 24, 26, 29, 50, 51, 70, 76]
                .map(near)
                .map(Option::unwrap_or_default),
            [16, 24, 25, 30, 49, 49, 0, 80]
        );
        // The sizes beyond 512 are 576, 648, …
        assert_eq!(
            [540, 560, 1000].map(near).map(Option::unwrap_or_default),
            [512, 576, 1037]
        );
        assert_eq!(
            [1, 2, 7].map(|size| nearest(size, &[1, 3])),
            [Some(1), None, Some(7)]
        );
        assert_eq!(nearest(1, &[]), None);
    }
}
