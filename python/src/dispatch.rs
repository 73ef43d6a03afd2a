//! The access of a policy in Python to the workers, and the tasks that ended.

use std::sync::{Arc, Mutex, MutexGuard};

use batchlab::policy::whole::PaddedBatch;
use batchlab::task::{Members, NodeRef, Step, Task as CoreTask};
use batchlab::units::{CellId, NodeId, RequestId, WorkerId};
use batchlab::workload::cell_graph::CellGraph;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList, PyTuple};

use crate::live::{LiveRequest, OpenTasks, Stage};
use crate::request::Request;

/// What a policy is allowed, and the tasks that are not done.
#[derive(Debug)]
pub struct Rules {
    /// The number of the policy.
    pub policy: u64,
    /// The names of the model's cells.
    pub cells: Vec<String>,
    /// The largest number of whole requests in a batch.
    pub max_requests: u32,
    /// The largest number of nodes of each cell in a batch.
    pub max_nodes: Vec<u32>,
    pub tasks: Mutex<OpenTasks>,
}

impl Rules {
    pub fn tasks(&self) -> MutexGuard<'_, OpenTasks> {
        self.tasks
            .lock()
            .expect("nothing panics while it holds the tasks")
    }
}

/// A task that a policy has submitted, to be passed on when its method has returned.
pub struct WantedTask {
    pub worker: u16,
    pub work: WantedWork,
    /// The list that `complete` gets.
    pub members: Py<PyList>,
}

pub enum WantedWork {
    /// Whole requests, with their states.
    Requests(PaddedBatch, Vec<Arc<LiveRequest>>),
    Nodes(NodeBatch),
}

/// A batch of cells.
#[derive(Default)]
pub struct NodeBatch {
    cell: u16,
    nodes: Vec<NodeRef>,
    pub live: Vec<Arc<LiveRequest>>,
    begins: Vec<RequestId>,
    input: u32,
    useful_cells: u64,
    /// A fingerprint of the members, the same for equal sets.
    members: u64,
}

impl NodeBatch {
    /// Submits the batch. `last` has the members of the worker's task before.
    pub fn submit(&self, worker: u16, last: &mut Option<u64>, submit: impl FnOnce(&CoreTask<'_>)) {
        let steps = [Step {
            cell: CellId(self.cell),
            batch: self.nodes.len() as u32,
            times: 1,
            input: self.input,
        }];
        let list = |nodes: &mut Vec<NodeRef>| nodes.extend_from_slice(&self.nodes);
        let before = last.replace(self.members);
        submit(&CoreTask {
            gather: before != Some(self.members),
            members: Members::Nodes(&list),
            ..CoreTask::new(WorkerId(worker), &steps, &self.begins, self.useful_cells)
        });
    }

    /// The requests whose last nodes were in the batch.
    pub fn finish_requests(&self) -> impl Iterator<Item = RequestId> {
        let ended = self
            .live
            .iter()
            .zip(&self.nodes)
            .filter(|(live, _)| live.complete_node());
        ended.map(|(live, node)| {
            live.enter(Stage::Finished);
            node.request
        })
    }
}

/// The access to the workers during `schedule`. What is submitted starts when `schedule` has returned.
#[pyclass(module = "batchlab")]
pub struct Dispatch {
    rules: Arc<Rules>,
    now: u64,
    idle: Vec<u16>,
    is_open: bool,
    pub wanted: Vec<WantedTask>,
    pub rejected: Vec<(u64, Option<String>)>,
    /// The first mistake, which ends the run even if the policy catches the exception, and the request that it is about.
    pub mistake: Option<(PyErr, Option<u64>)>,
}

impl Dispatch {
    pub fn new(rules: Arc<Rules>, now: u64, idle: Vec<u16>) -> Dispatch {
        Dispatch {
            rules,
            now,
            idle,
            is_open: true,
            wanted: Vec::new(),
            rejected: Vec::new(),
            mistake: None,
        }
    }

    pub fn close(&mut self) {
        self.is_open = false;
    }

    fn check_open(&self) -> PyResult<()> {
        if self.is_open {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(
            "a dispatch lasts for one call of schedule; use the one that schedule is given",
        ))
    }

    fn check_worker(&self, tasks: &OpenTasks, worker: i64) -> PyResult<u16> {
        let workers = tasks.unfinished.len();
        match u16::try_from(worker) {
            Ok(known) if usize::from(known) < workers => Ok(known),
            _ => Err(PyValueError::new_err(format!(
                "there is no worker {worker}; the workers are 0 to {}",
                workers - 1
            ))),
        }
    }

    fn refuse(&mut self, request: u64, why: &str) -> PyErr {
        let mistake = PyValueError::new_err(format!("request {request} {why}"));
        Python::attach(|py| {
            self.mistake
                .get_or_insert_with(|| (mistake.clone_ref(py), Some(request)));
        });
        mistake
    }

    /// Keeps the mistake of a submission, which may have entered some of its members.
    fn keep_mistake(&mut self, py: Python<'_>, outcome: PyResult<()>) -> PyResult<()> {
        if let Err(exception) = &outcome {
            self.mistake
                .get_or_insert_with(|| (exception.clone_ref(py), None));
        }
        outcome
    }

    fn check_request(&mut self, request: &Request) -> PyResult<()> {
        if request.policy == self.rules.policy {
            return Ok(());
        }
        Err(self.refuse(
            request.id,
            "is of another run; submit only what arrive was given",
        ))
    }

    fn cell_number(&self, cell: &Bound<'_, PyAny>) -> PyResult<u16> {
        let cells = &self.rules.cells;
        let found = match cell.extract::<u16>() {
            Ok(number) => Some(usize::from(number)).filter(|number| *number < cells.len()),
            Err(_) => {
                let name: String = cell.extract()?;
                cells.iter().position(|cell| *cell == name)
            }
        };
        found.map(|place| place as u16).ok_or_else(|| {
            let known: Vec<String> = (0..)
                .zip(cells)
                .map(|(number, name): (u16, _)| format!("{number} ({name})"))
                .collect();
            PyValueError::new_err(format!(
                "there is no cell {cell}; the cells are {}",
                known.join(", ")
            ))
        })
    }

    fn want(&mut self, tasks: &mut OpenTasks, wanted: WantedTask) {
        tasks.open(wanted.worker);
        self.idle.retain(|idle| *idle != wanted.worker);
        self.wanted.push(wanted);
    }
}

#[pymethods]
impl Dispatch {
    /// The present instant, in nanoseconds since the start of the run.
    #[getter]
    fn now(&self) -> PyResult<u64> {
        self.check_open()?;
        Ok(self.now)
    }

    /// The number of workers, which are 0 and so on.
    #[getter]
    fn workers(&self) -> PyResult<usize> {
        self.check_open()?;
        Ok(self.rules.tasks().unfinished.len())
    }

    /// The names of the model's cells, by their numbers.
    #[getter]
    fn cells(&self) -> PyResult<Vec<String>> {
        self.check_open()?;
        Ok(self.rules.cells.clone())
    }

    /// The workers without tasks, in the order of their numbers, without those that got one in this call.
    fn idle(&self) -> PyResult<Vec<u16>> {
        self.check_open()?;
        Ok(self.idle.clone())
    }

    /// The number of a worker's tasks that are not done.
    #[pyo3(name = "unfinished")]
    fn unfinished_tasks(&self, worker: i64) -> PyResult<u32> {
        self.check_open()?;
        let tasks = self.rules.tasks();
        let worker = self.check_worker(&tasks, worker)?;
        Ok(tasks.unfinished[usize::from(worker)])
    }

    /// Submits a batch of whole requests to a worker, padded to the longest.
    fn submit(&mut self, worker: i64, requests: &Bound<'_, PyAny>) -> PyResult<()> {
        self.check_open()?;
        let outcome = self.want_requests(worker, requests);
        self.keep_mistake(requests.py(), outcome)
    }

    /// Submits a batch of cells to a worker: pairs of a request and the number of its node.
    fn submit_nodes(
        &mut self,
        worker: i64,
        cell: &Bound<'_, PyAny>,
        members: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.check_open()?;
        let outcome = self.want_nodes(worker, cell, members);
        self.keep_mistake(members.py(), outcome)
    }

    /// Makes a request leave unserved.
    #[pyo3(signature = (request, reason=None))]
    fn reject(&mut self, request: &Bound<'_, Request>, reason: Option<String>) -> PyResult<()> {
        self.check_open()?;
        let request = request.get();
        self.check_request(request)?;
        let stage = request.live.stage();
        if stage != Stage::Waiting {
            return Err(self.refuse(request.id, &stage.refusal()));
        }
        request.live.enter(Stage::Rejected);
        self.rejected.push((request.id, reason));
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("Dispatch(now={}, idle={:?})", self.now, self.idle)
    }
}

impl Dispatch {
    fn want_requests(&mut self, worker: i64, requests: &Bound<'_, PyAny>) -> PyResult<()> {
        let members = to_list(requests)?;
        let rules = Arc::clone(&self.rules);
        let mut tasks = rules.tasks();
        let worker = self.check_worker(&tasks, worker)?;
        check_size(members.len(), rules.max_requests, "requests")?;
        let mut batch = PaddedBatch::default();
        let mut live = Vec::with_capacity(members.len());
        for member in members.iter() {
            let request = member.cast::<Request>()?.get();
            self.check_request(request)?;
            let stage = request.live.stage();
            if stage != Stage::Waiting {
                return Err(self.refuse(request.id, &stage.refusal()));
            }
            if matches!(request.live.graph, CellGraph::Graph(_)) {
                let why = "is no sequence and can't be padded; submit its nodes";
                return Err(self.refuse(request.id, why));
            }
            request.live.enter(Stage::Whole);
            batch.add(RequestId(request.id), &request.live.graph);
            live.push(Arc::clone(&request.live));
        }
        let wanted = WantedTask {
            worker,
            work: WantedWork::Requests(batch, live),
            members: members.unbind(),
        };
        self.want(&mut tasks, wanted);
        Ok(())
    }

    fn want_nodes(
        &mut self,
        worker: i64,
        cell: &Bound<'_, PyAny>,
        members: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let members = to_list(members)?;
        let rules = Arc::clone(&self.rules);
        let mut tasks = rules.tasks();
        let worker = self.check_worker(&tasks, worker)?;
        let cell = self.cell_number(cell)?;
        check_size(members.len(), rules.max_nodes[usize::from(cell)], "nodes")?;
        let mut batch = NodeBatch {
            cell,
            nodes: Vec::with_capacity(members.len()),
            live: Vec::with_capacity(members.len()),
            ..NodeBatch::default()
        };
        let mut shares = Shares::default();
        let task = tasks.next();
        for member in members.iter() {
            let pair = member
                .cast::<PyTuple>()
                .map_err(|_| refuse_member(&member))?;
            if pair.len() != 2 {
                return Err(refuse_member(&member));
            }
            let request = pair.get_item(0)?;
            let request = request.cast::<Request>()?.get();
            self.check_request(request)?;
            let node: u32 = pair.get_item(1)?.extract()?;
            let checked = request.live.submit_node(node, cell, task, worker, &tasks);
            let checked = checked.map_err(|why| self.refuse(request.id, &why))?;
            batch.nodes.push(NodeRef {
                request: RequestId(request.id),
                node: NodeId(node),
            });
            batch.live.push(Arc::clone(&request.live));
            if checked.begins {
                batch.begins.push(RequestId(request.id));
            }
            batch.input = batch.input.max(checked.input);
            batch.useful_cells += u64::from(checked.input.max(1));
            let is_chain = matches!(request.live.graph, CellGraph::Chains(_));
            shares.add(request.id, checked.subgraph, is_chain);
        }
        batch.members = shares.fingerprint();
        let wanted = WantedTask {
            worker,
            work: WantedWork::Nodes(batch),
            members: members.unbind(),
        };
        self.want(&mut tasks, wanted);
        Ok(())
    }
}

/// The members as a list of their own, since the policy may go on to use what it gave.
fn to_list<'py>(given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    if let Ok(list) = given.cast::<PyList>() {
        return Ok(list.get_slice(0, list.len()));
    }
    let list = PyList::empty(given.py());
    for item in PyIterator::from_object(given)? {
        list.append(item?)?;
    }
    Ok(list)
}

fn check_size(size: usize, most: u32, what: &str) -> PyResult<()> {
    if size == 0 {
        return Err(PyValueError::new_err(format!(
            "the batch is empty; submit one or more {what}"
        )));
    }
    if size > most as usize {
        return Err(PyValueError::new_err(format!(
            "the batch has {size} {what}; max_batch of the policy is {most}"
        )));
    }
    Ok(())
}

fn refuse_member(member: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!("members are pairs (request, node), not {member}"))
}

/// The subgraphs of a batch with their nodes, as a fingerprint.
#[derive(Default)]
struct Shares {
    sum: u64,
    /// The subgraph of each node of a graph. A chain has one node in a batch at most.
    of_graphs: Vec<(u64, u32)>,
}

impl Shares {
    fn add(&mut self, request: u64, subgraph: u32, is_chain: bool) {
        if is_chain {
            self.add_share(request, subgraph, 1);
        } else {
            self.of_graphs.push((request, subgraph));
        }
    }

    fn add_share(&mut self, request: u64, subgraph: u32, nodes: usize) {
        let value = mix(request ^ u64::from(subgraph).rotate_right(24));
        self.sum = self.sum.wrapping_add(mix(value ^ nodes as u64));
    }

    fn fingerprint(mut self) -> u64 {
        let mut nodes = std::mem::take(&mut self.of_graphs);
        nodes.sort_unstable();
        for share in nodes.chunk_by(|a, b| a == b) {
            let (request, subgraph) = share[0];
            self.add_share(request, subgraph, share.len());
        }
        self.sum
    }
}

/// A bijection in which each bit affects all others (SplitMix64).
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A task that ended.
#[pyclass(frozen, get_all, module = "batchlab")]
pub struct Task {
    /// Its number, in the order of submission.
    pub task: u64,
    pub worker: u16,
    /// The instants of its start and end, in nanoseconds.
    pub start: u64,
    pub finish: u64,
    /// What was submitted: requests, or pairs of a request and a node.
    pub members: Py<PyList>,
}

#[pymethods]
impl Task {
    /// The requests of the task, each once, in the order of the batch.
    #[getter]
    fn requests<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let members = self.members.bind(py);
        if members.get_item(0)?.cast::<PyTuple>().is_err() {
            return Ok(members.clone());
        }
        let requests = PyList::empty(py);
        let mut seen = std::collections::BTreeSet::new();
        for member in members.iter() {
            let request = member.cast::<PyTuple>()?.get_item(0)?;
            if seen.insert(request.cast::<Request>()?.get().id) {
                requests.append(request)?;
            }
        }
        Ok(requests)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!(
            "Task(task={}, worker={}, start={}, finish={}, members=[{}])",
            self.task,
            self.worker,
            self.start,
            self.finish,
            self.members.bind(py).len()
        )
    }
}
