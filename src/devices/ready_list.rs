//! Tasks of whole requests: list scheduling of their nodes onto the task's steps. A step says how many nodes of a cell
//! type run at once, not which: it takes ready ones of the lowest depths. So a policy that counts the nodes of each
//! depth gets these batches. The nodes of a batch stand in the order of their chains' ends, the last one first: the
//! chains that are left when others end are the first rows.

use std::collections::VecDeque;

use crate::base::units::{CellId, NodeId, RequestId};
use crate::core::task::NodeRef;
use crate::core::workload::cell_graph::{CellGraph, Graph};
use crate::core::workload::shared_list::SharedList;
use crate::devices::longest_first::LongestFirst;
use crate::devices::task_checks;

/// The nodes of a task of whole requests that can run. All its methods take constant time for a node.
#[derive(Debug, Default)]
pub struct ReadyList {
    /// The ready nodes of each cell type.
    ready: Vec<ReadyNodes>,
    /// The beginning of each request's nodes in `missing`, by its number. Chains have none.
    first: Vec<usize>,
    /// The number of inputs of each node that have not run.
    missing: Vec<u32>,
    taken: Vec<ReadyNode>,
    order: LongestFirst<ReadyNode>,
}

/// A node that can run.
#[derive(Clone, Copy, Debug)]
struct ReadyNode {
    request: RequestId,
    node: u32,
    /// The number of nodes that follow it without a branch and with the same cell.
    left: u32,
}

/// The ready nodes of a cell type.
#[derive(Debug, Default)]
struct ReadyNodes {
    /// The nodes of each depth, in the order in which they became ready.
    by_depth: Vec<VecDeque<ReadyNode>>,
    /// A depth below which no node is ready.
    lowest: usize,
    count: usize,
}

impl ReadyNodes {
    fn clear(&mut self) {
        if self.count > 0 {
            self.by_depth.iter_mut().for_each(VecDeque::clear);
            self.count = 0;
        }
    }

    fn push(&mut self, depth: u32, ready: ReadyNode) {
        let depth = depth as usize;
        if self.by_depth.len() <= depth {
            self.by_depth.resize_with(depth + 1, VecDeque::new);
        }
        self.by_depth[depth].push_back(ready);
        self.lowest = if self.count == 0 {
            depth
        } else {
            depth.min(self.lowest)
        };
        self.count += 1;
    }

    /// Takes the nodes of the lowest depths, at most `most`.
    fn take(&mut self, most: usize, taken: &mut Vec<ReadyNode>) {
        let mut left = most.min(self.count);
        self.count -= left;
        while left > 0 {
            let nodes = &mut self.by_depth[self.lowest];
            let here = left.min(nodes.len());
            taken.extend(nodes.drain(..here));
            left -= here;
            if nodes.is_empty() {
                self.lowest += 1;
            }
        }
    }
}

impl ReadyList {
    /// Begins a task; the nodes without inputs are ready.
    pub fn begin(&mut self, requests: &[RequestId], graphs: &SharedList<CellGraph>) {
        self.ready.iter_mut().for_each(ReadyNodes::clear);
        self.missing.clear();
        for &request in requests {
            match &graphs[request.index()] {
                CellGraph::Chains(runs) => {
                    let left = runs[0].length - 1;
                    let node = 0;
                    self.push(
                        runs[0].cell,
                        0,
                        ReadyNode {
                            request,
                            node,
                            left,
                        },
                    );
                }
                CellGraph::Graph(graph) => self.begin_graph(request, graph),
            }
        }
    }

    fn begin_graph(&mut self, request: RequestId, graph: &Graph) {
        if self.first.len() <= request.index() {
            self.first.resize(request.index() + 1, 0);
        }
        self.first[request.index()] = self.missing.len();
        for node in 0..graph.len() as u32 {
            let inputs = graph.inputs(node).len() as u32;
            self.missing.push(inputs);
            if inputs == 0 {
                self.push_node(graph, node, request);
            }
        }
    }

    /// Whether no node of a cell type can run.
    pub fn is_empty(&self, cell: CellId) -> bool {
        self.ready
            .get(cell.index())
            .is_none_or(|ready| ready.count == 0)
    }

    /// Appends the next nodes of a cell type, at most `most`, to `nodes`.
    pub fn take(&mut self, cell: CellId, most: usize, nodes: &mut Vec<NodeRef>) {
        let Some(ready) = self.ready.get_mut(cell.index()) else {
            return;
        };
        self.taken.clear();
        ready.take(most, &mut self.taken);
        self.order.sort(&mut self.taken, |ready| ready.left);
        nodes.extend(self.taken.iter().map(|ready| NodeRef {
            request: ready.request,
            node: NodeId(ready.node),
        }));
    }

    /// Notes that a node has run, which may make its successors ready.
    pub fn note_run(&mut self, NodeRef { request, node }: NodeRef, graphs: &SharedList<CellGraph>) {
        match &graphs[request.index()] {
            graph @ CellGraph::Chains(_) => {
                let next = NodeId(node.0 + 1);
                if let Some((cell, place)) = task_checks::find_node(graph, next) {
                    let node = next.0;
                    let left = place.run_end.0 - node;
                    self.push(
                        cell,
                        node,
                        ReadyNode {
                            request,
                            node,
                            left,
                        },
                    );
                }
            }
            CellGraph::Graph(graph) => {
                for &next in graph.successors(node.0) {
                    let missing = &mut self.missing[self.first[request.index()] + next as usize];
                    *missing -= 1;
                    if *missing == 0 {
                        self.push_node(graph, next, request);
                    }
                }
            }
        }
    }

    fn push_node(&mut self, graph: &Graph, node: u32, request: RequestId) {
        let cell = graph.cells()[node as usize];
        let depth = graph.depths()[node as usize];
        let left = 0;
        self.push(
            cell,
            depth,
            ReadyNode {
                request,
                node,
                left,
            },
        );
    }

    fn push(&mut self, cell: CellId, depth: u32, ready: ReadyNode) {
        if self.ready.len() <= cell.index() {
            self.ready
                .resize_with(cell.index() + 1, ReadyNodes::default);
        }
        self.ready[cell.index()].push(depth, ready);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::workload::cell_graph::CellRun;
    use crate::core::workload::model::{Model, Unfolder};

    fn taken(list: &mut ReadyList, cell: u16, most: usize) -> Vec<(u64, u32)> {
        let mut nodes = Vec::new();
        list.take(CellId(cell), most, &mut nodes);
        nodes.iter().map(|at| (at.request.0, at.node.0)).collect()
    }

    fn note_run(list: &mut ReadyList, nodes: &[(u64, u32)], graphs: &SharedList<CellGraph>) {
        for &(request, node) in nodes {
            let request = RequestId(request);
            let node = NodeId(node);
            list.note_run(NodeRef { request, node }, graphs);
        }
    }

    #[test]
    fn the_longest_chains_come_first_and_the_lowest_depths_are_taken() {
        let lengths = [3, 5, 1, 5].into_iter();
        let graphs = lengths
            .map(|length| CellGraph::chain(CellId(0), length))
            .collect();
        let mut list = ReadyList::default();
        list.begin(&[2, 1, 0, 3].map(RequestId), &graphs);
        assert_eq!(taken(&mut list, 0, 3), [(1, 0), (0, 0), (2, 0)]);
        note_run(&mut list, &[(1, 0), (0, 0), (2, 0)], &graphs);
        assert_eq!(taken(&mut list, 0, 2), [(3, 0), (1, 1)]);
        assert_eq!(taken(&mut list, 0, 2), [(0, 1)]);
        assert!(list.is_empty(CellId(0)) && list.is_empty(CellId(1)));
    }

    #[test]
    fn decoders_stand_in_the_order_of_their_ends() {
        let run = |cell, length| CellRun {
            cell: CellId(cell),
            length,
            input: 0,
        };
        let graphs = [[1, 4], [1, 300], [2, 7]]
            .into_iter()
            .map(|[source, target]| CellGraph::chains([run(1, source), run(0, target)]))
            .collect();
        let mut list = ReadyList::default();
        list.begin(&[0, 1, 2].map(RequestId), &graphs);
        assert_eq!(taken(&mut list, 1, 9), [(2, 0), (0, 0), (1, 0)]);
        note_run(&mut list, &[(0, 0), (1, 0), (2, 1)], &graphs);
        assert_eq!(taken(&mut list, 0, 9), [(1, 1), (2, 2), (0, 1)]);
    }

    #[test]
    fn a_node_of_a_tree_waits_for_all_children() {
        // Node 4 is the root, over node 3 and the leaf 2; node 3 is over the leaves 0 and 1.
        let shape = "tree:4 4 5 5 0".parse().expect("a tree");
        let graph = Unfolder::new(&Model::TreeLstm)
            .unfold(&shape)
            .expect("a tree of the model");
        let graphs = [graph].into_iter().collect();
        let mut list = ReadyList::default();
        list.begin(&[RequestId(0)], &graphs);
        assert_eq!(taken(&mut list, 1, 9), [(0, 0), (0, 1), (0, 2)]);
        note_run(&mut list, &[(0, 0), (0, 2)], &graphs);
        assert!(list.is_empty(CellId(0)));
        note_run(&mut list, &[(0, 1)], &graphs);
        assert_eq!(taken(&mut list, 0, 9), [(0, 3)]);
        // A task that broke off leaves nothing to the next.
        note_run(&mut list, &[(0, 3)], &graphs);
        list.begin(&[], &graphs);
        assert!(list.is_empty(CellId(0)));
    }
}
