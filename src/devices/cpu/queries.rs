//! The queries of a batch of a listed network. Their activations are gathered from the table and written back only when
//! the members change or the task ends.

use super::table::StateTable;
use crate::base::units::{CellId, NodeId};
use crate::core::task::{NodeRef, Step};
use crate::devices::network::Scratch;
use crate::devices::network::operators::{Activations, Operators};

/// The queries of a batch.
#[derive(Debug, Default)]
pub struct CpuQueries {
    /// The nodes that ran last; `None` for padding.
    members: Vec<Option<NodeRef>>,
    /// The present activations.
    passed: Activations,
    /// Memory for the activations after the next operator.
    next: Activations,
    /// The cell that ran, if the activations are newer than the table.
    ahead: Option<CellId>,
}

impl CpuQueries {
    /// Whether these nodes are the next of all queries, in this order, and of this step's cell.
    pub fn continue_with(&self, operators: &Operators, step: &Step, nodes: &[NodeRef]) -> bool {
        self.members.len() == nodes.len()
            && step.batch as usize <= nodes.len()
            && self
                .members
                .iter()
                .zip(nodes)
                .all(|(member, node)| is_next(*member, *node))
            && nodes
                .iter()
                .all(|node| operators.network().cell_at(node.node) == Some(step.cell))
    }

    /// Runs these nodes as one batch. Returns whether the queries were in place.
    pub fn run(
        &mut self,
        step: &Step,
        nodes: &[NodeRef],
        operators: &Operators,
        table: &StateTable,
        scratch: &mut Scratch,
    ) -> bool {
        let stay = self.continue_with(operators, step, nodes);
        if stay {
            self.members
                .iter_mut()
                .flatten()
                .for_each(|member| member.node.0 += 1);
        } else {
            self.put(table);
            self.gather(step, nodes, operators, table);
        }
        operators.run(step.cell, step.input, &self.passed, &mut self.next, scratch);
        std::mem::swap(&mut self.passed, &mut self.next);
        self.ahead = Some(step.cell);
        stay
    }

    /// Gathers the activations of these nodes. If a node can't run, its request fails and its query is padding.
    fn gather(
        &mut self,
        step: &Step,
        nodes: &[NodeRef],
        operators: &Operators,
        table: &StateTable,
    ) {
        self.members.clear();
        self.passed.clear();
        for &at in nodes {
            let placed = table.place(at, step.cell);
            self.members
                .push(if placed.is_ok() { Some(at) } else { None });
            self.passed.push(
                Operators::tokens(table.graph(at.request)),
                |numbers| match placed {
                    Ok(_) => {
                        table.take(at, numbers);
                        if at.node == NodeId(0) {
                            operators.draw(
                                at.request,
                                Operators::tokens(table.graph(at.request)),
                                numbers,
                            );
                        }
                    }
                    Err(reason) => table.fail(at.request, reason),
                },
            );
        }
        let size = nodes.len().max(step.batch as usize);
        self.members.resize(size, None);
        self.passed.pad(size);
    }

    /// Writes the activations to the table, unless they are there.
    pub fn put(&mut self, table: &StateTable) {
        let Some(cell) = self.ahead.take() else {
            return;
        };
        for (place, member) in self.members.iter().enumerate() {
            if let Some(at) = member {
                table.put(*at, cell, self.passed.values(place), &[]);
            }
        }
    }
}

/// Whether a node comes after the last one of a query.
fn is_next(last: Option<NodeRef>, node: NodeRef) -> bool {
    last.is_some_and(|last| node.request == last.request && node.node == NodeId(last.node.0 + 1))
}
