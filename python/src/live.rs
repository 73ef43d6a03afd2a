//! What a policy in Python has submitted: the nodes of each request, and the tasks that are not done.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use batchlab::workload::cell_graph::{CellGraph, CellRun};

/// The state of a request that has arrived.
#[derive(Debug)]
pub struct LiveRequest {
    pub graph: CellGraph,
    stage: AtomicU8,
    /// The number of nodes that are not done.
    remaining: AtomicU32,
    nodes: SubmittedNodes,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    Waiting,
    /// It was submitted as a whole.
    Whole,
    /// Some of its nodes were submitted.
    InParts,
    Rejected,
    Finished,
}

/// The nodes of a request that were submitted.
#[derive(Debug)]
enum SubmittedNodes {
    /// The nodes of a chain are submitted one after another.
    Chain {
        next: AtomicU32,
        /// The task of the last submitted node.
        last: AtomicU64,
    },
    /// One more than the number of each node's task, or 0. Empty before the first submission.
    Graph(Mutex<Vec<u64>>),
}

/// A node of a task that may be submitted.
pub struct CheckedNode {
    /// The input size of the node's cell, or 0.
    pub input: u32,
    /// The number of the node's subgraph in its request.
    pub subgraph: u32,
    pub begins: bool,
}

impl LiveRequest {
    pub fn new(graph: CellGraph) -> LiveRequest {
        let nodes = match &graph {
            CellGraph::Chains(_) => SubmittedNodes::Chain {
                next: AtomicU32::new(0),
                last: AtomicU64::new(u64::MAX),
            },
            CellGraph::Graph(_) => SubmittedNodes::Graph(Mutex::default()),
        };
        LiveRequest {
            stage: AtomicU8::new(Stage::Waiting as u8),
            remaining: AtomicU32::new(u32::try_from(graph.nodes()).unwrap_or(u32::MAX)),
            nodes,
            graph,
        }
    }

    pub fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Relaxed) {
            0 => Stage::Waiting,
            1 => Stage::Whole,
            2 => Stage::InParts,
            3 => Stage::Rejected,
            _ => Stage::Finished,
        }
    }

    pub fn enter(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    /// Counts a node that is done. Returns whether it was the last.
    pub fn complete_node(&self) -> bool {
        self.remaining.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// Submits a node in a task of this cell, or says why it can't be submitted.
    pub fn submit_node(
        &self,
        node: u32,
        cell: u16,
        task: u64,
        worker: u16,
        tasks: &OpenTasks,
    ) -> Result<CheckedNode, String> {
        match self.stage() {
            Stage::Waiting => self.enter(Stage::InParts),
            Stage::InParts => {}
            other => return Err(other.refusal()),
        }
        match (&self.graph, &self.nodes) {
            (CellGraph::Chains(runs), SubmittedNodes::Chain { next, last }) => {
                let (place, run) = find_run(runs, node).ok_or_else(|| self.unknown_node(node))?;
                check_cell(node, run.cell.0, cell)?;
                let expected = next.load(Ordering::Relaxed);
                if node < expected {
                    return Err(format!("has submitted its node {node} before"));
                }
                if node > expected {
                    return Err(format!(
                        "needs its node {} before node {node}; submit that first",
                        node - 1
                    ));
                }
                if node > 0 {
                    tasks.check_input(node - 1, last.load(Ordering::Relaxed), task, worker)?;
                }
                next.store(node + 1, Ordering::Relaxed);
                last.store(task, Ordering::Relaxed);
                Ok(CheckedNode {
                    input: run.input,
                    subgraph: place,
                    begins: node == 0,
                })
            }
            (CellGraph::Graph(graph), SubmittedNodes::Graph(submitted)) => {
                let nodes = graph.cells().len();
                let own = graph.cells().get(node as usize);
                check_cell(node, own.ok_or_else(|| self.unknown_node(node))?.0, cell)?;
                let mut submitted = submitted.lock().expect("nothing panics here");
                submitted.resize(nodes, 0);
                if submitted[node as usize] > 0 {
                    return Err(format!("has submitted its node {node} before"));
                }
                let inputs = graph.inputs(node);
                for input in inputs {
                    match submitted[*input as usize] {
                        0 => {
                            return Err(format!(
                                "needs its node {input} before node {node}; submit that first"
                            ));
                        }
                        before => tasks.check_input(*input, before - 1, task, worker)?,
                    }
                }
                submitted[node as usize] = task + 1;
                Ok(CheckedNode {
                    input: 0,
                    subgraph: graph.subgraph_of()[node as usize],
                    begins: inputs.is_empty(),
                })
            }
            _ => unreachable!("the nodes are those of the graph"),
        }
    }

    fn unknown_node(&self, node: u32) -> String {
        let last = self.graph.nodes().saturating_sub(1);
        format!("has no node {node}; its nodes are 0 to {last}")
    }
}

impl Stage {
    /// Why a request at this stage can't be submitted.
    pub fn refusal(self) -> String {
        match self {
            Stage::Whole => "is submitted already".into(),
            Stage::InParts => {
                "has submitted some of its nodes; submit the others one by one".into()
            }
            Stage::Rejected => "was rejected before".into(),
            Stage::Finished => "is finished".into(),
            Stage::Waiting => "waits".into(),
        }
    }
}

fn check_cell(node: u32, own: u16, cell: u16) -> Result<(), String> {
    if own == cell {
        return Ok(());
    }
    Err(format!(
        "has cell {own} at its node {node}, but the batch is of cell {cell}"
    ))
}

/// The run of a chain to which a node belongs, and the run's place.
pub fn find_run(runs: &[CellRun], node: u32) -> Option<(u32, &CellRun)> {
    let mut first = 0;
    for (place, run) in (0..).zip(runs) {
        if node - first < run.length {
            return Some((place, run));
        }
        first += run.length;
    }
    None
}

/// The workers of tasks that are not done. Tasks are numbered in the order of submission.
#[derive(Debug, Default)]
pub struct OpenTasks {
    first: u64,
    workers: VecDeque<Option<u16>>,
    /// The number of unfinished tasks of each worker.
    pub unfinished: Vec<u32>,
}

impl OpenTasks {
    pub fn new(workers: usize) -> OpenTasks {
        OpenTasks {
            unfinished: vec![0; workers],
            ..OpenTasks::default()
        }
    }

    /// The number of the next task.
    pub fn next(&self) -> u64 {
        self.first + self.workers.len() as u64
    }

    pub fn open(&mut self, worker: u16) {
        self.workers.push_back(Some(worker));
        self.unfinished[usize::from(worker)] += 1;
    }

    pub fn close(&mut self, task: u64) {
        if let Some(worker) = self.workers[(task - self.first) as usize].take() {
            self.unfinished[usize::from(worker)] -= 1;
        }
        while let Some(None) = self.workers.front() {
            self.workers.pop_front();
            self.first += 1;
        }
    }

    /// Checks that an input in the task `before` is there when a task starts on a worker: it is done, or runs before on
    /// the same worker.
    fn check_input(&self, input: u32, before: u64, task: u64, worker: u16) -> Result<(), String> {
        if before == task {
            return Err(format!(
                "needs its node {input} done, which is in the same batch; submit it in a task before"
            ));
        }
        if before < self.first {
            return Ok(());
        }
        match self.workers[(before - self.first) as usize] {
            Some(other) if other != worker => Err(format!(
                "needs its node {input}, which worker {other} has not done yet; submit to that worker, or wait"
            )),
            _ => Ok(()),
        }
    }
}
