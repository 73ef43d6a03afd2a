//! Cellular batching: BatchMaker's Algorithm 1 (section 4.3).
//!
//! For an idle worker a [`SelectionRule`] chooses a cell type, and up to `max_tasks` tasks are formed from the front of
//! its queue of subgraphs. So requests join at the next task and leave when their last cell is done. With `chunk`
//! above 1 a task runs several steps of each chain, as a persistent kernel does: a chain that ends within a task is
//! padded. With `ahead` above 0 a worker with few unfinished tasks counts as idle, so that its device need not wait
//! for a decision.

mod batch;
mod chain;
pub(super) mod core;
mod graph;
mod leaves;
mod lists;
mod queue;
mod requests;
mod rule;

use self::core::{Core, largest_of_device};
pub use self::rule::{CellView, Choice, SelectionRule};
use super::prelude::*;
use super::values::{BatchSizes, PerCell};
use crate::core::task::{Joined, Members};

/// `kind = "cellular"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Cellular {
    /// The largest number of tasks that one decision submits (`MaxTasksToSubmit`).
    #[default = 5]
    pub max_tasks: u32,
    /// The largest batch (`Bsizes.Max()`).
    #[default(PerCell::All(512))]
    pub max_batch: PerCell,
    /// The smallest batch of a decision's later tasks (`Bsizes.Min()`).
    #[default(PerCell::All(1))]
    pub min_batch: PerCell,
    /// The "set of supported batch sizes" (`Bsizes`). Section 6 prepares "all the cells for each supported batch size".
    pub batch_sizes: BatchSizes,
    /// The number of steps of each chain that a task runs; 1 in BatchMaker.
    #[default = 1]
    pub chunk: u32,
    /// The number of a worker's unfinished tasks up to which it is given more. BatchMaker has 0: it decides for idle
    /// workers. With 1 the next task is formed while one runs, so that the device does not wait for the host; a task
    /// that is queued is closed. [`Late`](super::late::Late) is this with `max_tasks` 1.
    pub ahead: u32,
}

impl Settings for Cellular {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "cellular",
            "cell by cell: requests join and leave the running batch at every step (BatchMaker)",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        self.build_with(Algorithm1, setup)
    }

    fn largest_batches(&self, setup: &Setup<'_>) -> Option<Batches> {
        let max_batches = self.max_batch.resolve("max_batch", setup.cells).ok()?;
        let mut largest_batches = Vec::new();
        for (max_batch, cell) in max_batches.into_iter().zip(setup.cells) {
            largest_batches.push(self.batch_sizes.next(max_batch, largest_of_device(cell)));
        }
        Some(Batches::Nodes(largest_batches))
    }

    fn batch_sizes(&self) -> &[u32] {
        self.batch_sizes.list()
    }

    fn lists_trees(&self) -> bool {
        false
    }

    fn runs_parts(&self) -> bool {
        self.chunk > 1
    }
}

impl Cellular {
    /// Builds the policy with another selection rule than [`Algorithm1`].
    pub fn build_with(
        &self,
        rule: impl SelectionRule + 'static,
        setup: &Setup<'_>,
    ) -> Result<Box<dyn Policy>, String> {
        require_positive([("max_tasks", self.max_tasks), ("chunk", self.chunk)])?;
        let not_a_chain = setup.cells.iter().find(|cell| !cell.chain);
        if let Some(cell) = not_a_chain
            && self.chunk > 1
        {
            return Err(format!(
                "chunk: {} steps need chains, and subgraphs of the cell \"{}\" are not chains; leave it out, or set it to 1",
                self.chunk, cell.name
            ));
        }
        Ok(Box::new(Core::new(rule, self, setup)?))
    }
}

/// BatchMaker's selection rule. It chooses a type with a full batch, or else one with no running task, or else any with
/// ready nodes. If several qualify, it chooses the one with the highest priority.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm1;

impl SelectionRule for Algorithm1 {
    fn choose<'a>(&mut self, cells: impl Iterator<Item = CellView<'a>>) -> Option<Choice> {
        let mut first_without_task = None;
        let mut first_with_nodes = None;
        for cell in cells {
            if cell.ready >= cell.max_batch {
                return Some(cell.chosen("a full batch was ready"));
            }
            if cell.ready == 0 {
                continue;
            }
            if cell.running_tasks == 0 && first_without_task.is_none() {
                first_without_task = Some(
                    cell.chosen("no type had a full batch ready, and no task of this type ran"),
                );
            }
            if first_with_nodes.is_none() {
                first_with_nodes =
                    Some(cell.chosen(
                        "no type had a full batch ready, or ready nodes and no running task",
                    ));
            }
        }
        first_without_task.or(first_with_nodes)
    }
}

impl<R: SelectionRule> Core<R> {
    /// Chooses the next cell type (Algorithm 1, lines 4 to 10).
    fn choose(&mut self, worker: WorkerId) -> Option<Choice> {
        let by_priority = self.by_priority.iter();
        self.rule
            .choose(by_priority.map(|place| self.types[*place].view(&self.requests, worker)))
    }

    /// Submits the tasks of a decision (Algorithm 1, lines 12 to 23). Only the first task may be smaller than
    /// `min_batch`, because more nodes may be ready later.
    fn batch(&mut self, choice: Choice, worker: WorkerId, dispatch: &mut Dispatch<'_>) {
        for _ in 0..self.settings.max_tasks {
            let state = &self.types[choice.cell.index()];
            let ready = state.queue.ready(worker);
            let size = ready.min(state.max_batch);
            if size == 0 || (size < state.min_batch && !dispatch.is_idle(worker)) {
                break;
            }
            self.submit(choice, worker, ready, dispatch);
        }
    }

    /// Forms and submits a task (Algorithm 1, lines 15 to 18 and 24 to 32).
    fn submit(
        &mut self,
        choice: Choice,
        worker: WorkerId,
        ready: usize,
        dispatch: &mut Dispatch<'_>,
    ) {
        let chunk = self.settings.chunk;
        let requests = &mut self.requests;
        let state = &mut self.types[choice.cell.index()];
        let mut batch = self.spare.pop().unwrap_or_default();
        batch.cell = choice.cell;
        let members = state
            .queue
            .take(worker, state.max_batch, &mut batch, requests);
        let size = ready.min(state.max_batch) as u32;
        let work = state.queue.work(worker, size);
        let steps = [Step {
            cell: state.cell,
            batch: self.settings.batch_sizes.next(size, state.largest),
            times: work.steps,
            input: work.input,
        }];
        let queue = &state.queue;
        let list_parts = |parts: &mut Vec<_>| {
            queue.visit_members(worker, &batch, requests, &mut |part| parts.push(part));
        };
        let list_nodes = |nodes: &mut Vec<_>| {
            queue.visit_members(worker, &batch, requests, &mut |part| {
                nodes.push(part.first())
            });
        };
        let list_joined = |nodes: &mut Vec<_>| queue.list_joined(&batch, requests, nodes);
        let joined = if batch.follows && chunk == 1 {
            Some(Joined {
                count: batch.joined,
                list: &list_joined,
            })
        } else {
            None
        };
        let before = self.last_members[worker.index()].replace(members);
        let task = Task {
            batch: size,
            gather: before != Some(members),
            members: if chunk > 1 {
                Members::Parts(&list_parts)
            } else {
                Members::Nodes(&list_nodes)
            },
            joined,
            ..Task::new(worker, &steps, &batch.begins, work.useful_cells)
        };
        let unfinished = dispatch.unfinished_tasks(worker);
        dispatch.submit_because(&task, || {
            state.reason(choice, ready, chunk, worker, unfinished)
        });
        state.queue.advance(worker, &mut batch, requests);
        state.running_tasks += 1;
        self.running.push_back(Some(batch));
    }
}
