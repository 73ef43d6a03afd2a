//! The record of a run, on which the laws are checked.

use crate::backend::Backend;
use crate::backend::watched::{Watched, Watcher};
use crate::metrics::recorder::{LOST, Recorder};
use crate::task::{MemberList, Step, Task};
use crate::units::{CellId, Nanos, StreamId, TaskId, WorkerId};

pub(crate) struct Record {
    pub recorder: Recorder,
    /// When all nodes of each request were done; [`Nanos::MAX`] if it was not served.
    pub done: Vec<Nanos>,
    pub tasks: Vec<Watch>,
    pub streams: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Watch {
    pub worker: WorkerId,
    pub stream: StreamId,
    pub cell: CellId,
    pub batch: u32,
    pub step_batch: u32,
    pub executed_cells: u64,
    pub useful_cells: u64,
    pub members: Option<MemberList>,
    pub submit: Nanos,
    pub start: Nanos,
    pub finish: Nanos,
}

impl Record {
    /// Of a run that keeps the rows of its tasks. `members`: whether the backend asks for the nodes, which the laws
    /// need.
    pub fn of<E>(
        backend: &mut dyn Backend,
        members: bool,
        streams: u16,
        serve: impl FnOnce(&mut dyn Backend) -> Result<Recorder, E>,
    ) -> Result<Record, E> {
        let mut tasks = Vec::new();
        let mut see = |_: TaskId, task: &Task<'_>, members: Option<&MemberList>| {
            tasks.push(Watch {
                worker: task.worker,
                stream: task.stream,
                cell: task.steps[0].cell,
                batch: task.batch,
                step_batch: task.steps[0].batch,
                executed_cells: task.steps.iter().map(Step::cells).sum(),
                useful_cells: task.useful_cells,
                members: members.cloned(),
                submit: Nanos::MAX,
                start: Nanos::MAX,
                finish: Nanos::MAX,
            });
        };
        let recorder = serve(&mut Watched { backend, watcher: Watcher { members, see: &mut see } })?;
        for row in &recorder.tasks {
            let task = &mut tasks[row.task.index()];
            (task.submit, task.start, task.finish) = (row.submit, row.start, row.finish);
        }
        Ok(Record { done: recorder.finish.clone(), recorder, tasks, streams })
    }

    /// Counts requests that the backend failed as served: their tasks ran like those of others.
    pub fn with_failures(mut self) -> Record {
        let by_backend = self.recorder.failures.iter().filter(|(.., reason)| reason != LOST);
        by_backend.for_each(|(request, at, _)| self.done[request.index()] = *at);
        self
    }
}
