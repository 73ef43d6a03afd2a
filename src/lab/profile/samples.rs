//! Measured times, and the separation of the costs of batch sizes from what slows a machine for a while: a two-way fit
//! by medians of logarithms (Tukey's median polish), in which each time is a cost times the slowness of its block.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use statrs::statistics::{Data, Median as _};

use crate::base::units::Nanos;
use crate::core::cost::curve::Curve;

/// A median and the standard deviation, which is in nanoseconds.
pub type MedianCost = (Nanos, f64);

/// The distance of the quartiles of a normal distribution in standard deviations.
pub const QUARTILES: f64 = 1.349;

/// The samples of each batch size.
pub type SamplesByBatch = BTreeMap<u32, TimeSamples>;

/// The kind of a cell's work that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskKind {
    /// A task with the members of the task before; trees and feed-forward networks always change them.
    Task,
    /// A task some of whose members are not those of the task before.
    Exchanged,
    /// A task directly after one of another cell.
    Switched,
    /// A step in a task of whole requests.
    Whole,
    /// A step in a task of whole requests, directly after one of another cell.
    WholeSwitched,
    /// A task of this number of steps in a persistent kernel.
    Persistent(u32),
    /// A task of several steps, while this number of streams of its worker run the same task.
    Streams(u16),
}

/// The samples of each kind, cell name and size of inputs, which is 0 for cells without sizes.
#[derive(Debug, Default)]
pub struct CellTimes(pub BTreeMap<(TaskKind, String, u32), SamplesByBatch>);

impl CellTimes {
    /// The samples of a batch size, which may be new.
    pub fn samples(
        &mut self,
        kind: TaskKind,
        cell: &str,
        input: u32,
        batch: u32,
    ) -> &mut TimeSamples {
        self.0
            .entry((kind, cell.to_string(), input))
            .or_default()
            .entry(batch)
            .or_default()
    }

    /// The samples of all batch sizes, if there are any.
    pub fn get(&self, kind: TaskKind, cell: &str, input: u32) -> Option<&SamplesByBatch> {
        self.0.get(&(kind, cell.to_string(), input))
    }

    /// The costs of a cell that follows itself; where it never does, those after another cell.
    pub fn steady_costs(
        &self,
        [kind, switched]: [TaskKind; 2],
        cell: &str,
        input: u32,
    ) -> BTreeMap<u32, MedianCost> {
        [switched, kind]
            .into_iter()
            .filter_map(|kind| self.get(kind, cell, input))
            .flat_map(costs)
            .collect()
    }

    /// The additional time of tasks of `other` over those of `kind`; 0 where `kind` was not measured.
    pub fn more(
        &self,
        [kind, other]: [TaskKind; 2],
        cell: &str,
        input: u32,
    ) -> BTreeMap<u32, MedianCost> {
        let own = self.get(kind, cell, input);
        let mut found = BTreeMap::new();
        for (batch, others) in self.get(other, cell, input).into_iter().flatten() {
            let more = match own.and_then(|own| own.get(batch)) {
                Some(own) => (
                    others.median().saturating_since(own.median()),
                    others.deviation().hypot(own.deviation()),
                ),
                None => (Nanos::ZERO, 0.0),
            };
            found.insert(*batch, more);
        }
        found
    }

    /// The costs of a cell's tasks by batch size, on this number of streams.
    fn stream_costs(
        &self,
        streams: u16,
        cell: &str,
    ) -> impl Iterator<Item = (u32, MedianCost)> + '_ {
        self.get(TaskKind::Streams(streams), cell, 0)
            .into_iter()
            .flat_map(costs)
    }

    /// The share of the device that a step uses, in parts per million: a fourth of a step's time while four streams run
    /// the same step, divided by its time alone.
    pub fn demands(&self, cell: &str) -> BTreeMap<u32, (u64, f64)> {
        let alone: BTreeMap<u32, MedianCost> = self.stream_costs(1, cell).collect();
        let mut demands = BTreeMap::new();
        for (batch, (together, spread)) in self.stream_costs(4, cell) {
            let Some((time, deviation)) = alone.get(&batch).filter(|(time, _)| time.0 > 0) else {
                continue;
            };
            let share = 1e6 * together.0 as f64 / (4.0 * time.0 as f64);
            let relative = (spread / together.0.max(1) as f64).hypot(deviation / time.0 as f64);
            demands.insert(batch, (share.round().min(1e6) as u64, share * relative));
        }
        demands
    }

    /// The batches for which two streams took another time than the demands predict. Both times are multiples of a
    /// step's time alone, the measured one first.
    pub fn disagreeing(&self, cell: &str) -> Vec<(u32, f64, f64)> {
        /// The share of the time up to which a deviation does not count.
        const NEGLIGIBLE: f64 = 0.1;
        let alone: BTreeMap<u32, MedianCost> = self.stream_costs(1, cell).collect();
        let demands = self.demands(cell);
        let mut found = Vec::new();
        for (batch, (together, _)) in self.stream_costs(2, cell) {
            let (Some((demand, _)), Some((time, _))) = (demands.get(&batch), alone.get(&batch))
            else {
                continue;
            };
            let expected = f64::max(1.0, 2.0 * *demand as f64 / 1e6);
            let took = together.0 as f64 / time.0 as f64;
            if (took / expected - 1.0).abs() > NEGLIGIBLE {
                found.push((batch, took, expected));
            }
        }
        found
    }

    /// The costs of a step in a persistent kernel and of its launch.
    pub fn persistent(&self, cell: &str) -> BTreeMap<u32, [MedianCost; 2]> {
        let [short, long] = STEPS.map(|steps| self.get(TaskKind::Persistent(steps), cell, 0));
        let mut costs = BTreeMap::new();
        for (batch, short) in short.into_iter().flatten() {
            if let Some(long) = long.and_then(|long| long.get(batch)) {
                costs.insert(*batch, step_and_launch([short.cost(), long.cost()]));
            }
        }
        costs
    }
}

/// The cost of each batch size.
pub fn costs(batches: &SamplesByBatch) -> BTreeMap<u32, MedianCost> {
    batches
        .iter()
        .map(|(batch, samples)| (*batch, samples.cost()))
        .collect()
}

/// The costs as a curve; `None` without costs.
pub fn curve(costs: &BTreeMap<u32, MedianCost>) -> Option<Curve> {
    Curve::new(
        costs
            .iter()
            .map(|(batch, (time, _))| (*batch, time.0))
            .collect(),
    )
}

/// The times of tasks whose ends the host sees late, and several at once. The tasks of each list were submitted
/// together, in this order. A list's time is the mean of the tasks that the host saw begin; if it saw none in any list,
/// each task takes its share of its list's time.
pub fn as_seen(together: &[Vec<(TimedTask, bool)>]) -> Vec<TimedTask> {
    let means: Vec<TimedTask> = together
        .iter()
        .filter_map(|tasks| mean_of_watched(tasks))
        .collect();
    if means.is_empty() {
        together.iter().map(|tasks| equal_share(tasks)).collect()
    } else {
        means
    }
}

/// The mean time of the tasks that the host saw begin, if it saw any.
fn mean_of_watched(tasks: &[(TimedTask, bool)]) -> Option<TimedTask> {
    let watched: Vec<TimedTask> = tasks
        .iter()
        .filter(|(_, is_watched)| *is_watched)
        .map(|(timed, _)| *timed)
        .collect();
    let time: u64 = watched.iter().map(|one| one.time.0).sum();
    if time == 0 {
        return None;
    }
    Some(TimedTask {
        time: Nanos(time / watched.len() as u64),
        ..watched[0]
    })
}

/// The time of a task if all tasks share their time equally.
fn equal_share(tasks: &[(TimedTask, bool)]) -> TimedTask {
    let first = tasks[0].0;
    let last = tasks[tasks.len() - 1].0;
    TimedTask {
        time: Nanos((last.at + last.time - first.at).0 / tasks.len() as u64),
        ..first
    }
}

/// The time of a task and when it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedTask {
    pub time: Nanos,
    /// When the task began, since the start of the profile.
    pub at: Nanos,
    /// The number of the block in which it was measured.
    pub block: u32,
}

/// The progress of a profile: the present block, and the time that its backends have run.
#[derive(Debug, Default)]
pub struct ProfileClock {
    pub block: Cell<u32>,
    pub time: Cell<Nanos>,
}

/// Times of the same work.
#[derive(Clone, Debug, Default)]
pub struct TimeSamples {
    all: Vec<TimedTask>,
    /// The times in nanoseconds without the slowness of their blocks.
    levelled: Vec<u64>,
}

impl Extend<TimedTask> for TimeSamples {
    fn extend<I: IntoIterator<Item = TimedTask>>(&mut self, times: I) {
        let from = self.all.len();
        self.all.extend(times);
        self.levelled
            .extend(self.all[from..].iter().map(|one| one.time.0));
    }
}

impl TimeSamples {
    /// Adds a time that is not a task's, such as a gap.
    pub fn add(&mut self, time: Nanos) {
        self.extend([TimedTask {
            time,
            at: Nanos::ZERO,
            block: 0,
        }]);
    }

    pub fn cost(&self) -> MedianCost {
        (self.median(), self.deviation())
    }

    /// The median, or the lower of the two middle samples; 0 without samples.
    pub fn median(&self) -> Nanos {
        Nanos(self.quartile(2))
    }

    /// The standard deviation in nanoseconds, by the quartiles.
    pub fn deviation(&self) -> f64 {
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
    pub fn visits(&self) -> impl Iterator<Item = &[TimedTask]> {
        self.all.chunk_by(|a, b| a.block == b.block)
    }

    /// The median of the visit of a block in nanoseconds and its relative standard error, if the block has visited
    /// this size.
    pub fn visit_in(&self, block: u32) -> Option<(f64, f64)> {
        /// The ratio of a median's standard error to a mean's.
        const NORMAL: f64 = 1.2533;
        let visit = self.visits().find(|visit| visit[0].block == block)?;
        let mut alone = TimeSamples::default();
        alone.extend(visit.iter().copied());
        let median = median_of(visit).max(1.0);
        let error = NORMAL * alone.deviation() / (visit.len() as f64).sqrt();
        Some((median, error / median))
    }

    /// Removes the slowness of the blocks from the times.
    pub fn level(&mut self, slowness: &Slowness) {
        self.levelled.clear();
        for one in &self.all {
            let levelled = one.time.0 as f64 / slowness.slowness(one.block);
            self.levelled.push(levelled.round() as u64);
        }
    }
}

/// The median of a visit in nanoseconds, or the mean of its two middle times.
pub fn median_of(visit: &[TimedTask]) -> f64 {
    median(visit.iter().map(|one| one.time.0 as f64))
}

/// The factor by which the tasks of each block are slower than in a typical block.
#[derive(Clone, Debug, Default)]
pub struct Slowness(BTreeMap<u32, f64>);

/// The iterations of the fit, which settles within a few.
const ITERATIONS: usize = 20;

/// The smallest number of visits for which a block's slowness is fitted; fewer say little about the machine.
const LEAST_VISITS: usize = 3;

impl Slowness {
    /// Fits the slowness of blocks to the samples of sizes. A size that was visited once says nothing.
    pub fn fit<'s>(sizes: impl Iterator<Item = &'s TimeSamples>) -> Slowness {
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
                for (block, log) in visits {
                    residuals.entry(*block).or_default().push(log - cost);
                }
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

    /// The slowness of a block; 1 if it is unknown.
    pub fn slowness(&self, block: u32) -> f64 {
        self.0.get(&block).copied().unwrap_or(1.0)
    }

    /// The sizes whose visits scatter far more than those of others, and pairs of neighbours of which the larger takes
    /// less time, by more than they scatter.
    pub fn doubtful(&self, sizes: &SamplesByBatch) -> BTreeSet<u32> {
        /// The scatter that is accepted in any case, as a share of the time.
        const NEGLIGIBLE: f64 = 0.01;
        let found: Vec<SizeEstimate> = sizes
            .iter()
            .map(|(batch, samples)| self.estimate(*batch, samples))
            .collect();
        let scatter = NEGLIGIBLE.max(2.0 * median(found.iter().map(|size| size.error)));
        let scattered = found.iter().filter(|size| size.error > scatter);
        let falling = found.windows(2).filter(|pair| {
            let noise = 2.0 * pair[0].error.hypot(pair[1].error);
            pair[0].log - pair[1].log > NEGLIGIBLE.max(noise)
        });
        scattered
            .chain(falling.flatten())
            .map(|size| size.batch)
            .collect()
    }

    /// The typical time of a size, and its error.
    fn estimate(&self, batch: u32, samples: &TimeSamples) -> SizeEstimate {
        /// The ratio of a normal distribution's standard deviation to its mean distance, and of a median's error to a
        /// mean's.
        const NORMAL: f64 = 1.2533;
        let logs: Vec<f64> = visits(samples)
            .into_iter()
            .map(|(block, log)| log - self.slowness(block).ln())
            .collect();
        let log = median(logs.iter().copied());
        let distances: f64 = logs.iter().map(|one| (one - log).abs()).sum();
        SizeEstimate {
            batch,
            log,
            error: NORMAL * NORMAL * distances / (logs.len() as f64).powf(1.5),
        }
    }
}

/// The typical time of a size.
struct SizeEstimate {
    batch: u32,
    /// The logarithm of the time.
    log: f64,
    /// The standard error of the logarithm, from the distances of the visits from their median.
    error: f64,
}

/// The block of each visit, and the logarithm of its median.
fn visits(samples: &TimeSamples) -> Vec<(u32, f64)> {
    samples
        .visits()
        .map(|visit: &[TimedTask]| (visit[0].block, median_of(visit).max(1.0).ln()))
        .collect()
}

/// The median, or the mean of the two middle values.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    Data::new(values.into_iter().collect::<Vec<_>>()).median()
}

/// The sum of all samples, divided by what the sum would be if each were the median of its visit; at least 1.
///
/// A run pays for short disturbances that medians leave out. All kinds share one ratio, because one pause would distort
/// the mean of a single kind. Disturbances that last longer than a visit are the machine's noise.
pub fn mean_over_median<'a>(kinds: impl IntoIterator<Item = &'a TimeSamples>) -> f64 {
    let mut sum = 0.0;
    let mut typical = 0.0;
    for visit in kinds.into_iter().flat_map(TimeSamples::visits) {
        sum += visit.iter().map(|one| one.time.0 as f64).sum::<f64>();
        typical += visit.len() as f64 * median_of(visit);
    }
    if typical == 0.0 {
        1.0
    } else {
        f64::max(sum / typical, 1.0)
    }
}

/// The kinds of tasks: after the same cell, and after another.
pub const TASKS: [TaskKind; 2] = [TaskKind::Task, TaskKind::Switched];

/// The kinds of steps in tasks of whole requests: after the same cell, and after another.
pub const WHOLE: [TaskKind; 2] = [TaskKind::Whole, TaskKind::WholeSwitched];

/// The steps of the tasks in persistent kernels: a short chunk and a sentence.
pub const STEPS: [u32; 2] = [4, 32];

/// The costs of a step in a persistent kernel and of its launch (gather, scatter, the product of all inputs), from
/// tasks of [`STEPS`] steps. A step is at most its share of the long task, so that the launch is not negative.
pub fn step_and_launch(
    [(time, deviation), (long_time, long_deviation)]: [MedianCost; 2],
) -> [MedianCost; 2] {
    let [short, long] = STEPS.map(u64::from);
    let more_steps = long - short;
    let more_time = long_time.saturating_since(time).0;
    let step = ((more_time + more_steps / 2) / more_steps).min(long_time.0 / long);
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

    fn samples(times: &[u64]) -> TimeSamples {
        let mut samples = TimeSamples::default();
        times.iter().for_each(|ns| samples.add(Nanos(*ns)));
        samples
    }

    #[test]
    fn a_median_is_a_sample() {
        assert_eq!(TimeSamples::default().cost(), (Nanos(0), 0.0));
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
        let mut times = CellTimes::default();
        // The times alone, on two and on four streams. Four streams take as long as one, twice and four times as long,
        // and longer than in turn.
        for (batch, took) in [
            (1, [80, 80, 80]),
            (2, [80, 80, 160]),
            (4, [80, 160, 320]),
            (8, [80, 100, 400]),
        ] {
            for (streams, time) in [1, 2, 4].into_iter().zip(took) {
                times
                    .samples(TaskKind::Streams(streams), "lstm", 0, batch)
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
        // The medians are 10 and 102: (10 + 10 + 16) + (100 + 104) is divided by 3 times 10 plus 2 times 102.
        let ratio = mean_over_median(&[samples(&[10, 16, 10]), samples(&[100, 104])]);
        assert!((ratio - 240.0 / 234.0).abs() < 1e-12, "{ratio}");
        let mut slow = samples(&[10, 10, 16]);
        slow.extend(
            [TimedTask {
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

    fn launches(short: &[u64], long: &[u64]) -> [MedianCost; 2] {
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
