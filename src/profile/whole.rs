//! Tasks of whole requests, through the policies that submit such.
//!
//! A step inside of such a task is faster than the same step as a task of its own: there is no hand-over, and the weights of
//! its cell are still in the core's own cache if the step before was of that cell too. So the worker's times of single steps
//! are taken as they come. Where rows stay from step to step, only steps at which none joins or ends are those of the cell;
//! by how much the others are longer is what it takes requests to begin and end, together with all of the task that lies in no
//! step.

use std::collections::BTreeMap;

use super::served::serve_whole;
use super::{Samples, Settings, Subject, Wanted, cells_of, longer, unfolded};
use crate::backend::cpu::StepTime;
use crate::cost::curve::Curve;
use crate::error::Result;
use crate::experiment::target::Processor;
use crate::policy::immediate::Immediate;
use crate::policy::merged::Merged;
use crate::policy::padded::{PadTo, Padded};
use crate::policy::registry::Configured;
use crate::task::TaskRow;
use crate::units::{CellId, Nanos, TaskId, WorkerId};
use crate::workload::model::Model;
use crate::workload::shape::Shape;

/// What was measured of tasks of whole requests.
#[derive(Debug, Default)]
pub struct Whole {
    /// A step behind one of its own cell, by the cell's name and by batch. Where a cell never follows its own kind at a batch,
    /// there is none.
    steps: ByCell,
    /// A step directly behind one of another cell.
    turns: ByCell,
    /// The tasks.
    tasks: Vec<TaskTime>,
}

type ByCell = BTreeMap<String, BTreeMap<u32, Samples>>;

/// What a task took beside the steps that are samples.
#[derive(Debug)]
struct TaskTime {
    requests: u32,
    /// What lies in no step.
    outside: Nanos,
    /// The steps at which requests joined or ended, behind one of their own cell: the cell's name, the batch and the time.
    others: Vec<(String, u32, Nanos)>,
}

/// The time of a step and by how much it is longer behind another cell, each with its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepCost {
    /// Behind one of its own cell.
    pub own: (Nanos, f64),
    /// More than that behind one of another, where that was measured.
    pub switch: Option<(Nanos, f64)>,
}

impl Whole {
    /// The steps, by the cell's name and by batch. Where a cell never follows its own kind, what it takes behind another is
    /// its time.
    pub fn steps(&self) -> BTreeMap<String, BTreeMap<u32, StepCost>> {
        let mut found: BTreeMap<String, BTreeMap<u32, StepCost>> = BTreeMap::new();
        let of = |samples: &Samples| (samples.median(), samples.deviation());
        for (cell, batches) in &self.turns {
            for (batch, turns) in batches {
                let cost = StepCost { own: of(turns), switch: Some((Nanos::ZERO, 0.0)) };
                found.entry(cell.clone()).or_default().insert(*batch, cost);
            }
        }
        for (cell, batches) in &self.steps {
            for (batch, steps) in batches {
                let turns = self.turns.get(cell).and_then(|batches| batches.get(batch));
                let switch = turns.map(|turns| longer(turns, steps));
                found.entry(cell.clone()).or_default().insert(*batch, StepCost { own: of(steps), switch });
            }
        }
        found
    }

    /// What tasks took beside their steps, by the number of requests.
    pub fn beside(&self) -> BTreeMap<u32, Samples> {
        let curve = |batches: BTreeMap<u32, StepCost>| {
            let points = batches.into_iter().map(|(batch, cost)| (batch, cost.own.0.0)).collect();
            Curve::new(points).expect("a cell that was measured has a point, each batch once")
        };
        let typical: BTreeMap<String, Curve> =
            self.steps().into_iter().map(|(cell, batches)| (cell, curve(batches))).collect();
        let mut found: BTreeMap<u32, Samples> = BTreeMap::new();
        for task in &self.tasks {
            let more = |(cell, batch, time): &(String, u32, Nanos)| {
                typical.get(cell).map_or(0, |curve| time.0 as i64 - curve.at(*batch).0 as i64)
            };
            let time = task.outside.0 as i64 + task.others.iter().map(more).sum::<i64>();
            found.entry(task.requests).or_default().add(Nanos(time.max(0) as u64));
        }
        found
    }

    /// A task of so many requests has taken so long beside its steps.
    pub fn add_outside(&mut self, requests: u32, outside: Nanos) {
        self.tasks.push(TaskTime { requests, outside, others: Vec::new() });
    }

    /// All samples of steps, those of each cell, batch and place together.
    pub fn samples(&self) -> impl Iterator<Item = &Samples> {
        [&self.steps, &self.turns].into_iter().flat_map(BTreeMap::values).flat_map(BTreeMap::values)
    }
}

/// Nodes of chains: long enough that members stay most of the time.
const LENGTH: u32 = 16;

/// Requests that are served at each number of them, so that small tasks have more samples.
const REQUESTS: usize = 64;

/// The tasks at each number of requests, beside the first of each worker, which finds nothing in the caches.
fn tasks(requests: u32) -> usize {
    (REQUESTS / requests as usize).clamp(2, 24)
}

/// The numbers of requests at which tasks are measured: all batch sizes for chains. Of trees so many nodes are ready at a time that
/// fewer requests make the largest batch. None where not all cells of a request
/// are wanted, and on GPUs, which do not tell of single steps.
pub fn sizes(wanted: &Wanted, settings: &Settings) -> Vec<u32> {
    let mut sizes = settings.batches.clone();
    let all_cells = wanted.cells.len() == wanted.model.cell_types().len();
    if !all_cells || settings.processor == Processor::Cuda {
        return Vec::new();
    }
    match wanted.model {
        Model::Lstm | Model::Gru | Model::Seq2Seq => {}
        Model::TreeLstm | Model::ChildSumTreeLstm | Model::ChildSumByArity(_) => {
            let largest = sizes.last().copied().unwrap_or(1);
            let leaves = wanted.mean_leaves();
            let enough = sizes.partition_point(|size| f64::from(*size) * leaves < WIDTHS * f64::from(largest));
            sizes.truncate(enough + 1);
        }
        // A task of theirs is one step, which was measured by itself; those of listed networks have a file of their own.
        Model::Dnn(_) | Model::Graph(_) | Model::Network(_) => sizes.clear(),
    }
    sizes
}

/// A level of internal nodes is a third as wide as the leaves or more where trees are parse trees, and half as wide where
/// they are complete.
const WIDTHS: f64 = 3.0;

/// Measures tasks of so many requests once under each policy.
///
/// # Errors
/// As [`super::measure`].
pub fn measure(subject: &mut Subject<'_>, requests: u32, whole: &mut Whole) -> Result<()> {
    let Subject { wanted, settings, .. } = *subject;
    let trees = wanted.model.takes_trees();
    let merged = Merged { max_batch: requests, ..Merged::default() };
    let padded = Padded { bucket_width: LENGTH, max_batch: requests, pad_to: PadTo::Bucket, window: Nanos::ZERO };
    let mut forms: Vec<(Box<dyn Configured>, bool)> = Vec::new();
    if !trees {
        forms.push((Box::new(padded), false));
    }
    if trees || requests > 1 {
        forms.push((Box::new(merged), true));
    }
    if trees && requests == 1 {
        forms.push((Box::new(Immediate {}), true));
    }
    let count = requests as usize * settings.workers * (1 + tasks(requests));
    for (policy, uneven) in forms {
        let shapes = match &wanted.model {
            Model::Seq2Seq if uneven => {
                (0..count as u32).map(|i| Shape::Seq2Seq { source: mixed(i, 7), target: mixed(i, 11) }).collect()
            }
            Model::Seq2Seq => vec![Shape::Seq2Seq { source: LENGTH, target: LENGTH }; count],
            _ if trees => wanted.trees.iter().cycle().take(count).cloned().collect(),
            _ if uneven => (0..count as u32).map(|i| Shape::Chain(mixed(i, 7))).collect(),
            _ => vec![Shape::Chain(LENGTH); count],
        };
        let served = unfolded(shapes, &wanted.model)?;
        let clients = requests as usize * settings.workers;
        let (recorder, steps) = serve_whole(subject, &served, clients, &*policy)?;
        sort_in(wanted, settings, &recorder.tasks, &steps, requests, whole);
    }
    Ok(())
}

/// Lengths from 1 to twice [`LENGTH`], each as often as any other, not in order.
fn mixed(place: u32, stride: u32) -> u32 {
    place * stride % (2 * LENGTH) + 1
}

/// Takes the times of all tasks but the first of each worker.
fn sort_in(
    wanted: &Wanted,
    settings: &Settings,
    tasks: &[TaskRow],
    by_task: &BTreeMap<TaskId, Vec<StepTime>>,
    requests: u32,
    whole: &mut Whole,
) {
    let names: Vec<String> = cells_of(&wanted.model);
    let trees = wanted.model.takes_trees();
    let mut last: BTreeMap<WorkerId, CellId> = BTreeMap::new();
    for task in tasks {
        let steps = by_task.get(&task.task).map_or(&[][..], Vec::as_slice);
        let Some(end) = steps.last() else { continue };
        let Some(mut before) = last.insert(task.worker, end.cell) else { continue };
        let within: Nanos = steps.iter().map(|step| step.time).sum();
        let outside = (task.finish - task.start).saturating_since(within);
        let mut time = TaskTime { requests, outside, others: Vec::new() };
        for step in steps {
            let name = &names[step.cell.index()];
            let behind_other = std::mem::replace(&mut before, step.cell) != step.cell;
            let kind = match behind_other {
                true => &mut whole.turns,
                // The nodes of trees are others in every step.
                false if step.stayed || trees => &mut whole.steps,
                false => {
                    time.others.push((name.clone(), step.batch, step.time));
                    continue;
                }
            };
            if let Some(batch) = nearest(step.batch, &settings.batches) {
                let samples = kind.entry(name.clone()).or_default().entry(batch).or_default();
                samples.add(Nanos(step.time.0 * u64::from(batch) / u64::from(step.batch)));
            }
        }
        if task.batch == requests {
            whole.tasks.push(time);
        }
    }
}

/// The size among `batches` for which a step of another size counts, in proportion: those of trees come as they are. Sizes go
/// on beyond the largest in steps of an eighth.
fn nearest(size: u32, batches: &[u32]) -> Option<u32> {
    const NEAR: u32 = 16;
    let largest = batches.last().copied()?;
    let beyond = std::iter::successors(Some(largest), |last| Some(last + (last / (NEAR / 2)).max(1)));
    let around = batches.iter().copied().chain(beyond.skip(1).take_while(|beyond| *beyond <= 2 * size));
    around.min_by_key(|batch| batch.abs_diff(size)).filter(|batch| batch.abs_diff(size) <= batch / NEAR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::grid::batches;

    fn samples(times: &[u64]) -> Samples {
        let mut samples = Samples::default();
        times.iter().for_each(|ns| samples.add(Nanos(*ns)));
        samples
    }

    fn whole(steps: &[(u32, u64)], turns: &[(u32, u64)], tasks: Vec<TaskTime>) -> Whole {
        let by_cell = |points: &[(u32, u64)]| {
            let batches = points.iter().map(|(batch, ns)| (*batch, samples(&[*ns]))).collect();
            BTreeMap::from([("leaf".to_string(), batches)])
        };
        Whole { steps: by_cell(steps), turns: by_cell(turns), tasks }
    }

    #[test]
    fn a_switch_is_what_a_step_takes_more_behind_another_cell() {
        let steps = whole(&[(1, 10), (2, 12)], &[(1, 15), (4, 30)], Vec::new()).steps();
        let found: Vec<(u32, u64, Option<u64>)> = steps["leaf"]
            .iter()
            .map(|(batch, cost)| (*batch, cost.own.0.0, cost.switch.map(|(switch, _)| switch.0)))
            .collect();
        assert_eq!(found, [(1, 10, Some(5)), (2, 12, None), (4, 30, Some(0))]);
    }

    #[test]
    fn what_a_task_takes_beside_its_steps_is_outside_of_them_or_more_than_typical() {
        let others = |times: &[u64]| times.iter().map(|ns| ("leaf".to_string(), 3, Nanos(*ns))).collect();
        let task =
            |requests, outside, times: &[u64]| TaskTime { requests, outside: Nanos(outside), others: others(times) };
        // A step of three takes 14.
        let tasks = vec![task(2, 7, &[16, 13]), task(2, 7, &[]), task(2, 9, &[20]), task(5, 1, &[2])];
        let beside = whole(&[(2, 12), (4, 16)], &[], tasks).beside();
        assert_eq!(beside[&2].median(), Nanos(8), "of 8, 7 and 15");
        assert_eq!(beside[&5].median(), Nanos(0), "never less than nothing");
    }

    #[test]
    fn a_size_counts_for_a_near_one() {
        let near = |size| nearest(size, batches(Processor::Cpu));
        assert_eq!(
            [16, 24, 26, 29, 50, 51, 70, 76].map(near).map(Option::unwrap_or_default),
            [16, 24, 25, 30, 49, 49, 0, 80]
        );
        // Beyond 512: 576, 648, …
        assert_eq!([540, 560, 1000].map(near).map(Option::unwrap_or_default), [512, 576, 1037]);
        assert_eq!([1, 2, 7].map(|size| nearest(size, &[1, 3])), [Some(1), None, Some(7)]);
        assert_eq!(nearest(1, &[]), None);
    }
}
