//! The ideal of graph batching: a graph built by hand for one shape, and batches of that shape (BatchMaker, Figure 15).
//!
//! Cells run one after another, each once for the whole batch: nothing is padded, merged or gathered. The request that
//! has waited longest decides the next shape.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::prelude::*;
use super::whole::{Taken, one_by_one};

/// `kind = "ideal"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Ideal {
    /// The largest number of requests in a batch.
    #[default = 64]
    pub max_batch: u32,
}

impl Settings for Ideal {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "ideal",
            "whole requests of one shape, cell after cell: a graph made by hand for that shape",
        )
    }

    fn build(&self, _: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        require_positive([("max_batch", self.max_batch)])?;
        Ok(Box::new(IdealPolicy {
            max_batch: self.max_batch as usize,
            line_of: HashMap::new(),
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
    /// The line of each graph. It is looked up, and never iterated over.
    line_of: HashMap<CellGraph, usize>,
    lines: Vec<EqualRequests>,
    /// The lines by their first request.
    heads: BTreeMap<RequestId, usize>,
    /// The requests of the last batch.
    requests: Vec<RequestId>,
}

/// Requests with the same graph.
struct EqualRequests {
    steps: Vec<Step>,
    waiting: VecDeque<RequestId>,
}

impl Policy for IdealPolicy {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        let known = self.line_of.entry(request.graph.clone());
        let line = *known.or_insert_with(|| {
            self.lines.push(EqualRequests {
                steps: one_by_one(request.graph, 1),
                waiting: VecDeque::new(),
            });
            self.lines.len() - 1
        });
        let waiting = &mut self.lines[line].waiting;
        if waiting.is_empty() {
            self.heads.insert(request.id, line);
        }
        waiting.push_back(request.id);
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        let mut idle = dispatch.idle();
        while let Some(worker) = idle.next(dispatch) {
            let Some((_, line)) = self.heads.pop_first() else {
                return;
            };
            let EqualRequests { steps, waiting } = &mut self.lines[line];
            let size = waiting.len().min(self.max_batch);
            self.requests.clear();
            self.requests.extend(waiting.drain(..size));
            if let Some(head) = waiting.front() {
                self.heads.insert(*head, line);
            }
            for step in steps.iter_mut() {
                step.batch = size as u32;
            }
            let task = Task::without_padding(worker, steps, &self.requests);
            let taken = Taken {
                worker,
                requests: &self.requests,
                left: waiting.len(),
                max_batch: self.max_batch,
            };
            dispatch.submit_because(&task, || Reason {
                what: "the request that has waited longest, and those of its shape".into(),
                ..taken.reason()
            });
        }
    }

    fn decides_when_idle(&self) -> bool {
        true
    }
}
