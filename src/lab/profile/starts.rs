//! Starts of tasks on an idle worker, one after another: how late the host starts what could start. After each block of
//! sizes the starts are watched for a while, so that they are spread over the whole profile.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::service::{ServiceRun, WatchedStart, launch_batches, serve_tasks};
use super::{NetworkProfile, ProfileSubject};
use crate::base::error::Result;
use crate::base::units::{CellId, Nanos};
use crate::core::cost::noise::MeasuredStart;

/// The tasks whose starts are alike: their cells, their batch size, and the size of their inputs, which is 0 for cells
/// without sizes.
type StartKind = (SmallVec<[CellId; 2]>, u32, u32);

/// The starts that were watched.
#[derive(Debug, Default)]
pub struct Starts {
    watched: BTreeMap<StartKind, Vec<WatchedStart>>,
    /// The mean time from start to start on one worker in the last window.
    period: Nanos,
}

/// The share of a block's time for which starts are watched after it.
const SHARE: u64 = 4;

/// The batch size of watched tasks, or the next one that is measured: small, so that starts are frequent.
const BATCH: u32 = 16;

/// The fewest and the most tasks of a window.
const TASKS: [u64; 2] = [12, 4096];

/// Watches starts after a block of sizes that took this time. The tasks of listed networks are watched where they are
/// measured.
pub fn watch(
    subject: &mut ProfileSubject<'_>,
    block: Nanos,
    profile: &mut NetworkProfile,
) -> Result<()> {
    if subject.wanted.model.network().is_some() {
        return Ok(());
    }
    let sizes = launch_batches(&profile.sizes.batches);
    let is_enough = |size: &&u32| **size >= BATCH;
    let batch = sizes.iter().find(is_enough).or(sizes.last());
    let [fewest, most] = TASKS;
    let tasks = match profile.starts.period.0 {
        0 => fewest,
        period => (block.0 / SHARE / period).clamp(fewest, most),
    };
    let served = serve_tasks(subject, batch.copied().unwrap_or(1), tasks as usize)?;
    let starts = &mut profile.starts;
    starts.add(&served, 0, subject.host_observed_times());
    if let Some(last) = served.tasks.last() {
        let workers = subject.settings.workers as u64;
        starts.period = Nanos(last.finish.0 * workers / served.tasks.len() as u64);
    }
    Ok(())
}

impl Starts {
    /// Adds the starts of a run whose inputs have this size. `seen` means that the host sees only the ends of tasks.
    pub fn add(&mut self, served: &ServiceRun, input: u32, seen: bool) {
        for (task, start) in served.starts(seen) {
            let kind = (task.cells.clone(), task.batch, input);
            self.watched.entry(kind).or_default().push(start);
        }
    }

    /// The starts with their batch sizes, each compared with the median of its kind.
    pub fn lateness(&self) -> Vec<(u32, MeasuredStart)> {
        let mut found = Vec::new();
        for ((_, batch, _), starts) in &self.watched {
            let mut times: Vec<Nanos> = starts.iter().map(|start| start.took).collect();
            times.sort_unstable();
            let typical = times[(times.len() - 1) / 2];
            for WatchedStart { due, since, took } in starts {
                let measured = MeasuredStart {
                    due: *due,
                    since: *since,
                    late: took.0 as i64 - typical.0 as i64,
                };
                found.push((*batch, measured));
            }
        }
        found
    }
}
