//! The target on which a scenario's runs execute, and the execution of one run.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};

use super::executor::{
    Executor, Loaded, Preparation, SelectedBackend, Simulation, Simulator, Verify, WorkerSettings,
};
use super::inputs::{NEVER, RunInputs};
use super::job::Run;
use super::verify::{self, Answered, Tolerance, Verified};
use crate::base::error::{Context as _, Error, Result};
use crate::base::units::{CellId, Nanos, RequestId};
use crate::core::backend::{Backend, Launched};
use crate::core::cost::grnn;
use crate::core::cost::noise::{Noise, NoiseRecord};
use crate::core::cost::table::{CostTable, TableCosts};
use crate::core::cost::task_times::TaskTimes;
use crate::core::engine;
use crate::core::record::RecordOptions;
use crate::core::record::compact::{CompactOptions, CompactRecord};
use crate::core::record::execution::Execution;
use crate::core::record::full::FullRecord;
use crate::core::summary::laws;
use crate::core::summary::validity::Extrapolation;
use crate::core::workload::arrivals::last_within_the_clock;
use crate::core::workload::shape::Shape;
use crate::core::workload::trace::Requests;
use crate::devices::network::Network;
use crate::devices::network::Spec;
use crate::lab::scenario::{LoadPoint, PolicyEntry, Record, Scenario, WorkloadSection, costs};

/// The workers, simulated or real, on which the tasks of a scenario run.
pub enum Target {
    Simulated(SimulatedTarget),
    Real(RealTarget),
}

pub struct SimulatedTarget {
    simulator: &'static dyn Simulator,
    /// The costs of each policy.
    costs: Vec<TableCosts>,
    noise: Option<Arc<NoiseRecord>>,
}

/// An executor with the network loaded.
pub struct RealTarget {
    executor: &'static dyn Executor,
    /// The loaded network, which one run at a time holds.
    loaded: Mutex<Box<dyn Loaded>>,
    verify: Verify,
}

/// The output of a run.
#[derive(Debug)]
pub struct RunOutput<R = FullRecord> {
    pub record: R,
    /// Whether the user stopped the run before its end.
    pub interrupted: bool,
    /// The results to verify; empty in a simulation.
    pub answers: Vec<Answered>,
    pub launched: Option<Launched>,
    requests: Arc<Requests>,
}

/// The description of a simulated target, which needs no preparation.
pub(crate) fn describe_simulated(backend: SelectedBackend) -> String {
    match backend.name() {
        name if name == SelectedBackend::SIM.name() => "simulated".into(),
        name => format!("simulated by {name}"),
    }
}

/// Reads the inputs and prepares the target, so that mistakes show before the first run.
pub fn prepare(scenario: &Scenario, backend: SelectedBackend) -> Result<(RunInputs<'_>, Target)> {
    prepare_until(scenario, backend, &NEVER)
}

/// Does the same as [`prepare`], but fails once `stop` is set while requests are drawn.
pub(crate) fn prepare_until<'s>(
    scenario: &'s Scenario,
    backend: SelectedBackend,
    stop: &'s AtomicBool,
) -> Result<(RunInputs<'s>, Target)> {
    let inputs = RunInputs::new(scenario)?.until(stop);
    let target = Target::new(&inputs, backend)?;
    Ok((inputs, target))
}

impl Target {
    /// Prepares the target of prepared inputs.
    pub(super) fn new(inputs: &RunInputs<'_>, backend: SelectedBackend) -> Result<Target> {
        match backend {
            SelectedBackend::Simulated(simulator) => {
                SimulatedTarget::new(inputs, simulator).map(Target::Simulated)
            }
            SelectedBackend::Real(executor, verify) => {
                RealTarget::new(inputs, executor, verify).map(Target::Real)
            }
        }
    }

    /// Whether the target computes, on a real clock.
    pub fn is_real(&self) -> bool {
        matches!(self, Target::Real(_))
    }

    /// Executes one run. The record is valid even if the run was stopped.
    pub fn execute(
        &self,
        inputs: &RunInputs<'_>,
        run: &Run,
        record_options: RecordOptions,
        stop: &AtomicBool,
    ) -> Result<RunOutput> {
        // Every repeat of a real run has the requests and arrivals of the first.
        let replication = if self.is_real() { 0 } else { run.replication };
        let run_of_requests = Run {
            replication,
            ..*run
        };
        let mut prepared = inputs.prepare(&run_of_requests, record_options)?;
        let requests = Arc::clone(&prepared.requests);
        let mut preparation = Preparation::default();
        let mut loaded = self.lock_loaded();
        let mut backend: Box<dyn Backend + '_> = match (self, &mut loaded) {
            (Target::Simulated(simulated), _) => simulated.start(inputs, run, &requests),
            (Target::Real(real), Some(loaded)) => {
                preparation = real.preparation(inputs, run, &requests, loaded.network());
                loaded.start(&requests, &preparation, None)?
            }
            (Target::Real(_), None) => unreachable!("a real target has loaded its network"),
        };
        let ended = engine::run(
            &mut *prepared.source,
            &mut *prepared.policy,
            &mut *backend,
            &mut prepared.record,
            inputs.workers(),
            stop,
        );
        let record = prepared.record;
        let answers = match self {
            Target::Simulated(_) if backend.now() == Nanos::MAX => {
                return Err(exceeds_the_clock(inputs.scenario, run));
            }
            Target::Simulated(_) => Vec::new(),
            Target::Real(real) => real
                .requests_to_verify(inputs, run, preparation.keep, &record)
                .into_iter()
                .map(|request| (request, backend.answer(request)))
                .collect(),
        };
        let launched = if self.is_real() {
            backend.launches()
        } else {
            None
        };
        let interrupted = was_interrupted(ended, inputs.scenario, run)?;
        drop(backend);
        debug_assert_eq!(broken_law(&record), None, "a run breaks a law");
        Ok(RunOutput {
            record,
            interrupted,
            answers,
            launched,
            requests,
        })
    }

    /// Executes a simulated run that forgets its requests.
    pub(super) fn execute_compact(
        &self,
        inputs: &RunInputs<'_>,
        run: &Run,
        options: CompactOptions,
        stop: &AtomicBool,
    ) -> Result<RunOutput<CompactRecord>> {
        let mut prepared = inputs.prepare_compact(run, options)?;
        let requests = Arc::clone(&prepared.requests);
        let mut backend = self
            .start_simulator(inputs, run, &requests)
            .expect("only simulated runs forget their requests");
        let ended = prepared.serve(&mut *backend, stop);
        // The last arrival of an open loop is known only now.
        if let (LoadPoint::Rate(_), Some((_, last))) = (run.load, prepared.record.arrivals()) {
            last_within_the_clock(options.requests, last)
                .within("arrivals")
                .within(inputs.scenario.file.display())?;
        }
        if backend.now() == Nanos::MAX {
            return Err(exceeds_the_clock(inputs.scenario, run));
        }
        Ok(RunOutput {
            record: prepared.record,
            interrupted: was_interrupted(ended, inputs.scenario, run)?,
            answers: Vec::new(),
            launched: None,
            requests,
        })
    }

    /// Starts the simulator for a run; `None` on a real target.
    pub fn start_simulator(
        &self,
        inputs: &RunInputs<'_>,
        run: &Run,
        requests: &Requests,
    ) -> Option<Box<dyn Backend>> {
        match self {
            Target::Simulated(simulated) => Some(simulated.start(inputs, run, requests)),
            Target::Real(_) => None,
        }
    }

    /// The costs that a policy sees; `None` on a real target.
    pub fn costs(&self, policy: usize) -> Option<&TableCosts> {
        self.all_costs().map(|costs| &costs[policy])
    }

    pub(super) fn all_costs(&self) -> Option<&[TableCosts]> {
        match self {
            Target::Simulated(simulated) => Some(&simulated.costs),
            Target::Real(_) => None,
        }
    }

    fn lock_loaded(&self) -> Option<MutexGuard<'_, Box<dyn Loaded>>> {
        match self {
            Target::Simulated(_) => None,
            Target::Real(real) => Some(
                real.loaded
                    .lock()
                    .expect("a run that panics ends the program"),
            ),
        }
    }

    /// Compares the results of a real run with the same requests run alone.
    pub fn verify<R>(&self, output: &RunOutput<R>, stop: &AtomicBool) -> Result<Verified> {
        let Some(loaded) = self.lock_loaded() else {
            return Ok(Verified::default());
        };
        let network = loaded.network();
        let tolerance = Tolerance::new(loaded.precision(), network.spec());
        verify::compare(network, &output.requests, &output.answers, &tolerance, stop)
    }

    pub fn describe(&self) -> String {
        match (self, self.lock_loaded()) {
            (Target::Simulated(simulated), _) => {
                describe_simulated(SelectedBackend::Simulated(simulated.simulator))
            }
            (Target::Real(_), Some(loaded)) => loaded.describe(),
            (Target::Real(_), None) => unreachable!("a real target has loaded its network"),
        }
    }

    /// Why cells run in traditional kernels although `device.grnn` asks for persistent ones.
    pub fn traditional(&self, inputs: &RunInputs<'_>) -> Result<Option<String>> {
        if let Some(loaded) = self.lock_loaded() {
            return Ok(loaded.traditional());
        }
        // All policies have the same device.
        let table = inputs.costs(0)?;
        Ok(table.and_then(|table| table.traditional().map(Into::into)))
    }

    /// The cell types that ran at batch sizes outside the cost table; empty on a real target.
    pub fn extrapolations(
        &self,
        inputs: &RunInputs<'_>,
        run: &Run,
        execution: &Execution,
    ) -> Vec<Extrapolation> {
        let Some(costs) = self.costs(run.policy) else {
            return Vec::new();
        };
        let runs_several_steps = inputs.runs_several_steps(run.policy);
        let mut found = Vec::new();
        for (cell, counts) in (0..).map(CellId).zip(&execution.batches()) {
            let Some(step) = inputs.steps.get(cell.index()) else {
                break;
            };
            let measured = if runs_several_steps {
                costs.measured_of_several_steps(cell)
            } else {
                costs.measured_batches(cell)
            };
            found.extend(Extrapolation::new(&step.name, &measured, counts));
        }
        found
    }
}

impl SimulatedTarget {
    fn new(inputs: &RunInputs<'_>, simulator: &'static dyn Simulator) -> Result<SimulatedTarget> {
        let scenario = inputs.scenario;
        let file = scenario.file.display();
        let mut costs = Vec::new();
        for (index, policy) in scenario.policies.iter().enumerate() {
            costs.push(costs::costs_of_policy(
                simulated_costs(inputs, index)?,
                &scenario.workload,
                &*policy.settings,
                policy.overhead,
            )?);
        }
        let noise = match &scenario.device.noise {
            Some(record) => {
                let read = NoiseRecord::read(record);
                Some(Arc::new(read.within(format_args!("{file}: device.noise"))?))
            }
            None => None,
        };
        let has_transfers = costs.iter().any(|costs| costs.transfer.is_some());
        if scenario.output.record == Record::Stream && has_transfers {
            return Err(Error::input(format!(
                "{file}: output.record: a stream follows no states between workers; remove the rows \"transfer\" of \
                 the cost table, or set record = \"full\""
            )));
        }
        check_inputs(inputs)?;
        Ok(SimulatedTarget {
            simulator,
            costs,
            noise,
        })
    }

    fn start(&self, inputs: &RunInputs<'_>, run: &Run, requests: &Requests) -> Box<dyn Backend> {
        let noise = self.noise.as_ref().map(|record| {
            let sequence = inputs.random_sequence(run.replication, "noise");
            Noise::new(Arc::clone(record), sequence)
        });
        let costs = self.costs[run.policy].clone();
        self.simulator.start(Simulation {
            workers: inputs.workers(),
            streams: inputs.streams(run.policy),
            costs: TaskTimes::new(costs, &requests.graphs).with_noise(noise),
            random: inputs.random_sequence(run.replication, "simulator"),
        })
    }
}

impl RealTarget {
    fn new(
        inputs: &RunInputs<'_>,
        executor: &'static dyn Executor,
        verify: Verify,
    ) -> Result<RealTarget> {
        let scenario = inputs.scenario;
        let file = scenario.file.display();
        if scenario.output.record == Record::Stream {
            return Err(Error::input(format!(
                "{file}: output.record: a real run keeps its requests; set record = \"full\""
            )));
        }
        let loaded = load(scenario, executor)?;
        for (id, graph) in inputs.sample()?.graphs.iter().enumerate() {
            loaded
                .network()
                .check(graph)
                .within(format_args!("{file}: request {id}"))?;
        }
        Ok(RealTarget {
            executor,
            loaded: Mutex::new(loaded),
            verify,
        })
    }

    fn preparation(
        &self,
        inputs: &RunInputs<'_>,
        run: &Run,
        requests: &Requests,
        network: &Network,
    ) -> Preparation {
        let keep = if self.executor.abilities().keeps_chosen_only {
            let all = (0..requests.len() as u64).map(RequestId).collect();
            verify::kept_requests(network, requests, self.choose(inputs, run, all))
        } else {
            Vec::new()
        };
        let largest = inputs.largest_batches_in_nodes(run.policy, requests);
        let settings = &inputs.scenario.policies[run.policy].settings;
        Preparation {
            keep,
            largest_batches: (0..).map(CellId).zip(largest.unwrap_or_default()).collect(),
            batch_sizes: settings.batch_sizes().to_vec(),
            runs_several_steps: inputs.runs_several_steps(run.policy),
            streams: inputs.streams(run.policy),
            task_limit: inputs.scenario.device.task_limit,
        }
    }

    /// The finished requests whose results are compared. `kept` are those whose results the executor keeps, if it keeps
    /// only chosen ones.
    fn requests_to_verify(
        &self,
        inputs: &RunInputs<'_>,
        run: &Run,
        mut kept: Vec<RequestId>,
        record: &FullRecord,
    ) -> Vec<RequestId> {
        let finished = verify::finished_requests(record);
        if self.executor.abilities().keeps_chosen_only {
            kept.retain(|id| finished.binary_search(id).is_ok());
            kept
        } else {
            self.choose(inputs, run, finished)
        }
    }

    fn choose(&self, inputs: &RunInputs<'_>, run: &Run, all: Vec<RequestId>) -> Vec<RequestId> {
        let mut sequence = inputs.random_sequence(run.replication, "verify");
        verify::chosen(self.verify, all, &mut sequence)
    }
}

/// Whether the user stopped a run.
fn was_interrupted(ended: Result<()>, scenario: &Scenario, run: &Run) -> Result<bool> {
    match ended {
        Ok(()) => Ok(false),
        Err(Error::Interrupted) => Ok(true),
        Err(error) => {
            let policy = scenario.policies[run.policy].name();
            Err(error).within(format_args!("\"{policy}\" at {}", run.load))
        }
    }
}

fn exceeds_the_clock(scenario: &Scenario, run: &Run) -> Error {
    let PolicyEntry { label, costs, .. } = &scenario.policies[run.policy];
    let costs = match costs.file() {
        Some(file) => file.display().to_string(),
        None => String::new(),
    };
    let file = scenario.file.display();
    let load = run.load;
    let end = Nanos::MAX;
    Error::input(format!(
        "{file}: \"{label}\" at {load} is not done when the clock ends, after {end}; are the costs in {costs} in nanoseconds?"
    ))
}

/// The largest number of workers of a real run, which are threads or GPUs.
const MOST_REAL: usize = 1024;

/// Loads the scenario's network onto its workers.
fn load(scenario: &Scenario, executor: &dyn Executor) -> Result<Box<dyn Loaded>> {
    let model = &scenario.workload.model;
    let device = &scenario.device;
    let file = scenario.file.display();
    spec(scenario)
        .check(model)
        .within("workload")
        .within(&file)?;
    executor.check(model, device.precision).within(&file)?;
    if device.workers > MOST_REAL {
        let workers = device.workers;
        return Err(Error::input(format!(
            "{file}: device.workers: {workers}; real runs have at most {MOST_REAL}"
        )));
    }
    let on_operators = scenario
        .policies
        .iter()
        .find(|entry| entry.settings.runs_operators());
    if let Some(entry) = on_operators
        && !executor.abilities().runs_operators
    {
        let label = &entry.label;
        let kind = entry.settings.kind();
        let name = executor.name();
        return Err(Error::input(format!(
            "{file}: policy \"{label}\": kind \"{kind}\" runs operators; {name} computes whole cells only, so take --backend \
             cpu or the simulator"
        )));
    }
    load_network(scenario, executor, on_operators.is_some()).within(&file)
}

fn load_network(
    scenario: &Scenario,
    executor: &dyn Executor,
    with_operators: bool,
) -> Result<Box<dyn Loaded>> {
    let model = &scenario.workload.model;
    let device = &scenario.device;
    let mut workers =
        WorkerSettings::new(device.workers, device.precision).with(device.step_kernels);
    if let Some(file) = &device.grnn
        && executor.abilities().persistent_kernels
    {
        grnn::RecurrentCell::from_model(model)?;
        workers = workers.with(grnn::DataSheet::read(file)?);
    }
    let mut network = Network::new(model, &spec(scenario));
    if with_operators {
        network = network.and_then(Network::with_operators);
    }
    executor.load(network.within("workload")?, &workers)
}

pub fn spec(scenario: &Scenario) -> Spec {
    let WorkloadSection {
        hidden,
        embedding,
        vocabulary,
        ref weights,
        ..
    } = scenario.workload;
    let weights = weights.as_ref().map(|weights| weights.to_path_buf());
    Spec {
        hidden,
        embedding,
        vocabulary,
        seed: scenario.seed,
        weights,
    }
}

fn simulated_costs<'i>(inputs: &'i RunInputs<'_>, policy: usize) -> Result<&'i CostTable> {
    inputs.costs(policy)?.ok_or_else(|| {
        Error::input(format!(
            "{}: device.costs: missing; the simulator takes the times of \"{}\" from a cost table (a CSV file with the \
             columns cell,batch,ns) or from a device's data sheet (device.roofline); add one, or run the scenario for real, \
             which needs none",
            inputs.scenario.file.display(),
            inputs.scenario.policies[policy].label
        ))
    })
}

/// Fails if a cell's measured time depends on the size of its input, and the costs do not cover the largest input.
fn check_inputs(inputs: &RunInputs<'_>) -> Result<()> {
    let largest = inputs
        .sample()?
        .shapes
        .iter()
        .map(Shape::length)
        .max()
        .unwrap_or(0);
    for (place, policy) in inputs.scenario.policies.iter().enumerate() {
        let (Some(file), Some(table)) = (policy.costs.file(), inputs.costs(place)?) else {
            continue;
        };
        for cell in inputs.cells.iter().filter(|cell| cell.sized) {
            if let Some(limit) = table
                .largest_input(&cell.name)
                .filter(|limit| *limit < largest)
            {
                return Err(Error::input(format!(
                    "{}: the largest input of \"{}\" is {limit}, but a request has {largest} tokens; \
                     add rows for larger inputs or set workload.max_length = {limit}",
                    file.display(),
                    cell.name
                )));
            }
        }
    }
    Ok(())
}

/// A law that the record breaks, if any. Debug builds check the laws after every run of every test.
fn broken_law(record: &FullRecord) -> Option<String> {
    let departures = record.departures();
    let all_left = (0..record.finish.len()).all(|id| departures.get(id).0 != Nanos::MAX);
    let checks = [
        laws::causality(record),
        if all_left {
            laws::littles_law(record)
        } else {
            Ok(())
        },
        if record.execution.tasks.is_empty() {
            Ok(())
        } else {
            laws::busy_is_covered_by_tasks(record)
        },
    ];
    checks.into_iter().find_map(Result::err)
}
