//! The ideal of graph batching: a graph built by hand for one shape, and batches of that shape (BatchMaker, Figure 15).
//!
//! Cells run one after another, each once for the whole batch: nothing is padded, merged or gathered. The request that
//! has waited longest decides the next shape.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::registry::{Batches, PolicyKind, Settings, Setup};
use super::values::at_least_1;
use super::whole::{Taken, one_by_one};
use super::{Outcomes, Policy};
use crate::task::{Dispatch, Reason, Step, Task};
use crate::units::RequestId;
use crate::workload::cell_graph::CellGraph;
use crate::workload::trace::Request;

/// `kind = "ideal"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Ideal {
    #[default = 64]
    pub max_batch: u32,
}

impl Settings for Ideal {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new("ideal", "whole requests of one shape, cell after cell: a graph made by hand for that shape")
    }

    fn build(&self, _: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        at_least_1([("max_batch", self.max_batch)])?;
        Ok(Box::new(IdealPolicy {
            max_batch: self.max_batch as usize,
            arrived: 0,
            forms: HashMap::new(),
            lines: Vec::new(),
            heads: BTreeMap::new(),
            requests: Vec::new(),
        }))
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(self.max_batch))
    }
}

struct IdealPolicy {
    max_batch: usize,
    arrived: u64,
    /// Each graph's line. Looked up, never iterated.
    forms: HashMap<Form, usize>,
    lines: Vec<Line>,
    heads: BTreeMap<u64, usize>,
    requests: Vec<RequestId>,
}

struct Line {
    steps: Vec<Step>,
    cells: u64,
    waiting: VecDeque<(u64, RequestId)>,
}

impl Policy for IdealPolicy {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        let place = self.arrived;
        self.arrived += 1;
        let line = *self.forms.entry(Form(request.graph.clone())).or_insert_with(|| {
            let steps = one_by_one(request.graph);
            let cells = steps.iter().map(Step::cells).sum();
            self.lines.push(Line { steps, cells, waiting: VecDeque::new() });
            self.lines.len() - 1
        });
        if self.lines[line].waiting.is_empty() {
            self.heads.insert(place, line);
        }
        self.lines[line].waiting.push_back((place, request.id));
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        let mut idle = dispatch.idle();
        while let Some(worker) = idle.next(dispatch) {
            let Some((_, number)) = self.heads.pop_first() else { return };
            let Line { steps, cells, waiting } = &mut self.lines[number];
            let size = waiting.len().min(self.max_batch);
            self.requests.clear();
            self.requests.extend(waiting.drain(..size).map(|(_, request)| request));
            if let Some((place, _)) = waiting.front() {
                self.heads.insert(*place, number);
            }
            steps.iter_mut().for_each(|step| step.batch = size as u32);
            let task = Task::whole_requests(worker, steps, &self.requests, *cells * size as u64);
            let taken = Taken { worker, requests: &self.requests, left: waiting.len(), max_batch: self.max_batch };
            dispatch.submit_because(&task, || Reason {
                what: "the request that has waited longest, and those of its shape".into(),
                ..taken.reason()
            });
        }
    }
}

struct Form(CellGraph);

impl PartialEq for Form {
    fn eq(&self, other: &Form) -> bool {
        match (&self.0, &other.0) {
            (CellGraph::Chains(ours), CellGraph::Chains(theirs)) => ours == theirs,
            (CellGraph::Graph(ours), CellGraph::Graph(theirs)) => {
                let same_edges = |node| ours.successors(node) == theirs.successors(node);
                Arc::ptr_eq(ours, theirs) || (ours.cells() == theirs.cells() && (0..ours.len() as u32).all(same_edges))
            }
            _ => false,
        }
    }
}

impl Eq for Form {}

impl Hash for Form {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            CellGraph::Chains(runs) => {
                runs.iter().for_each(|run| (run.cell, run.length, run.input).hash(state));
            }
            CellGraph::Graph(graph) => {
                graph.cells().hash(state);
                (0..graph.len() as u32).for_each(|node| graph.successors(node).hash(state));
            }
        }
    }
}
