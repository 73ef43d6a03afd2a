//! Graph batching by merging: whole requests, their cells batched level by level (TensorFlow Fold's dynamic batching).
//!
//! The graphs of a batch become one: nodes of one depth and one cell type run together. Nobody joins or leaves before the
//! deepest graph is done.

use serde::{Deserialize, Serialize};

use super::first_come::FirstCome;
use super::levels::Levels;
use super::registry::{Batches, Settings, Setup};
use super::{Outcomes, Policy};
use crate::task::Dispatch;
use crate::task::Task;
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
        Ok(Box::new(MergedPolicy { queue: FirstCome::new(self.max_batch), levels: Levels::new(setup.cells.len()) }))
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(self.max_batch))
    }
}

struct MergedPolicy {
    queue: FirstCome<CellGraph>,
    levels: Levels,
}

impl Policy for MergedPolicy {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        self.queue.arrive(request.id, request.graph.clone());
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        let MergedPolicy { queue, levels } = self;
        queue.schedule(dispatch, |taken, graphs, dispatch| {
            levels.clear();
            graphs.for_each(|graph| levels.add(&graph));
            let useful_cells = levels.useful();
            let task = Task::whole_requests(taken.worker, levels.steps(), taken.requests, useful_cells);
            dispatch.submit_because(&task, || taken.reason());
        });
    }
}
