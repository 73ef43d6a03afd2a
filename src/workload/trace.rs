//! A trace: requests with their arrival times. Every policy and every backend replays the same one.

use std::sync::Arc;

use super::cell_graph::CellGraph;
use super::model::{Model, Unfolder};
use super::shape::Shape;
use crate::units::{Nanos, RequestId};

/// The requests of a run, unfolded. Cheap to clone: runs that differ only in their arrivals share the rest.
#[derive(Clone, Debug)]
pub struct Requests {
    /// The shape of each request.
    pub shapes: Arc<[Shape]>,
    /// The cell graph of each request.
    pub graphs: Arc<[CellGraph]>,
}

impl Requests {
    /// Unfolds each shape with the model.
    ///
    /// # Errors
    /// A shape that the model does not take, with the request's id.
    pub fn unfold(shapes: Arc<[Shape]>, model: &Model) -> Result<Requests, String> {
        let mut unfolder = Unfolder::new(model);
        let graphs = shapes
            .iter()
            .enumerate()
            .map(|(id, shape)| unfolder.unfold(shape).map_err(|error| format!("request {id}: {error}")))
            .collect::<Result<Arc<[CellGraph]>, String>>()?;
        Ok(Requests { shapes, graphs })
    }

    /// The number of requests.
    pub fn len(&self) -> usize {
        self.shapes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// One request as a policy sees it.
    pub fn request(&self, id: RequestId, arrival: Nanos) -> Request<'_> {
        Request { id, arrival, shape: &self.shapes[id.index()], graph: &self.graphs[id.index()] }
    }
}

/// One request at its arrival.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its number in the trace.
    pub id: RequestId,
    /// When it arrived.
    pub arrival: Nanos,
    /// How large it is.
    pub shape: &'a Shape,
    /// What it unfolds to.
    pub graph: &'a CellGraph,
}
