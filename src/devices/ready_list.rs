//! Tasks of whole requests: list scheduling of their nodes onto the task's steps. A step says how many nodes of a cell
//! type run at once, not which: it takes the ready ones, by ascending depth, then by request. So a policy that counts
//! the nodes of each depth gets these batches.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::base::units::{CellId, NodeId, RequestId};
use crate::core::task::NodeRef;
use crate::core::workload::cell_graph::{CellGraph, Graph};
use crate::devices::shared;

#[derive(Debug, Default)]
pub struct ReadyList {
    /// The nodes that can run, by cell type.
    ready: Vec<BinaryHeap<Reverse<Ready>>>,
    places: Vec<(RequestId, u32)>,
    /// Where each request's nodes begin in `missing`. Chains have none there.
    first: Vec<usize>,
    /// The inputs of each node that have not run.
    missing: Vec<u32>,
}

/// Nodes are taken in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ready {
    depth: u32,
    /// The request's place in the task.
    place: u32,
    node: u32,
    request: RequestId,
}

impl ReadyList {
    /// Begins with the nodes that have no inputs.
    pub fn begin(&mut self, requests: &[RequestId], graphs: &[CellGraph]) {
        self.ready.iter_mut().for_each(BinaryHeap::clear);
        self.missing.clear();
        self.first.clear();
        self.places.clear();
        self.places.extend(requests.iter().copied().zip(0..));
        self.places.sort_unstable();
        for (place, &request) in (0..).zip(requests) {
            self.first.push(self.missing.len());
            match &graphs[request.index()] {
                CellGraph::Chains(runs) => self.push(
                    runs[0].cell,
                    Ready {
                        depth: 0,
                        place,
                        node: 0,
                        request,
                    },
                ),
                CellGraph::Graph(graph) => {
                    for node in 0..graph.len() as u32 {
                        let inputs = graph.inputs(node).len() as u32;
                        self.missing.push(inputs);
                        if inputs == 0 {
                            self.push_node(graph, place, node, request);
                        }
                    }
                }
            }
        }
    }

    pub fn is_empty(&self, cell: CellId) -> bool {
        self.ready
            .get(cell.index())
            .is_none_or(BinaryHeap::is_empty)
    }

    pub fn take(&mut self, cell: CellId, most: usize, nodes: &mut Vec<NodeRef>) {
        let Some(ready) = self.ready.get_mut(cell.index()) else {
            return;
        };
        let next = std::iter::from_fn(|| ready.pop()).take(most);
        nodes.extend(next.map(|Reverse(next)| NodeRef {
            request: next.request,
            node: NodeId(next.node),
        }));
    }

    pub fn ran(&mut self, NodeRef { request, node }: NodeRef, graphs: &[CellGraph]) {
        let found = self
            .places
            .binary_search_by_key(&request, |(id, _)| *id)
            .expect("a node of the task's requests");
        let place = self.places[found].1;
        match &graphs[request.index()] {
            CellGraph::Chains(_) => {
                let node = NodeId(node.0 + 1);
                if let Some((cell, _)) = shared::find_node(&graphs[request.index()], node) {
                    self.push(
                        cell,
                        Ready {
                            depth: node.0,
                            place,
                            node: node.0,
                            request,
                        },
                    );
                }
            }
            CellGraph::Graph(graph) => {
                for &next in graph.successors(node.0) {
                    let missing = &mut self.missing[self.first[place as usize] + next as usize];
                    *missing -= 1;
                    if *missing == 0 {
                        self.push_node(graph, place, next, request);
                    }
                }
            }
        }
    }

    fn push_node(&mut self, graph: &Graph, place: u32, node: u32, request: RequestId) {
        let depth = graph.depths()[node as usize];
        self.push(
            graph.cells()[node as usize],
            Ready {
                depth,
                place,
                node,
                request,
            },
        );
    }

    fn push(&mut self, cell: CellId, ready: Ready) {
        if self.ready.len() <= cell.index() {
            self.ready.resize_with(cell.index() + 1, BinaryHeap::new);
        }
        self.ready[cell.index()].push(Reverse(ready));
    }
}
