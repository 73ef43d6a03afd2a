//! The tables of a scenario as they are written, before they are checked, and the values that serde cannot read by
//! itself. `scenarios/reference.toml` shows all keys.

use std::fmt::Display;

use serde::de::{DeserializeOwned, Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{Input, Scenario, Warmup, parse_name};
use crate::base::units::{Nanos, Rate};
use crate::core::cost::table::Overhead;
use crate::core::policy::values::time_with_unit;
use crate::core::workload::arrivals::check_rate;
use crate::core::workload::operator::Sizes;

/// The most requests of a run that forgets them.
const MOST_STREAMED: u64 = 1_000_000_000_000_000;
/// The most requests of a run that keeps them, each of which takes about a hundred bytes.
pub const MOST_KEPT: u64 = 200_000_000;
/// The most workers. A larger number is probably a typing error.
pub const MAX_WORKERS: u32 = 65_535;

/// A scenario as it is written. Its arrivals and policies are read separately.
pub type Given = Scenario<WorkloadTable, IgnoredAny, IgnoredAny>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadTable {
    pub model: String,
    #[serde(default, deserialize_with = "whole::<_, _, { Sizes::MAX_WIDTH }>")]
    pub hidden: Option<u32>,
    #[serde(default, deserialize_with = "whole::<_, _, { Sizes::MAX_WIDTH }>")]
    pub embedding: Option<u32>,
    #[serde(default, deserialize_with = "whole::<_, _, { Sizes::MAX_VOCABULARY }>")]
    pub vocabulary: Option<u32>,
    pub weights: Option<Input>,
    pub dataset: Option<Input>,
    #[serde(default, deserialize_with = "count")]
    pub requests: Option<u64>,
    #[serde(default, deserialize_with = "whole::<_, _, { u32::MAX }>")]
    pub max_length: Option<u32>,
    pub trace: Option<Input>,
    #[serde(default, deserialize_with = "one_or_list::deserialize")]
    pub time_scale: Option<Vec<f64>>,
}

/// The keys of [`PolicyTable`].
pub const POLICY: &[&str] = &["kind", "label", "costs", "overhead"];

/// The keys that every policy has. The others belong to its kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyTable {
    #[serde(rename = "kind")]
    _kind: String,
    pub label: Option<String>,
    pub costs: Option<Input>,
    #[serde(default)]
    pub overhead: Overhead,
}

pub fn one<T: From<u8>>() -> T {
    1.into()
}

/// Reads a whole number from 1 to `MOST`.
pub fn whole<'de, D: Deserializer<'de>, T: TryFrom<u32>, const MOST: u32>(
    deserializer: D,
) -> Result<T, D::Error> {
    let given = Value::deserialize(deserializer)?;
    let number = given
        .as_u64()
        .filter(|number| (1..=u64::from(MOST)).contains(number));
    let number = number.and_then(|number| T::try_from(number as u32).ok());
    number.ok_or_else(|| must_be(format_args!("a whole number from 1 to {MOST}"), &given))
}

/// Reads a whole number from 1 to 10^15.
pub fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let given = Value::deserialize(deserializer)?;
    let number = given
        .as_u64()
        .filter(|number| (1..=MOST_STREAMED).contains(number));
    number.map(Some).ok_or_else(|| {
        must_be(
            format_args!("a whole number from 1 to {MOST_STREAMED}"),
            &given,
        )
    })
}

/// Reads one of several names. The error on other values lists them.
pub fn choice<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<T, D::Error> {
    let given = Value::deserialize(deserializer)?;
    parse_name(given.as_str().unwrap_or(&given.to_string())).map_err(D::Error::custom)
}

fn must_be<E: serde::de::Error>(what: impl Display, given: &Value) -> E {
    E::custom(format!("must be {what}, not {given}"))
}

/// Reads and writes a number, or a list of numbers.
pub mod one_or_list {
    use super::*;

    pub fn serialize<S: Serializer>(numbers: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
        match numbers {
            [one] => one.serialize(serializer),
            several => several.serialize(serializer),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<f64>>, D::Error> {
        let given = Value::deserialize(deserializer)?;
        let numbers = given
            .as_array()
            .map_or(std::slice::from_ref(&given), Vec::as_slice);
        let numbers: Option<Vec<f64>> = numbers.iter().map(Value::as_f64).collect();
        numbers
            .map(Some)
            .ok_or_else(|| must_be("a number above 0, or a list of such numbers", &given))
    }
}

pub mod positive_time {
    use super::*;

    pub fn serialize<S: Serializer>(
        time: &Option<Nanos>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(|time| time.to_string()).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Nanos>, D::Error> {
        match time_with_unit::deserialize(deserializer)? {
            Nanos::ZERO => Err(D::Error::custom("must be longer than 0")),
            time => Ok(Some(time)),
        }
    }
}

/// Reads a rate, or the name of another point.
pub fn point<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let given = Value::deserialize(deserializer)?;
    if let Some(name) = given.as_str() {
        return Ok(Some(name.into()));
    }
    let rate = Rate(
        given
            .as_f64()
            .ok_or_else(|| must_be("a rate or the name of a point", &given))?,
    );
    check_rate(rate)
        .map(|()| Some(rate.to_string()))
        .map_err(D::Error::custom)
}

impl<'de> Deserialize<'de> for Warmup {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = Value::deserialize(deserializer)?;
        let text = given.as_str().unwrap_or_default();
        let share = text
            .strip_suffix('%')
            .and_then(|percent| percent.trim().parse::<f64>().ok());
        let count = given.as_u64().and_then(|count| u32::try_from(count).ok());
        match (text, share, count) {
            (.., Some(count)) => Ok(Warmup::Requests(count)),
            ("auto", ..) => Ok(Warmup::Auto),
            ("none", ..) => Ok(Warmup::None),
            ("mser5", ..) => Ok(Warmup::Mser5),
            (_, Some(percent), _) if (0.0..100.0).contains(&percent) => {
                Ok(Warmup::Share(percent / 100.0))
            }
            _ => {
                let what = "\"auto\", \"none\", \"mser5\", a share below 100% such as \"10%\", or a number of requests";
                Err(must_be(what, &given))
            }
        }
    }
}

impl Serialize for Warmup {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Warmup::Requests(count) => count.serialize(serializer),
            rule => serializer.collect_str(rule),
        }
    }
}
