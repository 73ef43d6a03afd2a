//! The queue of the leaves of trees. The leaves of a tree, which are all free when it arrives, are one entry with a
//! number, so that a task costs its trees and not its nodes.

use std::collections::VecDeque;

use super::batch::{CellBatch, MemberSet};
use super::requests::{Leaves, LiveRequests};
use crate::base::units::Nanos;

/// The queue of the cell type of leaves.
#[derive(Debug, Default)]
pub struct LeafQueue {
    /// The leaves in the order of release. None is empty.
    waiting: VecDeque<Leaves>,
    /// The number of leaves. None is pinned, because each is in one task only.
    leaves: usize,
}

impl LeafQueue {
    pub fn push(&mut self, leaves: Leaves) {
        self.leaves += leaves.count as usize;
        self.waiting.push_back(leaves);
    }

    pub fn ready(&self) -> usize {
        self.leaves
    }

    pub fn head_arrival(&self, requests: &LiveRequests) -> Option<Nanos> {
        let head = self.waiting.front()?;
        Some(requests[head.key].arrival)
    }

    pub fn take(
        &mut self,
        max: usize,
        batch: &mut CellBatch,
        requests: &LiveRequests,
    ) -> MemberSet {
        let mut members = MemberSet::default();
        let mut room = max;
        while room > 0
            && let Some(front) = self.waiting.front_mut()
        {
            let taken = front.split_off(room);
            if front.count == 0 {
                self.waiting.pop_front();
            }
            room -= taken.count as usize;
            members.add(taken.released, taken.count);
            batch.begins.push(requests[taken.key].request);
            batch.leaves.push(taken);
        }
        self.leaves -= max - room;
        // No member goes on after its first task.
        batch.follows = true;
        batch.joined = (max - room) as u32;
        members
    }
}
