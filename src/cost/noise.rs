//! How the times of tasks wander on a real device: a record of a profile, and its replay in blocks.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rand::RngExt as _;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::shipped;
use crate::units::Nanos;
use crate::workload::random::Stream;

/// Factors by which tasks of a profile differ from the cost table, over time. Its file is a CSV file
/// `time_ns,size,factor`.
#[derive(Clone, Debug, PartialEq)]
pub struct NoiseRecord {
    /// Ascending from 0, without the gaps between stretches.
    points: Vec<(Nanos, Factor)>,
    /// Of the stretches.
    ends: Vec<Nanos>,
}

/// The shortest time without a task between two stretches: other work ran in between.
const GAP: Nanos = Nanos(500_000_000);

/// In millionths, so that simulated times are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Factor(u64);

impl Factor {
    const ONE: u64 = 1_000_000;

    fn new(factor: f64) -> Factor {
        Factor((factor * Self::ONE as f64).round() as u64)
    }

    fn get(self) -> f64 {
        self.0 as f64 / Self::ONE as f64
    }

    /// Rounded half up.
    fn times(self, time: Nanos) -> Nanos {
        let exact = (u128::from(time.0) * u128::from(self.0) + u128::from(Self::ONE / 2)) / u128::from(Self::ONE);
        Nanos(u64::try_from(exact).unwrap_or(u64::MAX))
    }
}

#[derive(Deserialize)]
struct Row {
    time_ns: u64,
    factor: f64,
}

impl NoiseRecord {
    /// The largest factor of a file.
    const MOST: f64 = 1e6;

    /// Of instants and factors, not necessarily in their order. `None` without any.
    pub fn new(mut factors: Vec<(Nanos, f64)>) -> Option<NoiseRecord> {
        factors.sort_by_key(|(at, _)| *at);
        let (mut before, mut now) = (factors.first()?.0, Nanos::ZERO);
        let (mut points, mut ends) = (Vec::with_capacity(factors.len()), Vec::new());
        for (at, factor) in factors {
            let passed = at - std::mem::replace(&mut before, at);
            now += passed;
            if passed > GAP {
                now = points.last().map_or(now, |(last, _): &(Nanos, Factor)| *last) + Nanos(1);
                ends.push(now);
            }
            points.push((now, Factor::new(factor)));
        }
        ends.push(now + Nanos(1));
        Some(NoiseRecord { points, ends })
    }

    fn length(&self) -> Nanos {
        self.ends[self.ends.len() - 1]
    }

    /// That has this instant.
    fn stretch(&self, at: Nanos) -> Range<Nanos> {
        let place = self.ends.partition_point(|end| *end <= at);
        let start = if place == 0 { Nanos::ZERO } else { self.ends[place - 1] };
        start..self.ends[place]
    }

    pub fn read(path: &Path) -> Result<NoiseRecord> {
        NoiseRecord::parse(&shipped::text(path)?, &path.display().to_string())
    }

    /// `name` is for messages. Lines that begin with `#` are comments.
    pub fn parse(text: &str, name: &str) -> Result<NoiseRecord> {
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        let mut factors = Vec::new();
        for row in reader.deserialize::<Row>() {
            let row = row.map_err(|problem| {
                let wanted = "a noise record has the columns time_ns,size,factor, as batchlab profile writes them";
                Error::input(format!("{name}: {problem}; {wanted}"))
            })?;
            if !(row.factor > 0.0 && row.factor <= Self::MOST) {
                let (line, most) = (factors.len() + 1, Self::MOST);
                return Err(Error::input(format!(
                    "{name}: row {line}: factor {} is out of range; above 0, at most {most}",
                    row.factor
                )));
            }
            factors.push((Nanos(row.time_ns), row.factor));
        }
        let none = || {
            Error::input(format!("{name}: no rows; batchlab profile -o COSTS.csv writes noise.csv beside the costs"))
        };
        NoiseRecord::new(factors).ok_or_else(none)
    }

    /// Their mean and standard deviation, and the correlation of tasks that are about so far apart, where known.
    pub fn describe(&self) -> String {
        let count = self.points.len() as f64;
        let mean = self.points.iter().map(|(_, factor)| factor.get()).sum::<f64>() / count;
        let variance = self.points.iter().map(|(_, factor)| (factor.get() - mean).powi(2)).sum::<f64>() / count;
        let lags = [("1 ms", 1), ("10 ms", 10), ("100 ms", 100), ("1 s", 1_000), ("10 s", 10_000)];
        let known = lags.iter().filter_map(|(name, ms)| {
            let correlation = self.covariance(mean, Nanos(ms * 1_000_000))? / variance;
            correlation.is_finite().then(|| format!("{correlation:.2} at {name}"))
        });
        let known: Vec<String> = known.collect();
        format!(
            "noise: tasks take {mean:.4} times their row on average, with a deviation of {:.2} %; correlation {}",
            100.0 * variance.sqrt(),
            if known.is_empty() { "unknown".into() } else { known.join(", ") }
        )
    }

    /// Of tasks that are this far apart, at least half of it; `None` with few.
    fn covariance(&self, mean: f64, lag: Nanos) -> Option<f64> {
        const FEW: usize = 30;
        let pair = |(at, factor): &(Nanos, Factor)| {
            let then = at.saturating_add(lag);
            let (other, second) = self.points[..self.points.partition_point(|(at, _)| *at <= then)].last()?;
            let apart = then < self.stretch(*at).end && *other >= *at + Nanos(lag.0 / 2);
            apart.then(|| (factor.get() - mean) * (second.get() - mean))
        };
        let products: Vec<f64> = self.points.iter().filter_map(pair).collect();
        (products.len() >= FEW).then(|| products.iter().sum::<f64>() / products.len() as f64)
    }
}

/// A sequence of blocks of a record, from random instants of it, for one run. A block keeps the correlation of tasks
/// within it, and goes round in its stretch of the record.
pub struct Noise {
    record: Arc<NoiseRecord>,
    random: Stream,
    block: Nanos,
    /// The number of the last block, and its start in the record.
    last: Option<(u64, Nanos)>,
}

impl Noise {
    /// Blocks are a quarter of the record, between these.
    const BLOCKS: [Nanos; 2] = [Nanos(1_000_000_000), Nanos(10_000_000_000)];

    pub fn new(record: Arc<NoiseRecord>, random: Stream) -> Noise {
        let [least, most] = Self::BLOCKS;
        let block = Nanos(record.length().0 / 4).clamp(least, most);
        Noise { record, random, block, last: None }
    }

    /// What becomes of a time that begins at this instant.
    pub fn disturbed(&mut self, time: Nanos, at: Nanos) -> Nanos {
        let (number, record) = (at.0 / self.block.0, &*self.record);
        let start = match self.last {
            Some((last, start)) if last == number => start,
            _ => {
                // Tasks of several workers may go back to the block before.
                self.random.set_word_pos(u128::from(number) * 16);
                Nanos(self.random.random_range(0..record.length().0))
            }
        };
        self.last = Some((number, start));
        let Range { start: from, end } = record.stretch(start);
        let instant = from + Nanos((start.0 - from.0 + at.0 % self.block.0) % (end - from).0);
        let point = record.points.partition_point(|(from, _)| *from <= instant) - 1;
        record.points[point].1.times(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::random::stream;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn times_are_exact_and_rounded_half_up() {
        let times = |factor, ns| Factor::new(factor).times(Nanos(ns)).0;
        assert_eq!([times(1.0, u64::MAX), times(1.25, 6), times(1.25, 1 << 60)], [u64::MAX, 8, 5 << 58]);
        assert_eq!([times(1e6, u64::MAX), times(0.5, 1), times(0.000_001, 499_999)], [u64::MAX, 1, 0]);
    }

    /// For 80 s, the factor of each millisecond is one and its number in millionths.
    fn ramp() -> Arc<NoiseRecord> {
        Arc::new(
            NoiseRecord::new((0..80_000).map(|ms| (Nanos(ms * 1_000_000), 1.0 + ms as f64 / 1e6)).collect()).unwrap(),
        )
    }

    #[test]
    fn a_run_goes_through_blocks_of_the_record() {
        let instants = |replication| -> Vec<u64> {
            let mut noise = Noise::new(ramp(), stream(1, replication, "noise"));
            (0..60).map(|s| noise.disturbed(Nanos(Factor::ONE), Nanos(s * SECOND)).0 - Factor::ONE).collect()
        };
        let run = instants(0);
        for block in run.chunks(10) {
            // The record is almost 80 s long.
            let next = |pair: &[u64]| [1_000, 1_001].contains(&((pair[1] + 80_000 - pair[0]) % 80_000));
            assert!(block.windows(2).all(next), "{block:?}");
        }
        let starts: std::collections::BTreeSet<u64> = run.iter().step_by(10).copied().collect();
        assert_eq!(starts.len(), 6, "each block begins elsewhere");
        assert_eq!(instants(0), run);
        assert_ne!(instants(1), run);
    }

    #[test]
    fn a_block_stays_in_its_stretch() {
        // Four stretches of 2 s, each with a factor of its own.
        let instants = (0..8_000).map(|ms| (Nanos((ms + ms / 2_000 * 60_000) * 1_000_000), 1.0 + (ms / 2_000) as f64));
        let record = Arc::new(NoiseRecord::new(instants.collect()).unwrap());
        assert_eq!(record.ends.len(), 4);
        let mut noise = Noise::new(record, stream(1, 0, "noise"));
        // A quarter of 8 s is a block.
        let factors = |block: u64| -> Vec<u64> {
            (0..19).map(|tenth| noise.disturbed(Nanos(1), Nanos(2 * block * SECOND + tenth * SECOND / 10)).0).collect()
        };
        let blocks: Vec<Vec<u64>> = (0..40).map(factors).collect();
        assert!(blocks.iter().all(|block| block.iter().all(|factor| *factor == block[0])), "{blocks:?}");
        assert!((1..=4).all(|factor| blocks.iter().any(|block| block[0] == factor)), "{blocks:?}");
    }

    #[test]
    fn a_block_does_not_depend_on_the_order_of_tasks() {
        let mut noise = Noise::new(ramp(), stream(1, 0, "noise"));
        let mut at = |s: u64| noise.disturbed(Nanos(Factor::ONE), Nanos(s * SECOND));
        let early = at(9);
        assert_ne!(at(11), early);
        assert_eq!(at(9), early);
    }

    #[test]
    fn a_record_describes_itself() {
        // Slow and fast for 50 ms each, in tasks of 1 ms.
        let factor = |ms: u64| if (ms / 50).is_multiple_of(2) { 1.1 } else { 0.9 };
        let record = NoiseRecord::new((0..400).map(|ms| (Nanos(ms * 1_000_000), factor(ms))).collect()).unwrap();
        let about = record.describe();
        assert!(
            about.starts_with("noise: tasks take 1.0000 times their row on average, with a deviation of 10.00 %"),
            "{about}"
        );
        assert!(about.ends_with("correlation 0.96 at 1 ms, 0.64 at 10 ms, 1.00 at 100 ms"), "{about}");
    }

    #[test]
    fn mistakes_are_named() {
        let refused = |text: &str| NoiseRecord::parse(text, "n.csv").unwrap_err().to_string();
        assert!(refused("time_ns,size,factor\n").starts_with("n.csv: no rows; "));
        assert!(refused("time_ns,size,factor\n5,1,1\n6,1,0\n").starts_with("n.csv: row 2: factor 0 is out of range"));
        assert!(
            refused("time_ns,size,factor\n5,1,x\n").contains("line: 2"),
            "{}",
            refused("time_ns,size,factor\n5,1,x\n")
        );
        assert!(refused("at,factor\n5,1\n").contains("the columns time_ns,size,factor"));
    }
}
