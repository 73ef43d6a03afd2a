//! A histogram of durations that keeps three decimal digits, as HdrHistogram does.

use crate::base::grow::grow;

/// A value is kept with this number of its highest bits, so it is wrong by less than 0.1 %.
const BITS: u32 = 11;

/// The counts of each power of two, from the first one with more than [`BITS`] bits on.
const COUNTS: u64 = 1 << (BITS - 1);

/// Durations in nanoseconds, with their exact sum and maximum.
#[derive(Debug, Default)]
pub struct DurationHistogram {
    sum: u128,
    max: u64,
    len: u64,
    /// The number of durations at each [place](place_of).
    counts: Vec<u64>,
}

/// The place of a duration: itself up to [`BITS`] bits, then [`COUNTS`] places for each further bit.
#[inline]
pub fn place_of(duration: u64) -> usize {
    // A duration of fewer bits keeps all of them.
    let bits = u64::BITS - (duration | (2 * COUNTS - 1)).leading_zeros();
    let dropped = bits - BITS;
    (u64::from(dropped) * COUNTS + (duration >> dropped)) as usize
}

/// Whether a place is that of one duration only.
pub fn has_one_value(place: usize) -> bool {
    (place as u64) < 2 * COUNTS
}

/// The longest duration at a place.
pub fn longest_at(place: usize) -> u64 {
    let place = place as u64;
    let dropped = (place / COUNTS).saturating_sub(1);
    let first = (place - dropped * COUNTS) << dropped;
    first + ((1 << dropped) - 1)
}

impl DurationHistogram {
    /// Adds a duration that occurred `times` times, at least once.
    #[inline]
    pub fn add(&mut self, duration: u64, times: u64) {
        self.sum += u128::from(duration) * u128::from(times);
        self.max = self.max.max(duration);
        self.len += times;
        *grow(&mut self.counts, place_of(duration)) += times;
    }

    /// The number of durations at a place.
    pub fn count_at(&self, place: usize) -> u64 {
        self.counts.get(place).copied().unwrap_or(0)
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// The mean, or `None` without durations.
    pub fn mean(&self) -> Option<f64> {
        if self.len() == 0 {
            return None;
        }
        Some(self.sum as f64 / self.len() as f64)
    }

    /// The longest duration, or `None` without durations.
    pub fn max(&self) -> Option<u64> {
        if self.len() == 0 {
            return None;
        }
        Some(self.max)
    }

    /// The value of the histogram at a share of the durations, from 0 to 1. It may exceed the maximum by 0.1 %; 0
    /// without durations.
    pub fn value_at(&self, share: f64) -> u64 {
        let rank = (share * self.len as f64).ceil() as u64;
        self.find(rank.max(1))
            .map_or(0, |(place, _)| longest_at(place))
    }

    /// The place of the duration with this rank, and its rank among the durations at that place. Ranks begin with 1, for
    /// the shortest duration. `None` if there are fewer durations.
    pub fn find(&self, rank: u64) -> Option<(usize, u64)> {
        let mut below = 0;
        for (place, count) in self.counts.iter().enumerate() {
            if below + count >= rank {
                return Some((place, rank - below));
            }
            below += count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use rand::RngExt;

    use super::*;
    use crate::core::workload::random;

    #[test]
    fn places_ascend_and_keep_three_digits() {
        let mut last = None;
        for shift in 0..64 {
            for offset in [0, 1] {
                let duration = (1u64 << shift) + offset;
                let longest = longest_at(place_of(duration));
                assert!(
                    longest >= duration && (longest - duration) as f64 <= 1e-3 * duration as f64
                );
                assert_eq!(place_of(longest), place_of(duration));
                if let Some(next) = longest.checked_add(1) {
                    assert_eq!(place_of(next), place_of(longest) + 1, "{longest}");
                }
                assert!(last <= Some(place_of(duration)));
                last = Some(place_of(duration));
            }
        }
        assert_eq!(longest_at(place_of(u64::MAX)), u64::MAX);
    }

    #[test]
    fn values_are_those_of_hdr_histogram() {
        let mut rng = random::sequence(1, 0, "durations");
        for _ in 0..50 {
            let mut known = Histogram::<u64>::new(3).unwrap();
            let mut histogram = DurationHistogram::default();
            assert_eq!(histogram.value_at(0.5), known.value_at_quantile(0.5));
            for _ in 0..rng.random_range(1..300) {
                let duration = rng.random::<u64>() >> rng.random_range(2..64);
                let times = rng.random_range(1..4);
                known.record_n(duration, times).unwrap();
                histogram.add(duration, times);
            }
            for share in [0.0001, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0] {
                assert_eq!(histogram.value_at(share), known.value_at_quantile(share));
            }
            assert_eq!(histogram.len(), known.len());
        }
    }
}
