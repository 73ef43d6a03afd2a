//! No batching: each request alone, first come first served. The floor that every batching policy is measured against.

use serde::{Deserialize, Serialize};

use super::first_come::FirstCome;
use super::registry::{Batches, Settings, Setup};
use super::{Outcomes, Policy};
use crate::task::Dispatch;
use crate::task::{Step, Task};
use crate::units::CellId;
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
        Ok(Box::new(ImmediatePolicy { queue: FirstCome::new(1) }))
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(1))
    }
}

struct ImmediatePolicy {
    queue: FirstCome<CellGraph>,
}

impl Policy for ImmediatePolicy {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        self.queue.arrive(request.id, request.graph.clone());
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        self.queue.schedule(dispatch, |taken, graphs, dispatch| {
            for graph in graphs {
                let steps = one_by_one(&graph);
                let cells = steps.iter().map(Step::cells).sum();
                let task = Task::whole_requests(taken.worker, &steps, taken.requests, cells);
                dispatch.submit_because(&task, || taken.reason());
            }
        });
    }
}

/// All cells of a graph, each alone: from the lowest depth up, so that every cell comes behind those that it needs.
/// Neighbours of one cell type are one step.
pub(super) fn one_by_one(graph: &CellGraph) -> Vec<Step> {
    match graph {
        CellGraph::Chains(runs) => {
            runs.iter().map(|run| Step { cell: run.cell, batch: 1, times: run.length, input: run.input }).collect()
        }
        CellGraph::Graph(graph) => {
            let mut order: Vec<(u32, CellId)> =
                graph.depths().iter().copied().zip(graph.cells().iter().copied()).collect();
            order.sort_unstable();
            let mut steps: Vec<Step> = Vec::new();
            for (_, cell) in order {
                match steps.last_mut() {
                    Some(last) if last.cell == cell => last.times += 1,
                    _ => steps.push(Step { cell, batch: 1, times: 1, input: 0 }),
                }
            }
            steps
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::workload::cell_graph::Graph;

    #[test]
    fn cells_come_behind_those_that_they_need() {
        // Node 0 needs 1, which needs 2; node 3 stands alone; node 4 needs 0 and 3.
        let cells = [0, 1, 0, 1, 0].map(CellId).to_vec();
        let graph = CellGraph::Graph(Arc::new(Graph::new(cells, &[(2, 1), (1, 0), (0, 4), (3, 4)]).unwrap()));
        let steps: Vec<(u16, u32)> = one_by_one(&graph).iter().map(|step| (step.cell.0, step.times)).collect();
        // Depth 0: nodes 2 and 3; depth 1: node 1; depths 2 and 3: nodes 0 and 4.
        assert_eq!(steps, [(0, 1), (1, 2), (0, 2)]);
    }
}
