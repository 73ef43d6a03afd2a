//! Measures the costs of tasks on a real device, as the cost table that the simulator reads.
//!
//! Tasks run through the real backend, in the order and the form in which policies submit them. There are two protocols:
//! [`steady`], trains of tasks that run back to back, and [`served`], requests that the real driver serves with a real policy.
//! Rows of the table:
//!
//! - A **cell** at a batch size: tasks with the same members, as in the middle of a batch, from start to finish. The members of
//!   trees and feed-forward networks change every time, so that their times include the gather. Cells of trees run in the tasks of
//!   whole trees, because it matters where the states of a node's children are.
//! - **gather**: the additional time of a task whose members are not those of the task before.
//! - **switch**: the additional time of a step directly after one of another cell on its worker: the weights of two cells
//!   rarely fit into a core's own cache, and states are scattered.
//! - **whole**: the same for steps in tasks of whole requests (`CELL.whole`, `CELL.whole.switch`), as padded, merged and
//!   immediate batching submit them, and the time of such a task beside its steps.
//! - **persistent**: on GPUs with persistent kernels, a step of a launch of several (`CELL.persistent`), and the time of the
//!   launch beside its steps (`CELL.persistent.launch`).
//! - Operators of **listed networks**, in tasks of whole requests: at each batch size and, where they depend on it, number of
//!   tokens.
//! - **task**: from the finish of a task to the start of the next in the queue.
//! - **launch**: from the finish of a task with an empty queue to the start of the task that the policy then decides upon.
//!
//! A GPU's tasks have the times at which the host sees them. It does not look while it submits. So trains are longer there, tasks
//! that ended during the submission do not count, and an idle GPU's delay before its first kernel is part of the launch.
//!
//! Batch sizes take turns over the repeats, up and down, so that a machine that warms up or slows down affects all of them. Values
//! are medians, and deviations come from quartiles, so that a pause of the machine affects one task. The mean of a run includes
//! such pauses: the cells' medians are multiplied by one ratio, that of the mean to the median of all their samples
//! ([`Profile::mean_over_median`]).

mod report;
mod samples;
mod served;
mod steady;
mod wanted;
mod whole;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

pub use self::report::{Made, make};
use self::samples::{ByBatch, ByCell, Cost, Launches, longer};
use self::served::Launch;
pub use self::wanted::{Wanted, batches_of, cells_of, measured};
use self::whole::Whole;
use crate::backend::Backend;
use crate::backend::cpu::StepTime;
use crate::backend::cuda::Options;
use crate::cost::grnn;
use crate::error::{Error, Result};
use crate::experiment::executor::{Executor, Loaded};
use crate::gpu_settings::Settings as GpuSettings;
use crate::units::{CellId, Nanos};
use crate::workload::model::Model;
use crate::workload::shape::Shape;
use crate::workload::trace::Requests;

/// A network that is ready to be measured.
struct Subject<'a> {
    wanted: &'a Wanted,
    settings: &'a Settings,
    /// Set once the user wants to stop.
    stop: &'a AtomicBool,
    engine: &'a mut dyn Loaded,
}

impl Subject<'_> {
    /// Starts the device for these requests. Batches of up to `largest` are made ready before. The steps of tasks of whole requests
    /// are logged where the device can time them.
    fn start(&mut self, requests: &Requests, largest: u32) -> Result<(Box<dyn Backend + '_>, Receiver<StepTime>)> {
        let cells = 0..self.wanted.model.cell_types().len() as u16;
        let materialise = cells.map(|cell| (CellId(cell), largest)).collect();
        let (log, steps) = channel();
        let backend = self.engine.start(requests, &Options { materialise, ..Options::default() }, Some(log))?;
        Ok((backend, steps))
    }

    /// Whether task times are those at which the host observed them.
    fn host_observed_times(&self) -> bool {
        self.settings.executor.abilities().host_observed_times
    }
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The batch sizes, ascending.
    pub batches: Vec<u32>,
    /// How often each batch size is measured.
    pub repeats: u32,
    /// The workers that are busy at the same time.
    pub workers: usize,
    pub executor: &'static dyn Executor,
    pub gpu: GpuSettings,
    /// The device for whose model persistent kernels are chosen, if they are measured too.
    pub persistent: Option<grnn::Device>,
}

impl Settings {
    fn largest(&self) -> u32 {
        self.batches.iter().max().copied().unwrap_or(1)
    }
}

/// The measurements of one network.
#[derive(Debug, Default)]
struct Profile {
    /// Steps of each cell.
    cells: ByCell,
    /// The same steps with members that change; empty for networks whose members always do. The gather is the difference.
    exchanged: ByCell,
    /// Steps directly after one of another cell; empty for networks of one cell.
    turns: ByCell,
    /// From each task to the next in the queue.
    between: ByBatch,
    /// From each task to the next that is decided upon after it.
    launches: BTreeMap<u32, Launch>,
    whole: Whole,
    /// By the cell's name.
    persistent: BTreeMap<String, BTreeMap<u32, Launches>>,
}

impl Profile {
    /// How far the mean of a task or step is above the median of its kind, over the samples of all cells; 1 or more.
    fn mean_over_median(&self) -> f64 {
        let cells = self.cells.values().flat_map(BTreeMap::values);
        let launches = self.persistent.values().flat_map(BTreeMap::values).flat_map(|launches| &launches.0);
        samples::mean_over_median(cells.chain(self.whole.samples()).chain(launches))
    }

    /// The additional time of a cell's steps after another cell, by batch.
    fn switches(&self, cell: &str, turns: &ByBatch) -> BTreeMap<u32, Cost> {
        let own = &self.cells[&(cell.to_string(), 0)];
        turns.iter().map(|(batch, turns)| (*batch, longer(turns, &own[batch]))).collect()
    }

    /// The time of a gather by batch: the mean over the cells.
    fn gathers(&self) -> BTreeMap<u32, Cost> {
        let mut by_batch: BTreeMap<u32, Vec<Cost>> = BTreeMap::new();
        for (cell, batches) in &self.exchanged {
            for (batch, steps) in batches {
                by_batch.entry(*batch).or_default().push(longer(steps, &self.cells[cell][batch]));
            }
        }
        let mean = |found: Vec<Cost>| {
            let (time, spread) =
                found.iter().fold((0, 0f64), |(time, spread), one| (time + one.0.0, spread.hypot(one.1)));
            (Nanos(time / found.len() as u64), spread / found.len() as f64)
        };
        by_batch.into_iter().map(|(batch, found)| (batch, mean(found))).collect()
    }
}

/// Measures one network. Calls `progress` [`Wanted::steps`] times.
fn measure(subject: &mut Subject<'_>, progress: &dyn Fn()) -> Result<Profile> {
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
            served::measure_trees(subject, &batches, &mut profile, &go_on)?;
        }
        if wanted.model.network().is_some() {
            whole::measure_listed(subject, &batches, &mut profile, &go_on)?;
            continue;
        }
        for bench in steady::benches(wanted) {
            steady::measure(&bench, subject, &batches, &mut profile, &go_on)?;
        }
        if settings.persistent.is_some() {
            steady::measure_persistent(subject, &batches, &mut profile, &go_on)?;
        }
        for requests in whole::sizes(wanted, settings) {
            whole::measure(subject, requests, &mut profile.whole)?;
            go_on()?;
        }
        for batch in served::launch_batches(settings) {
            served::measure_launch(subject, batch, &mut profile)?;
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

fn unfolded(shapes: Vec<Shape>, model: &Model) -> Result<Requests> {
    Requests::unfold(Arc::from(shapes), model).map_err(Error::input)
}
