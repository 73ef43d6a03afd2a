//! A results folder, read back to its scenario.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::base::error::{Context as _, Error, Result};
use crate::base::files::folder_name;
use crate::core::policy::registry::Registry;
use crate::lab::results::saved_results::read_json;
use crate::lab::results::sweep_keys;
use crate::lab::run::Run;
use crate::lab::run::fingerprint::hash_of_input;
use crate::lab::scenario::Scenario;

const RUN: &str = "run.json";

/// The scenarios and points of a results folder.
#[derive(Debug)]
pub struct Results {
    /// The scenarios with the seed of the runs. There are several if keys other than those of policies were swept.
    pub scenarios: Vec<Scenario>,
    /// The name of the backend: `sim`, `cpu` or `cuda`.
    pub backend: String,
    /// The requested points that exist, in the order of scenarios, then policies, then loads.
    pub points: Vec<RecordedPoint>,
}

#[derive(Clone, Debug)]
pub struct RecordedPoint {
    /// The index of the point's scenario.
    pub variant: usize,
    /// The first replication, whose logs are kept.
    pub run: Run,
    pub folder: PathBuf,
}

impl Results {
    /// Reads the folder of a scenario, of one of its policies, or of one point. Fails if the scenario can't be built
    /// again, for example because an input file has changed.
    pub fn open(path: &Path, registry: &Registry) -> Result<Results> {
        let full = path
            .canonicalize()
            .map_err(|cause| Error::unreadable(path, &cause))?;
        let Some(depth) = full
            .ancestors()
            .take(3)
            .position(|folder| folder.join(RUN).is_file())
        else {
            return Err(Error::input(format!(
                "{}: has no {RUN}; name the folder that a run wrote its results to, or one of a policy or point in it",
                path.display()
            )));
        };
        // Messages name the folder as the user wrote it, if that has enough parts.
        let given = path
            .ancestors()
            .nth(depth)
            .filter(|root| root.join(RUN).is_file());
        let root = given.or(full.ancestors().nth(depth)).unwrap_or(&full);
        let file = root.join(RUN);
        let run = read_json(&file)?;
        let (scenarios, backend) = restore(&run, &file, registry)?;
        for scenario in &scenarios {
            let requests = scenario.workload.source();
            let model = scenario.workload.model.file();
            let inputs = [(&*requests.given, &**requests)].into_iter().chain(model);
            require_same_inputs(scenario, inputs, &run, &file)?;
        }
        let within = |folder: &Path| {
            folder
                .canonicalize()
                .is_ok_and(|folder| folder.starts_with(&full))
        };
        let mut points = list_points(root, &scenarios);
        points.retain(|point| within(&point.folder));
        Ok(Results {
            scenarios,
            backend,
            points,
        })
    }

    pub fn scenario(&self, point: &RecordedPoint) -> &Scenario {
        &self.scenarios[point.variant]
    }
}

/// The points of scenarios in a results folder, whether they exist or not, in the order of [`Results::points`].
pub(super) fn list_points(root: &Path, scenarios: &[Scenario]) -> Vec<RecordedPoint> {
    let mut points = Vec::new();
    for (variant, scenario) in scenarios.iter().enumerate() {
        for (policy, entry) in scenario.policies.iter().enumerate() {
            let folder = root.join(folder_name(&entry.label));
            for load in scenario.points() {
                let place = sweep_keys::point_folder(&load.to_string(), &entry.swept);
                points.push(RecordedPoint {
                    variant,
                    run: Run {
                        policy,
                        load,
                        replication: 0,
                    },
                    folder: folder.join(place),
                });
            }
        }
    }
    points
}

/// The scenarios and the backend of a run, as its `run.json` says.
pub(super) fn restore(
    run: &Value,
    file: &Path,
    registry: &Registry,
) -> Result<(Vec<Scenario>, String)> {
    let resolved = run
        .get("scenario")
        .ok_or_else(|| Error::input("has no scenario"))
        .within(file.display())?;
    let read_from = run.get("file").and_then(Value::as_str).unwrap_or_default();
    let kept = run
        .get("variants")
        .and_then(Value::as_array)
        .map_or(std::slice::from_ref(resolved), Vec::as_slice);
    let restore = |kept| Scenario::restore(kept, Path::new(read_from), file, registry);
    let mut scenarios = kept.iter().map(restore).collect::<Result<Vec<_>>>()?;
    Scenario::share_traces(&mut scenarios);
    let backend = run.get("backend").and_then(Value::as_str);
    Ok((scenarios, backend.unwrap_or_default().into()))
}

/// Fails if an input file is not what it was when the run was made.
pub(super) fn require_same_inputs<'p>(
    scenario: &Scenario,
    inputs: impl IntoIterator<Item = (&'p str, &'p Path)>,
    run: &Value,
    file: &Path,
) -> Result<()> {
    for (given, path) in inputs {
        let then = run
            .get("inputs")
            .and_then(|inputs| inputs.get(given))
            .and_then(Value::as_str);
        if let Some(then) = then
            && hash_of_input(scenario, path)? != then
        {
            return Err(Error::input(format!(
                "{}: {} is not what it was in this run, so that the run can't be made again; bring back the file of then",
                file.display(),
                path.display()
            )));
        }
    }
    Ok(())
}
