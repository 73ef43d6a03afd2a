//! No batching: one request at a time, first come first served.

use serde::{Deserialize, Serialize};

use super::registry::{Batches, PolicyKind, Settings, Setup};
use super::whole::{FirstCome, one_by_one};
use super::{Outcomes, Policy};
use crate::task::{Dispatch, Step, Task};
use crate::workload::cell_graph::CellGraph;
use crate::workload::trace::Request;

/// `kind = "unbatched"`, formerly `"immediate"`; no keys.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Unbatched {}

impl Settings for Unbatched {
    fn describe(&self) -> PolicyKind {
        let about = "no batching: one request at a time, one cell after another, first come first served";
        PolicyKind { alias: Some("immediate"), ..PolicyKind::new("unbatched", about) }
    }

    fn build(&self, _: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        Ok(Box::new(UnbatchedPolicy { queue: FirstCome::new(1) }))
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(1))
    }
}

struct UnbatchedPolicy {
    queue: FirstCome<CellGraph>,
}

impl Policy for UnbatchedPolicy {
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
