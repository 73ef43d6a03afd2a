//! The values of settings: limits, one value for each cell type, times with a unit.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, IntoDeserializer, Visitor};

use crate::base::units::Nanos;
use crate::core::workload::model::CellType;

/// Refuses 0 for the keys: `at_least_1([("max_batch", self.max_batch)])?`.
pub fn require_positive<const N: usize>(keys: [(&str, u32); N]) -> Result<(), String> {
    match keys.iter().find(|(_, value)| *value == 0) {
        None => Ok(()),
        Some((key, _)) => Err(format!("{key}: 0 is too small; at least 1")),
    }
}

/// Refuses values outside 0 to 1.
pub fn share(key: &str, value: f64) -> Result<(), String> {
    if (0.0..=1.0).contains(&value) {
        Ok(())
    } else {
        Err(format!("{key}: {value} must be between 0 and 1"))
    }
}

/// One value for all cells, as in `512`, or one for each, as in `{ encoder = 512, decoder = 256 }`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum PerCell {
    All(u32),
    Each(BTreeMap<String, u32>),
}

impl PerCell {
    /// The values of all cells in the order of `cells`, at most the device's largest batch. `key` is for messages.
    pub fn resolve(&self, key: &str, cells: &[CellType]) -> Result<Vec<u32>, String> {
        if let PerCell::Each(by_cell) = self {
            for name in by_cell.keys() {
                if cells.iter().all(|cell| cell.name != *name) {
                    return Err(format!(
                        "{key}.{name}: the model has no such cell; its cells: {}",
                        names_of(cells)
                    ));
                }
            }
        }
        let mut values = Vec::new();
        for cell in cells {
            let (place, value) = match self {
                PerCell::All(value) => (key.to_string(), Some(*value)),
                PerCell::Each(by_cell) => {
                    let value = by_cell.get(&cell.name).copied();
                    (format!("{key}.{}", cell.name), value)
                }
            };
            match value {
                None => {
                    return Err(format!(
                        "{key}: no value for the cell \"{}\"; the model's cells: {}",
                        cell.name,
                        names_of(cells)
                    ));
                }
                Some(0) => {
                    return Err(format!(
                        "{place}: 0 is too small; at least 1 (the model's cells: {})",
                        names_of(cells)
                    ));
                }
                Some(value) => values.push(match cell.batches.last() {
                    Some(largest) => value.min(*largest),
                    None => value,
                }),
            }
        }
        Ok(values)
    }
}

fn names_of(cells: &[CellType]) -> String {
    let names: Vec<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
    names.join(", ")
}

/// The ascending sizes that cells are made for (BatchMaker's `Bsizes`); `None` for any size. A step is padded up to the
/// next size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct BatchSizes(pub Option<Vec<u32>>);

impl BatchSizes {
    /// Refuses a list that does not ascend from at least 1 to at least each of `max_batch`.
    pub fn check(&self, max_batch: &[u32]) -> Result<(), String> {
        let Some(sizes) = &self.0 else { return Ok(()) };
        let Some(largest) = sizes.last() else {
            return Err(
                "batch_sizes: the list is empty; list the sizes, or leave the key out for any size"
                    .into(),
            );
        };
        if sizes.contains(&0) {
            return Err("batch_sizes: 0 is too small; at least 1".into());
        }
        if let Some(pair) = sizes.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(format!(
                "batch_sizes: {} after {}; list each size once, the smallest first",
                pair[1], pair[0]
            ));
        }
        match max_batch.iter().max() {
            Some(max) if largest < max => Err(format!(
                "batch_sizes: the largest, {largest}, is below max_batch {max}; add a size of at least {max}, or lower max_batch"
            )),
            _ => Ok(()),
        }
    }

    /// The smallest size of at least `nodes`, but at most the device's largest batch.
    pub fn next(&self, nodes: u32, largest: u32) -> u32 {
        let sizes = self.list();
        match sizes.get(sizes.partition_point(|size| *size < nodes)) {
            Some(size) => (*size).min(largest),
            None => nodes,
        }
    }

    /// The sizes; empty for any size.
    pub fn list(&self) -> &[u32] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for PerCell {
    // An untagged enum would only say that no variant matched.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PerCellVisitor)
    }
}

struct PerCellVisitor;

impl<'de> Visitor<'de> for PerCellVisitor {
    type Value = PerCell;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "one value for all cells, or a table by cell such as { encoder = 512, decoder = 256 }",
        )
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<PerCell, E> {
        u32::deserialize(value.into_deserializer()).map(PerCell::All)
    }

    fn visit_map<A: de::MapAccess<'de>>(self, entries: A) -> Result<PerCell, A::Error> {
        BTreeMap::deserialize(MapAccessDeserializer::new(entries)).map(PerCell::Each)
    }
}

/// `#[serde(with = "time_with_unit")] window: Nanos` reads `"2ms"`.
pub mod time_with_unit {
    use serde::{Deserializer, Serializer};

    use crate::base::units::Nanos;

    /// Writes a time in the largest unit.
    pub fn serialize<S: Serializer>(time: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(time)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
        super::time_or(None, deserializer).map(|time| time.expect("only a word gives no time"))
    }
}

/// Reads a time with its unit; `None` for the word, if there is one.
pub(super) fn time_or<'de, D: Deserializer<'de>>(
    word: Option<&'static str>,
    deserializer: D,
) -> Result<Option<Nanos>, D::Error> {
    struct TimeOrWord(Option<&'static str>);

    impl Visitor<'_> for TimeOrWord {
        type Value = Option<Nanos>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a time with its unit in quotes, such as \"2ms\"")?;
            match self.0 {
                Some(word) => write!(f, ", or \"{word}\""),
                None => Ok(()),
            }
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Option<Nanos>, E> {
            if self.0 == Some(text) {
                return Ok(None);
            }
            match (Nanos::parse(text), self.0) {
                (Ok(time), _) => Ok(Some(time)),
                (Err(problem), Some(word)) => Err(E::custom(format!("{problem}; or \"{word}\""))),
                (Err(problem), None) => Err(E::custom(problem)),
            }
        }
    }

    deserializer.deserialize_str(TimeOrWord(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::workload::model::Model;

    #[test]
    fn every_cell_gets_a_value_or_an_error() {
        let cells = Model::Seq2Seq.cell_types();
        let each = |pairs: &[(&str, u32)]| {
            let pairs = pairs.iter();
            let by_cell = pairs.map(|(cell, value)| (cell.to_string(), *value));
            PerCell::Each(by_cell.collect()).resolve("max_batch", &cells)
        };
        assert_eq!(PerCell::All(7).resolve("max_batch", &cells), Ok(vec![7, 7]));
        assert_eq!(
            each(&[("encoder", 512), ("decoder", 256)]),
            Ok(vec![256, 512])
        );
        for (result, message) in [
            (
                PerCell::All(0).resolve("max_batch", &cells),
                "max_batch: 0 is too small; at least 1 (the model's cells: decoder, encoder)",
            ),
            (
                each(&[("encoder", 1)]),
                "max_batch: no value for the cell \"decoder\"; the model's cells: decoder, encoder",
            ),
            (
                each(&[("encoder", 1), ("decoder", 1), ("leaf", 1)]),
                "max_batch.leaf: the model has no such cell; its cells: decoder, encoder",
            ),
            (
                each(&[("encoder", 0), ("decoder", 1)]),
                "max_batch.encoder: 0 is too small; at least 1 (the model's cells: decoder, encoder)",
            ),
        ] {
            assert_eq!(result.unwrap_err(), message);
        }
    }
}
