//! The record of a run, on which the laws are checked.

use crate::base::units::{Nanos, TaskId};
use crate::core::backend::Backend;
use crate::core::backend::watched::{Watched, Watcher};
use crate::core::record::LOST;
use crate::core::record::full::FullRecord;
use crate::core::task::{MemberList, Step, Task, TaskRow};

pub struct Record {
    pub recorder: FullRecord,
    /// When all nodes of each request were done; [`Nanos::MAX`] if it was not served.
    pub done: Vec<Nanos>,
    /// By task.
    pub seen: Vec<Seen>,
    pub streams: u16,
}

/// What the recorder does not keep of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub step_batch: u32,
    pub executed_cells: u64,
    pub useful_cells: u64,
    pub members: Option<MemberList>,
}

impl Record {
    /// Of a run that keeps the rows of its tasks. `members`: whether the backend asks for the nodes, which the laws
    /// need.
    ///
    /// # Panics
    /// If a task is not done.
    pub fn of<E>(
        backend: &mut dyn Backend,
        members: bool,
        streams: u16,
        serve: impl FnOnce(&mut dyn Backend) -> Result<FullRecord, E>,
    ) -> Result<Record, E> {
        let mut seen = Vec::new();
        let mut see = |_: TaskId, task: &Task<'_>, members: Option<&MemberList>| {
            let executed_cells = task.steps.iter().map(Step::cells).sum();
            let (step_batch, useful_cells) = (task.steps[0].batch, task.useful_cells);
            seen.push(Seen {
                step_batch,
                executed_cells,
                useful_cells,
                members: members.cloned(),
            });
        };
        let recorder = serve(&mut Watched {
            backend,
            watcher: Watcher {
                members,
                see: &mut see,
            },
        })?;
        assert_eq!(
            recorder.execution.tasks.len(),
            seen.len(),
            "each task is done"
        );
        Ok(Record {
            done: recorder.finish.clone(),
            recorder,
            seen,
            streams,
        })
    }

    pub fn tasks(&self) -> impl Iterator<Item = (&TaskRow, &Seen)> {
        self.recorder.execution.tasks.iter().zip(&self.seen)
    }

    /// Counts requests that the backend failed as served: their tasks ran like those of others.
    pub fn with_failures(mut self) -> Record {
        let by_backend = self
            .recorder
            .failures
            .iter()
            .filter(|(.., reason)| reason != LOST);
        by_backend.for_each(|(request, at, _)| self.done[request.index()] = *at);
        self
    }
}
