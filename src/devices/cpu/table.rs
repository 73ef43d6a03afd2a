//! The states of all requests. Each request has a lock, held for the copies of one node. A request ends here exactly
//! once: with the digest of its output, or with a reason for its failure.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::state_places::StatePlaces;
use crate::base::units::{CellId, RequestId};
use crate::core::backend::Output;
use crate::core::task::NodeRef;
use crate::core::workload::cell_graph::{CellGraph, Graph};
use crate::core::workload::shared_list::SharedList;
use crate::devices::network::Network;
use crate::devices::task_checks::{self, NodePlace, check_order, run_twice};

/// The states of all requests.
pub struct StateTable {
    pub graphs: SharedList<CellGraph>,
    network: Arc<Network>,
    /// The width of a state, in numbers.
    width: usize,
    slots: Box<[Mutex<RequestSlot>]>,
}

/// The progress of a request.
enum RequestSlot {
    Fresh,
    Chain(Box<ChainState>),
    Graph(Box<GraphStates>),
    /// The digest of the output.
    Done(u64),
    /// The reason for the failure, until it is reported.
    Failed(Option<Box<str>>),
}

/// A request whose nodes each need only the node before.
#[derive(Default)]
struct ChainState {
    /// The number of nodes that have run.
    done: u32,
    state: Vec<f32>,
    words: Vec<u32>,
}

/// A request whose nodes are a general graph.
#[derive(Default)]
struct GraphStates {
    /// The states that are still needed. The list grows to the largest number needed at one time.
    states: Vec<f32>,
    /// The places in `states` that are free.
    vacant: Vec<u32>,
    /// The place of each node's state, counted in states.
    places: StatePlaces,
    /// The nodes that have written words, and the words.
    words: Vec<(u32, u32)>,
}

impl StateTable {
    pub fn new(graphs: SharedList<CellGraph>, network: Arc<Network>) -> StateTable {
        for graph in graphs.iter() {
            if let CellGraph::Graph(graph) = graph {
                // Makes the lists before the clock starts.
                graph.inputs(0);
            }
        }
        let slots = graphs
            .iter()
            .map(|_| Mutex::new(RequestSlot::Fresh))
            .collect();
        let width = network.state();
        StateTable {
            graphs,
            network,
            width,
            slots,
        }
    }

    pub fn graph(&self, request: RequestId) -> &CellGraph {
        &self.graphs[request.index()]
    }

    /// The place of a node. Fails if the policy runs a node that does not exist, or runs it as another cell.
    pub fn place(&self, at: NodeRef, cell: CellId) -> Result<NodePlace, String> {
        task_checks::node_of_cell(self.graph(at.request), at.node, cell, &self.network)
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
            (RequestSlot::Done(_) | RequestSlot::Failed(_), _) => Err(None),
            (RequestSlot::Graph(nodes), CellGraph::Graph(graph)) => nodes
                .take(graph, at.node.0, self.width, states)
                .map_err(Some),
            (RequestSlot::Chain(chain), _) => {
                states.extend_from_slice(&chain.state);
                check_order(at.node.0, chain.done).map_err(Some)
            }
            (RequestSlot::Fresh | RequestSlot::Graph(_), _) => {
                check_order(at.node.0, 0).map_err(Some)
            }
        };
        if let Err(reason) = taken {
            if let Some(reason) = reason {
                slot.fail(reason);
            }
            let inputs = match self.graph(at.request) {
                CellGraph::Chains(_) => usize::from(at.node.0 > 0),
                CellGraph::Graph(graph) => graph.inputs(at.node.0).len(),
            };
            states.truncate(before);
            states.resize(before + inputs * self.width, 0.0);
        }
    }

    /// Stores a node's state, and the words written since the last stored state. The last node completes the request.
    pub fn put(&self, at: NodeRef, cell: CellId, state: &[f32], words: &[u32]) {
        let mut slot = self.slot(at.request);
        // Without a branch, the loop is a few vector instructions.
        let is_finite = state
            .iter()
            .fold(true, |finite, number| finite & number.is_finite());
        if !is_finite {
            let cell = self.network.cell_name(cell);
            return slot.fail(format!(
                "non-finite numbers in the state after node {} (cell {cell})",
                at.node
            ));
        }
        slot.begin(self.graph(at.request));
        let output = match (&mut *slot, self.graph(at.request)) {
            (RequestSlot::Graph(nodes), CellGraph::Graph(graph)) => {
                nodes.put(at.node.0, state, words);
                if nodes.places.left == 0 {
                    Some(nodes.output(graph, self.width))
                } else {
                    None
                }
            }
            (RequestSlot::Chain(chain), graph) => {
                chain.put(at.node.0, state, words);
                if u64::from(chain.done) == graph.nodes() {
                    Some(chain.output())
                } else {
                    None
                }
            }
            _ => None,
        };
        if let Some(output) = output {
            *slot = RequestSlot::Done(output.digest());
        }
    }

    /// Makes a request fail, unless it has ended.
    pub fn fail(&self, request: RequestId, reason: String) {
        self.slot(request).fail(reason);
    }

    /// Makes a request fail if its task did not run all of its nodes.
    pub fn expect_done(&self, request: RequestId) {
        let mut slot = self.slot(request);
        let nodes = self.graph(request).nodes();
        let left = match &*slot {
            RequestSlot::Fresh => nodes,
            RequestSlot::Chain(chain) => nodes - u64::from(chain.done),
            RequestSlot::Graph(graph) => u64::from(graph.places.left),
            RequestSlot::Done(_) | RequestSlot::Failed(_) => return,
        };
        slot.fail(task_checks::left_over(left, nodes));
    }

    /// Why a request failed, which is reported once.
    pub fn failure(&self, request: RequestId) -> Option<String> {
        match &mut *self.slot(request) {
            RequestSlot::Failed(reason) => reason.take().map(String::from),
            _ => None,
        }
    }

    /// The digest of a request's output, if it is done.
    pub fn digest(&self, request: RequestId) -> Option<u64> {
        match *self.slot(request) {
            RequestSlot::Done(digest) => Some(digest),
            _ => None,
        }
    }

    #[cfg(test)]
    pub fn is_fresh(&self, request: RequestId) -> bool {
        matches!(*self.slot(request), RequestSlot::Fresh)
    }

    fn slot(&self, request: RequestId) -> MutexGuard<'_, RequestSlot> {
        // No code under the lock panics in the middle of a change.
        self.slots[request.index()]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestSlot {
    fn begin(&mut self, graph: &CellGraph) {
        if let RequestSlot::Fresh = self {
            *self = match graph {
                CellGraph::Chains(_) => RequestSlot::Chain(Box::default()),
                CellGraph::Graph(graph) => {
                    let mut nodes = Box::<GraphStates>::default();
                    nodes.places.begin(graph);
                    RequestSlot::Graph(nodes)
                }
            };
        }
    }

    fn fail(&mut self, reason: String) {
        if !matches!(self, RequestSlot::Done(_) | RequestSlot::Failed(_)) {
            *self = RequestSlot::Failed(Some(reason.into()));
        }
    }
}

impl ChainState {
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

impl GraphStates {
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
            .flat_map(|node| &self.states[self.places.place(node) as usize * width..][..width])
            .copied()
            .collect();
        self.words.sort_unstable_by_key(|(node, _)| *node);
        Output {
            state,
            words: self.words.iter().map(|(_, word)| *word).collect(),
        }
    }
}
