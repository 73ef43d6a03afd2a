//! Tasks, and the access of policies to workers. All modules share these types, which know no backend, policy or
//! metric.

mod launches;
pub(super) mod step_lists;
pub(super) mod worker_set;

use std::collections::VecDeque;
use std::sync::Arc;
use std::{mem, slice};

use smallvec::SmallVec;

pub use self::launches::{LaunchUnit, Launches, Wave};
use self::step_lists::StepLists;
pub use self::step_lists::{ListedSteps, StepListId};
use self::worker_set::WorkerSet;
use crate::base::error::Error;
use crate::base::grow::grow;
use crate::base::units::{CellId, Nanos, NodeId, RequestId, StreamId, TaskId, WorkerId};

/// One submission of a batch to a worker.
#[derive(Clone, Copy)]
pub struct Task<'a> {
    pub worker: WorkerId,
    pub stream: StreamId,
    pub steps: &'a [Step],
    /// The batch size in the task log: the nodes of a single step, or whole requests.
    pub batch: u32,
    /// Executed cells ([`Step::cells`]) that are not padding.
    pub useful_cells: u64,
    /// Whether states are gathered first, because the members are not those of the worker's previous task (BatchMaker,
    /// section 4.3). It is `false` for policies that keep a batch together.
    pub gather: bool,
    pub extra: ExtraTime,
    /// The requests that may begin with this task, or all requests of a batch of whole graphs. The completion returns
    /// them. A request starts with the first of its tasks to start.
    pub requests: &'a [RequestId],
    pub members: Members<'a>,
    /// Who joins, for a task of nodes whose other members go on from the previous task of this cell type on
    /// the same stream of the worker.
    /// `None` if the policy does not compare the two tasks.
    pub joined: Option<Joined<'a>>,
    /// What an iteration of a language model does; `None` for other models. The batch of its step is the number of
    /// tokens that are fed, and the input is the context that is read.
    pub iteration: Option<Iteration>,
    /// The list that has these steps, if they recur. [`Dispatch`] sets it.
    pub listed: Option<ListedSteps>,
}

impl<'a> Task<'a> {
    /// A task on the worker's first stream for all nodes of `requests`, with the first step's batch and no gather.
    /// `Task { members, ..Task::new(…) }` overrides a field.
    #[inline]
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
            joined: None,
            iteration: None,
            listed: None,
        }
    }

    /// A task whose batch is counted in requests.
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

    /// A task of whole requests in which every executed cell is useful.
    pub fn without_padding(worker: WorkerId, steps: &'a [Step], requests: &'a [RequestId]) -> Self {
        Task::whole_requests(worker, steps, requests, steps.iter().map(Step::cells).sum())
    }
}

/// The effects of an iteration of a language model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Iteration {
    /// The number of requests, the first of [`Task::requests`], whose prompts are completely fed with this task. Each
    /// gets its next token, and decodes from then on. Further requests are fed a part.
    pub prefilled: u32,
    /// Whether every sequence that decodes on the worker gets a token.
    pub decodes: bool,
    /// The blocks of keys and values that are in use on the worker while the task runs.
    pub blocks: u32,
    /// The number of all blocks of the worker.
    pub capacity: u32,
}

/// A task in which sequences only decode.
#[derive(Clone, Copy, Debug)]
pub struct DecodeTask {
    pub worker: WorkerId,
    stream: StreamId,
    /// The only step.
    pub step: Step,
    pub batch: u32,
    useful_cells: u64,
    iteration: Iteration,
}

impl DecodeTask {
    /// The task in the form in which backends get all tasks.
    #[inline]
    pub fn as_task(&self) -> Task<'_> {
        Task {
            stream: self.stream,
            batch: self.batch,
            iteration: Some(self.iteration),
            ..Task::new(
                self.worker,
                slice::from_ref(&self.step),
                &[],
                self.useful_cells,
            )
        }
    }

    /// Makes this the next task, in which the same sequences decode.
    #[inline]
    pub fn advance(&mut self, next: NextDecode) {
        next.apply(&mut self.step, &mut self.iteration);
    }
}

/// How an iteration differs from the one before, in which the same sequences decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextDecode {
    /// The number of tokens that are read.
    pub context: u32,
    /// The blocks of keys and values that are in use.
    pub blocks: u32,
}

impl NextDecode {
    /// Makes the step and the effects of an iteration those of the next one.
    #[inline]
    fn apply(self, step: &mut Step, iteration: &mut Iteration) {
        step.input = self.context;
        iteration.blocks = self.blocks;
    }
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

/// What a task computes. The functions are called only for backends that need the members.
#[derive(Clone, Copy)]
pub enum Members<'a> {
    /// All nodes of [`Task::requests`].
    Requests,
    /// The function appends the nodes in batch order.
    Nodes(&'a dyn Fn(&mut Vec<NodeRef>)),
    /// The function appends the parts in batch order.
    Parts(&'a dyn Fn(&mut Vec<Part>)),
    /// All operators of all nodes of [`Task::requests`], launch by launch.
    Operators(&'a Arc<Launches>),
}

/// The members that were not in the worker's previous task of this cell type. All members of that task whose cells of
/// this type have not ended are members of this one, too, each with its next node. Before its first task a worker has
/// no members. So a backend whose rows stay in place learns what changes in time proportional to the changes.
#[derive(Clone, Copy)]
pub struct Joined<'a> {
    pub count: u32,
    /// The function appends the nodes.
    pub list: &'a dyn Fn(&mut Vec<NodeRef>),
}

/// The members of a task as lists in batch order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberList {
    Requests(Vec<RequestId>),
    Nodes(Vec<NodeRef>),
    Parts(Vec<Part>),
    Operators(Vec<RequestId>, Arc<Launches>),
}

impl MemberList {
    /// The members of a task. Their list takes the memory of `spare` if it is of the same kind.
    pub(crate) fn from_task(task: &Task<'_>, spare: Option<MemberList>) -> MemberList {
        match (task.members, spare) {
            (Members::Requests, Some(MemberList::Requests(mut requests))) => {
                requests.clear();
                requests.extend_from_slice(task.requests);
                MemberList::Requests(requests)
            }
            (Members::Requests, _) => MemberList::Requests(task.requests.to_vec()),
            (Members::Nodes(list), Some(MemberList::Nodes(nodes))) => {
                MemberList::Nodes(fill(nodes, list))
            }
            (Members::Nodes(list), _) => {
                MemberList::Nodes(fill(Vec::with_capacity(task.batch as usize), list))
            }
            (Members::Parts(list), Some(MemberList::Parts(parts))) => {
                MemberList::Parts(fill(parts, list))
            }
            (Members::Parts(list), _) => {
                MemberList::Parts(fill(Vec::with_capacity(task.batch as usize), list))
            }
            (Members::Operators(launches), _) => {
                MemberList::Operators(task.requests.to_vec(), Arc::clone(launches))
            }
        }
    }

    /// All nodes in the order of the batch. `count` returns the number of a request's nodes.
    pub(crate) fn nodes(&self, count: impl Fn(RequestId) -> u64) -> Vec<NodeRef> {
        match self {
            MemberList::Nodes(nodes) => nodes.clone(),
            MemberList::Parts(parts) => parts.iter().flat_map(Part::nodes).collect(),
            MemberList::Requests(requests) | MemberList::Operators(requests, _) => {
                let mut nodes = Vec::new();
                for request in requests {
                    let whole = Part {
                        request: *request,
                        from: NodeId(0),
                        to: NodeId(count(*request) as u32),
                    };
                    nodes.extend(whole.nodes());
                }
                nodes
            }
        }
    }

    /// The requests of all members. A request may occur several times.
    pub(crate) fn requests(&self) -> impl Iterator<Item = RequestId> {
        // Two of the three lists are empty.
        let mut nodes: &[NodeRef] = &[];
        let mut requests: &[RequestId] = &[];
        let mut parts: &[Part] = &[];
        match self {
            MemberList::Nodes(list) => nodes = list,
            MemberList::Requests(list) | MemberList::Operators(list, _) => requests = list,
            MemberList::Parts(list) => parts = list,
        }
        let of_nodes = nodes.iter().map(|node| node.request);
        let of_parts = parts.iter().map(|part| part.request);
        of_nodes.chain(requests.iter().copied()).chain(of_parts)
    }
}

fn fill<T>(mut memory: Vec<T>, list: &dyn Fn(&mut Vec<T>)) -> Vec<T> {
    memory.clear();
    list(&mut memory);
    memory
}

/// A node of a request's cell graph.
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
    /// The node after the last one.
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
    /// The step at the batch sizes of a device: full batches of the largest size, then the rest, padded to the next
    /// size. `sizes` are ascending, and empty if the device runs any size.
    pub fn pad(self, sizes: &[u32]) -> impl Iterator<Item = Step> {
        let mut full = None;
        let mut batch = self.batch;
        if let Some(&largest) = sizes.last() {
            if self.batch >= largest {
                full = Some(Step {
                    batch: largest,
                    times: self.times * (self.batch / largest),
                    ..self
                });
            }
            batch = self.batch % largest;
        }
        let mut rest = None;
        if batch > 0 {
            let next = sizes.iter().copied().find(|size| *size >= batch);
            rest = Some(Step {
                batch: next.unwrap_or(batch),
                ..self
            });
        }
        full.into_iter().chain(rest)
    }

    /// The number of executed cells with padding, each counted once for each unit of its input size.
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

/// Why a task was submitted, in clauses for `batchlab explain`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reason {
    /// The reason for these cells or requests: "decoder: a full batch was ready".
    pub what: String,
    /// The reason for this size: "max_batch (512) of 801 ready nodes".
    pub size: String,
    /// The reason for this instant: "worker 0 had nothing to do".
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

/// Requests that leave unserved. Reasons are rare and have a list of their own, so that a request without one takes
/// only its number.
#[derive(Debug, Default)]
pub(crate) struct Rejections {
    pub requests: Vec<RequestId>,
    pub reasons: Vec<(RequestId, String)>,
    /// Why the policy can't go on, which ends the run.
    pub failure: Option<Error>,
}

impl Rejections {
    pub fn push_because(&mut self, request: RequestId, reason: String) {
        self.requests.push(request);
        self.reasons.push((request, reason));
    }
}

/// The path of tasks to the backend. Only the engine implements it, so that no policy can reach the backend.
pub(crate) trait TaskSink {
    /// The ascending batch sizes at which the device runs a cell; empty if it runs any size.
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

    /// The workers with nothing to do, in the order of their numbers. The state of a worker is read when its turn
    /// comes.
    pub fn idle(&self) -> Offer {
        self.with_unfinished(0)
    }

    /// The workers with this number of unfinished tasks, otherwise like [`Dispatch::idle`].
    pub fn with_unfinished(&self, unfinished: usize) -> Offer {
        Offer {
            unfinished,
            from: 0,
        }
    }

    /// The largest number of unfinished tasks that a worker has had. No worker has more, so a loop over
    /// [`Dispatch::with_unfinished`] can end there, however far ahead the policy may work.
    pub fn most_unfinished_tasks(&self) -> usize {
        self.tasks.by_unfinished.len() - 1
    }

    pub fn is_idle(&self, worker: WorkerId) -> bool {
        self.tasks.unfinished_tasks(worker) == 0
    }

    /// The number of a worker's unfinished tasks.
    pub fn unfinished_tasks(&self, worker: WorkerId) -> usize {
        self.tasks.unfinished_tasks(worker)
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
        let listed = self.tasks.lists.find(task.steps);
        if self.pads_any(task.steps, listed) {
            let steps = &self.pad(task.steps);
            let listed = self.tasks.lists.find(steps);
            return self.pass(&Task {
                steps,
                listed,
                ..*task
            });
        }
        if listed == task.listed {
            // Tasks of few steps are passed on as they are.
            return self.pass(task);
        }
        self.pass(&Task { listed, ..*task })
    }

    /// Passes a task on to the backend.
    fn pass(&mut self, task: &Task<'_>) -> TaskId {
        let id = self.tasks.open(self.now, task);
        self.sink.submit(id, task);
        id
    }

    /// Whether the device has batch sizes for the cell of any step. It is found out once for each list.
    fn pads_any(&mut self, steps: &[Step], listed: Option<ListedSteps>) -> bool {
        let list = listed.map(|listed| listed.list.index());
        if let Some(list) = list
            && let Some(Some(known)) = self.tasks.list_pads.get(list)
        {
            return *known;
        }
        let pads_any = steps.iter().any(|step| self.pads(step.cell));
        if let Some(list) = list {
            *grow(&mut self.tasks.list_pads, list) = Some(pads_any);
        }
        pads_any
    }

    /// Whether the device has batch sizes for a cell. It is asked once for each cell.
    fn pads(&mut self, cell: CellId) -> bool {
        let known = grow(&mut self.tasks.pads, cell.index());
        *known.get_or_insert_with(|| !self.sink.batches(cell).is_empty())
    }

    /// The steps at the device's batch sizes.
    fn pad(&self, steps: &[Step]) -> Vec<Step> {
        let mut padded = Vec::new();
        for step in steps {
            padded.extend(step.pad(self.sink.batches(step.cell)));
        }
        padded
    }

    /// Makes a request leave unserved, for example because it is late. It must not be submitted or finished afterwards.
    pub fn reject(&mut self, request: RequestId) {
        self.rejected.requests.push(request);
    }

    /// Rejects a request with the reason, as [`Outcomes::reject_because`](crate::core::policy::Outcomes::reject_because)
    /// does.
    pub fn reject_because(&mut self, request: RequestId, reason: String) {
        self.rejected.push_because(request, reason);
    }

    /// Ends the run with this error, for a policy that can't go on. The first error counts.
    pub fn fail(&mut self, error: Error) {
        self.rejected.failure.get_or_insert(error);
    }

    /// Makes a sequence stop decoding until a task has fed it again: its prompt and the tokens that it has received.
    pub fn preempt(&mut self, request: RequestId) {
        self.tasks.preempted.push(request);
    }

    /// The number of requests that were rejected in this call of `schedule`.
    pub(crate) fn rejections(&self) -> u32 {
        self.rejected.requests.len() as u32
    }

    /// Submits a task with its reason, which is asked for only if reasons are recorded.
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
    /// The next worker, or `None` after the last.
    #[inline]
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

/// The tasks that have been submitted and are not done.
#[derive(Default)]
pub struct TaskBook {
    /// The tasks in the order of submission, with gaps for those that are done.
    open: VecDeque<Option<OpenTask>>,
    /// The number of the first task in `open`.
    first: u64,
    /// The number of unfinished tasks of each worker.
    unfinished: Vec<usize>,
    /// The workers with each number of unfinished tasks, so that no instant looks at all workers.
    by_unfinished: Vec<WorkerSet>,
    /// The lists of tasks that are done, kept for their memory.
    spare: Vec<TaskLists>,
    /// Whether the device has batch sizes for each cell, as far as it was asked.
    pads: Vec<Option<bool>>,
    lists: StepLists,
    /// Whether the device has batch sizes for any cell of each list, as far as it was asked.
    list_pads: Vec<Option<bool>>,
    /// The sequences that were preempted since the engine last took them.
    pub(crate) preempted: Vec<RequestId>,
}

/// The most requests that lie in an open task. Longer lists have memory of their own.
const REQUESTS_INSIDE: usize = 4;
/// The most steps that lie in an open task.
const STEPS_INSIDE: usize = 1;

/// The requests and the steps of an open task.
type TaskLists = (
    SmallVec<[RequestId; REQUESTS_INSIDE]>,
    SmallVec<[Step; STEPS_INSIDE]>,
);

/// What the engine keeps of a task until it is done.
pub struct OpenTask {
    pub worker: WorkerId,
    pub stream: StreamId,
    pub steps: SmallVec<[Step; STEPS_INSIDE]>,
    pub batch: u32,
    pub useful_cells: u64,
    pub submit: Nanos,
    pub requests: SmallVec<[RequestId; REQUESTS_INSIDE]>,
    pub iteration: Option<Iteration>,
    pub listed: Option<ListedSteps>,
}

impl OpenTask {
    /// The task, if all that it does is that sequences decode.
    #[inline]
    pub(crate) fn only_decodes(&self) -> Option<DecodeTask> {
        let iteration = self.iteration?;
        match *self.steps.as_slice() {
            [step] if iteration.decodes && self.requests.is_empty() => Some(DecodeTask {
                worker: self.worker,
                stream: self.stream,
                step,
                batch: self.batch,
                useful_cells: self.useful_cells,
                iteration,
            }),
            _ => None,
        }
    }

    /// Makes this the next task, in which the same sequences decode.
    #[inline]
    pub(crate) fn repeat(&mut self, now: Nanos, next: NextDecode) {
        if let Some(iteration) = &mut self.iteration {
            self.submit = now;
            next.apply(&mut self.steps[0], iteration);
        }
    }
}

impl TaskBook {
    pub(crate) fn new(workers: usize) -> Self {
        TaskBook {
            unfinished: vec![0; workers],
            by_unfinished: vec![WorkerSet::all(workers)],
            ..TaskBook::default()
        }
    }

    pub(crate) fn unfinished_tasks(&self, worker: WorkerId) -> usize {
        self.unfinished[worker.index()]
    }

    #[inline]
    pub(crate) fn some_idle(&self) -> bool {
        self.by_unfinished[0].first_from(0).is_some()
    }

    pub(crate) fn submitted_tasks(&self) -> u64 {
        self.first + self.open.len() as u64
    }

    fn open(&mut self, now: Nanos, task: &Task<'_>) -> TaskId {
        let id = TaskId(self.submitted_tasks());
        let (requests, steps) = self.copy_lists(task);
        self.set_unfinished(task.worker, self.unfinished_tasks(task.worker) + 1);
        self.open.push_back(Some(OpenTask {
            worker: task.worker,
            stream: task.stream,
            steps,
            batch: task.batch,
            useful_cells: task.useful_cells,
            submit: now,
            requests,
            iteration: task.iteration,
            listed: task.listed,
        }));
        id
    }

    /// Copies a task's requests and steps, if they are long into memory that is kept.
    #[inline]
    fn copy_lists(&mut self, task: &Task<'_>) -> TaskLists {
        if task.requests.len() <= REQUESTS_INSIDE && task.steps.len() <= STEPS_INSIDE {
            return (
                SmallVec::from_slice(task.requests),
                SmallVec::from_slice(task.steps),
            );
        }
        let (mut requests, mut steps) = self.spare.pop().unwrap_or_default();
        requests.extend_from_slice(task.requests);
        steps.extend_from_slice(task.steps);
        (requests, steps)
    }

    /// The worker of a task that is done. It has one unfinished task less from now on.
    pub(crate) fn end(&mut self, id: TaskId) -> WorkerId {
        let worker = self.task(id).worker;
        self.set_unfinished(worker, self.unfinished_tasks(worker) - 1);
        worker
    }

    /// A task that has not been [closed](TaskBook::close).
    #[inline]
    pub(crate) fn task(&self, id: TaskId) -> &OpenTask {
        let open = self.open.get((id.0 - self.first) as usize);
        open.and_then(Option::as_ref)
            .expect("a backend reports each submitted task once")
    }

    /// Forgets a task that is done, but for the memory of its lists.
    pub(crate) fn close(&mut self, id: TaskId) {
        let place = (id.0 - self.first) as usize;
        if let Some(OpenTask {
            requests, steps, ..
        }) = &mut self.open[place]
            && (requests.spilled() || steps.spilled())
        {
            requests.clear();
            steps.clear();
            self.spare.push((mem::take(requests), mem::take(steps)));
        }
        self.open[place] = None;
        while let Some(None) = self.open.front() {
            self.open.pop_front();
            self.first += 1;
        }
    }

    /// The only unfinished task.
    #[inline]
    pub(crate) fn only(&mut self) -> Option<&mut OpenTask> {
        match self.open.len() {
            1 => self.open.front_mut()?.as_mut(),
            _ => None,
        }
    }

    /// Adds the number of [repeated](OpenTask::repeat) tasks to the number of the only task.
    #[inline]
    pub(crate) fn skip_numbers(&mut self, repeated: u64) {
        self.first += repeated;
    }

    fn set_unfinished(&mut self, worker: WorkerId, count: usize) {
        let place = worker.index();
        self.by_unfinished[self.unfinished[place]].remove(place);
        self.unfinished[place] = count;
        if self.by_unfinished.len() == count {
            let workers = self.unfinished.len();
            self.by_unfinished.push(WorkerSet::none(workers));
        }
        self.by_unfinished[count].insert(place);
    }
}

/// The events before one call of `schedule`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    pub now: Nanos,
    pub completions: u32,
    pub arrivals: u32,
}

/// A line of the task log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRow {
    pub task: TaskId,
    pub worker: WorkerId,
    pub stream: StreamId,
    /// The [distinct cell types](distinct_cells) of the steps.
    pub cells: SmallVec<[CellId; 2]>,
    pub batch: u32,
    pub submit: Nanos,
    pub start: Nanos,
    pub finish: Nanos,
}

/// The cell types of steps, in the order of their first step.
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
