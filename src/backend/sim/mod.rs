//! The simulated backend: a virtual clock, and workers whose tasks take what the cost model says.
//!
//! No time of the host reaches the virtual clock, so that a run repeats to the byte.

pub mod shared;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Backend;
use crate::cost::timing::Timing;
use crate::task::{Completion, MemberList, Task};
use crate::units::{CellId, Nanos, TaskId};

/// The simulated device of a policy that submits to so many streams of each worker.
pub fn device<'t, T: Timing + 't>(workers: usize, streams: u16, timing: T) -> Box<dyn Backend + 't> {
    match streams {
        0 | 1 => Box::new(Sim::new(workers, timing)),
        _ => Box::new(shared::Shared::new(workers, streams, timing)),
    }
}

/// Simulated workers with one stream each. A worker runs its tasks one behind the other, without a gap but for what [`Timing::start`] puts
/// there.
pub struct Sim<T> {
    timing: T,
    now: Nanos,
    /// When each worker has nothing left to do.
    free_at: Vec<Nanos>,
    /// The type of the cell that each worker runs last.
    last: Vec<Option<CellId>>,
    /// Running and queued tasks: when the driver is told, the finish, the task, the start. By these, so that those of one
    /// instant come in the order of submission.
    running: BinaryHeap<Reverse<(Nanos, Nanos, TaskId, Nanos)>>,
}

impl<T: Timing> Sim<T> {
    /// Idle workers at time 0.
    pub fn new(workers: usize, timing: T) -> Self {
        let (free_at, last) = (vec![Nanos::ZERO; workers], vec![None; workers]);
        Sim { timing, now: Nanos::ZERO, free_at, last, running: BinaryHeap::new() }
    }
}

impl<T: Timing> Backend for Sim<T> {
    fn now(&self) -> Nanos {
        self.now
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>, _: Option<MemberList>) {
        let free = &mut self.free_at[task.worker.index()];
        let start = self.timing.start(task, self.now, *free <= self.now).at(*free);
        let last = &mut self.last[task.worker.index()];
        let finish = start.saturating_add(self.timing.duration(task, *last));
        *last = task.steps.last().map(|step| step.cell);
        *free = finish;
        self.running.push(Reverse((finish.saturating_add(self.timing.notice()), finish, id, start)));
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        self.timing.batches(cell)
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        // What is told by now is told, even if the driver asks for what came before.
        let until = until.map(|until| until.max(self.now));
        match self.running.peek() {
            Some(Reverse((told, ..))) if until.is_none_or(|until| *told <= until) => {
                let Reverse((told, finish, task, start)) = self.running.pop()?;
                self.now = self.now.max(told);
                Some(Completion { task, start, finish })
            }
            _ => {
                self.now = until.unwrap_or(self.now);
                None
            }
        }
    }
}
