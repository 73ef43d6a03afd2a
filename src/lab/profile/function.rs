//! The profile of a function that computes a batch, such as a model in another language.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use rand::seq::SliceRandom as _;

use super::blocks::{AGAIN, SIZES};
use super::report::{cost_rows, judge, noise_rows, remark};
use super::samples::{CellTimes, TASKS, TaskKind, TimedTask};
use super::{NetworkProfile, ProfileProgress, ProfileSteps};
use crate::base::clock;
use crate::base::error::Result;
use crate::base::units::Nanos;
use crate::core::workload::random;
use crate::lab::usability::Usability;

/// A batch size and an input size, which is 0 for a function without inputs.
pub type FunctionSize = (u32, u32);

/// A function that runs a batch once.
pub type RunBatch<'f> = dyn FnMut(FunctionSize) -> Result<()> + 'f;

/// What is measured of a function.
#[derive(Clone, Debug)]
pub struct FunctionTarget {
    /// The name of its cell in the cost table.
    pub cell: String,
    /// The batch sizes, ascending; empty to find them.
    pub batches: Vec<u32>,
    /// The input sizes; empty for a function of the batch size only.
    pub inputs: Vec<u32>,
    /// The largest batch size that is found.
    pub largest: u32,
    pub repeats: u32,
}

/// The cost table of a function, and how its times wandered, both as CSV.
#[derive(Clone, Debug)]
pub struct FunctionReport {
    pub costs: String,
    pub noise: String,
    /// Whether the table can be used.
    pub usability: Usability,
}

/// The calls of a visit that are measured at most, and the time after which no more are made.
const MOST_CALLS: usize = 20;
const LONG_VISIT: Nanos = Nanos(20_000_000);
/// The calls of a visit that are measured at least.
const LEAST_CALLS: usize = 3;

impl FunctionTarget {
    /// Measures the function: in each repeat all sizes in a random order, in blocks of a few sizes, then again those
    /// whose times are doubtful. `progress` learns of each visit of a size.
    ///
    /// # Errors
    /// An error of the function; [`Error::Interrupted`](crate::base::error::Error::Interrupted) once `stop` is set.
    pub fn measure(
        &self,
        run: &mut RunBatch<'_>,
        stop: &AtomicBool,
        progress: &dyn Fn(ProfileProgress),
    ) -> Result<FunctionReport> {
        let steps = ProfileSteps { stop, progress };
        let mut visits = FunctionVisits {
            cell: &self.cell,
            steps,
            profile: NetworkProfile::default(),
            block: 0,
            elapsed: Nanos::ZERO,
        };
        let sizes = self.sizes(run, steps)?;
        progress(ProfileProgress::Planned(
            sizes.len() * self.repeats as usize,
        ));
        for repeat in 0..self.repeats {
            visits.measure(sizes.clone(), run, ("profile", repeat))?;
        }
        for time in 0..AGAIN {
            visits.profile.level();
            let doubtful = visits.doubtful();
            visits
                .profile
                .again
                .extend(doubtful.iter().map(|(batch, _)| batch));
            visits.measure(doubtful, run, ("profile again", time))?;
        }
        visits.profile.level();
        let rows = cost_rows(&visits.profile, !self.inputs.is_empty());
        let usability = judge(&rows);
        Ok(FunctionReport {
            costs: remark(&usability) + &rows,
            noise: noise_rows(&visits.profile.noise(), &[]),
            usability,
        })
    }

    fn sizes(&self, run: &mut RunBatch<'_>, steps: ProfileSteps<'_>) -> Result<Vec<FunctionSize>> {
        let mut inputs: &[u32] = &self.inputs;
        if inputs.is_empty() {
            inputs = &[0];
        }
        let mut batches = self.batches.clone();
        if batches.is_empty() {
            // Stairs lie at the same sizes for all inputs, as they come from the rows of a tile.
            batches = self.find_batches(inputs[inputs.len() / 2], run, steps)?;
        }
        let with_input = |input: &u32| {
            let input = *input;
            batches.iter().map(move |batch| (*batch, input))
        };
        Ok(inputs.iter().flat_map(with_input).collect())
    }

    /// Powers of two, and the sizes between which the time leaves the line through its neighbours: the ends of stairs.
    fn find_batches(
        &self,
        input: u32,
        run: &mut RunBatch<'_>,
        steps: ProfileSteps<'_>,
    ) -> Result<Vec<u32>> {
        let mut time = |batch: u32| -> Result<f64> {
            steps.count()?;
            let times = time_calls((batch, input), run)?;
            let least = times.iter().map(|time| time.0).min();
            Ok(least.unwrap_or_default() as f64)
        };
        let mut known = Vec::new();
        let mut size = 1;
        while size < self.largest {
            known.push((size, time(size)?));
            size *= 2;
        }
        known.push((self.largest, time(self.largest)?));
        let mut open: Vec<[(u32, f64); 2]> =
            known.windows(2).map(|pair| [pair[0], pair[1]]).collect();
        while let Some([low, high]) = open.pop() {
            let between = (low.0 + high.0) / 2;
            let is_narrow = high.0 - low.0 < 2 || known.len() >= MOST_FOUND;
            if is_narrow {
                continue;
            }
            let there = time(between)?;
            known.push((between, there));
            let share = f64::from(between - low.0) / f64::from(high.0 - low.0);
            let on_line = low.1 + share * (high.1 - low.1);
            if (there - on_line).abs() > OFF_THE_LINE * on_line {
                open.push([low, (between, there)]);
                open.push([(between, there), high]);
            }
        }
        let found: BTreeSet<u32> = known.into_iter().map(|(batch, _)| batch).collect();
        Ok(found.into_iter().collect())
    }
}

/// The share by which a time has to leave the line for the size to be the end of a stair.
const OFF_THE_LINE: f64 = 0.05;

/// The most sizes that are found.
const MOST_FOUND: usize = 64;

struct FunctionVisits<'a> {
    cell: &'a str,
    steps: ProfileSteps<'a>,
    profile: NetworkProfile,
    block: u32,
    /// The measured time so far.
    elapsed: Nanos,
}

impl FunctionVisits<'_> {
    /// Visits sizes in a random order. Each block visits the middle one, too.
    fn measure(
        &mut self,
        mut sizes: Vec<FunctionSize>,
        run: &mut RunBatch<'_>,
        (purpose, repeat): (&str, u32),
    ) -> Result<()> {
        let reference = sizes.get(sizes.len() / 2).copied();
        sizes.shuffle(&mut random::sequence(0, repeat, purpose));
        for chunk in sizes.chunks(SIZES) {
            self.block += 1;
            let reference = reference.filter(|size| !chunk.contains(size));
            for size in reference.into_iter().chain(chunk.iter().copied()) {
                self.visit(size, run)?;
                self.steps.count()?;
            }
        }
        Ok(())
    }

    fn visit(&mut self, size: FunctionSize, run: &mut RunBatch<'_>) -> Result<()> {
        let (batch, input) = size;
        let mut timed = Vec::new();
        for time in time_calls(size, run)? {
            timed.push(TimedTask {
                time,
                at: self.elapsed,
                block: self.block,
            });
            self.elapsed = self.elapsed.saturating_add(time);
        }
        let times: &mut CellTimes = &mut self.profile.times;
        times
            .samples(TaskKind::Task, self.cell, input, batch)
            .extend(timed);
        Ok(())
    }

    fn doubtful(&self) -> Vec<FunctionSize> {
        let mut found = Vec::new();
        for ((kind, _, input), sizes) in &self.profile.times.0 {
            if TASKS.contains(kind) {
                let doubtful = self.profile.slowness.doubtful(sizes);
                found.extend(doubtful.into_iter().map(|batch| (batch, *input)));
            }
        }
        found
    }
}

/// The times of a few calls. One before them is not measured, since it meets the caches of another size.
fn time_calls(size: FunctionSize, run: &mut RunBatch<'_>) -> Result<Vec<Nanos>> {
    run(size)?;
    let mut times = Vec::new();
    let mut sum = Nanos::ZERO;
    while times.len() < LEAST_CALLS || (sum < LONG_VISIT && times.len() < MOST_CALLS) {
        let clock = clock::now();
        run(size)?;
        let time = Nanos::from(clock.elapsed());
        sum = sum.saturating_add(time);
        times.push(time);
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function whose time is a number of rounds of work.
    fn work(rounds: u32) {
        let mut value = 1u64;
        for round in 0..u64::from(rounds) * 2_000 {
            value = std::hint::black_box(value.wrapping_mul(31) ^ round);
        }
    }

    #[test]
    fn sizes_are_found_and_measured() {
        let target = FunctionTarget {
            cell: "mine".into(),
            batches: Vec::new(),
            inputs: Vec::new(),
            largest: 32,
            repeats: 2,
        };
        let mut run = |(batch, _): FunctionSize| {
            work(8 * batch.div_ceil(8));
            Ok(())
        };
        let report = target
            .measure(&mut run, &AtomicBool::new(false), &|_| ())
            .unwrap();
        let sizes: Vec<&str> = report
            .costs
            .lines()
            .skip(1)
            .filter_map(|line| line.split(',').nth(1))
            .collect();
        for size in ["1", "8", "16", "32"] {
            assert!(sizes.contains(&size), "{sizes:?}");
        }
        assert!(report.costs.starts_with("cell,batch,ns,stddev_ns\nmine,1,"));
        assert!(report.noise.lines().count() > 2 * sizes.len());
    }
}
