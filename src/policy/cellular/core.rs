//! What all policies that batch cell by cell stand on: requests cut into subgraphs, a queue for each cell type, the choice of
//! a type and the forming of tasks (BatchMaker, Algorithm 1). When a worker is given tasks, and how many, is the policy's; what
//! arrivals and completions change is in `requests`.

use std::collections::VecDeque;

use super::chain_queue::{ChainQueue, Seat};
use super::chunk::{Extent, list_parts};
use super::graph_queue::{GraphQueue, Share};
use super::identity::MemberSet;
use super::requests::{Live, Work};
use crate::policy::registry::Setup;
use crate::policy::values::PerCell;
use crate::task::{Dispatch, Reason};
use crate::task::{FoldLoop, HostOverhead, Members, NodeRef, Part, Step, Task};
use crate::units::{CellId, NodeId, RequestId, StreamId, WorkerId};
use crate::workload::model::CellType;

/// A request's place among those in the system.
pub type Handle = u32;

/// The requests in the system, what of them is ready and what runs.
pub struct Core {
    pub(super) types: Vec<TypeState>,
    /// How many steps of each chain a task runs; 1 where there are graphs.
    pub(super) chunk: u32,
    /// The cell types, those of higher priority first, those of equal priority by name.
    by_priority: Vec<usize>,
    pub(super) live: Vec<Live>,
    /// Places of requests that are gone.
    pub(super) vacant: Vec<Handle>,
    /// The next subgraph's place in the order of release, over all queues.
    pub(super) next_release: u64,
    /// The members of each worker's last task.
    last_members: Vec<Option<MemberSet>>,
    /// Tasks in order of submission, from number `first_running`.
    pub(super) running: VecDeque<Option<Running>>,
    pub(super) first_running: u64,
    pub(super) spare: Vec<Running>,
    pub(super) scratch: Scratch,
}

/// One cell type: its queue and its limits.
pub(super) struct TypeState {
    cell: CellId,
    name: String,
    sized: bool,
    max_batch: usize,
    min_batch: usize,
    pub running_tasks: u32,
    pub queue: Queue,
}

pub(super) enum Queue {
    Chains(ChainQueue),
    Graphs(GraphQueue),
}

/// A task that is not finished.
#[derive(Default)]
pub(super) struct Running {
    pub cell: usize,
    pub ended: Vec<Seat>,
    pub nodes: Vec<u32>,
    pub shares: Vec<Share>,
}

/// Vectors that live on from call to call, so that the inner loop allocates nothing.
#[derive(Default)]
pub(super) struct Scratch {
    /// The requests that may begin with a task.
    begins: Vec<RequestId>,
    /// Subgraphs that a completed task has made free to run: position of the request in it, subgraph, request.
    pub released: Vec<(usize, u32, Handle)>,
}

/// A cell type that a worker is to run, and why.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    cell: usize,
    criterion: Criterion,
}

/// What made the choice (Algorithm 1, lines 5 to 10).
#[derive(Clone, Copy, Debug)]
enum Criterion {
    /// At least a full batch is ready.
    FullBatch,
    /// No task of the type runs anywhere.
    NoneRunning,
    /// Something is ready.
    SomeReady,
}

impl Core {
    /// An empty system, with the largest batch (`Bsizes.Max()`), the smallest behind another task (`Bsizes.Min()`) and the steps of a chain that
    /// a task runs.
    ///
    /// # Errors
    /// Batches that do not fit the model's cells, or each other; the message begins with the key.
    pub fn new(
        max_batch: &PerCell<u32>,
        min_batch: &PerCell<u32>,
        chunk: u32,
        setup: &Setup<'_>,
    ) -> Result<Self, String> {
        let max = max_batch.resolve("max_batch", setup.cells)?;
        let min = min_batch.resolve("min_batch", setup.cells)?;
        if let Some(i) = (0..max.len()).find(|i| min[*i] > max[*i]) {
            return Err(format!(
                "min_batch: {} is above max_batch {} for the cell \"{}\"; at most max_batch",
                min[i], max[i], setup.cells[i].name
            ));
        }
        let queue = |cell: &CellType| match cell.chain {
            true => Queue::Chains(ChainQueue::new(setup.workers)),
            false => Queue::Graphs(GraphQueue::new(setup.workers)),
        };
        let types: Vec<TypeState> = setup
            .cells
            .iter()
            .enumerate()
            .map(|(i, cell)| TypeState {
                cell: CellId(i as u16),
                name: cell.name.clone(),
                sized: cell.sized,
                max_batch: max[i] as usize,
                min_batch: min[i] as usize,
                running_tasks: 0,
                queue: queue(cell),
            })
            .collect();
        let mut by_priority: Vec<usize> = (0..types.len()).collect();
        by_priority.sort_by_key(|i| (std::cmp::Reverse(setup.cells[*i].priority), &setup.cells[*i].name));
        Ok(Core {
            types,
            chunk,
            by_priority,
            live: Vec::new(),
            vacant: Vec::new(),
            next_release: 1,
            last_members: vec![None; setup.workers],
            running: VecDeque::new(),
            first_running: 0,
            spare: Vec::new(),
            scratch: Scratch::default(),
        })
    }

    /// Algorithm 1, lines 4 to 10: the cell type that a worker runs next.
    pub fn choose(&self, worker: WorkerId) -> Option<Choice> {
        let mut idle_type = None;
        let mut any = None;
        for &cell in &self.by_priority {
            let state = &self.types[cell];
            let ready = state.ready(worker);
            if ready >= state.max_batch {
                return Some(Choice { cell, criterion: Criterion::FullBatch });
            }
            if ready > 0 {
                any = any.or(Some(Choice { cell, criterion: Criterion::SomeReady }));
                if state.running_tasks == 0 {
                    idle_type = idle_type.or(Some(Choice { cell, criterion: Criterion::NoneRunning }));
                }
            }
        }
        idle_type.or(any)
    }

    /// Algorithm 1, lines 12 to 23: submits up to so many tasks of one type to a worker. Behind another task one that would be
    /// smaller than `min_batch` is left for later, when more may be ready.
    pub fn batch(&mut self, choice: Choice, worker: WorkerId, max_tasks: u32, dispatch: &mut Dispatch<'_>) {
        for _ in 0..max_tasks {
            let state = &self.types[choice.cell];
            let size = state.ready(worker).min(state.max_batch);
            if size == 0 || (size < state.min_batch && !dispatch.is_idle(worker)) {
                break;
            }
            let mut running = self.spare.pop().unwrap_or_default();
            running.cell = choice.cell;
            self.submit(choice, worker, size, &mut running, dispatch);
            self.types[choice.cell].running_tasks += 1;
            self.running.push_back(Some(running));
        }
    }

    /// Forms one task, submits it and updates what depends on its nodes (lines 15 to 18 and 24 to 32).
    fn submit(
        &mut self,
        choice: Choice,
        worker: WorkerId,
        size: usize,
        running: &mut Running,
        dispatch: &mut Dispatch<'_>,
    ) {
        let state = &mut self.types[choice.cell];
        let ready = state.ready(worker);
        self.scratch.begins.clear();
        let members = match &mut state.queue {
            Queue::Chains(queue) => {
                queue.join(worker, state.max_batch, &mut self.scratch.begins);
                queue.members(worker)
            }
            Queue::Graphs(queue) => {
                queue.take(worker, state.max_batch, &mut running.nodes, &mut running.shares, &mut self.scratch.begins)
            }
        };

        let chunk = self.chunk;
        let extent = match state.sized || chunk > 1 {
            true => Extent::of(&state.queue, worker, chunk, &self.live),
            false => Extent { steps: 1, input: 0, useful: size as u64 },
        };
        let gather = self.last_members[worker.index()].replace(members) != Some(members);
        let (queue, live) = (&state.queue, &self.live);
        let list = |out: &mut Vec<NodeRef>| list_nodes(queue, worker, running, live, out);
        let list_parts = |out: &mut Vec<Part>| list_parts(queue, worker, chunk, live, out);
        let task = Task {
            worker,
            stream: StreamId(0),
            steps: &[Step { cell: state.cell, batch: size as u32, times: extent.steps, input: extent.input }],
            batch: size as u32,
            useful_cells: extent.useful,
            gather,
            host: HostOverhead::default(),
            fold_loop: FoldLoop::default(),
            requests: &self.scratch.begins,
            members: if chunk > 1 { Members::Parts(&list_parts) } else { Members::Nodes(&list) },
        };
        let before = dispatch.unfinished(worker);
        dispatch.submit_because(&task, || reason(state, choice.criterion, ready, chunk, worker, before));

        match &mut state.queue {
            Queue::Chains(queue) => queue.advance(worker, &mut running.ended),
            Queue::Graphs(queue) => {
                for share in &running.shares {
                    let Work::Graph(work) = &mut self.live[share.live as usize].work else { unreachable!() };
                    queue.submitted(worker, share, &running.nodes, &mut work.inner_missing);
                }
            }
        }
    }
}

impl TypeState {
    /// How many nodes a worker could take.
    fn ready(&self, worker: WorkerId) -> usize {
        match &self.queue {
            Queue::Chains(queue) => queue.ready(worker),
            Queue::Graphs(queue) => queue.ready(worker),
        }
    }
}

impl Running {
    pub fn clear(&mut self) {
        self.ended.clear();
        self.nodes.clear();
        self.shares.clear();
    }
}

/// Why a task is submitted, of a type of which so many nodes are ready, to a worker with so many unfinished tasks.
fn reason(
    state: &TypeState,
    criterion: Criterion,
    ready: usize,
    chunk: u32,
    worker: WorkerId,
    before: usize,
) -> Reason {
    let TypeState { name, max_batch, .. } = state;
    let and_behind =
        if chunk > 1 { format!(", each with up to {} behind it (chunk)", chunk - 1) } else { String::new() };
    Reason {
        what: match criterion {
            Criterion::FullBatch => format!("{name}: at least max_batch ({max_batch}) nodes were ready"),
            Criterion::NoneRunning => format!("{name}: no type had a full batch ready, and of this no task ran"),
            Criterion::SomeReady => {
                format!("{name}: no type had a full batch ready or no running task, and of this some was ready")
            }
        },
        size: match ready > *max_batch {
            true => format!("max_batch ({max_batch}) of {ready} ready nodes{and_behind}"),
            false => format!("all {ready} ready nodes{and_behind}"),
        },
        when: match before {
            0 => format!("worker {worker} had nothing to do"),
            1 => format!("worker {worker} had one unfinished task, and another may stand behind it"),
            _ => format!("worker {worker} had {before} unfinished tasks, and another may stand behind them"),
        },
    }
}

/// The nodes of a task that has just been formed.
fn list_nodes(queue: &Queue, worker: WorkerId, running: &Running, live: &[Live], out: &mut Vec<NodeRef>) {
    let node = |handle: Handle, node| NodeRef { request: live[handle as usize].request, node };
    match queue {
        Queue::Chains(queue) => {
            let mut nodes = Vec::new();
            queue.list(worker, &mut nodes);
            out.extend(nodes.into_iter().map(|(handle, n)| node(handle, n)));
        }
        Queue::Graphs(_) => {
            for share in &running.shares {
                out.extend(running.nodes[share.nodes.clone()].iter().map(|n| node(share.live, NodeId(*n))));
            }
        }
    }
}
