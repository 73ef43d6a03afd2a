//! A scenario as JSON with all defaults, kept with the results; and back.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::section::REMOVED_FROM_DEVICE;
use super::source::Source;
use super::{Scenario, check};
use crate::base::error::{Error, Result};
use crate::core::policy::registry::Registry;

impl Scenario {
    /// Every key with its effective value, defaults included. Paths are as given.
    pub fn resolved_json(&self) -> Value {
        let mut root = serde_json::to_value(self).expect("a scenario has texts as keys");
        if let Some(Value::Object(tagged)) = root.get_mut("arrivals").map(Value::take) {
            let (process, keys) = tagged.into_iter().next().expect("the process is the tag");
            let mut arrivals = Map::from_iter([("process".to_string(), process.into())]);
            arrivals.extend(keys.as_object().cloned().unwrap_or_default());
            root["arrivals"] = arrivals.into();
        }
        for table in ["workload", "arrivals"] {
            root.get_mut(table).into_iter().for_each(shorten);
        }
        root
    }

    /// Converts the JSON to TOML, so that one parser checks both. Files are looked for in the current folder and next
    /// to `file`, the original scenario; `kept_in` keeps the JSON.
    pub fn restore(
        resolved: &Value,
        file: &Path,
        kept_in: &Path,
        registry: &Registry,
    ) -> Result<Scenario> {
        let refused = |problem: String| Error::input(format!("{}: {problem}", kept_in.display()));
        let Some(Value::Object(mut root)) = without_nulls(resolved.clone()) else {
            return Err(refused("scenario: must be a table".into()));
        };
        if let (true, Some(workload)) = (root.contains_key("arrivals"), root.get_mut("workload")) {
            // This is the default for a trace, which rates scale instead.
            workload
                .as_object_mut()
                .map(|workload| workload.remove("time_scale"));
        }
        // Results of earlier versions have these keys.
        if let Some(device) = root.get_mut("device").and_then(Value::as_object_mut) {
            for (key, _) in REMOVED_FROM_DEVICE {
                device.remove(key);
            }
        }
        let mut swept = Vec::new();
        for policy in root
            .get_mut("policy")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(kind) = policy["kind"]
                .as_str()
                .filter(|kind| registry.keys(kind).is_none())
            {
                return Err(refused(format!(
                    "the policy \"{kind}\" is one of another program; use the program that ran it on these results"
                )));
            }
            let keys = policy
                .as_object_mut()
                .and_then(|keys| keys.remove("swept"))
                .map(serde_json::from_value);
            swept.push(
                keys.transpose()
                    .map_err(|cause| refused(format!("swept: {cause}")))?
                    .unwrap_or_default(),
            );
        }
        // Seeds may exceed TOML's integers.
        let seed = root.remove("seed").as_ref().and_then(Value::as_u64);
        let text = toml::to_string(&root).map_err(|cause| refused(format!("scenario: {cause}")))?;
        let mut scenario =
            check::scenario_alone(&Source::from_copy(file, text, kept_in), registry)?;
        scenario.seed = seed.unwrap_or(scenario.seed);
        scenario
            .policies
            .iter_mut()
            .zip(swept)
            .for_each(|(entry, swept)| entry.swept = swept);
        Ok(scenario)
    }
}

/// Writes whole numbers without a decimal point.
fn shorten(value: &mut Value) {
    const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53: from here on not every whole number is an f64
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number
                .as_f64()
                .filter(|number| number.fract() == 0.0 && number.abs() < EXACT);
            whole
                .into_iter()
                .for_each(|whole| *value = json!(whole as i64));
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(table) => table.values_mut().for_each(shorten),
        _ => {}
    }
}

/// The value without nulls, whose keys a user would leave out.
fn without_nulls(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(table) => {
            let entries = table
                .into_iter()
                .filter_map(|(key, value)| Some((key, without_nulls(value)?)));
            Some(Value::Object(entries.collect::<Map<_, _>>()))
        }
        Value::Array(items) => Some(Value::Array(
            items.into_iter().filter_map(without_nulls).collect(),
        )),
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
            // The reference names a trace that does not exist.
            let Ok(mut scenario) = Scenario::load(&file, &[], &registry) else {
                continue;
            };
            scenario.seed = u64::MAX;
            let kept = scenario.resolved_json();
            let restored =
                Scenario::restore(&kept, &file, Path::new("run.json"), &registry).unwrap();
            assert_eq!(restored.resolved_json(), kept, "{}", file.display());
            assert_eq!(restored.file, file);
            read += 1;
        }
        assert!(read > 5, "{read}");
    }

    #[test]
    fn a_trace_at_rates_is_kept() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/dvabatch/case1.toml");
        let registry = Registry::standard();
        let arrivals = "arrivals={ rates = [1000] }".to_string();
        let kept = Scenario::load(&file, &[arrivals], &registry)
            .unwrap()
            .resolved_json();
        let restored = Scenario::restore(&kept, &file, Path::new("run.json"), &registry).unwrap();
        assert_eq!(restored.resolved_json(), kept);
    }

    #[test]
    fn keys_that_were_removed_are_read_in_earlier_results() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/quickstart.toml");
        let registry = Registry::standard();
        let kept = Scenario::load(&file, &[], &registry)
            .unwrap()
            .resolved_json();
        let mut earlier = kept.clone();
        earlier["device"]["signal"] = "kernel".into();
        earlier["device"]["launch"] = "graph".into();
        let restored =
            Scenario::restore(&earlier, &file, Path::new("run.json"), &registry).unwrap();
        assert_eq!(restored.resolved_json(), kept);
    }

    #[test]
    fn what_is_wrong_has_no_line() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/quickstart.toml");
        let registry = Registry::standard();
        let mut kept = Scenario::load(&file, &[], &registry)
            .unwrap()
            .resolved_json();
        kept["device"]["costs"] = "gone.csv".into();
        let restore = |kept: &Value| {
            Scenario::restore(kept, &file, Path::new("out/run.json"), &registry).unwrap_err()
        };
        let error = restore(&kept).to_string();
        assert!(
            error.starts_with("out/run.json: device.costs: no such file: gone.csv, nor "),
            "{error}"
        );
        assert_eq!(
            restore(&Value::Null).to_string(),
            "out/run.json: scenario: must be a table"
        );
    }
}
