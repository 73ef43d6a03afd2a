//! What runs batched tasks, and owns the clock while it does.

pub mod cpu;
pub mod cuda;
#[cfg(test)]
mod listed_networks;
mod pace;
mod parts;
mod places;
mod ready_list;
pub mod replayed;
pub mod sim;
pub mod watched;

use crate::units::{CellId, Nanos, NodeId, RequestId, StreamId, TaskId, WorkerId};

/// A set of workers that run tasks in order of submission, stream by stream.
///
/// A backend knows nothing of why a batch was formed. Recording, jitter and faults are wrappers around a backend, not
/// options inside of one.
pub trait Backend {
    /// The present instant, from the start of the run.
    fn now(&self) -> Nanos;

    /// Takes a task; it runs when those before it on its stream are done. `members` is there if
    /// [`Backend::wants_members`] says so.
    fn submit(&mut self, id: TaskId, task: &Task<'_>, members: Option<MemberList>);

    /// Waits for the next completion, but not beyond `until`. Completions come in the order of their finish, those of
    /// one instant in the order of submission. `None` says that `until` has come, or, without an `until`, that nothing
    /// is running. A backend on a real clock may come back earlier with `None` if there is an `until`, so that a user who
    /// wants to stop does not wait for it.
    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion>;

    /// Whether the backend needs to know the nodes of a task. Listing them costs time in proportion to the batch, which
    /// a simulated device has no use for.
    fn wants_members(&self) -> bool {
        false
    }

    /// The batch sizes at which the device runs a cell, ascending; empty where it runs all. A batch of another size is
    /// [padded](Step::padded).
    fn batches(&self, _: CellId) -> &[u32] {
        &[]
    }

    /// The list of a task that is done, for its memory: the driver lists the members of the next task in it.
    fn spare(&mut self) -> Option<MemberList> {
        None
    }

    /// Why a request that leaves has no result, if it has none: a computation that broke off, or numbers that are none.
    /// The tasks of such a request complete as all others do, so that a policy need not know.
    fn failure(&mut self, _: RequestId) -> Option<String> {
        None
    }
}

impl<B: Backend + ?Sized> Backend for Box<B> {
    fn now(&self) -> Nanos {
        (**self).now()
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>, members: Option<MemberList>) {
        (**self).submit(id, task, members);
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        (**self).wait(until)
    }

    fn wants_members(&self) -> bool {
        (**self).wants_members()
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        (**self).batches(cell)
    }

    fn spare(&mut self) -> Option<MemberList> {
        (**self).spare()
    }

    fn failure(&mut self, request: RequestId) -> Option<String> {
        (**self).failure(request)
    }
}

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
    pub host: HostWork,
    /// What the device does for it beside its cells.
    pub looped: LoopWork<'a>,
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
            host: HostWork::default(),
            looped: LoopWork::default(),
            requests,
            members: Members::Requests,
        }
    }
}

/// What the host of a dynamic-graph system does for a task: it builds the graphs of the batch, finds out what can run together
/// and writes the schedule down (TensorFlow Fold, DyNet). Part of the model of such a system, so that a simulated device
/// pays it; on a real one the host takes its own time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostWork {
    /// Work that begins with the submission, while the worker may still run what was submitted before: the task starts no sooner than it is done.
    pub ahead: Nanos,
    /// Work for which the worker's device stands still: part of the task's duration.
    pub during: Nanos,
}

/// What a device does beside cells for a task that is a loop over levels, as TensorFlow Fold's is. Like [`HostWork`] it is part
/// of the model of such a system: a simulated device pays it, and on a real one there is nothing to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopWork<'a> {
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
