//! How many independent requests the measured ones of a run are worth. docs/METRICS.md states the rule.

/// The number of equal parts of the measured requests.
const PARTS: usize = 72;
/// The number of neighbouring parts that make a batch.
const BATCH: usize = 2;
/// The smallest number of measured requests for which there is a result.
const FEWEST_REQUESTS: u64 = 5 * PARTS as u64;
/// The classes of latency in each doubling.
const IN_A_DOUBLING: u32 = 8;
/// The number of classes of latency: an index of [`class`] is below it.
const CLASSES: usize = 496;
/// The share of latencies that count as long, as nearly as the classes allow.
const LONG: f64 = 0.1;

/// The latencies of the measured requests, counted by part of the run and by size. The memory is the same for any
/// number of requests.
#[derive(Debug)]
pub struct LatencyParts {
    requests: u64,
    /// The parts for a request.
    scale: f64,
    counts: Vec<[u32; CLASSES]>,
}

/// The class of a latency in nanoseconds: eight in each doubling, and one for each latency below 16 ns.
fn class(latency: u64) -> usize {
    let doublings = u64::BITS - 4 - (latency | u64::from(IN_A_DOUBLING)).leading_zeros();
    (doublings * IN_A_DOUBLING) as usize + (latency >> doublings) as usize
}

impl LatencyParts {
    /// No latencies of this number of measured requests.
    pub fn new(requests: u64) -> LatencyParts {
        LatencyParts {
            requests,
            scale: PARTS as f64 / requests as f64,
            counts: vec![[0; CLASSES]; PARTS],
        }
    }

    /// Adds the latency, in nanoseconds, of the measured request with this rank in the order of arrival, from 0.
    #[inline]
    pub fn add(&mut self, rank: u64, latency: u64) {
        // A rank has at most 63 bits, and a part eight: these conversions take one instruction each.
        let part = (rank as i64 as f64 * self.scale) as u32;
        self.counts[(part as usize).min(PARTS - 1)][class(latency)] += 1;
    }

    /// The number of independent requests of which the share of long latencies would vary as much, at most the number
    /// of requests. `None` with fewer than 360, or if no request of a part was served.
    ///
    /// The longest tenth of the latencies is long. The variance of its share comes from overlapping batch means
    /// (Meketon and Schmeiser 1984) with batches of a 36th of the requests.
    pub fn independent(&self) -> Option<f64> {
        if self.requests < FEWEST_REQUESTS {
            return None;
        }
        let served: Vec<f64> = self.counts.iter().map(|part| sum(part)).collect();
        if served.contains(&0.0) {
            return None;
        }
        let all: f64 = served.iter().sum();
        let Some(least) = self.least_long_class(all) else {
            return Some(all);
        };
        let mut shares = Vec::with_capacity(PARTS);
        for (part, served) in self.counts.iter().zip(&served) {
            shares.push(sum(&part[least..]) / served);
        }
        let mean = shares.iter().sum::<f64>() / PARTS as f64;
        let mut squares = 0.0;
        for batch in shares.windows(BATCH) {
            squares += (batch.iter().sum::<f64>() / BATCH as f64 - mean).powi(2);
        }
        let batches = (PARTS - BATCH + 1) as f64;
        let variance = squares / batches * BATCH as f64 / (PARTS - BATCH) as f64;
        Some((mean * (1.0 - mean) / variance).min(all))
    }

    /// The class from which on latencies are long, or `None` if all are in one class.
    fn least_long_class(&self, all: f64) -> Option<usize> {
        let mut long = 0.0;
        let mut best = None;
        let mut smallest_error = f64::INFINITY;
        for class in (1..CLASSES).rev() {
            long += self
                .counts
                .iter()
                .map(|part| f64::from(part[class]))
                .sum::<f64>();
            if long == all {
                break;
            }
            let odds = long / (all - long);
            let error = (odds * (1.0 - LONG) / LONG).ln().abs();
            if error < smallest_error {
                smallest_error = error;
                best = Some(class);
            }
        }
        best
    }
}

fn sum(counts: &[u32]) -> f64 {
    counts.iter().map(|count| f64::from(*count)).sum()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn parts(latencies: &[u64]) -> LatencyParts {
        let mut parts = LatencyParts::new(latencies.len() as u64);
        for (rank, latency) in latencies.iter().enumerate() {
            parts.add(rank as u64, *latency);
        }
        parts
    }

    #[test]
    fn classes_ascend_without_gaps() {
        assert_eq!(
            [0, 1, 15, 16, 17, 18, 31, 32].map(class),
            [0, 1, 15, 16, 16, 17, 23, 24]
        );
        assert_eq!(class(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn independent_latencies_count_all() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut found = Vec::new();
        for _ in 0..40 {
            let latencies: Vec<u64> = (0..20_000).map(|_| random.random_range(0..1000)).collect();
            found.push(parts(&latencies).independent().unwrap());
        }
        let mean = found.len() as f64 / found.iter().map(|n| 1.0 / n).sum::<f64>();
        assert!((17_000.0..=20_000.0).contains(&mean), "{mean}");
    }

    /// Each latency occurs a hundred times in a row.
    #[test]
    fn repeated_latencies_count_once() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut found = Vec::new();
        for _ in 0..40 {
            let mut latencies = Vec::new();
            for _ in 0..1000 {
                latencies.extend([random.random_range(0..1000); 100]);
            }
            found.push(parts(&latencies).independent().unwrap());
        }
        let mean = found.len() as f64 / found.iter().map(|n| 1.0 / n).sum::<f64>();
        assert!((850.0..=1150.0).contains(&mean), "{mean}");
    }

    #[test]
    fn latencies_that_grow_are_hardly_any() {
        let latencies: Vec<u64> = (0..10_000).map(|i| 1000 + i).collect();
        assert!(parts(&latencies).independent().unwrap() < 60.0);
    }

    #[test]
    fn equal_latencies_count_all_and_too_few_tell_nothing() {
        assert_eq!(parts(&[7_000_000; 360]).independent(), Some(360.0));
        assert_eq!(parts(&[7_000_000; 359]).independent(), None);
        let mut gap = LatencyParts::new(720);
        gap.add(0, 5);
        assert_eq!(gap.independent(), None);
    }
}
