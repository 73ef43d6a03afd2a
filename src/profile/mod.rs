//! Measuring what tasks cost on a device that computes, as the cost table that the simulator reads.
//!
//! Tasks run through the real backend, in the order and the form in which policies submit them:
//!
//! - A **cell** at a batch size: tasks that follow each other with the same members, as in the middle of a batch; from
//!   start to finish. Cells whose members are others each time (those of trees and feed-forward networks) have to bring
//!   their states together in every task, and that is part of their time. Those of trees run in the tasks that the policy
//!   makes of whole trees, because it matters where the states of a node's children are.
//! - **gather**: by how much a task is longer if its members are not those of the task before.
//! - **switch**: by how much a step is longer directly behind one of another cell on its worker: the weights of two cells
//!   rarely fit a core's own cache, and states go back to their requests.
//! - **task**: from the finish of a task to the start of the next that waits behind it.
//! - **launch**: from the finish of a task with nothing behind it to the start of the one that the policy decides upon.
//!
//! Batch sizes take turns over the repeats, up and down, so that a machine that warms up or slows down does so for all of
//! them. Values are medians, and spreads come from quartiles, so that a pause of the machine counts for one task. What a
//! machine takes for itself is in the mean of a run all the same: the cells' medians are multiplied by one ratio of means to
//! medians, that of all their samples together ([`Profile::mean_over_median`]).

mod flights;
mod launch;
mod made;
mod report;
mod samples;
mod served;
mod supply;
mod trees;
mod wanted;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use self::launch::Launch;
pub use self::made::{Made, on_cpu};
pub use self::samples::{LeaveOneOut, Samples};
pub use self::wanted::{Wanted, cells_of};
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::units::{CellId, Nanos};
use crate::workload::model::Model;
use crate::workload::shape::Shape;
use crate::workload::trace::Requests;

/// A device on which a network is ready: starts its workers for some requests.
pub type Start<'a> = dyn Fn(&Requests) -> Result<Box<dyn Backend>> + 'a;

/// A network that is ready to be measured.
pub struct Subject<'a> {
    /// What to measure of it.
    pub wanted: &'a Wanted,
    /// Starts its device.
    pub start: &'a Start<'a>,
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The batch sizes, ascending.
    pub batches: Vec<u32>,
    /// How often all of them are measured.
    pub repeats: u32,
    /// How many workers are busy at the same time.
    pub workers: usize,
}

/// The batch sizes that are measured unless others are asked for. The product's kernel takes six rows at a time, so that a step's
/// time climbs in stairs: up to 24 every size is measured, up to 64 both sides of each step, and above a step is a few percent.
pub const BATCHES: [u32; 53] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 27, 30, 31, 33, 36, 37,
    39, 42, 43, 48, 49, 54, 55, 60, 61, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512,
];

/// What was measured of one network. Samples are in nanoseconds.
#[derive(Debug, Default)]
pub struct Profile {
    /// A step of each cell, by the cell's name and the size of its input (0 if it has none), and by batch.
    pub cells: BTreeMap<(String, u32), BTreeMap<u32, Samples>>,
    /// The same steps with members that change, by the cell's name and by batch; empty for networks whose members always
    /// do. The gather is the difference.
    pub exchanged: BTreeMap<String, BTreeMap<u32, Samples>>,
    /// A step directly behind one of another cell, by the cell's name and by batch; empty for networks of one cell, and for
    /// trees, whose steps were measured as they come.
    pub turns: BTreeMap<String, BTreeMap<u32, Samples>>,
    /// From one task to the next, by batch.
    pub between: BTreeMap<u32, Samples>,
    /// From one task to the decision upon it and the next, by batch.
    pub launches: BTreeMap<u32, Launch>,
}

impl Profile {
    /// By how much the mean of a task is above the median of those like it, over the samples of all cells; 1 or more.
    pub fn mean_over_median(&self) -> f64 {
        samples::mean_over_median(self.cells.values().flat_map(BTreeMap::values))
    }

    /// How much longer a step of a cell is behind one of another cell, with the spread of the difference.
    fn switch(&self, cell: &str, batch: u32, behind_other: &Samples) -> (Nanos, f64) {
        longer(behind_other, &self.cells[&(cell.to_string(), 0)][&batch])
    }

    /// What it costs to bring states together, by batch: the mean over the cells.
    fn gathers(&self) -> BTreeMap<u32, (Nanos, f64)> {
        let mut by_batch: BTreeMap<u32, Vec<(Nanos, f64)>> = BTreeMap::new();
        for (cell, batches) in &self.exchanged {
            for (batch, steps) in batches {
                by_batch.entry(*batch).or_default().push(longer(steps, &self.cells[&(cell.clone(), 0)][batch]));
            }
        }
        let mean = |found: Vec<(Nanos, f64)>| {
            let cells = found.len() as u64;
            let (time, spread) =
                found.iter().fold((0, 0f64), |(time, spread), one| (time + one.0.0, spread.hypot(one.1)));
            (Nanos(time / cells), spread / cells as f64)
        };
        by_batch.into_iter().map(|(batch, found)| (batch, mean(found))).collect()
    }
}

/// By how much the median of some steps is above that of others, with the spread of the difference.
fn longer(steps: &Samples, others: &Samples) -> (Nanos, f64) {
    (steps.median().saturating_since(others.median()), steps.deviation().hypot(others.deviation()))
}

/// Measures one network. Calls `progress` [`Wanted::steps`] times.
///
/// # Errors
/// A device that can't be started, a task that failed, [`Error::Interrupted`] once `stop` is set.
pub fn measure(subject: &Subject<'_>, settings: &Settings, stop: &AtomicBool, progress: &dyn Fn()) -> Result<Profile> {
    let mut profile = Profile::default();
    let go_on = || {
        progress();
        if stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    };
    for repeat in 0..settings.repeats {
        let mut batches = settings.batches.clone();
        if repeat % 2 == 1 {
            batches.reverse();
        }
        if subject.wanted.model.takes_trees() {
            trees::measure(subject, settings, &batches, stop, &mut profile, &go_on)?;
        }
        for bench in supply::benches(subject.wanted) {
            flights::measure(&bench, subject, settings, &batches, &mut profile, &go_on)?;
        }
        for batch in launch::batches(settings) {
            let sizes = profile.launches.entry(batch).or_default();
            launch::measure(subject, settings.workers, batch, stop, sizes)?;
            go_on()?;
        }
    }
    Ok(profile)
}

/// The id of one of a model's cells.
fn id_of(model: &Model, cell: &str) -> CellId {
    let place = model.cell_types().iter().position(|known| known.name == cell);
    CellId(place.expect("the cells to measure are the model's") as u16)
}

/// Requests of these shapes.
fn unfolded(shapes: Vec<Shape>, model: &Model) -> Result<Requests> {
    Requests::unfold(Arc::from(shapes), model).map_err(Error::input)
}
