//! Tasks of whole requests: list scheduling of their nodes onto the task's steps. A step says how many nodes of a cell
//! type run at once, not which: it takes the ready ones, by ascending depth, then by request. So a policy that counts
//! the nodes of each depth gets these batches.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::base::units::{CellId, NodeId, RequestId};
use crate::core::task::NodeRef;
use crate::core::workload::cell_graph::{CellGraph, Graph};
use crate::devices::task_checks;

/// The nodes of a task of whole requests that can run, in the order in which steps take them.
#[derive(Debug, Default)]
pub struct ReadyList {
    /// The ready nodes of each cell type.
    ready: Vec<BinaryHeap<Reverse<ReadyNode>>>,
    /// The requests of the task and their places in it, in ascending order.
    places: Vec<(RequestId, u32)>,
    /// The beginning of each request's nodes in `missing`, where chains have none.
    first: Vec<usize>,
    /// The number of inputs of each node that have not run.
    missing: Vec<u32>,
}

/// A node that can run. Nodes are taken in the order of these fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ReadyNode {
    depth: u32,
    /// The request's place in the task.
    place: u32,
    node: u32,
    request: RequestId,
}

impl ReadyList {
    /// Begins a task; the nodes without inputs are ready.
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
                    ReadyNode {
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

    /// Whether no node of a cell type can run.
    pub fn is_empty(&self, cell: CellId) -> bool {
        self.ready
            .get(cell.index())
            .is_none_or(BinaryHeap::is_empty)
    }

    /// Appends the next nodes of a cell type, at most `most`, to `nodes`.
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

    /// Notes that a node has run, which may make its successors ready.
    pub fn note_run(&mut self, NodeRef { request, node }: NodeRef, graphs: &[CellGraph]) {
        let found = self
            .places
            .binary_search_by_key(&request, |(id, _)| *id)
            .expect("a node of the task's requests");
        let place = self.places[found].1;
        match &graphs[request.index()] {
            CellGraph::Chains(_) => {
                let node = NodeId(node.0 + 1);
                if let Some((cell, _)) = task_checks::find_node(&graphs[request.index()], node) {
                    self.push(
                        cell,
                        ReadyNode {
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
            ReadyNode {
                depth,
                place,
                node,
                request,
            },
        );
    }

    fn push(&mut self, cell: CellId, ready: ReadyNode) {
        if self.ready.len() <= cell.index() {
            self.ready.resize_with(cell.index() + 1, BinaryHeap::new);
        }
        self.ready[cell.index()].push(Reverse(ready));
    }
}
