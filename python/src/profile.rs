//! The profile of a function of Python.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use batchlab::error::Error;
use batchlab::profile::ProfileProgress;
use batchlab::profile::function::{FunctionSize, FunctionTarget};
use pyo3::prelude::*;

use crate::errors::Raised;

/// Measures a function of a batch size, and of an input size if there are any. Returns the cost table and the noise, as
/// CSV, and a sentence on whether the table can be used. It runs on the calling thread, which signals interrupt.
#[pyfunction]
#[pyo3(signature = (function, *, cell, batches, inputs, largest, repeats, report=None))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub fn profile(
    py: Python<'_>,
    function: Bound<'_, PyAny>,
    cell: String,
    batches: Vec<u32>,
    inputs: Vec<u32>,
    largest: u32,
    repeats: u32,
    report: Option<Bound<'_, PyAny>>,
) -> PyResult<(String, String, String)> {
    let target = FunctionTarget {
        cell,
        batches,
        inputs,
        largest,
        repeats,
    };
    let raised = Raised::default();
    let mut call = |(batch, input): FunctionSize| {
        let outcome = match input {
            0 => function.call1((batch,)),
            input => function.call1((batch, input)),
        };
        let outcome = outcome.and_then(|_| py.check_signals());
        outcome.map_err(|exception| {
            raised.keep(exception);
            Error::failure(format_args!("the function, batch {batch}"))
        })
    };
    let stop = AtomicBool::new(false);
    let visits = Cell::new(0);
    let done = Cell::new(0);
    let progress = |step| {
        match step {
            ProfileProgress::Planned(sizes) => {
                visits.set(sizes);
                done.set(0);
            }
            ProfileProgress::Measured => done.set(done.get() + 1),
        }
        if let Some(report) = &report
            && visits.get() > 0
        {
            let shown = report.call1((done.get().min(visits.get()), visits.get()));
            if let Err(exception) = shown {
                raised.keep(exception);
                stop.store(true, Ordering::Relaxed);
            }
        }
    };
    match target.measure(&mut call, &stop, &progress) {
        Ok(measured) => Ok((
            measured.costs,
            measured.noise,
            measured.usability.sentence(),
        )),
        Err(error) => {
            let note = match &error {
                Error::Interrupted => "in the profile of a function".to_owned(),
                other => format!("in the profile of {other}"),
            };
            Err(raised
                .take_with_note(py, &note)
                .unwrap_or_else(|| crate::errors::to_exception(&error)))
        }
    }
}
