//! Errors of batchlab as exceptions, and exceptions of policies as errors of batchlab.

use std::sync::{Arc, Mutex};

use batchlab::error::Error;
use pyo3::create_exception;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    batchlab,
    InputError,
    PyValueError,
    "A mistake in a scenario, an argument or a file. The message names the key, the bad value and what is allowed."
);
create_exception!(
    batchlab,
    RunError,
    PyRuntimeError,
    "A failure of the machine or of a run, such as a full disk."
);
create_exception!(
    batchlab,
    LawBroken,
    PyRuntimeError,
    "A policy breaks a law that all policies keep. The message has the law and the smallest workload that shows it."
);

/// The exception for an error of batchlab.
pub fn to_exception(error: &Error) -> PyErr {
    match error {
        Error::Input(text) => InputError::new_err(without_hashes(text)),
        Error::Interrupted => PyKeyboardInterrupt::new_err(()),
        Error::Failed(text) | Error::Incomplete(text) | Error::Unusable(text) => {
            RunError::new_err(without_hashes(text))
        }
    }
}

/// The number of letters of a hash in the path of a file in memory.
const HASH: usize = 16;

/// A text without the hashes of files in memory, which mean nothing to a reader.
pub fn without_hashes(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(place) = rest.find('@') {
        let (before, after) = rest.split_at(place);
        plain.push_str(before);
        let hash = after.get(1..=HASH);
        let is_hash = hash.is_some_and(|hash| {
            hash.bytes()
                .all(|letter| letter.is_ascii_digit() || (b'a'..=b'f').contains(&letter))
        });
        let skipped = if is_hash { 1 + HASH } else { 1 };
        if !is_hash {
            plain.push('@');
        }
        rest = &after[skipped..];
    }
    plain + rest
}

/// The first exception that code of the user has raised during a call.
#[derive(Clone, Debug, Default)]
pub struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// Keeps the exception, unless there was one before.
    pub fn keep(&self, exception: PyErr) {
        self.0
            .lock()
            .expect("nothing panics while it holds an exception")
            .get_or_insert(exception);
    }

    /// Whether the user has interrupted a policy.
    pub fn is_interrupted(&self, py: Python<'_>) -> bool {
        let kept = self
            .0
            .lock()
            .expect("nothing panics while it holds an exception");
        kept.as_ref()
            .is_some_and(|exception| exception.is_instance_of::<PyKeyboardInterrupt>(py))
    }

    fn take(&self) -> Option<PyErr> {
        self.0
            .lock()
            .expect("nothing panics while it holds an exception")
            .take()
    }

    /// The user's exception, with a note of where it was raised, or else the exception for the error.
    pub fn exception(&self, py: Python<'_>, error: &Error) -> PyErr {
        self.take_with_note(py, &format!("policy {error}"))
            .unwrap_or_else(|| to_exception(error))
    }

    /// The user's exception with a note, if there is one.
    pub fn take_with_note(&self, py: Python<'_>, note: &str) -> Option<PyErr> {
        let exception = self.take()?;
        let _ = exception
            .value(py)
            .call_method1("add_note", (without_hashes(note),));
        Some(exception)
    }

    /// The user's exception, for outcomes that hide it.
    pub fn refuse(&self) -> PyResult<()> {
        self.take().map_or(Ok(()), Err)
    }
}
