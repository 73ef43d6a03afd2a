//! The nodes of a batch by class and depth.

use std::hash::Hash;

use super::classes::{Class, Classes, Key, Needs};
use crate::workload::cell_graph::CellGraph;
use crate::workload::operator::Rows;

#[derive(Debug, Default)]
pub struct Batch {
    structure: Structure,
    inputs: Vec<u32>,
    /// For each of the takers, the place of the state among its input states.
    places: Vec<u16>,
    seen: Vec<u32>,
    is_seen: Vec<bool>,
    cells: u64,
}

/// The graph of a batch's cells, from which all else follows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Structure {
    class: Vec<u32>,
    /// Node `n`'s state is taken by `takers[ends[n - 1]..ends[n]]`.
    takers: Vec<u32>,
    ends: Vec<u32>,
}

/// The number of nodes by class and depth.
#[derive(Debug, Default)]
pub struct Groups {
    /// At 0 nodes without input cells, at `d + 1` those with deepest input `d`.
    nodes: Vec<Vec<u32>>,
    /// Likewise of input cells; initial states are at 0.
    edges: Vec<Vec<u32>>,
}

impl Batch {
    pub fn clear(&mut self) {
        let Batch { structure: Structure { class, takers, ends }, inputs, places, seen, is_seen, cells } = self;
        [class, inputs, takers, ends, seen].into_iter().for_each(Vec::clear);
        places.clear();
        is_seen.fill(false);
        *cells = 0;
    }

    pub fn add<K: Hash + Eq>(&mut self, graph: &CellGraph, classes: &mut Classes<K>) {
        let first = self.structure.class.len() as u32;
        match graph {
            CellGraph::Chains(runs) => {
                for run in runs.iter() {
                    let class = classes.class(run.cell, 1, run.input);
                    self.see(class);
                    self.cells += u64::from(run.length) * u64::from(run.input.max(1));
                    self.structure.class.resize(self.structure.class.len() + run.length as usize, class);
                }
                let last = self.structure.class.len() as u32 - 1;
                self.inputs.push(0);
                self.inputs.resize(self.structure.class.len(), 1);
                for node in first..last {
                    self.structure.takers.push(node + 1);
                    self.places.push(0);
                    self.structure.ends.push(self.structure.takers.len() as u32);
                }
                self.structure.ends.push(self.structure.takers.len() as u32);
            }
            CellGraph::Graph(graph) => {
                self.inputs.resize(self.inputs.len() + graph.len(), 0);
                for node in 0..graph.len() as u32 {
                    for next in graph.successors(node) {
                        self.structure.takers.push(first + next);
                        self.places.push(self.inputs[(first + next) as usize] as u16);
                        self.inputs[(first + next) as usize] += 1;
                    }
                    self.structure.ends.push(self.structure.takers.len() as u32);
                }
                // Children come before parents, so the class with the deepest nodes is met first.
                let mut met: Vec<(u32, u32, u32)> = Vec::new();
                for (node, (cell, depth)) in (0..).zip(graph.cells().iter().zip(graph.depths())) {
                    let class = classes.class(*cell, self.inputs[(first + node) as usize], 0);
                    self.structure.class.push(class);
                    match met.iter_mut().find(|(.., known)| *known == class) {
                        Some(known) => *known = (*known).min((*depth, node, class)),
                        None => met.push((*depth, node, class)),
                    }
                }
                met.sort_unstable();
                met.into_iter().for_each(|(.., class)| self.see(class));
                self.cells += graph.len() as u64;
            }
        }
    }

    fn see(&mut self, class: u32) {
        let place = class as usize;
        if self.is_seen.len() <= place {
            self.is_seen.resize(place + 1, false);
        }
        if !std::mem::replace(&mut self.is_seen[place], true) {
            self.seen.push(class);
        }
    }

    pub fn structure(&self) -> &Structure {
        &self.structure
    }

    pub fn nodes(&self) -> u32 {
        self.structure.class.len() as u32
    }

    pub fn class(&self, node: u32) -> u32 {
        self.structure.class[node as usize]
    }

    pub fn inputs(&self) -> &[u32] {
        &self.inputs
    }

    pub fn takers(&self, node: u32) -> &[u32] {
        let begin = if node == 0 { 0 } else { self.structure.ends[node as usize - 1] };
        &self.structure.takers[begin as usize..self.structure.ends[node as usize] as usize]
    }

    /// The nodes that take a node's state, and its place among their input states.
    pub fn edges(&self, node: u32) -> impl Iterator<Item = (u32, u16)> {
        let begin = if node == 0 { 0 } else { self.structure.ends[node as usize - 1] };
        let places = &self.places[begin as usize..self.structure.ends[node as usize] as usize];
        self.takers(node).iter().copied().zip(places.iter().copied())
    }

    /// Classes in the order of building: request by request, children before parents.
    pub fn seen(&self) -> &[u32] {
        &self.seen
    }

    /// Weighted by input size.
    pub fn cells(&self) -> u64 {
        self.cells
    }

    pub fn groups<K: Hash + Eq>(&self, classes: &Classes<K>) -> Groups {
        let mut groups =
            Groups { nodes: vec![Vec::new(); classes.all().len()], edges: vec![Vec::new(); classes.all().len()] };
        let count = |counts: &mut Vec<u32>, at: u32| {
            if counts.len() <= at as usize {
                counts.resize(at as usize + 1, 0);
            }
            counts[at as usize] += 1;
        };
        let mut missing = self.inputs.clone();
        let mut states = vec![0u32; self.structure.class.len()];
        let mut ready: Vec<u32> = (0..self.nodes()).filter(|node| missing[*node as usize] == 0).collect();
        for node in &ready {
            count(&mut groups.edges[self.class(*node) as usize], 0);
        }
        while let Some(node) = ready.pop() {
            let class = self.class(node);
            let before = states[node as usize];
            count(&mut groups.nodes[class as usize], before);
            let takers = self.takers(node);
            if takers.is_empty() {
                continue;
            }
            let state = 1 + classes.cell(class).depths.state(before.checked_sub(1));
            for &taker in takers {
                count(&mut groups.edges[self.class(taker) as usize], state);
                let (deepest, missing) = (&mut states[taker as usize], &mut missing[taker as usize]);
                *deepest = state.max(*deepest);
                *missing -= 1;
                if *missing == 0 {
                    ready.push(taker);
                }
            }
        }
        groups
    }
}

impl Groups {
    /// Visits operators in the order of building: the key, the depth, and their number.
    pub fn each<K: Hash + Eq>(&self, batch: &Batch, classes: &Classes<K>, mut visit: impl FnMut(Key, u32, u64)) {
        for &class in batch.seen() {
            let Class { before, keys, .. } = &classes.all()[class as usize];
            let cell = classes.cell(class);
            for (place, operator) in cell.list.operators.iter().enumerate() {
                // A copy's depth follows from its input cell's state.
                let by_edge = operator.rows == Rows::ForEach && cell.needs[place] == Needs::OneState;
                let counts = if by_edge { &self.edges } else { &self.nodes };
                let copies = if by_edge { 1 } else { u64::from(operator.copies(*before)) };
                for (states, count) in (0..).zip(&counts[class as usize]).filter(|(_, count)| **count > 0) {
                    let depth = cell.depths.depth(place, u32::checked_sub(states, 1));
                    visit(keys[place], depth, u64::from(*count) * copies);
                }
            }
        }
    }
}
