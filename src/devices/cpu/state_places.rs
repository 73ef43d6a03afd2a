//! Which nodes of a request's graph have run, and where the states are that other nodes still need.

use crate::core::workload::cell_graph::Graph;
use crate::devices::task_checks::{run_before, run_twice};

/// The places of the states of one request.
#[derive(Debug, Default)]
pub struct StatePlaces {
    /// The place of each node's state; [`AHEAD`] or [`TAKEN`] if there is none.
    places: Vec<u32>,
    /// The number of other nodes that still need each state. A state that no other node needs stays.
    takers: Vec<u32>,
    /// The number of nodes that have not run.
    pub left: u32,
}

/// The place of a node that has not run.
const AHEAD: u32 = u32::MAX;
/// The place of a state that all other nodes have taken.
const TAKEN: u32 = u32::MAX - 1;

impl StatePlaces {
    /// Begins a request, of which no node has run.
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

    /// The place of a state that has not been freed.
    pub fn place(&self, node: u32) -> u32 {
        self.places[node as usize]
    }

    /// The place of an input of a node. Fails if the policy runs the node before its input, or a second time.
    pub fn input(&self, node: u32, input: u32) -> Result<u32, String> {
        match self.place(input) {
            AHEAD => Err(run_before(node, input)),
            TAKEN => Err(run_twice(node)),
            place => Ok(place),
        }
    }

    /// Notes that a node has taken this input. Returns whether no other node needs it.
    pub fn take(&mut self, input: u32) -> bool {
        let takers = &mut self.takers[input as usize];
        *takers -= 1;
        let is_free = *takers == 0;
        if is_free {
            self.places[input as usize] = TAKEN;
        }
        is_free
    }

    /// Notes that a node has run, and where its state is.
    pub fn put(&mut self, node: u32, place: u32) {
        self.places[node as usize] = place;
        self.left -= 1;
    }
}
