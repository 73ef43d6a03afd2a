//! The simulated backend: a virtual clock, and workers whose tasks take what the cost model says.
//!
//! No time of the host reaches the virtual clock, so that a run repeats to the byte.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Backend, Completion, MemberList, Task};
use crate::cost::CostModel;
use crate::units::{Nanos, TaskId};

/// Simulated workers. A worker runs its tasks one behind the other, without a gap but for the launch of those that it
/// would otherwise begin at once.
pub struct Sim<C> {
    costs: C,
    now: Nanos,
    /// When each worker has nothing left to do.
    free_at: Vec<Nanos>,
    /// Running and queued tasks by finish, those of one instant by submission.
    running: BinaryHeap<Reverse<(Nanos, TaskId, Nanos)>>,
}

impl<C: CostModel> Sim<C> {
    /// Idle workers at time 0.
    pub fn new(workers: usize, costs: C) -> Self {
        Sim { costs, now: Nanos::ZERO, free_at: vec![Nanos::ZERO; workers], running: BinaryHeap::new() }
    }

    fn duration(&self, task: &Task<'_>) -> Nanos {
        let cells = task.steps.iter().fold(Nanos::ZERO, |sum, step| {
            sum.saturating_add(self.costs.cell(step).saturating_mul(u64::from(step.times)))
        });
        let gather = if task.gather { self.costs.gather(task.batch) } else { Nanos::ZERO };
        cells.saturating_add(gather).saturating_add(self.costs.task(task.batch))
    }
}

impl<C: CostModel> Backend for Sim<C> {
    fn now(&self) -> Nanos {
        self.now
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>, _: Option<MemberList>) {
        let launched = self.now.saturating_add(self.costs.launch(task.batch));
        let start = self.free_at[task.worker.index()].max(launched);
        let finish = start.saturating_add(self.duration(task));
        self.free_at[task.worker.index()] = finish;
        self.running.push(Reverse((finish, id, start)));
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        match self.running.peek() {
            Some(Reverse((finish, ..))) if until.is_none_or(|until| *finish <= until) => {
                let Reverse((finish, task, start)) = self.running.pop()?;
                self.now = self.now.max(finish);
                Some(Completion { task, start, finish })
            }
            _ => {
                self.now = self.now.max(until.unwrap_or(self.now));
                None
            }
        }
    }
}
