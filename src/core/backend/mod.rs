//! The interface of backends: they run batched tasks and own the clock.

pub mod watcher;

use std::time::Duration;

use crate::base::units::{CellId, Nanos, RequestId, TaskId};
use crate::core::task::{Completion, DecodeTask, MemberList, NextDecode, Task};

/// Workers that run the tasks of each stream in the order of submission. Recording, jitter and faults are wrappers
/// around a backend, not options of one.
pub trait Backend {
    /// The time since the start of the run.
    fn now(&self) -> Nanos;

    /// Takes a task, which runs after the tasks before it on its stream. `members` is given if
    /// [`Backend::wants_members`].
    fn submit(&mut self, id: TaskId, task: &Task<'_>, members: Option<MemberList>);

    /// Waits for the next completion until `until`. Completions are ordered by their finish, then by submission.
    /// Returns `None` if `until` is reached or, without an `until`, if nothing is running. With an `until`, a real
    /// clock may return `None` earlier, so that a user can stop the run.
    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion>;

    /// When the engine will learn of the next completion, if no other task is submitted. `None` if nothing runs or the
    /// backend does not know, as in real time.
    fn next_completion(&self) -> Option<Nanos> {
        None
    }

    /// Lets the only running task be followed by others like it. `follow` gets the completion of the running task and the
    /// instant at which the engine learns of it. With the next iteration as its answer, that task is done, and the next
    /// one is submitted at this instant, with the next number. Without an answer, the task runs on.
    ///
    /// A backend that does not know its [next completion](Backend::next_completion) does nothing.
    fn repeat(
        &mut self,
        _: DecodeTask,
        _follow: &mut dyn FnMut(&Completion, Nanos) -> Option<NextDecode>,
    ) {
    }

    /// Whether the backend needs the nodes of a task. Listing them takes time in proportion to the batch.
    fn wants_members(&self) -> bool {
        false
    }

    /// The ascending batch sizes at which the device runs a cell; empty if it runs all sizes. Other sizes are
    /// [padded](crate::core::task::Step::pad).
    fn batches(&self, _: CellId) -> &[u32] {
        &[]
    }

    /// The list of a completed task, whose memory the engine reuses.
    fn spare(&mut self) -> Option<MemberList> {
        None
    }

    /// Why a request that leaves has no result: a computation failed, or the result has a NaN or an infinity. Its tasks
    /// complete like all others, so a policy does not notice.
    fn failure(&mut self, _: RequestId) -> Option<String> {
        None
    }

    /// The result of a finished request, or `None` if the backend does not compute or has not kept this result.
    fn answer(&self, _: RequestId) -> Option<Answer> {
        None
    }

    /// What tasks of whole requests and of operators have run so far, or `None` if the backend does not count it.
    fn launches(&self) -> Option<Launched> {
        None
    }
}

/// Launches of cells or operators, and the copies that bring their inputs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Launched {
    pub launches: u64,
    /// The number of inputs that did not lie in place and were copied.
    pub copies: u64,
    pub copied_bytes: u64,
    /// The time of the copies.
    pub copying: Duration,
}

impl std::ops::AddAssign for Launched {
    fn add_assign(&mut self, more: Launched) {
        self.launches += more.launches;
        self.copies += more.copies;
        self.copied_bytes += more.copied_bytes;
        self.copying += more.copying;
    }
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A hash of all bits, which must be the CPU's.
    Digest(u64),
    /// All numbers. They may differ from the CPU's by rounding.
    Output(Output),
}

/// What a network computes for a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// The states of the nodes that no other node needs, in order.
    pub state: Vec<f32>,
    /// The words that the nodes chose, in the order of the nodes.
    pub words: Vec<u32>,
}

impl Output {
    /// A hash of all bits, by which outputs are compared without being kept (FNV-1a over words).
    pub fn digest(&self) -> u64 {
        let numbers = self.state.iter().map(|number| number.to_bits());
        let mut hash = 0xcbf2_9ce4_8422_2325;
        for bits in numbers.chain(self.words.iter().copied()) {
            hash = (hash ^ u64::from(bits)).wrapping_mul(0x0100_0000_01b3);
        }
        hash
    }
}
