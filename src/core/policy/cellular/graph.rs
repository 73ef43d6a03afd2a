//! The queue of general subgraphs (trees, diamonds): a linked list in the order of release. The cost of a task is
//! proportional to its nodes and to the subgraphs that it passes over because they are pinned elsewhere.

use std::collections::VecDeque;
use std::sync::Arc;

use super::batch::{CellBatch, MemberSet, SubgraphShare};
use super::requests::{LiveRequests, Released, RequestKey};
use crate::base::units::{NodeId, RequestId, WorkerId};
use crate::core::policy::{Completed, Outcomes};
use crate::core::task::Part;
use crate::core::workload::cell_graph::Graph;

const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct QueuedSubgraph {
    /// The subgraph's place in the order of release, over all queues.
    released: u64,
    key: RequestKey,
    graph: Arc<Graph>,
    /// The ready nodes in the order in which they became ready.
    ready: VecDeque<u32>,
    /// The number of nodes that have not been submitted.
    left: u32,
    /// The number of unfinished tasks.
    running: u32,
    pinned: Option<WorkerId>,
    /// The request, until a node of the subgraph has been submitted.
    begins: Option<RequestId>,
    /// The slots of the neighbours in the list, or [`NONE`].
    previous: u32,
    next: u32,
}

/// The queue of a cell type whose subgraphs are not chains.
#[derive(Debug)]
pub struct GraphQueue {
    entries: Vec<QueuedSubgraph>,
    /// The slots of `entries` that can be used again.
    vacant: Vec<u32>,
    first: u32,
    last: u32,
    /// The number of ready nodes that any worker may take.
    unpinned: usize,
    /// The number of ready nodes that are pinned to each worker.
    pinned: Vec<usize>,
}

impl GraphQueue {
    pub fn new(workers: usize) -> Self {
        GraphQueue {
            entries: Vec::new(),
            vacant: Vec::new(),
            first: NONE,
            last: NONE,
            unpinned: 0,
            pinned: vec![0; workers],
        }
    }

    fn unlink(&mut self, slot: u32) {
        let QueuedSubgraph { previous, next, .. } = self.entries[slot as usize];
        match previous {
            NONE => self.first = next,
            previous => self.entries[previous as usize].next = next,
        }
        match next {
            NONE => self.last = previous,
            next => self.entries[next as usize].previous = previous,
        }
    }

    /// Makes the successors of submitted nodes ready. `missing` has the number of each node's unsubmitted inputs.
    fn make_ready(
        &mut self,
        worker: WorkerId,
        share: &SubgraphShare,
        nodes: &[u32],
        missing: &mut [u32],
    ) {
        let entry = &mut self.entries[share.slot as usize];
        let before = entry.ready.len();
        for &node in &nodes[share.nodes.clone()] {
            for &next in entry.graph.successors(node) {
                if entry.graph.subgraph_of()[next as usize]
                    == entry.graph.subgraph_of()[node as usize]
                {
                    missing[next as usize] -= 1;
                    if missing[next as usize] == 0 {
                        entry.ready.push_back(next);
                    }
                }
            }
        }
        entry.ready.make_contiguous()[before..].sort_unstable();
        self.pinned[worker.index()] += entry.ready.len() - before;
    }
}

impl GraphQueue {
    pub fn push(&mut self, released: &Released<'_>) {
        let graph = released.state.graph();
        let part = &graph.subgraphs()[released.subgraph as usize];
        let (slot, mut ready) = match self.vacant.pop() {
            Some(slot) => (slot, std::mem::take(&mut self.entries[slot as usize].ready)),
            None => (self.entries.len() as u32, VecDeque::new()),
        };
        ready.extend(graph.entries(released.subgraph));
        self.unpinned += ready.len();
        let entry = QueuedSubgraph {
            released: released.order,
            key: released.key,
            graph: Arc::clone(graph),
            ready,
            left: part.nodes,
            running: 0,
            pinned: None,
            begins: Some(released.state.request),
            previous: self.last,
            next: NONE,
        };
        match self.last {
            NONE => self.first = slot,
            last => self.entries[last as usize].next = slot,
        }
        self.last = slot;
        if slot as usize == self.entries.len() {
            self.entries.push(entry);
        } else {
            self.entries[slot as usize] = entry;
        }
    }

    pub fn unpinned_nodes(&self) -> usize {
        self.unpinned
    }

    pub fn ready(&self, worker: WorkerId) -> usize {
        self.unpinned + self.pinned[worker.index()]
    }

    pub fn head(&self, worker: WorkerId) -> Option<RequestKey> {
        let mut slot = self.first;
        while slot != NONE {
            let entry = &self.entries[slot as usize];
            if entry.pinned.is_none_or(|pin| pin == worker) && !entry.ready.is_empty() {
                return Some(entry.key);
            }
            slot = entry.next;
        }
        None
    }

    pub fn take(&mut self, worker: WorkerId, max: usize, batch: &mut CellBatch) -> MemberSet {
        let CellBatch {
            nodes,
            shares,
            begins,
            ..
        } = batch;
        let mut members = MemberSet::default();
        let mut slot = self.first;
        while slot != NONE && nodes.len() < max {
            let entry = &mut self.entries[slot as usize];
            let next = entry.next;
            if entry.pinned.is_none_or(|pin| pin == worker) && !entry.ready.is_empty() {
                let from = nodes.len();
                if entry.pinned.is_none() {
                    entry.pinned = Some(worker);
                    self.unpinned -= entry.ready.len();
                    self.pinned[worker.index()] += entry.ready.len();
                }
                let count = entry.ready.len().min(max - from);
                nodes.extend(entry.ready.drain(..count));
                self.pinned[worker.index()] -= count;
                entry.left -= count as u32;
                entry.running += 1;
                members.add(entry.released, count as u32);
                shares.push(SubgraphShare {
                    slot,
                    key: entry.key,
                    nodes: from..nodes.len(),
                });
                begins.extend(entry.begins.take());
                if entry.left == 0 {
                    self.unlink(slot);
                }
            }
            slot = next;
        }
        members
    }

    pub fn visit_members(
        &self,
        batch: &CellBatch,
        requests: &LiveRequests,
        visit: &mut dyn FnMut(Part),
    ) {
        for share in &batch.shares {
            let request = requests[share.key].request;
            for node in &batch.nodes[share.nodes.clone()] {
                visit(Part {
                    request,
                    from: NodeId(*node),
                    to: NodeId(node + 1),
                });
            }
        }
    }

    pub fn advance(&mut self, worker: WorkerId, batch: &CellBatch, requests: &mut LiveRequests) {
        for share in &batch.shares {
            self.make_ready(
                worker,
                share,
                &batch.nodes,
                requests.inner_missing(share.key),
            );
        }
    }

    pub fn complete(
        &mut self,
        completed: &Completed<'_>,
        batch: &CellBatch,
        requests: &mut LiveRequests,
        outcomes: &mut Outcomes,
    ) {
        for share in &batch.shares {
            let entry = &mut self.entries[share.slot as usize];
            entry.running -= 1;
            if entry.running == 0 {
                entry.pinned = None;
                self.pinned[completed.worker.index()] -= entry.ready.len();
                self.unpinned += entry.ready.len();
                if entry.left == 0 {
                    self.vacant.push(share.slot);
                }
            }
        }
        for share in &batch.shares {
            for &node in &batch.nodes[share.nodes.clone()] {
                requests.complete_node(
                    share.key,
                    node,
                    completed.task,
                    share.nodes.start,
                    outcomes,
                );
            }
        }
    }
}
