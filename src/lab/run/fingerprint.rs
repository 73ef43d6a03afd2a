//! Fingerprints: hashes of everything that determines the results of a run.

use std::collections::BTreeMap;
use std::mem;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::base::error::{Error, Result};
use crate::base::hash::{HashedReader, hash_bytes};
use crate::base::shipped;
use crate::core::cost::table::Overhead;
use crate::lab::scenario::costs::PolicyCosts;
use crate::lab::scenario::{
    ArrivalSpec, DeviceSection, Load, OutputSection, PolicyEntry, Scenario,
};

/// For each policy, a hash of everything that determines its results. Other policies and the list of loads are left
/// out, so that either can grow when a sweep is resumed. Costs are left out in real runs.
pub(super) fn fingerprints(
    scenario: &Scenario,
    device: &str,
    real: bool,
    hashes: &mut InputHashes,
) -> Result<Vec<String>> {
    let mut common = scenario.clone();
    let mut policies = mem::take(&mut common.policies);
    common.output = OutputSection {
        plots: Vec::new(),
        plot_point: None,
        title: None,
        figure: Default::default(),
        ..common.output
    };
    match (&mut common.workload.load, &mut common.arrivals) {
        // Rates or several scales are loads; a single scale is not in the name of its point.
        (Load::Trace { time_scale, .. }, arrivals) => {
            if arrivals.take().is_some() || time_scale.len() > 1 {
                time_scale.clear();
            }
        }
        (_, Some(ArrivalSpec::Closed { clients, .. })) => clients.clear(),
        (_, arrivals) => *arrivals = arrivals.take().map(|arrivals| arrivals.with_rates(&[])),
    }
    if real {
        common.overhead = Overhead::default();
        common.device = DeviceSection {
            costs: None,
            roofline: None,
            noise: None,
            ..common.device
        };
        for policy in &mut policies {
            policy.costs = PolicyCosts::none();
            policy.overhead = Overhead::default();
        }
    }
    let mut files = Vec::new();
    for (_, path) in common.inputs() {
        files.push(hashes.hash_of(scenario, path)?);
    }
    let files = files.join(" ");
    let version = env!("CARGO_PKG_VERSION");
    let commit = env!("BATCHLAB_COMMIT");
    let common = format!(
        "{version} {commit} {device} {} {files}",
        common.resolved_json()
    );
    let mut fingerprints = Vec::new();
    for policy in &policies {
        let costs = match policy.costs.file() {
            Some(file) => hashes.hash_of(scenario, file)?,
            None => String::new(),
        };
        fingerprints.push(hash(&format!("{common} {} {costs}", json!(policy))));
    }
    Ok(fingerprints)
}

/// The hash of a text, such as a scenario with all that decides its results.
pub fn hash(text: &str) -> String {
    hash_bytes(text.as_bytes()).to_string()
}

/// The hashes of input files by path. Each file is hashed once for all scenarios of a command.
#[derive(Default)]
pub(super) struct InputHashes(BTreeMap<PathBuf, String>);

impl InputHashes {
    /// The hash of each file that a scenario names, by the name in the scenario.
    pub fn inputs(&mut self, scenario: &Scenario) -> Result<Vec<(String, String)>> {
        let mut inputs = Vec::new();
        for (given, path) in scenario.inputs() {
            inputs.push((given.to_string(), self.hash_of(scenario, path)?));
        }
        Ok(inputs)
    }

    fn hash_of(&mut self, scenario: &Scenario, file: &Path) -> Result<String> {
        if let Some(known) = self.0.get(file) {
            return Ok(known.clone());
        }
        let hash = hash_of_input(scenario, file)?;
        self.0.insert(file.to_path_buf(), hash.clone());
        Ok(hash)
    }
}

/// The hash of a file that a scenario names; empty for a generator. A cost table was hashed when it was read, and so is a
/// trace.
pub fn hash_of_input(scenario: &Scenario, file: &Path) -> Result<String> {
    for PolicyEntry { costs, .. } in &scenario.policies {
        if let (Some(known), Some(hash)) = (costs.file(), costs.hash())
            && **known == *file
        {
            return Ok(hash.to_string());
        }
    }
    // A file that is no trace is refused where its requests are needed.
    if let Load::Trace { trace, .. } = &scenario.workload.load
        && ***trace == *file
        && let Ok(read) = trace.read()
    {
        return Ok(read.hash.clone());
    }
    if !shipped::is_file(file) {
        return Ok(String::new());
    }
    let hash = shipped::open(file).and_then(|file| HashedReader::new(file).into_hash());
    let hash = hash.map_err(|cause| Error::unreadable(file, &cause))?;
    Ok(hash.to_string())
}
