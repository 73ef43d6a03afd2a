//! The reasons of rejections.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::core::record::ReasonedDeparture;

/// Counts the reasons of rejections without what they say, after a colon, of single requests. The most frequent reason
/// comes first.
pub(super) fn count_reasons<'r>(
    rejections: impl Iterator<Item = &'r ReasonedDeparture>,
) -> Vec<(String, u64)> {
    add_counts(rejections.map(|(_, _, reason)| {
        let common = reason.split_once(": ");
        (common.map_or(&**reason, |(common, _)| common), 1)
    }))
}

/// Adds up the counts of each reason. The most frequent reason comes first.
pub fn add_counts<'r>(counts: impl Iterator<Item = (&'r str, u64)>) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (reason, count) in counts {
        *sums.entry(reason).or_default() += count;
    }
    let mut sorted: Vec<(String, u64)> = Vec::with_capacity(sums.len());
    for (reason, sum) in sums {
        sorted.push((reason.to_string(), sum));
    }
    sorted.sort_by_key(|(_, sum)| Reverse(*sum));
    sorted
}

/// The most frequent of counted reasons, as an addition to a sentence about the rejections; empty without a reason.
pub fn main_reason(reasons: &[(String, u64)]) -> String {
    match reasons {
        [] => String::new(),
        [(reason, count), ..] => format!("; main reason ({count} of them): {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::{Nanos, RequestId};

    #[test]
    fn reasons_are_counted_without_what_is_true_of_one_request() {
        let rejection = |reason: &str| (RequestId(0), Nanos(0), reason.to_string());
        let all = [
            rejection("too late"),
            rejection("too long (max_length): it has 9"),
            rejection("too long (max_length): it has 8"),
        ];
        let counted = count_reasons(all.iter());
        let expected = [("too long (max_length)", 2), ("too late", 1)];
        assert_eq!(
            counted,
            expected.map(|(reason, count)| (reason.to_string(), count))
        );
        assert_eq!(
            main_reason(&counted),
            "; main reason (2 of them): too long (max_length)"
        );
        assert_eq!(main_reason(&[]), "");
    }
}
