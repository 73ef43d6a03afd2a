//! The device of an experiment, and one run on it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use super::Run;
use super::control::batch_times;
use super::executor::{Executor, Loaded, SelectedBackend, Simulation, Simulator, Verify};
use super::inputs::{NEVER, Prepared, RunInputs};
use super::verify::{self, Answered, Tolerance, Verified};
use crate::base::error::{Context as _, Error, Result};
use crate::base::units::{CellId, Nanos, RequestId};
use crate::core::backend::{Backend, Launched};
use crate::core::cost::grnn;
use crate::core::cost::noise::{Noise, NoiseRecord};
use crate::core::cost::table::{CostTable, TableCosts};
use crate::core::cost::task_times::TaskTimes;
use crate::core::policy::registry::Batches;
use crate::core::record::compact::{CompactOptions, CompactRecord};
use crate::core::record::execution::Execution;
use crate::core::record::full::FullRecord;
use crate::core::record::{RecordOptions, Recorder};
use crate::core::summary::bounds::{AffineService, Bounds, Fastest};
use crate::core::summary::laws;
use crate::core::summary::validity::Extrapolation;
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::shape::Shape;
use crate::core::workload::trace::Requests;
use crate::devices::cuda::Options;
use crate::devices::network::Network;
use crate::devices::network::Spec;
use crate::lab::scenario::{ArrivalSpec, PolicyEntry, Record, Scenario, Workload, costs};

/// What the tasks of a scenario run on.
pub enum Target {
    Simulated(
        &'static dyn Simulator,
        Vec<TableCosts>,
        Option<Arc<NoiseRecord>>,
    ),
    /// An executor with the network loaded. One run at a time holds it.
    Real(&'static dyn Executor, Mutex<Box<dyn Loaded>>, Verify),
}

/// Larger batches need not lie on a line for the closed form to be shown.
const LARGEST_ON_LINE: u32 = 64;

pub struct RunOutput<R = FullRecord> {
    pub record: R,
    /// The user stopped it before its end.
    pub interrupted: bool,
    /// The results to verify; empty in a simulation.
    pub answers: Vec<Answered>,
    pub launched: Option<Launched>,
    requests: Arc<Requests>,
}

/// The description of a simulated target, which needs no preparation.
pub(super) fn simulated_by(target: SelectedBackend) -> String {
    match target.name() {
        name if name == SelectedBackend::SIM.name() => "simulated".into(),
        name => format!("simulated by {name}"),
    }
}

/// Reads the inputs and prepares the device, so that mistakes show before the first run.
pub fn prepare(scenario: &Scenario, target: SelectedBackend) -> Result<(RunInputs<'_>, Target)> {
    prepare_until(scenario, target, &NEVER)
}

/// As [`prepare`], unless `stop` is set while requests are drawn.
pub(super) fn prepare_until<'s>(
    scenario: &'s Scenario,
    target: SelectedBackend,
    stop: &'s AtomicBool,
) -> Result<(RunInputs<'s>, Target)> {
    let inputs = RunInputs::new(scenario)?.until(stop);
    let device = Target::new(&inputs, target)?;
    Ok((inputs, device))
}

impl Target {
    fn new(inputs: &RunInputs<'_>, target: SelectedBackend) -> Result<Target> {
        let scenario = inputs.scenario;
        let (file, streams) = (
            scenario.file.display(),
            scenario.output.record == Record::Stream,
        );
        match target {
            SelectedBackend::Simulated(simulator) => {
                let costs = scenario.policies.iter().enumerate().map(|(place, policy)| {
                    let table = simulated_costs(inputs, place)?;
                    costs::costs_of_policy(
                        table,
                        &scenario.workload,
                        &*policy.settings,
                        policy.overhead,
                    )
                });
                let costs: Vec<TableCosts> = costs.collect::<Result<_>>()?;
                let noise = scenario
                    .device
                    .noise
                    .as_deref()
                    .map(NoiseRecord::read)
                    .transpose();
                let noise = noise
                    .within(format_args!("{file}: device.noise"))?
                    .map(Arc::new);
                if streams && costs.iter().any(|costs| costs.transfer.is_some()) {
                    return Err(Error::input(format!(
                        "{file}: output.record: a stream follows no states between workers; remove the rows \"transfer\" of \
                         the cost table, or set record = \"full\""
                    )));
                }
                check_inputs(inputs)?;
                Ok(Target::Simulated(simulator, costs, noise))
            }
            SelectedBackend::Real(..) if streams => Err(Error::input(format!(
                "{file}: output.record: a real run keeps its requests; set record = \"full\""
            ))),
            SelectedBackend::Real(executor, verify) => {
                let loaded = load(scenario, executor)?;
                for (id, graph) in inputs.sample()?.graphs.iter().enumerate() {
                    loaded
                        .network()
                        .check(graph)
                        .within(format_args!("{file}: request {id}"))?;
                }
                Ok(Target::Real(executor, Mutex::new(loaded), verify))
            }
        }
    }

    pub fn run(
        &self,
        inputs: &RunInputs<'_>,
        run: &Run,
        record_options: RecordOptions,
        stop: &AtomicBool,
    ) -> Result<RunOutput> {
        let (prepared, served, answers, launched) = match self {
            Target::Simulated(..) => {
                let mut prepared = inputs.prepare(run, record_options)?;
                let served = self.simulate(inputs, run, &mut prepared, stop)?;
                (prepared, served, Vec::new(), None)
            }
            Target::Real(executor, loaded, verify) => {
                // Every repeat has the requests and arrivals of the first.
                let mut prepared = inputs.prepare(
                    &Run {
                        replication: 0,
                        ..*run
                    },
                    record_options,
                )?;
                let requests = Arc::clone(&prepared.requests);
                let choose = |all| {
                    verify::chosen(
                        *verify,
                        all,
                        &mut inputs.random_sequence(run.replication, "verify"),
                    )
                };
                let mut options = options(inputs, run.policy, &requests);
                let mut loaded = loaded.lock().expect("a run that panics ends the program");
                let keeps_chosen_only = executor.abilities().keeps_chosen_only;
                if keeps_chosen_only {
                    let chosen = choose((0..requests.len() as u64).map(RequestId).collect());
                    options.keep = verify::kept(loaded.network(), &requests, chosen);
                }
                let mut backend = loaded.start(&requests, &options, None)?;
                let served = prepared.serve(&mut *backend, stop);
                let finished = verify::finished(&prepared.record);
                let asked = match keeps_chosen_only {
                    true => options
                        .keep
                        .into_iter()
                        .filter(|id| finished.binary_search(id).is_ok())
                        .collect(),
                    false => choose(finished),
                };
                let answers = asked
                    .into_iter()
                    .map(|request| (request, backend.answer(request)))
                    .collect();
                let launched = backend.launched();
                drop(backend);
                (prepared, served, answers, launched)
            }
        };
        debug_assert_eq!(broken_law(&prepared.record), None, "a run breaks a law");
        Ok(RunOutput {
            record: prepared.record,
            interrupted: was_interrupted(served)?,
            answers,
            launched,
            requests: prepared.requests,
        })
    }

    /// A simulated run that forgets its requests.
    pub(super) fn run_compact(
        &self,
        inputs: &RunInputs<'_>,
        run: &Run,
        options: CompactOptions,
        stop: &AtomicBool,
    ) -> Result<RunOutput<CompactRecord>> {
        let mut prepared = inputs.prepare_compact(run, options)?;
        let served = self.simulate(inputs, run, &mut prepared, stop)?;
        Ok(RunOutput {
            record: prepared.record,
            interrupted: was_interrupted(served)?,
            answers: Vec::new(),
            launched: None,
            requests: prepared.requests,
        })
    }

    /// Serves the requests on the simulated device. The inner result is that of the engine.
    fn simulate<R: Recorder>(
        &self,
        inputs: &RunInputs<'_>,
        run: &Run,
        prepared: &mut Prepared<'_, R>,
        stop: &AtomicBool,
    ) -> Result<Result<()>> {
        let backend = self.simulated(inputs, run, &prepared.requests);
        let mut backend = backend.expect("the device is simulated");
        let served = prepared.serve(&mut *backend, stop);
        if backend.now() == Nanos::MAX {
            return Err(exceeds_the_clock(inputs.scenario, run));
        }
        Ok(served)
    }

    /// `None` on a real device.
    pub fn simulated(
        &self,
        inputs: &RunInputs<'_>,
        run: &Run,
        requests: &Requests,
    ) -> Option<Box<dyn Backend>> {
        let Target::Simulated(simulator, costs, noise) = self else {
            return None;
        };
        let noise = noise.as_ref().map(|record| {
            Noise::new(
                Arc::clone(record),
                inputs.random_sequence(run.replication, "noise"),
            )
        });
        Some(simulator.start(Simulation {
            workers: inputs.workers(),
            streams: inputs.streams(run.policy),
            costs: TaskTimes::new(costs[run.policy].clone(), &requests.graphs).with_noise(noise),
            random: inputs.random_sequence(run.replication, "simulator"),
        }))
    }

    /// The costs that a policy sees; `None` on a real device.
    pub fn costs(&self, policy: usize) -> Option<&TableCosts> {
        match self {
            Target::Simulated(_, costs, _) => Some(&costs[policy]),
            Target::Real(..) => None,
        }
    }

    pub fn verify<R>(&self, output: &RunOutput<R>, stop: &AtomicBool) -> Result<Verified> {
        let Target::Real(_, loaded, _) = self else {
            return Ok(Verified::default());
        };
        let loaded = loaded.lock().expect("a run that panics ends the program");
        let (network, tolerance) = (
            loaded.network(),
            Tolerance::new(loaded.precision(), loaded.network().spec()),
        );
        verify::compare(network, &output.requests, &output.answers, &tolerance, stop)
    }

    pub fn describe(&self) -> String {
        match self {
            Target::Simulated(simulator, ..) => {
                simulated_by(SelectedBackend::Simulated(*simulator))
            }
            Target::Real(_, loaded, _) => loaded
                .lock()
                .expect("a run that panics ends the program")
                .describe(),
        }
    }

    /// Why cells run in traditional kernels although `device.grnn` asks for persistent ones.
    pub fn traditional(&self, inputs: &RunInputs<'_>) -> Result<Option<String>> {
        let Target::Real(_, loaded, _) = self else {
            // All policies have the same device.
            return Ok(inputs
                .costs(0)?
                .and_then(|table| table.traditional().map(Into::into)));
        };
        Ok(loaded
            .lock()
            .expect("a run that panics ends the program")
            .traditional())
    }

    /// On the requests of the first replication; `None` on a real device and for language models.
    pub fn bounds(&self, inputs: &RunInputs<'_>) -> Result<Option<Bounds>> {
        let Target::Simulated(_, costs, _) = self else {
            return Ok(None);
        };
        if inputs.scenario.workload.model.is_llm() {
            return Ok(None); // Its graphs don't show its work.
        }
        let cells = inputs.cells.len();
        let requests = inputs.sample()?;
        let all = count_nodes(&requests, cells);
        let mut largest = vec![0; cells];
        let mut streams = 1;
        for policy in 0..costs.len() {
            streams = inputs.streams(policy).max(streams);
            let batches = inputs.largest_batches(policy);
            let of_policy = batches.map_or(all.clone(), |batches| nodes(batches, &requests, cells));
            // A batch may be padded beyond all nodes, to a size that takes less time.
            let padded = inputs.scenario.policies[policy]
                .settings
                .batch_sizes()
                .last()
                .copied()
                .unwrap_or(0);
            let larger = largest.iter_mut().zip(&of_policy).zip(&all);
            larger.for_each(|((largest, own), all)| {
                *largest = (*own).min(padded.max(*all)).max(*largest)
            });
        }
        let bounds = Bounds::of(
            &requests,
            &mut Fastest::new(costs, largest, streams),
            inputs.workers(),
        );
        Ok(Some(Bounds {
            service: self.affine_service(inputs, &requests),
            ..bounds
        }))
    }

    /// Of all policies, where a closed form bounds the latency.
    fn affine_service(&self, inputs: &RunInputs<'_>, requests: &Requests) -> Option<AffineService> {
        let scenario = inputs.scenario;
        let is_poisson = matches!(scenario.arrivals, Some(ArrivalSpec::Poisson { .. }));
        let are_equal = requests
            .shapes
            .iter()
            .all(|shape| *shape == requests.shapes[0]);
        if !is_poisson
            || inputs.workers() > 1
            || !are_equal
            || !scenario.workload.model.is_sequence()
        {
            return None;
        }
        let largest = |policy| match inputs.largest_batches(policy) {
            Some(Batches::Requests(largest)) => largest.min(LARGEST_ON_LINE),
            _ => LARGEST_ON_LINE,
        };
        let of_policy = |policy| {
            AffineService::of(&batch_times(
                self.costs(policy)?,
                &requests.graphs[0],
                largest(policy),
            ))
        };
        let first = of_policy(0)?;
        (1..scenario.policies.len())
            .all(|policy| of_policy(policy) == Some(first))
            .then_some(first)
    }

    /// Cell types that ran at batch sizes outside the cost table; empty on a real device.
    pub fn extrapolated(
        &self,
        inputs: &RunInputs<'_>,
        run: &Run,
        execution: &Execution,
    ) -> Vec<Extrapolation> {
        let Some(costs) = self.costs(run.policy) else {
            return Vec::new();
        };
        let several = inputs.runs_several_steps(run.policy);
        let measured = if several {
            TableCosts::measured_of_several_steps
        } else {
            TableCosts::measured
        };
        let counts = (0..).map(CellId).zip(&inputs.steps).zip(&execution.batches);
        counts
            .filter_map(|((id, cell), counts)| {
                Extrapolation::new(&cell.name, &measured(costs, id), counts)
            })
            .collect()
    }
}

fn options(inputs: &RunInputs<'_>, policy: usize, requests: &Requests) -> Options {
    let batches = inputs.largest_batches(policy);
    let largest = batches.map_or(Vec::new(), |batches| {
        nodes(batches, requests, inputs.cells.len())
    });
    Options {
        keep: Vec::new(),
        materialise: (0..).map(CellId).zip(largest).collect(),
        sizes: inputs.scenario.policies[policy]
            .settings
            .batch_sizes()
            .to_vec(),
        several_launches: inputs.runs_several_steps(policy),
        streams: inputs.streams(policy),
        task_limit: inputs.scenario.device.task_limit,
        room: None,
    }
}

fn exceeds_the_clock(scenario: &Scenario, run: &Run) -> Error {
    let PolicyEntry { label, costs, .. } = &scenario.policies[run.policy];
    let costs = costs
        .as_ref()
        .map_or(String::new(), |costs| costs.display().to_string());
    let (file, load, end) = (scenario.file.display(), run.load, Nanos::MAX);
    Error::input(format!(
        "{file}: \"{label}\" at {load} is not done when the clock ends, after {end}; are the costs in {costs} in nanoseconds?"
    ))
}

/// Workers are threads or GPUs.
const MOST_REAL: usize = 1024;

fn load(scenario: &Scenario, executor: &dyn Executor) -> Result<Box<dyn Loaded>> {
    let (model, device, file) = (
        &scenario.workload.model,
        &scenario.device,
        scenario.file.display(),
    );
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
    let of_operators = scenario
        .policies
        .iter()
        .find(|entry| entry.settings.runs_operators());
    if let Some(entry) = of_operators.filter(|_| !executor.abilities().runs_operators) {
        let (label, kind, name) = (&entry.label, entry.settings.kind(), executor.name());
        return Err(Error::input(format!(
            "{file}: policy \"{label}\": kind \"{kind}\" runs operators; {name} computes whole cells only, so take --backend \
             cpu or the simulator"
        )));
    }
    let loaded = || {
        let wanted = device
            .grnn
            .as_ref()
            .filter(|_| executor.abilities().persistent_kernels);
        let persistent = wanted
            .map(|file| grnn::RecurrentCell::of(model).and_then(|_| grnn::DataSheet::read(file)))
            .transpose()?;
        let network = Network::new(model, &spec(scenario));
        let network = if of_operators.is_some() {
            network.and_then(Network::with_operators)
        } else {
            network
        };
        let network = network.within("workload")?;
        executor.load(
            network,
            device.precision,
            persistent.as_ref(),
            device.workers,
        )
    };
    loaded().within(&file)
}

pub fn spec(scenario: &Scenario) -> Spec {
    let Workload {
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

/// A cell whose measured time depends on the size of its input needs costs for the largest input.
fn check_inputs(inputs: &RunInputs<'_>) -> Result<()> {
    let largest = inputs
        .sample()?
        .shapes
        .iter()
        .map(Shape::length)
        .max()
        .unwrap_or(0);
    for (place, policy) in inputs.scenario.policies.iter().enumerate() {
        let (Some(file), Some(table)) = (&policy.costs, inputs.costs(place)?) else {
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

fn nodes(batches: Batches, requests: &Requests, cells: usize) -> Vec<u32> {
    let most = match batches {
        Batches::Nodes(of_cells) => return of_cells,
        Batches::Requests(most) => most.min(requests.len() as u32),
    };
    // For each cell type, the most nodes of any request at the same depth.
    let mut widest = vec![0u32; cells];
    for graph in requests.graphs.iter() {
        widest
            .iter_mut()
            .zip(graph.widths(cells))
            .for_each(|(widest, width)| *widest = width.max(*widest));
    }
    widest
        .into_iter()
        .map(|width| width.saturating_mul(most))
        .collect()
}

fn count_nodes(requests: &Requests, cells: usize) -> Vec<u32> {
    let mut counts = vec![0u32; cells];
    let mut add = |cell: CellId, nodes: u32| {
        counts[cell.index()] = counts[cell.index()].saturating_add(nodes)
    };
    for graph in requests.graphs.iter() {
        match graph {
            CellGraph::Chains(runs) => runs.iter().for_each(|run| add(run.cell, run.length)),
            CellGraph::Graph(graph) => graph.cells().iter().for_each(|cell| add(*cell, 1)),
        }
    }
    counts
}

/// Whether the user stopped a run.
fn was_interrupted(served: Result<()>) -> Result<bool> {
    match served {
        Err(Error::Interrupted) => Ok(true),
        Err(error) => Err(error),
        Ok(()) => Ok(false),
    }
}

/// Debug builds check the laws after every run of every test.
fn broken_law(record: &FullRecord) -> Option<String> {
    let all_left = record.departures().iter().all(|(at, _)| *at != Nanos::MAX);
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
