//! Measures the costs of tasks on a real device, as the simulator's cost table. Two protocols submit tasks as policies
//! do: `steady`, trains of tasks back to back, and `service`, requests under a real policy. The rows of the table:
//!
//! - A **cell**: a task with the members of the task before, from start to finish. Trees and feed-forward networks
//!   always change members, so their times include the gather.
//! - **gather**: the additional time if a twentieth of the members, and at least one, is exchanged.
//! - **switch**: the additional time of a step after one of another cell, whose weights fill the caches.
//! - **whole**: steps in tasks of whole requests (`CELL.whole`, `CELL.whole.switch`), and the time of such a task
//!   outside its steps.
//! - **persistent**: a step in a persistent kernel (`CELL.persistent`), and the launch (`CELL.persistent.launch`).
//! - **demand**: the share of the device that a step uses, from steps on several streams at once (`streams`).
//! - Operators of **listed networks**, in tasks of whole requests.
//! - **whole.shrink**, **whole.grow**, **whole.host**: what levels of whole requests cost on a GPU beside their steps, and
//!   the host's time to queue them (`levels`).
//! - **task**: from the finish of a task to the start of the next in the queue.
//! - **launch**: from the finish of a task with an empty queue to the start of the task decided upon then. On GPUs, also
//!   with exchanged members (**launch.gather**) and several tasks of a decision (**launch.further**).
//!
//! The batch sizes are those between which times are nearly straight lines ([`stairs`]).
//!
//! Beside the table is the record of noise: the times of all tasks, and how late tasks start on idle workers (`starts`).
//!
//! A GPU's task times are those that the host sees, and it does not look while it submits. So trains are longer there,
//! tasks that ended during the submission do not count, and the launch includes an idle GPU's delay.
//!
//! `blocks` of sizes in a random order, and a fit of the costs of sizes and the slowness of blocks (`samples`),
//! keep disturbances of a second and drifts out of the table. Values are medians and deviations come from quartiles, so
//! that a pause affects one task. The mean of a run includes pauses, so cells' medians are multiplied by
//! `samples::mean_over_median`.

mod blocks;
mod decisions;
pub mod function;
mod levels;
mod report;
mod samples;
mod service;
pub mod stairs;
mod starts;
mod steady;
mod streams;
mod targets;
mod whole;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

use self::blocks::SizeBlock;
use self::decisions::DecisionTime;
use self::levels::LevelTask;
pub use self::report::{ProfileReport, Session};
use self::samples::{
    CellTimes, ProfileClock, SamplesByBatch, Slowness, TaskKind, TimeSamples, TimedTask,
    mean_over_median,
};
use self::stairs::{Miss, TableSizes};
use self::starts::Starts;
pub use self::targets::{ProfileTarget, cells_of, measured_model};
use self::whole::TaskTime;
use crate::base::error::{Error, Result};
use crate::base::memory::require;
use crate::base::precision::Precision;
use crate::base::step_kernels::StepKernels;
use crate::base::units::CellId;
use crate::core::backend::Backend;
use crate::core::cost::grnn;
use crate::core::cost::noise::MeasuredTask;
use crate::core::record::execution::Decisions;
use crate::core::workload::model::Model;
use crate::core::workload::shape::Shape;
use crate::core::workload::trace::Requests;
use crate::devices::cpu::StepTime;
use crate::lab::run::executor::{Executor, Loaded, Preparation};

/// A network that is being measured.
struct ProfileSubject<'a> {
    wanted: &'a ProfileTarget,
    settings: &'a ProfileSettings,
    steps: ProfileSteps<'a>,
    engine: &'a mut dyn Loaded,
    now: &'a ProfileClock,
}

/// What a profile reports of its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileProgress {
    /// The sizes of a network are known, and with them the number of steps to measure.
    Planned(usize),
    /// A step is measured.
    Measured,
}

/// The steps of a measurement. Each is counted, and an interruption ends the measurement between two of them.
#[derive(Clone, Copy)]
struct ProfileSteps<'a> {
    stop: &'a AtomicBool,
    progress: &'a dyn Fn(ProfileProgress),
}

impl ProfileSteps<'_> {
    /// Counts a step. Fails if the user has interrupted the measurement.
    fn count(&self) -> Result<()> {
        (self.progress)(ProfileProgress::Measured);
        if self.stop.load(Ordering::Relaxed) {
            Err(Error::Interrupted)
        } else {
            Ok(())
        }
    }
}

impl ProfileSubject<'_> {
    /// Starts a backend that logs the steps of tasks of whole requests, where the device can time them.
    fn start(
        &mut self,
        requests: &Requests,
        largest: u32,
    ) -> Result<(Box<dyn Backend + '_>, Receiver<StepTime>)> {
        let preparation = self.preparation(largest)?;
        self.start_with(requests, &preparation)
    }

    /// The preparation for batches of up to `largest`. If the scenario lists its batch sizes, no others are prepared.
    fn preparation(&self, largest: u32) -> Result<Preparation> {
        // Each member has states and gates.
        let bytes = u128::from(largest)
            * u128::from(self.wanted.spec.hidden)
            * 8
            * size_of::<f32>() as u128;
        require(
            bytes,
            format_args!("--batches {largest}"),
            "measure smaller ones",
        )?;
        let cells = 0..self.wanted.model.cell_types().len() as u16;
        let largest_batches = cells.map(|cell| (CellId(cell), largest)).collect();
        Ok(Preparation {
            largest_batches,
            batch_sizes: self.wanted.supported.clone(),
            ..Preparation::default()
        })
    }

    /// Starts a backend after this preparation.
    fn start_with(
        &mut self,
        requests: &Requests,
        preparation: &Preparation,
    ) -> Result<(Box<dyn Backend + '_>, Receiver<StepTime>)> {
        let (log, steps) = channel();
        let backend = self.engine.start(requests, preparation, Some(log))?;
        Ok((backend, steps))
    }

    /// Whether task times are those at which the host observed them.
    fn host_observed_times(&self) -> bool {
        self.settings.executor.abilities().host_observed_times
    }
}

/// The settings of a profile: what is measured, and on which device.
#[derive(Clone, Debug)]
pub struct ProfileSettings {
    /// The batch sizes, ascending, or `None` for those that the network and its times need.
    pub batches: Option<Vec<u32>>,
    pub repeats: u32,
    /// The seconds that each network should take, infinite for as many as it needs. If they are short, the search for
    /// batch sizes ends early, no sizes check the table, and doubtful sizes are not visited again.
    pub seconds: f64,
    pub workers: usize,
    pub executor: &'static dyn Executor,
    pub precision: Precision,
    pub step_kernels: StepKernels,
    /// The device whose model chooses persistent kernels, if they are measured too.
    pub persistent: Option<grnn::DataSheet>,
}

/// The measurements of a network.
#[derive(Debug, Default)]
struct NetworkProfile {
    sizes: TableSizes,
    times: CellTimes,
    /// The times from the finish of a task to the start of the next.
    between: SamplesByBatch,
    launches: SamplesByBatch,
    /// The policy's decisions, whose time is a part of the launches.
    decisions: BTreeMap<u32, Vec<Decisions>>,
    /// The tasks of whole requests.
    whole: Vec<TaskTime>,
    /// The tasks of whole requests on a GPU, whose steps only the host times.
    levels: Vec<LevelTask>,
    /// The decisions on a GPU of which members are exchanged.
    decided: Vec<DecisionTime>,
    slowness: Slowness,
    mean_over_median: f64,
    /// The starts of tasks on idle workers, for the noise.
    starts: Starts,
    /// The blocks that further pieces will measure, and the number of the repeat to which they belong.
    left: (Vec<SizeBlock>, u32),
    /// The sizes that were visited again.
    again: BTreeSet<u32>,
}

impl NetworkProfile {
    /// The samples of tasks and steps with their batch sizes.
    fn samples_by_batch(&mut self) -> impl Iterator<Item = (u32, &mut TimeSamples)> {
        self.times
            .0
            .values_mut()
            .flatten()
            .map(|(batch, samples)| (*batch, samples))
    }

    /// The samples of tasks that had their worker for themselves, with their batch sizes.
    fn timed_alone(&mut self) -> impl Iterator<Item = (u32, &mut TimeSamples)> {
        let alone = self
            .times
            .0
            .iter_mut()
            .filter(|((kind, ..), _)| !matches!(kind, TaskKind::Streams(_)));
        alone
            .flat_map(|(_, sizes)| sizes)
            .map(|(batch, samples)| (*batch, samples))
    }

    /// Separates the costs of tasks from the slowness of blocks.
    fn level(&mut self) {
        let slowness = Slowness::fit(self.samples_by_batch().map(|(_, samples)| &*samples));
        for (_, samples) in self.samples_by_batch() {
            samples.level(&slowness);
        }
        self.slowness = slowness;
        self.mean_over_median = mean_over_median(self.timed_alone().map(|(_, samples)| &*samples));
    }

    /// The largest certain miss of the lines through the ends of an interval at its middle, over all cells that a block
    /// has visited at these sizes.
    fn miss_in(&self, block: u32, probe: [u32; 3]) -> Miss {
        let mut largest = Miss::default();
        for ((kind, ..), sizes) in &self.times.0 {
            let points = probe.map(|size| {
                let (time, error) = sizes.get(&size)?.visit_in(block)?;
                Some((size, time, error))
            });
            if let [Some(from), Some(middle), Some(to)] = points
                && samples::TASKS.contains(kind)
            {
                largest = largest.or(Miss::from_line([from, middle, to]));
            }
        }
        largest
    }

    /// The time of each cell by batch size, for each size of its inputs. The operators of a listed network count
    /// together, because a task runs all of them.
    fn curves(&self, together: bool) -> Vec<(String, BTreeMap<u32, f64>)> {
        let cells: BTreeSet<(&String, u32)> = self
            .times
            .0
            .keys()
            .map(|(_, cell, input)| (cell, *input))
            .collect();
        let mut curves: Vec<(String, BTreeMap<u32, f64>)> = Vec::new();
        for (cell, input) in cells {
            let own = self.times.steady_costs(samples::TASKS, cell, input);
            let times = own.iter().map(|(batch, (time, _))| (*batch, time.0 as f64));
            match curves.first_mut() {
                Some((name, sum)) if together => {
                    *name = "all operators".into();
                    sum.retain(|batch, _| own.contains_key(batch));
                    for (batch, time) in times {
                        sum.entry(batch).and_modify(|all| *all += time);
                    }
                }
                _ => curves.push((cell.clone(), times.collect())),
            }
        }
        curves.retain(|(_, times)| !times.is_empty());
        curves
    }

    /// The batch sizes of the tasks, and their times compared with the table.
    fn noise(&mut self) -> Vec<(u32, MeasuredTask)> {
        let ratio = self.mean_over_median;
        let mut factors = Vec::new();
        for (batch, samples) in self.timed_alone() {
            let cost = (samples.median().0 as f64 * ratio).max(1.0);
            for &TimedTask { at, time, .. } in samples.visits().flatten() {
                let factor = time.0.max(1) as f64 / cost;
                factors.push((
                    batch,
                    MeasuredTask {
                        at,
                        took: time,
                        factor,
                    },
                ));
            }
        }
        factors.sort_by_key(|(_, one)| one.at);
        factors
    }
}

/// The cell type of this name.
fn id_of(model: &Model, cell: &str) -> CellId {
    let place = model
        .cell_types()
        .iter()
        .position(|known| known.name == cell);
    CellId(place.expect("the cells to measure are the model's") as u16)
}

/// Requests of these shapes.
fn build_requests(shapes: Vec<Shape>, model: &Model) -> Result<Requests> {
    Requests::unfold(shapes.into(), model).map_err(Error::input)
}

#[cfg(test)]
mod tests;
