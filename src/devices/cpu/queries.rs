//! The queries of a batch of a listed network. Their activations are gathered from the table and written back only when
//! the members change or the task ends.

use super::table::Table;
use crate::base::units::{CellId, NodeId};
use crate::core::task::{NodeRef, Step};
use crate::devices::network::Scratch;
use crate::devices::network::operators::{Activations, Operators};

#[derive(Debug, Default)]
pub struct Queries {
    /// `None` for padding.
    members: Vec<Option<NodeRef>>,
    passed: Activations,
    next: Activations,
    /// The cell that ran, if the activations are newer than the table.
    ahead: Option<CellId>,
}

impl Queries {
    /// Whether these nodes are the next of all queries, in this order, and of this step's cell.
    pub fn go_on_with(&self, operators: &Operators, step: &Step, nodes: &[NodeRef]) -> bool {
        let is_next = |(member, node): (&Option<NodeRef>, &NodeRef)| {
            member.is_some_and(|NodeRef { request, node: at }| {
                *node
                    == NodeRef {
                        request,
                        node: NodeId(at.0 + 1),
                    }
            }) && operators.network().cell_at(node.node) == Some(step.cell)
        };
        self.members.len() == nodes.len()
            && step.batch as usize <= nodes.len()
            && self.members.iter().zip(nodes).all(is_next)
    }

    /// Runs these nodes as one batch. Returns whether the queries were in place.
    pub fn run(
        &mut self,
        step: &Step,
        nodes: &[NodeRef],
        operators: &Operators,
        table: &Table,
        scratch: &mut Scratch,
    ) -> bool {
        let stay = self.go_on_with(operators, step, nodes);
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

    /// If a node can't run, its request fails and its query is padding.
    fn gather(&mut self, step: &Step, nodes: &[NodeRef], operators: &Operators, table: &Table) {
        self.members.clear();
        self.passed.clear();
        for &at in nodes {
            let placed = table.place(at, step.cell);
            self.members.push(placed.is_ok().then_some(at));
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
    pub fn put(&mut self, table: &Table) {
        let Some(cell) = self.ahead.take() else {
            return;
        };
        for (place, member) in self.members.iter().enumerate() {
            if let Some(at) = member {
                table.put(*at, cell, self.passed.of(place), &[]);
            }
        }
    }
}
