//! Distributions: what share of the samples is at most so large.

/// A sample's distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Cdf {
    /// Each value that occurs, ascending, with the number of samples at or below it.
    steps: Vec<(f64, u64)>,
    count: u64,
}

impl Cdf {
    /// The distribution of some samples; nothing if there are none.
    pub fn of(mut samples: Vec<f64>) -> Option<Cdf> {
        samples.sort_by(f64::total_cmp);
        Cdf::weighted(samples.into_iter().map(|value| (value, 1)))
    }

    /// The distribution of values that ascend, each with how often it occurs; nothing if that is never.
    pub fn weighted(ascending: impl IntoIterator<Item = (f64, u64)>) -> Option<Cdf> {
        let mut cdf = Cdf { steps: Vec::new(), count: 0 };
        for (value, times) in ascending.into_iter().filter(|(_, times)| *times > 0) {
            cdf.count += times;
            match cdf.steps.last_mut() {
                Some(last) if last.0 == value => last.1 = cdf.count,
                _ => cdf.steps.push((value, cdf.count)),
            }
        }
        (cdf.count > 0).then_some(cdf)
    }

    /// The number of samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The least sample above 0, if there is one.
    pub fn least_positive(&self) -> Option<f64> {
        self.steps.iter().map(|(value, _)| *value).find(|value| *value > 0.0)
    }

    /// The largest sample.
    pub fn largest(&self) -> f64 {
        self.steps.last().map_or(0.0, |(value, _)| *value)
    }

    /// The least sample that at least this share of the samples is at or below.
    pub fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.count as f64).ceil();
        let place = self.steps.partition_point(|(_, below)| (*below as f64) < rank);
        self.steps.get(place).map_or(self.largest(), |(value, _)| *value)
    }

    /// The corners of the distribution's staircase: the share at or below each value.
    pub fn rising(&self) -> Vec<(f64, f64)> {
        let mut corners = Vec::with_capacity(2 * self.steps.len());
        let mut before = 0.0;
        for &(value, below) in &self.steps {
            let share = below as f64 / self.count as f64;
            corners.push((value, before));
            corners.push((value, share));
            before = share;
        }
        corners
    }

    /// The corners of the tail's staircase: the share above each value. It ends at the largest sample, above which
    /// there is none, with the share of the samples that are as large.
    pub fn falling(&self) -> Vec<(f64, f64)> {
        let mut corners: Vec<(f64, f64)> =
            self.rising().into_iter().map(|(value, share)| (value, 1.0 - share)).collect();
        corners.pop();
        corners
    }
}

/// A line without the points that hardly move it: at most a twentieth of a unit, less than any printer shows.
pub fn thinned(points: impl IntoIterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    const LEAST: f64 = 0.05;
    let mut kept: Vec<(f64, f64)> = Vec::new();
    let mut skipped = None;
    for point in points {
        match kept.last() {
            Some(last) if (point.0 - last.0).abs() < LEAST && (point.1 - last.1).abs() < LEAST => skipped = Some(point),
            _ => {
                kept.push(point);
                skipped = None;
            }
        }
    }
    kept.extend(skipped);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_count_equal_samples_together() {
        let cdf = Cdf::of(vec![3.0, 1.0, 2.0, 2.0]).unwrap();
        assert_eq!(cdf.rising(), [(1.0, 0.0), (1.0, 0.25), (2.0, 0.25), (2.0, 0.75), (3.0, 0.75), (3.0, 1.0)]);
        assert_eq!(cdf.falling(), [(1.0, 1.0), (1.0, 0.75), (2.0, 0.75), (2.0, 0.25), (3.0, 0.25)]);
        assert_eq!(Cdf::of(vec![]), None);
        assert_eq!(Cdf::weighted([(1.0, 0)]), None);
    }

    #[test]
    fn a_weight_is_as_many_samples() {
        assert_eq!(Cdf::weighted([(1.0, 1), (2.0, 2), (3.0, 1)]), Cdf::of(vec![1.0, 2.0, 2.0, 3.0]));
    }

    #[test]
    fn quantiles_are_samples() {
        let cdf = Cdf::of((0..=100).map(f64::from).collect()).unwrap();
        for (share, value) in [(0.0, 0.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            assert_eq!(cdf.quantile(share), value);
        }
        assert_eq!(cdf.least_positive(), Some(1.0));
    }

    #[test]
    fn thinning_keeps_ends_and_corners() {
        let line = (0..1000).map(|i| (f64::from(i) * 0.001, 0.0)).chain([(0.999, 5.0)]);
        let thin = thinned(line);
        assert!(thin.len() < 30);
        assert_eq!((thin[0], thin[thin.len() - 1]), ((0.0, 0.0), (0.999, 5.0)));
        assert_eq!(thinned([(0.0, 0.0), (0.01, 0.0)]), [(0.0, 0.0), (0.01, 0.0)]);
    }
}
