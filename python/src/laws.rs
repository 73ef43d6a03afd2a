//! The laws of every policy, on a policy in Python.

use batchlab::conformance::{BrokenLaw, Guarantees, find_broken_law};
use batchlab::error::Error;
use pyo3::prelude::*;

use crate::errors::{LawBroken, Raised};
use crate::policy::{PolicyClass, registry};
use crate::worker::{StopFlag, supervise};

/// Checks a policy on random workloads. Returns the number of workloads that it serves.
#[pyfunction]
#[pyo3(signature = (policy, kind, parameters, *, max_batch, work_conserving, pins, bounded, holds_back, cases))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub fn check(
    py: Python<'_>,
    policy: Option<Py<PolicyClass>>,
    kind: String,
    parameters: String,
    max_batch: Option<u32>,
    work_conserving: bool,
    pins: bool,
    bounded: bool,
    holds_back: bool,
    cases: u32,
) -> PyResult<u32> {
    let raised = Raised::default();
    let classes: Vec<Py<PolicyClass>> = policy.into_iter().collect();
    let registry = registry(&classes, &raised);
    let guarantees = Guarantees {
        max_batch: max_batch.unwrap_or(u32::MAX),
        work_conserving,
        pins,
        bounded,
        holds_back,
        cases,
    };
    let outcome = supervise(py, StopFlag::new(), None, move |_| {
        let table = toml::de::DeTable::parse(&parameters).map_err(Error::input)?;
        let settings = registry
            .parse(&kind, table)
            .map_err(|cause| Error::input(cause.message()))?;
        Ok::<Result<u32, BrokenLaw>, Error>(find_broken_law(&*settings, &guarantees))
    })?;
    match outcome {
        Err(error) => Err(raised.exception(py, &error)),
        Ok(Ok(0)) => {
            raised.refuse()?;
            let why = "the policy serves none of the models; see its attribute `models`";
            Err(LawBroken::new_err(why))
        }
        Ok(Ok(served)) => Ok(served),
        Ok(Err(broken)) => {
            let note = format!("the policy {broken}");
            let exception = raised.take_with_note(py, &note);
            Err(exception.unwrap_or_else(|| LawBroken::new_err(note)))
        }
    }
}
