//! The rows that stand in the operands of a cell type on a stream.
//!
//! As long as a batch's nodes are the next ones of these rows, in their order, the device goes on from what it has there, and
//! nothing is brought together.

use super::device::Shape;
use crate::task::NodeRef;
use crate::units::{NodeId, RequestId};

/// The rows of the last gather.
#[derive(Debug, Default)]
pub struct Rows {
    /// For what batch they were brought together.
    shape: Option<Shape>,
    members: Vec<Member>,
}

/// A row with a node.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Whose node it is.
    pub request: RequestId,
    /// The node that was queued last.
    pub node: u32,
    /// The last node that the row can hold.
    pub last: u32,
    /// The request's last node is the row's.
    pub ends: bool,
}

impl Member {
    /// The node that was queued last.
    pub fn at(&self) -> NodeRef {
        NodeRef { request: self.request, node: NodeId(self.node) }
    }

    /// Whether the request ends with the node that was queued last.
    pub fn has_ended(&self) -> bool {
        self.ends && self.node == self.last
    }
}

impl Rows {
    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.shape = None;
        self.members.clear();
    }

    /// The rows have been brought together for this batch.
    pub fn gathered(&mut self, shape: Shape) {
        self.shape = Some(shape);
    }

    /// Adds a row.
    pub fn push(&mut self, member: Member) {
        self.members.push(member);
    }

    /// The rows with a node.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The batch that they were brought together for, if they were.
    pub fn shape(&self) -> Option<Shape> {
        self.shape
    }

    /// Whether these nodes are the next of all rows, in this order.
    pub fn go_on_with(&self, nodes: &[NodeRef]) -> bool {
        let next = |(row, at): (&Member, &NodeRef)| {
            row.request == at.request && at.node.0 == row.node + 1 && at.node.0 <= row.last
        };
        !nodes.is_empty() && self.members.len() == nodes.len() && self.members.iter().zip(nodes).all(next)
    }

    /// Passes to the last node of each row that a launch of several steps runs, given in the order of the rows.
    pub fn go_to(&mut self, lasts: impl Iterator<Item = u32>) {
        self.members.iter_mut().zip(lasts).for_each(|(row, last)| row.node = last);
    }

    /// Passes to the next node in each row.
    pub fn go_on(&mut self) {
        self.members.iter_mut().for_each(|row| row.node += 1);
    }

    /// Takes out the rows that can't go on, which are padding from now on; `ended` is told of each.
    pub fn drop_ended(&mut self, mut ended: impl FnMut(&Member)) {
        self.members.retain(|row| {
            let stays = row.node < row.last;
            if !stays {
                ended(row);
            }
            stays
        });
    }
}
