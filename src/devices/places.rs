//! Which nodes of a request's graph have run, and where the states are that other nodes still need.

use crate::core::workload::cell_graph::Graph;
use crate::devices::shared::{run_before, run_twice};

#[derive(Debug, Default)]
pub struct Places {
    /// The place of each node's state, or why there is none.
    places: Vec<u32>,
    /// How many other nodes still need each state. A state that no other node needs stays.
    takers: Vec<u32>,
    /// The nodes that have not run.
    pub left: u32,
}

/// The node has not run.
const AHEAD: u32 = u32::MAX;
/// All nodes that needed the state have taken it.
const TAKEN: u32 = u32::MAX - 1;

impl Places {
    pub fn begin(&mut self, graph: &Graph) {
        self.places.clear();
        self.places.resize(graph.len(), AHEAD);
        self.takers.clear();
        self.takers
            .extend((0..graph.len() as u32).map(|node| graph.successors(node).len() as u32));
        self.left = graph.len() as u32;
    }

    pub fn has_run(&self, node: u32) -> bool {
        self.places[node as usize] != AHEAD
    }

    /// The place of a state that no other node has freed.
    pub fn of(&self, node: u32) -> u32 {
        self.places[node as usize]
    }

    /// The place of an input of a node. Fails, a mistake of the policy, if it is not there yet or no longer.
    pub fn input(&self, node: u32, input: u32) -> Result<u32, String> {
        match self.of(input) {
            AHEAD => Err(run_before(node, input)),
            TAKEN => Err(run_twice(node)),
            place => Ok(place),
        }
    }

    /// A node has taken this input. Returns whether no other needs it.
    pub fn take(&mut self, input: u32) -> bool {
        let takers = &mut self.takers[input as usize];
        *takers -= 1;
        let is_free = *takers == 0;
        if is_free {
            self.places[input as usize] = TAKEN;
        }
        is_free
    }

    pub fn put(&mut self, node: u32, place: u32) {
        self.places[node as usize] = place;
        self.left -= 1;
    }
}
