//! Measured times, and the separation of the costs of batch sizes from what slows a machine for a while: a two-way fit by
//! medians of logarithms (Tukey's median polish), in which each time is a cost times the slowness of its block.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use statrs::statistics::{Data, Median as _};

use crate::base::units::Nanos;
use crate::core::cost::curve::Curve;

/// A median, and the standard deviation in nanoseconds.
pub type Cost = (Nanos, f64);

pub type ByBatch = BTreeMap<u32, Samples>;

/// What is timed of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A task with the members of the task before; trees and feed-forward networks always change them.
    Task,
    /// With some other members.
    Exchanged,
    /// Directly after another cell.
    Switched,
    /// A step in a task of whole requests.
    Whole,
    /// Directly after another cell.
    WholeSwitched,
    /// A task of this number of steps in a persistent kernel.
    Persistent(u32),
    /// A task of several steps, while this number of streams of its worker run the same.
    Streams(u16),
}

/// By kind, cell name and input size (0 if it has none).
#[derive(Debug, Default)]
pub struct Times(pub BTreeMap<(Kind, String, u32), ByBatch>);

impl Times {
    pub fn at(&mut self, kind: Kind, cell: &str, input: u32, batch: u32) -> &mut Samples {
        self.0
            .entry((kind, cell.to_string(), input))
            .or_default()
            .entry(batch)
            .or_default()
    }

    pub fn get(&self, kind: Kind, cell: &str, input: u32) -> Option<&ByBatch> {
        self.0.get(&(kind, cell.to_string(), input))
    }

    /// Where a cell never follows itself, the costs after another one.
    pub fn own(&self, [kind, switched]: [Kind; 2], cell: &str, input: u32) -> BTreeMap<u32, Cost> {
        [switched, kind]
            .into_iter()
            .filter_map(|kind| self.get(kind, cell, input))
            .flat_map(costs)
            .collect()
    }

    /// The additional time of tasks of the other kind.
    pub fn more(&self, [kind, other]: [Kind; 2], cell: &str, input: u32) -> BTreeMap<u32, Cost> {
        let own = self.get(kind, cell, input);
        let more = |(batch, others): (&u32, &Samples)| {
            let own = own.and_then(|own| own.get(batch));
            let longer = |own: &Samples| {
                (
                    others.median().saturating_since(own.median()),
                    others.deviation().hypot(own.deviation()),
                )
            };
            (*batch, own.map_or((Nanos::ZERO, 0.0), longer))
        };
        self.get(other, cell, input)
            .into_iter()
            .flatten()
            .map(more)
            .collect()
    }

    /// The costs of a cell's tasks by batch size, on this number of streams.
    fn on_streams(&self, streams: u16, cell: &str) -> impl Iterator<Item = (u32, Cost)> + '_ {
        self.get(Kind::Streams(streams), cell, 0)
            .into_iter()
            .flat_map(costs)
    }

    /// The share of the device that a step uses, in parts per million: a fourth of what a step takes while four streams
    /// run the same, over what it takes alone.
    pub fn demands(&self, cell: &str) -> BTreeMap<u32, (u64, f64)> {
        let alone: BTreeMap<u32, Cost> = self.on_streams(1, cell).collect();
        let demand = |(batch, (together, spread)): (u32, Cost)| {
            let (time, deviation) = *alone.get(&batch).filter(|(time, _)| time.0 > 0)?;
            let share = 1e6 * together.0 as f64 / (4.0 * time.0 as f64);
            let relative = (spread / together.0.max(1) as f64).hypot(deviation / time.0 as f64);
            Some((batch, (share.round().min(1e6) as u64, share * relative)))
        };
        self.on_streams(4, cell).filter_map(demand).collect()
    }

    /// Where two streams took another time than the demands say: the batch, and both over the time of a step alone.
    pub fn disagreeing(&self, cell: &str) -> Vec<(u32, f64, f64)> {
        /// The share of the time below which a deviation does not count.
        const NEGLIGIBLE: f64 = 0.1;
        let alone: BTreeMap<u32, Cost> = self.on_streams(1, cell).collect();
        let demands = self.demands(cell);
        let compare = |(batch, (together, _)): (u32, Cost)| {
            let said = f64::max(1.0, 2.0 * demands.get(&batch)?.0 as f64 / 1e6);
            let took = together.0 as f64 / alone.get(&batch)?.0.0 as f64;
            ((took / said - 1.0).abs() > NEGLIGIBLE).then_some((batch, took, said))
        };
        self.on_streams(2, cell).filter_map(compare).collect()
    }

    /// Of a step in a persistent kernel and its launch.
    pub fn persistent(&self, cell: &str) -> BTreeMap<u32, [Cost; 2]> {
        let [short, long] = STEPS.map(|steps| self.get(Kind::Persistent(steps), cell, 0));
        let both = |(batch, short): (&u32, &Samples)| {
            Some((*batch, [short.cost(), long?.get(batch)?.cost()]))
        };
        let both = short.into_iter().flatten().filter_map(both);
        both.map(|(batch, costs)| (batch, step_and_launch(costs)))
            .collect()
    }
}

pub fn costs(batches: &ByBatch) -> BTreeMap<u32, Cost> {
    batches
        .iter()
        .map(|(batch, samples)| (*batch, samples.cost()))
        .collect()
}

pub fn curve(costs: &BTreeMap<u32, Cost>) -> Option<Curve> {
    Curve::new(
        costs
            .iter()
            .map(|(batch, (time, _))| (*batch, time.0))
            .collect(),
    )
}

/// The times of tasks whose ends the host sees late, and several at once. For tasks that were submitted together, in
/// their order: the mean of those that it saw begin; if it saw none at all, each takes its share of their time.
pub fn as_seen(together: &[Vec<(Timed, bool)>]) -> Vec<Timed> {
    let mean = |tasks: &Vec<(Timed, bool)>| {
        let watched: Vec<Timed> = tasks
            .iter()
            .filter(|(_, watched)| *watched)
            .map(|(timed, _)| *timed)
            .collect();
        let time: u64 = watched.iter().map(|one| one.time.0).sum();
        (time > 0).then(|| Timed {
            time: Nanos(time / watched.len() as u64),
            ..watched[0]
        })
    };
    let share = |tasks: &Vec<(Timed, bool)>| {
        let (first, last) = (tasks[0].0, tasks[tasks.len() - 1].0);
        Timed {
            time: Nanos((last.at + last.time - first.at).0 / tasks.len() as u64),
            ..first
        }
    };
    let means: Vec<Timed> = together.iter().filter_map(mean).collect();
    if means.is_empty() {
        together.iter().map(share).collect()
    } else {
        means
    }
}

/// The time of a task and when it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timed {
    pub time: Nanos,
    /// Since the start of the profile.
    pub at: Nanos,
    /// The number of the block.
    pub block: u32,
}

/// How far a profile is: the block, and the time that its backends have run.
#[derive(Debug, Default)]
pub struct Now {
    pub block: Cell<u32>,
    pub time: Cell<Nanos>,
}

#[derive(Clone, Debug, Default)]
pub struct Samples {
    all: Vec<Timed>,
    /// Without the slowness of their blocks.
    levelled: Vec<u64>,
}

impl Extend<Timed> for Samples {
    fn extend<I: IntoIterator<Item = Timed>>(&mut self, times: I) {
        let from = self.all.len();
        self.all.extend(times);
        self.levelled
            .extend(self.all[from..].iter().map(|one| one.time.0));
    }
}

impl Samples {
    /// A time that no task has, such as a gap.
    pub fn add(&mut self, time: Nanos) {
        self.extend([Timed {
            time,
            at: Nanos::ZERO,
            block: 0,
        }]);
    }

    pub fn cost(&self) -> Cost {
        (self.median(), self.deviation())
    }

    /// The lower one of two in the middle; 0 without samples.
    pub fn median(&self) -> Nanos {
        Nanos(self.quartile(2))
    }

    /// In nanoseconds, from the distance of the quartiles, 1.349 of it in a normal distribution.
    pub fn deviation(&self) -> f64 {
        const QUARTILES: f64 = 1.349;
        (self.quartile(3) - self.quartile(1)) as f64 / QUARTILES
    }

    fn quartile(&self, quarters: usize) -> u64 {
        let mut sorted = self.levelled.clone();
        sorted.sort_unstable();
        sorted
            .get(sorted.len().saturating_sub(1) * quarters / 4)
            .copied()
            .unwrap_or(0)
    }

    /// The samples of each block that has measured this size.
    pub fn visits(&self) -> impl Iterator<Item = &[Timed]> {
        self.all.chunk_by(|a, b| a.block == b.block)
    }

    pub fn level(&mut self, slowness: &Slowness) {
        let level = |one: &Timed| (one.time.0 as f64 / slowness.of(one.block)).round() as u64;
        self.levelled = self.all.iter().map(level).collect();
    }
}

/// In nanoseconds; the mean of two in the middle.
pub fn median_of(visit: &[Timed]) -> f64 {
    median(visit.iter().map(|one| one.time.0 as f64))
}

/// By how much the tasks of each block are slower than in a typical one.
#[derive(Clone, Debug, Default)]
pub struct Slowness(BTreeMap<u32, f64>);

/// The fit settles within a few.
const ITERATIONS: usize = 20;

/// A block of fewer visits says little about the machine.
const LEAST_VISITS: usize = 3;

impl Slowness {
    /// A size that was visited once says nothing.
    pub fn fit<'s>(sizes: impl Iterator<Item = &'s Samples>) -> Slowness {
        let sizes: Vec<Vec<(u32, f64)>> = sizes
            .map(visits)
            .filter(|visits| visits.len() > 1)
            .collect();
        let mut slow: BTreeMap<u32, f64> = BTreeMap::new();
        for _ in 0..ITERATIONS {
            let mut residuals: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
            for visits in &sizes {
                let cost = median(
                    visits
                        .iter()
                        .map(|(block, log)| log - slow.get(block).unwrap_or(&0.0)),
                );
                visits
                    .iter()
                    .for_each(|(block, log)| residuals.entry(*block).or_default().push(log - cost));
            }
            residuals.retain(|_, found| found.len() >= LEAST_VISITS);
            slow = residuals
                .into_iter()
                .map(|(block, found)| (block, median(found)))
                .collect();
            let typical = median(slow.values().copied());
            slow.values_mut().for_each(|log| *log -= typical);
        }
        Slowness(
            slow.into_iter()
                .map(|(block, log)| (block, log.exp()))
                .collect(),
        )
    }

    pub fn of(&self, block: u32) -> f64 {
        self.0.get(&block).copied().unwrap_or(1.0)
    }

    /// Sizes whose visits scatter far more than those of others, and pairs of neighbours of which the larger takes less
    /// time, by more than they scatter.
    pub fn doubtful(&self, sizes: &ByBatch) -> BTreeSet<u32> {
        /// As a share of the time.
        const NEGLIGIBLE: f64 = 0.01;
        let found: Vec<Estimate> = sizes
            .iter()
            .map(|(batch, samples)| self.estimate(*batch, samples))
            .collect();
        let scatter = NEGLIGIBLE.max(2.0 * median(found.iter().map(|size| size.error)));
        let scattered = found.iter().filter(|size| size.error > scatter);
        let falls = |pair: &&[Estimate]| {
            pair[0].log - pair[1].log > NEGLIGIBLE.max(2.0 * pair[0].error.hypot(pair[1].error))
        };
        let falling = found.windows(2).filter(falls).flatten();
        scattered.chain(falling).map(|size| size.batch).collect()
    }

    fn estimate(&self, batch: u32, samples: &Samples) -> Estimate {
        /// Of a normal distribution, its deviation over the mean distance; and a median's error over that of a mean.
        const NORMAL: f64 = 1.2533;
        let logs: Vec<f64> = visits(samples)
            .into_iter()
            .map(|(block, log)| log - self.of(block).ln())
            .collect();
        let log = median(logs.iter().copied());
        let distances: f64 = logs.iter().map(|one| (one - log).abs()).sum();
        Estimate {
            batch,
            log,
            error: NORMAL * NORMAL * distances / (logs.len() as f64).powf(1.5),
        }
    }
}

struct Estimate {
    batch: u32,
    /// Of the time.
    log: f64,
    /// The standard error, from the distances of the visits from their median.
    error: f64,
}

/// The block of each visit, and the logarithm of its median.
fn visits(samples: &Samples) -> Vec<(u32, f64)> {
    samples
        .visits()
        .map(|visit: &[Timed]| (visit[0].block, median_of(visit).max(1.0).ln()))
        .collect()
}

/// The mean of two in the middle.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    Data::new(values.into_iter().collect::<Vec<_>>()).median()
}

/// The sum of all samples, divided by the sum if each were the median of its visit; at least 1.
///
/// A run pays for short disturbances that medians leave out. All kinds share one ratio, because one pause would distort
/// the mean of a single kind. Disturbances that last longer than a visit are the machine's noise.
pub fn mean_over_median<'a>(kinds: impl IntoIterator<Item = &'a Samples>) -> f64 {
    let (mut sum, mut typical) = (0.0, 0.0);
    for visit in kinds.into_iter().flat_map(Samples::visits) {
        sum += visit.iter().map(|one| one.time.0 as f64).sum::<f64>();
        typical += visit.len() as f64 * median_of(visit);
    }
    if typical == 0.0 {
        1.0
    } else {
        f64::max(sum / typical, 1.0)
    }
}

/// Of tasks, and of steps in tasks of whole requests: after the same cell, and after another.
pub const TASKS: [Kind; 2] = [Kind::Task, Kind::Switched];
pub const WHOLE: [Kind; 2] = [Kind::Whole, Kind::WholeSwitched];

/// In steps: a short chunk and a sentence.
pub const STEPS: [u32; 2] = [4, 32];

/// A step in a persistent kernel and its launch (gather, scatter, the product of all inputs), from tasks of [`STEPS`]
/// steps. A step is at most its share of the long task, so that the launch is not negative.
pub fn step_and_launch([(time, deviation), (long_time, long_deviation)]: [Cost; 2]) -> [Cost; 2] {
    let [short, long] = STEPS.map(u64::from);
    let each = |time: Nanos, steps: u64| (time.0 + steps / 2) / steps;
    let step = each(long_time.saturating_since(time), long - short).min(long_time.0 / long);
    let spread = deviation.hypot(long_deviation) / (long - short) as f64;
    let launch = (
        time.saturating_since(Nanos(step * short)),
        deviation.hypot(spread * short as f64),
    );
    [(Nanos(step), spread), launch]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(times: &[u64]) -> Samples {
        let mut samples = Samples::default();
        times.iter().for_each(|ns| samples.add(Nanos(*ns)));
        samples
    }

    #[test]
    fn a_median_is_a_sample() {
        assert_eq!(Samples::default().cost(), (Nanos(0), 0.0));
        let five = samples(&[7, 1_000_000, 3, 4, 5]);
        assert_eq!(five.median(), Nanos(5));
        assert!(
            (five.deviation() - 3.0 / 1.349).abs() < 1e-9,
            "{}",
            five.deviation()
        );
        assert_eq!(samples(&[1, 2, 3, 4]).median(), Nanos(2));
    }

    #[test]
    fn a_demand_is_a_fourth_of_what_four_streams_take() {
        let mut times = Times::default();
        // Alone, on two and on four streams: as if alone, twice and four times as long, and longer than in turn.
        for (batch, took) in [
            (1, [80, 80, 80]),
            (2, [80, 80, 160]),
            (4, [80, 160, 320]),
            (8, [80, 100, 400]),
        ] {
            for (streams, time) in [1, 2, 4].into_iter().zip(took) {
                times
                    .at(Kind::Streams(streams), "lstm", 0, batch)
                    .add(Nanos(time));
            }
        }
        let demands: Vec<(u32, u64)> = times
            .demands("lstm")
            .into_iter()
            .map(|(batch, (share, _))| (batch, share))
            .collect();
        assert_eq!(
            demands,
            [(1, 250_000), (2, 500_000), (4, 1_000_000), (8, 1_000_000)]
        );
        assert_eq!(times.disagreeing("lstm"), [(8, 1.25, 2.0)]);
        assert!(times.demands("gru").is_empty());
    }

    #[test]
    fn all_kinds_share_one_ratio_of_mean_to_median() {
        // Medians 10 and 102: (10 + 10 + 16) + (100 + 104) over 3 times 10 and 2 times 102.
        let ratio = mean_over_median(&[samples(&[10, 16, 10]), samples(&[100, 104])]);
        assert!((ratio - 240.0 / 234.0).abs() < 1e-12, "{ratio}");
        let mut slow = samples(&[10, 10, 16]);
        slow.extend(
            [Timed {
                time: Nanos(20),
                at: Nanos(9),
                block: 1,
            }; 3],
        );
        assert_eq!(
            mean_over_median([&slow]),
            96.0 / 90.0,
            "a slow visit has a median of its own"
        );
        assert_eq!(mean_over_median(&[samples(&[1, 10, 10])]), 1.0);
        assert_eq!(mean_over_median(&[samples(&[]), samples(&[0])]), 1.0);
    }

    fn launches(short: &[u64], long: &[u64]) -> [Cost; 2] {
        step_and_launch([short, long].map(|times| samples(times).cost()))
    }

    #[test]
    fn a_launch_and_its_steps_add_up_to_the_measured_time() {
        let measured = launches(&[170, 180, 990], &[600, 600, 600]);
        assert_eq!(
            measured.map(|cost| cost.0),
            [Nanos(15), Nanos(120)],
            "420 ns for 28 steps"
        );
        let spread = launches(&[100, 100, 100, 100, 128], &[240, 240, 240, 240, 240]);
        assert_eq!(spread, [(Nanos(5), 0.0), (Nanos(80), 0.0)]);
        // Half a nanosecond is rounded up.
        assert_eq!(launches(&[100], &[114])[0].0, Nanos(1));
    }

    #[test]
    fn neither_a_step_nor_a_launch_is_negative() {
        let [quick, slow] = [launches(&[10], &[3_200]), launches(&[500], &[400])];
        assert_eq!(quick.map(|cost| cost.0), [Nanos(100), Nanos::ZERO]);
        assert_eq!(slow.map(|cost| cost.0), [Nanos::ZERO, Nanos(500)]);
    }
}
