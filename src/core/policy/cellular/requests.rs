//! The requests in the system, and which of their subgraphs are free to run.

use std::hint::black_box;
use std::ops::Index;
use std::sync::Arc;

use crate::base::units::{CellId, Nanos, NodeId, RequestId, TaskId};
use crate::core::policy::Outcomes;
use crate::core::workload::cell_graph::{CellGraph, Graph, Run, Runs};
use crate::core::workload::trace::Request;

pub type RequestKey = u32;

/// Fills a cache line, so that none lies across two.
#[repr(align(64))]
pub struct RequestState {
    pub request: RequestId,
    pub arrival: Nanos,
    rest: Rest,
}

enum Rest {
    Run(Run),
    /// Several; `before` counts the nodes before the present run.
    Runs {
        runs: Runs,
        present: u32,
        before: u32,
    },
    /// In a box, so that the state of a chain is small.
    Graph(Box<GraphState>),
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

impl GraphState {
    fn new(graph: &Arc<Graph>) -> GraphState {
        let mut new = GraphState {
            graph: Arc::clone(graph),
            inner_missing: Vec::new(),
            outer_missing: Vec::new(),
            nodes_left: 0,
            seen: (TaskId(u64::MAX), 0),
        };
        new.begin(graph);
        new
    }

    fn begin(&mut self, graph: &Arc<Graph>) {
        self.graph = Arc::clone(graph);
        self.inner_missing.clear();
        self.inner_missing.extend_from_slice(graph.inner_inputs());
        self.outer_missing.clear();
        self.outer_missing.extend(
            graph
                .subgraphs()
                .iter()
                .map(|subgraph| subgraph.outer_inputs),
        );
        self.nodes_left = graph.len() as u32;
        self.seen = (TaskId(u64::MAX), 0);
    }
}

/// A chain that ends with a task.
#[derive(Clone, Copy, Debug)]
pub struct EndedChain {
    pub key: RequestKey,
    pub last: NodeId,
}

pub struct Released<'a> {
    /// Place in the order of release, over all queues.
    pub order: u64,
    pub key: RequestKey,
    pub subgraph: u32,
    pub state: &'a RequestState,
}

#[derive(Default)]
pub struct RequestStates {
    states: Vec<RequestState>,
    vacant: Vec<RequestKey>,
    /// The position in the completed task, the subgraph, the request.
    released: Vec<(usize, u32, RequestKey)>,
    /// The place of the last one in the order of release; the first has 1.
    last_release: u64,
}

impl Index<RequestKey> for RequestStates {
    type Output = RequestState;

    fn index(&self, key: RequestKey) -> &RequestState {
        &self.states[key as usize]
    }
}

impl RequestState {
    /// The present run, and the number of nodes before it.
    fn present(&self) -> (&Run, u32) {
        match &self.rest {
            Rest::Run(run) => (run, 0),
            Rest::Runs {
                runs,
                present,
                before,
            } => (&runs[*present as usize], *before),
            Rest::Graph(_) => unreachable!("a graph has no runs"),
        }
    }

    /// Length and input size of the present run.
    pub fn run(&self) -> (u32, u32) {
        match &self.rest {
            Rest::Graph(_) => (1, 0),
            _ => (self.present().0.length, self.present().0.input),
        }
    }

    pub fn last_node(&self, subgraph: u32) -> NodeId {
        match &self.rest {
            Rest::Graph(state) => NodeId(state.graph.entries(subgraph)[0]),
            _ => {
                let (run, before) = self.present();
                NodeId(before + run.length - 1)
            }
        }
    }

    pub fn graph(&self) -> &Arc<Graph> {
        let Rest::Graph(state) = &self.rest else {
            unreachable!("chains have a queue of their own")
        };
        &state.graph
    }

    fn cell(&self, subgraph: u32) -> CellId {
        match &self.rest {
            Rest::Graph(state) => state.graph.subgraphs()[subgraph as usize].cell,
            _ => self.present().0.cell,
        }
    }
}

impl RequestStates {
    pub fn arrive(&mut self, request: &Request<'_>) {
        let (id, arrival) = (request.id, request.arrival);
        let key = self.vacant.pop().unwrap_or(self.states.len() as RequestKey);
        if key as usize == self.states.len() {
            let rest = Rest::Run(Run {
                cell: CellId(0),
                length: 0,
                input: 0,
            });
            self.states.push(RequestState {
                request: id,
                arrival,
                rest,
            });
        }
        let state = &mut self.states[key as usize];
        (state.request, state.arrival) = (id, arrival);
        match request.graph {
            CellGraph::Chains(runs) => {
                // Most requests are one run. It is written in place, field by field.
                state.rest = match runs {
                    Runs::One([run]) => Rest::Run(*run),
                    _ => Rest::Runs {
                        runs: runs.clone(),
                        present: 0,
                        before: 0,
                    },
                };
                self.released.push((0, 0, key));
            }
            CellGraph::Graph(graph) => {
                match &mut state.rest {
                    // Reuse the memory of this place's last request.
                    Rest::Graph(last) => last.begin(graph),
                    rest => *rest = Rest::Graph(Box::new(GraphState::new(graph))),
                }
                let free = (0..)
                    .zip(graph.subgraphs())
                    .filter(|(_, subgraph)| subgraph.outer_inputs == 0);
                self.released
                    .extend(free.map(|(subgraph, _)| (0, subgraph, key)));
            }
        }
    }

    /// By node, unsubmitted inputs within its subgraph.
    pub fn inner_missing(&mut self, key: RequestKey) -> &mut [u32] {
        let Rest::Graph(state) = &mut self.states[key as usize].rest else {
            unreachable!("a chain has none")
        };
        &mut state.inner_missing
    }

    pub fn node_done(
        &mut self,
        key: RequestKey,
        node: u32,
        task: TaskId,
        position: usize,
        outcomes: &mut Outcomes,
    ) {
        let state = &mut self.states[key as usize];
        let Rest::Graph(rest) = &mut state.rest else {
            unreachable!("chains end as a whole")
        };
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
    pub fn load(&self, chains: &[EndedChain]) {
        black_box(chains.iter().fold(0, |all, chain| {
            all ^ self.states[chain.key as usize].request.0
        }));
    }

    pub fn chain_done(
        &mut self,
        chain: &EndedChain,
        task: TaskId,
        position: usize,
        outcomes: &mut Outcomes,
    ) {
        let state = &mut self.states[chain.key as usize];
        let ends = match &mut state.rest {
            Rest::Graph(_) => {
                return self.node_done(chain.key, chain.last.0, task, position, outcomes);
            }
            Rest::Run(_) => true,
            Rest::Runs {
                runs,
                present,
                before,
            } => {
                *before += runs[*present as usize].length;
                *present += 1;
                *present as usize == runs.len()
            }
        };
        if ends {
            outcomes.finish(state.request);
            self.vacant.push(chain.key);
        } else {
            self.released.push((position, 0, chain.key));
        }
    }

    /// In the order of positions in the completed task, then by number.
    pub fn release(&mut self, mut queue: impl FnMut(CellId, &Released<'_>)) {
        self.released.sort_unstable();
        for (_, subgraph, key) in self.released.drain(..) {
            let state = &self.states[key as usize];
            self.last_release += 1;
            queue(
                state.cell(subgraph),
                &Released {
                    order: self.last_release,
                    key,
                    subgraph,
                    state,
                },
            );
        }
    }
}
