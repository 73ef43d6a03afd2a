//! Commands of batchlab, for the entry point and for functions that have a command's options.

use std::ffi::OsString;

use batchlab::cli::{self, Caller};
use batchlab::policy::registry::Registry;
use batchlab::run::executor::Executors;
use pyo3::prelude::*;

use crate::errors::{Raised, without_hashes};
use crate::policy::{PolicyClass, registry};
use crate::worker::{AskProgress, StopFlag, run_thread, supervise};

/// Runs the program with these arguments, the program's name first. Returns the exit code.
#[pyfunction]
pub fn main(py: Python<'_>, args: Vec<OsString>) -> u8 {
    py.detach(|| cli::main_from(args, &Registry::standard(), &Executors::standard()))
}

/// Calls a command without a terminal. Returns what it prints, and its notes.
#[pyfunction]
#[pyo3(signature = (args, policies, report=None))]
pub fn command(
    py: Python<'_>,
    args: Vec<OsString>,
    policies: Vec<Py<PolicyClass>>,
    report: Option<Py<PyAny>>,
) -> PyResult<(String, Vec<String>)> {
    let raised = Raised::default();
    let registry = registry(&policies, &raised);
    let stop = StopFlag::new();
    let caller = Caller::new(stop.0, run_thread);
    let asked = caller.clone();
    let ask: AskProgress = Box::new(move || asked.progress());
    let progress = report.map(|report| (report, ask));
    let args: Vec<OsString> = [OsString::from("batchlab")]
        .into_iter()
        .chain(args)
        .collect();
    let (answer, outcome) = supervise(py, stop, progress, move |_| {
        cli::call(args, &registry, &Executors::standard(), &caller)
    })?;
    outcome.map_err(|error| raised.exception(py, &error))?;
    raised.refuse()?;
    let notes = answer.notes.iter().map(|note| without_hashes(note));
    Ok((without_hashes(&answer.printed), notes.collect()))
}
