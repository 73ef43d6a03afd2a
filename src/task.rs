//! The types that everyone passes around: a task and what it runs, its completion, the book of open tasks, and the rows of the log.
//!
//! They know nothing of backends, policies or metrics.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::units::{CellId, Nanos, NodeId, RequestId, StreamId, TaskId, WorkerId};

/// A batched task, as a policy submits it.
#[derive(Clone, Copy)]
pub struct Task<'a> {
    /// Where it runs.
    pub worker: WorkerId,
    /// The worker's stream that it runs on.
    pub stream: StreamId,
    /// What it runs, in this order.
    pub steps: &'a [Step],
    /// The size of the batch, as the task log shows it: nodes for a single step, requests for whole graphs.
    pub batch: u32,
    /// How many of the executed cells ([`Step::cells`]) belong to a request; the others are padding.
    pub useful_cells: u64,
    /// The members are not those of the worker's task before, so that their states have to be brought together first
    /// (BatchMaker, section 4.3, "gather"). Policies that hold a batch together from start to end say `false`.
    pub gather: bool,
    /// What the host does for it beside deciding.
    pub host: HostOverhead,
    /// What the device does for it beside its cells.
    pub fold_loop: FoldLoop<'a>,
    /// The requests that may begin with this task; the first task of a request to start gives its start. For a batch of
    /// whole graphs these are all its requests. They come back with the completion.
    pub requests: &'a [RequestId],
    /// The nodes of the task.
    pub members: Members<'a>,
}

impl<'a> Task<'a> {
    /// A batch of whole requests, which begin and end together, on the worker's first stream.
    pub fn whole_requests(worker: WorkerId, steps: &'a [Step], requests: &'a [RequestId], useful_cells: u64) -> Self {
        Task {
            worker,
            stream: StreamId(0),
            steps,
            batch: requests.len() as u32,
            useful_cells,
            gather: false,
            host: HostOverhead::default(),
            fold_loop: FoldLoop::default(),
            requests,
            members: Members::Requests,
        }
    }
}

/// What the host of a dynamic-graph system does for a task: it builds the graphs of the batch, finds out what can run together
/// and writes the schedule down (TensorFlow Fold, DyNet). Part of the model of such a system, so that a simulated device
/// pays it; on a real one the host takes its own time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostOverhead {
    /// Work that begins with the submission, while the worker may still run what was submitted before: the task starts no sooner than it is done.
    pub ahead: Nanos,
    /// Work for which the worker's device stands still: part of the task's duration.
    pub during: Nanos,
}

/// What a device does beside cells for a task that is a loop over levels, as TensorFlow Fold's is. Like [`HostOverhead`] it is part
/// of the model of such a system: a simulated device pays it, and on a real one there is nothing to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoldLoop<'a> {
    /// The calls of the operation that hands results on to the next level.
    pub copies: &'a [Copies],
    /// The calls of cells on no rows.
    pub empty_calls: u64,
}

/// Results that are handed on to the next level, in one or more levels in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Copies {
    /// How many results in each of these levels; the operation is called where there are none, too.
    pub rows: u32,
    /// How many levels.
    pub times: u32,
}

/// The nodes that a task runs.
#[derive(Clone, Copy)]
pub enum Members<'a> {
    /// All nodes of [`Task::requests`].
    Requests,
    /// The nodes that this function appends, in the order of the batch.
    Nodes(&'a dyn Fn(&mut Vec<NodeRef>)),
    /// The parts of requests that this function appends, in the order of the batch.
    Parts(&'a dyn Fn(&mut Vec<Part>)),
}

/// The nodes of a task, for a backend that wants them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberList {
    /// All nodes of these requests.
    Requests(Vec<RequestId>),
    /// These nodes, in the order of the batch.
    Nodes(Vec<NodeRef>),
    /// These parts of requests, in the order of the batch.
    Parts(Vec<Part>),
}

impl MemberList {
    /// The members of a task, in the memory of a list that nobody needs any more.
    pub(crate) fn of(task: &Task<'_>, spare: Option<MemberList>) -> MemberList {
        match (task.members, spare) {
            (Members::Requests, Some(MemberList::Requests(mut requests))) => {
                requests.clear();
                requests.extend_from_slice(task.requests);
                MemberList::Requests(requests)
            }
            (Members::Requests, _) => MemberList::Requests(task.requests.to_vec()),
            (Members::Nodes(list), spare) => {
                let mut nodes = match spare {
                    Some(MemberList::Nodes(nodes)) => nodes,
                    _ => Vec::with_capacity(task.batch as usize),
                };
                nodes.clear();
                list(&mut nodes);
                MemberList::Nodes(nodes)
            }
            (Members::Parts(list), spare) => {
                let mut parts = match spare {
                    Some(MemberList::Parts(parts)) => parts,
                    _ => Vec::with_capacity(task.batch as usize),
                };
                parts.clear();
                list(&mut parts);
                MemberList::Parts(parts)
            }
        }
    }

    /// The requests that the task touches, some of them more than once.
    pub(crate) fn requests(&self) -> impl Iterator<Item = RequestId> {
        let (nodes, requests, parts): (&[NodeRef], &[RequestId], &[Part]) = match self {
            MemberList::Nodes(nodes) => (nodes, &[], &[]),
            MemberList::Requests(requests) => (&[], requests, &[]),
            MemberList::Parts(parts) => (&[], &[], parts),
        };
        let of_nodes = nodes.iter().map(|node| node.request);
        of_nodes.chain(requests.iter().copied()).chain(parts.iter().map(|part| part.request))
    }
}

/// One node of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeRef {
    /// The request.
    pub request: RequestId,
    /// Its node.
    pub node: NodeId,
}

/// Nodes of one request that follow each other, and run one behind the other within a task: a stage of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The request.
    pub request: RequestId,
    /// The first of the nodes.
    pub from: NodeId,
    /// The node behind the last; the same as the first if there are none.
    pub to: NodeId,
}

impl Part {
    /// Its nodes.
    pub fn nodes(&self) -> impl Iterator<Item = NodeRef> + use<> {
        let Part { request, from, to } = *self;
        (from.0..to.0).map(move |node| NodeRef { request, node: NodeId(node) })
    }
}

/// A batched cell, run one or more times in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// The cell type.
    pub cell: CellId,
    /// How many nodes run at once.
    pub batch: u32,
    /// How often; a padded batch runs a cell as often as its bucket says.
    pub times: u32,
    /// The size of the input that the batch is padded to, for cells whose time depends on it, otherwise 0.
    pub input: u32,
}

impl Step {
    /// The steps as which a device that has a cell at some batch sizes alone runs it: the largest size as often as it is full, then
    /// the rest, padded to the next size. `sizes` ascend; without any the step runs as it is.
    pub fn padded(self, sizes: &[u32]) -> impl Iterator<Item = Step> {
        let (full, rest) = match sizes.last() {
            None => (0, self.batch),
            Some(largest) => (self.batch / largest, self.batch % largest),
        };
        let largest = (full > 0).then(|| Step { batch: sizes[sizes.len() - 1], times: self.times * full, ..self });
        let next = sizes.iter().copied().find(|size| *size >= rest).unwrap_or(rest);
        let rest = (rest > 0).then_some(Step { batch: next, ..self });
        largest.into_iter().chain(rest)
    }

    /// The cells that it executes, padding included. A cell with an input size counts as often as that is.
    pub fn cells(&self) -> u64 {
        u64::from(self.batch) * u64::from(self.times) * u64::from(self.input.max(1))
    }
}

/// The report that a task is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The task.
    pub task: TaskId,
    /// When it began to execute.
    pub start: Nanos,
    /// When it was done.
    pub finish: Nanos,
}

/// Why a policy submitted a task, each in a clause for a reader (`batchlab explain`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reason {
    /// Why this cell type, or this group of requests: "decoder: at least max_batch (512) nodes are ready".
    pub what: String,
    /// Why so many: "all 37 ready nodes", "max_batch (512) of 801 ready nodes".
    pub size: String,
    /// Why at this instant: "worker 0 has nothing left to do".
    pub when: String,
}

/// A policy's access to the workers during one call of `Policy::schedule`.
pub struct Dispatch<'a> {
    sink: &'a mut dyn TaskSink,
    tasks: &'a mut TaskBook,
    now: Nanos,
    /// Where reasons go, if they are kept.
    reasons: Option<&'a mut Vec<(TaskId, Reason)>>,
}

/// Takes the tasks of a policy. Only the driver implements it, so that no policy can reach the backend.
pub(crate) trait TaskSink {
    /// The batch sizes at which the device runs a cell, ascending; empty if it runs all.
    fn batches(&self, cell: CellId) -> &[u32];

    /// Passes a task to the backend.
    fn submit(&mut self, id: TaskId, task: &Task<'_>);
}

impl<'a> Dispatch<'a> {
    pub(crate) fn new(
        sink: &'a mut dyn TaskSink,
        tasks: &'a mut TaskBook,
        now: Nanos,
        reasons: Option<&'a mut Vec<(TaskId, Reason)>>,
    ) -> Self {
        Dispatch { sink, tasks, now, reasons }
    }

    /// The present instant.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// The workers, in the order of their numbers.
    pub fn workers(&self) -> impl Iterator<Item = WorkerId> + use<> {
        (0..self.tasks.workers() as u16).map(WorkerId)
    }

    /// Whether a worker has no unfinished task.
    pub fn is_idle(&self, worker: WorkerId) -> bool {
        self.tasks.unfinished(worker) == 0
    }

    /// How many tasks of a worker are not finished.
    pub fn unfinished(&self, worker: WorkerId) -> usize {
        self.tasks.unfinished(worker)
    }

    /// Submits a task to its worker's stream, behind those that are there already. Where the device has a cell at some batch
    /// sizes alone, its steps are padded to these.
    ///
    /// # Panics
    /// On a task without work: an empty batch is a mistake of the policy.
    pub fn submit(&mut self, task: &Task<'_>) -> TaskId {
        assert!(task.steps.iter().any(|s| s.batch > 0 && s.times > 0), "a policy submitted an empty batch");
        let any_size = task.steps.iter().all(|step| self.sink.batches(step.cell).is_empty());
        if !any_size {
            let padded: Vec<Step> =
                task.steps.iter().flat_map(|step| step.padded(self.sink.batches(step.cell))).collect();
            return self.pass_on(&Task { steps: &padded, ..*task });
        }
        self.pass_on(task)
    }

    fn pass_on(&mut self, task: &Task<'_>) -> TaskId {
        let id = self.tasks.open(self.now, task);
        self.sink.submit(id, task);
        id
    }

    /// The same, with the reason, which is put into words only if somebody wants to know it.
    ///
    /// # Panics
    /// As [`Dispatch::submit`].
    pub fn submit_because(&mut self, task: &Task<'_>, reason: impl FnOnce() -> Reason) -> TaskId {
        let id = self.submit(task);
        if let Some(reasons) = &mut self.reasons {
            reasons.push((id, reason()));
        }
        id
    }
}

/// The tasks that are submitted and not finished.
pub struct TaskBook {
    /// In order of submission; a task that finished out of order leaves a gap until those before it have finished.
    open: VecDeque<Option<OpenTask>>,
    first: u64,
    unfinished: Vec<usize>,
    busy_workers: usize,
    /// Request lists of finished tasks, kept for their memory.
    spare: Vec<Vec<RequestId>>,
    spare_steps: Vec<Vec<Step>>,
}

/// What the driver remembers of a task while it runs.
pub struct OpenTask {
    /// Where it runs.
    pub worker: WorkerId,
    /// The stream that it runs on.
    pub stream: StreamId,
    /// What it runs.
    pub steps: Vec<Step>,
    /// The size of the batch, as the task log shows it.
    pub batch: u32,
    /// How many of its cells belong to a request.
    pub useful_cells: u64,
    /// When it was submitted.
    pub submit: Nanos,
    /// The requests that it was submitted with.
    pub requests: Vec<RequestId>,
}

impl TaskBook {
    pub(crate) fn new(workers: usize) -> Self {
        TaskBook {
            open: VecDeque::new(),
            first: 0,
            unfinished: vec![0; workers],
            busy_workers: 0,
            spare: Vec::new(),
            spare_steps: Vec::new(),
        }
    }

    fn workers(&self) -> usize {
        self.unfinished.len()
    }

    pub(crate) fn unfinished(&self, worker: WorkerId) -> usize {
        self.unfinished[worker.index()]
    }

    pub(crate) fn some_idle(&self) -> bool {
        self.busy_workers < self.unfinished.len()
    }

    pub(crate) fn submitted(&self) -> u64 {
        self.first + self.open.len() as u64
    }

    fn open(&mut self, now: Nanos, task: &Task<'_>) -> TaskId {
        let id = TaskId(self.submitted());
        let mut requests = self.spare.pop().unwrap_or_default();
        requests.extend_from_slice(task.requests);
        let mut steps = self.spare_steps.pop().unwrap_or_default();
        steps.extend_from_slice(task.steps);
        let unfinished = &mut self.unfinished[task.worker.index()];
        self.busy_workers += usize::from(*unfinished == 0);
        *unfinished += 1;
        self.open.push_back(Some(OpenTask {
            worker: task.worker,
            stream: task.stream,
            steps,
            batch: task.batch,
            useful_cells: task.useful_cells,
            submit: now,
            requests,
        }));
        id
    }

    pub(crate) fn close(&mut self, id: TaskId) -> OpenTask {
        let done = self
            .open
            .get_mut((id.0 - self.first) as usize)
            .and_then(Option::take)
            .expect("a backend reports each submitted task once");
        while let Some(None) = self.open.front() {
            self.open.pop_front();
            self.first += 1;
        }
        let unfinished = &mut self.unfinished[done.worker.index()];
        *unfinished -= 1;
        self.busy_workers -= usize::from(*unfinished == 0);
        done
    }

    pub(crate) fn recycle(&mut self, mut done: OpenTask) {
        done.requests.clear();
        done.steps.clear();
        self.spare.push(done.requests);
        self.spare_steps.push(done.steps);
    }
}

/// What the driver handed to the policy before one call of its `schedule`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// The instant that the policy was given.
    pub now: Nanos,
    /// How many completions.
    pub completions: u32,
    /// How many arrivals, in the order of the trace.
    pub arrivals: u32,
}

/// One line of the task log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRow {
    /// Its number.
    pub task: TaskId,
    /// Where it ran.
    pub worker: WorkerId,
    /// The stream that it ran on.
    pub stream: StreamId,
    /// The cell types that it ran, in the order in which they first came.
    pub cells: SmallVec<[CellId; 2]>,
    /// Its batch size.
    pub batch: u32,
    /// When it was submitted.
    pub submit: Nanos,
    /// When it began to execute.
    pub start: Nanos,
    /// When it was done.
    pub finish: Nanos,
}

/// The cell types of a task's steps, in the order in which they first come.
pub fn distinct_cells(steps: &[Step]) -> SmallVec<[CellId; 2]> {
    let mut cells = SmallVec::new();
    for step in steps {
        if !cells.contains(&step.cell) {
            cells.push(step.cell);
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_runs_at_the_sizes_that_there_are() {
        let runs = |batch, sizes: &[u32]| -> Vec<(u32, u32)> {
            let step = Step { cell: CellId(0), batch, times: 3, input: 0 };
            step.padded(sizes).map(|step| (step.batch, step.times)).collect()
        };
        assert_eq!(runs(5, &[]), [(5, 3)]);
        assert_eq!(runs(5, &[1, 4, 8]), [(8, 3)]);
        assert_eq!(runs(4, &[1, 4, 8]), [(4, 3)]);
        // As often the largest as it is full, in each of the three runs.
        assert_eq!(runs(19, &[1, 4, 8]), [(8, 6), (4, 3)]);
        assert_eq!(runs(16, &[8]), [(8, 6)]);
    }
}
