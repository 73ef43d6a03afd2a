//! The nodes of a batch by class and depth.

use std::hash::Hash;

use super::classes::{InputNeeds, NodeClass, NodeClasses, OperatorKey};
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::operator::RowRule;

/// The nodes of a batch, numbered request by request.
#[derive(Debug, Default)]
pub struct GraphBatch {
    /// The class of each node.
    class: Vec<u32>,
    /// The nodes in the order of building: request by request, and children before parents.
    pub order: Vec<u32>,
    /// The number of each node's input cells.
    pub inputs: Vec<u32>,
    /// The nodes that take states, each with the place of the state among its input states. The entries from
    /// `ends[n - 1]` to `ends[n]` take the state of node `n`.
    takers: Vec<(u32, u16)>,
    ends: Vec<u32>,
    /// The number of cells, weighted by input size.
    pub cells: u64,
}

impl GraphBatch {
    /// Adds the graph of a request.
    pub fn add<K: Hash + Eq>(&mut self, graph: &CellGraph, classes: &mut NodeClasses<K>) {
        let first = self.nodes();
        match graph {
            CellGraph::Chains(runs) => {
                for run in runs.iter() {
                    let class = classes.class(run.cell, 1, run.input);
                    self.cells += u64::from(run.length) * u64::from(run.input.max(1));
                    self.class
                        .resize(self.class.len() + run.length as usize, class);
                }
                self.inputs.push(0);
                self.inputs.resize(self.class.len(), 1);
                self.order.extend(first..self.nodes());
                for next in first + 1..=self.nodes() {
                    if next < self.nodes() {
                        self.takers.push((next, 0));
                    }
                    self.ends.push(self.takers.len() as u32);
                }
            }
            CellGraph::Graph(graph) => {
                self.inputs.resize(self.inputs.len() + graph.len(), 0);
                for node in 0..graph.len() as u32 {
                    for next in graph.successors(node).iter().map(|next| first + next) {
                        let inputs = &mut self.inputs[next as usize];
                        self.takers.push((next, *inputs as u16));
                        *inputs += 1;
                    }
                    self.ends.push(self.takers.len() as u32);
                }
                let cells = graph.cells().iter().zip(&self.inputs[first as usize..]);
                self.class
                    .extend(cells.map(|(cell, inputs)| classes.class(*cell, *inputs, 0)));
                self.order.extend(first..self.nodes());
                self.order[first as usize..]
                    .sort_by_key(|node| graph.depths()[(node - first) as usize]);
                self.cells += graph.len() as u64;
            }
        }
    }

    pub fn nodes(&self) -> u32 {
        self.class.len() as u32
    }

    pub fn class(&self, node: u32) -> u32 {
        self.class[node as usize]
    }

    /// The nodes that take a node's state, and its place among their input states.
    pub fn takers(&self, node: u32) -> &[(u32, u16)] {
        let begin = if node == 0 {
            0
        } else {
            self.ends[node as usize - 1]
        };
        &self.takers[begin as usize..self.ends[node as usize] as usize]
    }

    /// Visits the operators in the order of building: the key, the depth, and the number of operators.
    pub fn visit_operators<K: Hash + Eq>(
        &self,
        classes: &NodeClasses<K>,
        mut visit: impl FnMut(OperatorKey, u32, u64),
    ) {
        let mut seen = Vec::new();
        // The number of nodes by class and depth: nodes without input cells at 0, nodes with deepest input `d` at `d +
        // 1`.
        let mut nodes = vec![Vec::new(); classes.all().len()];
        // The number of input cells likewise, with initial states at 0.
        let mut edges = nodes.clone();
        let mut states = vec![0u32; self.class.len()];
        for &node in &self.order {
            let class = self.class(node);
            let before = states[node as usize];
            if nodes[class as usize].is_empty() {
                seen.push(class);
            }
            count(&mut nodes[class as usize], before);
            if self.inputs[node as usize] == 0 {
                count(&mut edges[class as usize], 0);
            }
            let takers = self.takers(node);
            let state = if takers.is_empty() {
                0
            } else {
                1 + classes.cell(class).depths.state(before.checked_sub(1))
            };
            for &(taker, _) in takers {
                count(&mut edges[self.class(taker) as usize], state);
                states[taker as usize] = state.max(states[taker as usize]);
            }
        }
        for class in seen {
            let NodeClass { before, keys, .. } = &classes.all()[class as usize];
            let cell = classes.cell(class);
            for (place, operator) in cell.list.operators.iter().enumerate() {
                // A copy's depth follows from its input cell's state.
                let by_edge =
                    operator.rows == RowRule::ForEach && cell.needs[place] == InputNeeds::OneState;
                let counts = if by_edge { &edges } else { &nodes };
                let copies = if by_edge {
                    1
                } else {
                    u64::from(operator.copies(*before))
                };
                for (states, count) in (0..).zip(&counts[class as usize]) {
                    if *count > 0 {
                        let depth = cell.depths.depth(place, u32::checked_sub(states, 1));
                        visit(keys[place], depth, u64::from(*count) * copies);
                    }
                }
            }
        }
    }
}

/// Counts one more at a place.
fn count(counts: &mut Vec<u32>, at: u32) {
    if counts.len() <= at as usize {
        counts.resize(at as usize + 1, 0);
    }
    counts[at as usize] += 1;
}
