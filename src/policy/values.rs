//! Values of settings: ranges, one value for each cell type, times with a unit.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, IntoDeserializer, Visitor};
use serde::{Serialize, Serializer};

use crate::workload::model::CellType;

/// `at_least_1([("max_batch", self.max_batch)])?`.
pub fn at_least_1<const N: usize>(keys: [(&str, u32); N]) -> Result<(), String> {
    match keys.iter().find(|(_, value)| *value == 0) {
        None => Ok(()),
        Some((key, _)) => Err(format!("{key}: 0 is too small; at least 1")),
    }
}

/// Refuses values outside 0 to 1.
pub fn share(key: &str, value: f64) -> Result<(), String> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(format!("{key}: {value} must be between 0 and 1")) }
}

/// `512`, or by cell `{ encoder = 512, decoder = 256 }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PerCell<T> {
    All(T),
    Each(BTreeMap<String, T>),
}

impl PerCell<u32> {
    /// In the order of `cells`, at most the device's largest batch; `key` is for messages.
    pub fn resolve(&self, key: &str, cells: &[CellType]) -> Result<Vec<u32>, String> {
        let names = || cells.iter().map(|cell| cell.name.as_str()).collect::<Vec<_>>().join(", ");
        let checked = |place: &str, value: u32| match value {
            0 => Err(format!("{place}: 0 is too small; at least 1 (the model's cells: {})", names())),
            _ => Ok(value),
        };
        let largest = |cell: &CellType| cell.batches.last().copied().unwrap_or(u32::MAX);
        match self {
            PerCell::All(value) => {
                let value = checked(key, *value)?;
                Ok(cells.iter().map(|cell| value.min(largest(cell))).collect())
            }
            PerCell::Each(by_cell) => {
                if let Some(unknown) = by_cell.keys().find(|name| cells.iter().all(|cell| cell.name != **name)) {
                    return Err(format!("{key}.{unknown}: the model has no such cell; its cells: {}", names()));
                }
                let value_of = |cell: &CellType| match by_cell.get(&cell.name) {
                    Some(value) => {
                        checked(&format!("{key}.{}", cell.name), *value).map(|value| value.min(largest(cell)))
                    }
                    None => {
                        Err(format!("{key}: no value for the cell \"{}\"; the model's cells: {}", cell.name, names()))
                    }
                };
                cells.iter().map(value_of).collect()
            }
        }
    }
}

impl<T: Serialize> Serialize for PerCell<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            PerCell::All(value) => value.serialize(serializer),
            PerCell::Each(by_cell) => by_cell.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for PerCell<T> {
    // An untagged enum would only say that no variant matched.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PerCellVisitor(PhantomData))
    }
}

struct PerCellVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for PerCellVisitor<T> {
    type Value = PerCell<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one value for all cells, or a table by cell such as { encoder = 512, decoder = 256 }")
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
        T::deserialize(value.into_deserializer()).map(PerCell::All)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
        T::deserialize(value.into_deserializer()).map(PerCell::All)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
        T::deserialize(value.into_deserializer()).map(PerCell::All)
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut by_cell = BTreeMap::new();
        while let Some((cell, value)) = entries.next_entry()? {
            by_cell.insert(cell, value);
        }
        Ok(PerCell::Each(by_cell))
    }
}

/// `#[serde(with = "time_with_unit")] window: Nanos` reads `"2ms"`.
pub mod time_with_unit {
    use std::fmt;

    use serde::de::{self, Visitor};
    use serde::{Deserializer, Serializer};

    use crate::units::Nanos;

    /// In the largest unit.
    pub fn serialize<S: Serializer>(time: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(time)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
        deserializer.deserialize_str(TimeVisitor)
    }

    struct TimeVisitor;

    impl Visitor<'_> for TimeVisitor {
        type Value = Nanos;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a time with its unit in quotes, such as \"2ms\"")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Nanos, E> {
            Nanos::parse(text).map_err(E::custom)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::model::Model;

    #[test]
    fn every_cell_gets_a_value_or_an_error() {
        let cells = Model::Seq2Seq.cell_types();
        let each = |pairs: &[(&str, u32)]| {
            let by_cell = pairs.iter().map(|(cell, value)| (cell.to_string(), *value)).collect();
            PerCell::Each(by_cell).resolve("max_batch", &cells)
        };
        assert_eq!(PerCell::All(7).resolve("max_batch", &cells), Ok(vec![7, 7]));
        assert_eq!(each(&[("encoder", 512), ("decoder", 256)]), Ok(vec![256, 512]));
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
