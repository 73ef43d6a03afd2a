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
