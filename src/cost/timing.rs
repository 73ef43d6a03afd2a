//! When a simulated task begins, how long it takes, and when that is told.

use super::CostModel;
use crate::backend::{Members, Step, Task};
use crate::units::{CellId, Nanos, Share};

/// What the simulated backend asks of its device, once for each task and in the order of submission. Every [`CostModel`]
/// answers, always in the same way; what was recorded of a real device can answer too.
pub trait Timing {
    /// When a task can begin that is submitted at one instant; `idle` says that its stream has nothing left to do then.
    fn start(&mut self, task: &Task<'_>, submit: Nanos, idle: bool) -> Start;

    /// How long it takes alone, behind a cell of the type `before` on its stream; `None` for the stream's first task.
    fn duration(&mut self, task: &Task<'_>, before: Option<CellId>) -> Nanos;

    /// How much of its worker's device it can use, at most all of it. Asked only where tasks run beside each other.
    fn demand(&mut self, _: &Task<'_>) -> Share {
        Share::WHOLE
    }

    /// See [`Backend::batches`](crate::backend::Backend::batches).
    fn batches(&self, _: CellId) -> &[u32] {
        &[]
    }

    /// How long after its finish the driver is told.
    fn notice(&mut self) -> Nanos {
        Nanos::ZERO
    }
}

/// When a task can begin, which is known before the end of the task in front of it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Not before this instant, which is not before the submission.
    pub earliest: Nanos,
    /// Not before so long after the end of the task in front of it.
    pub gap: Nanos,
}

impl Start {
    /// The instant, on a stream that is free from then on.
    pub fn at(self, free: Nanos) -> Nanos {
        self.earliest.max(free.saturating_add(self.gap))
    }
}

impl<C: CostModel> Timing for C {
    fn start(&mut self, task: &Task<'_>, submit: Nanos, _: bool) -> Start {
        let earliest = submit.saturating_add(task.host.ahead).saturating_add(self.launch(task.batch));
        Start { earliest, gap: Nanos::ZERO }
    }

    /// The mean of its steps' demands, each for the time that the step takes, rounded up. What a task takes beside its steps uses as much
    /// as these do.
    fn demand(&mut self, task: &Task<'_>) -> Share {
        let whole = matches!(task.members, Members::Requests);
        let (mut used, mut time) = (0, 0);
        for step in task.steps {
            let run = if whole { self.cell_of_whole(step) } else { self.cell(step) };
            let took = u128::from(run.saturating_mul(u64::from(step.times)).0);
            used += took * u128::from(CostModel::demand(self, step).min(Share::WHOLE).0);
            time += took;
        }
        // No more than the largest demand, which is a u64. Steps without any time use next to nothing.
        Share((used.div_ceil(time.max(1)) as u64).max(1))
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
