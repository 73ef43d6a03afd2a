//! What runs batched tasks, and owns the clock while it does.

pub mod cpu;
pub mod cuda;
mod ready_list;
mod shared;
pub mod sim;
#[cfg(test)]
mod tests;
pub mod watched;

use crate::network::reference::Output;
use crate::task::{Completion, MemberList, Task};
use crate::units::{CellId, Nanos, RequestId, TaskId};

/// A set of workers that run tasks in order of submission, stream by stream.
///
/// A backend knows nothing of why a batch was formed. Recording, jitter and faults are wrappers around a backend, not
/// options inside of one.
pub trait Backend {
    /// The present instant, from the start of the run.
    fn now(&self) -> Nanos;

    /// Takes a task; it runs when those before it on its stream are done. `members` is there if
    /// [`Backend::wants_members`] says so.
    fn submit(&mut self, id: TaskId, task: &Task<'_>, members: Option<MemberList>);

    /// Waits for the next completion, but not beyond `until`. Completions come in the order of their finish, those of
    /// one instant in the order of submission. `None` says that `until` has come, or, without an `until`, that nothing
    /// is running. A backend on a real clock may come back earlier with `None` if there is an `until`, so that a user who
    /// wants to stop does not wait for it.
    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion>;

    /// Whether the backend needs to know the nodes of a task. Listing them costs time in proportion to the batch, which
    /// a simulated device has no use for.
    fn wants_members(&self) -> bool {
        false
    }

    /// The batch sizes at which the device runs a cell, ascending; empty where it runs all. A batch of another size is
    /// [padded](crate::task::Step::padded).
    fn batches(&self, _: CellId) -> &[u32] {
        &[]
    }

    /// The list of a task that is done, for its memory: the driver lists the members of the next task in it.
    fn spare(&mut self) -> Option<MemberList> {
        None
    }

    /// Why a request that leaves has no result, if it has none: a computation that broke off, or numbers that are none.
    /// The tasks of such a request complete as all others do, so that a policy need not know.
    fn failure(&mut self, _: RequestId) -> Option<String> {
        None
    }

    /// The result of a request that has finished, on a backend that computes. One that keeps only the results of chosen
    /// requests returns `None` for all others.
    fn answer(&self, _: RequestId) -> Option<Answer> {
        None
    }
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The digest of all bits, which must be those of the CPU.
    Digest(u64),
    /// All numbers, which may differ from the CPU's by rounding.
    Output(Output),
}

impl<B: Backend + ?Sized> Backend for Box<B> {
    fn now(&self) -> Nanos {
        (**self).now()
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>, members: Option<MemberList>) {
        (**self).submit(id, task, members);
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        (**self).wait(until)
    }

    fn wants_members(&self) -> bool {
        (**self).wants_members()
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        (**self).batches(cell)
    }

    fn spare(&mut self) -> Option<MemberList> {
        (**self).spare()
    }

    fn failure(&mut self, request: RequestId) -> Option<String> {
        (**self).failure(request)
    }

    fn answer(&self, request: RequestId) -> Option<Answer> {
        (**self).answer(request)
    }
}
