//! No batching: each request alone, first come first served. The floor that every batching policy is measured against.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::registry::{Settings, Setup};
use super::{Completed, Dispatch, Outcomes, Policy};
use crate::backend::{Step, Task};
use crate::units::RequestId;
use crate::workload::cell_graph::CellGraph;
use crate::workload::trace::Request;

/// `kind = "immediate"`: it has no keys.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Immediate {}

impl Settings for Immediate {
    const KIND: &'static str = "immediate";
    const ABOUT: &'static str = "no batching: each request alone, one cell after another, first come first served";

    fn build(&self, _: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        Ok(Box::new(ImmediatePolicy { queue: VecDeque::new() }))
    }
}

struct ImmediatePolicy {
    queue: VecDeque<(RequestId, CellGraph)>,
}

impl Policy for ImmediatePolicy {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        self.queue.push_back((request.id, request.graph.clone()));
    }

    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        outcomes.finish(completed.requests[0]);
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        for worker in dispatch.workers() {
            if !dispatch.is_idle(worker) {
                continue;
            }
            let Some((request, graph)) = self.queue.pop_front() else { return };
            let steps = one_by_one(&graph);
            let cells = steps.iter().map(|step| u64::from(step.times) * u64::from(step.input.max(1))).sum();
            dispatch.submit(&Task::whole_requests(worker, &steps, &[request], cells));
        }
    }
}

/// All cells of a graph, each alone. The order between types is left to the backend, which has the graph.
fn one_by_one(graph: &CellGraph) -> Vec<Step> {
    match graph {
        CellGraph::Chains(runs) => {
            runs.iter().map(|run| Step { cell: run.cell, batch: 1, times: run.length, input: run.input }).collect()
        }
        CellGraph::Graph(graph) => {
            let mut steps: Vec<Step> = Vec::new();
            for &cell in graph.cells() {
                match steps.iter_mut().find(|step| step.cell == cell) {
                    Some(step) => step.times += 1,
                    None => steps.push(Step { cell, batch: 1, times: 1, input: 0 }),
                }
            }
            steps
        }
    }
}
