//! Cumulative distributions of samples.

/// The cumulative distribution of at least one sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Cdf {
    /// The values, ascending, with the number of samples at or below each.
    steps: Vec<(f64, u64)>,
    /// The number of samples, including those without a value.
    all: u64,
}

impl Cdf {
    /// The distribution of samples, or `None` if there are none.
    pub fn from_samples(mut samples: Vec<f64>) -> Option<Cdf> {
        samples.sort_by(f64::total_cmp);
        Cdf::from_counts(samples.into_iter().map(|value| (value, 1)))
    }

    /// The distribution of ascending values with their counts, or `None` if all counts are 0.
    pub fn from_counts(ascending: impl IntoIterator<Item = (f64, u64)>) -> Option<Cdf> {
        let mut steps: Vec<(f64, u64)> = Vec::new();
        let mut all = 0;
        for (value, count) in ascending {
            if count == 0 {
                continue;
            }
            all += count;
            match steps.last_mut() {
                Some(last) if last.0 == value => last.1 = all,
                _ => steps.push((value, all)),
            }
        }
        if all > 0 {
            Some(Cdf { steps, all })
        } else {
            None
        }
    }

    /// The distribution with additional samples that have no value.
    pub fn with_unserved(self, unserved: u64) -> Cdf {
        Cdf {
            all: self.all + unserved,
            ..self
        }
    }

    fn last(&self) -> (f64, u64) {
        *self.steps.last().expect("there is at least one sample")
    }

    /// The number of samples with a value.
    pub fn count(&self) -> u64 {
        self.last().1
    }

    pub fn largest(&self) -> f64 {
        self.last().0
    }

    /// The share of the samples with a value, at which the curve ends.
    pub fn served_share(&self) -> f64 {
        self.count() as f64 / self.all as f64
    }

    /// The first percentile of the samples above 0.
    pub fn low_end(&self) -> Option<f64> {
        let zeros = match self.steps.first() {
            Some(&(value, below)) if value <= 0.0 => below,
            _ => 0,
        };
        let rank = zeros + (self.count() - zeros).div_ceil(100);
        let place = self.steps.partition_point(|(_, below)| *below < rank);
        match self.steps.get(place) {
            Some(&(value, _)) if value > 0.0 => Some(value),
            _ => None,
        }
    }

    /// The smallest sample with at least this share of the samples at or below it.
    pub fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.all as f64).ceil();
        let place = self
            .steps
            .partition_point(|(_, below)| (*below as f64) < rank);
        match self.steps.get(place) {
            Some((value, _)) => *value,
            None => self.largest(),
        }
    }

    /// The points of a curve of the share below each value or, with `tail`, of the share above. They are the corners of
    /// a staircase or, if it has more steps than can be seen, points that lie close to each other.
    pub fn curve(&self, tail: bool) -> Vec<(f64, f64)> {
        const MOST: usize = 500;
        if self.steps.len() > MOST {
            self.sample_curve(tail, MOST)
        } else {
            self.corners(tail)
        }
    }

    /// This many points of the curve, and its end.
    fn sample_curve(&self, tail: bool, count: usize) -> Vec<(f64, f64)> {
        let end = if tail {
            (1.0 - self.served_share()).max(1.0 / self.all as f64)
        } else {
            self.served_share()
        };
        let mut points = Vec::with_capacity(count + 2);
        for i in 0..=count {
            let part = i as f64 / count as f64;
            let share = if tail { end.powf(part) } else { end * part };
            let below = if tail { 1.0 - share } else { share };
            points.push((self.quantile(below), share));
        }
        points.push((self.largest(), end));
        points
    }

    /// The corners of the staircase.
    fn corners(&self, tail: bool) -> Vec<(f64, f64)> {
        let mut points = Vec::new();
        let mut before = 0;
        for &(value, below) in &self.steps {
            for below in [before, below] {
                let count = if tail { self.all - below } else { below };
                let share = count as f64 / self.all as f64;
                // A logarithmic axis has no place for a share of 0.
                if !tail || share > 0.0 {
                    points.push((value, share));
                }
            }
            before = below;
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_count_equal_samples_together() {
        let cdf = Cdf::from_samples(vec![3.0, 1.0, 2.0, 2.0]).unwrap();
        assert_eq!(
            cdf.curve(false),
            [
                (1.0, 0.0),
                (1.0, 0.25),
                (2.0, 0.25),
                (2.0, 0.75),
                (3.0, 0.75),
                (3.0, 1.0)
            ]
        );
        assert_eq!(
            cdf.curve(true),
            [
                (1.0, 1.0),
                (1.0, 0.75),
                (2.0, 0.75),
                (2.0, 0.25),
                (3.0, 0.25)
            ]
        );
        assert_eq!(Cdf::from_samples(vec![]), None);
        assert_eq!(Cdf::from_counts([(1.0, 0)]), None);
    }

    #[test]
    fn a_curve_ends_at_the_share_that_was_served() {
        let cdf = Cdf {
            all: 4,
            ..Cdf::from_samples(vec![1.0, 2.0, 2.0]).unwrap()
        };
        assert_eq!(cdf.curve(false).last(), Some(&(2.0, 0.75)));
        assert_eq!(
            (cdf.served_share(), cdf.quantile(0.25), cdf.quantile(0.5)),
            (0.75, 1.0, 2.0)
        );
    }

    #[test]
    fn a_weight_is_as_many_samples() {
        assert_eq!(
            Cdf::from_counts([(1.0, 1), (2.0, 2), (3.0, 1)]),
            Cdf::from_samples(vec![1.0, 2.0, 2.0, 3.0])
        );
    }

    #[test]
    fn quantiles_are_samples() {
        let cdf = Cdf::from_samples((0..=100).map(f64::from).collect()).unwrap();
        for (share, value) in [(0.0, 0.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            assert_eq!(cdf.quantile(share), value);
        }
        assert_eq!(cdf.low_end(), Some(1.0), "the zero does not count");
        assert_eq!(Cdf::from_samples(vec![0.0]).unwrap().low_end(), None);
    }

    #[test]
    fn a_curve_of_many_samples_has_few_points_on_the_staircase() {
        let cdf = Cdf {
            all: 12_500,
            ..Cdf::from_samples((0..10_000).map(f64::from).collect()).unwrap()
        };
        for tail in [false, true] {
            let curve = cdf.curve(tail);
            assert!(
                curve.len() < 600 && curve.windows(2).all(|pair| pair[0].0 <= pair[1].0),
                "{curve:?}"
            );
            for &(value, share) in &curve {
                let below = if tail { 1.0 - share } else { share } * 12_500.0;
                assert!((value - below).abs() <= 1.5, "{value} {share}");
            }
            assert!(
                (curve.last().unwrap().1 - if tail { 0.2 } else { 0.8 }).abs() < 1e-9,
                "the share that was served"
            );
        }
    }
}
