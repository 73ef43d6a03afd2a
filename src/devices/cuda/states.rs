//! The states of the requests: which slot of a worker's pool has each state. This is decided when nodes are queued,
//! ahead of the device.
//!
//! A request returns its slots after its last task is done: only then is it known whether its values were finite. Each
//! request ends here exactly once, done or with the reason why it failed.

use std::sync::Arc;

use super::device::{Device, GatherRow, HostPlace, StateSlot};
use super::outputs::KeptOutputs;
use super::rows::{ChainRows, Listed};
use super::slots::{ChainSlots, Gathering, GraphSlots, HeldSlot, LaunchStamp, Pools, RowPlace};
use super::streams::{GatheredNode, StreamKey, Streams, Use};
use crate::base::units::{CellId, NodeId, RequestId, WorkerId};
use crate::core::backend::Output;
use crate::core::task::NodeRef;
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::shared_list::SharedList;
use crate::devices::network::Network;
use crate::devices::network::operators::Operators;
use crate::devices::task_checks;

/// The states of all requests of a run.
#[derive(Debug)]
pub struct GpuStates {
    pub graphs: SharedList<CellGraph>,
    pub network: Arc<Network>,
    kept: KeptOutputs,
    pub pools: Pools,
    requests: Vec<RequestSlots>,
    /// The rows of chains, for each stream and cell type that has had any.
    pub rows: Vec<ChainRows>,
    /// The slots of failed requests that still have queued work.
    retiring: Vec<RequestSlots>,
    /// The slots of requests that failed with a lost worker. Streams no longer wait for that worker, so the order of
    /// their uses is unknown. They are held until no task is in flight anywhere.
    orphaned: Vec<RequestSlots>,
    #[allow(clippy::vec_box)] // The boxes themselves are used again.
    spare: Vec<Box<GraphSlots>>,
}

/// How far a request has got, and the slots that it holds.
#[derive(Debug)]
enum RequestSlots {
    Fresh,
    Chain(ChainSlots),
    Graph(Box<GraphSlots>),
    Done,
    /// The reason of the failure, which is taken when it is reported.
    Failed(Option<Box<str>>),
}

impl RequestSlots {
    /// The uses after which the slots have no queued work.
    fn uses(&self) -> impl Iterator<Item = Use> {
        // One of the two is empty.
        let mut held: &[HeldSlot] = &[];
        let mut uses: &[Use] = &[];
        match self {
            RequestSlots::Chain(chain) => held = &chain.held,
            RequestSlots::Graph(graph) => uses = &graph.uses,
            RequestSlots::Fresh | RequestSlots::Done | RequestSlots::Failed(_) => {}
        }
        let of_held = held.iter().map(|held| held.used);
        of_held.chain(uses.iter().copied())
    }
}

impl GpuStates {
    pub fn new(
        graphs: SharedList<CellGraph>,
        network: Arc<Network>,
        kept: KeptOutputs,
        pools: Pools,
    ) -> GpuStates {
        let requests = graphs.iter().map(|_| RequestSlots::Fresh).collect();
        GpuStates {
            graphs,
            network,
            kept,
            pools,
            requests,
            rows: Vec::new(),
            retiring: Vec::new(),
            orphaned: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// The index of the rows of a cell type on a stream.
    pub fn open_rows(&mut self, stream: StreamKey, cell: CellId) -> usize {
        self.find_rows(stream, cell).unwrap_or_else(|| {
            self.rows.push(ChainRows::new(stream, cell));
            self.rows.len() - 1
        })
    }

    fn find_rows(&self, stream: StreamKey, cell: CellId) -> Option<usize> {
        self.rows
            .iter()
            .position(|rows| rows.stream == stream && rows.cell == cell)
    }

    /// The number of chains in the rows of a cell type on a stream.
    pub fn chains(&self, stream: StreamKey, cell: CellId) -> u32 {
        self.find_rows(stream, cell)
            .map_or(0, |rows| self.rows[rows].chains())
    }

    /// Compares rows to the list of all members of the next launch: the chains that it does not have leave, and the
    /// nodes that the rows run next are removed from it. A request that it has twice fails.
    pub fn keep_rows(&mut self, rows: usize, nodes: &mut Vec<NodeRef>) {
        let mut leaving = Vec::new();
        let mut twice = Vec::new();
        let GpuStates {
            requests,
            rows: all,
            ..
        } = self;
        let compared = &mut all[rows];
        compared.begin_list();
        nodes.retain(|at| match &requests[at.request.index()] {
            RequestSlots::Chain(ChainSlots {
                row: Some(place), ..
            }) if place.rows as usize == rows => match compared.note_listed(place.at, at.node) {
                Listed::Next => false,
                Listed::Twice => {
                    twice.push(*at);
                    false
                }
                Listed::Other => true,
            },
            _ => true,
        });
        compared.visit_unlisted(|request| leaving.push(request));
        for request in leaving {
            self.leave_row(request);
        }
        for NodeRef { request, node } in twice {
            self.fail(request, task_checks::run_twice(node.0));
        }
    }

    /// Takes a chain out of its row, if it is in one.
    fn leave_row(&mut self, request: RequestId) {
        if let RequestSlots::Chain(chain) = &mut self.requests[request.index()] {
            leave_row(chain, &mut self.rows);
        }
    }

    /// Gives rows to the nodes that join, as [`ChainRows::arrange`].
    pub fn arrange(&mut self, rows: usize, size: u32, joining: &[GatheredNode]) -> bool {
        let GpuStates {
            requests,
            rows: all,
            ..
        } = self;
        all[rows].arrange(size, joining, |request, at| {
            if let RequestSlots::Chain(chain) = &mut requests[request.index()] {
                let rows = rows as u32;
                chain.row = Some(RowPlace { rows, at });
            }
        })
    }

    /// Counts a launch over rows, and takes the chains that end with it out of them. They are put into `ended`.
    pub fn advance_rows(&mut self, rows: usize, ended: &mut Vec<GatheredNode>) {
        ended.clear();
        self.rows[rows].advance(ended);
        let stamp = self.rows[rows].stamp;
        for node in ended {
            if let RequestSlots::Chain(chain) = &mut self.requests[node.request.index()] {
                chain.row = None;
                chain.advance(NodeId(node.last), &stamp);
            }
        }
    }

    /// A row as the device gathers it, or `None` for padding. `inputs_end` is 0.
    pub fn gather_row(&self, rows: usize, at: u32) -> Option<GatherRow> {
        let chain = self.rows[rows].chain(at)?;
        let RequestSlots::Chain(slots) = &self.requests[chain.request.index()] else {
            return None;
        };
        Some(GatherRow {
            request: chain.request,
            node: chain.node,
            last: chain.last,
            state: slots.current().slot,
            words: self.kept.words(chain.request),
            tokens: 0,
            inputs_end: 0,
        })
    }

    /// Whether a request is a chain that has begun and neither ended nor failed.
    pub fn is_chain(&self, request: RequestId) -> bool {
        matches!(self.requests[request.index()], RequestSlots::Chain(_))
    }

    /// The rows of a cell type as a batch, all of which is gathered.
    pub fn gather_rows(&self, rows: usize, batch: &mut Gathering) {
        batch.rows.clear();
        batch.inputs.clear();
        for at in 0..self.rows[rows].chains() {
            let Some(row) = self.gather_row(rows, at) else {
                continue;
            };
            if row.node > 0 {
                batch.inputs.push(row.state);
            }
            let inputs_end = batch.inputs.len() as u32;
            batch.rows.push(GatherRow { inputs_end, ..row });
        }
    }

    /// Takes all chains out of the rows of a stream, whose table is no longer theirs.
    pub fn clear_rows(&mut self, stream: StreamKey) {
        for rows in 0..self.rows.len() {
            if self.rows[rows].stream == stream {
                let requests: Vec<RequestId> = self.rows[rows].requests().collect();
                for request in requests {
                    self.leave_row(request);
                }
                self.rows[rows].clear();
            }
        }
    }

    /// The requests in rows of a worker whose last launch is not over.
    pub fn running_requests(&self, worker: WorkerId, streams: &Streams) -> Vec<RequestId> {
        let running = self.rows.iter().filter(|rows| {
            streams.stream(rows.stream).worker == worker && !streams.is_over(rows.stamp.used)
        });
        running.flat_map(ChainRows::requests).collect()
    }

    /// Adds the row of a node to a batch. Fails with the reason why the request has to fail, or with `None` if it has
    /// ended already.
    pub fn take(
        &mut self,
        at: NodeRef,
        cell: CellId,
        batch: &mut Gathering,
    ) -> Result<GatheredNode, Option<String>> {
        let inputs = batch.inputs.len();
        let migrations = batch.migrations.len();
        let taken = self.take_or_leave(at, cell, batch);
        if taken.is_err() {
            batch.inputs.truncate(inputs);
            batch.migrations.truncate(migrations);
        }
        taken
    }

    /// The same as [`GpuStates::take`], but what was added before a failure stays in the batch.
    fn take_or_leave(
        &mut self,
        at: NodeRef,
        cell: CellId,
        batch: &mut Gathering,
    ) -> Result<GatheredNode, Option<String>> {
        let GpuStates {
            graphs,
            network,
            kept,
            pools,
            requests,
            rows,
            spare,
            ..
        } = self;
        let graph = &graphs[at.request.index()];
        let state = &mut requests[at.request.index()];
        if matches!(state, RequestSlots::Done | RequestSlots::Failed(_)) {
            return Err(None);
        }
        // The operand of an operator is gathered anew for each node, even if the same operator follows.
        let last = match network.operators() {
            Some(operators) if operators.network().cell_at(at.node) == Some(cell) => at.node.0,
            _ => {
                task_checks::node_of_cell(graph, at.node, cell, network)?
                    .run_end
                    .0
            }
        };
        if let RequestSlots::Fresh = state {
            *state = match graph {
                CellGraph::Chains(_) => {
                    let tokens = network.operators().map_or(0, |_| Operators::tokens(graph));
                    RequestSlots::Chain(ChainSlots::new(tokens))
                }
                CellGraph::Graph(graph) => {
                    let mut nodes = spare.pop().unwrap_or_default();
                    nodes.begin(graph);
                    RequestSlots::Graph(nodes)
                }
            };
        }
        let (state, tokens, ends) = match (state, graph) {
            (RequestSlots::Chain(chain), _) => {
                leave_row(chain, rows);
                (
                    chain.take(at, pools, batch)?,
                    chain.tokens,
                    u64::from(last) + 1 == graph.nodes(),
                )
            }
            (RequestSlots::Graph(nodes), CellGraph::Graph(graph)) => {
                (nodes.take(graph, at, pools, batch)?, 0, nodes.left == 0)
            }
            _ => unreachable!("a state is of its graph's kind"),
        };
        let NodeRef {
            request,
            node: NodeId(node),
        } = at;
        let words = kept.words(request);
        let inputs_end = batch.inputs.len() as u32;
        batch.rows.push(GatherRow {
            request,
            node,
            last,
            state,
            words,
            tokens,
            inputs_end,
        });
        Ok(GatheredNode {
            request,
            node,
            last,
            ends,
        })
    }

    /// Notes that a row has continued to this node without a gather.
    pub fn advance(&mut self, at: NodeRef, launch: &LaunchStamp) {
        if let RequestSlots::Chain(chain) = &mut self.requests[at.request.index()] {
            chain.advance(at.node, launch);
        }
    }

    /// The slot of a row's last state and its place on the host, if that state is kept.
    pub fn kept_state(&self, row: &GatheredNode) -> Option<(StateSlot, HostPlace)> {
        let graph = &self.graphs[row.request.index()];
        let state = &self.requests[row.request.index()];
        let slot = match (state, graph) {
            (RequestSlots::Chain(chain), _)
                if row.has_ended() || self.network.operators().is_some() =>
            {
                chain.current().slot
            }
            (RequestSlots::Graph(nodes), CellGraph::Graph(graph))
                if graph.successors(row.node).is_empty() =>
            {
                nodes.slot(row.node)
            }
            _ => return None,
        };
        self.kept
            .place(row.request, row.node)
            .map(|place| (slot, place))
    }

    /// Ends a request whose last task is done.
    pub fn finish(&mut self, request: RequestId, device: &mut impl Device) {
        let Some(slots) = self.end(request, RequestSlots::Done) else {
            return;
        };
        if self.give_back(slots, device) {
            let reason = "non-finite numbers in a state of the request";
            self.requests[request.index()] = RequestSlots::Failed(Some(reason.into()));
        }
    }

    /// Makes a request fail, unless it has ended; its slots retire.
    pub fn fail(&mut self, request: RequestId, reason: String) {
        let slots = self.end(request, RequestSlots::Failed(Some(reason.into())));
        self.retiring.extend(slots);
    }

    /// Ends a request, unless it has ended, and returns its slots.
    fn end(&mut self, request: RequestId, ended: RequestSlots) -> Option<RequestSlots> {
        let state = &mut self.requests[request.index()];
        if matches!(state, RequestSlots::Done | RequestSlots::Failed(_)) {
            return None;
        }
        let mut slots = std::mem::replace(state, ended);
        if let RequestSlots::Chain(chain) = &mut slots {
            leave_row(chain, &mut self.rows);
        }
        Some(slots)
    }

    /// Returns slots that have no queued work to their pools, and reports whether a NaN or an infinity was stored in
    /// them.
    fn give_back(&mut self, slots: RequestSlots, device: &mut impl Device) -> bool {
        let mut non_finite = false;
        match slots {
            RequestSlots::Chain(chain) => {
                for held in chain.held {
                    non_finite |= self.pools.give_back(held.worker, held.slot, device);
                }
            }
            RequestSlots::Graph(graph) => {
                non_finite = graph.give_back(&mut self.pools, device);
                self.spare.push(graph);
            }
            RequestSlots::Fresh | RequestSlots::Done | RequestSlots::Failed(_) => {}
        }
        non_finite
    }

    /// Makes a request fail if its task did not queue all of its nodes.
    pub fn expect_done(&mut self, request: RequestId) {
        let nodes = self.graphs[request.index()].nodes();
        let left = match &self.requests[request.index()] {
            RequestSlots::Fresh => nodes,
            RequestSlots::Chain(chain) => nodes - u64::from(chain.done),
            RequestSlots::Graph(graph) => u64::from(graph.left),
            RequestSlots::Done | RequestSlots::Failed(_) => 0,
        };
        if left > 0 {
            self.fail(request, task_checks::left_over(left, nodes));
        }
    }

    /// Treats the failed requests as lost with a worker.
    pub fn orphan(&mut self) {
        self.orphaned.append(&mut self.retiring);
    }

    /// Returns the slots of failed requests that have no queued work any more.
    pub fn retire(&mut self, streams: &Streams, device: &mut impl Device) {
        let mut place = 0;
        while let Some(slots) = self.retiring.get(place) {
            if !slots.uses().all(|used| streams.is_over(used)) {
                place += 1;
                continue;
            }
            // A use on a lost stream counts as over, which says nothing about the uses before it.
            let on_lost = slots.uses().any(|used| streams.is_lost(used.stream));
            let slots = self.retiring.swap_remove(place);
            if on_lost {
                self.orphaned.push(slots);
            } else {
                self.give_back(slots, device);
            }
        }
        if !self.orphaned.is_empty() && !streams.are_busy() {
            for slots in std::mem::take(&mut self.orphaned) {
                self.give_back(slots, device);
            }
        }
    }

    /// Why a request failed, which is returned only once; `None` if it did not fail.
    pub fn failure(&mut self, request: RequestId) -> Option<String> {
        match &mut self.requests[request.index()] {
            RequestSlots::Failed(reason) => reason.take().map(String::from),
            _ => None,
        }
    }

    /// The output of a request that is kept and done.
    pub fn output(&self, request: RequestId, device: &impl Device) -> Option<Output> {
        match self.requests[request.index()] {
            RequestSlots::Done => self
                .kept
                .output(request, &self.graphs[request.index()], device),
            _ => None,
        }
    }
}

/// Takes a chain out of its row, if it is in one, and notes how far it has got there.
fn leave_row(chain: &mut ChainSlots, rows: &mut [ChainRows]) {
    let Some(RowPlace { rows: index, at }) = chain.row.take() else {
        return;
    };
    let rows = &mut rows[index as usize];
    let next = rows.next(at);
    // A row that has not been launched since the chain joined has nothing to add.
    if next > chain.done {
        chain.advance(NodeId(next - 1), &rows.stamp);
    }
    rows.leave(at);
}
