//! Time by batch size, interpolated between measured points.

use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};

use crate::units::Nanos;

/// Linear between points, flat below the first. Above the last it follows the line of the last two points, or is
/// proportional if there is only one; never below zero. In integers, rounded half up: the same on every platform.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Batch and ns, ascending, no batch twice.
    points: Vec<(u32, u64)>,
    /// Shared by clones, of which each policy has many.
    small: Arc<[Nanos]>,
    preferred: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    pub time: Nanos,
    /// Nanoseconds per member at the best throughput.
    pub share_ns: f64,
}

impl Best {
    pub fn of(batch: u32, time: Nanos) -> Best {
        Best { time, share_ns: time.0 as f64 / f64::from(batch) }
    }

    pub fn or(self, other: Best) -> Best {
        Best { time: self.time.min(other.time), share_ns: self.share_ns.min(other.share_ns) }
    }
}

const TABULATED: u32 = 2048;

impl Curve {
    pub fn new(mut points: Vec<(u32, u64)>) -> Result<Curve, String> {
        points.sort_unstable();
        if points.is_empty() {
            return Err("a cost curve has at least one point".into());
        }
        if points[0].0 == 0 {
            return Err("a batch has at least one member".into());
        }
        if let Some(pair) = points.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(format!("batch {} is given twice", pair[0].0));
        }
        let mut curve = Curve { points, small: Arc::from([]), preferred: 1 };
        curve.small = (0..=TABULATED).map(|batch| curve.compute(batch)).collect();
        curve.preferred = preferred(|batch| curve.at(batch));
        Ok(curve)
    }

    pub fn constant(time: Nanos) -> Curve {
        static NOTHING: LazyLock<Curve> = LazyLock::new(|| Curve::flat(Nanos::ZERO));
        if time == Nanos::ZERO { NOTHING.clone() } else { Curve::flat(time) }
    }

    fn flat(time: Nanos) -> Curve {
        Curve::new(vec![(1, time.0), (2, time.0)]).expect("two different batches")
    }

    pub fn at(&self, batch: u32) -> Nanos {
        self.small.get(batch as usize).copied().unwrap_or_else(|| self.compute(batch))
    }

    pub fn preferred(&self) -> u32 {
        self.preferred
    }

    /// Batches with points; outside, times are extrapolated.
    pub fn measured(&self) -> RangeInclusive<u32> {
        let batch = |point: Option<&(u32, u64)>| point.map_or(0, |(batch, _)| *batch);
        batch(self.points.first())..=batch(self.points.last())
    }

    /// The first pair of batches of which the larger takes less time, beyond what measurements scatter.
    pub fn falls(&self) -> Option<(u32, u32)> {
        let falls = |pair: &&[(u32, u64)]| (pair[1].1 as f64) < 0.95 * pair[0].1 as f64;
        self.points.windows(2).find(falls).map(|pair| (pair[0].0, pair[1].0))
    }

    pub fn best(&self, largest: u32) -> Best {
        // Times are rounded, so the best batch need not be a point: try all.
        let all = (1..=largest.max(*self.measured().end())).map(|batch| Best::of(batch, self.at(batch)));
        all.reduce(Best::or).expect("a curve has a point")
    }

    fn compute(&self, batch: u32) -> Nanos {
        let points = &self.points;
        let above = points.partition_point(|(b, _)| *b <= batch);
        let (from, to) = match (above, points.len()) {
            (0, _) => return Nanos(points[0].1),
            (1, 1) => ((0, 0), points[0]),
            (_, count) => {
                let to = above.min(count - 1);
                (points[to - 1], points[to])
            }
        };
        let (b0, t0) = (i128::from(from.0), i128::from(from.1));
        let (b1, t1) = (i128::from(to.0), i128::from(to.1));
        let run = b1 - b0;
        let scaled = t0 * run + (t1 - t0) * (i128::from(batch) - b0);
        let rounded = (2 * scaled + run).div_euclid(2 * run);
        Nanos(rounded.clamp(0, i128::from(u64::MAX)) as u64)
    }
}

pub const LARGEST: u32 = 1024;

/// The smallest power of two up to [`LARGEST`] whose doubling takes at least half as long again: above it batching
/// gains little (DVABatch, section 3.2).
pub fn preferred(time: impl Fn(u32) -> Nanos) -> u32 {
    let fills = |batch: &u32| 2 * u128::from(time(2 * batch).0) >= 3 * u128::from(time(*batch).0);
    (0..LARGEST.ilog2()).map(|power| 1 << power).find(fills).unwrap_or(LARGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_and_curves_of_nothing_share_their_table() {
        let (one, other) = (Curve::constant(Nanos::ZERO), Curve::constant(Nanos::ZERO));
        assert!(Arc::ptr_eq(&one.small, &other.small) && Arc::ptr_eq(&one.small, &one.clone().small));
        assert_eq!([0, 1, 5000].map(|batch| one.at(batch)), [Nanos::ZERO; 3]);
    }

    #[test]
    fn it_is_linear_between_points_flat_below_and_goes_on_above() {
        let curve = Curve::new(vec![(4, 100), (8, 201), (16, 301)]).unwrap();
        assert_eq!(curve.at(1), Nanos(100));
        assert_eq!(curve.at(4), Nanos(100));
        assert_eq!(curve.at(6), Nanos(151), "150.5 is rounded up");
        assert_eq!(curve.at(8), Nanos(201));
        assert_eq!(curve.at(24), Nanos(401));
        assert_eq!(curve.at(3_000), Nanos(301 + 2984 * 100 / 8));
        assert_eq!(curve.measured(), 4..=16);
    }

    #[test]
    fn from_the_preferred_batch_on_twice_as_many_take_half_as_long_again() {
        let preferred = |points: &[(u32, u64)]| Curve::new(points.to_vec()).unwrap().preferred();
        assert_eq!(preferred(&[(1, 100), (8, 100), (16, 150), (32, 300)]), 8);
        assert_eq!(preferred(&[(1, 100), (8, 100), (16, 149), (32, 300)]), 16);
        assert_eq!(preferred(&[(8, 9)]), 8);
        assert_eq!(preferred(&[(1, 0), (8, 0)]), 1);
        assert_eq!(preferred(&[(1, u64::MAX), (u32::MAX, u64::MAX)]), 1024);
    }

    #[test]
    fn a_single_point_is_in_proportion_above() {
        let curve = Curve::new(vec![(10, 7)]).unwrap();
        assert_eq!(curve.at(3), Nanos(7));
        assert_eq!(curve.at(25), Nanos(18), "17.5 is rounded up");
    }

    #[test]
    fn a_falling_curve_is_known() {
        let falls = |points: &[(u32, u64)]| Curve::new(points.to_vec()).unwrap().falls();
        assert_eq!(falls(&[(1, 1000), (2, 1100), (4, 220), (8, 400)]), Some((2, 4)));
        assert_eq!(falls(&[(1, 1000), (2, 990), (4, 1100)]), None, "measurements scatter");
    }

    #[test]
    fn a_falling_curve_stops_at_zero() {
        let curve = Curve::new(vec![(1, 10), (2, 5)]).unwrap();
        assert_eq!(curve.at(3), Nanos(0));
        assert_eq!(curve.at(9_999), Nanos(0));
    }

    #[test]
    fn bad_points_are_refused() {
        assert!(Curve::new(vec![]).is_err());
        assert!(Curve::new(vec![(0, 1)]).is_err());
        assert_eq!(Curve::new(vec![(3, 1), (3, 2)]).unwrap_err(), "batch 3 is given twice");
    }
}
