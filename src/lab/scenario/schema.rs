//! The JSON Schema of scenarios, for editors. Keys, defaults and descriptions are those of the reference; the permitted
//! types and words are found by giving samples to the readers of the tables.

use std::collections::BTreeSet;

use clap::ValueEnum as _;
use serde_json::{Map, Value, json};
use toml::de::{DeTable, Error};

use super::reference::{Reference, ReferenceKey};
use super::section::Owner;
use super::tables::{Given, POLICY};
use crate::core::policy::registry::Registry;
use crate::core::workload::arrivals::PROCESSES;
use crate::lab::plot::FigureKind;

/// A sample value of each type.
const SAMPLES: [(&str, &str); 8] = [
    ("boolean", "true"),
    ("integer", "2"),
    ("number", "0.5"),
    ("string", "'2ms'"),
    ("array", "[]"),
    ("array", "[2]"),
    ("array", "['a']"),
    ("object", "{ a = 2 }"),
];

type Read<'a> = &'a dyn Fn(&str) -> Result<(), Error>;

pub fn schema(registry: &Registry) -> Value {
    let reference = Reference::read();
    let mut properties = Map::new();
    for key in reference.keys("") {
        properties.insert(
            key.name.into(),
            describe(example_schema(&key.value), &key.about, key.default()),
        );
    }
    for (table, about) in reference
        .tables
        .iter()
        .filter(|(table, _)| !table.starts_with("policy"))
    {
        let keys = reference
            .keys(table)
            .map(|key| (key.name.to_string(), section_schema(key)))
            .collect();
        let required: &[&str] = if table == "workload" { &["model"] } else { &[] };
        let table_of = object(about, keys, required);
        // A table such as `output.figure` belongs to its parent, which comes before it.
        match table.split_once('.') {
            None => properties.insert(table.clone(), table_of),
            Some((parent, own)) => properties[parent]["properties"]
                .as_object_mut()
                .and_then(|all| all.insert(own.into(), table_of)),
        };
    }
    // The keys of the sweep are the paths of other keys.
    properties["sweep"]["additionalProperties"] = json!({ "type": ["array", "object"] });
    let kinds: Vec<Value> = registry
        .kinds()
        .map(|kind| policy_schema(kind, registry, &reference))
        .collect();
    properties.insert(
        "policy".into(),
        json!({ "type": "array", "minItems": 1, "items": { "oneOf": kinds } }),
    );
    let mut root = object(
        "A scenario of batchlab",
        properties,
        &["name", "workload", "policy"],
    );
    root["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    root
}

fn object(about: &str, properties: Map<String, Value>, required: &[&str]) -> Value {
    let base = json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false,
    });
    describe(base, about, None)
}

fn describe(mut schema: Value, about: &str, default: Option<&Value>) -> Value {
    if !about.is_empty() {
        schema["description"] = about.into();
    }
    if let Some(default) = default {
        schema["default"] = default.clone();
    }
    schema
}

fn section_schema(key: &ReferenceKey) -> Value {
    let others = "name = 's'\npolicy = []\nworkload.model = 'lstm'";
    let read =
        |text: &str| toml::from_str::<Given>(&format!("{others}\n{}.{text}", key.table)).map(drop);
    let allowed = match (key.table.as_str(), key.name) {
        ("arrivals", "process") => {
            json!({ "enum": ([&PROCESSES[..], &["closed", "trace"]].concat()) })
        }
        ("arrivals", _) | ("workload", "model") => example_schema(&key.value),
        ("output.figure", "format") => {
            json!({ "type": "array", "items": { "enum": ["svg", "png", "pdf"] } })
        }
        ("output", "plots") => {
            json!({ "type": "array", "items": { "enum": FigureKind::value_variants() } })
        }
        _ => reader_schema(key.name, &key.value, &key.about, &read),
    };
    describe(allowed, &key.about, key.default())
}

fn policy_schema(kind: &str, registry: &Registry, reference: &Reference) -> Value {
    let read = |text: &str| registry.parse(kind, DeTable::parse(text)?).map(drop);
    let mut properties =
        Map::from_iter([("kind".to_string(), json!({ "enum": registry.names(kind) }))]);
    for key in reference
        .keys("policy cellular")
        .filter(|key| POLICY.contains(&key.name) && key.name != "kind")
    {
        properties.insert(
            key.name.into(),
            describe(example_schema(&key.value), &key.about, None),
        );
    }
    for (key, default) in registry.defaults(kind).into_iter().flatten() {
        let about = reference.about(kind, key);
        properties.insert(
            key.clone(),
            describe(
                reader_schema(key, default, about, &read),
                about,
                Some(default),
            ),
        );
    }
    object(
        registry.about(kind).unwrap_or_default(),
        properties,
        &["kind"],
    )
}

/// The values that a reader accepts: several words, or types.
fn reader_schema(key: &str, example: &Value, about: &str, read: Read<'_>) -> Value {
    let reads = |value: &str| read(&format!("{key} = {value}"));
    let refused = reads("'2ms'")
        .err()
        .map(|error| Owner::default().reword(error.message(), "", ""));
    if let Some((what, known)) = refused
        .as_deref()
        .and_then(|problem| problem.split_once("known: "))
        && what.starts_with("unknown value")
    {
        return json!({ "enum": known.split(", ").collect::<Vec<_>>() });
    }
    let accepted = SAMPLES
        .iter()
        .filter(|(_, sample)| reads(sample).is_ok())
        .map(|(name, _)| *name);
    let mut types: BTreeSet<&str> = accepted.chain([type_of(example)]).collect();
    let words = about
        .split('"')
        .skip(1)
        .step_by(2)
        .any(|word| reads(&format!("'{word}'")).is_ok());
    types.extend(words.then_some("string"));
    if types.contains("number") {
        types.remove("integer");
    }
    json!({ "type": types })
}

fn example_schema(example: &Value) -> Value {
    // Rates are whole numbers in the reference.
    let name = type_of(example);
    json!({ "type": if name == "integer" { "number" } else { name } })
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null | Value::Object(_) => "object",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
    }
}
