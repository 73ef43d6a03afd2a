//! DyNet's automatic batching (Neubig, Goldberg and Dyer, 2017).
//!
//! The host builds the operator graph of a batch of requests and orders it, by agenda or by
//! depth. The device idles meanwhile; the next graph is built after the results have been read.

#[cfg(test)]
mod tests;

use super::operators::{Evaluation, ListLevel, OperatorOrder, agenda_order, depth_order};
use super::prelude::*;
use super::whole::{first_come, graph};
use crate::core::workload::operator::catalogue::Catalogue;
use crate::core::workload::operator::{Operator, Signature, Sizes};

/// `kind = "dynet"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct DyNet {
    /// The largest number of requests in a batch. A launch may have more operators.
    #[default = 64]
    pub max_batch: u32,
    /// The order of operators.
    #[default(By::Agenda)]
    pub by: By,
    /// The host's time to build the graph, for each operator. The default was measured (scripts/peers/README.md).
    #[serde(deserialize_with = "crate::base::units::nanos_or_time")]
    #[default(Nanos(320))]
    pub construct_ns: Nanos,
    /// The host's time to order the graph, for each operator. The default was measured likewise.
    #[serde(deserialize_with = "crate::base::units::nanos_or_time")]
    #[default(Nanos(100))]
    pub merge_ns: Nanos,
}

/// The operators that run next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// All ready operators of the signature with the lowest mean depth.
    Agenda,
    /// All operators of one depth and signature.
    Depth,
}

impl Settings for DyNet {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "dynet",
            "whole graphs, operator by operator: those of one signature run together (DyNet)",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        // All sizes are equal, so that equality of operators does not depend on them.
        let catalogue = Catalogue::new(setup.model, &Sizes::square(1024));
        let mut evaluation = Evaluation::new(&catalogue.operators, signature, ListLevel::Operators);
        let order: OperatorOrder<Signature> = match self.by {
            By::Agenda => agenda_order,
            By::Depth => depth_order,
        };
        let host = self.construct_ns.saturating_add(self.merge_ns);
        first_come(self.max_batch, graph, move |taken, graphs, dispatch| {
            let evaluated = evaluation.evaluate(graphs, order);
            let operators = evaluated.operators;
            let launches = evaluated.launches;
            let task = evaluated.task(taken, host.saturating_mul(operators));
            dispatch.submit_because(&task, || Reason {
                what: format!(
                    "the {} requests that wait longest, as one graph: {operators} operators in {launches} launches",
                    taken.requests.len()
                ),
                size: taken.size_of_evaluation(),
                when: format!("worker {} has nothing left to do", taken.worker),
            });
        })
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(self.max_batch))
    }

    fn runs_operators(&self) -> bool {
        true
    }
}

/// The key of an operator, which does not depend on the request's input.
fn signature(operator: &Operator, before: u32, _input: u32) -> Option<Signature> {
    operator.signature(before)
}
