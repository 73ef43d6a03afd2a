//! The state of Algorithm 1.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::Cellular;
use super::batch::{CellBatch, MemberSet};
use super::leaves::LeafQueue;
use super::queue::ReadyQueue;
use super::requests::LiveRequests;
use super::rule::{CellView, Choice, SelectionRule};
use crate::core::policy::prelude::*;
use crate::core::workload::cell_graph::tree::Tree;
use crate::core::workload::cell_graph::{CellRuns, SharedGraph};
use crate::core::workload::model::CellType;

/// A policy that batches cell by cell. Cellular batching and Late Batching share it.
pub struct Core<R> {
    pub(super) rule: R,
    pub(super) settings: Cellular,
    pub(super) requests: LiveRequests,
    pub(super) types: Vec<TypeState>,
    /// The places of the types by descending priority, then by name.
    pub(super) by_priority: Vec<usize>,
    /// The members of each worker's last task. If they change, the next task gathers.
    pub(super) last_members: Vec<Option<MemberSet>>,
    /// The running tasks in the order of submission, with gaps for those that are done.
    pub(super) running: VecDeque<Option<CellBatch>>,
    /// The number of the first task in `running`.
    first_running: u64,
    /// The batches of tasks that are done, kept for their memory.
    pub(super) spare: Vec<CellBatch>,
}

/// The state of a cell type.
pub(super) struct TypeState {
    pub cell: CellId,
    pub name: String,
    priority: i32,
    pub max_batch: usize,
    pub min_batch: usize,
    /// The largest batch of the device.
    pub largest: u32,
    pub running_tasks: u32,
    pub queue: ReadyQueue,
}

impl<R> Core<R> {
    /// Builds the policy. An error begins with the key.
    pub fn new(rule: R, settings: &Cellular, setup: &Setup<'_>) -> Result<Self, String> {
        let max = settings.max_batch.resolve("max_batch", setup.cells)?;
        let min = settings.min_batch.resolve("min_batch", setup.cells)?;
        if let Some(i) = (0..max.len()).find(|i| min[*i] > max[*i]) {
            return Err(format!(
                "min_batch: {} is above max_batch {} for the cell \"{}\"; at most max_batch",
                min[i], max[i], setup.cells[i].name
            ));
        }
        settings.batch_sizes.check(&max)?;
        let mut types = Vec::new();
        for (i, cell) in setup.cells.iter().enumerate() {
            let id = CellId(i as u16);
            let queue = if cell.chain && setup.model.has_plain_trees() && id == Tree::LEAF {
                ReadyQueue::Leaves(LeafQueue::default())
            } else {
                ReadyQueue::new(cell, setup.workers, settings.chunk)
            };
            types.push(TypeState {
                cell: id,
                name: cell.name.clone(),
                priority: cell.priority,
                max_batch: max[i] as usize,
                min_batch: min[i] as usize,
                largest: largest_of_device(cell),
                running_tasks: 0,
                queue,
            });
        }
        let mut by_priority: Vec<usize> = (0..setup.cells.len()).collect();
        by_priority.sort_by_key(|i| (Reverse(setup.cells[*i].priority), &setup.cells[*i].name));
        Ok(Core {
            rule,
            settings: settings.clone(),
            requests: LiveRequests::default(),
            types,
            by_priority,
            last_members: vec![None; setup.workers],
            running: VecDeque::new(),
            first_running: 0,
            spare: Vec::new(),
        })
    }

    /// Moves the subgraphs that have become free to the queues of their types.
    fn release(&mut self) {
        let types = &mut self.types;
        self.requests
            .release(|cell, subgraph| types[cell.index()].queue.push(subgraph));
    }
}

impl<R: SelectionRule> Policy for Core<R> {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        if let CellGraph::Chains(CellRuns::One([run])) = request.graph {
            let chain = self.requests.release_run(request, run);
            self.types[run.cell.index()].queue.push_chain(chain);
            return;
        }
        if let CellGraph::Graph(SharedGraph::Tree(tree)) = request.graph
            && let Some(of_leaves) = self.types.get_mut(Tree::LEAF.index())
            && let Some(queue) = of_leaves.queue.leaves()
        {
            queue.push(self.requests.release_leaves(request, tree));
            return;
        }
        self.requests.arrive(request);
        self.release();
    }

    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        let place = (completed.task.0 - self.first_running) as usize;
        let mut batch = self.running[place]
            .take()
            .expect("each task completes once");
        while let Some(None) = self.running.front() {
            self.running.pop_front();
            self.first_running += 1;
        }
        let state = &mut self.types[batch.cell.index()];
        state.running_tasks -= 1;
        state
            .queue
            .complete(completed, &batch, &mut self.requests, outcomes);
        self.release();
        batch.clear();
        self.spare.push(batch);
    }

    /// Gives tasks to the workers, those with the smallest number of unfinished tasks first.
    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        for unfinished in 0..=self.settings.ahead as usize {
            if unfinished > dispatch.most_unfinished_tasks() {
                break;
            }
            let mut workers = dispatch.with_unfinished(unfinished);
            // Only busy workers have nodes pinned to them.
            while (unfinished > 0
                || self
                    .types
                    .iter()
                    .any(|state| state.queue.unpinned_nodes() > 0))
                && let Some(worker) = workers.next(dispatch)
            {
                if let Some(choice) = self.choose(worker) {
                    self.batch(choice, worker, dispatch);
                }
            }
        }
    }

    fn works_ahead(&self) -> bool {
        self.settings.ahead > 0
    }

    fn decides_when_idle(&self) -> bool {
        !self.works_ahead()
    }
}

/// The largest batch at which the device runs a cell.
pub fn largest_of_device(cell: &CellType) -> u32 {
    cell.batches.last().copied().unwrap_or(u32::MAX)
}

impl TypeState {
    pub fn view<'a>(&'a self, requests: &'a LiveRequests, worker: WorkerId) -> CellView<'a> {
        CellView {
            cell: self.cell,
            name: &self.name,
            ready: self.queue.ready(worker),
            running_tasks: self.running_tasks,
            priority: self.priority,
            max_batch: self.max_batch,
            queue: &self.queue,
            requests,
            worker,
        }
    }

    /// Why a task of this type was formed from `ready` nodes for a worker with `unfinished` tasks.
    pub fn reason(
        &self,
        choice: Choice,
        ready: usize,
        chunk: u32,
        worker: WorkerId,
        unfinished: usize,
    ) -> Reason {
        let mut size = if ready > self.max_batch {
            format!("max_batch ({}) of {ready} ready nodes", self.max_batch)
        } else {
            format!("all {ready} ready nodes")
        };
        if chunk > 1 {
            size += &format!(", each with up to {} after it (chunk)", chunk - 1);
        }
        Reason {
            what: format!("{}: {}", self.name, choice.because),
            size,
            when: match unfinished {
                0 => format!("worker {worker} had nothing to do"),
                1 => format!("worker {worker} had one unfinished task, and may be given another"),
                _ => format!(
                    "worker {worker} had {unfinished} unfinished tasks, and may be given another"
                ),
            },
        }
    }
}
