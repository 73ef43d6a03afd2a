//! Times that a scenario may leave to a rule: a time with its unit, or the rule's name.

use std::fmt;

use serde::Deserializer;
use serde::de::{self, Visitor};

use crate::policy::values::time_with_unit;
use crate::units::Nanos;

/// How long the first request of a batch waits for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// So long.
    Time(Nanos),
    /// What the first stage takes for the largest batch and input, as the paper has it. At low load that alone can be several times what a
    /// request takes.
    FirstStage,
}

/// `"auto"`, or a time with its unit.
pub mod auto {
    use serde::{Deserializer, Serializer};

    use super::{time_or_word, time_with_unit};
    use crate::units::Nanos;

    pub fn serialize<S: Serializer>(time: &Option<Nanos>, serializer: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => time_with_unit::serialize(time, serializer),
            None => serializer.serialize_str("auto"),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Nanos>, D::Error> {
        time_or_word("auto", deserializer)
    }
}

/// `"first-stage"`, or a time with its unit.
pub mod window {
    use serde::{Deserializer, Serializer};

    use super::{Window, time_or_word, time_with_unit};

    pub fn serialize<S: Serializer>(window: &Window, serializer: S) -> Result<S::Ok, S::Error> {
        match window {
            Window::Time(time) => time_with_unit::serialize(time, serializer),
            Window::FirstStage => serializer.serialize_str("first-stage"),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Window, D::Error> {
        Ok(time_or_word("first-stage", deserializer)?.map_or(Window::FirstStage, Window::Time))
    }
}

/// A time with its unit, or `None` for the word.
fn time_or_word<'de, D: Deserializer<'de>>(word: &'static str, deserializer: D) -> Result<Option<Nanos>, D::Error> {
    struct Wanted(&'static str);

    impl Visitor<'_> for Wanted {
        type Value = Option<Nanos>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a time with its unit in quotes, such as \"2ms\", or \"{}\"", self.0)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Option<Nanos>, E> {
            if text == self.0 {
                return Ok(None);
            }
            Nanos::parse(text).map(Some).map_err(|problem| E::custom(format!("{problem}; or \"{}\"", self.0)))
        }
    }

    deserializer.deserialize_str(Wanted(word))
}
