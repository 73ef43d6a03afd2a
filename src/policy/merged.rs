//! Graph batching by merging: whole requests, their cells batched level by level (TensorFlow Fold's dynamic batching).
//!
//! The graphs of a batch become one: nodes of one depth and one cell type run together. Nobody joins or leaves before the
//! deepest graph is done.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::levels::Levels;
use super::registry::{Batches, Settings, Setup};
use super::{Completed, Dispatch, Outcomes, Policy, Reason};
use crate::backend::Task;
use crate::units::RequestId;
use crate::workload::cell_graph::CellGraph;
use crate::workload::trace::Request;

/// `kind = "merged"`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Merged {
    /// What is batched together.
    pub granularity: Granularity,
    /// The most requests in a batch; the cells of one level can be more.
    pub max_batch: u32,
}

/// What merging takes for one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Granularity {
    /// A cell, as in TensorFlow Fold.
    Cell,
}

impl Default for Merged {
    fn default() -> Self {
        Merged { granularity: Granularity::Cell, max_batch: 64 }
    }
}

impl Settings for Merged {
    const KIND: &'static str = "merged";
    const ABOUT: &'static str = "whole graphs, merged: cells of one depth and type run together (TensorFlow Fold)";

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        if self.max_batch == 0 {
            return Err("max_batch: 0 is too small; at least 1".into());
        }
        Ok(Box::new(MergedPolicy {
            max_batch: self.max_batch as usize,
            queue: VecDeque::new(),
            levels: Levels::new(setup.cells.len()),
            requests: Vec::new(),
        }))
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(self.max_batch))
    }
}

struct MergedPolicy {
    max_batch: usize,
    queue: VecDeque<(RequestId, CellGraph)>,
    levels: Levels,
    requests: Vec<RequestId>,
}

impl Policy for MergedPolicy {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        self.queue.push_back((request.id, request.graph.clone()));
    }

    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        completed.requests.iter().for_each(|request| outcomes.finish(*request));
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        for worker in dispatch.workers() {
            if !dispatch.is_idle(worker) || self.queue.is_empty() {
                continue;
            }
            self.requests.clear();
            self.levels.clear();
            let size = self.queue.len().min(self.max_batch);
            for (request, graph) in self.queue.drain(..size) {
                self.requests.push(request);
                self.levels.add(&graph);
            }
            let useful_cells = self.levels.useful();
            let (left, max_batch) = (self.queue.len(), self.max_batch);
            let task = Task::whole_requests(worker, self.levels.steps(), &self.requests, useful_cells);
            dispatch.submit_because(&task, || Reason::first_come(worker, size, left, max_batch));
        }
    }
}
