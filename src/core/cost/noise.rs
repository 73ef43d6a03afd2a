//! How the times of tasks vary on a real device, and how late a host starts them: a record of a profile, and its replay
//! in blocks.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rand::RngExt as _;
use serde::Deserialize;

use crate::base::error::{Error, Result, refuse_if};
use crate::base::shipped;
use crate::base::units::Nanos;
use crate::core::workload::arrivals::LAST_ARRIVAL;
use crate::core::workload::describe::mean_and_sd;
use crate::core::workload::random::RandomSequence;

/// How long tasks of a profile took, over time, and how much longer than their rows of the cost table; and how late the
/// host started tasks. It is read from a CSV file `time_ns,size,factor,ns,late_ns`, in the order of time. A row has a
/// factor or a lateness; the last column may be missing.
#[derive(Clone, Debug, PartialEq)]
pub struct NoiseRecord {
    samples: Vec<NoiseSample>,
    /// The ranges of samples without a gap.
    stretches: Vec<Range<usize>>,
    starts: Vec<RecordedStart>,
    /// The ranges of starts that followed one another.
    windows: Vec<Range<usize>>,
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

/// A start of the record. All starts lie on one time line, without the time between windows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RecordedStart {
    /// When the task could start: the end of the interval in which this start is the next one.
    due: Nanos,
    /// The nanoseconds by which the task started later than such tasks typically do.
    late: i64,
}

/// A measured task: when it began, how long it took, and this time over that of its row.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredTask {
    pub at: Nanos,
    pub took: Nanos,
    pub factor: f64,
}

/// A measured start of a task: when the task could start, since its worker was idle and its requests were ready, and
/// how late it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MeasuredStart {
    pub due: Nanos,
    /// The time since the start before this one was due.
    pub since: Nanos,
    /// The nanoseconds by which the task started later than such tasks typically do; below 0 if it started earlier.
    pub late: i64,
}

/// A row of a record: a task has a factor, a start a lateness.
#[derive(Deserialize)]
struct NoiseRow {
    time_ns: Nanos,
    factor: Option<f64>,
    ns: Nanos,
    late_ns: Option<i64>,
}

impl NoiseRecord {
    /// The largest factor of a file; the smallest is its inverse.
    const MOST: f64 = 1e6;

    /// The record of tasks and starts, which may be in any order; `None` without both.
    pub fn new(measured: Vec<MeasuredTask>, starts: Vec<MeasuredStart>) -> Option<NoiseRecord> {
        if measured.is_empty() && starts.is_empty() {
            return None;
        }
        let (samples, stretches) = NoiseRecord::stretches(measured);
        let (starts, windows) = NoiseRecord::windows(starts);
        Some(NoiseRecord {
            samples,
            stretches,
            starts,
            windows,
        })
    }

    /// The samples of tasks, and their ranges without a gap.
    fn stretches(mut measured: Vec<MeasuredTask>) -> (Vec<NoiseSample>, Vec<Range<usize>>) {
        measured.sort_by_key(|one| one.at);
        let mut before = measured.first().map_or(Nanos::ZERO, |first| first.at);
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
        (samples, stretches)
    }

    /// The starts on their time line, and their ranges without a gap.
    fn windows(mut measured: Vec<MeasuredStart>) -> (Vec<RecordedStart>, Vec<Range<usize>>) {
        measured.sort();
        let mut before = None;
        let mut starts: Vec<RecordedStart> = Vec::with_capacity(measured.len());
        let mut windows: Vec<Range<usize>> = Vec::new();
        for MeasuredStart { due, since, late } in measured {
            if before != Some(due.saturating_since(since)) {
                windows.push(starts.len()..starts.len());
            }
            before = Some(due);
            let end = starts.last().map_or(Nanos::ZERO, |last| last.due);
            starts.push(RecordedStart {
                due: end.saturating_add(since.max(Nanos(1))),
                late,
            });
            windows.last_mut().expect("the first start begins one").end = starts.len();
        }
        (starts, windows)
    }

    fn length(&self) -> Nanos {
        end(&self.samples)
    }

    /// The length of the time line of starts.
    fn line_length(&self) -> Nanos {
        self.starts.last().map_or(Nanos::ZERO, |last| last.due)
    }

    /// How late a task starts that is due this long after an instant of the time line of starts: as late as the next start
    /// of the record, but not before a start that was due earlier. After the end of a window follows its begin.
    fn lateness(&self, from: Nanos, passed: Nanos) -> i64 {
        let place = self
            .windows
            .partition_point(|window| self.starts[window.end - 1].due <= from);
        let window = self.windows[place].clone();
        let begin = match window.start {
            0 => Nanos::ZERO,
            first => self.starts[first - 1].due,
        };
        let window = &self.starts[window];
        let length = window[window.len() - 1].due - begin;
        let instant = begin + Nanos((from - begin + passed).0 % length.0);
        let place = window.partition_point(|start| start.due <= instant);
        let next = window[place].late;
        match place.checked_sub(1).map(|before| window[before]) {
            Some(RecordedStart { due, late }) => {
                next.max(late.saturating_sub((instant - due).0 as i64))
            }
            None => next,
        }
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
        let wanted = "a noise record has the columns time_ns,size,factor,ns and perhaps late_ns, as batchlab profile \
                      writes them";
        let refuse_file = |problem: String| Error::input(format!("{name}: {problem}; {wanted}"));
        let header = reader
            .headers()
            .map_err(|problem| refuse_file(problem.to_string()))?;
        if !header.iter().any(|column| column == "factor") {
            return Err(refuse_file("no column factor".into()));
        }
        let mut tasks = Vec::new();
        let mut starts = Vec::new();
        // The sums of times must fit the clock.
        let mut together = 0.0;
        let mut before = Nanos::ZERO;
        for (number, row) in (1..).zip(reader.deserialize::<NoiseRow>()) {
            let row = row.map_err(|problem| refuse_file(problem.to_string()))?;
            let refuse = |problem: String| Error::input(format!("{name}: row {number}: {problem}"));
            refuse_if(row.time_ns < before, || {
                refuse(format!(
                    "time_ns {} is before {}, that of the row before; rows are in the order of time, and a record is of one profile",
                    row.time_ns.0, before.0
                ))
            })?;
            before = row.time_ns;
            let ns = row.ns.0.max(1) as f64;
            match (row.factor, row.late_ns) {
                (Some(factor), None) => {
                    let least = 1.0 / Self::MOST;
                    let most = Self::MOST;
                    if !(least..=most).contains(&factor) {
                        return Err(refuse(format!(
                            "factor {factor} is out of range; from {least} to {most}"
                        )));
                    }
                    together += ns.max(ns / factor) + 1.0;
                    tasks.push(MeasuredTask {
                        at: row.time_ns,
                        took: row.ns,
                        factor,
                    });
                }
                (None, Some(late)) => {
                    if late.unsigned_abs() > LAST_ARRIVAL.0 {
                        return Err(refuse(format!(
                            "late_ns {late} is out of range; from -{most} to {most}",
                            most = LAST_ARRIVAL.0
                        )));
                    }
                    together += ns;
                    starts.push(MeasuredStart {
                        due: row.time_ns,
                        since: row.ns,
                        late,
                    });
                }
                _ => {
                    return Err(refuse(
                        "a row has a factor (of a task's time) or late_ns (of a task's start); give one of the two".into(),
                    ));
                }
            }
            if together.max(row.time_ns.0 as f64) > LAST_ARRIVAL.0 as f64 {
                return Err(refuse(format!(
                    "its tasks exceed the clock; it has room for {LAST_ARRIVAL}"
                )));
            }
        }
        NoiseRecord::new(tasks, starts).ok_or_else(|| {
            Error::input(format!(
                "{name}: no rows; batchlab profile -o COSTS.csv writes noise.csv beside the costs"
            ))
        })
    }

    /// The lateness of starts by its quantiles, if the record has any.
    pub fn describe_starts(&self) -> Option<String> {
        let mut late: Vec<i64> = self.starts.iter().map(|start| start.late).collect();
        late.sort_unstable();
        let latest = *late.last()?;
        let quantile = |share: f64| late[(late.len() as f64 * share) as usize];
        let us = |ns: i64| format!("{:.1} us", ns as f64 / 1e3);
        Some(format!(
            "starts: {} in {:.1} s; one in 10 is at least {} late, one in 100 {}, one in 1000 {}, the latest {}",
            late.len(),
            self.line_length().0 as f64 / 1e9,
            us(quantile(0.9)),
            us(quantile(0.99)),
            us(quantile(0.999)),
            us(latest)
        ))
    }

    /// The mean and the standard deviation of the factors, and the correlation of tasks at some distances where it is
    /// known.
    pub fn describe(&self) -> String {
        let factors = self.samples.iter().map(NoiseSample::factor);
        let Some((mean, deviation)) = mean_and_sd(factors) else {
            return "noise: no times of tasks".into();
        };
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
/// within it, and goes round in its stretch of the record. Starts have blocks of their own, since a profile watches
/// them in windows.
pub struct Noise {
    record: Arc<NoiseRecord>,
    random: RandomSequence,
    tasks: NoiseBlocks,
    starts: NoiseBlocks,
}

/// Blocks of one time line of the record.
struct NoiseBlocks {
    /// The length of a block.
    block: Nanos,
    /// The length of the time line.
    line: Nanos,
    /// The place in the random sequence of each block, among [`PLACES`].
    place: u64,
    /// The number of the last block, and its start in the record.
    last: Option<(u64, Nanos)>,
}

/// The places in the random sequence that each block has.
const PLACES: u64 = 16;

impl NoiseBlocks {
    /// Where the block of an instant begins in the record, and how long before the instant.
    fn find(&mut self, at: Nanos, random: &mut RandomSequence) -> (Nanos, Nanos) {
        let number = at.0 / self.block.0;
        let start = match self.last {
            Some((last, start)) if last == number => start,
            _ => {
                // Tasks of several workers may go back to the block before.
                random
                    .set_word_pos(u128::from(number) * u128::from(PLACES) + u128::from(self.place));
                Nanos(random.random_range(0..self.line.0))
            }
        };
        self.last = Some((number, start));
        (start, Nanos(at.0 % self.block.0))
    }
}

impl Noise {
    /// The shortest and the longest block of tasks; otherwise a block is a quarter of the record.
    const BLOCKS: [Nanos; 2] = [Nanos(1_000_000_000), Nanos(10_000_000_000)];

    /// The shortest and the longest block of starts; otherwise a block is as long as a window on average.
    const START_BLOCKS: [Nanos; 2] = [Nanos(1_000_000), Nanos(10_000_000_000)];

    pub fn new(record: Arc<NoiseRecord>, random: RandomSequence) -> Noise {
        let [least, most] = Self::BLOCKS;
        let tasks = NoiseBlocks {
            block: Nanos(record.length().0 / 4).clamp(least, most),
            line: record.length(),
            place: 0,
            last: None,
        };
        let [least, most] = Self::START_BLOCKS;
        let window = record.line_length().0 / record.windows.len().max(1) as u64;
        let starts = NoiseBlocks {
            block: Nanos(window).clamp(least, most),
            line: record.line_length(),
            place: PLACES / 2,
            last: None,
        };
        Noise {
            record,
            random,
            tasks,
            starts,
        }
    }

    /// The time that this one becomes if it begins at this instant.
    pub fn disturb(&mut self, time: Nanos, at: Nanos) -> Nanos {
        let record = &*self.record;
        if record.samples.is_empty() {
            return time;
        }
        let (start, passed) = self.tasks.find(at, &mut self.random);
        let stretch = record.stretch(start);
        let from = stretch[0].start;
        let instant = from + Nanos((start.0 - from.0 + passed.0) % (end(stretch) - from).0);
        time_of(time, instant, stretch)
    }

    /// The start of a task that is submitted at `submit` and would start at `start` without noise. All tasks of an
    /// instant are equally late.
    pub fn delay(&mut self, start: Nanos, submit: Nanos) -> Nanos {
        if self.record.starts.is_empty() {
            return start;
        }
        let (from, passed) = self.starts.find(submit, &mut self.random);
        match self.record.lateness(from, passed) {
            late @ 0.. => start.saturating_add(Nanos(late as u64)),
            early => start
                .saturating_since(Nanos(early.unsigned_abs()))
                .max(submit),
        }
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
        NoiseRecord::new(measured.collect(), Vec::new()).unwrap()
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
        let record = Arc::new(NoiseRecord::new(measured.collect(), Vec::new()).unwrap());
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
        assert_eq!(
            refused("time_ns,size,factor,ns\n5,1,1,9\n5,1,1,9\n4,1,1,9\n"),
            "n.csv: row 3: time_ns 4 is before 5, that of the row before; rows are in the order of time, and a record is of \
             one profile"
        );
        let with_starts = |row: &str| {
            refused(&format!(
                "time_ns,size,factor,ns,late_ns\n5,1,1,9,\n{row}\n"
            ))
        };
        assert!(with_starts("5,1,1,9,7").starts_with("n.csv: row 2: a row has a factor"));
        assert!(with_starts("5,1,,9,").contains("give one of the two"));
        assert!(with_starts("5,1,,9,x").contains("line: 3"));
        assert!(
            with_starts("5,1,,9,-9223372036854775808")
                .contains("row 2: late_ns -9223372036854775808 is out of range")
        );
    }

    /// A record of starts only: windows of these starts, each due this long after the one before and this late.
    fn starts(windows: &[&[(u64, i64)]]) -> Arc<NoiseRecord> {
        let mut text = String::from("time_ns,size,factor,ns,late_ns\n");
        let mut due = 0;
        for window in windows {
            due += 1_000_000_000;
            for (since, late) in *window {
                due += since;
                text.push_str(&format!("{due},1,,{since},{late}\n"));
            }
        }
        Arc::new(NoiseRecord::parse(&text, "n.csv").unwrap())
    }

    #[test]
    fn a_start_is_as_late_as_the_next_one_of_the_record() {
        let record = starts(&[
            &[(10, 1), (20, 2)],
            &[(5, 3), (5, 4)],
            &[(10, 100), (200, -1)],
        ]);
        assert_eq!(record.windows, [0..2, 2..4, 4..6]);
        let late = |from, passed| record.lateness(Nanos(from), Nanos(passed));
        assert_eq!(
            [
                late(0, 0),
                late(0, 9),
                late(0, 10),
                late(0, 29),
                late(0, 30)
            ],
            [1, 1, 2, 2, 1]
        );
        assert_eq!(
            [
                late(29, 0),
                late(29, 1),
                late(30, 0),
                late(35, 0),
                late(39, 1),
                late(39, 6)
            ],
            [2, 1, 3, 4, 3, 4]
        );
        // A task that becomes due while a start waits does not start before it.
        let in_pause = [49, 50, 80, 149, 150, 151, 249].map(|from| late(from, 0));
        assert_eq!(in_pause, [100, 100, 70, 1, 0, -1, -1]);
    }

    #[test]
    fn a_task_starts_late_or_early_but_not_before_its_submission() {
        let record = starts(&[&[(1_000, -300), (1_000, 5_000)]]);
        let mut noise = Noise::new(record, random::sequence(1, 0, "noise"));
        let mut seen = std::collections::BTreeSet::new();
        for at in 0..5_000 {
            let at = Nanos(at * 7_919);
            let start = noise.delay(at + Nanos(1_000), at) - at;
            assert_eq!(
                noise.delay(at, at),
                if start.0 == 700 {
                    at
                } else {
                    at + Nanos(5_000)
                }
            );
            seen.insert(start.0);
        }
        assert_eq!(Vec::from_iter(seen), [700, 6_000]);
        let tasks = Noise::new(ramp(), random::sequence(1, 0, "noise")).delay(Nanos(7), Nanos(5));
        assert_eq!(tasks, Nanos(7), "a record without starts delays none");
    }

    #[test]
    fn starts_follow_the_distribution_of_the_record() {
        // Every hundredth start is 1 ms late, and the others from 0 to 9 us. Tasks take 50 us.
        const STEP: u64 = 50_000;
        let mut random = random::sequence(7, 0, "starts");
        let mut windows: Vec<Vec<(u64, i64)>> = Vec::new();
        for _ in 0..100 {
            let mut window = Vec::new();
            let mut since = STEP;
            for _ in 0..400 {
                let late = match random.random_range(0..100) {
                    0 => 1_000_000,
                    other => 1_000 * (other % 10),
                };
                window.push((since, late as i64));
                since = STEP + late;
            }
            windows.push(window);
        }
        let windows: Vec<&[(u64, i64)]> = windows.iter().map(Vec::as_slice).collect();
        let record = starts(&windows);
        let mut noise = Noise::new(Arc::clone(&record), random::sequence(1, 0, "noise"));
        let mut now = Nanos::ZERO;
        let mut found: Vec<i64> = Vec::new();
        for _ in 0..100_000 {
            let start = noise.delay(now, now);
            found.push((start - now).0 as i64);
            now = start + Nanos(STEP);
        }
        let share = |late: &[i64], up_to: i64| {
            late.iter().filter(|late| **late <= up_to).count() as f64 / late.len() as f64
        };
        let recorded: Vec<i64> = record.starts.iter().map(|start| start.late).collect();
        for us in 0..10 {
            let [one, other] = [&recorded, &found].map(|late| share(late, 1_000 * us));
            assert!((one - other).abs() < 0.03, "{us} us: {one} {other}");
        }
        let [one, other] = [&recorded, &found].map(|late| 1.0 - share(late, 900_000));
        assert!((one / other - 1.0).abs() < 0.2, "{one} {other}");
    }

    /// A host that pauses now and then: the begin and the end of each pause, in nanoseconds.
    fn pauses(seed: u32) -> Vec<(f64, f64)> {
        let mut random = random::sequence(3, seed, "pauses");
        let mut exponential = |mean: f64| -mean * (1.0 - random.random::<f64>()).ln();
        let mut end = 0.0;
        let mut pauses = Vec::new();
        while end < 20e9 {
            let begin = end + exponential(20e6);
            end = begin + exponential(0.5e6);
            pauses.push((begin, end));
        }
        pauses
    }

    /// How late a host with these pauses starts a task that is due at this instant: after the pause, within 4 us.
    fn late(pauses: &[(f64, f64)], due: Nanos) -> Nanos {
        let at = due.0 as f64;
        let (begin, end) = pauses[pauses.partition_point(|(_, end)| *end <= at)];
        let paused = if begin <= at { end - at } else { 0.0 };
        Nanos(paused as u64 + random::split_mix(due.0) % 4_000)
    }

    /// The mean and the 99th percentile of the latencies of a queue whose tasks take 30 us and start when `start` says,
    /// which is given when they are due.
    fn queue(mut start: impl FnMut(Nanos) -> Nanos) -> [f64; 2] {
        let mut random = random::sequence(4, 0, "arrivals");
        let mut arrival = 0.0;
        let mut free = Nanos::ZERO;
        let mut latencies: Vec<u64> = Vec::new();
        for _ in 0..5_000 {
            arrival -= 60e3 * (1.0 - random.random::<f64>()).ln();
            let arrived = Nanos(arrival as u64);
            free = start(arrived.max(free)) + Nanos(30_000);
            latencies.push((free - arrived).0);
        }
        latencies.sort_unstable();
        let mean = latencies.iter().sum::<u64>() as f64 / latencies.len() as f64;
        [mean, latencies[latencies.len() * 99 / 100] as f64]
    }

    /// The record of a profile that watches starts of this host for 20 ms in each twentieth of a second.
    fn watch_host(host: &[(f64, f64)]) -> Arc<NoiseRecord> {
        let mut measured = Vec::new();
        for window in 0..380 {
            let mut due = Nanos(window * SECOND / 20);
            let end = due + Nanos(20 * MS);
            while due < end {
                let since = late(host, due) + Nanos(40_000);
                due += since;
                let late = late(host, due).0 as i64 - 2_000;
                measured.push(MeasuredStart { due, since, late });
            }
        }
        Arc::new(NoiseRecord::new(Vec::new(), measured).unwrap())
    }

    #[test]
    fn intervals_hold_what_a_host_that_pauses_does() {
        const HOSTS: u32 = 10;
        const RUNS: u32 = 25;
        let mut inside = [0; 2];
        for host in 0..HOSTS {
            let record = watch_host(&pauses(1_000 * host));
            let mut simulated: Vec<[f64; 2]> = Vec::new();
            for replication in 0..200 {
                let sequence = random::sequence(1, replication, "noise");
                let mut noise = Noise::new(Arc::clone(&record), sequence);
                // A start takes 2 us without noise.
                simulated.push(queue(|due| noise.delay(due + Nanos(2_000), due)));
            }
            for run in 1..=RUNS {
                let pauses = pauses(1_000 * host + run);
                let real = queue(|due| due + late(&pauses, due));
                for figure in 0..2 {
                    let mut values: Vec<f64> = simulated.iter().map(|one| one[figure]).collect();
                    values.sort_unstable_by(f64::total_cmp);
                    inside[figure] += u32::from((values[5]..=values[194]).contains(&real[figure]));
                }
            }
        }
        let share = inside.map(|count| f64::from(count) / f64::from(HOSTS * RUNS));
        assert!(
            share.iter().all(|share| (0.9..0.98).contains(share)),
            "{share:?}"
        );
    }

    #[test]
    fn starts_change_no_time_of_a_task() {
        let rows = "time_ns,size,factor,ns\n0,1,1.5,1000000\n1000000,1,0.5,1000000\n";
        let alone = NoiseRecord::parse(rows, "n.csv").unwrap();
        let with = rows
            .replace(",ns\n", ",ns,late_ns\n")
            .replace("000000\n", "000000,\n")
            + "1000500,8,,70,9\n1000570,8,,70,-3\n";
        let both = NoiseRecord::parse(&with, "n.csv").unwrap();
        assert_eq!(both.describe(), alone.describe());
        assert_eq!(alone.describe_starts(), None);
        let said = "starts: 2 in 0.0 s; one in 10 is at least 0.0 us late, one in 100 0.0 us, one in 1000 0.0 us, the latest 0.0 us";
        assert_eq!(both.describe_starts().unwrap(), said);
        let [mut one, mut other] = [alone, both]
            .map(|record| Noise::new(Arc::new(record), random::sequence(1, 0, "noise")));
        for at in (0..100).map(|ms| Nanos(ms * 77 * MS)) {
            other.delay(at, at);
            assert_eq!(one.disturb(Nanos(MS), at), other.disturb(Nanos(MS), at));
        }
    }
}
