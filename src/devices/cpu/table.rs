//! The states of all requests. Each request has a lock, held for the copies of one node. It ends here exactly once:
//! with the digest of its output, or with a reason for its failure.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::units::{CellId, RequestId};
use crate::core::backend::Output;
use crate::core::task::NodeRef;
use crate::core::workload::cell_graph::{CellGraph, Graph};
use crate::devices::network::Network;
use crate::devices::places::Places;
use crate::devices::shared::{self, NodePlace, in_order, run_twice};

pub struct Table {
    pub graphs: Arc<[CellGraph]>,
    network: Arc<Network>,
    width: usize,
    slots: Box<[Mutex<Slot>]>,
}

enum Slot {
    Fresh,
    Chain(Box<Chain>),
    Graph(Box<Nodes>),
    Done(u64),
    /// Why it has none, until this was asked.
    Failed(Option<Box<str>>),
}

/// Each node needs only the node before.
#[derive(Default)]
struct Chain {
    done: u32,
    state: Vec<f32>,
    words: Vec<u32>,
}

/// A request whose nodes are a general graph.
#[derive(Default)]
struct Nodes {
    /// Grows to the largest number needed at one time.
    states: Vec<f32>,
    vacant: Vec<u32>,
    /// The places count states.
    places: Places,
    words: Vec<(u32, u32)>,
}

impl Table {
    pub fn new(graphs: Arc<[CellGraph]>, network: Arc<Network>) -> Table {
        let slots = graphs.iter().map(|_| Mutex::new(Slot::Fresh)).collect();
        let width = network.state();
        Table {
            graphs,
            network,
            width,
            slots,
        }
    }

    pub fn graph(&self, request: RequestId) -> &CellGraph {
        &self.graphs[request.index()]
    }

    /// Fails if the request has no such node of this cell type, a mistake of the policy.
    pub fn place(&self, at: NodeRef, cell: CellId) -> Result<NodePlace, String> {
        shared::node_of_cell(self.graph(at.request), at.node, cell, &self.network)
    }

    /// Appends the states that a node needs, in the order of its inputs, and frees those that no other node needs. If
    /// the node can't run yet or has run, the request fails, and its states are zeros.
    pub fn take(&self, at: NodeRef, states: &mut Vec<f32>) {
        let mut slot = self.slot(at.request);
        let before = states.len();
        if let graph @ CellGraph::Graph(_) = self.graph(at.request) {
            slot.begin(graph);
        }
        let taken = match (&mut *slot, self.graph(at.request)) {
            (Slot::Done(_) | Slot::Failed(_), _) => Err(None),
            (Slot::Graph(nodes), CellGraph::Graph(graph)) => nodes
                .take(graph, at.node.0, self.width, states)
                .map_err(Some),
            (Slot::Chain(chain), _) => {
                states.extend_from_slice(&chain.state);
                in_order(at.node.0, chain.done).map_err(Some)
            }
            (Slot::Fresh | Slot::Graph(_), _) => in_order(at.node.0, 0).map_err(Some),
        };
        if let Err(reason) = taken {
            reason.into_iter().for_each(|reason| slot.fail(reason));
            let inputs = match self.graph(at.request) {
                CellGraph::Chains(_) => usize::from(at.node.0 > 0),
                CellGraph::Graph(graph) => graph.inputs(at.node.0).len(),
            };
            states.truncate(before);
            states.resize(before + inputs * self.width, 0.0);
        }
    }

    /// Stores the state and the words since the last stored state. The last node completes the request.
    pub fn put(&self, at: NodeRef, cell: CellId, state: &[f32], words: &[u32]) {
        let mut slot = self.slot(at.request);
        // Without a branch, the loop is a few vector instructions.
        if !state
            .iter()
            .fold(true, |finite, number| finite & number.is_finite())
        {
            let cell = self.network.cell_name(cell);
            return slot.fail(format!(
                "non-finite numbers in the state after node {} (cell {cell})",
                at.node
            ));
        }
        slot.begin(self.graph(at.request));
        let output = match (&mut *slot, self.graph(at.request)) {
            (Slot::Graph(nodes), CellGraph::Graph(graph)) => {
                nodes.put(at.node.0, state, words);
                (nodes.places.left == 0).then(|| nodes.output(graph, self.width))
            }
            (Slot::Chain(chain), graph) => {
                chain.put(at.node.0, state, words);
                (u64::from(chain.done) == graph.nodes()).then(|| chain.output())
            }
            _ => None,
        };
        if let Some(output) = output {
            *slot = Slot::Done(output.digest());
        }
    }

    pub fn fail(&self, request: RequestId, reason: String) {
        self.slot(request).fail(reason);
    }

    /// The task has ended, so a request with nodes left fails.
    pub fn expect_done(&self, request: RequestId) {
        let mut slot = self.slot(request);
        let nodes = self.graph(request).nodes();
        let left = match &*slot {
            Slot::Fresh => nodes,
            Slot::Chain(chain) => nodes - u64::from(chain.done),
            Slot::Graph(graph) => u64::from(graph.places.left),
            Slot::Done(_) | Slot::Failed(_) => return,
        };
        slot.fail(shared::left_over(left, nodes));
    }

    pub fn failure(&self, request: RequestId) -> Option<String> {
        match &mut *self.slot(request) {
            Slot::Failed(reason) => reason.take().map(String::from),
            _ => None,
        }
    }

    pub fn digest(&self, request: RequestId) -> Option<u64> {
        match *self.slot(request) {
            Slot::Done(digest) => Some(digest),
            _ => None,
        }
    }

    #[cfg(test)]
    pub fn is_fresh(&self, request: RequestId) -> bool {
        matches!(*self.slot(request), Slot::Fresh)
    }

    fn slot(&self, request: RequestId) -> MutexGuard<'_, Slot> {
        // No code under the lock panics in the middle of a change.
        self.slots[request.index()]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn begin(&mut self, graph: &CellGraph) {
        if let Slot::Fresh = self {
            *self = match graph {
                CellGraph::Chains(_) => Slot::Chain(Box::default()),
                CellGraph::Graph(graph) => {
                    let mut nodes = Box::<Nodes>::default();
                    nodes.places.begin(graph);
                    Slot::Graph(nodes)
                }
            };
        }
    }

    fn fail(&mut self, reason: String) {
        if !matches!(self, Slot::Done(_) | Slot::Failed(_)) {
            *self = Slot::Failed(Some(reason.into()));
        }
    }
}

impl Chain {
    fn put(&mut self, node: u32, state: &[f32], words: &[u32]) {
        self.done = node + 1;
        self.state.clear();
        self.state.extend_from_slice(state);
        self.words.extend_from_slice(words);
    }

    fn output(&mut self) -> Output {
        Output {
            state: std::mem::take(&mut self.state),
            words: std::mem::take(&mut self.words),
        }
    }
}

impl Nodes {
    fn take(
        &mut self,
        graph: &Graph,
        node: u32,
        width: usize,
        states: &mut Vec<f32>,
    ) -> Result<(), String> {
        if self.places.has_run(node) {
            return Err(run_twice(node));
        }
        for &input in graph.inputs(node) {
            let place = self.places.input(node, input)?;
            states.extend_from_slice(&self.states[place as usize * width..][..width]);
            if self.places.take(input) {
                self.vacant.push(place);
            }
        }
        Ok(())
    }

    fn put(&mut self, node: u32, state: &[f32], words: &[u32]) {
        if self.places.has_run(node) {
            return; // It was in one batch twice, with the same result.
        }
        let place = self
            .vacant
            .pop()
            .unwrap_or((self.states.len() / state.len()) as u32);
        let from = place as usize * state.len();
        self.states
            .resize(self.states.len().max(from + state.len()), 0.0);
        self.states[from..from + state.len()].copy_from_slice(state);
        self.places.put(node, place);
        self.words.extend(words.iter().map(|word| (node, *word)));
    }

    fn output(&mut self, graph: &Graph, width: usize) -> Output {
        let sinks = (0..graph.len() as u32).filter(|node| graph.successors(*node).is_empty());
        let state = sinks
            .flat_map(|node| &self.states[self.places.of(node) as usize * width..][..width])
            .copied()
            .collect();
        self.words.sort_unstable_by_key(|(node, _)| *node);
        Output {
            state,
            words: self.words.iter().map(|(_, word)| *word).collect(),
        }
    }
}
