//! The queues of ready nodes, one for each cell type.

use enum_dispatch::enum_dispatch;

use super::chain::{ChainQueue, Running};
use super::graph::{GraphQueue, Share};
use super::requests::{Released, RequestKey, Requests};
use crate::base::units::{CellId, RequestId, WorkerId};
use crate::core::policy::{Completed, Outcomes};
use crate::core::task::Part;
use crate::core::workload::model::CellType;
use crate::core::workload::random::split_mix;

/// The subgraphs of one cell type with nodes to submit, in the order of release. A subgraph with unfinished tasks on a
/// worker is *pinned* to it.
#[enum_dispatch]
pub trait ReadyQueue {
    fn push(&mut self, released: &Released<'_>);

    /// Number of nodes that any worker could take.
    fn unpinned(&self) -> usize;

    /// Number of nodes that the worker could take.
    fn ready(&self, worker: WorkerId) -> usize;

    /// Whose node the worker would take first.
    fn head(&self, worker: WorkerId) -> Option<RequestKey>;

    /// Takes the nodes of the next task from the front.
    fn take(&mut self, worker: WorkerId, max: usize, batch: &mut Batch) -> MemberSet;

    /// The work of the taken task.
    fn extent(&self, worker: WorkerId, size: u32, requests: &Requests) -> Extent;

    /// Visits the task's members in the order of release.
    fn members(
        &self,
        worker: WorkerId,
        batch: &Batch,
        requests: &Requests,
        visit: &mut dyn FnMut(Part),
    );

    /// Makes the nodes ready that depend only on submitted ones.
    fn submitted(&mut self, worker: WorkerId, batch: &mut Batch, requests: &mut Requests);

    /// Unpins subgraphs without unfinished tasks.
    fn complete(
        &mut self,
        completed: &Completed<'_>,
        batch: &Batch,
        requests: &mut Requests,
        outcomes: &mut Outcomes,
    );
}

#[derive(Default)]
pub struct Batch {
    pub cell: CellId,
    pub begins: Vec<RequestId>,
    pub ended: Vec<Running>,
    pub nodes: Vec<u32>,
    pub shares: Vec<Share>,
}

impl Batch {
    pub fn clear(&mut self) {
        let Batch {
            cell: _,
            begins,
            ended,
            nodes,
            shares,
        } = self;
        begins.clear();
        ended.clear();
        nodes.clear();
        shares.clear();
    }
}

pub struct Extent {
    pub steps: u32,
    pub input: u32,
    pub useful_cells: u64,
}

/// Not a box: the inner loop calls it about ten times a task.
#[enum_dispatch(ReadyQueue)]
pub enum Queue {
    ChainQueue,
    GraphQueue,
}

impl Queue {
    pub fn new(cell: &CellType, workers: usize, chunk: u32) -> Queue {
        if cell.chain {
            ChainQueue::new(workers, chunk, cell.sized).into()
        } else {
            assert!(
                !cell.sized && chunk == 1,
                "input sizes and chunks are for chains"
            );
            GraphQueue::new(workers).into()
        }
    }
}

/// A fingerprint of (subgraph, nodes) pairs. A sum of well-mixed values: different sets collide once in 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberSet(u64);

impl MemberSet {
    pub fn add(&mut self, released: u64, nodes: u32) {
        self.0 = self.0.wrapping_add(mix(released, nodes));
    }

    pub fn remove(&mut self, released: u64, nodes: u32) {
        self.0 = self.0.wrapping_sub(mix(released, nodes));
    }
}

/// The upper bits are zero in the first 2^40 places.
fn mix(released: u64, nodes: u32) -> u64 {
    split_mix(released ^ u64::from(nodes).rotate_right(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sets_agree_and_others_do_not() {
        let set = |members: &[(u64, u32)]| {
            let mut set = MemberSet::default();
            members
                .iter()
                .for_each(|(released, nodes)| set.add(*released, *nodes));
            set
        };
        assert_eq!(set(&[(1, 1), (2, 1)]), set(&[(2, 1), (1, 1)]));
        assert_ne!(set(&[(1, 1), (2, 1)]), set(&[(1, 1), (3, 1)]));
        assert_ne!(set(&[(1, 2)]), set(&[(1, 1)]));
        assert_ne!(set(&[(1, 2), (2, 1)]), set(&[(1, 1), (2, 2)]));
        let mut grown = set(&[(7, 1)]);
        grown.add(9, 3);
        grown.remove(9, 3);
        assert_eq!(grown, set(&[(7, 1)]));
    }
}
