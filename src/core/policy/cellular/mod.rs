//! Cellular batching: BatchMaker's Algorithm 1 (section 4.3).
//!
//! For an idle worker a [`SelectionRule`] chooses a cell type, and up to `max_tasks` tasks are formed from the front of
//! its queue of subgraphs. So requests join at the next task and leave when their last cell is done. With `chunk`
//! above 1 a task runs several steps of each chain, as a persistent kernel does: a chain that ends within a task is
//! padded.

mod batch;
mod chain;
pub(super) mod core;
mod graph;
mod queue;
mod requests;
mod rule;

use self::core::{Core, largest};
pub use self::rule::{CellView, Choice, SelectionRule};
use super::prelude::*;
use super::values::{BatchSizes, PerCell};
use crate::core::task::Members;
use crate::core::workload::model::CellType;

/// `kind = "cellular"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Cellular {
    /// The most tasks of one decision (MaxTasksToSubmit).
    #[default = 5]
    pub max_tasks: u32,
    /// The largest batch (`Bsizes.Max()`).
    #[default(PerCell::All(512))]
    pub max_batch: PerCell,
    /// The smallest batch of a decision's later tasks (`Bsizes.Min()`).
    #[default(PerCell::All(1))]
    pub min_batch: PerCell,
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
        let max = self.max_batch.resolve("max_batch", setup.cells).ok()?;
        let next = |(max, cell): (u32, &CellType)| self.batch_sizes.next(max, largest(cell));
        Some(Batches::Nodes(
            max.into_iter().zip(setup.cells).map(next).collect(),
        ))
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
    pub fn build_with(
        &self,
        rule: impl SelectionRule + 'static,
        setup: &Setup<'_>,
    ) -> Result<Box<dyn Policy>, String> {
        at_least_1([("max_tasks", self.max_tasks), ("chunk", self.chunk)])?;
        if let Some(cell) = setup
            .cells
            .iter()
            .find(|cell| self.chunk > 1 && !cell.chain)
        {
            return Err(format!(
                "chunk: {} steps need chains, and subgraphs of the cell \"{}\" are not chains; leave it out, or set it to 1",
                self.chunk, cell.name
            ));
        }
        Ok(Box::new(Core::new(rule, self, 0, setup)?))
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
                    none_running = Some(
                        cell.chosen("no type had a full batch ready, and no task of this type ran"),
                    );
                }
                any = any.or(Some(cell.chosen(
                    "no type had a full batch ready, or ready nodes and no running task",
                )));
            }
        }
        none_running.or(any)
    }
}

impl<R: SelectionRule> Core<R> {
    /// Algorithm 1, lines 4 to 10.
    fn choose(&mut self, worker: WorkerId) -> Option<Choice> {
        let Core {
            rule,
            requests,
            types,
            by_priority,
            ..
        } = self;
        rule.choose(by_priority.iter().map(|i| types[*i].view(requests, worker)))
    }

    /// Algorithm 1, lines 12 to 23. Only the first task may be smaller than `min_batch`; later, more nodes may be
    /// ready.
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

    /// Algorithm 1, lines 15 to 18 and 24 to 32.
    fn submit(
        &mut self,
        choice: Choice,
        worker: WorkerId,
        ready: usize,
        dispatch: &mut Dispatch<'_>,
    ) {
        let Core {
            types,
            requests,
            settings: Cellular {
                batch_sizes, chunk, ..
            },
            ..
        } = self;
        let state = &mut types[choice.cell.index()];
        let mut batch = self.spare.pop().unwrap_or_default();
        batch.cell = choice.cell;
        let members = state.queue.take(worker, state.max_batch, &mut batch);
        let size = ready.min(state.max_batch) as u32;
        let work = state.queue.work(worker, size, requests);
        let steps = [Step {
            cell: state.cell,
            batch: batch_sizes.next(size, state.largest),
            times: work.steps,
            input: work.input,
        }];
        let parts = |out: &mut Vec<_>| {
            state
                .queue
                .visit_members(worker, &batch, requests, &mut |part| out.push(part))
        };
        let nodes = |out: &mut Vec<_>| {
            state
                .queue
                .visit_members(worker, &batch, requests, &mut |part| out.push(part.first()))
        };
        let task = Task {
            batch: size,
            gather: self.last_members[worker.index()].replace(members) != Some(members),
            members: if *chunk > 1 {
                Members::Parts(&parts)
            } else {
                Members::Nodes(&nodes)
            },
            ..Task::new(worker, &steps, &batch.begins, work.useful_cells)
        };
        let before = dispatch.unfinished(worker);
        dispatch.submit_because(&task, || {
            choice.reason(state, ready, *chunk, worker, before)
        });
        state.queue.advance(worker, &mut batch, requests);
        state.running_tasks += 1;
        self.running.push_back(Some(batch));
    }
}
