//! The way from one decision to the next: the real driver and the real cellular policy, one task at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{Samples, Settings, Subject, unfolded};
use crate::driver::drive;
use crate::error::{Error, Result};
use crate::metrics::recorder::{Decisions, Keep, Recorder, TaskRow};
use crate::policy::cellular::Cellular;
use crate::policy::registry::{PerCell, Settings as _, Setup};
use crate::units::{Nanos, WorkerId};
use crate::workload::arrivals::OpenLoop;
use crate::workload::model::Model;
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

/// Serves requests that are there from the start, with one task for each decision.
///
/// # Errors
/// As [`super::measure`].
pub fn measure(
    subject: &Subject<'_>,
    workers: usize,
    batch: u32,
    stop: &AtomicBool,
    launch: &mut Launch,
) -> Result<()> {
    let members = batch as usize * workers;
    let tasks = tasks(batch);
    let shapes = match &subject.wanted.model {
        Model::Lstm | Model::Gru => vec![Shape::Chain(tasks as u32); members],
        Model::Seq2Seq => {
            let half = tasks as u32 / 2;
            vec![Shape::Seq2Seq { source: half, target: half }; members]
        }
        Model::TreeLstm | Model::ChildSumTreeLstm => {
            let nodes = subject.wanted.trees.iter().map(Shape::length).max().unwrap_or(1) as usize;
            let count = (tasks * members).div_ceil(nodes).max(workers);
            subject.wanted.trees.iter().cycle().take(count).cloned().collect()
        }
        Model::Dnn(_) => {
            let shape = subject.wanted.inputs.first().map_or(Shape::Fixed, |input| Shape::Tokens(*input));
            vec![shape; tasks * members]
        }
    };
    let requests = unfolded(shapes, &subject.wanted.model)?;
    let cells = subject.wanted.model.cell_types();
    let setup = Setup { model: &subject.wanted.model, cells: &cells, workers };
    let settings = Cellular { max_tasks: 1, max_batch: PerCell::All(batch), ..Cellular::default() };
    let mut policy = settings.build(&setup).map_err(Error::input)?;
    let mut backend = (subject.start)(&requests)?;
    let mut recorder = Recorder::new(requests.len(), workers, cells.len(), Keep { tasks: true, ..Keep::default() });
    let arrivals: Arc<[Nanos]> = vec![Nanos::ZERO; requests.len()].into();
    let mut source = OpenLoop::new(&requests, &arrivals);
    drive(&mut source, &mut *policy, &mut *backend, &mut recorder, workers, stop)?;
    if let Some((_, _, reason)) = recorder.failures.first() {
        return Err(Error::failed(format!("a measured task failed: {reason}")));
    }

    let mut last: BTreeMap<WorkerId, &TaskRow> = BTreeMap::new();
    for task in &recorder.tasks {
        // The first task waits for all arrivals.
        if let Some(before) = last.insert(task.worker, task)
            && task.batch == batch
        {
            launch.times.add(task.start.saturating_since(before.finish));
        }
    }
    launch.decisions = [launch.decisions, recorder.decisions].into_iter().sum();
    Ok(())
}
