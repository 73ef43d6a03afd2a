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
//! - **whole**: the same for steps inside of tasks of whole requests (`CELL.whole`, `CELL.whole.switch`), as padded, merged and
//!   immediate batching submit them, and what such a task takes beside its steps.
//! - **persistent**: on GPUs with persistent kernels, a step inside of a launch of several (`CELL.persistent`), and what the launch takes beside its
//!   steps (`CELL.persistent.launch`).
//! - Operators of **networks that a file lists**, in tasks of whole requests, whose steps they are: at each batch size and, where they depend
//!   on it, number of tokens.
//! - **task**: from the finish of a task to the start of the next that waits behind it.
//! - **launch**: from the finish of a task with nothing behind it to the start of the one that the policy decides upon.
//!
//! A GPU's tasks have the times at which the host sees them, which it does when it looks: it does not while it submits. So
//! flights are longer there, what ended while they were submitted does not count, and what a task that finds the GPU idle
//! waits for its first kernel is part of the launch.
//!
//! Batch sizes take turns over the repeats, up and down, so that a machine that warms up or slows down does so for all of
//! them. Values are medians, and spreads come from quartiles, so that a pause of the machine counts for one task. What a
//! machine takes for itself is in the mean of a run all the same: the cells' medians are multiplied by one ratio of means to
//! medians, that of all their samples together ([`Profile::mean_over_median`]).

mod flights;
pub mod grid;
mod launch;
mod listed;
mod made;
mod persistent;
mod report;
mod samples;
mod served;
mod supply;
mod trees;
mod wanted;
mod whole;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use self::launch::Launch;
pub use self::made::{Made, make};
pub use self::persistent::Launches;
use self::persistent::STEPS;
pub use self::samples::{LeaveOneOut, Samples};
pub use self::wanted::{Wanted, cells_of, measured};
pub use self::whole::{StepCost, Whole};
use crate::backend::cuda::Options;
use crate::cost::grnn;
use crate::error::{Error, Result};
use crate::experiment::engine::{Engine, Running};
use crate::experiment::target::Processor;
use crate::gpu_settings::Settings as GpuSettings;
use crate::units::{CellId, Nanos};
use crate::workload::model::Model;
use crate::workload::shape::Shape;
use crate::workload::trace::Requests;

/// A network that is ready to be measured.
pub struct Subject<'a> {
    /// What to measure of it.
    pub wanted: &'a Wanted,
    /// How to measure it.
    pub settings: &'a Settings,
    /// Set once the user wants it to end.
    pub stop: &'a AtomicBool,
    /// The network on its device.
    pub engine: &'a mut Engine,
}

impl Subject<'_> {
    /// Starts the device for some requests, in batches of up to `largest`.
    fn start(&mut self, requests: &Requests, largest: u32) -> Result<Box<dyn Running + '_>> {
        let cells = 0..self.wanted.model.cell_types().len() as u16;
        let materialise = cells.map(|cell| (CellId(cell), largest)).collect();
        self.engine.start(requests, &Options { materialise, ..Options::default() })
    }
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
    /// What computes.
    pub processor: Processor,
    /// How it computes, if it is a GPU.
    pub gpu: GpuSettings,
    /// What GRNN's model knows of it, if its persistent kernels are measured too.
    pub persistent: Option<grnn::Device>,
}

impl Settings {
    fn largest(&self) -> u32 {
        self.batches.iter().max().copied().unwrap_or(1)
    }
}

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
    /// Tasks of whole requests.
    pub whole: Whole,
    /// Launches of persistent kernels, by the cell's name and by batch.
    pub persistent: BTreeMap<String, BTreeMap<u32, Launches>>,
}

impl Profile {
    /// By how much the mean of a task or step is above the median of those like it, over the samples of all cells; 1 or more.
    pub fn mean_over_median(&self) -> f64 {
        let cells = self.cells.values().flat_map(BTreeMap::values);
        let launches = self.persistent.values().flat_map(BTreeMap::values).flat_map(Launches::samples);
        samples::mean_over_median(cells.chain(self.whole.samples()).chain(launches))
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
pub fn measure(subject: &mut Subject<'_>, progress: &dyn Fn()) -> Result<Profile> {
    let Subject { wanted, settings, stop, .. } = *subject;
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
        if wanted.model.takes_trees() {
            trees::measure(subject, &batches, &mut profile, &go_on)?;
        }
        if wanted.model.network().is_some() {
            listed::measure(subject, &batches, &mut profile, &go_on)?;
            continue;
        }
        for bench in supply::benches(wanted) {
            flights::measure(&bench, subject, &batches, &mut profile, &go_on)?;
        }
        if settings.persistent.is_some() {
            persistent::measure(subject, &batches, &mut profile, &go_on)?;
        }
        for requests in whole::sizes(wanted, settings) {
            whole::measure(subject, requests, &mut profile.whole)?;
            go_on()?;
        }
        for batch in launch::batches(settings) {
            let steps = launch::Steps::of(&profile, &wanted.model);
            let sizes = profile.launches.entry(batch).or_default();
            launch::measure(subject, batch, &steps, sizes)?;
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
