//! A scenario as JSON with all defaults, kept with the results; and back.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::source::Source;
use super::{ArrivalSpec, Input, Load, PolicyEntry, Scenario, Warmup, check, gpu};
use crate::cost::table::Overhead;
use crate::error::{Context as _, Error, Result};
use crate::policy::registry::Registry;
use crate::workload::arrivals::{Process, Think};

pub(super) fn to_json(scenario: &Scenario) -> Value {
    let Scenario { name, seed, file: _, workload, device, overhead: common, metrics, output, policies } = scenario;
    let mut root = Map::new();
    root.insert("name".into(), json!(name));
    root.insert("seed".into(), json!(seed));

    let mut table = Map::new();
    table.insert("model".into(), json!(workload.model.name()));
    table.insert("hidden".into(), json!(workload.hidden));
    table.insert("embedding".into(), json!(workload.embedding));
    table.insert("vocabulary".into(), json!(workload.vocabulary));
    table.insert("weights".into(), json!(workload.weights.as_ref().map(Input::given)));
    match &workload.load {
        Load::Drawn { dataset, requests, max_length, arrivals: process } => {
            table.insert("dataset".into(), json!(dataset.given()));
            table.insert("requests".into(), json!(requests));
            table.insert("max_length".into(), json!(max_length));
            root.insert("workload".into(), table.into());
            root.insert("arrivals".into(), arrivals(process));
        }
        Load::Trace { trace, time_scale } => {
            table.insert("trace".into(), json!(trace.given()));
            table.insert("time_scale".into(), number(*time_scale));
            root.insert("workload".into(), table.into());
        }
    }
    let [precision, signal, launch] = gpu::names(&device.gpu);
    root.insert(
        "device".into(),
        json!({
            "workers": device.workers,
            "costs": device.costs.as_ref().map(Input::given),
            "roofline": device.roofline.as_ref().map(Input::given),
            "grnn": device.grnn.as_ref().map(Input::given),
            "max_waiting": device.max_waiting,
            "precision": precision,
            "signal": signal,
            "launch": launch,
        }),
    );
    root.insert("overhead".into(), overhead(*common));
    root.insert(
        "metrics".into(),
        json!({
            "slo": metrics.slo.map(|slo| slo.to_string()),
            "quantile": metrics.quantile.name(),
            "warmup": match metrics.warmup {
                Warmup::Requests(count) => json!(count),
                rule => json!(rule.to_string()),
            },
        }),
    );
    root.insert(
        "output".into(),
        json!({
            "requests": output.requests,
            "tasks": output.tasks,
            "timeline": output.timeline,
            "plots": output.plots.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "plot_point": output.plot_point,
            "title": output.title,
        }),
    );
    root.insert("policy".into(), policies.iter().map(policy).collect());
    root.into()
}

fn arrivals(arrivals: &ArrivalSpec) -> Value {
    let mut table = Map::new();
    match arrivals {
        ArrivalSpec::Closed { clients, think } => {
            let (mean, distribution) = match think {
                Think::Constant(time) => (time, "constant"),
                Think::Exponential(mean) => (mean, "exponential"),
            };
            table.insert("process".into(), json!("closed"));
            table.insert("clients".into(), json!(clients));
            table.insert("think".into(), json!(mean.to_string()));
            table.insert("think_dist".into(), json!(distribution));
        }
        ArrivalSpec::Open { process, rates } => {
            table.insert("process".into(), json!(process.name()));
            let parameters = match *process {
                Process::Poisson | Process::Uniform | Process::Offline => vec![],
                Process::Gamma { cv } => vec![("cv", number(cv))],
                Process::Mmpp { ratio, low, high } => {
                    vec![("ratio", number(ratio)), ("low", json!(low.to_string())), ("high", json!(high.to_string()))]
                }
                Process::Stepping { from, to, steps } => {
                    vec![("from", number(from.0)), ("to", number(to.0)), ("steps", json!(steps))]
                }
            };
            table.extend(parameters.into_iter().map(|(key, value)| (key.to_string(), value)));
            if process.takes_rate() {
                table.insert("rates".into(), rates.iter().map(|rate| number(rate.0)).collect());
            }
        }
    }
    table.into()
}

fn overhead(overhead: Overhead) -> Value {
    let Overhead { task, gather, launch } = overhead;
    json!({ "task_ns": task, "gather_ns": gather, "launch_ns": launch })
}

fn policy(policy: &PolicyEntry) -> Value {
    let mut table = Map::new();
    table.insert("kind".into(), json!(policy.settings.kind()));
    table.insert("label".into(), json!(policy.label));
    table.insert("costs".into(), json!(policy.costs.as_ref().map(Input::given)));
    table.insert("overhead".into(), overhead(policy.overhead));
    table.extend(policy.settings.values());
    table.into()
}

/// Without a decimal point if whole.
fn number(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53: from here on not every whole number is an f64
    if value.fract() == 0.0 && value.abs() < EXACT { json!(value as i64) } else { json!(value) }
}

/// Converts the JSON to TOML, so that one parser checks both.
pub(super) fn restore(resolved: &Value, file: &Path, kept_in: &Path, registry: &Registry) -> Result<Scenario> {
    let mut root = match given(resolved.clone()) {
        Some(Value::Object(root)) => root,
        _ => return Err(Error::input("scenario: must be a table")).within(kept_in.display()),
    };
    // Seeds may exceed TOML's integers.
    let seed = root.remove("seed").as_ref().and_then(Value::as_u64);
    let text = toml::to_string(&root).map_err(|cause| Error::input(format!("scenario: {cause}")));
    let mut scenario = check::scenario(&Source::kept(file, text.within(kept_in.display())?, kept_in), registry)?;
    scenario.seed = seed.unwrap_or(scenario.seed);
    Ok(scenario)
}

/// Without nulls, whose keys a user would leave out.
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
            // The reference names a trace that does not exist.
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
