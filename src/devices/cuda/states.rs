//! The states of the requests: which slot of a worker's pool has each state. This is decided when nodes are queued, ahead
//! of the device.
//!
//! A request returns its slots after its last task is done: only then is it known whether its values were finite. Each
//! request ends here exactly once, done or with the reason why it failed.

use std::sync::Arc;

use super::device::{Device, HostPlace, Row, Slot};
use super::kept::Kept;
use super::slots::{Chain, Gathering, Held, Launch, Nodes, Pools};
use super::streams::{Member, Streams};
use crate::base::units::{CellId, NodeId, RequestId};
use crate::core::backend::Output;
use crate::core::task::NodeRef;
use crate::core::workload::cell_graph::CellGraph;
use crate::devices::network::Network;
use crate::devices::network::operators::Operators;
use crate::devices::shared;

#[derive(Debug)]
pub struct States {
    pub graphs: Arc<[CellGraph]>,
    pub network: Arc<Network>,
    kept: Kept,
    pub pools: Pools,
    requests: Vec<State>,
    /// Slots of failed requests that still have queued work.
    retiring: Vec<Held>,
    /// Slots of requests that failed with a lost worker. Streams no longer wait for that worker, so the order of their
    /// uses is unknown; they are kept until no task is in flight anywhere.
    orphaned: Vec<Held>,
    #[allow(clippy::vec_box)] // the boxes themselves are used again
    spare: Vec<Box<Nodes>>,
}

#[derive(Debug)]
enum State {
    Fresh,
    Chain(Chain),
    Graph(Box<Nodes>),
    Done,
    /// Why it has no output; taken when it is reported.
    Failed(Option<Box<str>>),
}

impl States {
    pub fn new(
        graphs: Arc<[CellGraph]>,
        network: Arc<Network>,
        kept: Kept,
        pools: Pools,
    ) -> States {
        let requests = graphs.iter().map(|_| State::Fresh).collect();
        States {
            graphs,
            network,
            kept,
            pools,
            requests,
            retiring: Vec::new(),
            orphaned: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Adds the row of a node to a batch. Fails with the reason why the request has to fail, or with `None` if it has
    /// ended already.
    pub fn take(
        &mut self,
        at: NodeRef,
        cell: CellId,
        batch: &mut Gathering,
    ) -> Result<Member, Option<String>> {
        let before = (
            batch.inputs.len(),
            batch.migrations.len(),
            batch.vacated.len(),
        );
        let taken = self.take_or_not(at, cell, batch);
        if taken.is_err() {
            batch.inputs.truncate(before.0);
            batch.migrations.truncate(before.1);
            batch.vacated.truncate(before.2);
        }
        taken
    }

    /// The same, but leaves what it has added before it fails.
    fn take_or_not(
        &mut self,
        at: NodeRef,
        cell: CellId,
        batch: &mut Gathering,
    ) -> Result<Member, Option<String>> {
        let States {
            graphs,
            network,
            kept,
            pools,
            requests,
            spare,
            ..
        } = self;
        let (graph, state) = (
            &graphs[at.request.index()],
            &mut requests[at.request.index()],
        );
        if matches!(state, State::Done | State::Failed(_)) {
            return Err(None);
        }
        // The operand of an operator is gathered anew for each node, even if the same operator follows.
        let last = match network.operators() {
            Some(operators) if operators.network().cell_at(at.node) == Some(cell) => at.node.0,
            _ => {
                shared::node_of_cell(graph, at.node, cell, network)?
                    .run_end
                    .0
            }
        };
        if let State::Fresh = state {
            *state = match graph {
                CellGraph::Chains(_) => {
                    let tokens = network.operators().map_or(0, |_| Operators::tokens(graph));
                    State::Chain(Chain::new(tokens))
                }
                CellGraph::Graph(graph) => {
                    let mut nodes = spare.pop().unwrap_or_default();
                    nodes.begin(graph);
                    State::Graph(nodes)
                }
            };
        }
        let (state, tokens, ends) = match (state, graph) {
            (State::Chain(chain), _) => (
                chain.take(at, pools, batch)?,
                chain.tokens,
                u64::from(last) + 1 == graph.nodes(),
            ),
            (State::Graph(nodes), CellGraph::Graph(graph)) => (
                nodes.take(graph, at, pools, batch)?,
                0,
                nodes.places.left == 0,
            ),
            _ => unreachable!("a state is of its graph's kind"),
        };
        let NodeRef {
            request,
            node: NodeId(node),
        } = at;
        let (words, inputs_end) = (kept.words(request), batch.inputs.len() as u32);
        batch.rows.push(Row {
            request,
            node,
            last,
            state,
            words,
            tokens,
            inputs_end,
        });
        Ok(Member {
            request,
            node,
            last,
            ends,
        })
    }

    /// Whether a node is the next of a chain.
    pub fn goes_on(&self, at: NodeRef) -> bool {
        matches!(&self.requests[at.request.index()], State::Chain(chain) if chain.done == at.node.0)
    }

    /// A row has continued to this node without a gather.
    pub fn advance(&mut self, at: NodeRef, launch: &Launch) {
        if let State::Chain(chain) = &mut self.requests[at.request.index()] {
            chain.advance(at.node, launch);
        }
    }

    /// Frees the states that are no longer needed after the queued launch, for later nodes of their requests.
    pub fn vacate(&mut self, batch: &mut Gathering) {
        for (request, place) in batch.vacated.drain(..) {
            if let State::Graph(nodes) = &mut self.requests[request.index()] {
                nodes.vacant.push(place);
            }
        }
    }

    /// The slot of a row's last state and its place on the host, if that state is kept.
    pub fn wanted(&self, row: &Member) -> Option<(Slot, HostPlace)> {
        let (graph, state) = (
            &self.graphs[row.request.index()],
            &self.requests[row.request.index()],
        );
        let slot = match (state, graph) {
            (State::Chain(chain), _) if row.has_ended() || self.network.operators().is_some() => {
                chain.current().slot
            }
            (State::Graph(nodes), CellGraph::Graph(graph))
                if graph.successors(row.node).is_empty() =>
            {
                nodes.held[nodes.places.of(row.node) as usize].slot
            }
            _ => return None,
        };
        self.kept
            .place(row.request, row.node)
            .map(|place| (slot, place))
    }

    /// Ends a request whose last task is done.
    pub fn finish(&mut self, request: RequestId, device: &mut impl Device) {
        let before = self.retiring.len();
        self.end(request, State::Done);
        let mut non_finite = false;
        for held in self.retiring.drain(before..) {
            non_finite |= held.give_back(&mut self.pools, device);
        }
        if non_finite {
            let reason = "non-finite numbers in a state of the request";
            self.requests[request.index()] = State::Failed(Some(reason.into()));
        }
    }

    /// Makes a request fail, unless it has ended.
    pub fn fail(&mut self, request: RequestId, reason: String) {
        self.end(request, State::Failed(Some(reason.into())));
    }

    /// Ends a request, unless it has ended; its slots retire.
    fn end(&mut self, request: RequestId, ended: State) {
        let state = &mut self.requests[request.index()];
        if matches!(state, State::Done | State::Failed(_)) {
            return;
        }
        match std::mem::replace(state, ended) {
            State::Chain(chain) => self.retiring.extend(chain.held),
            State::Graph(mut nodes) => {
                self.retiring.append(&mut nodes.held);
                self.spare.push(nodes);
            }
            State::Fresh | State::Done | State::Failed(_) => {}
        }
    }

    /// Makes a request fail if its task did not queue all of its nodes.
    pub fn expect_done(&mut self, request: RequestId) {
        let nodes = self.graphs[request.index()].nodes();
        let left = match &self.requests[request.index()] {
            State::Fresh => nodes,
            State::Chain(chain) => nodes - u64::from(chain.done),
            State::Graph(graph) => u64::from(graph.places.left),
            State::Done | State::Failed(_) => 0,
        };
        if left > 0 {
            self.fail(request, shared::left_over(left, nodes));
        }
    }

    /// Treats the failed requests as lost with a worker.
    pub fn orphan(&mut self) {
        self.orphaned.append(&mut self.retiring);
    }

    /// Returns the slots of failed requests that have no queued work any more.
    pub fn retire(&mut self, streams: &Streams, device: &mut impl Device) {
        let pools = &mut self.pools;
        let orphaned = &mut self.orphaned;
        self.retiring.retain(|held| {
            let over = streams.is_over(held.used);
            match over {
                // A use on a lost stream counts as over, which says nothing about the uses before it.
                true if streams.is_lost(held.used.stream) => orphaned.push(*held),
                true => drop(held.give_back(pools, device)),
                false => {}
            }
            !over
        });
        if !self.orphaned.is_empty() && !streams.are_busy() {
            for held in self.orphaned.drain(..) {
                held.give_back(pools, device);
            }
        }
    }

    /// Why a request failed; reported once.
    pub fn failure(&mut self, request: RequestId) -> Option<String> {
        match &mut self.requests[request.index()] {
            State::Failed(reason) => reason.take().map(String::from),
            _ => None,
        }
    }

    /// The output of a request that is kept and done.
    pub fn output(&self, request: RequestId, device: &impl Device) -> Option<Output> {
        match self.requests[request.index()] {
            State::Done => self
                .kept
                .output(request, &self.graphs[request.index()], device),
            _ => None,
        }
    }
}
