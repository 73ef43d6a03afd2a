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
