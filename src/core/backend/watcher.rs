//! A wrapper that shows a backend's tasks when they are submitted.

use super::{Answer, Backend, Launched};
use crate::base::units::{CellId, Nanos, RequestId, TaskId};
use crate::core::task::{Completion, MemberList, Task};

/// What the engine does for those who watch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    /// Whether members are listed, which takes time in proportion to the batches.
    pub members: bool,
    /// Whether the engine learns of a completion only when it happens, as in real time. It then meets each instant.
    pub each_instant: bool,
}

pub struct Watcher<'w> {
    pub watch: Watch,
    /// The function that sees each task at its submission.
    pub see: &'w mut dyn FnMut(TaskId, &Task<'_>, Option<&MemberList>),
    /// The function that gets the time in which the backend took a task, if anyone asks for it.
    pub queued: Option<&'w mut dyn FnMut(TaskId, Nanos)>,
}

pub struct WatchedBackend<'b, 'w> {
    pub backend: &'b mut dyn Backend,
    pub watcher: Watcher<'w>,
}

impl Backend for WatchedBackend<'_, '_> {
    fn now(&self) -> Nanos {
        self.backend.now()
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>, members: Option<MemberList>) {
        (self.watcher.see)(id, task, members.as_ref());
        let Some(queued) = &mut self.watcher.queued else {
            return self.backend.submit(id, task, members);
        };
        let before = self.backend.now();
        self.backend.submit(id, task, members);
        queued(id, self.backend.now().saturating_since(before));
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        self.backend.wait(until)
    }

    fn next_completion(&self) -> Option<Nanos> {
        if self.watcher.watch.each_instant {
            return None;
        }
        self.backend.next_completion()
    }

    fn wants_members(&self) -> bool {
        self.watcher.watch.members || self.backend.wants_members()
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        self.backend.batches(cell)
    }

    fn spare(&mut self) -> Option<MemberList> {
        self.backend.spare()
    }

    fn failure(&mut self, request: RequestId) -> Option<String> {
        self.backend.failure(request)
    }

    fn answer(&self, request: RequestId) -> Option<Answer> {
        self.backend.answer(request)
    }

    fn launches(&self) -> Option<Launched> {
        self.backend.launches()
    }
}
