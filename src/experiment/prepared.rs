//! A scenario with everything at hand that its runs need: device, dataset, requests.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};

use super::Run;
use super::device::Device;
use super::target::{Target, Verify};
use super::verify::{self, Answered, Tolerance, Verified};
use crate::backend::Backend;
use crate::backend::cuda;
use crate::backend::sim;
use crate::cost::table::TableModel;
use crate::cost::timing::Timing;
use crate::driver::drive;
use crate::error::{Context as _, Error, Result};
use crate::metrics::bounds::{Bounds, Fastest};
use crate::metrics::extrapolation::Extrapolation;
use crate::metrics::laws;
use crate::metrics::recorder::{Keep, Recorder};
use crate::metrics::summary::Measure;
use crate::metrics::warmup::Warmup;
use crate::policy::Policy;
use crate::policy::admission::Admission;
use crate::policy::registry::{Batches, Setup};
use crate::scenario::known::KnownCosts;
use crate::scenario::{self, ArrivalSpec, Load, LoadPoint, PolicyEntry, Scenario};
use crate::units::{CellId, Nanos, RequestId};
use crate::workload::arrivals::{ClosedLoop, OpenLoop, Source, within_the_clock};
use crate::workload::cell_graph::CellGraph;
use crate::workload::dataset::Dataset;
use crate::workload::model::CellType;
use crate::workload::random;
use crate::workload::trace::{Requests, Trace};

/// A scenario whose files have been read and whose policies fit.
pub struct Prepared<'s> {
    scenario: &'s Scenario,
    target: Target,
    cells: Vec<CellType>,
    /// The names of all that a task's steps can be: the cells, and behind them their operators where a policy runs those.
    steps: Vec<CellType>,
    /// `None` for whoever brings a backend.
    device: Option<Device>,
    /// What each policy knows of costs, which is the same on every target.
    known: Vec<KnownCosts>,
    origin: Origin,
    /// The requests of each replication, as long as some run uses them.
    shared: Mutex<Vec<Weak<Requests>>>,
}

/// What a run left behind.
pub struct Ran {
    /// What happened in it.
    pub record: Recorder,
    /// The user stopped it before it was done.
    pub interrupted: bool,
    /// What requests came to that are to be verified; none in a simulation.
    pub answers: Vec<Answered>,
    requests: Arc<Requests>,
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
    /// A file that is missing or broken, a policy that does not fit the model; for a simulation, a cell without costs; for a
    /// real run, weights or a request that do not fit the network.
    pub fn new(scenario: &'s Scenario, target: Target) -> Result<Prepared<'s>> {
        let device = Device::new(scenario, target, &scenario.workload.model.cell_types())?;
        let prepared = Prepared { device: Some(device), ..Prepared::without_device(scenario, target)? };
        if let Some(device) = &prepared.device {
            device.check(scenario, &prepared.cells, &*prepared.requests(0)?)?;
        }
        Ok(prepared)
    }

    /// Prepares the requests and the policies alone, for whoever serves them on a backend of his own ([`Prepared::serve`]).
    /// They are those that a run on this target has.
    ///
    /// # Errors
    /// A file that is missing or broken, a policy that does not fit the model.
    pub fn without_device(scenario: &'s Scenario, target: Target) -> Result<Prepared<'s>> {
        let cells = scenario.workload.model.cell_types();
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
        let mut steps = cells.clone();
        if let Some(entry) = scenario.policies.iter().find(|entry| entry.settings.runs_operators()) {
            if target.is_real() {
                return Err(Error::input(format!(
                    "{}: policy \"{}\": kind \"{}\" runs operators, which are simulated alone; networks compute whole cells",
                    scenario.file.display(),
                    entry.label,
                    entry.settings.kind()
                )));
            }
            steps.extend(super::device::operators(scenario).types());
        }
        let shared = Mutex::new(Vec::new());
        let (model, sizes) = (&scenario.workload.model, scenario.workload.sizes());
        let known = |entry: &PolicyEntry| {
            KnownCosts::read(entry.costs.as_deref(), &scenario.device, &*entry.settings, model, &sizes)
        };
        let known = scenario.policies.iter().map(known).collect();
        let prepared = Prepared { scenario, target, cells, steps, device: None, known, origin, shared };
        for policy in 0..scenario.policies.len() {
            prepared.policy(policy)?;
        }
        Ok(prepared)
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        self.scenario
    }

    /// What it runs on.
    pub fn target(&self) -> Target {
        self.target
    }

    /// The model's cell types.
    pub fn cells(&self) -> &[CellType] {
        &self.cells
    }

    /// The names of all that a task's steps can be, by their numbers: the model's cell types, and their operators where a policy runs
    /// those.
    pub fn steps(&self) -> &[CellType] {
        &self.steps
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

    /// Carries out one run. Once `stop` is set it ends where it is.
    ///
    /// # Errors
    /// A simulation that does not end before its clock does; a backend that can't be started.
    pub fn execute(&self, run: &Run, keep: Keep, stop: &AtomicBool) -> Result<Ran> {
        let requests = self.requests(self.workload(run))?;
        let mut record = self.recorder(run, keep)?;
        let mut answers = Vec::new();
        let served = match self.device.as_ref().expect("whoever has no device serves on a backend of his own") {
            Device::Simulated(devices) => {
                let mut backend = self.simulated(run.policy, devices[run.policy].clone());
                let served = self.serve(run, &mut *backend, &mut record, stop);
                if backend.now() == Nanos::MAX {
                    return Err(self.never_done(run));
                }
                served
            }
            Device::Real(_, engine) => {
                let mut engine = engine.lock().expect("a run that panics ends the program");
                let choose = |all| verify::chosen(self.verifies(), all, &mut self.stream(run.replication, "verify"));
                let mut options = self.options(run, &requests);
                let before = engine.keeps_some();
                if before {
                    let chosen = choose((0..requests.len() as u32).map(RequestId).collect());
                    options.keep = verify::kept(engine.network(), &requests, chosen);
                }
                let mut running = None;
                let (place, engine, all, chosen) = (&mut running, &mut *engine, &*requests, &options);
                let served = self.serve_once_started(
                    run,
                    move || {
                        let running: &mut dyn Backend = &mut **place.insert(engine.start(all, chosen)?);
                        Ok(running)
                    },
                    &mut record,
                    stop,
                );
                let finished = verify::finished(&record);
                let asked = match before {
                    true => {
                        options.keep.into_iter().filter(|request| finished.binary_search(request).is_ok()).collect()
                    }
                    false => choose(finished),
                };
                let answer = |request| (request, running.as_ref().and_then(|running| running.answer(request)));
                answers.extend(asked.into_iter().map(answer));
                served
            }
        };
        let interrupted = match served {
            Err(Error::Interrupted) => true,
            served => served.map(|()| false)?,
        };
        debug_assert_eq!(broken_law(&record), None, "a run breaks a law");
        Ok(Ran { record, interrupted, answers, requests })
    }

    /// An empty record for a run.
    ///
    /// # Errors
    /// As [`Prepared::requests`].
    pub fn recorder(&self, run: &Run, keep: Keep) -> Result<Recorder> {
        Ok(Recorder::new(self.requests(self.workload(run))?.len(), self.workers(), self.cells.len(), keep))
    }

    /// Drives one run on a backend. What happened stands in the record also when the run was stopped.
    ///
    /// # Errors
    /// [`Error::Interrupted`] once `stop` is set.
    pub fn serve(&self, run: &Run, backend: &mut dyn Backend, record: &mut Recorder, stop: &AtomicBool) -> Result<()> {
        self.serve_once_started(run, || Ok(backend), record, stop)
    }

    /// Drives one run on a backend that is started when all else is ready, since a real clock begins then.
    fn serve_once_started<'b>(
        &self,
        run: &Run,
        start: impl FnOnce() -> Result<&'b mut dyn Backend>,
        record: &mut Recorder,
        stop: &AtomicBool,
    ) -> Result<()> {
        let requests = self.requests(self.workload(run))?;
        let mut policy = self.policy(run.policy)?;
        let go = |source: &mut dyn Source| drive(source, &mut *policy, start()?, record, self.workers(), stop);
        let stream = |purpose| self.stream(self.workload(run), purpose);
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

    /// The replication whose requests and arrivals a run has: its own, or, for all repeats of a real run, the first.
    fn workload(&self, run: &Run) -> u32 {
        if self.target.is_real() { 0 } else { run.replication }
    }

    fn never_done(&self, run: &Run) -> Error {
        let entry = &self.scenario.policies[run.policy];
        let costs = entry.costs.as_ref().map_or(String::new(), |costs| costs.display().to_string());
        Error::input(format!(
            "{}: \"{}\" at {} is not done when the clock ends, after {}; are the costs in {costs} in nanoseconds?",
            self.scenario.file.display(),
            entry.label,
            run.load,
            Nanos::MAX,
        ))
    }

    /// A random stream of a replication.
    fn stream(&self, replication: u32, purpose: &str) -> random::Stream {
        random::stream(self.scenario.seed, replication, purpose)
    }

    /// Which requests of a run are verified.
    fn verifies(&self) -> Verify {
        match self.target {
            Target::Sim => Verify::None,
            Target::Real(_, which) => which,
        }
    }

    /// What a device may make ready for a run before its clock starts.
    fn options(&self, run: &Run, requests: &Requests) -> cuda::Options {
        let batches = self.scenario.policies[run.policy].settings.largest_batches(&self.setup(run.policy));
        let largest = batches.map_or(Vec::new(), |batches| nodes(batches, requests, self.cells.len()));
        cuda::Options {
            keep: Vec::new(),
            materialise: (0..).map(CellId).zip(largest).collect(),
            several_launches: self.runs_several_steps(run.policy),
            streams: self.streams(run.policy),
        }
    }

    /// Whether a policy's tasks run several steps of their members: they are whole requests, or parts of them.
    fn runs_several_steps(&self, policy: usize) -> bool {
        let settings = &self.scenario.policies[policy].settings;
        settings.runs_parts() || matches!(settings.largest_batches(&self.setup(policy)), Some(Batches::Requests(_)))
    }

    /// What no policy of the scenario can beat, on the requests of the first replication; `None` where nothing is simulated.
    ///
    /// # Errors
    /// As [`Prepared::requests`].
    pub fn bounds(&self) -> Result<Option<Bounds>> {
        let Some(Device::Simulated(devices)) = &self.device else { return Ok(None) };
        let requests = self.requests(0)?;
        let all = count_nodes(&requests, self.cells.len());
        let mut largest = vec![0; self.cells.len()];
        let mut streams = 1;
        for (index, entry) in self.scenario.policies.iter().enumerate() {
            streams = self.streams(index).max(streams);
            let batches = entry.settings.largest_batches(&self.setup(index));
            let of_policy = batches.map_or(all.clone(), |batches| nodes(batches, &requests, self.cells.len()));
            let larger = largest.iter_mut().zip(&of_policy).zip(&all);
            larger.for_each(|((largest, of_policy), all)| *largest = (*of_policy).min(*all).max(*largest));
        }
        Ok(Some(Bounds::of(&requests, &mut Fastest::new(devices, largest, streams), self.workers())))
    }

    /// Compares what requests came to in a run with the same requests run alone.
    ///
    /// # Errors
    /// Those of [`verify::compare`].
    pub fn verify(&self, ran: &Ran, stop: &AtomicBool) -> Result<Verified> {
        match &self.device {
            Some(Device::Real(network, engine)) => {
                let precision = engine.lock().expect("a run that panics ends the program").precision();
                let tolerance = Tolerance::new(precision, network.spec());
                verify::compare(network, &ran.requests, &ran.answers, &tolerance, stop)
            }
            _ => Ok(Verified::default()),
        }
    }

    /// What the runs run on, in words.
    pub fn described(&self) -> String {
        match &self.device {
            Some(Device::Real(_, engine)) => engine.lock().expect("a run that panics ends the program").described(),
            _ => "simulated".into(),
        }
    }

    /// The cell types that ran at batch sizes which the policy's cost table does not have; none on a real device.
    pub fn extrapolated(&self, run: &Run, record: &Recorder) -> Vec<Extrapolation> {
        let Some(device) = self.device(run.policy) else { return Vec::new() };
        let measured = match self.runs_several_steps(run.policy) {
            true => TableModel::measured_of_several_steps,
            false => TableModel::measured,
        };
        let counts = (0..).map(CellId).zip(&self.steps).zip(&record.batches);
        counts.filter_map(|((id, cell), counts)| Extrapolation::of(&cell.name, &measured(device, id), counts)).collect()
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.scenario.device.workers
    }

    /// The simulated device as a policy sees it, with its costs and overheads; `None` where nothing is simulated.
    pub fn device(&self, policy: usize) -> Option<&TableModel> {
        match &self.device {
            Some(Device::Simulated(devices)) => Some(&devices[policy]),
            _ => None,
        }
    }

    /// The simulated workers for a policy, whose tasks begin and take as long as this timing says.
    pub fn simulated<'t>(&self, policy: usize, timing: impl Timing + 't) -> Box<dyn Backend + 't> {
        sim::device(self.workers(), self.streams(policy), timing)
    }

    /// How many streams of each worker a policy uses.
    fn streams(&self, policy: usize) -> u16 {
        self.scenario.policies[policy].settings.streams(&self.setup(policy))
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
            closed_loop: matches!(load, LoadPoint::Clients(_)),
        }
    }

    /// What a policy may know.
    fn setup(&self, policy: usize) -> Setup<'_> {
        self.known[policy].within(self.bare_setup())
    }

    fn bare_setup(&self) -> Setup<'_> {
        let Scenario { workload, device, .. } = self.scenario;
        Setup { model: &workload.model, cells: &self.cells, workers: device.workers, costs: None }
    }

    /// Builds a fresh policy of the scenario.
    ///
    /// # Errors
    /// Settings that do not fit the model, which [`Prepared::new`] has tried.
    pub fn policy(&self, index: usize) -> Result<Box<dyn Policy>> {
        let entry = &self.scenario.policies[index];
        let policy = self.known[index].build(&*entry.settings, self.bare_setup()).map_err(|error| {
            Error::input(format!("{}: policy[{index}] ({}): {error}", self.scenario.file.display(), entry.label))
        })?;
        Ok(match self.scenario.device.max_waiting {
            Some(bound) => Box::new(Admission::new(policy, bound)),
            None => policy,
        })
    }
}

/// A policy's largest batches in nodes of each cell type.
fn nodes(batches: Batches, requests: &Requests, cells: usize) -> Vec<u32> {
    match batches {
        Batches::Nodes(of_cells) => of_cells,
        Batches::Requests(most) => {
            let most = most.min(requests.len() as u32);
            widths(requests, cells).into_iter().map(|width| width.saturating_mul(most)).collect()
        }
    }
}

/// The nodes of each cell type.
fn count_nodes(requests: &Requests, cells: usize) -> Vec<u32> {
    let mut counts = vec![0u32; cells];
    let mut add = |cell: CellId, nodes: u32| counts[cell.index()] = counts[cell.index()].saturating_add(nodes);
    for graph in requests.graphs.iter() {
        match graph {
            CellGraph::Chains(runs) => runs.iter().for_each(|run| add(run.cell, run.length)),
            CellGraph::Graph(graph) => graph.cells().iter().for_each(|cell| add(*cell, 1)),
        }
    }
    counts
}

/// For each cell type, the most nodes of any request that have the same depth.
fn widths(requests: &Requests, cells: usize) -> Vec<u32> {
    let mut widest = vec![0; cells];
    for graph in requests.graphs.iter() {
        widest.iter_mut().zip(graph.widths(cells)).for_each(|(widest, width)| *widest = width.max(*widest));
    }
    widest
}

/// The law that a finished run breaks, if there is one. Looked for in debug builds, so in every run of every test.
fn broken_law(record: &Recorder) -> Option<String> {
    let all_left = record.left().iter().all(|at| *at != Nanos::MAX);
    let checks = [
        laws::causality(record),
        if all_left { laws::littles_law(record) } else { Ok(()) },
        if record.tasks.is_empty() { Ok(()) } else { laws::busy_is_covered_by_tasks(record) },
    ];
    checks.into_iter().find_map(Result::err)
}
