//! Requests that are all there from the start, served by the real driver and the real cellular policy.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::Subject;
use crate::driver::drive;
use crate::error::{Error, Result};
use crate::metrics::recorder::{Keep, Recorder};
use crate::policy::cellular::Cellular;
use crate::policy::registry::{Settings as _, Setup};
use crate::units::Nanos;
use crate::workload::arrivals::OpenLoop;
use crate::workload::trace::Requests;

/// Serves the requests and keeps a row for each task.
///
/// # Errors
/// As [`super::measure`].
pub fn serve(
    subject: &Subject<'_>,
    requests: &Requests,
    policy: &Cellular,
    workers: usize,
    stop: &AtomicBool,
) -> Result<Recorder> {
    let cells = subject.wanted.model.cell_types();
    let setup = Setup { model: &subject.wanted.model, cells: &cells, workers };
    let mut policy = policy.build(&setup).map_err(Error::input)?;
    let mut backend = (subject.start)(requests)?;
    let mut recorder = Recorder::new(requests.len(), workers, cells.len(), Keep { tasks: true, ..Keep::default() });
    let arrivals: Arc<[Nanos]> = vec![Nanos::ZERO; requests.len()].into();
    let mut source = OpenLoop::new(requests, &arrivals);
    drive(&mut source, &mut *policy, &mut *backend, &mut recorder, workers, stop)?;
    match recorder.failures.first() {
        Some((_, _, reason)) => Err(Error::failed(format!("a measured task failed: {reason}"))),
        None => Ok(recorder),
    }
}
