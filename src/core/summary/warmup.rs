/// The requests at the start of a run that do not count, in the order of arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Warmup {
    /// A tenth of the requests that arrived. The caller takes [`Warmup::None`] if the load has no steady state.
    #[default]
    Auto,
    None,
    /// The number that [`mser5`] finds for the latencies.
    Mser5,
    /// A share of the requests that arrived, from 0 to 1.
    Share(f64),
    Requests(u32),
}

/// [`Warmup::Auto`] leaves out the first of this number of equal parts.
pub const AUTO_PARTS: usize = 10;

/// The result of [`mser5`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncation {
    /// The series is steady after this many samples.
    Steady(usize),
    /// Dropping up to half would still have helped, so nothing is dropped.
    NotSteady,
    /// There are too few samples to tell.
    TooFew,
}

/// The number of samples that are averaged to one point of the series.
const BATCH: usize = 5;
/// The smallest number of points that the rule applies to.
const FEWEST_BATCHES: usize = 10;

/// MSER-5 (White, Cobb and Spratt 2000): drops the batches of five samples whose removal minimises the standard error
/// of the mean of the rest: the smallest d up to m / 2 that minimises the sum of (y - mean)² over the m batch means
/// after the first d, divided by (m - d)².
pub fn mser5(samples: &[f64]) -> Truncation {
    let batches: Vec<f64> = samples
        .chunks_exact(BATCH)
        .map(|batch| batch.iter().sum::<f64>() / BATCH as f64)
        .collect();
    if batches.len() < FEWEST_BATCHES {
        return Truncation::TooFew;
    }
    let last = batches.len() / 2;
    let mut best = (f64::INFINITY, last);
    // The loop starts at the end, so that one running mean and sum of squares (Welford's) serves every d.
    let mut count = 0.0;
    let mut mean = 0.0;
    let mut squares = 0.0;
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
    // A minimum near the last candidate means that the series still falls or rises there.
    if best.1 * 10 >= last * 9 {
        Truncation::NotSteady
    } else {
        Truncation::Steady(best.1 * BATCH)
    }
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

    /// The definition of the statistic, in its plainest form.
    fn statistic(samples: &[f64], d: usize) -> f64 {
        let batches: Vec<f64> = samples
            .chunks_exact(5)
            .map(|b| b.iter().sum::<f64>() / 5.0)
            .collect();
        let rest = &batches[d..];
        let mean = rest.iter().sum::<f64>() / rest.len() as f64;
        rest.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / (rest.len() as f64).powi(2)
    }

    #[test]
    fn a_transient_is_dropped_and_little_more() {
        let series: Vec<f64> = noise(2000, 3)
            .enumerate()
            .map(|(i, x)| x + if i < 100 { 20.0 } else { 0.0 })
            .collect();
        let Truncation::Steady(dropped) = mser5(&series) else {
            panic!("the series settles")
        };
        assert!((100..=150).contains(&dropped), "{dropped}");
        let least = (0..=200)
            .map(|d| statistic(&series, d))
            .fold(f64::INFINITY, f64::min);
        assert!((statistic(&series, dropped / 5) / least - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_constant_series_loses_nothing() {
        assert_eq!(mser5(&[4.0; 100]), Truncation::Steady(0));
    }

    #[test]
    fn a_series_that_grows_does_not_settle() {
        let series: Vec<f64> = noise(2000, 5)
            .enumerate()
            .map(|(i, x)| x + i as f64)
            .collect();
        assert_eq!(mser5(&series), Truncation::NotSteady);
    }

    #[test]
    fn a_short_series_says_nothing() {
        assert_eq!(mser5(&[1.0; 49]), Truncation::TooFew);
        assert_eq!(mser5(&[]), Truncation::TooFew);
        assert_eq!(mser5(&[1.0; 50]), Truncation::Steady(0));
    }
}
