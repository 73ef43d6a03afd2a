//! DyNet's automatic batching (Neubig, Goldberg and Dyer, 2017).
//!
//! The host builds the operator graph of a batch of requests and orders it, by agenda or by
//! depth. The device idles meanwhile; the next graph is built after the results have been read.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::operators::{Evaluation, Lists, Order, by_agenda, by_depth};
use super::registry::{Batches, PolicyKind, Settings, Setup};
use super::values::at_least_1;
use super::whole::FirstCome;
use super::{Outcomes, Policy};
use crate::task::{Dispatch, Reason};
use crate::units::Nanos;
use crate::workload::cell_graph::CellGraph;
use crate::workload::operator::catalogue::Catalogue;
use crate::workload::operator::{Signature, Sizes};
use crate::workload::trace::Request;

/// `kind = "dynet"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct DyNet {
    /// Requests in a batch; a launch may have more operators.
    #[default = 64]
    pub max_batch: u32,
    #[default(By::Agenda)]
    pub by: By,
    /// The host's time to build the graph, for each operator. The default is 1.8 ms for ten trees (5,190 operators) at
    /// hidden size 256, recalled from papers on later systems and not measured here.
    #[serde(deserialize_with = "crate::units::nanos_or_time")]
    #[default(Nanos(347))]
    pub construct_ns: Nanos,
    /// The host's time to order the graph, for each operator; 1.2 ms for the same trees.
    #[serde(deserialize_with = "crate::units::nanos_or_time")]
    #[default(Nanos(231))]
    pub merge_ns: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// All ready ones of the signature with the lowest mean depth.
    Agenda,
    /// All of one depth and signature.
    Depth,
}

impl Settings for DyNet {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new("dynet", "whole graphs, operator by operator: those of one signature run together (DyNet)")
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        at_least_1([("max_batch", self.max_batch)])?;
        // With equal sizes everywhere, equality of operators does not depend on them.
        let catalogue = Catalogue::new(setup.model, &Sizes::square(1024));
        Ok(Box::new(DyNetPolicy {
            settings: self.clone(),
            queue: FirstCome::new(self.max_batch),
            evaluation: Evaluation::new(
                &catalogue.operators,
                |operator, before, _| operator.signature(before),
                Lists::Operators,
            ),
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
    evaluation: Evaluation<Signature>,
}

impl Policy for DyNetPolicy {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        self.queue.arrive(request.id, request.graph.clone());
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        let DyNetPolicy { settings, queue, evaluation } = self;
        let DyNet { by, construct_ns, merge_ns, .. } = *settings;
        let order: Order<Signature> = match by {
            By::Agenda => by_agenda,
            By::Depth => by_depth,
        };
        queue.schedule(dispatch, |taken, graphs, dispatch| {
            let evaluated = evaluation.evaluate(graphs, order);
            let (operators, launches) = (evaluated.operators, evaluated.launches);
            let during = construct_ns.saturating_add(merge_ns).saturating_mul(operators);
            let task = evaluation.task(taken, &evaluated, during);
            let size = taken.requests.len();
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
