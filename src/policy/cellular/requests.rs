//! The requests in the system, and which of their subgraphs are free to run.

use std::hint::black_box;
use std::ops::Index;
use std::sync::Arc;

use smallvec::SmallVec;

use super::chain::Running;
use crate::policy::Outcomes;
use crate::units::{CellId, Nanos, NodeId, RequestId, TaskId};
use crate::workload::cell_graph::{CellGraph, Graph, Run};
use crate::workload::trace::Request;

pub type RequestKey = u32;

pub struct RequestState {
    pub request: RequestId,
    pub arrival: Nanos,
    rest: Rest,
}

enum Rest {
    /// The present run first; `before` counts the nodes before it.
    Runs {
        left: SmallVec<[Run; 2]>,
        before: u32,
    },
    Graph(GraphState),
}

struct GraphState {
    graph: Arc<Graph>,
    /// By node, unsubmitted inputs within its subgraph.
    inner_missing: Vec<u32>,
    /// By subgraph, incomplete inputs from others.
    outer_missing: Vec<u32>,
    nodes_left: u32,
    /// The last completed task, and the request's first position in it.
    seen: (TaskId, usize),
}

pub struct Released<'a> {
    /// Place in the order of release, over all queues.
    pub order: u64,
    pub key: RequestKey,
    pub subgraph: u32,
    pub state: &'a RequestState,
}

#[derive(Default)]
pub struct Requests {
    states: Vec<RequestState>,
    vacant: Vec<RequestKey>,
    /// The position in the completed task, the subgraph, the request.
    released: Vec<(usize, u32, RequestKey)>,
    /// The place of the last one in the order of release; the first has 1.
    last_release: u64,
}

impl Index<RequestKey> for Requests {
    type Output = RequestState;

    fn index(&self, key: RequestKey) -> &RequestState {
        &self.states[key as usize]
    }
}

impl RequestState {
    /// Length and input size of the present run.
    pub fn run(&self) -> (u32, u32) {
        match &self.rest {
            Rest::Runs { left, .. } => (left[0].length, left[0].input),
            Rest::Graph(_) => (1, 0),
        }
    }

    pub fn last_node(&self, subgraph: u32) -> NodeId {
        match &self.rest {
            Rest::Runs { left, before } => NodeId(before + left[0].length - 1),
            Rest::Graph(state) => NodeId(state.graph.entries(subgraph)[0]),
        }
    }

    pub fn graph(&self) -> &Arc<Graph> {
        let Rest::Graph(state) = &self.rest else { unreachable!("chains have a queue of their own") };
        &state.graph
    }

    fn cell(&self, subgraph: u32) -> CellId {
        match &self.rest {
            Rest::Runs { left, .. } => left[0].cell,
            Rest::Graph(state) => state.graph.subgraphs()[subgraph as usize].cell,
        }
    }
}

impl Requests {
    pub fn arrive(&mut self, request: &Request<'_>) {
        let reused = self.vacant.pop();
        let key = reused.unwrap_or(self.states.len() as RequestKey);
        let rest = match request.graph {
            CellGraph::Chains(runs) => {
                self.released.push((0, 0, key));
                Rest::Runs { left: SmallVec::from_slice(runs), before: 0 }
            }
            CellGraph::Graph(graph) => {
                // Reuse the counters of this place's last request.
                let (mut inner_missing, mut outer_missing) = match reused.map(|key| &mut self.states[key as usize].rest)
                {
                    Some(Rest::Graph(old)) => {
                        (std::mem::take(&mut old.inner_missing), std::mem::take(&mut old.outer_missing))
                    }
                    _ => Default::default(),
                };
                inner_missing.clear();
                inner_missing.extend_from_slice(graph.inner_inputs());
                outer_missing.clear();
                outer_missing.extend(graph.subgraphs().iter().map(|part| part.outer_inputs));
                let free = (0..outer_missing.len()).filter(|s| outer_missing[*s] == 0);
                self.released.extend(free.map(|subgraph| (0, subgraph as u32, key)));
                Rest::Graph(GraphState {
                    graph: Arc::clone(graph),
                    inner_missing,
                    outer_missing,
                    nodes_left: graph.len() as u32,
                    seen: (TaskId(u64::MAX), 0),
                })
            }
        };
        let state = RequestState { request: request.id, arrival: request.arrival, rest };
        match reused {
            Some(key) => self.states[key as usize] = state,
            None => self.states.push(state),
        }
    }

    /// By node, unsubmitted inputs within its subgraph.
    pub fn inner_missing(&mut self, key: RequestKey) -> &mut [u32] {
        let Rest::Graph(state) = &mut self.states[key as usize].rest else { unreachable!("a chain has none") };
        &mut state.inner_missing
    }

    pub fn node_done(&mut self, key: RequestKey, node: u32, task: TaskId, position: usize, outcomes: &mut Outcomes) {
        let state = &mut self.states[key as usize];
        let Rest::Graph(rest) = &mut state.rest else { unreachable!("chains end as a whole") };
        if rest.seen.0 != task {
            rest.seen = (task, position);
        }
        let home = rest.graph.subgraph_of()[node as usize];
        for &next in rest.graph.successors(node) {
            let subgraph = rest.graph.subgraph_of()[next as usize];
            if subgraph != home {
                rest.outer_missing[subgraph as usize] -= 1;
                if rest.outer_missing[subgraph as usize] == 0 {
                    self.released.push((rest.seen.1, subgraph, key));
                }
            }
        }
        rest.nodes_left -= 1;
        if rest.nodes_left == 0 {
            outcomes.finish(state.request);
            self.vacant.push(key);
        }
    }

    /// Loads states that are used next, all at once: each is far from the others in memory.
    pub fn load(&self, chains: &[Running]) {
        black_box(chains.iter().fold(0, |all, chain| all ^ self.states[chain.key as usize].request.0));
    }

    pub fn chain_done(&mut self, chain: &Running, task: TaskId, position: usize, outcomes: &mut Outcomes) {
        let state = &mut self.states[chain.key as usize];
        match &mut state.rest {
            Rest::Graph(_) => self.node_done(chain.key, chain.last.0, task, position, outcomes),
            Rest::Runs { left, before } => {
                *before += left.remove(0).length;
                if left.is_empty() {
                    outcomes.finish(state.request);
                    self.vacant.push(chain.key);
                } else {
                    self.released.push((position, 0, chain.key));
                }
            }
        }
    }

    /// In the order of positions in the completed task, then by number.
    pub fn release(&mut self, mut queue: impl FnMut(CellId, &Released<'_>)) {
        self.released.sort_unstable();
        for (_, subgraph, key) in self.released.drain(..) {
            let state = &self.states[key as usize];
            self.last_release += 1;
            queue(state.cell(subgraph), &Released { order: self.last_release, key, subgraph, state });
        }
    }
}
