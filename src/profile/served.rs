//! Requests that are served by the real driver and a real policy.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;

use super::{Subject, Wanted};
use crate::backend::Backend;
use crate::backend::cpu::StepTime;
use crate::backend::cuda::Options;
use crate::driver::drive;
use crate::error::{Error, Result};
use crate::metrics::recorder::{Keep, Recorder};
use crate::policy::cellular::Cellular;
use crate::policy::registry::{Configured, Setup};
use crate::policy::values::PerCell;
use crate::units::{Nanos, TaskId};
use crate::workload::arrivals::{ClosedLoop, Think};
use crate::workload::random::stream;
use crate::workload::trace::Requests;

/// Serves the requests cell by cell, of which so many are there at a time, and keeps a row for each task.
///
/// # Errors
/// As [`super::measure`].
pub fn serve(subject: &mut Subject<'_>, requests: &Requests, clients: usize, policy: &Cellular) -> Result<Recorder> {
    let largest = match policy.max_batch {
        PerCell::All(most) => most,
        PerCell::Each(ref of_cells) => of_cells.values().max().copied().unwrap_or(1),
    };
    let Subject { wanted, settings, stop, .. } = *subject;
    let mut backend = subject.start(requests, largest)?;
    serve_on(&mut *backend, wanted, requests, clients, policy, settings.workers, stop)
}

/// Serves the requests by a policy that submits them whole. Gives the steps of its tasks too, those of each in order.
///
/// # Errors
/// As [`super::measure`].
pub fn serve_whole(
    subject: &mut Subject<'_>,
    requests: &Requests,
    clients: usize,
    policy: &dyn Configured,
) -> Result<(Recorder, BTreeMap<TaskId, Vec<StepTime>>)> {
    let (log, steps) = channel();
    let Subject { wanted, settings, stop, .. } = *subject;
    let mut backend = subject.engine.start_logging(requests, &Options::default(), log)?;
    let recorder = serve_on(&mut *backend, wanted, requests, clients, policy, settings.workers, stop)?;
    let mut by_task: BTreeMap<TaskId, Vec<StepTime>> = BTreeMap::new();
    steps.try_iter().for_each(|step: StepTime| by_task.entry(step.task).or_default().push(step));
    Ok((recorder, by_task))
}

fn serve_on(
    backend: &mut dyn Backend,
    wanted: &Wanted,
    requests: &Requests,
    clients: usize,
    policy: &dyn Configured,
    workers: usize,
    stop: &AtomicBool,
) -> Result<Recorder> {
    let cells = wanted.model.cell_types();
    let setup = Setup { model: &wanted.model, cells: &cells, workers, costs: None };
    let mut policy = policy.build_policy(&setup).map_err(Error::input)?;
    let mut recorder = Recorder::new(requests.len(), workers, cells.len(), Keep { tasks: true, ..Keep::default() });
    // Clients that do not think draw nothing.
    let mut source =
        ClosedLoop::new(requests, clients as u32, Think::Constant(Nanos::ZERO), &mut stream(0, 0, "profile"));
    drive(&mut source, &mut *policy, backend, &mut recorder, workers, stop)?;
    match recorder.failures.first() {
        Some((_, _, reason)) => Err(Error::failed(format!("a measured task failed: {reason}"))),
        None => Ok(recorder),
    }
}
