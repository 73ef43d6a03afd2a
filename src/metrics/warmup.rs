//! How much of a run's beginning to leave out, while the system fills up from empty.

use serde::{Deserialize, Serialize};

/// The rule for the requests that are left out of the figures, counted in the order of arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Warmup {
    /// None are left out.
    #[default]
    None,
    /// As many as [`mser5`] says of the latencies.
    Mser5,
    /// This share of the requests that arrived, from 0 up to 1.
    Share(f64),
    /// This many requests.
    Requests(u32),
}

/// What [`mser5`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncation {
    /// The series is steady once so many samples have been dropped.
    Steady(usize),
    /// Dropping more would have helped up to half of the series: it does not settle, and nothing should be dropped.
    NotSteady,
    /// There are too few samples to say.
    TooFew,
}

/// Samples that are averaged to one point of the series.
const BATCH: usize = 5;
/// Fewer batches than these say nothing.
const FEWEST_BATCHES: usize = 10;

/// MSER-5 (White, Cobb and Spratt 2000): averages batches of five samples and drops the batches whose removal makes the
/// standard error of the mean of the others smallest.
///
/// With batch means y and m batches, that is the d from 0 to m / 2 for which the sum of (y - mean)² over the batches
/// behind the first d, divided by (m - d)², is least; the smallest d of several.
pub fn mser5(samples: &[f64]) -> Truncation {
    let batches: Vec<f64> = samples.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    if batches.len() < FEWEST_BATCHES {
        return Truncation::TooFew;
    }
    let last = batches.len() / 2;
    let mut best = (f64::INFINITY, last);
    // From the end to the front, so that one running mean and sum of squares (Welford's) serve every d.
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    for (d, &y) in batches.iter().enumerate().rev() {
        count += 1.0;
        let off = y - mean;
        mean += off / count;
        squares += off * (y - mean);
        let error = squares / (count * count);
        if d <= last && error <= best.0 {
            best = (error, d);
        }
    }
    // A minimum close to the last candidate means the same as one at it: the series still falls or rises there.
    if best.1 * 10 >= last * 9 { Truncation::NotSteady } else { Truncation::Steady(best.1 * BATCH) }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn noise(n: usize, seed: u64) -> impl Iterator<Item = f64> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        (0..n).map(move |_| random.random_range(-1.0..1.0))
    }

    /// The definition, in the plainest form.
    fn statistic(samples: &[f64], d: usize) -> f64 {
        let batches: Vec<f64> = samples.chunks_exact(5).map(|b| b.iter().sum::<f64>() / 5.0).collect();
        let rest = &batches[d..];
        let mean = rest.iter().sum::<f64>() / rest.len() as f64;
        rest.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / (rest.len() as f64).powi(2)
    }

    #[test]
    fn a_transient_is_dropped_and_little_more() {
        // The first 100 of 2000 samples stand 20 above the others.
        let series: Vec<f64> = noise(2000, 3).enumerate().map(|(i, x)| x + if i < 100 { 20.0 } else { 0.0 }).collect();
        let Truncation::Steady(dropped) = mser5(&series) else { panic!("the series settles") };
        assert!((100..=150).contains(&dropped), "{dropped}");
        let least = (0..=200).map(|d| statistic(&series, d)).fold(f64::INFINITY, f64::min);
        assert!((statistic(&series, dropped / 5) / least - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_constant_series_loses_nothing() {
        assert_eq!(mser5(&[4.0; 100]), Truncation::Steady(0));
    }

    #[test]
    fn a_series_that_grows_does_not_settle() {
        let series: Vec<f64> = noise(2000, 5).enumerate().map(|(i, x)| x + i as f64).collect();
        assert_eq!(mser5(&series), Truncation::NotSteady);
    }

    #[test]
    fn a_short_series_says_nothing() {
        assert_eq!(mser5(&[1.0; 49]), Truncation::TooFew);
        assert_eq!(mser5(&[]), Truncation::TooFew);
        assert_eq!(mser5(&[1.0; 50]), Truncation::Steady(0));
    }
}
