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
        at_least_1([("max_batch", self.max_batch)])?;
        let (max_batch, requests) = (self.max_batch as usize, Vec::new());
        let (lines, waiting, heads) = (HashMap::new(), Vec::new(), BTreeMap::new());
        Ok(Box::new(IdealPolicy {
            max_batch,
            lines,
            waiting,
            heads,
            requests,
        }))
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(self.max_batch))
    }
}

struct IdealPolicy {
    max_batch: usize,
    /// Looked up, never iterated.
    lines: HashMap<CellGraph, usize>,
    /// By line, the steps of its graph and the requests that wait.
    waiting: Vec<(Vec<Step>, VecDeque<RequestId>)>,
    /// The lines by their first request.
    heads: BTreeMap<RequestId, usize>,
    requests: Vec<RequestId>,
}

impl Policy for IdealPolicy {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        let line = *self.lines.entry(request.graph.clone()).or_insert_with(|| {
            self.waiting
                .push((one_by_one(request.graph, 1), VecDeque::new()));
            self.waiting.len() - 1
        });
        let (_, waiting) = &mut self.waiting[line];
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
            let (steps, waiting) = &mut self.waiting[line];
            let size = waiting.len().min(self.max_batch);
            self.requests.clear();
            self.requests.extend(waiting.drain(..size));
            if let Some(head) = waiting.front() {
                self.heads.insert(*head, line);
            }
            steps.iter_mut().for_each(|step| step.batch = size as u32);
            let task = Task::unpadded(worker, steps, &self.requests);
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
}
