//! Where the states of the requests are: decided when their nodes are queued, ahead of the device.
//!
//! A chain holds one slot on each worker that it has been on, and its nodes take the state from there and put theirs there. Any
//! other graph holds a slot for each state that is still needed, and uses those again that are not. A request gives
//! its slots back when its last task is done: only then can it be told whether its numbers were any. Whatever happens,
//! a request ends here once, done or with the reason why it failed.

use std::sync::Arc;

use smallvec::SmallVec;

use super::device::{Device, HostPlace, Row, Slot};
use super::kept::Kept;
use super::rows::Member;
use super::slots::Pools;
use super::streams::{Streams, Use};
use crate::backend::shared::{self, in_order, run_before, run_twice};
use crate::network::Network;
use crate::network::operators::Operators;
use crate::network::reference::Output;
use crate::task::NodeRef;
use crate::units::{CellId, NodeId, RequestId, WorkerId};
use crate::workload::cell_graph::{CellGraph, Graph};

/// The states of all requests of a run.
#[derive(Debug)]
pub struct States {
    graphs: Arc<[CellGraph]>,
    network: Arc<Network>,
    kept: Kept,
    pools: Pools,
    requests: Vec<State>,
    /// Slots of requests that have failed, on which something is still queued.
    retiring: Vec<Held>,
    /// Those of requests that a lost worker took with it. Who waited for that worker waits no more, so that nothing is known
    /// of their order: they are left alone until nothing is in progress anywhere.
    orphaned: Vec<Held>,
    /// Those of requests that are over, kept for their memory.
    #[allow(clippy::vec_box)] // the boxes themselves are used again
    spare: Vec<Box<Nodes>>,
}

/// What there is of a request.
#[derive(Debug)]
enum State {
    /// Nothing yet.
    Fresh,
    Chain(Chain),
    Graph(Box<Nodes>),
    /// Its last task is done.
    Done,
    /// Why it will have no output, until somebody has asked.
    Failed(Option<Box<str>>),
}

/// A slot that a request holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    worker: WorkerId,
    slot: Slot,
    /// The last that is queued on it.
    used: Use,
    /// The launch that writes it last.
    written: u64,
}

/// A request whose nodes need nothing but the node before.
#[derive(Debug)]
struct Chain {
    /// The tokens of the request, in a network that a file lists.
    tokens: u32,
    /// How many of its nodes are queued.
    done: u32,
    /// Which slot holds the state after the last of them.
    at: u32,
    /// At most one for each worker.
    held: SmallVec<[Held; 1]>,
}

/// A request whose nodes are a general graph.
#[derive(Debug, Default)]
struct Nodes {
    held: Vec<Held>,
    /// Which of them hold nothing that is needed.
    vacant: Vec<u32>,
    /// For each node which slot holds its state, or why none does.
    place: Vec<u32>,
    /// For each node, how many others have yet to take its state. That of a node that no other needs stays.
    takers: Vec<u32>,
    /// How many nodes are not queued.
    left: u32,
}

/// The node is not queued.
const AHEAD: u32 = u32::MAX;
/// All that need the node's state have taken it.
const TAKEN: u32 = u32::MAX - 1;

/// A launch that is about to be queued.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// Counts the launches of the run, from 1.
    pub number: u64,
    /// Its worker.
    pub worker: WorkerId,
    /// Its stream, and the signal behind it.
    pub used: Use,
}

/// A batch as it is brought together.
#[derive(Debug, Default)]
pub struct Gathering {
    /// The rows.
    pub rows: Vec<Row>,
    /// The states that they take.
    pub inputs: Vec<Slot>,
    /// What has to be over before, on other streams.
    pub behind: Vec<Use>,
    /// States that have to be brought from other workers.
    pub migrations: Vec<Migration>,
    /// States that nobody needs behind the launch: whose, and which of the request's slots.
    vacated: Vec<(RequestId, u32)>,
}

/// A state on its way to another worker.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Whose it is.
    pub request: RequestId,
    /// Where it is.
    pub from: (WorkerId, Slot),
    /// Where it goes.
    pub to: Slot,
}

impl Gathering {
    /// Begins anew.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.inputs.clear();
        self.behind.clear();
        self.migrations.clear();
        self.vacated.clear();
    }

    /// Something of a request is used by a launch, behind all that is queued on it.
    fn uses(&mut self, held: &mut Held, launch: &Launch) {
        if held.used.stream != launch.used.stream {
            self.behind.push(held.used);
        }
        held.used = launch.used;
    }

    fn writes(&mut self, held: &mut Held, launch: &Launch) {
        self.uses(held, launch);
        held.written = launch.number;
    }
}

impl States {
    /// Requests none of whose nodes are queued.
    pub fn new(graphs: Arc<[CellGraph]>, network: Arc<Network>, kept: Kept, pools: Pools) -> States {
        let requests = graphs.iter().map(|_| State::Fresh).collect();
        States { graphs, network, kept, pools, requests, retiring: Vec::new(), orphaned: Vec::new(), spare: Vec::new() }
    }

    /// The graphs of all requests.
    pub fn graphs(&self) -> &Arc<[CellGraph]> {
        &self.graphs
    }

    /// The network, as the CPU computes it.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The workers' pools.
    pub fn pools(&mut self) -> &mut Pools {
        &mut self.pools
    }

    /// Adds the row of a node to a batch.
    ///
    /// # Errors
    /// The reason for which the request has to fail; `None` if it is over already.
    pub fn take(
        &mut self,
        at: NodeRef,
        cell: CellId,
        launch: &Launch,
        batch: &mut Gathering,
    ) -> Result<Member, Option<String>> {
        let before = (batch.inputs.len(), batch.migrations.len(), batch.vacated.len());
        let taken = self.take_or_not(at, cell, launch, batch);
        match taken {
            Ok((member, state)) => {
                let tokens = match &self.requests[at.request.index()] {
                    State::Chain(chain) => chain.tokens,
                    _ => 0,
                };
                batch.rows.push(Row {
                    request: at.request,
                    node: at.node.0,
                    last: member.last,
                    state,
                    words: self.kept.words(at.request),
                    tokens,
                    inputs_end: batch.inputs.len() as u32,
                });
                Ok(member)
            }
            Err(reason) => {
                batch.inputs.truncate(before.0);
                batch.migrations.truncate(before.1);
                batch.vacated.truncate(before.2);
                Err(reason)
            }
        }
    }

    /// The same without the row; gives the slot of the node's state.
    fn take_or_not(
        &mut self,
        at: NodeRef,
        cell: CellId,
        launch: &Launch,
        batch: &mut Gathering,
    ) -> Result<(Member, Slot), Option<String>> {
        let States { graphs, network, pools, requests, spare, .. } = self;
        let (graph, state) = (&graphs[at.request.index()], &mut requests[at.request.index()]);
        if matches!(state, State::Done | State::Failed(_)) {
            return Err(None);
        }
        // An operator is brought together from what the one before has left, also where it is the same again.
        let last = match network.operators() {
            Some(operators) if operators.network().cell_at(at.node) == Some(cell) => at.node.0,
            _ => shared::node_of_cell(graph, at.node, cell, network)?.run_end.0,
        };
        if let State::Fresh = state {
            *state = match graph {
                CellGraph::Chains(_) => {
                    let tokens = network.operators().map_or(0, |_| Operators::tokens(graph));
                    State::Chain(Chain { tokens, done: 0, at: 0, held: SmallVec::new() })
                }
                CellGraph::Graph(graph) => {
                    let mut nodes = spare.pop().unwrap_or_default();
                    nodes.begin(graph);
                    State::Graph(nodes)
                }
            };
        }
        let (slot, ends) = match (state, graph) {
            (State::Chain(chain), _) => {
                let slot = chain.take(at, launch, pools, batch)?;
                (slot, u64::from(last) + 1 == graph.nodes())
            }
            (State::Graph(nodes), CellGraph::Graph(graph)) => {
                let slot = nodes.take(graph, at, launch, pools, batch)?;
                (slot, nodes.left == 0)
            }
            _ => unreachable!("a state is of its graph's kind"),
        };
        Ok((Member { request: at.request, node: at.node.0, last, ends }, slot))
    }

    /// Whether a node is the next of a chain.
    pub fn goes_on(&self, at: NodeRef) -> bool {
        matches!(&self.requests[at.request.index()], State::Chain(chain) if chain.done == at.node.0)
    }

    /// A row has gone on to this node, without a gather.
    pub fn advance(&mut self, at: NodeRef, launch: &Launch) {
        if let State::Chain(chain) = &mut self.requests[at.request.index()] {
            chain.done = at.node.0 + 1;
            let held = &mut chain.held[chain.at as usize];
            (held.used, held.written) = (launch.used, launch.number);
        }
    }

    /// The launch is queued: states that nobody needs behind it leave their slots to the later nodes of their requests.
    pub fn vacate(&mut self, batch: &mut Gathering) {
        for (request, place) in batch.vacated.drain(..) {
            if let State::Graph(nodes) = &mut self.requests[request.index()] {
                nodes.vacant.push(place);
            }
        }
    }

    /// Where the state of a row that has come to its last node has to be fetched from, and the place for it on the host, if
    /// it is wanted.
    pub fn wanted(&self, row: &Member) -> Option<(Slot, HostPlace)> {
        let (graph, state) = (&self.graphs[row.request.index()], &self.requests[row.request.index()]);
        let slot = match (state, graph) {
            (State::Chain(chain), _) if row.has_ended() || self.network.operators().is_some() => {
                chain.held[chain.at as usize].slot
            }
            (State::Graph(nodes), CellGraph::Graph(graph)) if graph.successors(row.node).is_empty() => {
                nodes.held[nodes.place[row.node as usize] as usize].slot
            }
            _ => return None,
        };
        self.kept.place(row.request, row.node).map(|place| (slot, place))
    }

    /// A request's last task is done.
    pub fn finish(&mut self, request: RequestId, device: &mut impl Device) {
        let state = &mut self.requests[request.index()];
        if matches!(state, State::Done | State::Failed(_)) {
            return;
        }
        let pools = &mut self.pools;
        let mut broken = false;
        let mut give_back = |held: Held| broken |= held.give_back(pools, device);
        match std::mem::replace(state, State::Done) {
            State::Chain(chain) => chain.held.into_iter().for_each(give_back),
            State::Graph(mut nodes) => {
                nodes.held.drain(..).for_each(&mut give_back);
                self.spare.push(nodes);
            }
            State::Fresh | State::Done | State::Failed(_) => {}
        }
        if broken {
            *state = State::Failed(Some("non-finite numbers in a state of the request".into()));
        }
    }

    /// Makes a request fail, unless it is done or has failed before.
    pub fn fail(&mut self, request: RequestId, reason: String) {
        let state = &mut self.requests[request.index()];
        if matches!(state, State::Done | State::Failed(_)) {
            return;
        }
        match std::mem::replace(state, State::Failed(Some(reason.into()))) {
            State::Chain(chain) => self.retiring.extend(chain.held),
            State::Graph(mut nodes) => {
                self.retiring.append(&mut nodes.held);
                self.spare.push(nodes);
            }
            State::Fresh | State::Done | State::Failed(_) => {}
        }
    }

    /// Makes a request fail if nodes of it are left: its task is queued.
    pub fn expect_done(&mut self, request: RequestId) {
        let nodes = self.graphs[request.index()].nodes();
        let left = match &self.requests[request.index()] {
            State::Fresh => nodes,
            State::Chain(chain) => nodes - u64::from(chain.done),
            State::Graph(graph) => u64::from(graph.left),
            State::Done | State::Failed(_) => 0,
        };
        if left > 0 {
            self.fail(request, shared::left_over(left, nodes));
        }
    }

    /// The requests that a lost worker took with it have failed.
    pub fn orphan(&mut self) {
        self.orphaned.append(&mut self.retiring);
    }

    /// Gives the slots of requests that failed back on which nothing is queued any more.
    pub fn retire(&mut self, streams: &Streams, device: &mut impl Device) {
        let pools = &mut self.pools;
        let orphaned = &mut self.orphaned;
        self.retiring.retain(|held| {
            let over = streams.is_over(held.used);
            match over {
                // The use of a lost stream is over by decree, and tells nothing of those before it.
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

    /// Why a request failed; says so once.
    pub fn failure(&mut self, request: RequestId) -> Option<String> {
        match &mut self.requests[request.index()] {
            State::Failed(reason) => reason.take().map(String::from),
            _ => None,
        }
    }

    /// What a request came to, if it is kept and done.
    pub fn output(&self, request: RequestId, device: &impl Device) -> Option<Output> {
        match self.requests[request.index()] {
            State::Done => self.kept.output(request, &self.graphs[request.index()], device),
            _ => None,
        }
    }
}

impl Held {
    /// A slot from a worker's pool.
    fn new(pools: &mut Pools, launch: &Launch) -> Result<Held, String> {
        let slot = pools.take(launch.worker)?;
        Ok(Held { worker: launch.worker, slot, used: launch.used, written: 0 })
    }

    /// Gives the slot back, on which nothing is queued. Says whether numbers that are none were stored there.
    fn give_back(&self, pools: &mut Pools, device: &mut impl Device) -> bool {
        let broken = pools.lost(self.worker).is_none() && device.take_non_finite(self.worker, self.slot);
        pools.give_back(self.worker, self.slot);
        broken
    }

    /// Whether the state in it can be had.
    fn check(&self, pools: &Pools) -> Result<(), String> {
        let worker = self.worker;
        pools
            .lost(worker)
            .map_or(Ok(()), |reason| Err(format!("its state was on worker {worker}, which is lost: {reason}")))
    }
}

impl Chain {
    /// Finds the slot for the next node, and brings the state there if it is on another worker.
    fn take(&mut self, at: NodeRef, launch: &Launch, pools: &mut Pools, batch: &mut Gathering) -> Result<Slot, String> {
        let NodeRef { request, node: NodeId(node) } = at;
        in_order(node, self.done)?;
        let here = match self.held.iter().position(|held| held.worker == launch.worker) {
            Some(here) => here,
            None => {
                self.held.push(Held::new(pools, launch)?);
                self.held.len() - 1
            }
        };
        if node > 0 {
            let from = &mut self.held[self.at as usize];
            if from.written == launch.number {
                return Err(run_before(node, node - 1));
            }
            from.check(pools)?;
            if here != self.at as usize {
                batch.uses(from, launch);
                let from = (from.worker, from.slot);
                batch.migrations.push(Migration { request, from, to: self.held[here].slot });
            }
        }
        let held = &mut self.held[here];
        batch.writes(held, launch);
        (self.at, self.done) = (here as u32, node + 1);
        if node > 0 {
            batch.inputs.push(held.slot);
        }
        Ok(held.slot)
    }
}

impl Nodes {
    /// None of the graph's nodes are queued.
    fn begin(&mut self, graph: &Graph) {
        self.held.clear();
        self.vacant.clear();
        self.place.clear();
        self.place.resize(graph.len(), AHEAD);
        self.takers.clear();
        self.takers.extend((0..graph.len() as u32).map(|node| graph.successors(node).len() as u32));
        self.left = graph.len() as u32;
    }

    /// Takes the states that a node needs, and finds a slot for its own.
    fn take(
        &mut self,
        graph: &Graph,
        at: NodeRef,
        launch: &Launch,
        pools: &mut Pools,
        batch: &mut Gathering,
    ) -> Result<Slot, String> {
        let NodeRef { request, node: NodeId(node) } = at;
        if self.place[node as usize] != AHEAD {
            return Err(run_twice(node));
        }
        for &input in graph.inputs(node) {
            let place = self.place[input as usize];
            match place {
                AHEAD => return Err(run_before(node, input)),
                TAKEN => return Err(run_twice(node)),
                _ => {}
            }
            let held = &mut self.held[place as usize];
            if held.written == launch.number {
                return Err(run_before(node, input));
            }
            held.check(pools)?;
            batch.uses(held, launch);
            let Held { worker, mut slot, .. } = *held;
            if worker != launch.worker {
                let here = self.room(launch, pools)?;
                let held = &mut self.held[here as usize];
                batch.writes(held, launch);
                batch.migrations.push(Migration { request, from: (worker, slot), to: held.slot });
                batch.vacated.push((request, here));
                slot = held.slot;
            }
            batch.inputs.push(slot);
            self.takers[input as usize] -= 1;
            if self.takers[input as usize] == 0 {
                self.place[input as usize] = TAKEN;
                batch.vacated.push((request, place));
            }
        }
        let place = self.room(launch, pools)?;
        let held = &mut self.held[place as usize];
        batch.writes(held, launch);
        let slot = held.slot;
        self.place[node as usize] = place;
        self.left -= 1;
        if self.left == 0 {
            // The request is over when this launch is, so that all others of its nodes have to be.
            self.held.iter_mut().for_each(|held| batch.uses(held, launch));
        }
        Ok(slot)
    }

    /// A slot on the launch's worker that holds nothing that is needed.
    fn room(&mut self, launch: &Launch, pools: &mut Pools) -> Result<u32, String> {
        match self.vacant.iter().rposition(|place| self.held[*place as usize].worker == launch.worker) {
            Some(found) => Ok(self.vacant.swap_remove(found)),
            None => {
                self.held.push(Held::new(pools, launch)?);
                Ok(self.held.len() as u32 - 1)
            }
        }
    }
}
