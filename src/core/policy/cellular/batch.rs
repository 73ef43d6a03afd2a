//! What the queues of ready nodes and the core of Algorithm 1 exchange about a task.

use std::ops::Range;

use super::requests::{EndedChain, Leaves, RequestKey};
use crate::base::units::{CellId, RequestId};
use crate::core::workload::random::split_mix;

/// The members of a task of one cell type.
#[derive(Default)]
pub struct CellBatch {
    pub cell: CellId,
    /// The requests whose first task this may be.
    pub begins: Vec<RequestId>,
    /// The chains that end with the task, in a queue of chains.
    pub ended: Vec<EndedChain>,
    /// The number of members that join with the task, in queues of chains and leaves.
    pub joined: u32,
    /// Whether all other members go on from the worker's previous task of this cell type.
    pub follows: bool,
    /// The leaves, in a queue of leaves.
    pub leaves: Vec<Leaves>,
    /// The nodes by subgraph, in a queue of graphs.
    pub shares: Vec<SubgraphShare>,
}

impl CellBatch {
    pub fn clear(&mut self) {
        self.begins.clear();
        self.ended.clear();
        self.joined = 0;
        self.follows = false;
        self.leaves.clear();
        self.shares.clear();
    }
}

/// The nodes of one subgraph in a task.
#[derive(Clone, Debug)]
pub struct SubgraphShare {
    /// The subgraph's slot in its queue.
    pub slot: u32,
    pub key: RequestKey,
    /// The places of the nodes in the subgraph's list of ready nodes.
    pub nodes: Range<usize>,
    /// The number of the task's nodes before these.
    pub position: usize,
}

/// The work of a task.
pub struct CellWork {
    pub steps: u32,
    pub input: u32,
    pub useful_cells: u64,
}

impl CellWork {
    /// One step without an input size.
    pub fn one_step(size: u32) -> CellWork {
        CellWork {
            steps: 1,
            input: 0,
            useful_cells: size.into(),
        }
    }
}

/// A fingerprint of (subgraph, nodes) pairs: a sum of well-mixed values, so two different sets are equal with
/// probability 2^-64.
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

/// The upper 24 bits of `released` are zero for the first 2^40 subgraphs, so `nodes` is rotated into them.
fn mix(released: u64, nodes: u32) -> u64 {
    split_mix(released ^ u64::from(nodes).rotate_right(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(members: &[(u64, u32)]) -> MemberSet {
        let mut set = MemberSet::default();
        for (released, nodes) in members {
            set.add(*released, *nodes);
        }
        set
    }

    #[test]
    fn equal_sets_agree_and_others_do_not() {
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
