//! Times that were measured, and how well a line through their medians tells those between them.

use crate::cost::curve::Curve;
use crate::units::Nanos;

/// Measurements of one thing.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<u64>);

impl Samples {
    /// Adds a measurement.
    pub fn add(&mut self, time: Nanos) {
        self.0.push(time.0);
    }

    /// Their sum in nanoseconds.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The median, of two in the middle the lower one; 0 without samples. A pause of the machine moves it little.
    pub fn median(&self) -> Nanos {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        Nanos(sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(0))
    }

    /// The standard deviation in nanoseconds, from the distance of the quartiles, which of a normal distribution is 1.349
    /// standard deviations. Like the median it is moved little by a pause of the machine. 0 without samples.
    pub fn deviation(&self) -> f64 {
        const QUARTILES: f64 = 1.349;
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let quartile =
            |quarters: usize| sorted.get(sorted.len().saturating_sub(1) * quarters / 4).copied().unwrap_or(0);
        (quartile(3) - quartile(1)) as f64 / QUARTILES
    }
}

/// By how much the mean of tasks is above their median: the sum of all samples over the sum that they would have if each
/// took the median of its own kind. A machine takes time for itself (it runs other threads, its neighbours use the memory),
/// and medians leave that out, although a run pays it. The mean of a single kind would take a pause for the kind's own, so
/// that all of them have one ratio. Never below 1.
pub fn mean_over_median<'a>(kinds: impl IntoIterator<Item = &'a Samples>) -> f64 {
    let (mut sum, mut typical) = (0, 0);
    for samples in kinds {
        sum += samples.sum();
        typical += samples.count() as u64 * samples.median().0;
    }
    if typical == 0 { 1.0 } else { (sum as f64 / typical as f64).max(1.0) }
}

/// How far each inner point of a curve lies from the line that the others draw.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaveOneOut {
    /// The batch, and by what share the line is above the time that was measured.
    pub errors: Vec<(u32, f64)>,
}

impl LeaveOneOut {
    /// Leaves out each point but the first and the last in turn. Points by ascending batch.
    pub fn of(points: &[(u32, Nanos)]) -> LeaveOneOut {
        let inner = 1..points.len().saturating_sub(1);
        let error = |left_out: usize| {
            let others = points.iter().enumerate().filter(|(i, _)| *i != left_out).map(|(_, (b, t))| (*b, t.0));
            let (batch, time) = points[left_out];
            let line = Curve::new(others.collect()).expect("two points or more, each batch once").at(batch);
            (time > Nanos::ZERO).then(|| (batch, line.0 as f64 / time.0 as f64 - 1.0))
        };
        LeaveOneOut { errors: inner.filter_map(error).collect() }
    }

    /// The mean of the errors' sizes; `None` with fewer than three points.
    pub fn mean(&self) -> Option<f64> {
        let sum = self.errors.iter().map(|(_, error)| error.abs()).sum::<f64>();
        (!self.errors.is_empty()).then(|| sum / self.errors.len() as f64)
    }

    /// The largest error with its batch.
    pub fn largest(&self) -> Option<(u32, f64)> {
        self.errors.iter().copied().max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_a_sample() {
        let mut samples = Samples::default();
        assert_eq!((samples.median(), samples.deviation()), (Nanos(0), 0.0));
        for ns in [7, 1_000_000, 3, 4, 5] {
            samples.add(Nanos(ns));
        }
        assert_eq!(samples.median(), Nanos(5));
        assert!((samples.deviation() - 3.0 / 1.349).abs() < 1e-9, "{}", samples.deviation());
    }

    #[test]
    fn all_kinds_share_what_the_machine_takes_for_itself() {
        let of = |times: &[u64]| Samples(times.to_vec());
        // Medians 10 and 100: (10 + 10 + 16) + (100 + 104) over 3 times 10 and 2 times 100.
        let ratio = mean_over_median(&[of(&[10, 16, 10]), of(&[100, 104])]);
        assert!((ratio - 240.0 / 230.0).abs() < 1e-12, "{ratio}");
        assert_eq!(mean_over_median(&[of(&[1, 10, 10])]), 1.0);
        assert_eq!(mean_over_median(&[of(&[]), of(&[0])]), 1.0);
    }

    #[test]
    fn a_bend_shows_when_its_point_is_left_out() {
        let points = [(1, 10), (2, 20), (4, 40), (8, 60)].map(|(batch, ns)| (batch, Nanos(ns)));
        let found = LeaveOneOut::of(&points);
        // At 2 the line from (1, 10) to (4, 40) says 20; at 4 that from (2, 20) to (8, 60) says 33.3.
        assert_eq!(found.errors[0], (2, 0.0));
        assert_eq!(found.errors[1], (4, 33.0 / 40.0 - 1.0));
        assert_eq!(found.largest(), Some(found.errors[1]));
        assert_eq!(found.mean(), Some(-found.errors[1].1 / 2.0));
        assert_eq!(LeaveOneOut::of(&points[..2]).mean(), None);
    }
}
