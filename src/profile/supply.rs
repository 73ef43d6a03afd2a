//! Synthetic requests, and which of their nodes run next.

use super::wanted::of_input;
use super::{Settings, Wanted, unfolded};
use crate::error::Result;
use crate::task::NodeRef;
use crate::units::{NodeId, RequestId};
use crate::workload::model::Model;
use crate::workload::shape::{MAX_LENGTH, Shape};
use crate::workload::trace::Requests;

/// Requests on which a cell is measured.
pub enum Bench {
    /// Chains that do not end, on which one cell runs: its name, the shape, and whether the other cell runs first.
    Chains { cell: String, shape: Shape, behind: Option<String> },
    /// Chains of two kinds that take turns on a worker: their cells and shapes. Those of the second begin with the cell of
    /// the first.
    Turns { cells: [String; 2], shapes: [Shape; 2] },
    /// Requests of one node with an input of this size.
    Single { cell: String, input: u32 },
}

/// The benches of a network's cells; those of trees have none.
pub fn benches(wanted: &Wanted) -> Vec<Bench> {
    let chain = |cell: &String, shape, behind| Bench::Chains { cell: cell.clone(), shape, behind };
    match &wanted.model {
        Model::Lstm | Model::Gru => {
            wanted.cells.iter().map(|cell| chain(cell, Shape::Chain(MAX_LENGTH), None)).collect()
        }
        Model::Seq2Seq => {
            let encodes = Shape::Seq2Seq { source: MAX_LENGTH, target: 1 };
            let decodes = Shape::Seq2Seq { source: 1, target: MAX_LENGTH };
            let mut benches: Vec<Bench> = wanted
                .cells
                .iter()
                .map(|cell| match cell.as_str() {
                    "encoder" => chain(cell, encodes.clone(), None),
                    _ => chain(cell, decodes.clone(), Some("encoder".into())),
                })
                .collect();
            // Whoever wants one cell alone has no other before it.
            if wanted.cells.len() > 1 {
                let cells = ["encoder", "decoder"].map(String::from);
                benches.push(Bench::Turns { cells, shapes: [encodes, decodes] });
            }
            benches
        }
        Model::TreeLstm | Model::ChildSumTreeLstm | Model::ChildSumByArity(_) | Model::Graph(_) | Model::Network(_) => {
            Vec::new()
        }
        Model::Dnn(cell) => {
            wanted.input_sizes().iter().map(|input| Bench::Single { cell: cell.clone(), input: *input }).collect()
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
    /// The next request that has not run, of one node each.
    Single { next: u32 },
}

impl Supply {
    /// Fresh requests for one repeat of a bench, in which so many nodes run at most.
    ///
    /// # Errors
    /// A shape that the model does not take.
    pub fn new(bench: &Bench, wanted: &Wanted, settings: &Settings, nodes: usize) -> Result<Supply> {
        let largest = settings.largest() as usize;
        let shapes = match bench {
            Bench::Chains { shape, .. } => vec![shape.clone(); 2 * settings.workers * largest],
            Bench::Turns { shapes, .. } => {
                let sets = || shapes.iter().flat_map(|shape| std::iter::repeat_n(shape.clone(), largest));
                (0..settings.workers).flat_map(|_| sets()).collect()
            }
            Bench::Single { input, .. } => vec![of_input(*input); nodes],
        };
        let requests = unfolded(shapes, &wanted.model)?;
        let kind = match bench {
            Bench::Chains { .. } | Bench::Turns { .. } => Kind::Chains { next: vec![0; requests.len()], set: largest },
            Bench::Single { .. } => Kind::Single { next: 0 },
        };
        Ok(Supply { requests, kind })
    }

    /// Whether the members of a task can stay for the next.
    pub fn goes_on(&self) -> bool {
        matches!(self.kind, Kind::Chains { .. })
    }

    /// The nodes of the next task of a worker; on chains those of the first or the second set of its requests.
    pub fn take(&mut self, worker: usize, second: bool, batch: usize) -> Vec<NodeRef> {
        match &mut self.kind {
            Kind::Chains { next, set } => {
                let first = (2 * worker + usize::from(second)) * *set;
                let mut node = |request: usize| {
                    next[request] += 1;
                    NodeRef { request: RequestId(request as u32), node: NodeId(next[request] - 1) }
                };
                (first..first + batch).map(&mut node).collect()
            }
            Kind::Single { next } => {
                let first = *next;
                *next += batch as u32;
                (first..*next).map(|request| NodeRef { request: RequestId(request), node: NodeId(0) }).collect()
            }
        }
    }
}
