//! A scenario as JSON, with every default in its place: what a result folder keeps to tell how it came about.

use serde_json::{Map, Value, json};

use super::{ArrivalSpec, Input, Load, PolicyEntry, Scenario, Warmup, gpu};
use crate::cost::table::Overhead;
use crate::workload::arrivals::{Process, Think};

pub(super) fn scenario(scenario: &Scenario) -> Value {
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

/// A whole number without a decimal point, as people write rates.
fn number(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53: from here on not every whole number is an f64
    if value.fract() == 0.0 && value.abs() < EXACT { json!(value as i64) } else { json!(value) }
}
