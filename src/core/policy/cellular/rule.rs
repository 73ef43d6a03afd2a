//! The rule that chooses the next cell type, and its view of the queues.

use super::core::TypeState;
use super::queue::ReadyQueue;
use super::requests::RequestStates;
use crate::base::units::{CellId, Nanos, WorkerId};
use crate::core::task::Reason;

/// Chooses a worker's next cell type (Algorithm 1, lines 4 to 10). Called in the inner loop: it should not allocate.
pub trait SelectionRule {
    /// `cells` come by descending priority, then by name. `None` leaves the worker idle.
    fn choose<'a>(&mut self, cells: impl Iterator<Item = CellView<'a>>) -> Option<Choice>;
}

#[derive(Clone, Copy)]
pub struct CellView<'a> {
    pub cell: CellId,
    pub name: &'a str,
    pub ready: usize,
    /// On all workers.
    pub running_tasks: u32,
    /// Higher runs first: later types (BatchMaker, section 4.3).
    pub priority: i32,
    pub max_batch: usize,
    pub(super) queue: &'a ReadyQueue,
    pub(super) requests: &'a RequestStates,
    pub(super) worker: WorkerId,
}

impl CellView<'_> {
    /// Of the first request that the worker would take.
    pub fn head_arrival(&self) -> Option<Nanos> {
        self.queue
            .head(self.worker)
            .map(|key| self.requests[key].arrival)
    }

    /// `because` completes "CELL: …" in `batchlab explain`.
    pub fn chosen(&self, because: &'static str) -> Choice {
        Choice {
            cell: self.cell,
            because,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Choice {
    pub cell: CellId,
    pub because: &'static str,
}

impl Choice {
    pub(super) fn reason(
        &self,
        of: &TypeState,
        ready: usize,
        chunk: u32,
        worker: WorkerId,
        before: usize,
    ) -> Reason {
        let TypeState {
            name, max_batch, ..
        } = of;
        let and_next = if chunk > 1 {
            format!(", each with up to {} after it (chunk)", chunk - 1)
        } else {
            String::new()
        };
        Reason {
            what: format!("{name}: {}", self.because),
            size: if ready > *max_batch {
                format!("max_batch ({max_batch}) of {ready} ready nodes{and_next}")
            } else {
                format!("all {ready} ready nodes{and_next}")
            },
            when: match before {
                0 => format!("worker {worker} had nothing to do"),
                1 => format!("worker {worker} had one unfinished task, and may be given another"),
                _ => format!(
                    "worker {worker} had {before} unfinished tasks, and may be given another"
                ),
            },
        }
    }
}
