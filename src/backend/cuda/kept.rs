//! The requests whose outputs are wanted, and where these come to stand in the host's memory.

use super::cells::Cell;
use super::device::{Device, HostPlace, Needs};
use crate::error::{Error, Result};
use crate::network::Network;
use crate::network::reference::Output;
use crate::units::{CellId, NodeId, RequestId};
use crate::workload::cell_graph::CellGraph;

/// The kept requests of a run.
#[derive(Debug)]
pub struct Kept {
    /// Ascending.
    requests: Vec<Request>,
    /// The nodes whose states are fetched, with their places: those of the first request, ascending, those of the next and so on.
    fetched: Vec<(u32, HostPlace)>,
    writes: Vec<bool>,
    /// Some cell writes.
    has_words: bool,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    id: RequestId,
    /// Where its fetched nodes begin.
    fetched: usize,
    /// The place of its first node's word.
    words: u32,
}

impl Kept {
    /// Gives places to these requests, which ascend; and says what the run needs for them and for all others.
    ///
    /// # Errors
    /// More places than can be counted.
    pub fn new(keep: &[RequestId], graphs: &[CellGraph], network: &Network, cells: &[Cell]) -> Result<(Kept, Needs)> {
        let writes: Vec<bool> = cells.iter().map(|cell| cell.writes).collect();
        let has_words = writes.contains(&true);
        let requests = Vec::with_capacity(keep.len());
        let mut kept = Kept { requests, fetched: Vec::new(), writes, has_words };
        let nodes = |graph: &CellGraph| if has_words { graph.nodes() } else { 0 };
        // Words that nobody asks for are written to the same places by all.
        let mut words = graphs.iter().map(nodes).max().unwrap_or(0);
        let mut begin = 0;
        let too_many = |_| Error::failed("the outputs of the requests that are kept are too many to be held at once");
        for &id in keep {
            let graph = &graphs[id.index()];
            let request = Request { id, fetched: kept.fetched.len(), words: u32::try_from(words).map_err(too_many)? };
            kept.requests.push(request);
            for (node, numbers) in fetched(network, graph) {
                let number = u32::try_from(kept.fetched.len()).map_err(too_many)?;
                kept.fetched.push((node, HostPlace { number, begin, numbers }));
                begin += u64::from(numbers);
            }
            words += nodes(graph);
        }
        let room = graphs.iter().map(|graph| match graph {
            CellGraph::Chains(_) => 1,
            CellGraph::Graph(graph) => graph.len() as u64,
        });
        let needs = Needs {
            states: room.sum(),
            words: u32::try_from(words).map_err(too_many)?,
            fetched: u32::try_from(kept.fetched.len()).map_err(too_many)?,
            numbers: begin,
        };
        Ok((kept, needs))
    }

    /// Where the words of a request begin.
    pub fn words(&self, request: RequestId) -> u32 {
        let kept = if self.has_words { self.find(request) } else { None };
        kept.map_or(0, |at| self.requests[at].words)
    }

    /// The place for the state after a node that is fetched, if the request is kept.
    pub fn place(&self, request: RequestId, node: u32) -> Option<HostPlace> {
        let fetched = self.fetched(self.find(request)?);
        fetched.binary_search_by_key(&node, |(fetched, _)| *fetched).ok().map(|at| fetched[at].1)
    }

    /// What a kept request came to, after its last task has finished.
    pub fn output(&self, request: RequestId, graph: &CellGraph, device: &impl Device) -> Option<Output> {
        let kept = self.find(request)?;
        let nodes = 0..graph.nodes() as u32;
        Some(Output {
            state: self.fetched(kept).iter().flat_map(|(_, place)| device.fetched(*place).iter().copied()).collect(),
            words: nodes
                .filter(|node| self.has_words && self.writes[cell(graph, *node).index()])
                .map(|node| device.word(self.requests[kept].words + node))
                .collect(),
        })
    }

    fn find(&self, request: RequestId) -> Option<usize> {
        self.requests.binary_search_by_key(&request, |kept| kept.id).ok()
    }

    /// The fetched nodes of a kept request.
    fn fetched(&self, kept: usize) -> &[(u32, HostPlace)] {
        let end = self.requests.get(kept + 1).map_or(self.fetched.len(), |next| next.fetched);
        &self.fetched[self.requests[kept].fetched..end]
    }
}

/// The nodes whose states are fetched, ascending, and the numbers in these: nodes that no other needs. Of a network that a file lists they
/// are all, since what comes behind many operators tells little of each.
fn fetched<'a>(network: &'a Network, graph: &'a CellGraph) -> Box<dyn Iterator<Item = (u32, u32)> + 'a> {
    if let Some(operators) = network.operators() {
        return Box::new((0..).zip(operators.lengths(graph).map(|length| length as u32)));
    }
    let width = network.state() as u32;
    match graph {
        CellGraph::Chains(_) => Box::new(std::iter::once((graph.nodes() as u32 - 1, width))),
        CellGraph::Graph(graph) => {
            let last = (0..graph.len() as u32).filter(|node| graph.successors(*node).is_empty());
            Box::new(last.map(move |node| (node, width)))
        }
    }
}

fn cell(graph: &CellGraph, node: u32) -> CellId {
    crate::backend::shared::find_node(graph, NodeId(node)).expect("a node of the graph").0
}
