//! What a policy's task may run: the nodes that its members and steps name, and the mistakes that make requests fail.

use std::cmp::Ordering;

use crate::base::units::{CellId, NodeId};
use crate::core::task::{NodeRef, Part, Step};
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::shared_list::SharedList;
use crate::devices::network::Network;

/// The place of a node in a cell graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePlace {
    /// The last node that follows without a branch and with the same cell.
    pub run_end: NodeId,
    /// The tokens that the node reads, for cells whose input has a size; otherwise 0, for one token.
    pub input: u32,
}

/// The cell type of a node and its place, or `None` if the graph has no such node.
pub fn find_node(graph: &CellGraph, node: NodeId) -> Option<(CellId, NodePlace)> {
    match graph {
        CellGraph::Chains(runs) => {
            let mut end = 0;
            runs.iter().find_map(|run| {
                end += run.length;
                let place = NodePlace {
                    run_end: NodeId(end - 1),
                    input: run.input,
                };
                (node.0 < end).then_some((run.cell, place))
            })
        }
        CellGraph::Graph(graph) => {
            let cell = graph.cells().get(node.index())?;
            Some((
                *cell,
                NodePlace {
                    run_end: node,
                    input: 0,
                },
            ))
        }
    }
}

/// The place of a node. Fails if the policy runs a node that does not exist, or runs it as another cell.
pub fn node_of_cell(
    graph: &CellGraph,
    node: NodeId,
    cell: CellId,
    network: &Network,
) -> Result<NodePlace, String> {
    match find_node(graph, node) {
        Some((found, place)) if found == cell => Ok(place),
        Some((found, _)) => {
            let found = network.cell_name(found);
            let cell = network.cell_name(cell);
            Err(format!(
                "the policy ran node {node} as the cell {cell}, but it is the cell {found}"
            ))
        }
        None => Err(format!(
            "the policy ran node {node}, which the request does not have"
        )),
    }
}

/// Fails unless a chain of which `done` nodes have run continues with this node.
pub fn check_order(node: u32, done: u32) -> Result<(), String> {
    match node.cmp(&done) {
        Ordering::Equal => Ok(()),
        Ordering::Less => Err(run_twice(node)),
        Ordering::Greater => Err(run_before(node, node - 1)),
    }
}

/// The message for a node that runs a second time.
pub fn run_twice(node: u32) -> String {
    format!("the policy ran node {node} twice")
}

/// The message for a node that runs before one of its inputs.
pub fn run_before(node: u32, input: u32) -> String {
    format!("the policy ran node {node} before node {input}, whose state it needs")
}

/// The message for a task of nodes whose steps do not run them as one batch.
pub const NOT_ONE_BATCH: &str =
    "the policy's task lists nodes, but its steps are not one batch that holds them";

/// The message for a task that ends before all nodes of a request have run.
pub fn left_over(left: u64, nodes: u64) -> String {
    format!("the steps of the policy's task ended while {left} of {nodes} nodes had not run")
}

/// The number of nodes of a part.
pub fn part_length(part: &Part) -> usize {
    part.to.0.saturating_sub(part.from.0) as usize
}

/// The number of nodes of the longest part.
pub fn longest_part(parts: &[Part]) -> usize {
    parts.iter().map(part_length).max().unwrap_or(0)
}

/// Whether the steps have room for all parts, and run as often as the longest part needs.
pub fn parts_fit(parts: &[Part], steps: &[Step]) -> bool {
    let times: usize = steps.iter().map(|step| step.times as usize).sum();
    steps.iter().all(|step| parts.len() <= step.batch as usize) && times == longest_part(parts)
}

/// Puts the `place`-th node of each part into `nodes`, and returns the step of the first node's cell. The steps say how
/// each cell runs; the parts define the order.
pub fn part_nodes(
    parts: &[Part],
    place: usize,
    steps: &[Step],
    graphs: &SharedList<CellGraph>,
    nodes: &mut Vec<NodeRef>,
) -> Result<Step, String> {
    nodes.clear();
    for part in parts {
        if place < part_length(part) {
            nodes.push(NodeRef {
                request: part.request,
                node: NodeId(part.from.0 + place as u32),
            });
        }
    }
    let cell = nodes
        .first()
        .and_then(|at| find_node(&graphs[at.request.index()], at.node));
    let step = steps
        .iter()
        .find(|step| cell.is_some_and(|(cell, _)| step.cell == cell));
    match step {
        Some(step) => Ok(Step { times: 1, ..*step }),
        None => Err(NOT_ONE_BATCH.to_string()),
    }
}
