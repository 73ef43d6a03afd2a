//! A request as a policy in Python sees it.

use std::sync::Arc;

use batchlab::workload::cell_graph::CellGraph;
use batchlab::workload::shape::Shape;
use batchlab::workload::trace;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use crate::live::{LiveRequest, find_run};

/// A request that has arrived. The object is also the handle by which it is submitted or rejected.
#[pyclass(frozen, module = "batchlab")]
pub struct Request {
    /// The policy for which it has arrived.
    pub policy: u64,
    pub live: Arc<LiveRequest>,
    /// Its number, in the order of arrival.
    #[pyo3(get)]
    pub id: u64,
    /// The instant of its arrival, in nanoseconds.
    #[pyo3(get)]
    arrival: u64,
    /// Its length: steps, source steps, nodes or tokens.
    #[pyo3(get)]
    length: u32,
    /// The priority of its class; a higher one is more urgent.
    #[pyo3(get)]
    priority: i32,
    /// The instant by which it should be done, in nanoseconds; None without a deadline.
    #[pyo3(get)]
    deadline: Option<u64>,
    class: Option<Arc<str>>,
    shape: Shape,
}

impl Request {
    pub fn new(policy: u64, request: &trace::Request<'_>) -> Request {
        Request {
            policy,
            live: Arc::new(LiveRequest::new(request.graph.clone())),
            id: request.id.0,
            arrival: request.arrival.0,
            length: request.shape.length(),
            priority: request.class.map_or(0, |class| class.priority),
            deadline: request.deadline.map(|at| at.0),
            class: request.class.map(|class| Arc::clone(&class.name)),
            shape: request.shape.clone(),
        }
    }

    fn check_node(&self, node: u32) -> PyResult<()> {
        let nodes = self.live.graph.nodes();
        if u64::from(node) < nodes {
            return Ok(());
        }
        let id = self.id;
        Err(PyIndexError::new_err(format!(
            "request {id} has no node {node}; its nodes are 0 to {}",
            nodes - 1
        )))
    }
}

#[pymethods]
impl Request {
    /// The name of its class; None without classes.
    #[getter]
    fn class_(&self) -> Option<&str> {
        self.class.as_deref()
    }

    /// Its shape, such as "chain:24" or "tree:3 3 0".
    #[getter]
    fn shape(&self) -> String {
        self.shape.to_string()
    }

    /// The number of its nodes.
    #[getter]
    fn nodes(&self) -> u64 {
        self.live.graph.nodes()
    }

    /// The cell of a node.
    fn cell(&self, node: u32) -> PyResult<u16> {
        self.check_node(node)?;
        Ok(match &self.live.graph {
            CellGraph::Chains(runs) => find_run(runs, node).map_or(0, |(_, run)| run.cell.0),
            CellGraph::Graph(graph) => graph.cells()[node as usize].0,
        })
    }

    /// The nodes whose results a node needs.
    fn inputs(&self, node: u32) -> PyResult<Vec<u32>> {
        self.check_node(node)?;
        Ok(match &self.live.graph {
            CellGraph::Chains(_) => node.checked_sub(1).into_iter().collect(),
            CellGraph::Graph(graph) => graph.inputs(node).to_vec(),
        })
    }

    /// The nodes that need a node's result.
    fn outputs(&self, node: u32) -> PyResult<Vec<u32>> {
        self.check_node(node)?;
        Ok(match &self.live.graph {
            CellGraph::Chains(_) if u64::from(node) + 1 < self.live.graph.nodes() => vec![node + 1],
            CellGraph::Chains(_) => Vec::new(),
            CellGraph::Graph(graph) => graph.successors(node).to_vec(),
        })
    }

    fn __repr__(&self) -> String {
        format!(
            "Request(id={}, arrival={}, length={}, shape='{}')",
            self.id, self.arrival, self.length, self.shape
        )
    }
}
