//! The record of a run, on which the laws are checked.

use crate::base::units::{Nanos, TaskId};
use crate::core::backend::Backend;
pub use crate::core::backend::watcher::Watch;
use crate::core::backend::watcher::{WatchedBackend, Watcher};
use crate::core::record::LOST;
use crate::core::record::full::FullRecord;
use crate::core::task::{MemberList, NodeRef, Step, Task, TaskRow};

pub struct CheckedRun {
    pub recorder: FullRecord,
    /// The instant at which all nodes of each request were done; [`Nanos::MAX`] if it was not served.
    pub done: Vec<Nanos>,
    /// What was seen of each task.
    pub seen: Vec<SeenTask>,
    pub streams: u16,
}

/// The parts of a task that the recorder does not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenTask {
    pub step_batch: u32,
    pub executed_cells: u64,
    pub useful_cells: u64,
    pub members: Option<MemberList>,
    /// The nodes of [`Task::joined`].
    pub joined: Option<Vec<NodeRef>>,
}

impl CheckedRun {
    /// The record of a run that keeps the rows of its tasks.
    ///
    /// # Panics
    /// If a task is not done.
    pub fn record<E>(
        backend: &mut dyn Backend,
        watch: Watch,
        streams: u16,
        serve: impl FnOnce(&mut dyn Backend) -> Result<FullRecord, E>,
    ) -> Result<CheckedRun, E> {
        let mut seen = Vec::new();
        let mut see = |_: TaskId, task: &Task<'_>, members: Option<&MemberList>| {
            seen.push(SeenTask {
                step_batch: task.steps[0].batch,
                executed_cells: task.steps.iter().map(Step::cells).sum(),
                useful_cells: task.useful_cells,
                members: members.cloned(),
                joined: task.joined.map(|joined| {
                    let mut nodes = Vec::new();
                    (joined.list)(&mut nodes);
                    assert_eq!(nodes.len(), joined.count as usize);
                    nodes
                }),
            });
        };
        let recorder = serve(&mut WatchedBackend {
            backend,
            watcher: Watcher {
                watch,
                see: &mut see,
                queued: None,
            },
        })?;
        assert_eq!(
            recorder.execution.tasks.len(),
            seen.len(),
            "each task is done"
        );
        Ok(CheckedRun {
            done: recorder.finish.clone(),
            recorder,
            seen,
            streams,
        })
    }

    pub fn tasks(&self) -> impl Iterator<Item = (&TaskRow, &SeenTask)> {
        self.recorder.execution.tasks.iter().zip(&self.seen)
    }

    /// Counts requests that the backend failed as served: their tasks ran like those of others.
    pub fn with_failures(mut self) -> CheckedRun {
        for (request, at, reason) in &self.recorder.failures {
            if reason != LOST {
                self.done[request.index()] = *at;
            }
        }
        self
    }
}
