//! How the times of tasks vary on a real device: a record of a profile, and its replay in blocks.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rand::RngExt as _;
use serde::Deserialize;

use crate::base::error::{Error, Result};
use crate::base::shipped;
use crate::base::units::Nanos;
use crate::core::workload::arrivals::LAST_ARRIVAL;
use crate::core::workload::describe::mean_and_sd;
use crate::core::workload::random::RandomSequence;

/// How long tasks of a profile took, over time, and how much longer than their rows of the cost table. It is read from
/// a CSV file `time_ns,size,factor,ns`.
#[derive(Clone, Debug, PartialEq)]
pub struct NoiseRecord {
    samples: Vec<NoiseSample>,
    /// The ranges of samples without a gap.
    stretches: Vec<Range<usize>>,
}

/// The shortest time without a task between two stretches: other work ran in between.
const GAP: Nanos = Nanos(500_000_000);

/// A task of the record: from its start on, the device did `work` in the time `took`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct NoiseSample {
    /// The start, ascending from 0, without the gaps between stretches.
    start: Nanos,
    took: Nanos,
    /// The time of the task's row.
    work: Nanos,
    /// The sum of `took` of all samples before this one.
    took_before: Nanos,
    /// The sum of `work` of all samples before this one.
    work_before: Nanos,
}

/// A measured task: when it began, how long it took, and this time over that of its row.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct MeasuredTask {
    #[serde(rename = "time_ns")]
    pub at: Nanos,
    #[serde(rename = "ns")]
    pub took: Nanos,
    pub factor: f64,
}

impl NoiseRecord {
    /// The largest factor of a file; the smallest is its inverse.
    const MOST: f64 = 1e6;

    /// The record of tasks, which may be in any order; `None` without tasks.
    pub fn new(mut measured: Vec<MeasuredTask>) -> Option<NoiseRecord> {
        measured.sort_by_key(|one| one.at);
        let mut before = measured.first()?.at;
        let mut samples: Vec<NoiseSample> = Vec::with_capacity(measured.len());
        let mut stretches: Vec<Range<usize>> = Vec::new();
        for MeasuredTask { at, took, factor } in measured {
            let last = samples.last().copied().unwrap_or_default();
            let passed = at - std::mem::replace(&mut before, at);
            let mut start = last.start + passed;
            if passed > GAP || samples.is_empty() {
                start = last.start + last.took;
                stretches.push(samples.len()..samples.len());
            }
            samples.push(NoiseSample {
                start,
                took: took.max(Nanos(1)),
                work: Nanos::round(took.0 as f64 / factor).max(Nanos(1)),
                took_before: last.took_before + last.took,
                work_before: last.work_before + last.work,
            });
            stretches
                .last_mut()
                .expect("the first sample begins one")
                .end = samples.len();
        }
        Some(NoiseRecord { samples, stretches })
    }

    fn length(&self) -> Nanos {
        end(&self.samples)
    }

    /// The stretch that contains this instant.
    fn stretch(&self, at: Nanos) -> &[NoiseSample] {
        let place = self
            .stretches
            .partition_point(|samples| end(&self.samples[samples.clone()]) <= at);
        &self.samples[self.stretches[place].clone()]
    }

    pub fn read(path: &Path) -> Result<NoiseRecord> {
        NoiseRecord::parse(&shipped::text(path)?, &path.display().to_string())
    }

    /// Reads the text of a record; `name` is for messages. Lines that begin with `#` are comments.
    pub fn parse(text: &str, name: &str) -> Result<NoiseRecord> {
        let mut reader = csv::ReaderBuilder::new()
            .comment(Some(b'#'))
            .from_reader(text.as_bytes());
        let mut measured = Vec::new();
        let mut together = 0.0;
        for row in reader.deserialize::<MeasuredTask>() {
            let row = row.map_err(|problem| {
                let wanted = "a noise record has the columns time_ns,size,factor,ns, as batchlab profile writes them";
                Error::input(format!("{name}: {problem}; {wanted}"))
            })?;
            let refuse = |problem: String| {
                Error::input(format!("{name}: row {}: {problem}", measured.len() + 1))
            };
            let least = 1.0 / Self::MOST;
            let most = Self::MOST;
            if !(least..=most).contains(&row.factor) {
                return Err(refuse(format!(
                    "factor {} is out of range; from {least} to {most}",
                    row.factor
                )));
            }
            // The sums of times must fit the clock.
            let took = row.took.0.max(1) as f64;
            together += took.max(took / row.factor) + 1.0;
            if together.max(row.at.0 as f64) > LAST_ARRIVAL.0 as f64 {
                return Err(refuse(format!(
                    "its tasks exceed the clock; it has room for {LAST_ARRIVAL}"
                )));
            }
            measured.push(row);
        }
        NoiseRecord::new(measured).ok_or_else(|| {
            Error::input(format!(
                "{name}: no rows; batchlab profile -o COSTS.csv writes noise.csv beside the costs"
            ))
        })
    }

    /// The mean and the standard deviation of the factors, and the correlation of tasks at some distances where it is
    /// known.
    pub fn describe(&self) -> String {
        let (mean, deviation) = mean_and_sd(self.samples.iter().map(NoiseSample::factor))
            .expect("a record has a sample");
        let lags = [
            ("1 ms", 1),
            ("10 ms", 10),
            ("100 ms", 100),
            ("1 s", 1_000),
            ("10 s", 10_000),
        ];
        let mut known = Vec::new();
        for (name, ms) in lags {
            let Some(covariance) = self.covariance(mean, Nanos(ms * 1_000_000)) else {
                continue;
            };
            let correlation = covariance / deviation.powi(2);
            if correlation.is_finite() {
                known.push(format!("{correlation:.2} at {name}"));
            }
        }
        format!(
            "noise: tasks take {mean:.4} times their row on average, with a deviation of {:.2} %; correlation {}",
            100.0 * deviation,
            if known.is_empty() {
                "unknown".into()
            } else {
                known.join(", ")
            }
        )
    }

    /// The covariance of tasks that are about this far apart, but at least half of it; `None` if there are few.
    fn covariance(&self, mean: f64, lag: Nanos) -> Option<f64> {
        const FEW: usize = 30;
        let mut products: Vec<f64> = Vec::new();
        for sample in &self.samples {
            let then = sample.start.saturating_add(lag);
            let until_then = self.samples.partition_point(|other| other.start <= then);
            let Some(second) = self.samples[..until_then].last() else {
                continue;
            };
            let is_in_stretch = then < end(self.stretch(sample.start));
            if is_in_stretch && second.start >= sample.start + Nanos(lag.0 / 2) {
                products.push((sample.factor() - mean) * (second.factor() - mean));
            }
        }
        if products.len() < FEW {
            return None;
        }
        Some(products.iter().sum::<f64>() / products.len() as f64)
    }
}

impl NoiseSample {
    fn factor(&self) -> f64 {
        self.took.0 as f64 / self.work.0 as f64
    }
}

/// The end of the last sample.
fn end(samples: &[NoiseSample]) -> Nanos {
    samples
        .last()
        .map_or(Nanos::ZERO, |last| last.start + last.took)
}

/// How long the device takes for some work from an instant on. A pause is added to the time of the work that meets it;
/// while the device is slow, times are multiplied. The start of the stretch follows its end.
fn time_of(work: Nanos, from: Nanos, stretch: &[NoiseSample]) -> Nanos {
    let first = &stretch[0];
    let last = &stretch[stretch.len() - 1];
    let sample = &stretch[stretch.partition_point(|sample| sample.start <= from) - 1];
    let within = (from - sample.start).min(sample.took);
    let worked = share(within, sample.work, sample.took);
    let done = sample.work_before - first.work_before + worked;
    let begun = sample.took_before + share(worked, sample.took, sample.work);

    let all = last.work_before + last.work - first.work_before;
    let to = u128::from(done.0) + u128::from(work.0);
    let rounds = to / u128::from(all.0);
    let rest = Nanos((to % u128::from(all.0)) as u64) + first.work_before;
    let place = stretch.partition_point(|sample| sample.work_before <= rest) - 1;
    let NoiseSample {
        work_before,
        took_before,
        work,
        took,
        ..
    } = stretch[place];
    let ended = took_before + share(rest - work_before, took, work);
    let round = last.took_before + last.took - first.took_before;
    let time = u128::from(ended.0) + rounds * u128::from(round.0) - u128::from(begun.0);
    Nanos(u64::try_from(time).unwrap_or(u64::MAX))
}

/// The part of a time `of` that corresponds to a `part` of `whole`.
fn share(part: Nanos, of: Nanos, whole: Nanos) -> Nanos {
    Nanos((u128::from(part.0) * u128::from(of.0) / u128::from(whole.0)) as u64)
}

/// A sequence of blocks of a record, from random instants of it, for one run. A block keeps the correlation of tasks
/// within it, and goes round in its stretch of the record.
pub struct Noise {
    record: Arc<NoiseRecord>,
    random: RandomSequence,
    block: Nanos,
    /// The number of the last block, and its start in the record.
    last: Option<(u64, Nanos)>,
}

impl Noise {
    /// The shortest and the longest block; otherwise a block is a quarter of the record.
    const BLOCKS: [Nanos; 2] = [Nanos(1_000_000_000), Nanos(10_000_000_000)];

    pub fn new(record: Arc<NoiseRecord>, random: RandomSequence) -> Noise {
        let [least, most] = Self::BLOCKS;
        let block = Nanos(record.length().0 / 4).clamp(least, most);
        Noise {
            record,
            random,
            block,
            last: None,
        }
    }

    /// The time that this one becomes if it begins at this instant.
    pub fn disturb(&mut self, time: Nanos, at: Nanos) -> Nanos {
        let number = at.0 / self.block.0;
        let record = &*self.record;
        let start = match self.last {
            Some((last, start)) if last == number => start,
            _ => {
                // Tasks of several workers may go back to the block before.
                self.random.set_word_pos(u128::from(number) * 16);
                Nanos(self.random.random_range(0..record.length().0))
            }
        };
        self.last = Some((number, start));
        let stretch = record.stretch(start);
        let from = stretch[0].start;
        let instant =
            from + Nanos((start.0 - from.0 + at.0 % self.block.0) % (end(stretch) - from).0);
        time_of(time, instant, stretch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::workload::random;

    const SECOND: u64 = 1_000_000_000;

    const MS: u64 = 1_000_000;

    /// The record of tasks that run one after another, with these milliseconds and factors.
    fn one_by_one(tasks: impl IntoIterator<Item = (u64, f64)>) -> NoiseRecord {
        let mut at = Nanos::ZERO;
        let measured = tasks.into_iter().map(|(ms, factor)| {
            let took = Nanos(ms * MS);
            at += took;
            MeasuredTask {
                at: at - took,
                took,
                factor,
            }
        });
        NoiseRecord::new(measured.collect()).unwrap()
    }

    fn after(record: &NoiseRecord, work: u64, from: u64) -> Nanos {
        time_of(Nanos(work), Nanos(from), record.stretch(Nanos(from)))
    }

    #[test]
    fn a_device_without_noise_takes_the_exact_time() {
        let record = one_by_one([(3, 1.0), (1, 1.0), (7, 1.0)]);
        for from in [0, 1, 2_999_999, 3_000_000, 10_999_999] {
            for work in [0, 1, 999, 11_000_000, 123_456_789, u64::MAX] {
                assert_eq!(
                    after(&record, work, from),
                    Nanos(work),
                    "{work} from {from}"
                );
            }
        }
    }

    #[test]
    fn a_pause_is_added_and_a_slow_device_multiplies() {
        // A pause of 10 ms in the sixth task of 1 ms, and then a device that needs twice as long.
        let tasks = (0..20).map(|task| {
            if task == 5 {
                (11, 11.0)
            } else {
                (
                    2 - u64::from(task < 10),
                    1.0 + f64::from(u8::from(task >= 10)),
                )
            }
        });
        let record = one_by_one(tasks);
        let time = |work_ms, from_ms| after(&record, work_ms * MS, from_ms * MS).0 / MS;
        assert_eq!(
            [
                time(5, 0),
                time(6, 0),
                time(10, 0),
                time(20, 0),
                time(40, 0)
            ],
            [5, 16, 20, 40, 80]
        );
        assert_eq!(
            [time(1, 2), time(1, 20), time(4, 22), time(4, 18)],
            [1, 2, 8, 6]
        );
        // Short tasks share a pause: in the end, they take as long as one.
        let mut now = Nanos::ZERO;
        for _ in 0..2_000 {
            now += after(&record, MS / 100, now.0);
        }
        assert!(now.0.abs_diff(40 * MS) <= 2_000, "{now}");
    }

    /// A record of 80 s, in which the factor of millisecond `ms` is 1 + ms / 1000.
    fn ramp() -> Arc<NoiseRecord> {
        Arc::new(one_by_one((0..80_000).map(|ms| (1, 1.0 + ms as f64 / 1e3))))
    }

    /// The millisecond of the `ramp` that this instant replays, from the factor of 10 µs of work.
    fn milliseconds(noise: &mut Noise, at: Nanos) -> u64 {
        noise.disturb(Nanos(10_000), at).0 / 10 - 1_000
    }

    #[test]
    fn a_run_goes_through_blocks_of_the_record() {
        let instants = |replication| -> Vec<u64> {
            let mut noise = Noise::new(ramp(), random::sequence(1, replication, "noise"));
            (0..60)
                .map(|s| milliseconds(&mut noise, Nanos(s * SECOND)))
                .collect()
        };
        let run = instants(0);
        for block in run.chunks(10) {
            let next =
                |pair: &[u64]| (980..=1_020).contains(&((pair[1] + 80_000 - pair[0]) % 80_000));
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
        let measured = (0..8_000).map(|ms| {
            let at = Nanos((ms + ms / 2_000 * 60_000) * MS);
            MeasuredTask {
                at,
                took: Nanos(MS),
                factor: 1.0 + (ms / 2_000) as f64,
            }
        });
        let record = Arc::new(NoiseRecord::new(measured.collect()).unwrap());
        assert_eq!(record.stretches.len(), 4);
        let mut noise = Noise::new(record, random::sequence(1, 0, "noise"));
        // A block is a quarter of 8 s.
        let factors = |block: u64| -> Vec<u64> {
            let at = |tenth| Nanos(2 * block * SECOND + tenth * SECOND / 10);
            (0..19)
                .map(|tenth| (noise.disturb(Nanos(1_000), at(tenth)).0 + 500) / 1_000)
                .collect()
        };
        let blocks: Vec<Vec<u64>> = (0..40).map(factors).collect();
        assert!(
            blocks
                .iter()
                .all(|block| block.iter().all(|factor| *factor == block[0])),
            "{blocks:?}"
        );
        assert!(
            (1..=4).all(|factor| blocks.iter().any(|block| block[0] == factor)),
            "{blocks:?}"
        );
    }

    #[test]
    fn a_block_does_not_depend_on_the_order_of_tasks() {
        let mut noise = Noise::new(ramp(), random::sequence(1, 0, "noise"));
        let mut at = |s: u64| milliseconds(&mut noise, Nanos(s * SECOND));
        let early = at(9);
        assert_ne!(at(11), early);
        assert_eq!(at(9), early);
    }

    #[test]
    fn a_record_describes_itself() {
        // Slow and fast for 50 ms each, in tasks of 1 ms.
        let factor = |ms: u64| {
            if (ms / 50).is_multiple_of(2) {
                1.1
            } else {
                0.9
            }
        };
        let record = one_by_one((0..400).map(|ms| (1, factor(ms))));
        let about = record.describe();
        assert!(
            about.starts_with(
                "noise: tasks take 1.0000 times their row on average, with a deviation of 10.00 %"
            ),
            "{about}"
        );
        assert!(
            about.ends_with("correlation 0.96 at 1 ms, 0.64 at 10 ms, 1.00 at 100 ms"),
            "{about}"
        );
    }

    #[test]
    fn mistakes_are_named() {
        let refused = |text: &str| NoiseRecord::parse(text, "n.csv").unwrap_err().to_string();
        assert!(refused("time_ns,size,factor,ns\n").starts_with("n.csv: no rows; "));
        assert!(
            refused("time_ns,size,factor,ns\n5,1,1,9\n6,1,0,9\n")
                .starts_with("n.csv: row 2: factor 0 is out of range")
        );
        assert!(
            refused("time_ns,size,factor,ns\n5,1,x,9\n").contains("line: 2"),
            "{}",
            refused("time_ns,size,factor,ns\n5,1,x,9\n")
        );
        assert!(
            refused(
                "time_ns,size,factor,ns\n5,1,0.000001,9000000000000\n6,1,1,9000000000000000000\n"
            )
            .ends_with(&format!(
                "row 2: its tasks exceed the clock; it has room for {LAST_ARRIVAL}"
            ))
        );
        assert!(refused("at,factor\n5,1\n").contains("the columns time_ns,size,factor,ns"));
    }
}
