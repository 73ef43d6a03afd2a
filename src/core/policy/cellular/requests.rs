//! The requests in the system, and which of their subgraphs are free to run.

use std::hint::black_box;
use std::iter;
use std::ops::{Index, Range};
use std::sync::Arc;

use crate::base::units::{CellId, Nanos, NodeId, RequestId, TaskId};
use crate::core::policy::Outcomes;
use crate::core::task::Part;
use crate::core::workload::cell_graph::tree::Tree;
use crate::core::workload::cell_graph::{CellGraph, CellRun, CellRuns, SharedGraph};
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
    Tree(TreeState),
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

/// Consecutive leaves of a tree, or one leaf of a tree whose graph is listed. Each is a subgraph of its own.
#[derive(Clone, Copy, Debug)]
pub struct Leaves {
    /// The place of the first leaf in the order of release, over all queues. The others follow it.
    pub released: u64,
    pub key: RequestKey,
    /// The number of the tree's leaves before these, or the leaf of a listed graph.
    pub first: u32,
    pub count: u32,
}

impl Leaves {
    /// Takes leaves from the front, as many as there are up to `max`.
    pub fn split_off(&mut self, max: usize) -> Leaves {
        let count = max.min(self.count as usize) as u32;
        let taken = Leaves { count, ..*self };
        self.released += u64::from(count);
        self.first += count;
        self.count -= count;
        taken
    }
}

struct GraphState {
    graph: SharedGraph,
    /// The number of unsubmitted inputs of each node within its subgraph.
    inner_missing: Vec<u32>,
    /// The number of incomplete inputs of each subgraph from other subgraphs.
    outer_missing: Vec<u32>,
    nodes_left: u32,
    /// The last completed task, and the request's first position in it.
    last_task: (TaskId, usize),
}

impl GraphState {
    fn new(graph: &SharedGraph) -> GraphState {
        let mut new = GraphState {
            graph: graph.clone(),
            inner_missing: Vec::new(),
            outer_missing: Vec::new(),
            nodes_left: 0,
            last_task: (TaskId(u64::MAX), 0),
        };
        new.begin(graph);
        new
    }

    fn begin(&mut self, graph: &SharedGraph) {
        self.graph = graph.clone();
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

/// The state of a tree, whose subgraphs are each leaf, and all inner nodes together.
struct TreeState {
    tree: Arc<Tree>,
    /// The number of leaves that have not completed.
    leaves_left: u32,
    /// The number of inner nodes that have not completed.
    inner_left: u32,
    /// The number of unsubmitted children of each inner node that are inner nodes, with [`IS_INNER`]. Leaves have 0. The
    /// list is empty until the leaves have completed.
    missing: Vec<u32>,
}

/// The bit that tells inner nodes without missing children from leaves.
const IS_INNER: u32 = 1 << 31;

impl TreeState {
    fn new(tree: &Arc<Tree>) -> TreeState {
        let leaves = tree.leaves() as u32;
        TreeState {
            tree: Arc::clone(tree),
            leaves_left: leaves,
            inner_left: tree.len() as u32 - leaves,
            missing: Vec::new(),
        }
    }

    /// Counts the children that each inner node misses after the leaves have completed.
    fn count_missing(&mut self) {
        let parents = self.tree.parents();
        let missing = &mut self.missing;
        missing.extend(iter::repeat_n(0, parents.len()));
        // No branch depends on the form of the tree, which the processor could not guess.
        for &parent in parents {
            if parent != Tree::NO_PARENT {
                missing[parent as usize] = IS_INNER;
            }
        }
        for (node, &parent) in parents.iter().enumerate() {
            if parent != Tree::NO_PARENT {
                missing[parent as usize] += u32::from(missing[node] >= IS_INNER);
            }
        }
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
    /// Empty lists of missing children, kept for their memory.
    spare: Vec<Vec<u32>>,
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
            GraphRest::Tree(_) => unreachable!("the inner nodes of a tree are no chain"),
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

    /// The subgraph as a leaf of a tree whose graph is listed.
    pub fn leaf(&self) -> Leaves {
        let GraphRest::Graph(state) = &self.state.rest else {
            unreachable!("trees release their leaves together")
        };
        Leaves {
            released: self.order,
            key: self.key,
            first: state.graph.entries(self.subgraph)[0],
            count: 1,
        }
    }

    /// Appends the nodes that are ready, ascending. Returns the number of the subgraph's nodes.
    pub fn list_entries(&self, ready: &mut Vec<u32>) -> u32 {
        match &self.state.rest {
            GraphRest::Runs { .. } => unreachable!("chains have a queue of their own"),
            GraphRest::Graph(state) => {
                ready.extend_from_slice(state.graph.entries(self.subgraph));
                state.graph.subgraphs()[self.subgraph as usize].nodes
            }
            GraphRest::Tree(state) => {
                // Every node is written, and the next one takes its place if it is not ready: no branch to guess.
                let mut end = ready.len();
                ready.extend(iter::repeat_n(0, state.missing.len()));
                for (node, missing) in (0..).zip(&state.missing) {
                    ready[end] = node;
                    end += usize::from(*missing == IS_INNER);
                }
                ready.truncate(end);
                state.inner_left
            }
        }
    }

    /// The request, if this subgraph can be the first to run. One that waits for another is not.
    pub fn begins(&self) -> Option<RequestId> {
        let waits = match &self.state.rest {
            GraphRest::Runs { .. } => unreachable!("chains have a queue of their own"),
            GraphRest::Graph(state) => {
                state.graph.subgraphs()[self.subgraph as usize].outer_inputs > 0
            }
            GraphRest::Tree(_) => true,
        };
        (!waits).then_some(self.state.request)
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
            GraphRest::Graph(_) | GraphRest::Tree(_) => unreachable!("a graph has no runs"),
        }
    }

    fn cell(&self, subgraph: u32) -> CellId {
        match &self.rest {
            GraphRest::Graph(state) => state.graph.subgraphs()[subgraph as usize].cell,
            GraphRest::Runs { .. } => self.present_run().0.cell,
            GraphRest::Tree(_) => Tree::INNER,
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

    /// Releases the leaves of a request that is a tree.
    pub fn release_leaves(&mut self, request: &Request<'_>, tree: &Arc<Tree>) -> Leaves {
        let key = self.begin(request);
        self.states[key as usize].rest = GraphRest::Tree(TreeState::new(tree));
        let count = tree.leaves() as u32;
        let released = self.last_release + 1;
        self.last_release += u64::from(count);
        Leaves {
            released,
            key,
            first: 0,
            count,
        }
    }

    /// Takes in a request that has subgraphs. [`LiveRequests::release`] passes on those that are free.
    pub fn arrive(&mut self, request: &Request<'_>) {
        let key = self.begin(request);
        let state = &mut self.states[key as usize];
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

    /// A place for the state of a request.
    fn begin(&mut self, request: &Request<'_>) -> RequestKey {
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
        key
    }

    /// Submits nodes of a subgraph, given by their places among the ready ones, and appends those that become ready.
    pub fn submit_nodes(&mut self, key: RequestKey, places: Range<usize>, ready: &mut Vec<u32>) {
        match &mut self.states[key as usize].rest {
            GraphRest::Runs { .. } => unreachable!("chains have a queue of their own"),
            GraphRest::Graph(state) => {
                let GraphState {
                    graph,
                    inner_missing,
                    ..
                } = &mut **state;
                let subgraph_of = graph.subgraph_of();
                for place in places {
                    let node = ready[place];
                    for &next in graph.successors(node) {
                        if subgraph_of[next as usize] == subgraph_of[node as usize] {
                            inner_missing[next as usize] -= 1;
                            if inner_missing[next as usize] == 0 {
                                ready.push(next);
                            }
                        }
                    }
                }
            }
            GraphRest::Tree(state) => {
                let parents = state.tree.parents();
                // As in `list_entries`, there is no branch to guess.
                let mut end = ready.len();
                ready.extend(iter::repeat_n(0, places.len()));
                for place in places {
                    let parent = parents[ready[place] as usize];
                    if parent == Tree::NO_PARENT {
                        continue;
                    }
                    let missing = &mut state.missing[parent as usize];
                    *missing -= 1;
                    ready[end] = parent;
                    end += usize::from(*missing == IS_INNER);
                }
                ready.truncate(end);
            }
        }
    }

    /// Visits leaves of trees.
    pub fn visit_leaves(&self, leaves: &[Leaves], visit: &mut dyn FnMut(Part)) {
        for one in leaves {
            let RequestState { request, rest, .. } = &self.states[one.key as usize];
            let mut visit_node = |node| {
                visit(Part {
                    request: *request,
                    from: NodeId(node),
                    to: NodeId(node + 1),
                });
            };
            let GraphRest::Tree(state) = rest else {
                visit_node(one.first);
                continue;
            };
            let cells = state.tree.graph().cells();
            let nodes = (0..).zip(cells).filter(|(_, cell)| **cell == Tree::LEAF);
            let own = nodes.skip(one.first as usize).take(one.count as usize);
            own.for_each(|(node, _)| visit_node(node));
        }
    }

    /// Completes the leaves of a task: subgraphs become free, or requests are finished.
    pub fn complete_leaves(&mut self, leaves: &[Leaves], task: TaskId, outcomes: &mut Outcomes) {
        for (position, one) in leaves.iter().enumerate() {
            if matches!(self.states[one.key as usize].rest, GraphRest::Tree(_)) {
                self.complete_leaves_of_tree(one, position, outcomes);
            } else {
                self.complete_node(one.key, one.first, task, position, outcomes);
            }
        }
    }

    fn complete_leaves_of_tree(
        &mut self,
        leaves: &Leaves,
        position: usize,
        outcomes: &mut Outcomes,
    ) {
        let state = &mut self.states[leaves.key as usize];
        let GraphRest::Tree(rest) = &mut state.rest else {
            unreachable!("leaves are those of a tree")
        };
        rest.leaves_left -= leaves.count;
        if rest.leaves_left > 0 {
            return;
        }
        if rest.inner_left == 0 {
            outcomes.finish(state.request);
            self.vacant.push(leaves.key);
        } else {
            rest.missing = self.spare.pop().unwrap_or_default();
            rest.count_missing();
            self.released.push((position, 0, leaves.key));
        }
    }

    /// Completes nodes of a subgraph at this position of a task: subgraphs become free, or the request is finished.
    pub fn complete_nodes(
        &mut self,
        key: RequestKey,
        nodes: &[u32],
        task: TaskId,
        position: usize,
        outcomes: &mut Outcomes,
    ) {
        let state = &mut self.states[key as usize];
        let GraphRest::Tree(rest) = &mut state.rest else {
            for &node in nodes {
                self.complete_node(key, node, task, position, outcomes);
            }
            return;
        };
        rest.inner_left -= nodes.len() as u32;
        if rest.inner_left == 0 {
            let mut spare = std::mem::take(&mut rest.missing);
            spare.clear();
            self.spare.push(spare);
            outcomes.finish(state.request);
            self.vacant.push(key);
        }
    }

    /// Completes a node at this position of a task: subgraphs become free, or the request is finished.
    fn complete_node(
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
    #[inline]
    pub fn complete_chain(
        &mut self,
        chain: &EndedChain,
        task: TaskId,
        position: usize,
        outcomes: &mut Outcomes,
    ) {
        if chain.key == NO_STATE {
            outcomes.finish(chain.request);
        } else {
            self.complete_run(chain, task, position, outcomes);
        }
    }

    /// Completes a chain of a request that has more nodes.
    fn complete_run(
        &mut self,
        chain: &EndedChain,
        task: TaskId,
        position: usize,
        outcomes: &mut Outcomes,
    ) {
        let state = &mut self.states[chain.key as usize];
        let ends = match &mut state.rest {
            GraphRest::Tree(_) => unreachable!("the leaves of a tree have a queue of their own"),
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

#[cfg(test)]
mod tests {
    use rand::RngExt as _;

    use super::*;
    use crate::core::workload::random;

    /// The parents of a random tree whose nodes are in random order.
    fn random_parents(nodes: usize, rng: &mut random::RandomSequence) -> Vec<u32> {
        let mut numbers: Vec<u32> = (1..=nodes as u32).collect();
        for node in 0..nodes {
            numbers.swap(node, rng.random_range(node..nodes));
        }
        let mut parents = vec![0; nodes];
        for node in 1..nodes {
            parents[numbers[node] as usize - 1] = numbers[rng.random_range(0..node)];
        }
        parents
    }

    #[test]
    fn the_inner_nodes_of_a_tree_are_as_ready_as_those_of_its_graph() {
        let mut rng = random::sequence(1, 0, "trees");
        for case in 0..200 {
            let parents = random_parents(2 + case % 12, &mut rng);
            let tree = Arc::new(Tree::from_parents(&parents).unwrap());
            let graph = tree.graph();
            let mut state = TreeState::new(&tree);
            state.count_missing();
            for node in 0..tree.len() {
                let is_inner = graph.cells()[node] == Tree::INNER;
                let missing = graph.inner_inputs()[node] | if is_inner { IS_INNER } else { 0 };
                assert_eq!(state.missing[node], missing, "{tree}");
            }
            let leaves = graph
                .subgraphs()
                .iter()
                .filter(|part| part.outer_inputs == 0);
            assert_eq!(leaves.count() as u32, state.leaves_left, "{tree}");
            let inner = graph.subgraphs().iter().find(|part| part.outer_inputs > 0);
            assert_eq!(inner.unwrap().nodes, state.inner_left, "{tree}");
        }
    }
}
