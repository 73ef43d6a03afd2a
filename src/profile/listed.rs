//! The operators of a network that a file lists: on threads in tasks of whole requests, as padded batching submits them, and on GPUs by
//! themselves, since a GPU does not tell of the steps of a task.
//!
//! A worker's times of single steps are taken as they come. The first of a task has in it that the requests' numbers are brought together; that
//! what they come to goes back to them is what the task takes beside its steps.

use std::collections::BTreeMap;

use super::flights::{Runway, of_nodes};
use super::served::serve_whole;
use super::wanted::of_input;
use super::{Profile, Settings, Subject, Wanted, unfolded};
use crate::backend::cpu::StepTime;
use crate::error::Result;
use crate::policy::padded::{PadTo, Padded};
use crate::task::NodeRef;
use crate::task::TaskRow;
use crate::units::{Nanos, NodeId, RequestId, TaskId, WorkerId};
use crate::workload::dnn::Operator;

/// Requests that are served at each batch size, so that small batches have more samples.
const REQUESTS: u32 = 16;

/// The tasks at a batch size, beside the first of each worker, which finds nothing in the caches.
fn tasks(batch: u32) -> u32 {
    (REQUESTS / batch).clamp(2, 8)
}

/// Measures each number of tokens and each batch size once.
///
/// # Errors
/// As [`super::measure`]; more tokens than the network takes.
pub fn measure(
    subject: &mut Subject<'_>,
    batches: &[u32],
    profile: &mut Profile,
    go_on: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let Subject { wanted, settings, .. } = *subject;
    for &input in wanted.input_sizes() {
        let shape = of_input(input);
        for &batch in batches {
            if !settings.executor.abilities().logs_steps {
                fly(subject, input, batch, profile)?;
            }
            let clients = batch as usize * settings.workers;
            let shapes = vec![shape.clone(); clients * (1 + tasks(batch) as usize)];
            let requests = unfolded(shapes, &wanted.model)?;
            let policy =
                Padded { bucket_width: input.max(1), max_batch: batch, pad_to: PadTo::Longest, window: Nanos::ZERO };
            let (record, steps) = serve_whole(subject, &requests, clients, &policy)?;
            sort_in(wanted, settings, input, batch, &record.tasks, &steps, profile);
            let launch = profile.launches.entry(batch).or_default();
            launch.decisions = [launch.decisions, record.decisions].into_iter().sum();
            go_on()?;
        }
    }
    Ok(())
}

/// The sets of requests that pass an operator one behind the other in a flight.
const SETS: usize = 8;

/// Measures each operator by itself: sets of requests pass it one behind the other, then the next one. One set passes all of them before, as a
/// library loads what it computes them with when it is first asked to.
fn fly(subject: &mut Subject<'_>, input: u32, batch: u32, profile: &mut Profile) -> Result<()> {
    let (wanted, workers, seen) = (subject.wanted, subject.settings.workers, subject.host_observed_times());
    let Some(network) = wanted.model.network() else { return Ok(()) };
    let requests = unfolded(vec![of_input(input); (SETS + 1) * workers * batch as usize], &wanted.model)?;
    let mut runway = Runway::new(subject.start(&requests, batch)?, workers, seen);
    let mut pass = |first: usize, sets: usize, node: NodeId, operator: &Operator| {
        runway.fly(sets, |set, worker| {
            let first = ((first + set) * workers + worker) as u32 * batch;
            let nodes = (first..first + batch).map(|id| NodeRef { request: RequestId(id), node });
            of_nodes(operator.cell, network.input(operator, input), nodes.collect())
        })
    };
    let operators = || (0..).map(NodeId).zip(network.operators());
    operators().try_for_each(|(node, operator)| pass(0, 1, node, operator).map(drop))?;
    for (node, operator) in operators() {
        let flown = pass(1, SETS, node, operator)?;
        let key = (operator.name.clone(), network.input(operator, input));
        let samples = profile.cells.entry(key).or_default().entry(batch).or_default();
        flown.durations().into_iter().for_each(|time| samples.add(time));
    }
    Ok(())
}

/// Takes the times of all full tasks but the first of each worker.
fn sort_in(
    wanted: &Wanted,
    settings: &Settings,
    input: u32,
    batch: u32,
    tasks: &[TaskRow],
    by_task: &BTreeMap<TaskId, Vec<StepTime>>,
    profile: &mut Profile,
) {
    let cells = wanted.model.cell_types();
    let mut last: BTreeMap<WorkerId, Nanos> = BTreeMap::new();
    // On a GPU nothing is known of the steps inside, and so it is the same for all tasks.
    let alone = (!settings.executor.abilities().logs_steps).then(|| alone(wanted, input, batch, profile));
    for task in tasks {
        let Some(before) = last.insert(task.worker, task.finish).filter(|_| task.batch == batch) else { continue };
        let steps = by_task.get(&task.task).map_or(&[][..], Vec::as_slice);
        for step in steps {
            let cell = &cells[step.cell.index()];
            let key = (cell.name.clone(), if cell.sized { input } else { 0 });
            profile.cells.entry(key).or_default().entry(batch).or_default().add(step.time);
        }
        let within: Nanos = alone.unwrap_or_else(|| steps.iter().map(|step| step.time).sum());
        profile.whole.add_outside(batch, (task.finish - task.start).saturating_since(within));
        // The policy submits to a worker that has nothing to do, so that it was decided upon in between.
        profile.launches.entry(batch).or_default().times.add(task.start.saturating_since(before));
    }
}

/// What a network's operators take one after the other, by what was measured of each.
fn alone(wanted: &Wanted, input: u32, batch: u32, profile: &Profile) -> Nanos {
    let Some(network) = wanted.model.network() else { return Nanos::ZERO };
    let time =
        |operator: &Operator| profile.cells[&(operator.name.clone(), network.input(operator, input))][&batch].median();
    network.operators().map(time).sum()
}
