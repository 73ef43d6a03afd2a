//! The requests whose outputs are wanted, and where these come to stand in the host's memory.

use std::sync::Arc;

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
    writes: Vec<bool>,
    /// Some cell writes.
    has_words: bool,
    network: Arc<Network>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    id: RequestId,
    /// The place of its first fetched state; those of all [fetched nodes](Kept::fetched) stand there in their order.
    states: HostPlace,
    /// The place of its first node's word.
    words: u32,
}

impl Kept {
    /// Gives places to these requests, which ascend; and says what the run needs for them and for all others.
    ///
    /// # Errors
    /// More places than can be counted.
    pub fn new(
        keep: &[RequestId],
        graphs: &[CellGraph],
        network: &Arc<Network>,
        cells: &[Cell],
    ) -> Result<(Kept, Needs)> {
        let writes: Vec<bool> = cells.iter().map(|cell| cell.writes).collect();
        let has_words = writes.contains(&true);
        let requests = Vec::with_capacity(keep.len());
        let mut kept = Kept { requests, writes, has_words, network: Arc::clone(network) };
        let nodes = |graph: &CellGraph| if has_words { graph.nodes() } else { 0 };
        // Words that nobody asks for are written to the same places by all.
        let mut words = graphs.iter().map(nodes).max().unwrap_or(0);
        let (mut states, mut numbers) = (0, 0);
        let too_many = |_| Error::failed("the outputs of the requests that are kept are too many to be held at once");
        for &id in keep {
            let graph = &graphs[id.index()];
            let place = |places: u64| u32::try_from(places).map_err(too_many);
            let first = HostPlace { number: place(states)?, begin: numbers, numbers: 0 };
            kept.requests.push(Request { id, states: first, words: place(words)? });
            for (_, length) in kept.fetched(graph) {
                states += 1;
                numbers += u64::from(length);
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
            fetched: u32::try_from(states).map_err(too_many)?,
            numbers,
        };
        Ok((kept, needs))
    }

    /// Where the words of a request begin.
    pub fn words(&self, request: RequestId) -> u32 {
        let kept = if self.has_words { self.find(request) } else { None };
        kept.map_or(0, |kept| kept.words)
    }

    /// The place for the state after a node that is fetched, if the request is kept.
    pub fn place(&self, request: RequestId, graph: &CellGraph, node: u32) -> Option<HostPlace> {
        let kept = self.find(request)?;
        self.places(kept, graph).find_map(|(fetched, place)| (fetched == node).then_some(place))
    }

    /// What a kept request came to, after its last task has finished.
    pub fn output(&self, request: RequestId, graph: &CellGraph, device: &impl Device) -> Option<Output> {
        let kept = self.find(request)?;
        let nodes = 0..graph.nodes() as u32;
        Some(Output {
            state: self.places(kept, graph).flat_map(|(_, place)| device.fetched(place).iter().copied()).collect(),
            words: nodes
                .filter(|node| self.has_words && self.writes[cell(graph, *node).index()])
                .map(|node| device.word(kept.words + node))
                .collect(),
        })
    }

    fn find(&self, request: RequestId) -> Option<&Request> {
        self.requests.binary_search_by_key(&request, |kept| kept.id).ok().map(|at| &self.requests[at])
    }

    /// The nodes of a request whose states are fetched, with their places.
    fn places<'a>(&'a self, kept: &Request, graph: &'a CellGraph) -> impl Iterator<Item = (u32, HostPlace)> + 'a {
        let HostPlace { mut number, mut begin, .. } = kept.states;
        self.fetched(graph).map(move |(node, numbers)| {
            let place = HostPlace { number, begin, numbers };
            number += 1;
            begin += u64::from(numbers);
            (node, place)
        })
    }

    /// The nodes whose states are fetched, ascending, and the numbers in these: nodes that no other needs. Of a network that a file
    /// lists they are all, since what comes behind many operators tells little of each.
    fn fetched<'a>(&'a self, graph: &'a CellGraph) -> Box<dyn Iterator<Item = (u32, u32)> + 'a> {
        if let Some(operators) = self.network.operators() {
            return Box::new((0..).zip(operators.lengths(graph).map(|length| length as u32)));
        }
        let width = self.network.state() as u32;
        match graph {
            CellGraph::Chains(_) => Box::new(std::iter::once((graph.nodes() as u32 - 1, width))),
            CellGraph::Graph(graph) => Box::new(
                (0..graph.len() as u32)
                    .filter(|node| graph.successors(*node).is_empty())
                    .map(move |node| (node, width)),
            ),
        }
    }
}

fn cell(graph: &CellGraph, node: u32) -> CellId {
    crate::backend::places::find(graph, NodeId(node)).expect("a node of the graph").0
}
