//! The nodes of a batch by class and depth.

use std::hash::Hash;

use super::classes::{Class, Classes, Key, Needs};
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::operator::RowRule;

#[derive(Debug, Default)]
pub struct Batch {
    class: Vec<u32>,
    /// The nodes in the order of building: request by request, children before parents.
    pub order: Vec<u32>,
    pub inputs: Vec<u32>,
    /// Node `n`'s state is taken by `takers[ends[n - 1]..ends[n]]`: a node, and the place of the state among its input
    /// states.
    takers: Vec<(u32, u16)>,
    ends: Vec<u32>,
    /// Weighted by input size.
    pub cells: u64,
}

impl Batch {
    pub fn add<K: Hash + Eq>(&mut self, graph: &CellGraph, classes: &mut Classes<K>) {
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
                    self.takers
                        .extend((next < self.nodes()).then_some((next, 0)));
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

    /// Visits operators in the order of building: the key, the depth, and their number.
    pub fn each<K: Hash + Eq>(&self, classes: &Classes<K>, mut visit: impl FnMut(Key, u32, u64)) {
        let mut seen = Vec::new();
        // By class and depth, their number: at 0 nodes without input cells, at `d + 1` those with deepest input `d`.
        let mut nodes = vec![Vec::new(); classes.all().len()];
        // Likewise of input cells; initial states are at 0.
        let mut edges = nodes.clone();
        let mut states = vec![0u32; self.class.len()];
        for &node in &self.order {
            let (class, before) = (self.class(node), states[node as usize]);
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
            let (Class { before, keys, .. }, cell) =
                (&classes.all()[class as usize], classes.cell(class));
            for (place, operator) in cell.list.operators.iter().enumerate() {
                // A copy's depth follows from its input cell's state.
                let by_edge =
                    operator.rows == RowRule::ForEach && cell.needs[place] == Needs::OneState;
                let counts = if by_edge { &edges } else { &nodes };
                let copies = if by_edge {
                    1
                } else {
                    u64::from(operator.copies(*before))
                };
                for (states, count) in (0..)
                    .zip(&counts[class as usize])
                    .filter(|(_, count)| **count > 0)
                {
                    let depth = cell.depths.depth(place, u32::checked_sub(states, 1));
                    visit(keys[place], depth, u64::from(*count) * copies);
                }
            }
        }
    }
}

fn count(counts: &mut Vec<u32>, at: u32) {
    if counts.len() <= at as usize {
        counts.resize(at as usize + 1, 0);
    }
    counts[at as usize] += 1;
}
