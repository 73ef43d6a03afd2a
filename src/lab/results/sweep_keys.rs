//! The keys of a sweep and their values, as results name them.

use std::cmp::Ordering;

use crate::base::files::folder_name;
use crate::base::units::Nanos;

/// A key in full, such as `policy.BatchMaker.max_batch`, and its value.
pub type Swept = (String, String);

/// The name of a point's folder within its policy's: the load, then the swept keys.
pub fn point_folder(load: &str, swept: &[Swept]) -> String {
    let keys: String = swept
        .iter()
        .map(|(key, value)| format!(",{key}={value}"))
        .collect();
    folder_name(&format!("{load}{keys}"))
}

/// The name of a policy with its swept keys: `BatchMaker, device.workers=2, max_batch=64`.
pub fn label(policy: &str, swept: &[Swept]) -> String {
    let keys: String = swept
        .iter()
        .map(|(key, value)| format!(", {}={value}", short_key(key)))
        .collect();
    format!("{policy}{keys}")
}

/// Whether a key belongs to a policy, so that it does not concern the others.
pub fn is_of_policy(key: &str) -> bool {
    key.starts_with("policy.")
}

/// The keys of these rows, each once: those of the scenario before those of policies.
pub fn keys<'r>(rows: impl IntoIterator<Item = &'r [Swept]>) -> Vec<&'r str> {
    let mut keys = distinct(rows.into_iter().flatten().map(|(key, _)| key.as_str()));
    // The keys of each row keep the row's order, whatever the first row has.
    keys.sort_by_key(|key| is_of_policy(key));
    keys
}

/// The different values, in the order of their first occurrences.
pub fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

/// A key without its policy, whose label is shown next to it.
pub fn short_key(key: &str) -> &str {
    let Some(rest) = key.strip_prefix("policy.") else {
        return key;
    };
    let quoted = rest.strip_prefix('"');
    let parts = quoted.map_or_else(|| rest.split_once('.'), |quoted| quoted.split_once("\"."));
    parts.map_or(key, |(_, after)| after)
}

/// The value of a key, which is given in full or without its policy.
pub fn value<'a>(swept: &'a [Swept], key: &str) -> Option<&'a str> {
    swept
        .iter()
        .find(|(of, _)| of == key || short_key(of) == key)
        .map(|(_, value)| value.as_str())
}

/// The value of a key as a number, or as a time in ms.
pub fn number(value: &str) -> Option<f64> {
    let number = value
        .parse()
        .ok()
        .or_else(|| Nanos::parse(value).ok().map(Nanos::as_millis_f64));
    number.filter(|number: &f64| number.is_finite())
}

/// The order of two values of a key: numbers by size, then other texts in their present order.
pub fn order(a: &str, b: &str) -> Ordering {
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swept(pairs: &[(&str, &str)]) -> Vec<Swept> {
        pairs
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect()
    }

    #[test]
    fn folders_have_full_keys_and_labels_short_ones() {
        let two = swept(&[
            ("device.workers", "2"),
            ("policy.A b.max_batch", "64"),
            ("policy.\"C (1.5)\".x.y", "a/b"),
        ]);
        assert_eq!(
            point_folder("1000", &two),
            "1000,device.workers=2,policy.A b.max_batch=64,policy._C (1.5)_.x.y=a_b"
        );
        assert_eq!(
            label("A b", &two),
            "A b, device.workers=2, max_batch=64, x.y=a/b"
        );
        assert_eq!(
            (point_folder("trace", &[]), label("A", &[])),
            ("trace".into(), "A".into())
        );
    }

    #[test]
    fn values_are_in_order_of_their_size() {
        let sorted = |values: &[&'static str]| {
            let mut values = values.to_vec();
            values.sort_by(|a, b| order(a, b));
            values
        };
        assert_eq!(
            sorted(&["128", "16", "1e3", "8.5"]),
            ["8.5", "16", "128", "1e3"]
        );
        assert_eq!(sorted(&["1s", "20us", "5ms"]), ["20us", "5ms", "1s"]);
        assert_eq!(sorted(&["tf32", "16", "f32"]), ["16", "tf32", "f32"]);
    }
}
