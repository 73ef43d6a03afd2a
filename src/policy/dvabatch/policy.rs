//! The mechanism as a batching policy: one for each worker, one line of waiting requests for all.

use std::sync::Arc;

use super::Stage;
use super::conditions::{Conditions, Lines};
use super::mechanism::Mechanism;
use super::slicing::Slicing;
use super::table::Query;
use crate::policy::{Completed, Outcomes, Policy};
use crate::task::Dispatch;
use crate::units::{Nanos, WorkerId};
use crate::workload::cell_graph::CellGraph;
use crate::workload::trace::Request;

/// A policy of a user's conditions on the mechanism.
pub struct Staged {
    mechanisms: Vec<Mechanism>,
    lines: Lines,
    conditions: Box<dyn Conditions>,
    now: Nanos,
}

impl Staged {
    /// For so many workers, each with so many sets of buffers.
    pub fn new(workers: usize, slicing: &Arc<Slicing>, sets: u8, conditions: Box<dyn Conditions>) -> Staged {
        let mechanism = |worker| Mechanism::new(WorkerId(worker), Arc::clone(slicing), sets);
        Staged {
            mechanisms: (0..workers as u16).map(mechanism).collect(),
            lines: Lines::default(),
            conditions,
            now: Nanos::ZERO,
        }
    }

    /// The mechanism of a worker.
    pub fn mechanism(&self, worker: WorkerId) -> &Mechanism {
        &self.mechanisms[worker.index()]
    }
}

impl Policy for Staged {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        let query = Query {
            request: request.id,
            nodes: request.graph.nodes() as u32,
            input: match &request.graph {
                CellGraph::Chains(runs) => runs.iter().map(|run| run.input).max().unwrap_or(0),
                CellGraph::Graph(_) => 0,
            },
            left: false,
            resumes: Stage(0),
        };
        self.lines.push(self.conditions.line(&query), request.arrival, query);
    }

    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        let mechanism = &mut self.mechanisms[completed.worker.index()];
        mechanism.complete(completed.task, completed.finish, &mut *self.conditions, outcomes);
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        self.now = dispatch.now();
        for mechanism in &mut self.mechanisms {
            mechanism.advance(&mut self.lines, &mut *self.conditions, dispatch);
        }
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.conditions.wake_at(&self.lines, self.now)
    }

    fn works_ahead(&self) -> bool {
        true
    }
}
