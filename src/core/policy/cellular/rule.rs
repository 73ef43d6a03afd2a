//! The rule that chooses the next cell type, and its view of the queues.

use super::queue::ReadyQueue;
use super::requests::LiveRequests;
use crate::base::units::{CellId, Nanos, WorkerId};

/// Chooses a worker's next cell type (Algorithm 1, lines 4 to 10). The inner loop calls it, so it should not allocate.
pub trait SelectionRule {
    /// Chooses among `cells`, which are ordered by descending priority, then by name. `None` leaves the worker idle.
    fn choose<'a>(&mut self, cells: impl Iterator<Item = CellView<'a>>) -> Option<Choice>;
}

/// What a selection rule sees of a cell type.
#[derive(Clone, Copy)]
pub struct CellView<'a> {
    pub cell: CellId,
    pub name: &'a str,
    /// The number of nodes that the worker could take.
    pub ready: usize,
    /// The number of the type's tasks that run on any worker.
    pub running_tasks: u32,
    /// The type with the higher priority runs first. Later types have higher priorities (BatchMaker, section 4.3).
    pub priority: i32,
    pub max_batch: usize,
    pub(super) queue: &'a ReadyQueue,
    pub(super) requests: &'a LiveRequests,
    pub(super) worker: WorkerId,
}

impl CellView<'_> {
    /// The arrival of the first request that the worker would take.
    pub fn head_arrival(&self) -> Option<Nanos> {
        self.queue.head_arrival(self.worker, self.requests)
    }

    /// Chooses this cell type. `because` completes "CELL: …" in `batchlab explain`.
    pub fn chosen(&self, because: &'static str) -> Choice {
        Choice {
            cell: self.cell,
            because,
        }
    }
}

/// The cell type that a selection rule has chosen.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    pub cell: CellId,
    pub because: &'static str,
}
