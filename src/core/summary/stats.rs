//! Statistics: exact quantiles, and Student's t intervals over replications.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::core::record::histogram::{DurationHistogram, has_one_value, longest_at, place_of};

/// The number of independent requests that an interval of a mean over replications needs. docs/METRICS.md has the
/// coverage on which it rests.
pub const INDEPENDENT_FOR_A_MEAN: f64 = 60.0;

/// A quantile. Its value is in thousandths, so that ranks are computed in integers; its name is the prefix of its
/// columns: `p99`, `p999`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quantile {
    P50 = 500,
    P90 = 900,
    P95 = 950,
    /// The most common quantile of service-level objectives.
    #[default]
    P99 = 990,
    P999 = 999,
}

impl Quantile {
    /// All quantiles, ascending.
    pub const ALL: [Quantile; 5] = [
        Quantile::P50,
        Quantile::P90,
        Quantile::P95,
        Quantile::P99,
        Quantile::P999,
    ];

    pub fn share(self) -> f64 {
        f64::from(self as u16) / 1000.0
    }

    /// The number of samples of which ten are expected above the quantile: 10 / (1 - q).
    pub fn samples_needed(self) -> usize {
        10_000usize.div_ceil(1000 - self as usize)
    }

    /// The number of independent requests that an interval over replications needs: 2.5 / (1 - q), at least
    /// [`INDEPENDENT_FOR_A_MEAN`]. With fewer the quantiles of single replications are biased and skewed.
    pub fn independent_needed(self) -> f64 {
        (2500.0 / f64::from(1000 - self as u16)).max(INDEPENDENT_FOR_A_MEAN)
    }

    /// The rank of the quantile, from 1: the smallest number of samples that is at least a fraction q of all.
    pub(crate) fn rank(self, samples: usize) -> usize {
        ((samples as u128 * self as u128).div_ceil(1000)).max(1) as usize
    }
}

/// Exact quantiles by nearest rank, or `None` with fewer samples than [`Quantile::samples_needed`].
pub fn quantiles<const N: usize>(samples: &[u64], wanted: [Quantile; N]) -> [Option<u64>; N] {
    let mut histogram = DurationHistogram::default();
    for sample in samples {
        histogram.add(*sample, 1);
    }
    let mut finder = QuantileFinder::new(&histogram, wanted);
    for sample in samples {
        finder.add(*sample);
    }
    finder.finish()
}

/// The mean with an exact sum, or `None` without samples.
pub fn mean(samples: &[u64]) -> Option<f64> {
    let sum: u128 = samples.iter().map(|&x| u128::from(x)).sum();
    if samples.is_empty() {
        return None;
    }
    Some(sum as f64 / samples.len() as f64)
}

/// Finds exact quantiles by nearest rank among samples that a histogram has counted. It keeps only the samples that lie
/// at the same place of the histogram as a quantile.
#[derive(Debug)]
pub(super) struct QuantileFinder<const N: usize> {
    /// The place of each quantile, and its rank from 1 among the samples at this place. `None` with fewer samples than
    /// [`Quantile::samples_needed`].
    ranks: [Option<(usize, u64)>; N],
    /// For each place of the histogram, one more than the index of its list of samples; 0 without a list. Places of a
    /// single value need no list.
    lists: Vec<u8>,
    samples: Vec<Vec<u64>>,
}

impl<const N: usize> QuantileFinder<N> {
    pub fn new(histogram: &DurationHistogram, wanted: [Quantile; N]) -> QuantileFinder<N> {
        let all = histogram.len() as usize;
        let ranks = wanted.map(|quantile| {
            if all < quantile.samples_needed() {
                return None;
            }
            histogram.find(quantile.rank(all) as u64)
        });
        let mut finder = QuantileFinder {
            ranks,
            lists: Vec::new(),
            samples: Vec::new(),
        };
        for (place, _) in ranks.iter().flatten() {
            if has_one_value(*place) {
                continue;
            }
            if finder.lists.len() <= *place {
                finder.lists.resize(place + 1, 0);
            }
            if finder.lists[*place] == 0 {
                let count = histogram.count_at(*place) as usize;
                finder.samples.push(Vec::with_capacity(count));
                finder.lists[*place] = finder.samples.len() as u8;
            }
        }
        finder
    }

    /// Adds a sample that the histogram has counted.
    #[inline]
    pub fn add(&mut self, sample: u64) {
        let list = self.lists.get(place_of(sample)).copied().unwrap_or(0);
        if list > 0 {
            self.samples[usize::from(list) - 1].push(sample);
        }
    }

    /// The quantiles, after all samples have been added.
    pub fn finish(mut self) -> [Option<u64>; N] {
        self.ranks.map(|rank| {
            let (place, rank) = rank?;
            if has_one_value(place) {
                return Some(longest_at(place));
            }
            let samples = &mut self.samples[usize::from(self.lists[place]) - 1];
            let (_, value, _) = samples.select_nth_unstable(rank as usize - 1);
            Some(*value)
        })
    }
}

/// An interval around a mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub mean: f64,
    /// Half the width of the 95 % confidence interval.
    pub half_width: f64,
}

impl Interval {
    /// The half-width in percent of a value, or `None` if the value is 0.
    pub fn relative_percent(&self, value: f64) -> Option<f64> {
        Some(100.0 * self.half_width / value).filter(|percent| percent.is_finite())
    }

    pub fn contains(&self, value: f64) -> bool {
        (value - self.mean).abs() <= self.half_width
    }

    /// The interval for samples whose spread is proportional to what they estimate, as that of latencies in a queue is.
    /// Student's t then bounds |x̄ - μ| by h μ and not by h x̄, with h = half-width / x̄; the upper end x̄ / (1 - h) is
    /// farther from the mean by h to first order.
    pub fn with_proportional_spread(self) -> Interval {
        if self.mean <= 0.0 {
            return self;
        }
        Interval {
            half_width: self.half_width * (1.0 + self.half_width / self.mean),
            ..self
        }
    }
}

/// The 95 % confidence interval by Student's t, or `None` with fewer than two samples.
pub fn interval(samples: &[f64]) -> Option<Interval> {
    if samples.len() < 2 {
        return None;
    }
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let freedom = StudentsT::new(0.0, 1.0, n - 1.0).expect("one degree of freedom or more");
    Some(Interval {
        mean,
        half_width: freedom.inverse_cdf(0.975) * (variance / n).sqrt(),
    })
}

/// The 95 % interval of one more sample: mean ± t · s · √(1 + 1/n). It is `None` with fewer than two samples.
pub fn prediction(samples: &[f64]) -> Option<Interval> {
    // The mean's half-width is t · s · √(1/n).
    let wider = (samples.len() as f64 + 1.0).sqrt();
    interval(samples).map(|Interval { mean, half_width }| Interval {
        mean,
        half_width: half_width * wider,
    })
}

/// The interval of the mean of `a - b`, in which noise that both share cancels out. It is `None` with fewer than two
/// pairs.
///
/// # Panics
/// If the numbers of samples differ.
pub fn paired_difference(a: &[f64], b: &[f64]) -> Option<Interval> {
    assert_eq!(a.len(), b.len(), "paired samples come in pairs");
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    interval(&differences)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, StandardNormal};

    use super::*;

    fn naive(samples: &[u64], quantile: Quantile) -> u64 {
        let at_or_below = |x: u64| samples.iter().filter(|&&y| y <= x).count();
        let share = quantile as usize;
        *samples
            .iter()
            .filter(|&&x| at_or_below(x) * 1000 >= samples.len() * share)
            .min()
            .unwrap()
    }

    #[test]
    fn a_quantile_is_the_nearest_rank() {
        let samples: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(
            quantiles(&samples, [Quantile::P50, Quantile::P90]),
            [Some(50), Some(90)]
        );
        let samples: Vec<u64> = (1..=10_001).collect();
        let all = quantiles(&samples, Quantile::ALL);
        assert_eq!(all, [5001, 9001, 9501, 9901, 9991].map(Some));
    }

    #[test]
    fn a_quantile_needs_ten_samples_beyond_it() {
        let needed = Quantile::ALL.map(Quantile::samples_needed);
        assert_eq!(needed, [20, 100, 200, 1000, 10_000]);
        for (quantile, n) in Quantile::ALL.into_iter().zip(needed) {
            assert_eq!(quantiles(&vec![7; n - 1], [quantile]), [None]);
            assert_eq!(quantiles(&vec![7; n], [quantile]), [Some(7)]);
        }
        assert_eq!(quantiles(&[], Quantile::ALL), [None; 5]);
    }

    proptest! {
        #[test]
        fn the_finder_finds_what_the_definition_says(
            samples in prop::collection::vec(0u64..50, 200..400),
            // From none of the samples to all of them are at one place of the histogram.
            least in prop::sample::select(vec![0u64, 5000, 100_000, 1 << 40]),
        ) {
            let wanted = [Quantile::P50, Quantile::P50, Quantile::P90, Quantile::P95];
            let samples: Vec<u64> = samples.iter().map(|sample| least + sample).collect();
            let found = quantiles(&samples, wanted);
            for (quantile, value) in wanted.into_iter().zip(found) {
                prop_assert_eq!(value, (samples.len() >= quantile.samples_needed()).then(|| naive(&samples, quantile)));
            }
        }
    }

    #[test]
    fn a_mean_is_summed_exactly() {
        assert_eq!(mean(&[u64::MAX, u64::MAX]), Some(u64::MAX as f64));
        assert_eq!(mean(&[1, 2]), Some(1.5));
        assert_eq!(mean(&[]), None);
    }

    #[test]
    fn intervals_have_the_width_of_the_table() {
        // The values are from a printed table for 1, 4, 9, 29 and 99 degrees of freedom.
        for (n, t) in [
            (2, 12.7062),
            (5, 2.7764),
            (10, 2.2622),
            (30, 2.0452),
            (100, 1.9842),
        ] {
            let samples: Vec<f64> = (0..n).map(|i| if i % 2 == 0 { 2.0 } else { 4.0 }).collect();
            let mean = samples.iter().sum::<f64>() / n as f64;
            let deviation =
                (samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1) as f64).sqrt();
            let found = interval(&samples).unwrap();
            let expected = t * deviation / (n as f64).sqrt();
            assert!(
                (found.half_width / expected - 1.0).abs() < 1e-4,
                "{n}: {found:?}, not {expected}"
            );
        }
        assert_eq!(interval(&[1.0]), None);
        assert_eq!(interval(&[]), None);
        assert_eq!(
            interval(&[2.0; 4]),
            Some(Interval {
                mean: 2.0,
                half_width: 0.0
            })
        );
    }

    #[test]
    fn a_proportional_spread_widens_wide_intervals() {
        let of = |mean, half_width| Interval { mean, half_width }.with_proportional_spread();
        assert_eq!(of(10.0, 1.0).half_width, 1.1);
        assert_eq!(of(10.0, 0.01).half_width, 0.01001);
        assert_eq!(of(0.0, 1.0).half_width, 1.0);
    }

    #[test]
    fn one_more_sample_is_predicted() {
        // For samples at distance 2, s = √2 and t(0.975; 1) = 12.706.
        let Interval { mean, half_width } = prediction(&[1.0, 3.0]).unwrap();
        assert_eq!(mean, 2.0);
        assert!(
            (half_width - 12.7062 * 2f64.sqrt() * 1.5f64.sqrt()).abs() < 1e-3,
            "{half_width}"
        );
        assert_eq!(prediction(&[1.0]), None);
    }

    #[test]
    fn pairing_removes_what_both_share() {
        let a = [11.0, 21.0, 31.0];
        let b = [10.0, 20.0, 30.0];
        assert_eq!(
            paired_difference(&a, &b),
            Some(Interval {
                mean: 1.0,
                half_width: 0.0
            })
        );
        assert!(interval(&a).unwrap().half_width > 20.0);
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_true_mean() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let experiments = 4000;
        let covered = (0..experiments)
            .filter(|_| {
                let samples: Vec<f64> = (0..5)
                    .map(|_| {
                        3.0 + {
                            let x: f64 = StandardNormal.sample(&mut random);
                            x
                        }
                    })
                    .collect();
                interval(&samples).unwrap().contains(3.0)
            })
            .count();
        // The count is binomial: 3800 with a standard deviation of 13.8. The bounds are four of these from the mean.
        assert!(
            (3745..=3855).contains(&covered),
            "{covered} of {experiments} cover the mean"
        );
    }
}
