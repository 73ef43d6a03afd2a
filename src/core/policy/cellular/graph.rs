//! The queue of general subgraphs (trees, diamonds): a linked list in the order of release. The cost of a task is
//! proportional to its nodes and to the subgraphs that it passes over because they are pinned elsewhere.

use super::batch::{CellBatch, MemberSet, SubgraphShare};
use super::requests::{LiveRequests, Released, RequestKey};
use crate::base::units::{NodeId, RequestId, WorkerId};
use crate::core::policy::{Completed, Outcomes};
use crate::core::task::Part;

const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct QueuedSubgraph {
    /// The subgraph's place in the order of release, over all queues.
    released: u64,
    key: RequestKey,
    /// The nodes that have been ready, in the order in which they became ready. The first `taken` of them have been
    /// submitted.
    ready: Vec<u32>,
    taken: usize,
    /// The number of nodes that have not been submitted.
    left: u32,
    /// The number of unfinished tasks.
    running: u32,
    pinned: Option<WorkerId>,
    /// The request, until a node of the subgraph has been submitted. A subgraph that had to wait for another does not
    /// begin it.
    begins: Option<RequestId>,
    /// The slots of the neighbours in the list, or [`NONE`].
    previous: u32,
    next: u32,
}

impl QueuedSubgraph {
    /// The number of ready nodes.
    fn ready_nodes(&self) -> usize {
        self.ready.len() - self.taken
    }
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
}

impl GraphQueue {
    pub fn push(&mut self, released: &Released<'_>) {
        let (slot, mut ready) = match self.vacant.pop() {
            Some(slot) => (slot, std::mem::take(&mut self.entries[slot as usize].ready)),
            None => (self.entries.len() as u32, Vec::new()),
        };
        ready.clear();
        let left = released.list_entries(&mut ready);
        self.unpinned += ready.len();
        let entry = QueuedSubgraph {
            released: released.order,
            key: released.key,
            ready,
            taken: 0,
            left,
            running: 0,
            pinned: None,
            begins: released.begins(),
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
            let ready = entry.ready_nodes();
            if entry.pinned.is_none_or(|pin| pin == worker) && ready > 0 {
                return Some(entry.key);
            }
            slot = entry.next;
        }
        None
    }

    pub fn take(&mut self, worker: WorkerId, max: usize, batch: &mut CellBatch) -> MemberSet {
        let mut members = MemberSet::default();
        let mut position = 0;
        let mut slot = self.first;
        while slot != NONE && position < max {
            let entry = &mut self.entries[slot as usize];
            let next = entry.next;
            let ready = entry.ready_nodes();
            if entry.pinned.is_none_or(|pin| pin == worker) && ready > 0 {
                if entry.pinned.is_none() {
                    entry.pinned = Some(worker);
                    self.unpinned -= ready;
                    self.pinned[worker.index()] += ready;
                }
                let count = ready.min(max - position);
                let from = entry.taken;
                entry.taken += count;
                entry.left -= count as u32;
                entry.running += 1;
                members.add(entry.released, count as u32);
                batch.shares.push(SubgraphShare {
                    slot,
                    key: entry.key,
                    nodes: from..entry.taken,
                    position,
                });
                position += count;
                batch.begins.extend(entry.begins.take());
                if entry.left == 0 {
                    self.unlink(slot);
                }
            }
            slot = next;
        }
        self.pinned[worker.index()] -= position;
        members
    }

    /// The nodes of a share of a task that runs.
    fn nodes(&self, share: &SubgraphShare) -> &[u32] {
        &self.entries[share.slot as usize].ready[share.nodes.clone()]
    }

    pub fn visit_members(
        &self,
        batch: &CellBatch,
        requests: &LiveRequests,
        visit: &mut dyn FnMut(Part),
    ) {
        for share in &batch.shares {
            let request = requests[share.key].request;
            for node in self.nodes(share) {
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
            let ready = &mut self.entries[share.slot as usize].ready;
            let before = ready.len();
            requests.submit_nodes(share.key, share.nodes.clone(), ready);
            ready[before..].sort_unstable();
            self.pinned[worker.index()] += ready.len() - before;
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
                let ready = entry.ready_nodes();
                self.pinned[completed.worker.index()] -= ready;
                self.unpinned += ready;
                if entry.left == 0 {
                    self.vacant.push(share.slot);
                }
            }
        }
        for share in &batch.shares {
            requests.complete_nodes(
                share.key,
                self.nodes(share),
                completed.task,
                share.position,
                outcomes,
            );
        }
    }
}
