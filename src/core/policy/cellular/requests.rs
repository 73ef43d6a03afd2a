//! The requests in the system, and which of their subgraphs are free to run.

use std::hint::black_box;
use std::ops::Index;
use std::sync::Arc;

use crate::base::units::{CellId, Nanos, NodeId, RequestId, TaskId};
use crate::core::policy::Outcomes;
use crate::core::workload::cell_graph::{CellGraph, CellRun, CellRuns, Graph};
use crate::core::workload::trace::Request;

/// The place of a request's state. Later requests reuse it.
pub type RequestKey = u32;

/// The key of a request that is one chain. It needs no state, because all that is asked about it is in its [`Chain`].
pub const NO_STATE: RequestKey = RequestKey::MAX;

/// The state of a request. It fills a cache line, so that no state lies across two.
#[repr(align(64))]
pub struct RequestState {
    pub request: RequestId,
    pub arrival: Nanos,
    rest: GraphRest,
}

/// The part of a request's graph that is not done.
enum GraphRest {
    /// Several runs; `before` counts the nodes before the present one.
    Runs {
        runs: CellRuns,
        present: u32,
        before: u32,
    },
    /// The state of a graph. It is in a box, so that the state of runs is small.
    Graph(Box<GraphState>),
}

/// A subgraph that is a chain, with all that its queue needs.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    /// The chain's place in the order of release, over all queues.
    pub released: u64,
    pub request: RequestId,
    pub arrival: Nanos,
    /// The request's state, or [`NO_STATE`].
    pub key: RequestKey,
    pub last: NodeId,
    /// The number of nodes.
    pub length: u32,
    /// The input size, or 0.
    pub input: u32,
}

struct GraphState {
    graph: Arc<Graph>,
    /// The number of unsubmitted inputs of each node within its subgraph.
    inner_missing: Vec<u32>,
    /// The number of incomplete inputs of each subgraph from other subgraphs.
    outer_missing: Vec<u32>,
    nodes_left: u32,
    /// The last completed task, and the request's first position in it.
    last_task: (TaskId, usize),
}

impl GraphState {
    fn new(graph: &Arc<Graph>) -> GraphState {
        let mut new = GraphState {
            graph: Arc::clone(graph),
            inner_missing: Vec::new(),
            outer_missing: Vec::new(),
            nodes_left: 0,
            last_task: (TaskId(u64::MAX), 0),
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
        self.last_task = (TaskId(u64::MAX), 0);
    }
}

/// A chain that ends with a task.
#[derive(Clone, Copy, Debug)]
pub struct EndedChain {
    pub request: RequestId,
    pub key: RequestKey,
    pub last: NodeId,
}

/// A subgraph that is free to run.
pub struct Released<'a> {
    /// The subgraph's place in the order of release, over all queues.
    pub order: u64,
    pub key: RequestKey,
    pub subgraph: u32,
    pub state: &'a RequestState,
}

/// The states of all requests in the system.
#[derive(Default)]
pub struct LiveRequests {
    states: Vec<RequestState>,
    vacant: Vec<RequestKey>,
    /// The subgraphs that have become free: the position in the completed task, the subgraph, the request.
    released: Vec<(usize, u32, RequestKey)>,
    /// The place of the last subgraph in the order of release; the first has 1.
    last_release: u64,
}

impl Index<RequestKey> for LiveRequests {
    type Output = RequestState;

    fn index(&self, key: RequestKey) -> &RequestState {
        &self.states[key as usize]
    }
}

impl Released<'_> {
    /// The subgraph as a chain. In a graph it is a single node.
    pub fn chain(&self) -> Chain {
        let (last, length, input) = match &self.state.rest {
            GraphRest::Graph(state) => (state.graph.entries(self.subgraph)[0], 1, 0),
            GraphRest::Runs { .. } => {
                let (run, before) = self.state.present_run();
                (before + run.length - 1, run.length, run.input)
            }
        };
        Chain {
            released: self.order,
            request: self.state.request,
            arrival: self.state.arrival,
            key: self.key,
            last: NodeId(last),
            length,
            input,
        }
    }
}

impl RequestState {
    /// The present run, and the number of nodes before it.
    fn present_run(&self) -> (&CellRun, u32) {
        match &self.rest {
            GraphRest::Runs {
                runs,
                present,
                before,
            } => (&runs[*present as usize], *before),
            GraphRest::Graph(_) => unreachable!("a graph has no runs"),
        }
    }

    pub fn graph(&self) -> &Arc<Graph> {
        let GraphRest::Graph(state) = &self.rest else {
            unreachable!("chains have a queue of their own")
        };
        &state.graph
    }

    fn cell(&self, subgraph: u32) -> CellId {
        match &self.rest {
            GraphRest::Graph(state) => state.graph.subgraphs()[subgraph as usize].cell,
            GraphRest::Runs { .. } => self.present_run().0.cell,
        }
    }
}

impl LiveRequests {
    /// Releases a request that is one chain.
    #[inline]
    pub fn release_run(&mut self, request: &Request<'_>, run: &CellRun) -> Chain {
        self.last_release += 1;
        Chain {
            released: self.last_release,
            request: request.id,
            arrival: request.arrival,
            key: NO_STATE,
            last: NodeId(run.length - 1),
            length: run.length,
            input: run.input,
        }
    }

    /// Takes in a request that has subgraphs. [`LiveRequests::release`] passes on those that are free.
    pub fn arrive(&mut self, request: &Request<'_>) {
        let key = self.vacant.pop().unwrap_or(self.states.len() as RequestKey);
        if key as usize == self.states.len() {
            self.states.push(RequestState {
                request: request.id,
                arrival: request.arrival,
                rest: GraphRest::Runs {
                    runs: CellRuns::Shared(Arc::new([])),
                    present: 0,
                    before: 0,
                },
            });
        }
        let state = &mut self.states[key as usize];
        state.request = request.id;
        state.arrival = request.arrival;
        match request.graph {
            CellGraph::Chains(runs) => {
                state.rest = GraphRest::Runs {
                    runs: runs.clone(),
                    present: 0,
                    before: 0,
                };
                self.released.push((0, 0, key));
            }
            CellGraph::Graph(graph) => {
                match &mut state.rest {
                    // Reuse the memory of this place's last request.
                    GraphRest::Graph(last) => last.begin(graph),
                    rest => *rest = GraphRest::Graph(Box::new(GraphState::new(graph))),
                }
                for (number, subgraph) in (0..).zip(graph.subgraphs()) {
                    if subgraph.outer_inputs == 0 {
                        self.released.push((0, number, key));
                    }
                }
            }
        }
    }

    /// The number of unsubmitted inputs of each node within its subgraph.
    pub fn inner_missing(&mut self, key: RequestKey) -> &mut [u32] {
        let GraphRest::Graph(state) = &mut self.states[key as usize].rest else {
            unreachable!("a chain has none")
        };
        &mut state.inner_missing
    }

    /// Completes a node at this position of a task: subgraphs become free, or the request is finished.
    pub fn complete_node(
        &mut self,
        key: RequestKey,
        node: u32,
        task: TaskId,
        position: usize,
        outcomes: &mut Outcomes,
    ) {
        let state = &mut self.states[key as usize];
        let GraphRest::Graph(rest) = &mut state.rest else {
            unreachable!("chains end as a whole")
        };
        if rest.last_task.0 != task {
            rest.last_task = (task, position);
        }
        let home = rest.graph.subgraph_of()[node as usize];
        for &next in rest.graph.successors(node) {
            let subgraph = rest.graph.subgraph_of()[next as usize];
            if subgraph != home {
                rest.outer_missing[subgraph as usize] -= 1;
                if rest.outer_missing[subgraph as usize] == 0 {
                    self.released.push((rest.last_task.1, subgraph, key));
                }
            }
        }
        rest.nodes_left -= 1;
        if rest.nodes_left == 0 {
            outcomes.finish(state.request);
            self.vacant.push(key);
        }
    }

    /// Loads the states that are used next into the cache, all at once, because each is far from the others in memory.
    pub fn load(&self, chains: &[EndedChain]) {
        let mut all = 0;
        for chain in chains {
            if chain.key != NO_STATE {
                all ^= self.states[chain.key as usize].request.0;
            }
        }
        black_box(all);
    }

    /// Completes a chain at this position of a task: the next one becomes free, or the request is finished.
    pub fn complete_chain(
        &mut self,
        chain: &EndedChain,
        task: TaskId,
        position: usize,
        outcomes: &mut Outcomes,
    ) {
        if chain.key == NO_STATE {
            outcomes.finish(chain.request);
            return;
        }
        let state = &mut self.states[chain.key as usize];
        let ends = match &mut state.rest {
            GraphRest::Graph(_) => {
                return self.complete_node(chain.key, chain.last.0, task, position, outcomes);
            }
            GraphRest::Runs {
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

    /// Passes on the subgraphs that have become free, in the order of positions in the completed task, then by number.
    pub fn release(&mut self, mut pass: impl FnMut(CellId, &Released<'_>)) {
        self.released.sort_unstable();
        for (_, subgraph, key) in self.released.drain(..) {
            let state = &self.states[key as usize];
            self.last_release += 1;
            pass(
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
