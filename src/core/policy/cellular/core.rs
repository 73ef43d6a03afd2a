//! The state of Algorithm 1.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::Cellular;
use super::batch::{CellBatch, MemberSet};
use super::queue::ReadyQueue;
use super::requests::RequestStates;
use super::rule::{CellView, SelectionRule};
use crate::core::policy::prelude::*;
use crate::core::workload::model::CellType;

/// Shared by all policies that batch cell by cell.
pub struct Core<R> {
    pub(super) rule: R,
    pub(super) settings: Cellular,
    lookahead: usize,
    pub(super) requests: RequestStates,
    pub(super) types: Vec<TypeState>,
    /// By descending priority, then by name.
    pub(super) by_priority: Vec<usize>,
    /// By worker, of its last task: if they change, the next task gathers.
    pub(super) last_members: Vec<Option<MemberSet>>,
    pub(super) running: VecDeque<Option<CellBatch>>,
    first_running: u64,
    pub(super) spare: Vec<CellBatch>,
}

pub(super) struct TypeState {
    pub cell: CellId,
    pub name: String,
    priority: i32,
    pub max_batch: usize,
    pub min_batch: usize,
    /// Of the device.
    pub largest: u32,
    pub running_tasks: u32,
    pub queue: ReadyQueue,
}

impl<R> Core<R> {
    /// `lookahead`: a worker's tasks behind the running one. An error begins with the key.
    pub fn new(
        rule: R,
        settings: &Cellular,
        lookahead: u32,
        setup: &Setup<'_>,
    ) -> Result<Self, String> {
        let max = settings.max_batch.resolve("max_batch", setup.cells)?;
        let min = settings.min_batch.resolve("min_batch", setup.cells)?;
        if let Some(i) = (0..max.len()).find(|i| min[*i] > max[*i]) {
            return Err(format!(
                "min_batch: {} is above max_batch {} for the cell \"{}\"; at most max_batch",
                min[i], max[i], setup.cells[i].name
            ));
        }
        settings.batch_sizes.check(&max)?;
        let state = |(i, cell): (usize, &CellType)| TypeState {
            cell: CellId(i as u16),
            name: cell.name.clone(),
            priority: cell.priority,
            max_batch: max[i] as usize,
            min_batch: min[i] as usize,
            largest: largest(cell),
            running_tasks: 0,
            queue: ReadyQueue::new(cell, setup.workers, settings.chunk),
        };
        let mut by_priority: Vec<usize> = (0..setup.cells.len()).collect();
        by_priority.sort_by_key(|i| (Reverse(setup.cells[*i].priority), &setup.cells[*i].name));
        Ok(Core {
            rule,
            settings: settings.clone(),
            lookahead: lookahead as usize,
            requests: RequestStates::default(),
            types: setup.cells.iter().enumerate().map(state).collect(),
            by_priority,
            last_members: vec![None; setup.workers],
            running: VecDeque::new(),
            first_running: 0,
            spare: Vec::new(),
        })
    }

    fn release(&mut self) {
        let types = &mut self.types;
        self.requests
            .release(|cell, subgraph| types[cell.index()].queue.push(subgraph));
    }
}

impl<R: SelectionRule> Policy for Core<R> {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
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

    /// First the workers with the fewest unfinished tasks.
    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        for unfinished in 0..=self.lookahead {
            let mut workers = dispatch.with_unfinished(unfinished);
            // Only busy workers have nodes pinned to them.
            while (unfinished > 0 || self.types.iter().any(|state| state.queue.unpinned() > 0))
                && let Some(worker) = workers.next(dispatch)
            {
                if let Some(choice) = self.choose(worker) {
                    self.batch(choice, worker, dispatch);
                }
            }
        }
    }

    fn works_ahead(&self) -> bool {
        self.lookahead > 0
    }
}

pub fn largest(cell: &CellType) -> u32 {
    cell.batches.last().copied().unwrap_or(u32::MAX)
}

impl TypeState {
    pub fn view<'a>(&'a self, requests: &'a RequestStates, worker: WorkerId) -> CellView<'a> {
        let TypeState {
            cell,
            name,
            priority,
            max_batch,
            running_tasks,
            queue,
            ..
        } = self;
        CellView {
            cell: *cell,
            name,
            ready: queue.ready(worker),
            running_tasks: *running_tasks,
            priority: *priority,
            max_batch: *max_batch,
            queue,
            requests,
            worker,
        }
    }
}
