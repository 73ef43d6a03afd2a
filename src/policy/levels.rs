//! How many nodes of each cell type stand at each depth of a batch of whole graphs, for policies that merge these.

use crate::task::Step;
use crate::units::CellId;
use crate::workload::cell_graph::CellGraph;

/// The nodes of a batch by cell type and depth, a node without inputs having depth 0.
pub struct Levels {
    by_cell: Vec<Counts>,
    largest_input: Vec<u32>,
    nodes: u64,
    useful: u64,
    steps: Vec<Step>,
}

impl Levels {
    /// An empty batch of so many cell types.
    pub fn new(cells: usize) -> Self {
        Levels {
            by_cell: (0..cells).map(|_| Counts::default()).collect(),
            largest_input: vec![0; cells],
            nodes: 0,
            useful: 0,
            steps: Vec::new(),
        }
    }

    /// Empties the batch.
    pub fn clear(&mut self) {
        self.by_cell.iter_mut().for_each(Counts::clear);
        self.largest_input.fill(0);
        (self.nodes, self.useful) = (0, 0);
    }

    /// Takes in a request's graph.
    pub fn add(&mut self, graph: &CellGraph) {
        self.nodes += graph.nodes();
        match graph {
            CellGraph::Chains(runs) => {
                let mut depth = 0;
                for run in runs {
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

    /// The number of nodes.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// The same, a cell with an input size counting as often as that is ([`Step::cells`]).
    pub fn useful(&self) -> u64 {
        self.useful
    }

    /// The number of depths.
    pub fn depths(&self) -> u32 {
        self.by_cell.iter().map(Counts::depths).max().unwrap_or(0)
    }

    /// The groups from the lowest depth up; equal neighbours are one step, run several times.
    pub fn steps(&mut self) -> &[Step] {
        self.steps.clear();
        let mut count = vec![0i64; self.by_cell.len()];
        for depth in 0..self.depths() {
            for (cell, counts) in self.by_cell.iter().enumerate() {
                count[cell] += counts.change(depth);
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

/// How many things stand at each depth.
#[derive(Debug, Default)]
pub struct Counts {
    /// The change from one depth to the next: a chain of any length is two entries.
    change: Vec<i64>,
}

impl Counts {
    /// Empties it.
    pub fn clear(&mut self) {
        self.change.clear();
    }

    /// One more at each of `length` depths from `depth` on.
    pub fn add(&mut self, depth: u32, length: u32) {
        let end = (depth + length) as usize;
        if self.change.len() <= end {
            self.change.resize(end + 1, 0);
        }
        self.change[depth as usize] += 1;
        self.change[end] -= 1;
    }

    /// By how much there are more at a depth than at the one below it.
    pub fn change(&self, depth: u32) -> i64 {
        self.change.get(depth as usize).copied().unwrap_or(0)
    }

    /// The number of depths up to the last at which something stands.
    fn depths(&self) -> u32 {
        (self.change.len() as u32).saturating_sub(1)
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
        assert_eq!((levels.nodes(), levels.useful(), levels.depths()), (7, 7, 4));
    }
}
