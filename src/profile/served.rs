//! Requests that are served by the real driver and the real cellular policy.

use std::sync::atomic::AtomicBool;

use super::Subject;
use crate::driver::drive;
use crate::error::{Error, Result};
use crate::metrics::recorder::{Keep, Recorder};
use crate::policy::cellular::Cellular;
use crate::policy::registry::{PerCell, Settings as _, Setup};
use crate::units::Nanos;
use crate::workload::arrivals::{ClosedLoop, Think};
use crate::workload::random::stream;
use crate::workload::trace::Requests;

/// Serves the requests, of which so many are there at a time, and keeps a row for each task.
///
/// # Errors
/// As [`super::measure`].
pub fn serve(
    subject: &mut Subject<'_>,
    requests: &Requests,
    clients: usize,
    policy: &Cellular,
    workers: usize,
    stop: &AtomicBool,
) -> Result<Recorder> {
    let cells = subject.wanted.model.cell_types();
    let setup = Setup { model: &subject.wanted.model, cells: &cells, workers };
    let largest = match policy.max_batch {
        PerCell::All(most) => most,
        PerCell::Each(ref of_cells) => of_cells.values().max().copied().unwrap_or(1),
    };
    let mut policy = policy.build(&setup).map_err(Error::input)?;
    let mut backend = subject.start(requests, largest)?;
    let mut recorder = Recorder::new(requests.len(), workers, cells.len(), Keep { tasks: true, ..Keep::default() });
    // Clients that do not think draw nothing.
    let mut source =
        ClosedLoop::new(requests, clients as u32, Think::Constant(Nanos::ZERO), &mut stream(0, 0, "profile"));
    drive(&mut source, &mut *policy, &mut *backend, &mut recorder, workers, stop)?;
    match recorder.failures.first() {
        Some((_, _, reason)) => Err(Error::failed(format!("a measured task failed: {reason}"))),
        None => Ok(recorder),
    }
}
