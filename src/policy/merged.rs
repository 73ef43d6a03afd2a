//! Graph batching by merging: whole requests, their cells batched level by level (TensorFlow Fold's dynamic batching).
//!
//! The graphs of a batch become one: nodes of one depth and one cell type run together. Nobody joins or leaves before the
//! deepest graph is done.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::registry::{Batches, Settings, Setup};
use super::{Completed, Dispatch, Outcomes, Policy, Reason};
use crate::backend::{Step, Task};
use crate::units::{CellId, RequestId};
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
            let useful_cells = self.levels.useful;
            let (left, max_batch) = (self.queue.len(), self.max_batch);
            let task = Task::whole_requests(worker, self.levels.steps(), &self.requests, useful_cells);
            dispatch.submit_because(&task, || Reason::first_come(worker, size, left, max_batch));
        }
    }
}

/// How many nodes of each cell type stand at each depth of a batch.
struct Levels {
    /// For each cell type the change of the count from one depth to the next: a chain of any length is two entries.
    change: Vec<Vec<i64>>,
    largest_input: Vec<u32>,
    useful: u64,
    steps: Vec<Step>,
}

impl Levels {
    fn new(cells: usize) -> Self {
        Levels { change: vec![Vec::new(); cells], largest_input: vec![0; cells], useful: 0, steps: Vec::new() }
    }

    fn clear(&mut self) {
        self.change.iter_mut().for_each(Vec::clear);
        self.largest_input.fill(0);
        self.useful = 0;
    }

    fn add(&mut self, graph: &CellGraph) {
        match graph {
            CellGraph::Chains(runs) => {
                let mut depth = 0;
                for run in runs {
                    self.add_span(run.cell, depth, run.length);
                    depth += run.length;
                    let largest = &mut self.largest_input[run.cell.index()];
                    *largest = run.input.max(*largest);
                    self.useful += u64::from(run.length) * u64::from(run.input.max(1));
                }
            }
            CellGraph::Graph(graph) => {
                for (cell, depth) in graph.cells().iter().zip(graph.depths()) {
                    self.add_span(*cell, *depth, 1);
                }
                self.useful += graph.len() as u64;
            }
        }
    }

    fn add_span(&mut self, cell: CellId, depth: u32, length: u32) {
        let change = &mut self.change[cell.index()];
        let end = (depth + length) as usize;
        if change.len() <= end {
            change.resize(end + 1, 0);
        }
        change[depth as usize] += 1;
        change[end] -= 1;
    }

    /// The groups from the lowest depth up; equal neighbours are one step, run several times.
    fn steps(&mut self) -> &[Step] {
        self.steps.clear();
        let depths = self.change.iter().map(Vec::len).max().unwrap_or(0);
        let mut count = vec![0i64; self.change.len()];
        for depth in 0..depths {
            for (cell, change) in self.change.iter().enumerate() {
                count[cell] += change.get(depth).copied().unwrap_or(0);
                if count[cell] == 0 {
                    continue;
                }
                let input = self.largest_input[cell];
                let step = Step { cell: CellId(cell as u16), batch: count[cell] as u32, times: 1, input };
                match self.steps.last_mut() {
                    Some(last) if last.cell == step.cell && last.batch == step.batch => last.times += 1,
                    _ => self.steps.push(step),
                }
            }
        }
        &self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::cell_graph::Run;

    #[test]
    fn chains_are_grouped_by_depth() {
        let mut levels = Levels::new(2);
        let run = |cell, length| Run { cell: CellId(cell), length, input: 0 };
        levels.add(&CellGraph::chains([run(1, 1), run(0, 2)]));
        levels.add(&CellGraph::chains([run(1, 3), run(0, 1)]));
        let steps: Vec<(u16, u32, u32)> = levels.steps().iter().map(|s| (s.cell.0, s.batch, s.times)).collect();
        // Depth 0: both in run 1. Depths 1 and 2: one in each. Depth 3: the second request's last cell.
        assert_eq!(steps, [(1, 2, 1), (0, 1, 1), (1, 1, 1), (0, 1, 1), (1, 1, 1), (0, 1, 1)]);
        assert_eq!(levels.useful, 7);
    }
}
