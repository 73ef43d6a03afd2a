//! Cellular batching: BatchMaker's Algorithm 1 (section 4.3).
//!
//! For an idle worker a [`SelectionRule`] chooses a cell type, and up to `max_tasks` tasks are formed from the front of
//! its queue of subgraphs. So requests join at the next task and leave when their last cell is done. With `chunk`
//! above 1 a task runs several steps of each chain, as a persistent kernel does: a chain that ends within a task is
//! padded.

mod chain;
pub(super) mod core;
mod graph;
mod queue;
mod requests;
mod rule;

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use self::core::{Core, largest_batches};
use self::queue::ReadyQueue as _;
pub use self::rule::{CellView, Choice, SelectionRule};
use super::registry::{Batches, PolicyKind, Settings, Setup};
use super::values::{BatchSizes, PerCell, at_least_1};
use super::{Completed, Outcomes, Policy};
use crate::task::{Dispatch, Members, Step, Task};
use crate::units::WorkerId;
use crate::workload::trace::Request;

/// `kind = "cellular"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Cellular {
    /// The most tasks of one decision (MaxTasksToSubmit).
    #[default = 5]
    pub max_tasks: u32,
    /// The largest batch (`Bsizes.Max()`).
    #[default(PerCell::All(512))]
    pub max_batch: PerCell<u32>,
    /// The smallest batch of a decision's later tasks (`Bsizes.Min()`).
    #[default(PerCell::All(1))]
    pub min_batch: PerCell<u32>,
    /// "A set of supported batch sizes" (`Bsizes`); section 6 prepares "all the cells for each supported batch size".
    pub batch_sizes: BatchSizes,
    /// The steps of each chain that a task runs; 1 in BatchMaker.
    #[default = 1]
    pub chunk: u32,
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
        largest_batches(&self.max_batch, &self.batch_sizes, setup)
    }

    fn batch_sizes(&self) -> &[u32] {
        self.batch_sizes.list()
    }

    fn runs_parts(&self) -> bool {
        self.chunk > 1
    }
}

impl Cellular {
    /// Replaces [`Algorithm1`] by another rule.
    pub fn build_with(&self, rule: impl SelectionRule + 'static, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        at_least_1([("max_tasks", self.max_tasks), ("chunk", self.chunk)])?;
        if let Some(cell) = setup.cells.iter().find(|cell| self.chunk > 1 && !cell.chain) {
            return Err(format!(
                "chunk: {} steps need chains, and subgraphs of the cell \"{}\" are not chains; leave it out, or set it to 1",
                self.chunk, cell.name
            ));
        }
        let core = Core::new(rule, [&self.max_batch, &self.min_batch], &self.batch_sizes, self.chunk, setup)?;
        Ok(Box::new(CellularPolicy { max_tasks: self.max_tasks, core }))
    }
}

struct CellularPolicy<R> {
    max_tasks: u32,
    core: Core<R>,
}

impl<R: SelectionRule> Policy for CellularPolicy<R> {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        self.core.arrive(request);
    }

    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        self.core.complete(completed, outcomes);
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        let mut idle = dispatch.idle();
        while self.core.some_ready()
            && let Some(worker) = idle.next(dispatch)
        {
            if let Some(choice) = self.core.choose(worker) {
                self.core.batch(choice, worker, self.max_tasks, dispatch);
            }
        }
    }
}

/// BatchMaker's rule: a type with a full batch; else one with no running task; else any with ready nodes. Of several,
/// the one of the highest priority.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm1;

impl SelectionRule for Algorithm1 {
    fn choose<'a>(&mut self, cells: impl Iterator<Item = CellView<'a>>) -> Option<Choice> {
        let (mut none_running, mut any) = (None, None);
        for cell in cells {
            if cell.ready >= cell.max_batch {
                return Some(cell.chosen("a full batch was ready"));
            }
            if cell.ready > 0 {
                if cell.running_tasks == 0 && none_running.is_none() {
                    none_running = Some(cell.chosen("no type had a full batch ready, and no task of this type ran"));
                }
                any = any.or(Some(cell.chosen("no type had a full batch ready, or ready nodes and no running task")));
            }
        }
        none_running.or(any)
    }
}

impl<R: SelectionRule> Core<R> {
    /// Whether an idle worker could take a node; only busy ones have nodes pinned to them.
    pub fn some_ready(&self) -> bool {
        self.types.iter().any(|state| state.queue.unpinned() > 0)
    }

    /// Algorithm 1, lines 4 to 10.
    pub fn choose(&mut self, worker: WorkerId) -> Option<Choice> {
        let Core { rule, requests, types, by_priority, .. } = self;
        rule.choose(by_priority.iter().map(|i| types[*i].view(requests, worker)))
    }

    /// Algorithm 1, lines 12 to 23. Only the first task may be smaller than `min_batch`; later, more nodes may be
    /// ready.
    pub fn batch(&mut self, choice: Choice, worker: WorkerId, max_tasks: u32, dispatch: &mut Dispatch<'_>) {
        for _ in 0..max_tasks {
            let state = &self.types[choice.cell.index()];
            let ready = state.queue.ready(worker);
            let size = ready.min(state.max_batch);
            if size == 0 || (size < state.min_batch && !dispatch.is_idle(worker)) {
                break;
            }
            self.submit(choice, worker, ready, dispatch);
        }
    }

    /// Algorithm 1, lines 15 to 18 and 24 to 32.
    fn submit(&mut self, choice: Choice, worker: WorkerId, ready: usize, dispatch: &mut Dispatch<'_>) {
        let Core { types, requests, batch_sizes, chunk, .. } = self;
        let state = &mut types[choice.cell.index()];
        let mut batch = self.spare.pop().unwrap_or_default();
        batch.cell = choice.cell;
        let members = state.queue.take(worker, state.max_batch, &mut batch);
        let size = ready.min(state.max_batch) as u32;
        let extent = state.queue.extent(worker, size, requests);
        let steps = [Step {
            cell: state.cell,
            batch: batch_sizes.next(size, state.largest),
            times: extent.steps,
            input: extent.input,
        }];
        let parts = |out: &mut Vec<_>| state.queue.members(worker, &batch, requests, &mut |part| out.push(part));
        let nodes =
            |out: &mut Vec<_>| state.queue.members(worker, &batch, requests, &mut |part| out.push(part.first()));
        let task = Task {
            batch: size,
            gather: self.last_members[worker.index()].replace(members) != Some(members),
            members: if *chunk > 1 { Members::Parts(&parts) } else { Members::Nodes(&nodes) },
            ..Task::new(worker, &steps, &batch.begins, extent.useful_cells)
        };
        let before = dispatch.unfinished(worker);
        dispatch.submit_because(&task, || choice.reason(&state.name, state.max_batch, ready, *chunk, worker, before));
        state.queue.submitted(worker, &mut batch, requests);
        state.running_tasks += 1;
        self.running.push_back(Some(batch));
    }
}
