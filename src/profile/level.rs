//! Separates the costs of batch sizes from what slows a machine for a while: a two-way fit by medians of logarithms
//! (Tukey's median polish), in which each measured time is a cost times the slowness of its block.

use std::collections::{BTreeMap, BTreeSet};

use statrs::statistics::{Data, Median as _};

use super::samples::{ByBatch, Samples, Timed, median_of};

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
        let sizes: Vec<Vec<(u32, f64)>> = sizes.map(visits).filter(|visits| visits.len() > 1).collect();
        let mut slow: BTreeMap<u32, f64> = BTreeMap::new();
        for _ in 0..ITERATIONS {
            let mut residuals: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
            for visits in &sizes {
                let cost = median(visits.iter().map(|(block, log)| log - slow.get(block).unwrap_or(&0.0)));
                visits.iter().for_each(|(block, log)| residuals.entry(*block).or_default().push(log - cost));
            }
            residuals.retain(|_, found| found.len() >= LEAST_VISITS);
            slow = residuals.into_iter().map(|(block, found)| (block, median(found))).collect();
            let typical = median(slow.values().copied());
            slow.values_mut().for_each(|log| *log -= typical);
        }
        Slowness(slow.into_iter().map(|(block, log)| (block, log.exp())).collect())
    }

    pub fn of(&self, block: u32) -> f64 {
        self.0.get(&block).copied().unwrap_or(1.0)
    }

    /// Sizes whose visits scatter far more than those of others, and pairs of neighbours of which the larger takes less
    /// time, by more than they scatter.
    pub fn doubtful(&self, sizes: &ByBatch) -> BTreeSet<u32> {
        /// As a share of the time.
        const NEGLIGIBLE: f64 = 0.01;
        let found: Vec<Estimate> = sizes.iter().map(|(batch, samples)| self.estimate(*batch, samples)).collect();
        let scatter = NEGLIGIBLE.max(2.0 * median(found.iter().map(|size| size.error)));
        let scattered = found.iter().filter(|size| size.error > scatter);
        let falls =
            |pair: &&[Estimate]| pair[0].log - pair[1].log > NEGLIGIBLE.max(2.0 * pair[0].error.hypot(pair[1].error));
        let falling = found.windows(2).filter(falls).flatten();
        scattered.chain(falling).map(|size| size.batch).collect()
    }

    fn estimate(&self, batch: u32, samples: &Samples) -> Estimate {
        /// Of a normal distribution, its deviation over the mean distance; and a median's error over that of a mean.
        const NORMAL: f64 = 1.2533;
        let logs: Vec<f64> = visits(samples).into_iter().map(|(block, log)| log - self.of(block).ln()).collect();
        let log = median(logs.iter().copied());
        let distances: f64 = logs.iter().map(|one| (one - log).abs()).sum();
        Estimate { batch, log, error: NORMAL * NORMAL * distances / (logs.len() as f64).powf(1.5) }
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
    samples.visits().map(|visit: &[Timed]| (visit[0].block, median_of(visit).max(1.0).ln())).collect()
}

/// The mean of two in the middle.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    Data::new(values.into_iter().collect::<Vec<_>>()).median()
}
