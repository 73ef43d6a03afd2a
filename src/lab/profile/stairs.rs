//! The search for the batch sizes of a table. The time of a cell is a staircase on most devices: a library pads rows to
//! the tiles of its kernels. A straight line over the foot of a stair is off by up to the stair's height.
//!
//! The search starts at powers of two and measures the middle of each interval. Where the line between its ends misses
//! by more than [`MISS`], it goes on with both halves, the largest misses first. A middle may lie on the line by
//! chance, so a random size of each wide interval is measured at the end, and the search goes on where one misses.
//! Sizes that lie on the lines between others are then left out: a stair needs its first and its last size.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt as _;

use crate::base::error::Result;
use crate::core::cost::curve::Curve;
use crate::core::workload::random::RandomSequence;

/// The distance of a line from a measured time, as a share of that time, above which the search divides an interval.
pub const MISS: f64 = 0.02;

/// The most sizes that a search measures. Each stair takes about twice the logarithm of its distance from the next.
const MOST: usize = 144;

/// The miss at a measured size up to which it is left out of the table.
const ON_LINE: f64 = 0.01;

/// The most intervals that are checked after a search.
const CHECKS: usize = 32;

/// The most intervals with sizes that are held out.
const HELD_OUT: usize = 10;

/// The most searches, each after the checks of the one before.
const ROUNDS: usize = 4;

/// The standard errors of a measured miss below which it may be noise.
const SURE: f64 = 2.0;

/// The share by which a batch that is padded to the end of its stair may take longer, in [`stair_ends`].
const STAIR: f64 = 0.1;

/// How far a line is from a measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Miss {
    /// The distance as a share of the measured time.
    pub share: f64,
    /// The standard error of the share.
    pub error: f64,
}

impl Miss {
    /// The miss of the line through two neighbours at a size between them. Each point is a batch size, its time and the
    /// relative error of that time.
    pub fn from_line([from, at, to]: [(u32, f64, f64); 3]) -> Miss {
        let place = f64::from(at.0 - from.0) / f64::from(to.0 - from.0);
        let line = from.1 + place * (to.1 - from.1);
        let line_error = ((1.0 - place) * from.2).hypot(place * to.2);
        Miss {
            share: (line / at.1.max(1.0) - 1.0).abs(),
            error: at.2.hypot(line_error),
        }
    }

    /// The larger of two misses by what is certain of it.
    pub fn or(self, other: Miss) -> Miss {
        if self.share - SURE * self.error >= other.share - SURE * other.error {
            self
        } else {
            other
        }
    }

    fn counts(&self) -> bool {
        self.share > MISS.max(SURE * self.error)
    }
}

/// The batch sizes of a table, and sizes between them that are measured only to check it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableSizes {
    /// The sizes of the rows, ascending.
    pub batches: Vec<u32>,
    /// The sizes of the check, ascending. None of them is a row.
    pub held_out: Vec<u32>,
}

impl TableSizes {
    /// These sizes, and two in each of the widest intervals between them: the first, where the stair of a tile would
    /// begin, and a random one.
    pub fn with_checks(batches: Vec<u32>, random: &mut RandomSequence) -> TableSizes {
        let ascending = batches.iter().copied().collect();
        let mut held_out = BTreeSet::new();
        for [from, size, _] in checks(&ascending, HELD_OUT, random) {
            held_out.extend([from + 1, size]);
        }
        TableSizes {
            batches,
            held_out: held_out.into_iter().collect(),
        }
    }

    /// All sizes to measure, ascending.
    pub fn all_sizes(&self) -> Vec<u32> {
        let mut all = [&self.batches[..], &self.held_out].concat();
        all.sort_unstable();
        all
    }
}

/// A function that gives the miss at the middle size of each of some intervals, or `None` if the search is to end.
pub type MeasureMisses<'m> = dyn FnMut(&[[u32; 3]]) -> Result<Option<Vec<Miss>>> + 'm;

/// An interval whose middle is not measured, and the miss that led to it.
type Interval = (f64, [u32; 2]);

/// Measures sizes up to `largest` until times between them are nearly straight lines, and returns all that it measured.
pub fn search(
    largest: u32,
    random: &mut RandomSequence,
    measure: &mut MeasureMisses<'_>,
) -> Result<Vec<u32>> {
    let mut sizes = BTreeSet::from([largest]);
    sizes.extend(
        (0..)
            .map(|power| 1 << power)
            .take_while(|size| *size < largest),
    );
    let mut open: Vec<Interval> = intervals(&sizes)
        .into_iter()
        .map(|interval| (f64::MAX, interval))
        .collect();
    for _ in 0..ROUNDS {
        bisect(&mut sizes, open, measure)?;
        let probes = checks(&sizes, CHECKS, random);
        let Some(misses) = measure(&probes)? else {
            break;
        };
        open = Vec::new();
        for (probe, miss) in probes.iter().zip(misses) {
            if miss.counts() && sizes.len() < MOST {
                divide(&mut sizes, &mut open, *probe, &miss);
            }
        }
        if open.is_empty() {
            break;
        }
    }
    Ok(sizes.into_iter().collect())
}

/// Measures the middles of intervals, and of the halves of those whose line misses.
fn bisect(
    sizes: &mut BTreeSet<u32>,
    mut open: Vec<Interval>,
    measure: &mut MeasureMisses<'_>,
) -> Result<()> {
    loop {
        open.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let mut probes = Vec::new();
        for (_, [from, to]) in open {
            if to - from > 1 {
                probes.push([from, from + (to - from) / 2, to]);
            }
        }
        probes.truncate(MOST.saturating_sub(sizes.len()));
        if probes.is_empty() {
            return Ok(());
        }
        probes.sort_unstable();
        let Some(misses) = measure(&probes)? else {
            return Ok(());
        };
        open = Vec::new();
        for (probe, miss) in probes.iter().zip(misses) {
            sizes.insert(probe[1]);
            if miss.counts() {
                divide(sizes, &mut open, *probe, &miss);
            }
        }
    }
}

/// Divides an interval at a measured size.
fn divide(
    sizes: &mut BTreeSet<u32>,
    open: &mut Vec<Interval>,
    [from, at, to]: [u32; 3],
    miss: &Miss,
) {
    sizes.insert(at);
    open.extend([(miss.share, [from, at]), (miss.share, [at, to])]);
}

/// The pairs of neighbours among some sizes.
fn intervals(sizes: &BTreeSet<u32>) -> Vec<[u32; 2]> {
    let after = sizes.iter().skip(1);
    let mut pairs = Vec::new();
    for (from, to) in sizes.iter().zip(after) {
        pairs.push([*from, *to]);
    }
    pairs
}

/// The sizes without those at which the lines between the others miss little, on each of some curves. Powers of two
/// stay.
pub fn prune(sizes: &[u32], curves: &[BTreeMap<u32, f64>]) -> Vec<u32> {
    let mut kept = sizes.to_vec();
    let mut place = 1;
    while place + 1 < kept.len() {
        let size = kept[place];
        let ends = [kept[place - 1], kept[place + 1]];
        if !size.is_power_of_two() && curves.iter().all(|times| is_line(times, ends)) {
            kept.remove(place);
        } else {
            place += 1;
        }
    }
    kept
}

/// Whether all times between two sizes lie on the line between theirs.
fn is_line(times: &BTreeMap<u32, f64>, [from, to]: [u32; 2]) -> bool {
    let (Some(first), Some(last)) = (times.get(&from), times.get(&to)) else {
        return false;
    };
    times.range(from + 1..to).all(|(size, time)| {
        let points = [(from, *first, 0.0), (*size, *time, 0.0), (to, *last, 0.0)];
        Miss::from_line(points).share <= ON_LINE
    })
}

/// A random size in each of the widest intervals, relative to their sizes, with the ends of the interval.
fn checks(sizes: &BTreeSet<u32>, most: usize, random: &mut RandomSequence) -> Vec<[u32; 3]> {
    let mut gaps = intervals(sizes);
    gaps.retain(|[from, to]| to - from > 1);
    gaps.sort_by(|a, b| {
        let widths = [a, b].map(|[from, to]| f64::from(*to) / f64::from(*from));
        widths[1].total_cmp(&widths[0])
    });
    gaps.truncate(most);
    gaps.sort_unstable();
    let mut probes = Vec::new();
    for [from, to] in gaps {
        probes.push([from, random.random_range(from + 1..to), to]);
    }
    probes
}

/// The misses of a table's lines at sizes that are no rows of it, with the sizes.
pub fn misses_at(held_out: &[u32], times: &BTreeMap<u32, f64>) -> Vec<(u32, f64)> {
    let mut rows = BTreeMap::new();
    for (size, time) in times {
        if !held_out.contains(size) {
            rows.insert(*size, time.round() as u64);
        }
    }
    let Some(curve) = Curve::new(rows) else {
        return Vec::new();
    };
    let measured = curve.measured_batches();
    let mut found = Vec::new();
    for size in held_out {
        if let Some(time) = times.get(size)
            && measured.contains(size)
            && *time > 0.0
        {
            found.push((*size, (curve.time(*size).0 as f64 / time - 1.0).abs()));
        }
    }
    found
}

/// The ends of stairs: the fewest of these sizes such that a batch that is padded to the next of them takes at most a
/// tenth longer, on each of some curves. The sizes ascend, and each curve has a time for each.
pub fn stair_ends(sizes: &[u32], curves: &[Vec<f64>]) -> Vec<u32> {
    let mut ends = Vec::new();
    let mut end = usize::MAX;
    for place in (0..sizes.len()).rev() {
        let is_end = end == usize::MAX
            || curves
                .iter()
                .any(|times| times[place] * (1.0 + STAIR) < times[end]);
        if is_end {
            ends.push(sizes[place]);
            end = place;
        }
    }
    ends.reverse();
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::workload::random;
    use crate::lab::usability::LARGEST_MISS;

    /// The steps of an LSTM of 1024 in float32 on an H100 in us: the first size of each stair, its time there, and the
    /// time at its end. Above 512 rows the stairs are made up.
    const H100: [(u32, f64, f64); 14] = [
        (1, 13.0, 13.0),
        (2, 15.5, 15.5),
        (3, 18.0, 39.0),
        (17, 34.2, 35.0),
        (33, 40.3, 41.5),
        (65, 61.5, 67.1),
        (129, 98.2, 100.9),
        (161, 94.5, 94.9),
        (193, 106.5, 107.6),
        (257, 135.5, 136.2),
        (321, 156.5, 157.2),
        (385, 186.1, 187.7),
        (513, 280.0, 290.0),
        (641, 330.0, 375.0),
    ];

    fn h100(size: u32) -> f64 {
        let place = H100.partition_point(|(first, ..)| *first <= size) - 1;
        let (first, from, to) = H100[place];
        let last = H100.get(place + 1).map_or(1024, |(next, ..)| next - 1);
        from + (to - from) * f64::from(size - first) / f64::from((last - first).max(1))
    }

    /// The sizes that are found on a device with these times, each of which a measurement changes by up to this share,
    /// and the number of measurements.
    fn found(time: &dyn Fn(u32) -> f64, noise: f64, seed: u64, largest: u32) -> (Vec<u32>, usize) {
        let mut random = random::sequence(seed, 0, "stairs");
        let mut disturbed = random::sequence(seed, 0, "noise");
        let mut times: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        let mut measure = |probes: &[[u32; 3]]| {
            let mut misses = Vec::new();
            for probe in probes {
                misses.push(Miss::from_line(probe.map(|size| {
                    let factor = 1.0 + noise * (2.0 * disturbed.random::<f64>() - 1.0);
                    let took = time(size) * factor;
                    times.entry(size).or_default().push(took);
                    (size, took, noise / 2.0)
                })));
            }
            Ok(Some(misses))
        };
        let sizes = search(largest, &mut random, &mut measure).unwrap();
        let measured = times.values().map(Vec::len).sum();
        let mut curve = BTreeMap::new();
        for (size, mut times) in times {
            times.sort_by(f64::total_cmp);
            curve.insert(size, times[times.len() / 2]);
        }
        (prune(&sizes, &[curve]), measured)
    }

    /// The largest miss of the true times between the sizes.
    fn largest_miss(sizes: &[u32], time: &dyn Fn(u32) -> f64) -> f64 {
        let largest = sizes[sizes.len() - 1];
        let missing: Vec<u32> = (1..largest).filter(|size| !sizes.contains(size)).collect();
        let times = (1..=largest).map(|size| (size, 1e3 * time(size))).collect();
        let misses = misses_at(&missing, &times);
        misses.into_iter().map(|(_, miss)| miss).fold(0.0, f64::max)
    }

    #[test]
    fn the_stairs_of_an_h100_are_found_to_the_row() {
        for seed in 1..=10 {
            let (sizes, measured) = found(&h100, 0.0, seed, 1024);
            for stair in [64, 65, 128, 129, 256, 257, 320, 321, 512, 513] {
                assert!(sizes.contains(&stair), "{stair}: {sizes:?}");
            }
            assert!(largest_miss(&sizes, &h100) <= MISS, "{sizes:?}");
            let sizes_in_all = sizes.len();
            assert!(
                sizes_in_all <= 40 && measured <= 520,
                "{measured}: {sizes:?}"
            );
        }
    }

    #[test]
    fn noise_leaves_small_misses_and_does_not_lead_the_search_astray() {
        let mut good = 0;
        for seed in 1..=20 {
            let (sizes, measured) = found(&h100, 0.01, seed, 512);
            assert!(
                sizes.len() <= 64 && measured <= 3 * MOST + 100,
                "{measured}: {sizes:?}"
            );
            good += usize::from(largest_miss(&sizes, &h100) <= LARGEST_MISS);
        }
        assert!(good >= 18, "{good} of 20");
        // Where times scatter by a tenth, nothing below that is known, and the search does not chase it.
        let straight = |size: u32| 5.0 + f64::from(size);
        for seed in 1..=20 {
            assert!(found(&straight, 0.1, seed, 512).1 <= 400);
        }
    }

    #[test]
    fn other_curves_need_few_sizes_or_are_found_as_well() {
        let straight = |size: u32| 5.0 + f64::from(size);
        let powers = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
        assert_eq!(found(&straight, 0.0, 1, 512).0, powers);
        // Stairs of six rows, as those of a CPU, and of 48 with different heights.
        let six = |size: u32| 3.0 + 5.0 * f64::from(size.div_ceil(6));
        let wide = |size: u32| f64::from(10 + 7 * size.div_ceil(48) + 3 * size.div_ceil(96));
        for time in [&six as &dyn Fn(u32) -> f64, &wide] {
            let mut good = 0;
            for seed in 1..=20 {
                let (sizes, _) = found(time, 0.0, seed, 512);
                let miss = largest_miss(&sizes, time);
                assert!(miss <= 0.12 && sizes.len() <= 70, "{miss}: {sizes:?}");
                good += usize::from(miss <= LARGEST_MISS);
            }
            assert!(good >= 14, "{good} of 20");
        }
        assert_eq!(found(&straight, 0.0, 1, 1).0, [1]);
        assert_eq!(found(&straight, 0.0, 1, 3).0, [1, 2, 3]);
    }

    #[test]
    fn a_search_that_is_ended_keeps_what_it_measured() {
        for calls in 0..4 {
            let mut left = calls;
            let mut measured = BTreeSet::from([1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
            let mut measure = |probes: &[[u32; 3]]| {
                if left == 0 {
                    return Ok(None);
                }
                left -= 1;
                measured.extend(probes.iter().flatten());
                let misses = probes
                    .iter()
                    .map(|probe| Miss::from_line(probe.map(|size| (size, h100(size), 0.0))));
                let misses: Vec<Miss> = misses.collect();
                Ok(Some(misses))
            };
            let mut random = random::sequence(1, 0, "stairs");
            let sizes = search(512, &mut random, &mut measure).unwrap();
            assert_eq!(sizes, Vec::from_iter(measured), "{calls}");
        }
    }

    #[test]
    fn a_list_that_misses_stairs_is_seen_by_its_checks() {
        let list = vec![1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
        let times = (1..=512).map(|size| (size, 1e3 * h100(size))).collect();
        for seed in 1..=20 {
            let mut random = random::sequence(seed, 0, "stairs");
            let sizes = TableSizes::with_checks(list.clone(), &mut random);
            assert_eq!(sizes.batches, list);
            assert!((8..=16).contains(&sizes.held_out.len()), "{sizes:?}");
            let misses = misses_at(&sizes.held_out, &times);
            assert!(
                misses.iter().any(|(_, miss)| *miss > LARGEST_MISS),
                "{misses:?}"
            );
        }
        let none = TableSizes::with_checks(vec![3, 4, 5], &mut random::sequence(1, 0, "stairs"));
        assert_eq!(none.held_out, Vec::<u32>::new());
    }

    #[test]
    fn the_ends_of_stairs_are_the_sizes_to_prepare() {
        let sizes: Vec<u32> = (1..=512).collect();
        let curve = |time: &dyn Fn(u32) -> f64| sizes.iter().map(|size| time(*size)).collect();
        let ends = stair_ends(&sizes, &[curve(&h100)]);
        for end in [64, 128, 256, 512] {
            assert!(ends.contains(&end), "{ends:?}");
        }
        assert!(
            !ends.iter().any(|end| [65, 129, 257].contains(end)),
            "{ends:?}"
        );
        let flat = |_: u32| 5.0;
        assert_eq!(stair_ends(&sizes, &[curve(&flat)]), [512]);
        let six = |size: u32| f64::from(size.div_ceil(128));
        assert_eq!(stair_ends(&sizes, &[curve(&six)]), [128, 256, 384, 512]);
        let both = stair_ends(
            &sizes,
            &[curve(&six), curve(&|size| f64::from(size.div_ceil(256)))],
        );
        assert_eq!(both, [128, 256, 384, 512]);
        assert_eq!(stair_ends(&[], &[]), Vec::<u32>::new());
    }
}
