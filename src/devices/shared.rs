//! Shared by the backends on real devices.

use std::cmp::Ordering;
use std::time::Duration;

use crate::base::units::{CellId, NodeId};
use crate::core::task::{NodeRef, Part, Step};
use crate::core::workload::cell_graph::CellGraph;
use crate::devices::network::Network;

/// Then the driver checks whether the user wants to stop.
pub const GLANCE: Duration = Duration::from_millis(50);

/// A sleeping thread wakes up late by less than this: it sleeps that much shorter and spins for the rest.
pub const OVERSLEEP: Duration = Duration::from_micros(200);

/// Between two reads of the clock, a spinning thread looks this often.
pub const LOOKS: u32 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePlace {
    /// The last node that follows without a branch and with the same cell.
    pub run_end: NodeId,
    /// The tokens that the node reads, for cells whose input has a size; otherwise 0, for one token.
    pub input: u32,
}

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

/// Fails if there is no such node, a mistake of the policy.
pub fn node_of_cell(
    graph: &CellGraph,
    node: NodeId,
    cell: CellId,
    network: &Network,
) -> Result<NodePlace, String> {
    match find_node(graph, node) {
        Some((found, place)) if found == cell => Ok(place),
        Some((found, _)) => {
            let (found, cell) = (network.cell_name(found), network.cell_name(cell));
            Err(format!(
                "the policy ran node {node} as the cell {cell}, but it is the cell {found}"
            ))
        }
        None => Err(format!(
            "the policy ran node {node}, which the request does not have"
        )),
    }
}

pub fn in_order(node: u32, done: u32) -> Result<(), String> {
    match node.cmp(&done) {
        Ordering::Equal => Ok(()),
        Ordering::Less => Err(run_twice(node)),
        Ordering::Greater => Err(run_before(node, node - 1)),
    }
}

pub fn run_twice(node: u32) -> String {
    format!("the policy ran node {node} twice")
}

pub fn run_before(node: u32, input: u32) -> String {
    format!("the policy ran node {node} before node {input}, whose state it needs")
}

pub const NOT_ONE_BATCH: &str =
    "the policy's task lists nodes, but its steps are not one batch that holds them";

pub fn left_over(left: u64, nodes: u64) -> String {
    format!("the steps of the policy's task ended while {left} of {nodes} nodes had not run")
}

pub fn part_length(part: &Part) -> usize {
    part.to.0.saturating_sub(part.from.0) as usize
}

pub fn longest_part(parts: &[Part]) -> usize {
    parts.iter().map(part_length).max().unwrap_or(0)
}

pub fn parts_fit(parts: &[Part], steps: &[Step]) -> bool {
    let times: usize = steps.iter().map(|step| step.times as usize).sum();
    steps.iter().all(|step| parts.len() <= step.batch as usize) && times == longest_part(parts)
}

/// Puts the `place`-th node of each part into `nodes` and returns the step of the first node's cell. Steps say how each
/// cell runs; the parts define the order.
pub fn part_nodes(
    parts: &[Part],
    place: usize,
    steps: &[Step],
    graphs: &[CellGraph],
    nodes: &mut Vec<NodeRef>,
) -> Result<Step, String> {
    nodes.clear();
    let at = |part: &Part| NodeRef {
        request: part.request,
        node: NodeId(part.from.0 + place as u32),
    };
    nodes.extend(
        parts
            .iter()
            .filter(|part| place < part_length(part))
            .map(at),
    );
    let cell = nodes
        .first()
        .and_then(|at| find_node(&graphs[at.request.index()], at.node));
    let step = steps
        .iter()
        .find(|step| cell.is_some_and(|(cell, _)| step.cell == cell));
    step.map(|step| Step { times: 1, ..*step })
        .ok_or_else(|| NOT_ONE_BATCH.to_string())
}
