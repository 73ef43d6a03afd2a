//! The way back from a scenario's JSON, which a results folder keeps, to the scenario.
//!
//! The JSON is written as the TOML that a user would have written, so that it is read and checked in one place.

use std::path::Path;

use serde_json::{Map, Value};

use super::source::Source;
use super::{Scenario, check};
use crate::error::{Context as _, Error, Result};
use crate::policy::registry::Registry;

pub(super) fn scenario(resolved: &Value, file: &Path, kept_in: &Path, registry: &Registry) -> Result<Scenario> {
    let mut root = match given(resolved.clone()) {
        Some(Value::Object(root)) => root,
        _ => return Err(Error::input("scenario: must be a table")).within(kept_in.display()),
    };
    // TOML has no room for the upper half of the seeds.
    let seed = root.remove("seed").as_ref().and_then(Value::as_u64);
    let text = toml::to_string(&root).map_err(|cause| Error::input(format!("scenario: {cause}")));
    let mut scenario = check::scenario(&Source::kept(file, text.within(kept_in.display())?, kept_in), registry)?;
    scenario.seed = seed.unwrap_or(scenario.seed);
    Ok(scenario)
}

/// A value without the keys that have none, which a user leaves out.
fn given(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(table) => {
            let entries = table.into_iter().filter_map(|(key, value)| Some((key, given(value)?)));
            Some(Value::Object(entries.collect::<Map<_, _>>()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(given).collect())),
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// The scenarios that come with batchlab.
    fn shipped() -> Vec<PathBuf> {
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.extension() {
                    None if path.is_dir() => folders.push(path),
                    Some(ending) if ending == "toml" => files.push(path),
                    _ => {}
                }
            }
        }
        files
    }

    #[test]
    fn what_is_kept_of_a_scenario_is_all_of_it() {
        let registry = Registry::standard();
        let mut read = 0;
        for file in shipped() {
            // The reference names a trace that is not there.
            let Ok(mut scenario) = Scenario::load(&file, &[], &registry) else { continue };
            scenario.seed = u64::MAX;
            let kept = scenario.resolved_json();
            let restored = Scenario::restore(&kept, &file, Path::new("run.json"), &registry).unwrap();
            assert_eq!(restored.resolved_json(), kept, "{}", file.display());
            assert_eq!(restored.file, file);
            read += 1;
        }
        assert!(read > 5, "{read}");
    }

    #[test]
    fn what_is_wrong_has_no_line() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/quickstart.toml");
        let registry = Registry::standard();
        let mut kept = Scenario::load(&file, &[], &registry).unwrap().resolved_json();
        kept["device"]["costs"] = "gone.csv".into();
        let restore = |kept: &Value| Scenario::restore(kept, &file, Path::new("out/run.json"), &registry).unwrap_err();
        let error = restore(&kept).to_string();
        assert!(error.starts_with("out/run.json: device.costs: no such file: gone.csv, nor "), "{error}");
        assert_eq!(restore(&Value::Null).to_string(), "out/run.json: scenario: must be a table");
    }
}
