//! The way from one decision to the next: the real driver and the real cellular policy, one task at a time.

use std::collections::BTreeMap;

use super::served::serve;
use super::wanted::of_input;
use super::{Profile, Samples, Settings, Subject, unfolded};
use crate::cost::curve::Curve;
use crate::error::Result;
use crate::metrics::recorder::Decisions;
use crate::policy::cellular::Cellular;
use crate::policy::values::PerCell;
use crate::task::TaskRow;
use crate::units::{Nanos, WorkerId};
use crate::workload::model::{CellType, Model};
use crate::workload::shape::Shape;

/// What was measured of the decisions at one batch size.
#[derive(Debug, Default)]
pub struct Launch {
    /// From the finish of a task to the start of the next.
    pub times: Samples,
    /// What the policy took of it.
    pub decisions: Decisions,
}

/// Members of all tasks that are decided upon at a batch size, so that small ones have more samples.
const MEMBERS: usize = 1024;

/// The tasks that are decided upon at a batch size.
fn tasks(batch: u32) -> usize {
    (MEMBERS / batch as usize).clamp(12, 120)
}

/// What a step of each cell takes at a batch size, from what was measured of it.
pub struct Steps(Vec<Option<Curve>>);

impl Steps {
    /// Those of a profile's cells, by their ids.
    pub fn of(profile: &Profile, model: &Model) -> Steps {
        let curve = |cell: CellType| {
            let samples = profile.cells.get(&(cell.name, 0))?;
            Curve::new(samples.iter().map(|(batch, samples)| (*batch, samples.median().0)).collect()).ok()
        };
        Steps(model.cell_types().into_iter().map(curve).collect())
    }

    fn at(&self, task: &TaskRow) -> Nanos {
        let curve = task.cells.first().and_then(|cell| self.0[cell.index()].as_ref());
        curve.map_or(Nanos::ZERO, |curve| curve.at(task.batch))
    }
}

/// The batch sizes at which launches are measured: they grow slowly, and a task stands behind each.
pub fn batches(settings: &Settings) -> Vec<u32> {
    let largest = settings.batches.last().copied();
    let fours = (0..16).map(|power| 1u32 << (2 * power));
    let smallest = settings.batches.first().copied().unwrap_or(1);
    let mut batches: Vec<u32> =
        fours.filter(|batch| smallest <= *batch && largest.is_some_and(|largest| *batch < largest)).collect();
    batches.extend(largest);
    batches
}

/// Serves requests that are there from the start, with one task for each decision. On a device whose tasks start when they are
/// submitted, as the host sees it, what passes until the device really begins is part of the launch: all that the way from
/// finish to finish takes beyond a step.
///
/// # Errors
/// As [`super::measure`].
pub fn measure(subject: &mut Subject<'_>, batch: u32, steps: &Steps, launch: &mut Launch) -> Result<()> {
    let workers = subject.settings.workers;
    let members = batch as usize * workers;
    let tasks = tasks(batch);
    let shapes = match &subject.wanted.model {
        Model::Lstm | Model::Gru => vec![Shape::Chain(tasks as u32); members],
        Model::Seq2Seq => {
            let half = tasks as u32 / 2;
            vec![Shape::Seq2Seq { source: half, target: half }; members]
        }
        Model::TreeLstm | Model::ChildSumTreeLstm | Model::ChildSumByArity(_) => {
            let nodes = subject.wanted.trees.iter().map(Shape::length).max().unwrap_or(1) as usize;
            let count = (tasks * members).div_ceil(nodes).max(workers);
            subject.wanted.trees.iter().cycle().take(count).cloned().collect()
        }
        Model::Graph(_) | Model::Network(_) => Vec::new(),
        Model::Dnn(_) => vec![of_input(subject.wanted.input_sizes()[0]); tasks * members],
    };
    let requests = unfolded(shapes, &subject.wanted.model)?;
    let policy = Cellular { max_tasks: 1, max_batch: PerCell::All(batch), ..Cellular::default() };
    let seen = subject.engine.times_are_seen();
    let recorder = serve(subject, &requests, requests.len(), &policy)?;
    let mut last: BTreeMap<WorkerId, &TaskRow> = BTreeMap::new();
    for task in &recorder.tasks {
        // The first task waits for all arrivals.
        if let Some(before) = last.insert(task.worker, task)
            && task.batch == batch
        {
            let start = if seen { Nanos(task.finish.0.saturating_sub(steps.at(task).0)) } else { task.start };
            launch.times.add(start.saturating_since(before.finish));
        }
    }
    launch.decisions = [launch.decisions, recorder.decisions].into_iter().sum();
    Ok(())
}
