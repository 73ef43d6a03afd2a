//! The record of a run, on which the laws are checked.

use crate::backend::Backend;
use crate::task::{Completion, MemberList, Step, Task};
use crate::units::{CellId, Nanos, StreamId, TaskId, WorkerId};

pub(super) struct Record {
    pub littles_law: Result<(), String>,
    pub tasks: Vec<Watch>,
    pub start: Vec<Nanos>,
    pub finish: Vec<Nanos>,
    pub rejected: u64,
    pub busy: Vec<Nanos>,
    pub streams: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Watch {
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

pub(super) struct Watched<'b> {
    pub inner: &'b mut dyn Backend,
    pub watch: bool,
    pub tasks: Vec<Watch>,
}

impl Backend for Watched<'_> {
    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>, members: Option<MemberList>) {
        self.tasks.push(Watch {
            worker: task.worker,
            stream: task.stream,
            cell: task.steps[0].cell,
            batch: task.batch,
            step_batch: task.steps[0].batch,
            executed_cells: task.steps.iter().map(Step::cells).sum(),
            useful_cells: task.useful_cells,
            members: members.clone(),
            submit: self.now(),
            start: Nanos::MAX,
            finish: Nanos::MAX,
        });
        self.inner.submit(id, task, members);
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        let completion = self.inner.wait(until)?;
        let task = &mut self.tasks[completion.task.0 as usize];
        (task.start, task.finish) = (completion.start, completion.finish);
        Some(completion)
    }

    fn wants_members(&self) -> bool {
        self.watch
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        self.inner.batches(cell)
    }
}
