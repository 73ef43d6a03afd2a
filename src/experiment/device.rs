//! The device that a target stands for, made ready for a scenario.

use std::sync::{Arc, Mutex};

use super::engine::{self, Engine};
use super::target::{Processor, Target};
use crate::cost::grnn;
use crate::cost::table::{CostTable, TableModel};
use crate::error::{Context as _, Error, Result};
use crate::network::Network;
use crate::network::spec::Spec;
use crate::scenario::{PolicyEntry, Scenario, known};
use crate::workload::model::CellType;
use crate::workload::operator::catalogue::Catalogue;
use crate::workload::shape::Shape;
use crate::workload::trace::Requests;

/// What tasks run on.
pub(super) enum Device {
    /// The device as each policy sees it, with its costs and overheads.
    Simulated(Vec<TableModel>),
    /// The network that it computes, and the device with it. Held by one run after the other.
    Real(Arc<Network>, Mutex<Engine>),
}

impl Device {
    /// Reads the cost tables, or makes the network ready.
    ///
    /// # Errors
    /// A table that is missing or broken, or has no costs of a cell; weights that do not fit the network; GPUs that are missing,
    /// or something that they need.
    pub fn new(scenario: &Scenario, target: Target, cells: &[CellType]) -> Result<Device> {
        match target {
            Target::Sim => {
                let operators = operators(scenario);
                let device = |policy: &PolicyEntry| {
                    let costs = costs(scenario, policy)?;
                    match policy.settings.runs_operators() {
                        true => costs.device_with(cells, &operators, policy.overhead),
                        false => costs.device(cells, policy.overhead),
                    }
                };
                scenario.policies.iter().map(device).collect::<Result<_>>().map(Device::Simulated)
            }
            Target::Real(processor, _) => {
                let engine = engine(scenario, processor)?;
                Ok(Device::Real(Arc::clone(engine.network()), Mutex::new(engine)))
            }
        }
    }

    /// Whether the device can run these requests.
    ///
    /// # Errors
    /// An input that is larger than those of a cost table; a graph that a network does not compute.
    pub fn check(&self, scenario: &Scenario, cells: &[CellType], requests: &Requests) -> Result<()> {
        match self {
            Device::Simulated(_) => check_inputs(scenario, cells, requests),
            Device::Real(network, _) => requests.graphs.iter().enumerate().try_for_each(|(id, graph)| {
                network.check(graph).within(format_args!("{}: request {id}", scenario.file.display()))
            }),
        }
    }
}

/// The operators of the scenario's model, in the sizes of its network.
pub(super) fn operators(scenario: &Scenario) -> Catalogue {
    Catalogue::new(&scenario.workload.model, &scenario.workload.sizes())
}

/// The network that a scenario describes, on its device.
fn engine(scenario: &Scenario, processor: Processor) -> Result<Engine> {
    let (model, device) = (&scenario.workload.model, &scenario.device);
    engine::check(processor, model, &device.gpu).within(scenario.file.display())?;
    let ready = || {
        let persistent = device.grnn.as_ref().filter(|_| processor == Processor::Cuda);
        let persistent =
            persistent.map(|file| grnn::Cell::of(model).and_then(|_| grnn::Device::read(file))).transpose()?;
        let network = Network::new(model, &spec(scenario)).within("workload")?;
        Engine::new(processor, network, &device.gpu, persistent.as_ref(), device.workers)
    };
    ready().within(scenario.file.display())
}

/// The sizes of a scenario's network, and where its weights are from.
pub fn spec(scenario: &Scenario) -> Spec {
    let workload = &scenario.workload;
    Spec {
        hidden: workload.hidden,
        embedding: workload.embedding,
        vocabulary: workload.vocabulary,
        seed: scenario.seed,
        weights: workload.weights.as_ref().map(|weights| weights.path().to_path_buf()),
    }
}

/// The costs of a policy's tasks, which a simulation needs.
fn costs(scenario: &Scenario, policy: &PolicyEntry) -> Result<CostTable> {
    let Scenario { workload, device, file, .. } = scenario;
    let named = known::named(policy.costs.as_deref(), device, &workload.model, &workload.sizes());
    named.within(file.display())?.ok_or_else(|| {
        Error::input(format!(
            "{}: device.costs: missing; the simulator takes the times of \"{}\" from a cost table (a CSV file with the \
             columns cell,batch,ns) or from a device's data sheet (device.roofline); add one, or run the scenario for real, \
             which needs none",
            file.display(),
            policy.label
        ))
    })
}

/// A cell whose time depends on the size of its input, and is measured, needs costs for the largest input.
fn check_inputs(scenario: &Scenario, cells: &[CellType], requests: &Requests) -> Result<()> {
    let largest = requests.shapes.iter().map(Shape::length).max().unwrap_or(0);
    for file in scenario.policies.iter().filter_map(|policy| policy.costs.as_ref()) {
        let table = CostTable::read(file)?;
        for cell in cells.iter().filter(|cell| cell.sized) {
            if let Some(limit) = table.largest_input(&cell.name).filter(|limit| *limit < largest) {
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
