//! A `[[policy]]` table from the `config.pbtxt` of a model in Triton's repository.

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;
use smart_default::SmartDefault;
use toml::Table;

use super::text_format;
use crate::base::error::{Error, Result};
use crate::base::units::Nanos;
use crate::core::policy::closed_batches::Version;
use crate::core::policy::triton::{QueuePolicy, TimeoutAction, Triton};

/// The policy of a model, and notes on the fields of its configuration that are not modelled.
#[derive(Debug)]
pub struct ImportedPolicy {
    pub policy: Triton,
    pub notes: Vec<String>,
}

/// The fields of a model that change nothing that batchlab simulates.
const WITHOUT_EFFECT: &str = "name platform backend runtime version_policy input output batch_input batch_output \
    default_model_filename cc_model_filenames metric_tags parameters model_repository_agents model_metrics profile";

#[derive(Deserialize)]
struct TritonModel {
    #[serde(default)]
    max_batch_size: u32,
    dynamic_batching: Option<DynamicBatching>,
    #[serde(default)]
    instance_group: Vec<InstanceGroup>,
}

#[derive(Deserialize, SmartDefault)]
#[serde(default)]
struct InstanceGroup {
    #[default = 1]
    count: u16,
    #[default("KIND_AUTO".into())]
    #[serde(deserialize_with = "kind_name")]
    kind: String,
}

/// The kinds of instances by their numbers (model_config.proto).
const KINDS: [&str; 4] = ["KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL"];
/// The actions after a timeout by their numbers.
const ACTIONS: [&str; 2] = ["REJECT", "DELAY"];

#[derive(Default, Deserialize)]
#[serde(default)]
struct DynamicBatching {
    preferred_batch_size: Vec<u32>,
    #[serde(rename = "max_queue_delay_microseconds", deserialize_with = "micros")]
    max_queue_delay: Nanos,
    #[serde(deserialize_with = "flag")]
    preserve_ordering: bool,
    priority_levels: u32,
    default_priority_level: u32,
    #[serde(with = "QueueFields")]
    default_queue_policy: QueuePolicy,
    priority_queue_policy: Vec<PriorityEntry>,
}

#[derive(Deserialize)]
struct PriorityEntry {
    key: u32,
    #[serde(default, with = "QueueFields")]
    value: QueuePolicy,
}

#[derive(Deserialize)]
#[serde(remote = "QueuePolicy")]
struct QueueFields {
    #[serde(default)]
    max_queue_size: u32,
    #[serde(
        default,
        rename = "default_timeout_microseconds",
        deserialize_with = "micros"
    )]
    default_timeout: Nanos,
    #[serde(default, deserialize_with = "timeout_action")]
    timeout_action: TimeoutAction,
    #[serde(default, deserialize_with = "flag")]
    allow_timeout_override: bool,
}

/// Reads the name of an enum's value, or its number.
fn name_or_number<'de, D: Deserializer<'de>>(
    deserializer: D,
    names: &'static [&'static str],
) -> Result<&'static str, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let name = match &value {
        Value::String(text) => names.iter().find(|name| *name == text),
        _ => {
            let number = value.as_u64().and_then(|number| number.try_into().ok());
            number.and_then(|number: usize| names.get(number))
        }
    };
    let unknown = || {
        de::Error::custom(format_args!(
            "{value} is unknown; known: {} (0 to {})",
            names.join(", "),
            names.len() - 1
        ))
    };
    name.copied().ok_or_else(unknown)
}

fn kind_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    name_or_number(deserializer, &KINDS).map(String::from)
}

fn timeout_action<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TimeoutAction, D::Error> {
    Ok(match name_or_number(deserializer, &ACTIONS)? {
        "REJECT" => TimeoutAction::Reject,
        _ => TimeoutAction::Delay,
    })
}

/// Reads a flag in all forms of the text format.
fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let value = Value::deserialize(deserializer)?;
    match value.to_string().trim_matches('"') {
        "true" | "True" | "t" | "1" => Ok(true),
        "false" | "False" | "f" | "0" => Ok(false),
        other => Err(de::Error::custom(format_args!(
            "{other} is neither true nor false"
        ))),
    }
}

fn micros<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
    u64::deserialize(deserializer).map(|micros| Nanos(micros).saturating_mul(1_000))
}

/// Makes a list of a single value: in the text format, a list of one looks like its value.
fn make_list(field: Option<&mut Value>) {
    if let Some(one) = field.filter(|field| !field.is_array()) {
        *one = vec![one.take()].into();
    }
}

/// Reads the policy of a model for this release of Triton.
///
/// # Errors
/// The text is not a configuration, the scheduler is not the dynamic batcher, or the batcher does not take a value.
pub fn policy(text: &str, version: Version) -> Result<ImportedPolicy> {
    let mut fields = text_format::parse(text)?;
    make_list(fields.get_mut("instance_group"));
    for list in ["preferred_batch_size", "priority_queue_policy"] {
        make_list(
            fields
                .get_mut("dynamic_batching")
                .and_then(|batching| batching.get_mut(list)),
        );
    }
    let mut track = serde_path_to_error::Track::new();
    let mut unknown = Vec::new();
    let tracked = serde_path_to_error::Deserializer::new(Value::Object(fields), &mut track);
    let found = serde_ignored::deserialize(tracked, |path| {
        unknown.extend(path.to_string().rsplit('.').next().map(String::from))
    });
    let TritonModel {
        max_batch_size: max_batch,
        dynamic_batching,
        instance_group,
    } = found
        .map_err(|error| Error::input(serde_path_to_error::Error::new(track.path(), error)))?;
    if let Some(other) = unknown
        .iter()
        .find(|name| ["sequence_batching", "ensemble_scheduling"].contains(&name.as_str()))
    {
        return Err(Error::input(format!(
            "{other}: batchlab models the dynamic batcher only"
        )));
    }
    if max_batch == 0 {
        return Err(Error::input(
            "max_batch_size: missing or 0, so Triton does not batch this model",
        ));
    }
    let batching = dynamic_batching.ok_or_else(|| {
        Error::input(
            "dynamic_batching: missing, so each request runs by itself; use kind = \"unbatched\"",
        )
    })?;
    unknown.retain(|name| WITHOUT_EFFECT.split(' ').all(|other| other != name));
    let (require_gpu, elsewhere): (Vec<InstanceGroup>, Vec<InstanceGroup>) = instance_group
        .into_iter()
        .partition(|group| ["KIND_GPU", "KIND_AUTO"].contains(&group.kind.as_str()));
    let note = |name: String| match name.as_str() {
        "gpus" => "instance_group.gpus: set device.workers to their number".into(),
        name => format!("{name}: not modelled"),
    };
    let notes = unknown
        .into_iter()
        .chain(elsewhere.into_iter().map(|group| group.kind))
        .map(note)
        .collect();
    let policies = batching.priority_queue_policy.into_iter();
    let policy = Triton {
        max_batch,
        preferred_batch_size: batching.preferred_batch_size,
        max_queue_delay: batching.max_queue_delay,
        priority_levels: batching.priority_levels,
        default_priority_level: batching.default_priority_level,
        default_queue_policy: batching.default_queue_policy,
        priority_queue_policy: policies
            .map(|PriorityEntry { key, value }| (key.to_string(), value))
            .collect(),
        preserve_ordering: batching.preserve_ordering,
        instances: require_gpu
            .iter()
            .fold(0, |sum: u16, group| sum.saturating_add(group.count))
            .max(1),
        version,
        ..Triton::default()
    };
    policy.check().map_err(Error::input)?;
    Ok(ImportedPolicy { policy, notes })
}

impl ImportedPolicy {
    /// The policy as TOML for a scenario.
    pub fn table(&self) -> Result<String> {
        let mut policy = Table::try_from(&self.policy).map_err(Error::failure)?;
        policy.insert("kind".into(), "triton".into());
        Ok(Table::from_iter([(
            "policy".to_string(),
            toml::Value::Array(vec![policy.into()]),
        )])
        .to_string())
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
        let imported = policy(CONFIG, Version::Closed).unwrap();
        let expected = "version = '21.10'\nmax_batch = 16\npreferred_batch_size = [4, 8]\nmax_queue_delay = '100us'\n\
                        priority_levels = 2\ndefault_priority_level = 2\ninstances = 2\n\
                        default_queue_policy = { timeout_action = 'delay', default_timeout = '5ms' }\n\
                        priority_queue_policy = { 1 = { max_queue_size = 10, allow_timeout_override = true } }\n";
        let expected: Triton = toml::from_str(expected).unwrap();
        assert_eq!(format!("{:?}", imported.policy), format!("{expected:?}"));
        assert_eq!(
            imported.notes,
            [
                "instance_group.gpus: set device.workers to their number",
                "model_warmup: not modelled"
            ]
        );
    }

    #[test]
    fn numbers_of_enums_and_the_longest_delay_become_a_table_that_reads_back() {
        let text = "max_batch_size: 0x10 instance_group { kind: 1 count: 2 } dynamic_batching { preserve_ordering: 1 \
                    max_queue_delay_microseconds: 18446744073709551615 default_queue_policy { timeout_action: 0 } \
                    priority_levels: 0 }";
        let imported = policy(text, Version::Open).unwrap();
        let known = &imported.policy;
        assert_eq!((known.max_batch, known.instances), (16, 2));
        assert_eq!(known.max_queue_delay, Nanos::MAX);
        assert!(known.preserve_ordering);
        let table: Table = toml::from_str(&imported.table().unwrap()).unwrap();
        let mut written = table["policy"][0].as_table().unwrap().clone();
        written.remove("kind");
        let again: Triton = written.try_into().unwrap();
        assert_eq!(format!("{again:?}"), format!("{known:?}"));
    }

    #[test]
    fn other_schedulers_and_bad_values_are_refused() {
        for (text, message) in [
            (
                "max_batch_size: 0 dynamic_batching {}",
                "max_batch_size: missing or 0",
            ),
            ("max_batch_size: 4", "dynamic_batching: missing"),
            (
                "max_batch_size: x",
                "max_batch_size: invalid type: string \"x\", expected u32",
            ),
            (
                "max_batch_size: 4 sequence_batching { oldest {} }",
                "batchlab models the dynamic batcher only",
            ),
            (
                "dynamic_batching { max_queue_delay_microseconds: -1 }",
                "invalid value: integer `-1`",
            ),
            (
                "dynamic_batching { default_queue_policy { timeout_action: DROP } }",
                "\"DROP\" is unknown; known: REJECT, DELAY (0 to 1)",
            ),
            (
                "max_batch_size: 4 dynamic_batching { preferred_batch_size: 8 }",
                "8 must be between 1 and max_batch (4)",
            ),
        ] {
            let error = policy(text, Version::default()).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
