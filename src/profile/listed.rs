//! The operators of a network that a file lists: in tasks of whole requests, as padded batching submits them.
//!
//! The worker's times of single steps are taken as they come. The first of a task has in it that the requests' numbers are brought together; that
//! what they come to goes back to them is what the task takes beside its steps.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use super::served::serve_whole;
use super::{Profile, Settings, Subject, Wanted, unfolded};
use crate::backend::cpu::StepTime;
use crate::error::{Error, Result};
use crate::experiment::target::Processor;
use crate::metrics::recorder::TaskRow;
use crate::policy::padded::{PadTo, Padded};
use crate::units::{Nanos, TaskId, WorkerId};
use crate::workload::shape::Shape;

/// Requests that are served at each batch size, so that small batches have more samples.
const REQUESTS: u32 = 16;

/// The tasks at a batch size, beside the first of each worker, which finds nothing in the caches.
fn tasks(batch: u32) -> u32 {
    (REQUESTS / batch).clamp(2, 8)
}

/// The numbers of tokens that are measured; 0 for a network that takes none.
pub fn inputs(wanted: &Wanted) -> &[u32] {
    if wanted.inputs.is_empty() { &[0] } else { &wanted.inputs }
}

/// Measures each number of tokens and each batch size once.
///
/// # Errors
/// As [`super::measure`]; more tokens than the network takes.
pub fn measure(
    subject: &mut Subject<'_>,
    settings: &Settings,
    batches: &[u32],
    stop: &AtomicBool,
    profile: &mut Profile,
    go_on: &dyn Fn() -> Result<()>,
) -> Result<()> {
    if settings.processor == Processor::Cuda {
        return Err(Error::input(
            "a GPU does not tell of the steps of its tasks, which are what operators are measured by",
        ));
    }
    let wanted = subject.wanted;
    for &input in inputs(wanted) {
        let shape = if input == 0 { Shape::Fixed } else { Shape::Tokens(input) };
        for &batch in batches {
            let clients = batch as usize * settings.workers;
            let shapes = vec![shape.clone(); clients * (1 + tasks(batch) as usize)];
            let requests = unfolded(shapes, &wanted.model)?;
            let policy =
                Padded { bucket_width: input.max(1), max_batch: batch, pad_to: PadTo::Longest, window: Nanos::ZERO };
            let (record, steps) = serve_whole(subject, &requests, clients, &policy, settings.workers, stop)?;
            let mut by_task: BTreeMap<TaskId, Vec<StepTime>> = BTreeMap::new();
            steps.into_iter().for_each(|step| by_task.entry(step.task).or_default().push(step));
            sort_in(wanted, input, batch, &record.tasks, &by_task, profile);
            let launch = profile.launches.entry(batch).or_default();
            launch.decisions = [launch.decisions, record.decisions].into_iter().sum();
            go_on()?;
        }
    }
    Ok(())
}

/// Takes the times of all full tasks but the first of each worker.
fn sort_in(
    wanted: &Wanted,
    input: u32,
    batch: u32,
    tasks: &[TaskRow],
    by_task: &BTreeMap<TaskId, Vec<StepTime>>,
    profile: &mut Profile,
) {
    let cells = wanted.model.cell_types();
    let mut last: BTreeMap<WorkerId, Nanos> = BTreeMap::new();
    for task in tasks {
        let Some(before) = last.insert(task.worker, task.finish).filter(|_| task.batch == batch) else { continue };
        let steps = by_task.get(&task.task).map_or(&[][..], Vec::as_slice);
        for step in steps {
            let cell = &cells[step.cell.index()];
            let key = (cell.name.clone(), if cell.sized { input } else { 0 });
            profile.cells.entry(key).or_default().entry(batch).or_default().add(step.time);
        }
        let within: Nanos = steps.iter().map(|step| step.time).sum();
        profile.whole.add_outside(batch, (task.finish - task.start).saturating_since(within));
        // The policy submits to a worker that has nothing to do, so that it was decided upon in between.
        profile.launches.entry(batch).or_default().times.add(task.start.saturating_since(before));
    }
}
