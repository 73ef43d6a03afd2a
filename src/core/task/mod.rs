//! Types that all modules share. They know nothing of backends, policies or metrics.

mod launches;
mod worker_set;

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

pub use self::launches::{Launches, Unit, Wave};
use self::worker_set::WorkerSet;
use crate::base::units::{CellId, Nanos, NodeId, RequestId, StreamId, TaskId, WorkerId};

#[derive(Clone, Copy)]
pub struct Task<'a> {
    pub worker: WorkerId,
    pub stream: StreamId,
    pub steps: &'a [Step],
    /// In the task log: nodes of a single step, or whole requests.
    pub batch: u32,
    /// Executed cells ([`Step::cells`]) that are not padding.
    pub useful_cells: u64,
    /// The members differ from the worker's previous task, so their states are gathered first (BatchMaker, section
    /// 4.3). `false` for policies that keep a batch together.
    pub gather: bool,
    pub extra: ExtraTime,
    /// Requests that may begin with this task, or all of a batch of whole graphs; the completion returns them. A
    /// request starts with the first of its tasks to start.
    pub requests: &'a [RequestId],
    pub members: Members<'a>,
    /// Of a language model. Its step's batch is the tokens that are fed, its input the context that is read.
    pub iteration: Option<Iteration>,
}

impl<'a> Task<'a> {
    /// On the worker's first stream, for all nodes of `requests`, with the first step's batch and no gather. Override
    /// with `Task { members, ..Task::new(…) }`.
    pub fn new(
        worker: WorkerId,
        steps: &'a [Step],
        requests: &'a [RequestId],
        useful_cells: u64,
    ) -> Self {
        Task {
            worker,
            stream: StreamId(0),
            steps,
            batch: steps.first().map_or(0, |step| step.batch),
            useful_cells,
            gather: false,
            extra: ExtraTime::default(),
            requests,
            members: Members::Requests,
            iteration: None,
        }
    }

    pub fn whole_requests(
        worker: WorkerId,
        steps: &'a [Step],
        requests: &'a [RequestId],
        useful_cells: u64,
    ) -> Self {
        Task {
            batch: requests.len() as u32,
            ..Task::new(worker, steps, requests, useful_cells)
        }
    }

    pub fn unpadded(worker: WorkerId, steps: &'a [Step], requests: &'a [RequestId]) -> Self {
        Task::whole_requests(worker, steps, requests, steps.iter().map(Step::cells).sum())
    }
}

/// What an iteration of a language model leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Iteration {
    /// How many of the first of [`Task::requests`] have their whole prompts fed with this task: each gets its next token, and
    /// decodes from then on. Further requests are fed a part.
    pub prefilled: u32,
    /// Every sequence that decodes on the worker gets a token.
    pub decodes: bool,
    /// Of keys and values, in use on the worker while the task runs.
    pub blocks: u32,
    /// All blocks of the worker.
    pub capacity: u32,
}

/// The time of a task that neither its steps nor the device's overheads account for. The policy knows it, and only a
/// simulated device takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExtraTime {
    /// The host works from the submission on, for example on building graphs. The task starts no sooner than its end.
    pub host_ahead: Nanos,
    /// The host works while the device idles, as part of the task's duration.
    pub host_during: Nanos,
    /// The device works between the steps, for example on copies.
    pub device: Nanos,
}

#[derive(Clone, Copy)]
pub enum Members<'a> {
    /// All nodes of [`Task::requests`].
    Requests,
    /// The function appends nodes in batch order; called only for backends that need them.
    Nodes(&'a dyn Fn(&mut Vec<NodeRef>)),
    /// The function appends parts in batch order.
    Parts(&'a dyn Fn(&mut Vec<Part>)),
    /// All operators of all nodes of [`Task::requests`], launch by launch.
    Operators(&'a Arc<Launches>),
}

/// Nodes as lists, in batch order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberList {
    Requests(Vec<RequestId>),
    Nodes(Vec<NodeRef>),
    Parts(Vec<Part>),
    Operators(Vec<RequestId>, Arc<Launches>),
}

impl MemberList {
    pub(crate) fn of(task: &Task<'_>, spare: Option<MemberList>) -> MemberList {
        match (task.members, spare) {
            (Members::Requests, Some(MemberList::Requests(mut requests))) => {
                requests.clear();
                requests.extend_from_slice(task.requests);
                MemberList::Requests(requests)
            }
            (Members::Requests, _) => MemberList::Requests(task.requests.to_vec()),
            (Members::Nodes(list), Some(MemberList::Nodes(nodes))) => {
                MemberList::Nodes(listed(nodes, list))
            }
            (Members::Nodes(list), _) => {
                MemberList::Nodes(listed(Vec::with_capacity(task.batch as usize), list))
            }
            (Members::Parts(list), Some(MemberList::Parts(parts))) => {
                MemberList::Parts(listed(parts, list))
            }
            (Members::Parts(list), _) => {
                MemberList::Parts(listed(Vec::with_capacity(task.batch as usize), list))
            }
            (Members::Operators(launches), _) => {
                MemberList::Operators(task.requests.to_vec(), Arc::clone(launches))
            }
        }
    }

    /// In the order of the batch. `count` tells how many nodes a request has.
    pub(crate) fn nodes(&self, count: impl Fn(RequestId) -> u64) -> Vec<NodeRef> {
        let whole = |request: &RequestId| Part {
            request: *request,
            from: NodeId(0),
            to: NodeId(count(*request) as u32),
        };
        match self {
            MemberList::Nodes(nodes) => nodes.clone(),
            MemberList::Parts(parts) => parts.iter().flat_map(Part::nodes).collect(),
            MemberList::Requests(requests) | MemberList::Operators(requests, _) => requests
                .iter()
                .flat_map(|request| whole(request).nodes())
                .collect(),
        }
    }

    /// A request may occur several times.
    pub(crate) fn requests(&self) -> impl Iterator<Item = RequestId> {
        let (nodes, requests, parts): (&[NodeRef], &[RequestId], &[Part]) = match self {
            MemberList::Nodes(nodes) => (nodes, &[], &[]),
            MemberList::Requests(requests) | MemberList::Operators(requests, _) => {
                (&[], requests, &[])
            }
            MemberList::Parts(parts) => (&[], &[], parts),
        };
        let of_nodes = nodes.iter().map(|node| node.request);
        of_nodes
            .chain(requests.iter().copied())
            .chain(parts.iter().map(|part| part.request))
    }
}

fn listed<T>(mut memory: Vec<T>, list: &dyn Fn(&mut Vec<T>)) -> Vec<T> {
    memory.clear();
    list(&mut memory);
    memory
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeRef {
    pub request: RequestId,
    pub node: NodeId,
}

/// Consecutive nodes of a request that run one after another within a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub request: RequestId,
    pub from: NodeId,
    /// Exclusive.
    pub to: NodeId,
}

impl Part {
    pub(crate) fn first(&self) -> NodeRef {
        NodeRef {
            request: self.request,
            node: self.from,
        }
    }

    pub fn nodes(&self) -> impl Iterator<Item = NodeRef> + use<> {
        let Part { request, from, to } = *self;
        (from.0..to.0).map(move |node| NodeRef {
            request,
            node: NodeId(node),
        })
    }
}

/// A batched cell, run `times` times in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    pub cell: CellId,
    pub batch: u32,
    pub times: u32,
    /// The padded input size, or 0.
    pub input: u32,
}

impl Step {
    /// Steps at the device's batch `sizes` (ascending; empty: any): full batches of the largest, then the rest, padded
    /// to the next size.
    pub fn padded(self, sizes: &[u32]) -> impl Iterator<Item = Step> {
        let (full, rest) = match sizes.last() {
            None => (0, self.batch),
            Some(largest) => (self.batch / largest, self.batch % largest),
        };
        let largest = (full > 0).then(|| Step {
            batch: sizes[sizes.len() - 1],
            times: self.times * full,
            ..self
        });
        let next = sizes
            .iter()
            .copied()
            .find(|size| *size >= rest)
            .unwrap_or(rest);
        let rest = (rest > 0).then_some(Step {
            batch: next,
            ..self
        });
        largest.into_iter().chain(rest)
    }

    /// Executed cells with padding, each counted once for each unit of its input size.
    pub fn cells(&self) -> u64 {
        u64::from(self.batch) * u64::from(self.times) * u64::from(self.input.max(1))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub task: TaskId,
    pub start: Nanos,
    pub finish: Nanos,
}

/// Why a task was submitted: clauses for `batchlab explain`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reason {
    /// Why these cells or requests: "decoder: a full batch was ready".
    pub what: String,
    /// Why this size: "max_batch (512) of 801 ready nodes".
    pub size: String,
    /// Why now: "worker 0 had nothing to do".
    pub when: String,
}

/// A policy's access to the workers during `Policy::schedule`.
pub struct Dispatch<'a> {
    sink: &'a mut dyn TaskSink,
    tasks: &'a mut TaskBook,
    now: Nanos,
    reasons: Option<&'a mut Vec<(TaskId, Reason)>>,
    rejected: &'a mut Rejections,
}

/// Requests that leave unserved. Few have reasons, which stand apart, so that the others cost no more than a number.
#[derive(Debug, Default)]
pub(crate) struct Rejections {
    pub requests: Vec<RequestId>,
    pub reasons: Vec<(RequestId, String)>,
}

impl Rejections {
    pub fn push_because(&mut self, request: RequestId, reason: String) {
        self.requests.push(request);
        self.reasons.push((request, reason));
    }
}

/// Only the driver implements it, so that no policy can reach the backend.
pub(crate) trait TaskSink {
    /// Ascending; empty if the device runs any size.
    fn batches(&self, cell: CellId) -> &[u32];

    fn submit(&mut self, id: TaskId, task: &Task<'_>);
}

impl<'a> Dispatch<'a> {
    pub(crate) fn new(
        sink: &'a mut dyn TaskSink,
        tasks: &'a mut TaskBook,
        now: Nanos,
        reasons: Option<&'a mut Vec<(TaskId, Reason)>>,
        rejected: &'a mut Rejections,
    ) -> Self {
        Dispatch {
            sink,
            tasks,
            now,
            reasons,
            rejected,
        }
    }

    pub fn now(&self) -> Nanos {
        self.now
    }

    pub fn workers(&self) -> impl Iterator<Item = WorkerId> + use<> {
        (0..self.tasks.unfinished.len() as u16).map(WorkerId)
    }

    /// The workers with nothing to do, in the order of their numbers, each as it is when it is reached.
    pub fn idle(&self) -> Offer {
        self.with_unfinished(0)
    }

    /// The workers with this many unfinished tasks, as [`Dispatch::idle`].
    pub fn with_unfinished(&self, tasks: usize) -> Offer {
        Offer {
            unfinished: tasks,
            from: 0,
        }
    }

    pub fn is_idle(&self, worker: WorkerId) -> bool {
        self.tasks.unfinished(worker) == 0
    }

    pub fn unfinished(&self, worker: WorkerId) -> usize {
        self.tasks.unfinished(worker)
    }

    /// Submits a task to its worker's stream; its steps are padded to the device's batch sizes.
    ///
    /// # Panics
    /// On an empty batch.
    pub fn submit(&mut self, task: &Task<'_>) -> TaskId {
        assert!(
            task.steps.iter().any(|s| s.batch > 0 && s.times > 0),
            "a policy submitted an empty batch"
        );
        let padded: Vec<Step>;
        let mut task = *task;
        if !task
            .steps
            .iter()
            .all(|step| self.sink.batches(step.cell).is_empty())
        {
            padded = task
                .steps
                .iter()
                .flat_map(|step| step.padded(self.sink.batches(step.cell)))
                .collect();
            task.steps = &padded;
        }
        let id = self.tasks.open(self.now, &task);
        self.sink.submit(id, &task);
        id
    }

    /// The request leaves unserved, for example because it is late. It must not be submitted or finished afterwards.
    pub fn reject(&mut self, request: RequestId) {
        self.rejected.requests.push(request);
    }

    pub fn reject_because(&mut self, request: RequestId, reason: String) {
        self.rejected.push_because(request, reason);
    }

    /// A sequence no longer decodes until a task has fed it again: its prompt and the tokens that it has got.
    pub fn preempt(&mut self, request: RequestId) {
        self.tasks.preempted.push(request);
    }

    /// How many were rejected in this call.
    pub(crate) fn rejections(&self) -> u32 {
        self.rejected.requests.len() as u32
    }

    /// `reason` is called only if reasons are kept.
    pub fn submit_because(&mut self, task: &Task<'_>, reason: impl FnOnce() -> Reason) -> TaskId {
        let id = self.submit(task);
        if let Some(reasons) = &mut self.reasons {
            reasons.push((id, reason()));
        }
        id
    }
}

/// Workers that a policy goes through while it submits tasks to them.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    unfinished: usize,
    from: usize,
}

impl Offer {
    pub fn next(&mut self, dispatch: &Dispatch<'_>) -> Option<WorkerId> {
        let worker = dispatch
            .tasks
            .by_unfinished
            .get(self.unfinished)?
            .first_from(self.from)?;
        self.from = worker + 1;
        Some(WorkerId(worker as u16))
    }
}

#[derive(Default)]
pub struct TaskBook {
    /// In the order of submission; finished ones leave gaps.
    open: VecDeque<Option<OpenTask>>,
    first: u64,
    unfinished: Vec<usize>,
    /// The workers with each number of unfinished tasks, so that no instant looks at all workers.
    by_unfinished: Vec<WorkerSet>,
    spare: Vec<(Vec<RequestId>, Vec<Step>)>,
    /// Since they were last taken.
    pub(crate) preempted: Vec<RequestId>,
}

pub struct OpenTask {
    pub worker: WorkerId,
    pub stream: StreamId,
    pub steps: Vec<Step>,
    pub batch: u32,
    pub useful_cells: u64,
    pub submit: Nanos,
    pub requests: Vec<RequestId>,
    pub iteration: Option<Iteration>,
}

impl TaskBook {
    pub(crate) fn new(workers: usize) -> Self {
        let by_unfinished = vec![WorkerSet::of_all(workers)];
        TaskBook {
            unfinished: vec![0; workers],
            by_unfinished,
            ..TaskBook::default()
        }
    }

    pub(crate) fn unfinished(&self, worker: WorkerId) -> usize {
        self.unfinished[worker.index()]
    }

    pub(crate) fn some_idle(&self) -> bool {
        self.by_unfinished[0].first_from(0).is_some()
    }

    pub(crate) fn submitted(&self) -> u64 {
        self.first + self.open.len() as u64
    }

    fn open(&mut self, now: Nanos, task: &Task<'_>) -> TaskId {
        let id = TaskId(self.submitted());
        let (mut requests, mut steps) = self.spare.pop().unwrap_or_default();
        requests.extend_from_slice(task.requests);
        steps.extend_from_slice(task.steps);
        self.count(task.worker, |unfinished| unfinished + 1);
        let Task {
            worker,
            stream,
            batch,
            useful_cells,
            iteration,
            ..
        } = *task;
        let open = OpenTask {
            worker,
            stream,
            steps,
            batch,
            useful_cells,
            submit: now,
            requests,
            iteration,
        };
        self.open.push_back(Some(open));
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
        self.count(done.worker, |unfinished| unfinished - 1);
        done
    }

    fn count(&mut self, worker: WorkerId, change: impl Fn(usize) -> usize) {
        let unfinished = &mut self.unfinished[worker.index()];
        self.by_unfinished[*unfinished].remove(worker.index());
        *unfinished = change(*unfinished);
        if self.by_unfinished.len() == *unfinished {
            self.by_unfinished
                .push(WorkerSet::none(self.unfinished.len()));
        }
        self.by_unfinished[self.unfinished[worker.index()]].insert(worker.index());
    }

    pub(crate) fn recycle(&mut self, mut done: OpenTask) {
        done.requests.clear();
        done.steps.clear();
        self.spare.push((done.requests, done.steps));
    }
}

/// The events before one call of `schedule`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    pub now: Nanos,
    pub completions: u32,
    pub arrivals: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRow {
    pub task: TaskId,
    pub worker: WorkerId,
    pub stream: StreamId,
    /// See [`distinct_cells`].
    pub cells: SmallVec<[CellId; 2]>,
    pub batch: u32,
    pub submit: Nanos,
    pub start: Nanos,
    pub finish: Nanos,
}

/// In the order of their first step.
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
mod tests;
