//! Scenarios that come with batchlab, and scenarios and files of Python.

use std::path::{Path, PathBuf};

use batchlab::Shipped;
use batchlab::error::{Error, Result};
use batchlab::policy::registry::{Batches, Registry};
use batchlab::run::inputs::RunInputs;
use batchlab::scenario::Scenario;
use batchlab::units::Nanos;
use pyo3::prelude::*;

use crate::errors::{InputError, Raised, to_exception};
use crate::policy::{PolicyClass, registry};
use crate::worker::{StopFlag, supervise};

/// A file in memory, which scenarios find by its path as long as the object lives.
#[pyclass(frozen, module = "batchlab")]
pub struct MemoryFile(batchlab::MemoryFile);

#[pymethods]
impl MemoryFile {
    #[new]
    fn new(name: &str, content: &[u8]) -> MemoryFile {
        MemoryFile(batchlab::MemoryFile::new(name, content))
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.0.path().to_path_buf()
    }
}

/// The scenarios of a file with these overrides and sweeps, with the seed if one is given.
pub fn expand(
    path: &Path,
    overrides: &[String],
    sweeps: &[String],
    seed: Option<u64>,
    registry: &Registry,
) -> Result<Vec<Scenario>> {
    let path = Shipped::Scenario.find(path)?;
    let mut scenarios = Scenario::expand(&path, overrides, sweeps, registry)?;
    for scenario in &mut scenarios {
        let mut swept = scenario.policies[0].swept.iter();
        if seed.is_some() && swept.any(|(key, _)| key == "seed") {
            return Err(Error::mistake(
                &path,
                "seed: the seed is swept; leave one of the two out",
            ));
        }
        scenario.seed = seed.unwrap_or(scenario.seed);
    }
    Ok(scenarios)
}

/// The scenario with every key and its effective value, as JSON.
#[pyfunction]
pub fn resolved_scenario(
    py: Python<'_>,
    path: PathBuf,
    overrides: Vec<String>,
    seed: Option<u64>,
    policies: Vec<Py<PolicyClass>>,
) -> PyResult<String> {
    let raised = Raised::default();
    let registry = registry(&policies, &raised);
    let text = supervise(py, StopFlag::new(), None, move |_| {
        let scenarios = expand(&path, &overrides, &[], seed, &registry)?;
        Ok::<String, Error>(scenarios[0].resolved_json().to_string())
    })?;
    text.map_err(|error| raised.exception(py, &error))
}

/// The path at which a scenario is found, and its text.
#[pyfunction]
pub fn scenario_text(given: PathBuf) -> PyResult<(PathBuf, String)> {
    Shipped::Scenario
        .read(&given)
        .map_err(|error| to_exception(&error))
}

/// The names of the scenarios that come with batchlab, each with a line about it.
#[pyfunction]
pub fn scenarios() -> Vec<(&'static str, String)> {
    let all = Shipped::Scenario.all().into_iter();
    all.map(|scenario| (scenario.name, scenario.about()))
        .collect()
}

/// The kinds of policies, each with a line about it and its keys with their defaults as JSON.
#[pyfunction]
pub fn policies() -> Vec<(&'static str, &'static str, String)> {
    let registry = Registry::standard();
    let mut kinds = Vec::new();
    for kind in registry.kinds() {
        let defaults = registry.defaults(kind).cloned().unwrap_or_default();
        let defaults = serde_json::Value::from(defaults).to_string();
        kinds.push((kind, registry.about(kind).unwrap_or_default(), defaults));
    }
    kinds
}

/// A time with its unit, such as "2ms", in nanoseconds.
#[pyfunction]
pub fn time_ns(text: &str) -> PyResult<u64> {
    let time = Nanos::parse(text).map_err(InputError::new_err)?;
    Ok(time.0)
}

/// A cell of a model: the name, whether its time depends on the input size, and the largest batch of any policy.
type CellSizes = (String, bool, u32);

/// The cells of a scenario's model, and the length of the longest request.
#[pyfunction]
pub fn sizes(
    py: Python<'_>,
    path: PathBuf,
    overrides: Vec<String>,
    policies: Vec<Py<PolicyClass>>,
) -> PyResult<(Vec<CellSizes>, u32)> {
    let raised = Raised::default();
    let registry = registry(&policies, &raised);
    let sizes = supervise(py, StopFlag::new(), None, move |_| {
        let scenarios = expand(&path, &overrides, &[], None, &registry)?;
        find_sizes(&scenarios[0])
    })?;
    sizes.map_err(|error| raised.exception(py, &error))
}

fn find_sizes(scenario: &Scenario) -> Result<(Vec<CellSizes>, u32)> {
    let inputs = RunInputs::new(scenario)?;
    let mut largest = vec![1; inputs.cells.len()];
    for policy in 0..scenario.policies.len() {
        let own = match inputs.largest_batches(policy) {
            Some(Batches::Nodes(sizes)) => sizes,
            Some(Batches::Requests(size)) => vec![size; largest.len()],
            None => vec![UNBOUNDED; largest.len()],
        };
        for (largest, own) in largest.iter_mut().zip(own) {
            *largest = own.min(UNBOUNDED).max(*largest);
        }
    }
    let cells = inputs.cells.iter().zip(largest);
    let cells = cells.map(|(cell, largest)| (cell.name.clone(), cell.sized, largest));
    Ok((cells.collect(), inputs.requests(0)?.longest()))
}

/// The largest batch that a cost function is asked for. Beyond it, times follow the last two sizes.
const UNBOUNDED: u32 = 1024;
