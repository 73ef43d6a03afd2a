//! Synthetic requests, and which of their nodes may run next.

use std::collections::VecDeque;

use super::{Settings, Wanted, id_of, unfolded};
use crate::backend::NodeRef;
use crate::error::Result;
use crate::units::{CellId, NodeId, RequestId};
use crate::workload::cell_graph::CellGraph;
use crate::workload::model::Model;
use crate::workload::shape::{MAX_LENGTH, Shape};
use crate::workload::trace::Requests;

/// Requests on which some cells are measured together.
pub enum Bench {
    /// Chains that do not end, on which one cell runs: its name, the shape, and whether the other cell runs first.
    Chains { cell: String, shape: Shape, behind: Option<String> },
    /// Trees, whose leaves have to run before what is above them.
    Trees { cells: Vec<String> },
    /// Requests of one node with an input of this size.
    Single { cell: String, input: u32 },
}

/// The benches of a network's cells.
pub fn benches(wanted: &Wanted) -> Vec<Bench> {
    let chain = |cell: &String, shape, behind| Bench::Chains { cell: cell.clone(), shape, behind };
    match &wanted.model {
        Model::Lstm | Model::Gru => {
            wanted.cells.iter().map(|cell| chain(cell, Shape::Chain(MAX_LENGTH), None)).collect()
        }
        Model::Seq2Seq => wanted
            .cells
            .iter()
            .map(|cell| match cell.as_str() {
                "encoder" => chain(cell, Shape::Seq2Seq { source: MAX_LENGTH, target: 1 }, None),
                _ => chain(cell, Shape::Seq2Seq { source: 1, target: MAX_LENGTH }, Some("encoder".into())),
            })
            .collect(),
        Model::TreeLstm | Model::ChildSumTreeLstm => vec![Bench::Trees { cells: wanted.cells.clone() }],
        Model::Dnn(cell) => {
            let fixed = [0];
            let inputs = if wanted.inputs.is_empty() { &fixed[..] } else { &wanted.inputs };
            inputs.iter().map(|input| Bench::Single { cell: cell.clone(), input: *input }).collect()
        }
    }
}

/// The nodes of a bench that have not run.
pub struct Supply {
    /// The requests.
    pub requests: Requests,
    kind: Kind,
}

enum Kind {
    /// The next node of each request. Two sets of requests for each worker, so that one can take the other's place.
    Chains { next: Vec<u32>, set: usize },
    /// The nodes whose inputs have run, by cell, and how many inputs each node of each request lacks.
    Graphs { ready: Vec<VecDeque<NodeRef>>, missing: Vec<Vec<u32>> },
}

impl Supply {
    /// Fresh requests for one repeat of a bench, in which so many nodes run at most.
    ///
    /// # Errors
    /// A shape that the model does not take.
    pub fn new(bench: &Bench, wanted: &Wanted, settings: &Settings, nodes: usize) -> Result<Supply> {
        let largest = settings.batches.iter().max().map_or(1, |batch| *batch as usize);
        let shapes = match bench {
            Bench::Chains { shape, .. } => vec![shape.clone(); 2 * settings.workers * largest],
            Bench::Single { input: 0, .. } => vec![Shape::Fixed; nodes],
            Bench::Single { input, .. } => vec![Shape::Tokens(*input); nodes],
            Bench::Trees { .. } => trees(wanted, nodes)?,
        };
        let requests = unfolded(shapes, &wanted.model)?;
        let kind = match bench {
            Bench::Chains { .. } => Kind::Chains { next: vec![0; requests.len()], set: largest },
            Bench::Trees { .. } | Bench::Single { .. } => graphs(&requests, wanted.model.cell_types().len()),
        };
        Ok(Supply { requests, kind })
    }

    /// Whether the members of a task can stay for the next.
    pub fn goes_on(&self) -> bool {
        matches!(self.kind, Kind::Chains { .. })
    }

    /// How many nodes of a cell can run; no bound for chains.
    pub fn ready(&self, cell: CellId) -> usize {
        match &self.kind {
            Kind::Chains { .. } => usize::MAX,
            Kind::Graphs { ready, .. } => ready[cell.index()].len(),
        }
    }

    /// The nodes of the next task of a worker; on chains those of the first or the second set of its requests.
    pub fn take(&mut self, cell: CellId, worker: usize, second: bool, batch: usize) -> Vec<NodeRef> {
        match &mut self.kind {
            Kind::Chains { next, set } => {
                let first = (2 * worker + usize::from(second)) * *set;
                let mut node = |request: usize| {
                    next[request] += 1;
                    NodeRef { request: RequestId(request as u32), node: NodeId(next[request] - 1) }
                };
                (first..first + batch).map(&mut node).collect()
            }
            Kind::Graphs { ready, .. } => ready[cell.index()].drain(..batch).collect(),
        }
    }

    /// These nodes have run.
    pub fn ran(&mut self, nodes: &[NodeRef]) {
        let Kind::Graphs { ready, missing } = &mut self.kind else { return };
        for NodeRef { request, node } in nodes {
            let CellGraph::Graph(graph) = &self.requests.graphs[request.index()] else { continue };
            for &above in graph.successors(node.0) {
                let lacks = &mut missing[request.index()][above as usize];
                *lacks -= 1;
                if *lacks == 0 {
                    let cell = graph.cells()[above as usize];
                    ready[cell.index()].push_back(NodeRef { request: *request, node: NodeId(above) });
                }
            }
        }
    }
}

/// As many of the trees, over and over, as have so many internal nodes, and leaves to put below each of them.
fn trees(wanted: &Wanted, nodes: usize) -> Result<Vec<Shape>> {
    let sample = unfolded(wanted.trees.clone(), &wanted.model)?;
    // An internal node that can run stands on two leaves at the worst, and as many are measured by themselves.
    let mut left = [("internal", nodes), ("leaf", 3 * nodes)].map(|(cell, count)| (id_of(&wanted.model, cell), count));
    let mut shapes = Vec::new();
    for (shape, graph) in sample.shapes.iter().zip(sample.graphs.iter()).cycle() {
        if left.iter().all(|(_, count)| *count == 0) {
            break;
        }
        let CellGraph::Graph(graph) = graph else { break };
        for cell in graph.cells() {
            left.iter_mut().filter(|(id, _)| id == cell).for_each(|(_, count)| *count = count.saturating_sub(1));
        }
        shapes.push(shape.clone());
    }
    Ok(shapes)
}

fn graphs(requests: &Requests, cells: usize) -> Kind {
    let mut ready = vec![VecDeque::new(); cells];
    let mut missing = Vec::with_capacity(requests.len());
    for (request, graph) in (0..).map(RequestId).zip(requests.graphs.iter()) {
        match graph {
            CellGraph::Chains(runs) => {
                ready[runs[0].cell.index()].push_back(NodeRef { request, node: NodeId(0) });
                missing.push(Vec::new());
            }
            CellGraph::Graph(graph) => {
                let lacks: Vec<u32> = (0..graph.len() as u32).map(|node| graph.inputs(node).len() as u32).collect();
                for (node, _) in (0..).zip(&lacks).filter(|(_, lacks)| **lacks == 0) {
                    ready[graph.cells()[node as usize].index()].push_back(NodeRef { request, node: NodeId(node) });
                }
                missing.push(lacks);
            }
        }
    }
    Kind::Graphs { ready, missing }
}
