//! The requests whose outputs are wanted, and where these come to stand in the host's memory.

use super::cells::Cell;
use super::device::{Device, Needs};
use crate::error::{Error, Result};
use crate::network::reference::Output;
use crate::units::{CellId, NodeId, RequestId};
use crate::workload::cell_graph::CellGraph;

/// The kept requests of a run.
#[derive(Debug)]
pub struct Kept {
    /// Ascending.
    requests: Vec<Request>,
    writes: Vec<bool>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    id: RequestId,
    /// The place of its first fetched state; those of nodes that no other needs stand there in the order of the nodes.
    states: u32,
    /// The place of its first node's word.
    words: u32,
}

impl Kept {
    /// Gives places to these requests, which ascend; and says what the run needs for them and for all others.
    ///
    /// # Errors
    /// More places than can be counted.
    pub fn new(keep: &[RequestId], graphs: &[CellGraph], cells: &[Cell]) -> Result<(Kept, Needs)> {
        let nodes = |graph: &CellGraph| if cells.iter().any(|cell| cell.writes) { graph.nodes() } else { 0 };
        // Words that nobody asks for are written to the same places by all.
        let mut words = graphs.iter().map(nodes).max().unwrap_or(0);
        let mut states = 0;
        let mut requests = Vec::with_capacity(keep.len());
        let too_many = |_| Error::failed("the outputs of the requests that are kept are too many to be held at once");
        for &id in keep {
            let graph = &graphs[id.index()];
            let place = |places: u64| u32::try_from(places).map_err(too_many);
            requests.push(Request { id, states: place(states)?, words: place(words)? });
            states += last_nodes(graph).count() as u64;
            words += nodes(graph);
        }
        let room = graphs.iter().map(|graph| match graph {
            CellGraph::Chains(_) => 1,
            CellGraph::Graph(graph) => graph.len() as u64,
        });
        let needs = Needs {
            states: room.sum(),
            words: u32::try_from(words).map_err(too_many)?,
            fetched: u32::try_from(states).map_err(too_many)?,
        };
        Ok((Kept { requests, writes: cells.iter().map(|cell| cell.writes).collect() }, needs))
    }

    /// Where the words of a request begin.
    pub fn words(&self, request: RequestId) -> u32 {
        let kept = if self.writes.contains(&true) { self.find(request) } else { None };
        kept.map_or(0, |kept| kept.words)
    }

    /// The place for the state after a node that no other needs, if the request is kept.
    pub fn place(&self, request: RequestId, graph: &CellGraph, node: u32) -> Option<u32> {
        let kept = self.find(request)?;
        last_nodes(graph).position(|last| last == node).map(|place| kept.states + place as u32)
    }

    /// What a kept request came to, after its last task has finished.
    pub fn output(&self, request: RequestId, graph: &CellGraph, device: &impl Device) -> Option<Output> {
        let kept = self.find(request)?;
        let states = (kept.states..).zip(last_nodes(graph));
        let nodes = 0..graph.nodes() as u32;
        Some(Output {
            state: states.flat_map(|(place, _)| device.fetched(place).iter().copied()).collect(),
            words: nodes
                .filter(|node| self.writes[cell(graph, *node).index()])
                .map(|node| device.word(kept.words + node))
                .collect(),
        })
    }

    fn find(&self, request: RequestId) -> Option<&Request> {
        self.requests.binary_search_by_key(&request, |kept| kept.id).ok().map(|at| &self.requests[at])
    }
}

/// The nodes that no other needs, ascending.
fn last_nodes(graph: &CellGraph) -> Box<dyn Iterator<Item = u32> + '_> {
    match graph {
        CellGraph::Chains(_) => Box::new(std::iter::once(graph.nodes() as u32 - 1)),
        CellGraph::Graph(graph) => Box::new((0..graph.len() as u32).filter(|node| graph.successors(*node).is_empty())),
    }
}

fn cell(graph: &CellGraph, node: u32) -> CellId {
    crate::backend::places::find(graph, NodeId(node)).expect("a node of the graph").0
}
