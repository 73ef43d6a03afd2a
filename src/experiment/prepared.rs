//! A scenario with everything at hand that its runs need: devices, dataset, requests.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};

use super::Run;
use crate::backend::Backend;
use crate::backend::sim::Sim;
use crate::cost::table::{CostTable, TableModel};
use crate::driver::drive;
use crate::error::{Context as _, Error, Result};
use crate::metrics::extrapolation::Extrapolation;
use crate::metrics::laws;
use crate::metrics::recorder::{Keep, Recorder};
use crate::metrics::summary::Measure;
use crate::metrics::warmup::Warmup;
use crate::policy::Policy;
use crate::policy::registry::Setup;
use crate::scenario::{self, ArrivalSpec, Load, LoadPoint, Scenario};
use crate::units::{CellId, Nanos};
use crate::workload::arrivals::{ClosedLoop, OpenLoop, Source, within_the_clock};
use crate::workload::dataset::Dataset;
use crate::workload::model::CellType;
use crate::workload::random;
use crate::workload::trace::{Requests, Trace};

/// A scenario whose files have been read and whose policies fit.
pub struct Prepared<'s> {
    scenario: &'s Scenario,
    cells: Vec<CellType>,
    /// The device as each policy sees it, with its costs and overheads.
    devices: Vec<TableModel>,
    origin: Origin,
    /// The requests of each replication, as long as some run uses them.
    shared: Mutex<Vec<Weak<Requests>>>,
}

/// Where requests come from.
enum Origin {
    Dataset { dataset: Dataset, count: usize, max_length: Option<u32>, arrivals: ArrivalSpec },
    Trace { requests: Arc<Requests>, arrivals: Arc<[Nanos]> },
}

impl<'s> Prepared<'s> {
    /// Reads what the scenario names and tries each policy on it, so that whatever is wrong shows before the first run.
    ///
    /// # Errors
    /// A file that is missing or broken, a cell without costs, a policy that does not fit the model.
    pub fn new(scenario: &'s Scenario) -> Result<Prepared<'s>> {
        let cells = scenario.workload.model.cell_types();
        let devices = scenario
            .policies
            .iter()
            .map(|policy| CostTable::read(&policy.costs)?.device(&cells, policy.overhead))
            .collect::<Result<Vec<TableModel>>>()?;
        let origin = match &scenario.workload.load {
            Load::Drawn { dataset, requests, max_length, arrivals } => Origin::Dataset {
                dataset: Dataset::open(&dataset.path().to_string_lossy(), &scenario.workload.model, &|p| {
                    PathBuf::from(p)
                })?,
                count: *requests as usize,
                max_length: *max_length,
                arrivals: arrivals.clone(),
            },
            Load::Trace { trace, time_scale } => {
                let read = Trace::read(trace)?;
                let read = read.scaled(*time_scale).within("workload.time_scale").within(scenario.file.display())?;
                within_the_clock(&read.arrivals).within(trace.display())?;
                let requests = Requests::unfold(read.shapes, &scenario.workload.model)
                    .map_err(Error::input)
                    .within(trace.display())?;
                Origin::Trace { requests: Arc::new(requests), arrivals: read.arrivals }
            }
        };
        if let Origin::Dataset { dataset, max_length, .. } = &origin {
            // Draws nothing, but tells when nothing is short enough to be drawn.
            let none = dataset.sample(0, *max_length, &mut random::stream(scenario.seed, 0, "shapes"));
            none.within("workload").within(scenario.file.display())?;
        }
        let prepared = Prepared { scenario, cells, devices, origin, shared: Mutex::new(Vec::new()) };
        for policy in 0..scenario.policies.len() {
            prepared.policy(policy)?;
        }
        prepared.check_inputs()?;
        Ok(prepared)
    }

    /// The model's cell types.
    pub fn cells(&self) -> &[CellType] {
        &self.cells
    }

    /// The requests of one replication, drawn when no other run has them at hand.
    ///
    /// # Errors
    /// A dataset none of whose shapes is short enough.
    pub fn requests(&self, replication: u32) -> Result<Arc<Requests>> {
        let (dataset, count, max_length) = match &self.origin {
            Origin::Trace { requests, .. } => return Ok(Arc::clone(requests)),
            Origin::Dataset { dataset, count, max_length, .. } => (dataset, *count, *max_length),
        };
        // Held while drawing, so that runs which begin together draw once.
        let mut shared = self.shared.lock().expect("drawing requests does not panic");
        let slot = replication as usize;
        if shared.len() <= slot {
            shared.resize(slot + 1, Weak::new());
        }
        if let Some(requests) = shared[slot].upgrade() {
            return Ok(requests);
        }
        let mut rng = random::stream(self.scenario.seed, replication, "shapes");
        let shapes = dataset.sample(count, max_length, &mut rng)?;
        let requests = Arc::new(Requests::unfold(shapes, &self.scenario.workload.model).map_err(Error::input)?);
        shared[slot] = Arc::downgrade(&requests);
        Ok(requests)
    }

    /// Simulates one run.
    ///
    /// # Errors
    /// [`Error::Interrupted`] once `stop` is set; a run that does not end before its clock does.
    pub fn simulate(&self, run: &Run, keep: Keep, stop: &AtomicBool) -> Result<Recorder> {
        let mut backend = Sim::new(self.workers(), self.device(run.policy).clone());
        let mut record = self.recorder(run, keep)?;
        self.serve(run, &mut backend, &mut record, stop)?;
        if backend.now() == Nanos::MAX {
            let entry = &self.scenario.policies[run.policy];
            return Err(Error::input(format!(
                "{}: \"{}\" at {} is not done when the clock ends, after {}; are the costs in {} in nanoseconds?",
                self.scenario.file.display(),
                entry.label,
                run.load,
                Nanos::MAX,
                entry.costs.display(),
            )));
        }
        debug_assert_eq!(broken_law(&record), None, "a run breaks a law");
        Ok(record)
    }

    /// The cell types that ran at batch sizes which the policy's cost table does not have.
    pub fn extrapolated(&self, run: &Run, record: &Recorder) -> Vec<Extrapolation> {
        let device = &self.devices[run.policy];
        let counts = (0..).map(CellId).zip(&self.cells).zip(&record.batches);
        counts.filter_map(|((id, cell), counts)| Extrapolation::of(&cell.name, &device.measured(id), counts)).collect()
    }

    /// An empty record for a run.
    ///
    /// # Errors
    /// As [`Prepared::requests`].
    pub fn recorder(&self, run: &Run, keep: Keep) -> Result<Recorder> {
        Ok(Recorder::new(self.requests(run.replication)?.len(), self.workers(), self.cells.len(), keep))
    }

    /// Drives one run on a backend. What happened stands in the record also when the run was stopped.
    ///
    /// # Errors
    /// [`Error::Interrupted`] once `stop` is set.
    pub fn serve(&self, run: &Run, backend: &mut dyn Backend, record: &mut Recorder, stop: &AtomicBool) -> Result<()> {
        let requests = self.requests(run.replication)?;
        let mut policy = self.policy(run.policy)?;
        let mut go = |source: &mut dyn Source| drive(source, &mut *policy, backend, record, self.workers(), stop);
        let stream = |purpose| random::stream(self.scenario.seed, run.replication, purpose);
        match (&self.origin, run.load) {
            (Origin::Trace { arrivals, .. }, _) => go(&mut OpenLoop::new(&requests, arrivals)),
            (Origin::Dataset { arrivals: ArrivalSpec::Closed { think, .. }, .. }, LoadPoint::Clients(clients)) => {
                go(&mut ClosedLoop::new(&requests, clients, *think, &mut stream("think")))
            }
            (Origin::Dataset { arrivals: ArrivalSpec::Open { process, .. }, .. }, load) => {
                let times = process.times(load.rate(), requests.len(), &mut stream("arrivals"));
                within_the_clock(&times).within("arrivals").within(self.scenario.file.display())?;
                go(&mut OpenLoop::new(&requests, &times))
            }
            (Origin::Dataset { .. }, load) => unreachable!("a closed loop has no load {load}"),
        }
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.scenario.device.workers
    }

    /// The device as a policy sees it, with its costs and overheads.
    pub fn device(&self, policy: usize) -> &TableModel {
        &self.devices[policy]
    }

    /// How a run under a load is summed up.
    pub fn measure(&self, load: LoadPoint) -> Measure {
        let settles = matches!(load, LoadPoint::Rate(_) | LoadPoint::Clients(_));
        Measure {
            slo: self.scenario.metrics.slo,
            warmup: match self.scenario.metrics.warmup {
                // A trace, a staircase of rates and a pile of work have no steady state to settle to.
                scenario::Warmup::Auto if settles => Warmup::Mser5,
                scenario::Warmup::Auto | scenario::Warmup::None => Warmup::None,
                scenario::Warmup::Mser5 => Warmup::Mser5,
                scenario::Warmup::Share(share) => Warmup::Share(share),
                scenario::Warmup::Requests(count) => Warmup::Requests(count),
            },
            offered: load.rate(),
        }
    }

    /// Builds a fresh policy of the scenario.
    ///
    /// # Errors
    /// Settings that do not fit the model, which [`Prepared::new`] has tried.
    pub fn policy(&self, index: usize) -> Result<Box<dyn Policy>> {
        let entry = &self.scenario.policies[index];
        let setup =
            Setup { model: &self.scenario.workload.model, cells: &self.cells, workers: self.scenario.device.workers };
        entry.settings.build_policy(&setup).map_err(|error| {
            Error::input(format!("{}: policy[{index}] ({}): {error}", self.scenario.file.display(), entry.label))
        })
    }

    /// A cell whose time depends on the size of its input needs costs for the largest input.
    fn check_inputs(&self) -> Result<()> {
        let Some(cell) = self.cells.iter().find(|cell| cell.sized) else { return Ok(()) };
        let requests = self.requests(0)?;
        let largest = requests.shapes.iter().map(crate::workload::shape::Shape::length).max().unwrap_or(0);
        for policy in &self.scenario.policies {
            let table = CostTable::read(&policy.costs)?;
            if let Some(limit) = table.largest_input(&cell.name).filter(|limit| *limit < largest) {
                return Err(Error::input(format!(
                    "{}: the largest input of \"{}\" is {limit}, but a request has {largest} tokens; \
                     add rows for larger inputs or set workload.max_length = {limit}",
                    policy.costs.display(),
                    cell.name
                )));
            }
        }
        Ok(())
    }
}

/// The law that a finished run breaks, if there is one. Looked for in debug builds, so in every run of every test.
fn broken_law(record: &Recorder) -> Option<String> {
    let left = record.finish.iter().filter(|at| **at != Nanos::MAX).count() as u64 + record.rejected;
    let checks = [
        laws::causality(record),
        if left == record.finish.len() as u64 { laws::littles_law(record) } else { Ok(()) },
        if record.tasks.is_empty() { Ok(()) } else { laws::busy_is_sum_of_tasks(record) },
    ];
    checks.into_iter().find_map(Result::err)
}
