//! The queue of a cell type whose subgraphs are general graphs: trees, layers, diamonds.
//!
//! Subgraphs stand in a linked list in the order of release. A task walks it from the front and takes ready nodes; a
//! subgraph whose nodes have all been submitted leaves the list. The cost is that of the nodes taken and of the subgraphs
//! passed over because they are pinned to other workers.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::core::Handle;
use super::identity::MemberSet;
use crate::units::{RequestId, WorkerId};
use crate::workload::cell_graph::Graph;

const NONE: u32 = u32::MAX;

/// A subgraph in the queue, or with tasks that are not finished.
#[derive(Debug)]
struct Entry {
    released: u64,
    live: Handle,
    graph: Arc<Graph>,
    /// Ready nodes in the order in which they became so.
    ready: VecDeque<u32>,
    /// Nodes that have not been submitted.
    left: u32,
    /// Unfinished tasks that hold one of its nodes.
    running: u32,
    pinned: Option<WorkerId>,
    /// The request, until one of the nodes has been submitted.
    begins: Option<RequestId>,
    previous: u32,
    next: u32,
}

/// The nodes of one subgraph in one task.
#[derive(Clone, Debug)]
pub struct Share {
    entry: u32,
    /// The request that it belongs to.
    pub live: Handle,
    /// Where its nodes stand in the task.
    pub nodes: Range<usize>,
}

/// The subgraphs of one cell type that have nodes to submit.
#[derive(Debug)]
pub struct GraphQueue {
    entries: Vec<Entry>,
    vacant: Vec<u32>,
    first: u32,
    last: u32,
    /// Ready nodes of subgraphs that are pinned nowhere.
    unpinned: usize,
    /// Ready nodes of subgraphs that are pinned to each worker.
    pinned: Vec<usize>,
}

impl GraphQueue {
    /// An empty queue for so many workers.
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

    /// Puts a released subgraph at the end.
    pub fn push(&mut self, released: u64, live: Handle, request: RequestId, graph: &Arc<Graph>, subgraph: u32) {
        let part = &graph.subgraphs()[subgraph as usize];
        let (slot, mut ready) = match self.vacant.pop() {
            Some(slot) => (slot, std::mem::take(&mut self.entries[slot as usize].ready)),
            None => (self.entries.len() as u32, VecDeque::new()),
        };
        ready.extend(part.entries.iter());
        self.unpinned += ready.len();
        let entry = Entry {
            released,
            live,
            graph: Arc::clone(graph),
            ready,
            left: part.nodes,
            running: 0,
            pinned: None,
            begins: Some(request),
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

    /// The ready nodes of subgraphs that are unpinned or pinned to the worker.
    pub fn ready(&self, worker: WorkerId) -> usize {
        self.unpinned + self.pinned[worker.index()]
    }

    /// Takes the nodes of the worker's next task, up to `max`: appends nodes and shares, and the requests of
    /// subgraphs that were never taken before.
    pub fn take(
        &mut self,
        worker: WorkerId,
        max: usize,
        nodes: &mut Vec<u32>,
        shares: &mut Vec<Share>,
        begins: &mut Vec<RequestId>,
    ) -> MemberSet {
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
                shares.push(Share { entry: slot, live: entry.live, nodes: from..nodes.len() });
                begins.extend(entry.begins.take());
                if entry.left == 0 {
                    self.unlink(slot);
                }
            }
            slot = next;
        }
        members
    }

    /// Marks nodes ready that need nothing but what has now been submitted. `missing` gives the count of inner inputs
    /// that each node of a request still lacks.
    pub fn submitted(&mut self, worker: WorkerId, share: &Share, nodes: &[u32], missing: &mut [u32]) {
        let entry = &mut self.entries[share.entry as usize];
        let before = entry.ready.len();
        for &node in &nodes[share.nodes.clone()] {
            for &next in entry.graph.successors(node) {
                if entry.graph.subgraph_of()[next as usize] == entry.graph.subgraph_of()[node as usize] {
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

    /// A task with this share is done; a subgraph without unfinished tasks is pinned no longer.
    pub fn completed(&mut self, worker: WorkerId, share: &Share) {
        let entry = &mut self.entries[share.entry as usize];
        entry.running -= 1;
        if entry.running == 0 {
            entry.pinned = None;
            self.pinned[worker.index()] -= entry.ready.len();
            self.unpinned += entry.ready.len();
            if entry.left == 0 {
                self.vacant.push(share.entry);
            }
        }
    }

    fn unlink(&mut self, slot: u32) {
        let (previous, next) = (self.entries[slot as usize].previous, self.entries[slot as usize].next);
        match previous {
            NONE => self.first = next,
            previous => self.entries[previous as usize].next = next,
        }
        match next {
            NONE => self.last = previous,
            next => self.entries[next as usize].previous = previous,
        }
    }
}
