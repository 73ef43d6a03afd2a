//! Where the nodes of a request stand in it, and what is said to a policy that runs them out of order.

use std::cmp::Ordering;

use crate::network::Network;
use crate::units::{CellId, NodeId};
use crate::workload::cell_graph::CellGraph;

/// Where a node stands in its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The last node that follows this one without a branch and with the same cell, from state to state.
    pub run_end: NodeId,
    /// The size of its input, for cells that take as many words; 0 for all others, which take one.
    pub input: u32,
}

/// The cell type of a node and where it stands, if the graph has such a node.
pub fn find(graph: &CellGraph, node: NodeId) -> Option<(CellId, Place)> {
    match graph {
        CellGraph::Chains(runs) => {
            let mut end = 0;
            runs.iter().find_map(|run| {
                end += run.length;
                let place = Place { run_end: NodeId(end - 1), input: run.input };
                (node.0 < end).then_some((run.cell, place))
            })
        }
        CellGraph::Graph(graph) => {
            let cell = graph.cells().get(node.index())?;
            Some((*cell, Place { run_end: node, input: 0 }))
        }
    }
}

/// Where a node of a cell type stands.
///
/// # Errors
/// Says that there is no such node: it is a mistake of the policy.
pub fn place(graph: &CellGraph, node: NodeId, cell: CellId, network: &Network) -> Result<Place, String> {
    match find(graph, node) {
        Some((found, place)) if found == cell => Ok(place),
        Some((found, _)) => {
            let (found, cell) = (network.cell_name(found), network.cell_name(cell));
            Err(format!("the policy ran node {node} as the cell {cell}, but it is the cell {found}"))
        }
        None => Err(format!("the policy ran node {node}, which the request does not have")),
    }
}

/// Whether a chain of which so many nodes have run goes on with this one.
///
/// # Errors
/// Says whether the policy came back to a node or left one out.
pub fn in_order(node: u32, done: u32) -> Result<(), String> {
    match node.cmp(&done) {
        Ordering::Equal => Ok(()),
        Ordering::Less => Err(run_twice(node)),
        Ordering::Greater => Err(run_before(node, node - 1)),
    }
}

/// The policy came back to a node.
pub fn run_twice(node: u32) -> String {
    format!("the policy ran node {node} twice")
}

/// The policy ran a node too early.
pub fn run_before(node: u32, input: u32) -> String {
    format!("the policy ran node {node} before node {input}, whose state it needs")
}

/// The policy's steps do not fit the nodes that it listed.
pub const NOT_ONE_BATCH: &str = "the policy's task lists nodes, but its steps are not one batch that holds them";

/// The policy's steps did not reach all nodes.
pub fn left_over(left: u64, nodes: u64) -> String {
    format!("the steps of the policy's task ended while {left} of {nodes} nodes had not run")
}
