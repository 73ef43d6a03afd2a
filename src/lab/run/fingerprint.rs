//! Fingerprints: hashes of everything that determines the results of a run.

use std::mem;
use std::path::Path;

use serde_json::json;

use crate::base::error::{Error, Result};
use crate::base::hash::fnv1a;
use crate::base::shipped;
use crate::core::cost::table::Overhead;
use crate::lab::scenario::costs::PolicyCosts;
use crate::lab::scenario::{
    ArrivalSpec, DeviceSection, Load, OutputSection, PolicyEntry, Scenario,
};

/// For each policy, a hash of everything that determines its results. Other policies and the list of loads are left
/// out, so that either can grow when a sweep is resumed. Costs are left out in real runs.
pub(super) fn fingerprints(scenario: &Scenario, device: &str, real: bool) -> Result<Vec<String>> {
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
    let files = common
        .inputs()
        .map(|(_, path)| hash_of(path))
        .collect::<Result<Vec<_>>>()?
        .join(" ");
    let version = env!("CARGO_PKG_VERSION");
    let commit = env!("BATCHLAB_COMMIT");
    let common = format!(
        "{version} {commit} {device} {} {files}",
        common.resolved_json()
    );
    let of_policy = |policy: &PolicyEntry| {
        let costs = match policy.costs.file() {
            Some(file) => hash_of_input(scenario, file)?,
            None => String::new(),
        };
        Ok(hash(&format!("{common} {} {costs}", json!(policy))))
    };
    policies.iter().map(of_policy).collect()
}

/// The hash of a text, such as a scenario with all that decides its results.
pub fn hash(text: &str) -> String {
    format!("{:016x}", fnv1a(text.as_bytes()))
}

/// The hash of a file that a scenario names. A cost table was hashed when it was read.
pub(super) fn hash_of_input(scenario: &Scenario, file: &Path) -> Result<String> {
    for PolicyEntry { costs, .. } in &scenario.policies {
        if let (Some(known), Some(hash)) = (costs.file(), costs.hash())
            && **known == *file
        {
            return Ok(hash.to_string());
        }
    }
    hash_of(file)
}

/// The hash of a file's content; empty for a generator.
pub fn hash_of(file: &Path) -> Result<String> {
    if !shipped::is_file(file) {
        return Ok(String::new());
    }
    let bytes = shipped::read(file).map_err(|cause| Error::unreadable(file, &cause))?;
    Ok(format!("{:016x}", fnv1a(&bytes)))
}
