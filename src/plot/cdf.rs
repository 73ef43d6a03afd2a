//! Distributions: what share of the samples is at most so large.

use super::canvas::Point;

/// The shares at which a line gets a marker, so that it is known without its colour.
pub const MARKED: [f64; 4] = [0.1, 0.5, 0.9, 0.99];

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

    /// The value that one in a hundred of the samples above 0 is at or below; nothing if none is above 0.
    pub fn low_end(&self) -> Option<f64> {
        let zeros = self.steps.first().map_or(0, |&(value, below)| if value > 0.0 { 0 } else { below });
        let rank = zeros + (self.count - zeros).div_ceil(100);
        let place = self.steps.partition_point(|(_, below)| *below < rank);
        self.steps.get(place).map(|(value, _)| *value).filter(|value| *value > 0.0)
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
    pub fn rising(&self) -> impl Iterator<Item = (f64, f64)> {
        let mut before = 0.0;
        self.steps.iter().flat_map(move |&(value, below)| {
            let from = before;
            before = below as f64 / self.count as f64;
            [(value, from), (value, before)]
        })
    }

    /// The corners of the tail's staircase: the share above each value. It ends at the largest sample, above which
    /// there is none, with the share of the samples that are as large.
    pub fn falling(&self) -> impl Iterator<Item = (f64, f64)> {
        self.rising().take(2 * self.steps.len() - 1).map(|(value, share)| (value, 1.0 - share))
    }
}

/// A line with few points that nowhere lies farther than an eighth of a unit, a sixteenth of a point in print, from the
/// one through all (Ramer, Douglas and Peucker's algorithm). Steps that can be seen stay steps, those that can't become
/// a slope.
pub fn simplified(points: impl Iterator<Item = Point>) -> Vec<Point> {
    const TOLERANCE: f64 = 0.125;
    // Most of a long log's points fall on one another; these need not be held.
    const SAME: f64 = 0.01;
    let mut kept: Vec<Point> = Vec::new();
    let mut dropped = None;
    for point in points {
        dropped = kept.last().filter(|k| (k.0 - point.0).abs() < SAME && (k.1 - point.1).abs() < SAME).map(|_| point);
        if dropped.is_none() {
            kept.push(point);
        }
    }
    kept.extend(dropped);
    simplified_slice(&kept, TOLERANCE)
}

/// A staircase with few corners, all of whose lines stay level or upright: a step that begins less than an eighth of a
/// unit behind another is joined to it. The corners come in pairs, as those of [`Cdf::rising`].
pub fn stepped(corners: impl Iterator<Item = Point>) -> Vec<Point> {
    const TOLERANCE: f64 = 0.125;
    let corners: Vec<Point> = corners.collect();
    let mut kept: Vec<Point> = Vec::new();
    for pair in corners.chunks_exact(2) {
        match kept.last_mut() {
            Some(last) if pair[1].0 - last.0 < TOLERANCE => last.1 = pair[1].1,
            _ => kept.extend(pair),
        }
    }
    kept
}

fn simplified_slice(points: &[Point], tolerance: f64) -> Vec<Point> {
    let Some(last) = points.len().checked_sub(1) else {
        return Vec::new();
    };
    let mut kept = vec![false; points.len()];
    (kept[0], kept[last]) = (true, true);
    let mut spans = vec![(0, last)];
    while let Some((from, to)) = spans.pop() {
        let farthest = (from + 1..to)
            .map(|i| (distance(points[i], points[from], points[to]), i))
            .max_by(|(a, _), (b, _)| a.total_cmp(b));
        if let Some((_, place)) = farthest.filter(|(far, _)| *far > tolerance) {
            kept[place] = true;
            spans.extend([(from, place), (place, to)]);
        }
    }
    points.iter().zip(kept).filter_map(|(point, kept)| kept.then_some(*point)).collect()
}

/// How far a point is from a segment.
fn distance(point: Point, from: Point, to: Point) -> f64 {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let squared = dx * dx + dy * dy;
    let along = if squared > 0.0 { ((point.0 - from.0) * dx + (point.1 - from.1) * dy) / squared } else { 0.0 };
    let along = along.clamp(0.0, 1.0);
    (point.0 - from.0 - along * dx).hypot(point.1 - from.1 - along * dy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_count_equal_samples_together() {
        let cdf = Cdf::of(vec![3.0, 1.0, 2.0, 2.0]).unwrap();
        assert_eq!(
            cdf.rising().collect::<Vec<_>>(),
            [(1.0, 0.0), (1.0, 0.25), (2.0, 0.25), (2.0, 0.75), (3.0, 0.75), (3.0, 1.0)]
        );
        assert_eq!(cdf.falling().collect::<Vec<_>>(), [(1.0, 1.0), (1.0, 0.75), (2.0, 0.75), (2.0, 0.25), (3.0, 0.25)]);
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
        assert_eq!(cdf.low_end(), Some(1.0), "the zero does not count");
        assert_eq!(Cdf::of(vec![0.0]).unwrap().low_end(), None);
    }

    #[test]
    fn a_staircase_stays_one() {
        let step = |x: f64, from: f64, to: f64| [(x, from), (x, to)];
        let corners = [step(1.0, 9.0, 8.0), step(1.05, 8.0, 7.0), step(2.0, 7.0, 6.99)].concat();
        assert_eq!(stepped(corners.into_iter()), [step(1.0, 9.0, 7.0), step(2.0, 7.0, 6.99)].concat());
    }

    #[test]
    fn a_simpler_line_keeps_steps_that_can_be_seen() {
        let fine =
            |i: u32| [(f64::from(i) * 0.01, f64::from(i) * 0.01), (f64::from(i + 1) * 0.01, f64::from(i) * 0.01)];
        let mut line: Vec<Point> = (0..1000).flat_map(fine).collect();
        assert_eq!(simplified(line.iter().copied()), [line[0], line[line.len() - 1]], "invisible steps become a slope");
        line.extend([(15.0, 9.99), (15.0, 20.0)]);
        let simple = simplified(line.iter().copied());
        assert_eq!(simple.len(), 4, "{simple:?}");
        assert_eq!(simple[2..], [(15.0, 9.99), (15.0, 20.0)]);
        assert_eq!(simplified([].into_iter()), []);
        assert_eq!(simplified([(1.0, 2.0)].into_iter()), [(1.0, 2.0)]);
    }
}
