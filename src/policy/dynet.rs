//! DyNet's automatic batching (Neubig, Goldberg and Dyer, 2017): graphs of operators are built for a batch of requests, searched for
//! operators that can run as one, and run.
//!
//! A batch of requests is one evaluation. The host builds its graph, an operator a node, then puts it in order; the device stands
//! still meanwhile, since nothing of an evaluation runs before all of it is in order, and the next is built when its results have been
//! asked for. `agenda` and [`by_depth`](super::operators::by_depth) are DyNet's two ways to put it in order.

mod agenda;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::operators::batch::Batch;
use super::operators::by_depth::by_depth;
use super::operators::classes::Classes;
use super::operators::launches::{self, Launch};
use super::registry::{Batches, PolicyKind, Settings, Setup};
use super::values::at_least_1;
use super::whole::FirstCome;
use super::{Outcomes, Policy};
use crate::task::{Dispatch, Reason};
use crate::task::{HostOverhead, Step, Task};
use crate::units::Nanos;
use crate::workload::cell_graph::CellGraph;
use crate::workload::operator::catalogue::Catalogue;
use crate::workload::operator::{Signature, Sizes};
use crate::workload::trace::Request;

/// `kind = "dynet"`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DyNet {
    /// The most requests in a batch; launches have as many operators as there are.
    pub max_batch: u32,
    /// What is launched next.
    pub by: By,
    /// What building the graph costs the host, for each operator. The default is that of ten trees at hidden size 256, whose graph took
    /// 1.8 ms: 5,190 operators by the lists here (10 trees of 19.1 leaves with 11 operators and 18.1 inner nodes with 17). Both times are
    /// recollected from papers on later systems; this project has measured neither.
    pub construct_ns: Nanos,
    /// What putting it in order costs the host, for each operator. The default is that of the same trees: 1.2 ms.
    pub merge_ns: Nanos,
}

/// How the operators of an evaluation are put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// All that is ready of one signature, by the mean depth of the signature's operators.
    Agenda,
    /// All of one depth and signature.
    Depth,
}

impl Default for DyNet {
    fn default() -> Self {
        DyNet { max_batch: 64, by: By::Agenda, construct_ns: Nanos(347), merge_ns: Nanos(231) }
    }
}

impl Settings for DyNet {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new("dynet", "whole graphs, operator by operator: those of one signature run together (DyNet)")
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        at_least_1([("max_batch", self.max_batch)])?;
        // Which operators are alike does not depend on the sizes, as long as they are the same everywhere.
        let catalogue = Catalogue::new(setup.model, &Sizes::square(1024));
        Ok(Box::new(DyNetPolicy {
            settings: self.clone(),
            queue: FirstCome::new(self.max_batch),
            classes: Classes::new(catalogue.operators(), |operator, before, _| operator.signature(before)),
            batch: Batch::default(),
            launches: Vec::new(),
            steps: Vec::new(),
        }))
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(self.max_batch))
    }

    fn runs_operators(&self) -> bool {
        true
    }
}

struct DyNetPolicy {
    settings: DyNet,
    queue: FirstCome<CellGraph>,
    classes: Classes<Signature>,
    // What follows is kept for its memory alone.
    batch: Batch,
    launches: Vec<Launch>,
    steps: Vec<Step>,
}

impl Policy for DyNetPolicy {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        self.queue.arrive(request.id, request.graph.clone());
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        let DyNetPolicy { settings, queue, classes, batch, launches, steps } = self;
        let DyNet { by, construct_ns, merge_ns, .. } = *settings;
        queue.schedule(dispatch, |taken, graphs, dispatch| {
            batch.clear();
            graphs.for_each(|graph| batch.add(&graph, classes));
            let operators = match by {
                By::Agenda => agenda::by_agenda(batch, classes, launches),
                By::Depth => by_depth(batch, classes, launches),
            };
            launches::steps(launches, classes.keyed(), steps);
            let during = construct_ns.saturating_add(merge_ns).saturating_mul(operators);
            let task = Task {
                host: HostOverhead { ahead: Nanos::ZERO, during },
                ..Task::whole_requests(taken.worker, steps, taken.requests, batch.cells())
            };
            let (size, launches) = (taken.requests.len(), launches.len());
            dispatch.submit_because(&task, || Reason {
                what: format!(
                    "the {size} requests that wait longest, as one graph: {operators} operators in {launches} launches"
                ),
                size: taken.size_of_evaluation(),
                when: format!("worker {} has nothing left to do", taken.worker),
            });
        });
    }
}
