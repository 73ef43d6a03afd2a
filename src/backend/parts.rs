//! Tasks of parts: what real backends make of them, node after node.

use super::places::{self, NOT_ONE_BATCH};
use crate::task::{NodeRef, Part, Step};
use crate::units::NodeId;
use crate::workload::cell_graph::CellGraph;

/// The nodes of the longest part.
pub fn longest(parts: &[Part]) -> usize {
    parts.iter().map(length).max().unwrap_or(0)
}

/// The nodes of a part.
pub fn length(part: &Part) -> usize {
    part.to.0.saturating_sub(part.from.0) as usize
}

/// Whether the steps hold all parts, and run as often as the longest has nodes.
pub fn fit(parts: &[Part], steps: &[Step]) -> bool {
    let times: usize = steps.iter().map(|step| step.times as usize).sum();
    steps.iter().all(|step| parts.len() <= step.batch as usize) && times == longest(parts)
}

/// Puts the nodes into `nodes` that the parts run at this place, and gives the step that runs them. The steps say how each cell runs,
/// and the parts in which order.
///
/// # Errors
/// No step is of the first node's cell.
pub fn nodes_at(
    parts: &[Part],
    place: usize,
    steps: &[Step],
    graphs: &[CellGraph],
    nodes: &mut Vec<NodeRef>,
) -> Result<Step, String> {
    nodes.clear();
    let at = |part: &Part| NodeRef { request: part.request, node: NodeId(part.from.0 + place as u32) };
    nodes.extend(parts.iter().filter(|part| place < length(part)).map(at));
    let cell = nodes.first().and_then(|at| places::find(&graphs[at.request.index()], at.node));
    let step = steps.iter().find(|step| cell.is_some_and(|(cell, _)| step.cell == cell));
    step.map(|step| Step { times: 1, ..*step }).ok_or_else(|| NOT_ONE_BATCH.to_string())
}
