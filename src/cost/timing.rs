//! When a simulated task begins, how long it takes, and when that is told.

use super::CostModel;
use crate::backend::{Members, Step, Task};
use crate::units::{CellId, Nanos};

/// What the simulated backend asks of its device, once for each task and in the order of submission. Every [`CostModel`]
/// answers, always in the same way; what was recorded of a real device can answer too.
pub trait Timing {
    /// When a task begins that is submitted at one instant to a worker that has nothing left to do from `free` on: never
    /// before either.
    fn start(&mut self, task: &Task<'_>, submit: Nanos, free: Nanos) -> Nanos;

    /// How long it takes, behind a cell of the type `before` on its worker; `None` for the worker's first task.
    fn duration(&mut self, task: &Task<'_>, before: Option<CellId>) -> Nanos;

    /// See [`Backend::batches`](crate::backend::Backend::batches).
    fn batches(&self, _: CellId) -> &[u32] {
        &[]
    }

    /// How long after its finish the driver is told.
    fn notice(&mut self) -> Nanos {
        Nanos::ZERO
    }
}

impl<C: CostModel> Timing for C {
    fn start(&mut self, task: &Task<'_>, submit: Nanos, free: Nanos) -> Nanos {
        free.max(submit.saturating_add(task.host.ahead).saturating_add(self.launch(task.batch)))
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        CostModel::batches(self, cell)
    }

    fn duration(&mut self, task: &Task<'_>, mut before: Option<CellId>) -> Nanos {
        let whole = matches!(task.members, Members::Requests);
        let of_step = |step: &Step| match whole {
            true => (self.cell_of_whole(step), self.switch_of_whole(step)),
            false => (self.cell(step), self.switch(step)),
        };
        // Behind another cell states go back to their requests anyway. So a task that gathers as well pays what is more.
        let mut gather = if task.gather { self.gather(task.batch) } else { Nanos::ZERO };
        let mut cells = if whole { self.whole(task.batch) } else { Nanos::ZERO };
        for step in task.steps {
            let (cell, switch) = of_step(step);
            if before.replace(step.cell).is_some_and(|before| before != step.cell) {
                cells = cells.saturating_add(switch.max(gather));
                gather = Nanos::ZERO;
            }
            cells = cells.saturating_add(cell.saturating_mul(u64::from(step.times)));
        }
        for copies in task.looped.copies {
            cells = cells.saturating_add(self.copy(copies.rows).saturating_mul(u64::from(copies.times)));
        }
        cells = cells.saturating_add(self.empty_call().saturating_mul(task.looped.empty_calls));
        cells.saturating_add(gather).saturating_add(self.task(task.batch)).saturating_add(task.host.during)
    }
}
