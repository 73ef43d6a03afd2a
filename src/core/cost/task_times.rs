//! Copies of states between workers, each of which has a memory of its own.

use smallvec::{SmallVec, smallvec};

use super::CostModel as _;
use super::curve::Curve;
use super::known_tasks::KnownTasks;
use super::noise::Noise;
use super::table::TableCosts;
use super::timing::{Start, Timing, task_demand, task_time};
use crate::base::grow::grow;
use crate::base::units::{CellId, Nanos, NodeId, Share, WorkerId};
use crate::core::task::{DecodeTask, Members, NodeRef, Part, Task};
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::shared_list::SharedList;

/// The times of a run's tasks by a model's costs. With the rows `transfer` of the cost table, a task pays for each
/// state that one of its nodes takes from another worker; without such rows the states are not followed. With the rows
/// `launch.further`, a launch waits for the host's work on the worker's last decision. Noise changes the times and
/// the starts.
pub struct TaskTimes {
    costs: TableCosts,
    known: KnownTasks,
    /// The decisions of each worker.
    decisions: Vec<DecisionCount>,
    followed: Option<StateTracker>,
    noise: Option<Noise>,
}

/// The tasks of a worker's present decision and of the one before.
#[derive(Clone, Copy, Default)]
struct DecisionCount {
    at: Nanos,
    tasks: u32,
    before: u32,
}

impl DecisionCount {
    /// Counts a task that is submitted at this instant.
    fn add(&mut self, at: Nanos) {
        if at != self.at {
            self.before = std::mem::take(&mut self.tasks);
            self.at = at;
        }
        self.tasks += 1;
    }
}

/// Follows the states of all requests.
struct StateTracker {
    /// The time of copying states, by their number.
    time: Curve,
    graphs: SharedList<CellGraph>,
    /// The states of each request; empty before its first task and after its last.
    states: Vec<RequestStates>,
    /// Lists that are empty between tasks, and kept for their memory.
    nodes: Vec<NodeRef>,
    parts: Vec<Part>,
}

/// Where the states of a request are.
#[derive(Clone, Default)]
struct RequestStates {
    /// The worker that ran each node. A chain has one entry: its state moves along.
    on: SmallVec<[WorkerId; 4]>,
    /// The nodes that have not run.
    left: u32,
}

impl TaskTimes {
    /// The times of a run whose requests have these graphs, by id.
    pub fn new(costs: TableCosts, graphs: &SharedList<CellGraph>) -> TaskTimes {
        let followed = costs.transfer.clone().map(|time| StateTracker {
            time,
            graphs: graphs.clone(),
            states: vec![RequestStates::default(); graphs.len()],
            nodes: Vec::new(),
            parts: Vec::new(),
        });
        TaskTimes {
            costs,
            known: KnownTasks::default(),
            decisions: Vec::new(),
            followed,
            noise: None,
        }
    }

    #[must_use]
    pub fn with_noise(self, noise: Option<Noise>) -> TaskTimes {
        TaskTimes { noise, ..self }
    }
}

impl Timing for TaskTimes {
    fn start(&mut self, task: &Task<'_>, submit: Nanos, idle: bool) -> Start {
        let mut start = self.costs.start(task, submit, idle);
        if let Some(further) = self.costs.further_launch(task.batch) {
            let decision = grow(&mut self.decisions, task.worker.index());
            decision.add(submit);
            let tasks = u64::from(decision.before.saturating_sub(1));
            start.earliest = start.earliest.saturating_add(further.saturating_mul(tasks));
        }
        if let Some(noise) = &mut self.noise {
            start.earliest = noise.delay(start.earliest, submit);
        }
        start
    }

    fn duration(&mut self, task: &Task<'_>, before: Option<CellId>) -> Nanos {
        let costs = &self.costs;
        if let Some(time) = self.known.decode_time(task, before, costs) {
            // The states of its sequences stay on the worker.
            return time;
        }
        let time = match self.known.result(task) {
            Some(known) => known.time(task, before, || task_time(costs, task, before)),
            None => task_time(costs, task, before),
        };
        let Some(followed) = &mut self.followed else {
            return time;
        };
        match followed.count(task) {
            0 => time,
            states => time.saturating_add(followed.time.time(states)),
        }
    }

    #[inline]
    fn decode(&mut self, task: &DecodeTask, submit: Nanos) -> (Start, Nanos) {
        let starts_alike = self.noise.is_none() && !self.costs.has_further_launches();
        if starts_alike && let Some(time) = self.known.repeated_decode_time(task, &self.costs) {
            let launch = self.costs.launch(task.batch, false);
            let start = Start {
                earliest: submit.saturating_add(launch),
                gap: Nanos::ZERO,
            };
            return (start, time);
        }
        let start = self.start(&task.as_task(), submit, true);
        (start, self.duration(&task.as_task(), Some(task.step.cell)))
    }

    #[inline]
    fn disturb(&mut self, time: Nanos, start: Nanos) -> Nanos {
        match &mut self.noise {
            None => time,
            Some(noise) => noise.disturb(time, start),
        }
    }

    fn demand(&mut self, task: &Task<'_>) -> Share {
        let Some(known) = self.known.result(task) else {
            return task_demand(&self.costs, task);
        };
        known.demand(task, || task_demand(&self.costs, task))
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        Timing::batches(&self.costs, cell)
    }
}

impl StateTracker {
    /// The states that a task takes from other workers. A request that runs whole takes none.
    fn count(&mut self, task: &Task<'_>) -> u32 {
        let mut parts = std::mem::take(&mut self.parts);
        match task.members {
            Members::Requests | Members::Operators(_) => {}
            Members::Nodes(list) => {
                list(&mut self.nodes);
                parts.extend(self.nodes.drain(..).map(|NodeRef { request, node }| Part {
                    request,
                    from: node,
                    to: NodeId(node.0 + 1),
                }));
            }
            Members::Parts(list) => list(&mut parts),
        }
        let states = parts
            .drain(..)
            .map(|part| self.run(&part, task.worker))
            .sum();
        self.parts = parts;
        states
    }

    /// The states that come from other workers if this part of a request runs here.
    fn run(&mut self, part: &Part, here: WorkerId) -> u32 {
        let graph = &self.graphs[part.request.index()];
        let RequestStates { on, left } = &mut self.states[part.request.index()];
        if on.is_empty() {
            let (entries, nodes) = match graph {
                CellGraph::Chains(_) => (1, graph.nodes() as u32),
                CellGraph::Graph(graph) => (graph.len(), graph.len() as u32),
            };
            (*on, *left) = (smallvec![here; entries], nodes);
        }
        let states = match graph {
            CellGraph::Chains(_) => u32::from(std::mem::replace(&mut on[0], here) != here),
            CellGraph::Graph(graph) => (part.from.0..part.to.0)
                .map(|node| {
                    on[node as usize] = here;
                    graph
                        .inputs(node)
                        .iter()
                        .filter(|input| on[**input as usize] != here)
                        .count() as u32
                })
                .sum(),
        };
        *left -= part.to.0 - part.from.0;
        if *left == 0 {
            *on = SmallVec::new();
        }
        states
    }
}
