//! The queues of ready nodes, one for each cell type.

use self::ReadyQueue::{Chains, Graphs, Leaves};
use super::batch::{CellBatch, CellWork, MemberSet};
use super::chain::ChainQueue;
use super::graph::GraphQueue;
use super::leaves::LeafQueue;
use super::requests::{Chain, LiveRequests, Released};
use crate::base::units::{Nanos, WorkerId};
use crate::core::policy::{Completed, Outcomes};
use crate::core::task::{NodeRef, Part};
use crate::core::workload::model::CellType;

/// The subgraphs of one cell type with nodes to submit, in the order of release. A subgraph with unfinished tasks on a
/// worker is *pinned* to it.
///
/// This is not a trait object, because the inner loop calls it about ten times for each task.
pub enum ReadyQueue {
    Chains(ChainQueue),
    Leaves(LeafQueue),
    Graphs(GraphQueue),
}

impl ReadyQueue {
    pub fn new(cell: &CellType, workers: usize, chunk: u32) -> ReadyQueue {
        if cell.chain {
            Chains(ChainQueue::new(workers, chunk, cell.sized))
        } else {
            assert!(
                !cell.sized && chunk == 1,
                "input sizes and chunks are for chains"
            );
            Graphs(GraphQueue::new(workers))
        }
    }

    #[inline]
    pub fn push(&mut self, released: &Released<'_>) {
        match self {
            Chains(queue) => queue.push(released.chain()),
            Leaves(queue) => queue.push(released.leaf()),
            Graphs(queue) => queue.push(released),
        }
    }

    /// Takes in a request that is one chain.
    #[inline]
    pub fn push_chain(&mut self, chain: Chain) {
        let Chains(queue) = self else {
            unreachable!("a run is of a cell type whose subgraphs are chains")
        };
        queue.push(chain);
    }

    /// The queue of the leaves of trees, if this is one.
    #[inline]
    pub fn leaves(&mut self) -> Option<&mut LeafQueue> {
        match self {
            Leaves(queue) => Some(queue),
            Chains(_) | Graphs(_) => None,
        }
    }

    /// The number of nodes that any worker could take.
    #[inline]
    pub fn unpinned_nodes(&self) -> usize {
        match self {
            Chains(queue) => queue.unpinned_nodes(),
            Leaves(queue) => queue.ready(),
            Graphs(queue) => queue.unpinned_nodes(),
        }
    }

    /// The number of nodes that the worker could take.
    #[inline]
    pub fn ready(&self, worker: WorkerId) -> usize {
        match self {
            Chains(queue) => queue.ready(worker),
            Leaves(queue) => queue.ready(),
            Graphs(queue) => queue.ready(worker),
        }
    }

    /// The arrival of the request whose node the worker would take first.
    pub fn head_arrival(&self, worker: WorkerId, requests: &LiveRequests) -> Option<Nanos> {
        match self {
            Chains(queue) => queue.head_arrival(worker),
            Leaves(queue) => queue.head_arrival(requests),
            Graphs(queue) => Some(requests[queue.head(worker)?].arrival),
        }
    }

    /// Takes the nodes of the next task from the front.
    #[inline]
    pub fn take(
        &mut self,
        worker: WorkerId,
        max: usize,
        batch: &mut CellBatch,
        requests: &LiveRequests,
    ) -> MemberSet {
        match self {
            Chains(queue) => queue.take(worker, max, batch),
            Leaves(queue) => queue.take(max, batch, requests),
            Graphs(queue) => queue.take(worker, max, batch),
        }
    }

    /// The work of the task that was taken, whose batch size is `size`.
    #[inline]
    pub fn work(&self, worker: WorkerId, size: u32) -> CellWork {
        match self {
            Chains(queue) => queue.work(worker, size),
            Leaves(_) | Graphs(_) => CellWork::one_step(size),
        }
    }

    /// Visits the task's members in the order of release.
    pub fn visit_members(
        &self,
        worker: WorkerId,
        batch: &CellBatch,
        requests: &LiveRequests,
        visit: &mut dyn FnMut(Part),
    ) {
        match self {
            Chains(queue) => queue.visit_members(worker, visit),
            Leaves(_) => requests.visit_leaves(&batch.leaves, visit),
            Graphs(queue) => queue.visit_members(batch, requests, visit),
        }
    }

    /// Lists the nodes of the members that join with the task that was taken last, which runs one node of each.
    pub fn list_joined(
        &self,
        batch: &CellBatch,
        requests: &LiveRequests,
        nodes: &mut Vec<NodeRef>,
    ) {
        match self {
            Chains(queue) => nodes.extend_from_slice(queue.joined_nodes()),
            Leaves(_) => requests.visit_leaves(&batch.leaves, &mut |part| nodes.push(part.first())),
            Graphs(_) => {}
        }
    }

    /// Makes the nodes ready that depend only on submitted ones.
    #[inline]
    pub fn advance(
        &mut self,
        worker: WorkerId,
        batch: &mut CellBatch,
        requests: &mut LiveRequests,
    ) {
        match self {
            Chains(queue) => queue.advance(worker, batch),
            Leaves(_) => {}
            Graphs(queue) => queue.advance(worker, batch, requests),
        }
    }

    /// Unpins subgraphs without unfinished tasks.
    #[inline]
    pub fn complete(
        &mut self,
        completed: &Completed<'_>,
        batch: &CellBatch,
        requests: &mut LiveRequests,
        outcomes: &mut Outcomes,
    ) {
        match self {
            Chains(queue) => queue.complete(completed, batch, requests, outcomes),
            Leaves(_) => requests.complete_leaves(&batch.leaves, completed.task, outcomes),
            Graphs(queue) => queue.complete(completed, batch, requests, outcomes),
        }
    }
}
