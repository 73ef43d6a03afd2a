//! Time by batch size, interpolated between measured points.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::base::units::Nanos;

/// A curve is linear between points and flat below the first. Above the last it follows the line of the last two
/// points, or is proportional if there is only one; it is never below zero. Times are computed in integers and rounded
/// half up, so that they are the same on every platform.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The batches and their times in ns, ascending; each batch is there once.
    points: Vec<(u32, u64)>,
    /// The times of batches up to [`TABULATED`]. Clones share them, since each policy has many.
    small: Arc<[Nanos]>,
    preferred: u32,
}

/// The least time of a batch and of a member in any batch: bounds of latency and throughput.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    pub time: Nanos,
    /// Nanoseconds per member at the best throughput.
    pub share_ns: f64,
}

impl Best {
    pub fn new(batch: u32, time: Nanos) -> Best {
        Best {
            time,
            share_ns: time.0 as f64 / f64::from(batch),
        }
    }

    pub fn or(self, other: Best) -> Best {
        Best {
            time: self.time.min(other.time),
            share_ns: self.share_ns.min(other.share_ns),
        }
    }
}

/// The largest batch whose time is computed beforehand.
const TABULATED: u32 = 2048;

impl Curve {
    /// The curve through times in ns by batch; `None` without points, or with a batch of 0.
    pub fn new(points: BTreeMap<u32, u64>) -> Option<Curve> {
        let points: Vec<(u32, u64)> = points.into_iter().collect();
        points.first().filter(|(batch, _)| *batch > 0)?;
        let mut curve = Curve {
            points,
            small: Arc::from([]),
            preferred: 1,
        };
        curve.small = (0..=TABULATED).map(|batch| curve.compute(batch)).collect();
        curve.preferred = preferred_batch(|batch| curve.time(batch));
        Some(curve)
    }

    pub fn constant(time: Nanos) -> Curve {
        Curve::new(BTreeMap::from([(1, time.0), (2, time.0)])).expect("there are two points")
    }

    #[inline]
    pub fn time(&self, batch: u32) -> Nanos {
        self.small
            .get(batch as usize)
            .copied()
            .unwrap_or_else(|| self.compute(batch))
    }

    pub fn preferred_batch(&self) -> u32 {
        self.preferred
    }

    pub fn least(&self) -> Nanos {
        Nanos(self.points.iter().map(|(_, time)| *time).min().unwrap_or(0))
    }

    /// The batches with points; outside of them times are extrapolated.
    pub fn measured_batches(&self) -> RangeInclusive<u32> {
        match &self.points[..] {
            [] => 0..=0,
            [(only, _)] => *only..=*only,
            [(first, _), .., (last, _)] => *first..=*last,
        }
    }

    /// The first pair of batches of which the larger takes less time, beyond what measurements scatter.
    pub fn falls(&self) -> Option<(u32, u32)> {
        for pair in self.points.windows(2) {
            let (smaller, before) = pair[0];
            let (larger, after) = pair[1];
            if (after as f64) < 0.95 * before as f64 {
                return Some((smaller, larger));
            }
        }
        None
    }

    /// The least times in batches up to `largest` and the largest measured one.
    pub fn best(&self, largest: u32) -> Best {
        let last = *self.measured_batches().end();
        // Times are rounded, so the best batch need not be a point: try all.
        let measured = (1..=last).chain(self.candidates(last, largest));
        let all = measured.map(|batch| Best::new(batch, self.time(batch)));
        all.reduce(Best::or).expect("a curve has a point")
    }

    /// The batches above the last point, up to `largest`, that can be the best. There the time is a line, so that the
    /// time of a member falls or climbs all the way, but for the rounding: only one end can have the least. Rounding to
    /// half a nanosecond matters within a share of about 1 / intercept of that end.
    fn candidates(&self, last: u32, largest: u32) -> RangeInclusive<u32> {
        let from = last + 1;
        let to = largest.max(last);
        let [before, after] = match self.points[..] {
            [.., before, after] => [before, after],
            // The time is proportional, so that only rounding decides.
            _ => return from..=to,
        };
        let slope = (after.1 as f64 - before.1 as f64) / f64::from(after.0 - before.0);
        let intercept = after.1 as f64 - slope * f64::from(after.0);
        // The bounds are wide enough for the errors of these numbers.
        let margin = 2.0;
        if slope < 0.0 || intercept.abs() <= 2.0 * margin {
            return from..=to;
        }
        let share = (intercept.abs() - margin) / (intercept.abs() + margin);
        if intercept > 0.0 {
            let first = (f64::from(to) * share).floor() as u32;
            first.clamp(from, to.max(from))..=to
        } else {
            let end = (f64::from(last) / share).ceil() as u32;
            from..=end.clamp(last, to)
        }
    }

    fn compute(&self, batch: u32) -> Nanos {
        let points = &self.points;
        let above = points.partition_point(|(b, _)| *b <= batch);
        match (above, points.len()) {
            (0, _) => Nanos(points[0].1),
            (1, 1) => interpolate([(0, 0), points[0]], batch),
            (_, count) => {
                let to = above.min(count - 1);
                interpolate([points[to - 1], points[to]], batch)
            }
        }
    }
}

/// The time at a place of the line through two points, rounded half up and never below zero.
pub(super) fn interpolate([(before, from), (after, to)]: [(u32, u64); 2], at: u32) -> Nanos {
    let [from, to] = [from, to].map(i128::from);
    let run = i128::from(after - before);
    let scaled = from * run + (to - from) * (i128::from(at) - i128::from(before));
    Nanos(
        (2 * scaled + run)
            .div_euclid(2 * run)
            .clamp(0, u64::MAX.into()) as u64,
    )
}

/// The largest preferred batch.
pub const LARGEST: u32 = 1024;

/// The smallest power of two up to [`LARGEST`] whose doubling takes at least half as long again: above it batching
/// gains little (DVABatch, section 3.2).
pub fn preferred_batch(time: impl Fn(u32) -> Nanos) -> u32 {
    for power in 0..LARGEST.ilog2() {
        let batch = 1 << power;
        let doubled = time(2 * batch);
        if 2 * u128::from(doubled.0) >= 3 * u128::from(time(batch).0) {
            return batch;
        }
    }
    LARGEST
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u32, u64)]) -> Curve {
        Curve::new(points.iter().copied().collect()).unwrap()
    }

    #[test]
    fn clones_share_their_table() {
        let curve = Curve::constant(Nanos(3));
        assert!(Arc::ptr_eq(&curve.small, &curve.clone().small));
        assert_eq!([0, 1, 5000].map(|batch| curve.time(batch)), [Nanos(3); 3]);
    }

    #[test]
    fn it_is_linear_between_points_flat_below_and_goes_on_above() {
        let curve = curve(&[(4, 100), (8, 201), (16, 301)]);
        assert_eq!(curve.time(1), Nanos(100));
        assert_eq!(curve.time(4), Nanos(100));
        assert_eq!(curve.time(6), Nanos(151), "150.5 is rounded up");
        assert_eq!(curve.time(8), Nanos(201));
        assert_eq!(curve.time(24), Nanos(401));
        assert_eq!(curve.time(3_000), Nanos(301 + 2984 * 100 / 8));
        assert_eq!(curve.measured_batches(), 4..=16);
    }

    #[test]
    fn from_the_preferred_batch_on_twice_as_many_take_half_as_long_again() {
        let preferred = |points: &[(u32, u64)]| curve(points).preferred_batch();
        assert_eq!(preferred(&[(1, 100), (8, 100), (16, 150), (32, 300)]), 8);
        assert_eq!(preferred(&[(1, 100), (8, 100), (16, 149), (32, 300)]), 16);
        assert_eq!(preferred(&[(8, 9)]), 8);
        assert_eq!(preferred(&[(1, 0), (8, 0)]), 1);
        assert_eq!(preferred(&[(1, u64::MAX), (u32::MAX, u64::MAX)]), 1024);
    }

    #[test]
    fn a_single_point_is_in_proportion_above() {
        let curve = curve(&[(10, 7)]);
        assert_eq!(curve.time(3), Nanos(7));
        assert_eq!(curve.time(25), Nanos(18), "17.5 is rounded up");
    }

    #[test]
    fn a_falling_curve_is_known() {
        let falls = |points: &[(u32, u64)]| curve(points).falls();
        assert_eq!(
            falls(&[(1, 1000), (2, 1100), (4, 220), (8, 400)]),
            Some((2, 4))
        );
        assert_eq!(
            falls(&[(1, 1000), (2, 990), (4, 1100)]),
            None,
            "measurements scatter"
        );
    }

    #[test]
    fn a_falling_curve_stops_at_zero() {
        let curve = curve(&[(1, 10), (2, 5)]);
        assert_eq!(curve.time(3), Nanos(0));
        assert_eq!(curve.time(9_999), Nanos(0));
    }

    #[test]
    fn bad_points_are_refused() {
        assert!(Curve::new(BTreeMap::new()).is_none());
        assert!(Curve::new(BTreeMap::from([(0, 1)])).is_none());
    }

    #[test]
    fn the_best_batch_is_that_of_all_batches() {
        let tables = [
            &[(1, 1_000), (64, 9_000)][..],
            &[(1, 10), (64, 900)],
            &[(1, 1_000), (4, 4_000), (8, 9_500)],
            &[(2, 700)],
            &[(1, 5), (2, 9), (3, 14)],
            &[(1, 300), (8, 300)],
            &[(1, 900), (8, 100)],
            &[(1, 17_123), (512, 1_234_567)],
        ];
        for table in tables {
            let curve = Curve::new(table.iter().copied().collect()).unwrap();
            let mut all: Option<Best> = None;
            for batch in 1..=30_000 {
                let one = Best::new(batch, curve.time(batch));
                let best = all.map_or(one, |best| best.or(one));
                all = Some(best);
                let is_looked_at = batch < 700 || batch % 997 == 0;
                if batch >= *curve.measured_batches().end() && is_looked_at {
                    assert_eq!(curve.best(batch), best, "{table:?} up to {batch}");
                }
            }
        }
    }
}
