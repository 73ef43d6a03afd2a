//! Graph batching by merging (TensorFlow Fold's dynamic batching): nodes of one depth and cell type run together. No
//! request joins or leaves before the deepest graph is done.

use super::prelude::*;
use super::whole::{first_come, graph};

/// `kind = "merged"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Merged {
    #[default(MergeGranularity::Cell)]
    pub granularity: MergeGranularity,
    /// The largest number of requests in a batch. A level may have more cells.
    #[default = 64]
    pub max_batch: u32,
}

/// The nodes that are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MergeGranularity {
    Cell,
}

impl Settings for Merged {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "merged",
            "whole graphs, merged: cells of one depth and type run together (TensorFlow Fold)",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        let mut levels = Levels::new(setup.cells.len());
        first_come(self.max_batch, graph, move |taken, graphs, dispatch| {
            levels.clear();
            for graph in graphs {
                levels.add(&graph);
            }
            levels.build_steps();
            let task =
                Task::whole_requests(taken.worker, levels.steps(), taken.requests, levels.useful);
            dispatch.submit_because(&task, || taken.reason());
        })
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(self.max_batch))
    }
}

/// The nodes of graphs by cell type and depth. Nodes without inputs have depth 0.
pub struct Levels {
    by_cell: Vec<DepthCounts>,
    /// The largest input size of each cell type.
    largest_input: Vec<u32>,
    /// The number of useful cells, weighted by input size as in [`Step::cells`].
    pub useful: u64,
    steps: Vec<Step>,
}

impl Levels {
    pub fn new(cells: usize) -> Self {
        Levels {
            by_cell: vec![DepthCounts::default(); cells],
            largest_input: vec![0; cells],
            useful: 0,
            steps: Vec::new(),
        }
    }

    pub fn clear(&mut self) {
        for counts in &mut self.by_cell {
            counts.clear();
        }
        self.largest_input.fill(0);
        self.useful = 0;
    }

    pub fn add(&mut self, graph: &CellGraph) {
        match graph {
            CellGraph::Chains(runs) => {
                let mut depth = 0;
                for run in runs.iter() {
                    self.by_cell[run.cell.index()].add(depth, run.length);
                    depth += run.length;
                    let largest = &mut self.largest_input[run.cell.index()];
                    *largest = run.input.max(*largest);
                    self.useful += u64::from(run.length) * u64::from(run.input.max(1));
                }
            }
            CellGraph::Graph(graph) => {
                for (cell, depth) in graph.cells().iter().zip(graph.depths()) {
                    self.by_cell[cell.index()].add(*depth, 1);
                }
                self.useful += graph.len() as u64;
            }
        }
    }

    /// The number of cell types.
    pub fn cells(&self) -> usize {
        self.by_cell.len()
    }

    /// The number of levels.
    pub fn depths(&self) -> u32 {
        let depths = self.by_cell.iter().map(DepthCounts::depths);
        depths.max().unwrap_or(0)
    }

    /// The steps of all cells, as [`Levels::build_steps`] has listed them.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Lists the steps from depth 0 up. Equal neighbours become one step.
    pub fn build_steps(&mut self) {
        self.steps.clear();
        let mut count = vec![0i64; self.by_cell.len()];
        for depth in 0..self.depths() {
            for (cell, counts) in self.by_cell.iter().enumerate() {
                count[cell] += counts.change(depth);
                if count[cell] == 0 {
                    continue;
                }
                let input = self.largest_input[cell];
                let step = Step {
                    cell: CellId(cell as u16),
                    batch: count[cell] as u32,
                    times: 1,
                    input,
                };
                match self.steps.last_mut() {
                    Some(last) if last.cell == step.cell && last.batch == step.batch => {
                        last.times += 1
                    }
                    _ => self.steps.push(step),
                }
            }
        }
    }
}

/// The number of nodes at each depth.
#[derive(Clone, Debug, Default)]
pub struct DepthCounts {
    /// The change of the number from one depth to the next. A chain of any length takes two entries.
    change: Vec<i64>,
}

impl DepthCounts {
    pub fn clear(&mut self) {
        self.change.clear();
    }

    /// Counts a node at `length` depths from this one on.
    pub fn add(&mut self, depth: u32, length: u32) {
        self.begin(depth);
        *self.get_mut(depth + length) -= 1;
    }

    /// Counts a node at this depth and at all later ones.
    pub fn begin(&mut self, depth: u32) {
        *self.get_mut(depth) += 1;
    }

    fn get_mut(&mut self, depth: u32) -> &mut i64 {
        let place = depth as usize;
        if self.change.len() <= place {
            self.change.resize(place + 1, 0);
        }
        &mut self.change[place]
    }

    /// The change of the number at this depth.
    pub fn change(&self, depth: u32) -> i64 {
        self.change.get(depth as usize).copied().unwrap_or(0)
    }

    fn depths(&self) -> u32 {
        (self.change.len() as u32).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::workload::cell_graph::CellRun;

    fn run(cell: u16, length: u32) -> CellRun {
        CellRun {
            cell: CellId(cell),
            length,
            input: 0,
        }
    }

    #[test]
    fn chains_are_grouped_by_depth() {
        let mut levels = Levels::new(2);
        levels.add(&CellGraph::chains([run(1, 1), run(0, 2)]));
        levels.add(&CellGraph::chains([run(1, 3), run(0, 1)]));
        levels.build_steps();
        let steps: Vec<(u16, u32, u32)> = levels
            .steps()
            .iter()
            .map(|s| (s.cell.0, s.batch, s.times))
            .collect();
        assert_eq!(
            steps,
            [
                (1, 2, 1),
                (0, 1, 1),
                (1, 1, 1),
                (0, 1, 1),
                (1, 1, 1),
                (0, 1, 1)
            ]
        );
        assert_eq!((levels.useful, levels.depths()), (7, 4));
    }
}
