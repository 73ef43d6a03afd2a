//! Bounds that no policy can exceed, for the requests of a scenario on a simulated target.

use super::inputs::RunInputs;
use super::target::Target;
use crate::base::error::Result;
use crate::base::units::{CellId, Nanos, RequestId};
use crate::core::cost::table::TableCosts;
use crate::core::policy::registry::Batches;
use crate::core::policy::whole::PaddedBatch;
use crate::core::summary::bounds::{AffineService, Bounds, Fastest};
use crate::core::workload::cell_graph::tree::Tree;
use crate::core::workload::cell_graph::{CellGraph, SharedGraph};
use crate::core::workload::trace::Requests;
use crate::lab::scenario::ArrivalSpec;

/// The largest batch whose time has to lie on a line. The closed form is shown even if larger batches deviate from it.
const LARGEST_ON_LINE: u32 = 64;

impl Target {
    /// The bounds on the requests of the first replication; `None` on a real target and for language models.
    pub fn bounds(&self, inputs: &RunInputs<'_>) -> Result<Option<Bounds>> {
        let Some(costs) = self.all_costs() else {
            return Ok(None);
        };
        if inputs.scenario.workload.model.is_llm() {
            return Ok(None); // Its graphs don't show its work.
        }
        let requests = inputs.sample()?;
        let (largest, streams) = largest_batches(inputs, &requests);
        let mut fastest = Fastest::new(costs, largest, streams);
        let bounds = Bounds::new(&requests, &mut fastest, inputs.workers());
        Ok(Some(Bounds {
            service: affine_service(costs, inputs, &requests),
            ..bounds
        }))
    }
}

/// The largest batch of each cell type, and the number of streams, that any of the policies uses.
fn largest_batches(inputs: &RunInputs<'_>, requests: &Requests) -> (Vec<u32>, u16) {
    let cells = inputs.cells.len();
    let all = count_nodes(requests, cells);
    let mut largest = vec![0; cells];
    let mut streams = 1;
    for (policy, entry) in inputs.scenario.policies.iter().enumerate() {
        streams = inputs.streams(policy).max(streams);
        let own = inputs.largest_batches_in_nodes(policy, requests);
        let own = own.unwrap_or_else(|| all.clone());
        // A batch may be padded beyond all nodes, to a size that takes less time.
        let padded = entry.settings.batch_sizes().last().copied().unwrap_or(0);
        for cell in 0..cells {
            let most = own[cell].min(padded.max(all[cell]));
            largest[cell] = largest[cell].max(most);
        }
    }
    (largest, streams)
}

/// The time of a batch as a line over its size, if all policies have the same and a closed form bounds the latency.
fn affine_service(
    costs: &[TableCosts],
    inputs: &RunInputs<'_>,
    requests: &Requests,
) -> Option<AffineService> {
    let scenario = inputs.scenario;
    let is_poisson = matches!(scenario.arrivals, Some(ArrivalSpec::Poisson { .. }));
    let first_shape = &requests.shapes[0];
    let are_equal = requests.shapes.iter().all(|shape| shape == first_shape);
    let are_sequences = scenario.workload.model.is_sequence();
    if !is_poisson || inputs.workers() > 1 || !are_equal || !are_sequences {
        return None;
    }
    let mut found = None;
    for (policy, costs) in costs.iter().enumerate() {
        let largest = match inputs.largest_batches(policy) {
            Some(Batches::Requests(largest)) => largest.min(LARGEST_ON_LINE),
            _ => LARGEST_ON_LINE,
        };
        let service = AffineService::fit(&batch_times(costs, &requests.graphs[0], largest))?;
        if found.is_some_and(|other| other != service) {
            return None;
        }
        found = Some(service);
    }
    found
}

/// The times of batches of 1 to `most` equal requests that run as a whole.
pub fn batch_times(costs: &TableCosts, graph: &CellGraph, most: u32) -> Vec<Nanos> {
    let mut batch = PaddedBatch::default();
    let mut times = Vec::new();
    for id in 0..u64::from(most) {
        batch.add(RequestId(id), graph);
        times.push(batch.time(0, costs));
    }
    times
}

/// The number of nodes of each cell type in all requests.
fn count_nodes(requests: &Requests, cells: usize) -> Vec<u32> {
    let mut counts = vec![0u32; cells];
    for (graph, requests) in requests.graphs.counts() {
        match graph {
            CellGraph::Chains(runs) => {
                for run in runs.iter() {
                    add_nodes(&mut counts, run.cell, run.length.saturating_mul(requests));
                }
            }
            CellGraph::Graph(SharedGraph::Tree(tree)) => {
                let leaves = tree.leaves();
                add_nodes(
                    &mut counts,
                    Tree::LEAF,
                    (leaves as u32).saturating_mul(requests),
                );
                if tree.len() > leaves {
                    let inner = (tree.len() - leaves) as u32;
                    add_nodes(&mut counts, Tree::INNER, inner.saturating_mul(requests));
                }
            }
            CellGraph::Graph(graph) => {
                for cell in graph.cells() {
                    add_nodes(&mut counts, *cell, requests);
                }
            }
        }
    }
    counts
}

fn add_nodes(counts: &mut [u32], cell: CellId, nodes: u32) {
    let count = &mut counts[cell.index()];
    *count = count.saturating_add(nodes);
}
