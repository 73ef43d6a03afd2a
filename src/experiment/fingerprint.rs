//! What decides the results of a run, as a hash.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::scenario::{Load, PolicyEntry, Scenario};
use crate::shipped;
use crate::workload::random::fnv1a;

/// For each policy, a hash of everything that determines its results. Other policies and the list of loads are left
/// out, so that either can grow when a sweep is resumed; so are costs in real runs.
pub(super) fn fingerprints(scenario: &Scenario, device: &str, real: bool) -> Result<Vec<String>> {
    let mut common = scenario.resolved_json();
    let root = common.as_object_mut().expect("a scenario is a table");
    let mut policies =
        root.remove("policy").map_or(Vec::new(), |policies| policies.as_array().cloned().unwrap_or_default());
    for (table, keys) in [("output", &["plots", "plot_point", "title"][..]), ("arrivals", &["rates", "clients"])] {
        if let Some(Value::Object(table)) = root.get_mut(table) {
            table.retain(|key, _| !keys.contains(&key.as_str()));
        }
    }
    if matches!(scenario.workload.load, Load::Trace { .. }) {
        // Rates or several scales are loads; a single scale is not in the name of its point.
        let of_rates = root.get("arrivals").is_some_and(Value::is_object);
        // `remove` would change the order of the others.
        root.retain(|key, _| key != "arrivals");
        if let Some(Value::Object(workload)) = root.get_mut("workload")
            && (of_rates || workload["time_scale"].is_array())
        {
            workload.remove("time_scale");
        }
    }
    if real {
        root.remove("overhead");
        for table in root.get_mut("device").into_iter().chain(&mut policies).filter_map(Value::as_object_mut) {
            table.retain(|key, _| !["costs", "roofline", "noise", "overhead"].contains(&key.as_str()));
        }
    }
    let weights = scenario.workload.weights.as_deref();
    let model = scenario.workload.model.file().map(|(_, path)| path);
    let of_classes = scenario.classes.iter().map(|class| class.dataset.as_deref());
    let shared = [Some(&**scenario.workload.source()), weights, model, scenario.device.grnn.as_deref()]
        .into_iter()
        .chain(of_classes);
    let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("BATCHLAB_COMMIT"));
    let common = format!("{version} {commit} {device} {common} {}", hashes(shared)?);
    let of_policy = |(settings, policy): (&Value, &PolicyEntry)| {
        let own = [&policy.costs, &scenario.device.roofline, &scenario.device.noise];
        let own = hashes(own.into_iter().map(|file| file.as_deref().filter(|_| !real)))?;
        Ok(hash(&format!("{common} {settings} {own}")))
    };
    policies.iter().zip(&scenario.policies).map(of_policy).collect()
}

fn hashes<'p>(files: impl Iterator<Item = Option<&'p Path>>) -> Result<String> {
    let hashes = files.map(|file| file.map_or(Ok(String::new()), hash_of)).collect::<Result<Vec<_>>>();
    hashes.map(|hashes| hashes.join(" "))
}

pub(super) fn inputs_of(scenario: &Scenario) -> Result<Map<String, Value>> {
    scenario.inputs().map(|(given, path)| Ok((given.to_string(), json!(hash_of(path)?)))).collect()
}

/// Of a text, such as a scenario with all that decides its results.
pub fn hash(text: &str) -> String {
    format!("{:016x}", fnv1a(text.as_bytes()))
}

/// Empty for a generator.
pub fn hash_of(file: &Path) -> Result<String> {
    if !shipped::is_file(file) {
        return Ok(String::new());
    }
    let bytes = shipped::read(file).map_err(|cause| Error::unreadable(file, &cause))?;
    Ok(format!("{:016x}", fnv1a(&bytes)))
}
