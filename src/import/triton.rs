//! A `[[policy]]` table from the `config.pbtxt` of a model in Triton's repository.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use smart_default::SmartDefault;
use toml::Table;

use super::text_format;
use crate::error::{Error, Result};
use crate::policy::triton::{QueuePolicy, TimeoutAction, Triton};
use crate::units::Nanos;

/// The policy of a model, and the fields of its configuration that are not modelled.
#[derive(Debug)]
pub struct Imported {
    pub policy: Triton,
    pub notes: Vec<String>,
}

/// Fields of a model that change nothing that batchlab simulates.
const WITHOUT_EFFECT: &[&str] = &[
    "name",
    "platform",
    "backend",
    "runtime",
    "version_policy",
    "input",
    "output",
    "batch_input",
    "batch_output",
    "default_model_filename",
    "cc_model_filenames",
    "metric_tags",
    "parameters",
    "model_repository_agents",
    "model_metrics",
    "profile",
];

#[derive(Deserialize)]
struct Model {
    #[serde(default)]
    max_batch_size: u32,
    dynamic_batching: Option<Batching>,
    #[serde(default, deserialize_with = "one_or_several")]
    instance_group: Vec<Group>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Deserialize, SmartDefault)]
#[serde(default)]
struct Group {
    #[default = 1]
    count: u16,
    #[default("KIND_AUTO".into())]
    kind: String,
    #[serde(flatten)]
    #[default(Map::new())]
    others: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Batching {
    #[serde(deserialize_with = "one_or_several")]
    preferred_batch_size: Vec<u32>,
    max_queue_delay_microseconds: u64,
    preserve_ordering: bool,
    priority_levels: u32,
    default_priority_level: u32,
    default_queue_policy: Queue,
    #[serde(deserialize_with = "one_or_several")]
    priority_queue_policy: Vec<Entry>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Deserialize)]
struct Entry {
    key: u32,
    #[serde(default)]
    value: Queue,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Queue {
    timeout_action: Action,
    default_timeout_microseconds: u64,
    allow_timeout_override: bool,
    max_queue_size: u32,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Action {
    #[default]
    Reject,
    Delay,
}

fn one_or_several<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either<T> {
        Several(Vec<T>),
        One(T),
    }
    Ok(match Either::deserialize(deserializer)? {
        Either::Several(several) => several,
        Either::One(one) => vec![one],
    })
}

impl From<Queue> for QueuePolicy {
    fn from(queue: Queue) -> QueuePolicy {
        QueuePolicy {
            max_queue_size: queue.max_queue_size,
            default_timeout: Nanos(queue.default_timeout_microseconds).saturating_mul(1_000),
            timeout_action: match queue.timeout_action {
                Action::Reject => TimeoutAction::Reject,
                Action::Delay => TimeoutAction::Delay,
            },
            allow_timeout_override: queue.allow_timeout_override,
        }
    }
}

/// # Errors
/// Text that is no configuration, other schedulers than the dynamic batcher, and values that the batcher does not take.
pub fn policy(text: &str) -> Result<Imported> {
    let model: Model =
        serde_path_to_error::deserialize(Value::Object(text_format::parse(text)?)).map_err(Error::input)?;
    if let Some(other) =
        ["sequence_batching", "ensemble_scheduling"].iter().find(|name| model.others.contains_key(**name))
    {
        return Err(Error::input(format!("{other}: batchlab models the dynamic batcher only")));
    }
    if model.max_batch_size == 0 {
        return Err(Error::input("max_batch_size: missing or 0, so Triton does not batch this model"));
    }
    let batching = model.dynamic_batching.ok_or_else(|| {
        Error::input("dynamic_batching: missing, so each request runs by itself; use kind = \"unbatched\"")
    })?;
    let mut others = vec![&model.others, &batching.others, &batching.default_queue_policy.others];
    others.extend(batching.priority_queue_policy.iter().map(|entry| &entry.value.others));
    others.extend(model.instance_group.iter().map(|group| &group.others));
    let others = others.into_iter().flat_map(Map::keys).filter(|name| !WITHOUT_EFFECT.contains(&name.as_str()));
    let mut notes: Vec<String> = others
        .map(|name| match name.as_str() {
            "gpus" => "instance_group.gpus: set device.workers to their number".into(),
            name => format!("{name}: not modelled"),
        })
        .collect();
    let on_gpus = |group: &&Group| matches!(group.kind.as_str(), "KIND_GPU" | "KIND_AUTO");
    notes.extend(
        model
            .instance_group
            .iter()
            .filter(|group| !on_gpus(group))
            .map(|group| format!("{}: not modelled", group.kind)),
    );
    let policies = batching.priority_queue_policy.into_iter();
    let policy = Triton {
        max_batch: model.max_batch_size,
        preferred_batch_size: batching.preferred_batch_size,
        max_queue_delay: Nanos(batching.max_queue_delay_microseconds).saturating_mul(1_000),
        priority_levels: batching.priority_levels,
        default_priority_level: batching.default_priority_level,
        default_queue_policy: batching.default_queue_policy.into(),
        priority_queue_policy: policies
            .map(|entry| (entry.key.to_string(), entry.value.into()))
            .collect::<BTreeMap<_, _>>(),
        preserve_ordering: batching.preserve_ordering,
        instances: model
            .instance_group
            .iter()
            .filter(on_gpus)
            .fold(0, |sum: u16, group| sum.saturating_add(group.count))
            .max(1),
        ..Triton::default()
    };
    policy.check().map_err(Error::input)?;
    Ok(Imported { policy, notes })
}

impl Imported {
    /// As it stands in a scenario.
    pub fn table(&self) -> Result<String> {
        let mut policy = Table::try_from(&self.policy).map_err(Error::failed)?;
        policy.insert("kind".into(), "triton".into());
        Ok(Table::from_iter([("policy".to_string(), toml::Value::Array(vec![policy.into()]))]).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"
name: "bert"  # a comment
platform: "onnxruntime_onnx"
max_batch_size: 16
input [ { name: "ids" data_type: TYPE_INT64 dims: [ -1 ] } ]
output [ { name: "logits", data_type: TYPE_FP32, dims: [ 2 ] } ]
instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] } ]
dynamic_batching {
  preferred_batch_size: [ 4, 8 ]
  max_queue_delay_microseconds: 100
  priority_levels: 2
  default_priority_level: 2
  default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 5000 }
  priority_queue_policy { key: 1 value: { max_queue_size: 10 allow_timeout_override: true } }
}
model_warmup [ { name: "w" batch_size: 1 } ]
"#;

    #[test]
    fn a_configuration_becomes_a_policy() {
        let imported = policy(CONFIG).unwrap();
        let expected = "max_batch = 16\npreferred_batch_size = [4, 8]\nmax_queue_delay = '100us'\n\
                        priority_levels = 2\ndefault_priority_level = 2\ninstances = 2\n\
                        default_queue_policy = { timeout_action = 'delay', default_timeout = '5ms' }\n\
                        priority_queue_policy = { 1 = { max_queue_size = 10, allow_timeout_override = true } }\n";
        let expected: Triton = toml::from_str(expected).unwrap();
        assert_eq!(format!("{:?}", imported.policy), format!("{expected:?}"));
        assert_eq!(
            imported.notes,
            ["model_warmup: not modelled", "instance_group.gpus: set device.workers to their number"]
        );
    }

    #[test]
    fn other_schedulers_and_bad_values_are_refused() {
        for (text, message) in [
            ("max_batch_size: 0 dynamic_batching {}", "max_batch_size: missing or 0"),
            ("max_batch_size: 4", "dynamic_batching: missing"),
            ("max_batch_size: x", "max_batch_size: invalid type: string \"x\", expected u32"),
            ("max_batch_size: 4 sequence_batching { oldest {} }", "batchlab models the dynamic batcher only"),
            ("dynamic_batching { max_queue_delay_microseconds: -1 }", "invalid value: integer `-1`"),
            ("dynamic_batching { default_queue_policy { timeout_action: DROP } }", "unknown variant `DROP`"),
            ("max_batch_size: 4 dynamic_batching { preferred_batch_size: 8 }", "8 must be between 1 and max_batch (4)"),
        ] {
            let error = policy(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
