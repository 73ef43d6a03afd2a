//! A backend that repeats the recorded completions, round by round. Submitted tasks are compared with the recorded
//! ones; the first difference ends the replay, since no record says what would follow.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use super::recorded::Recording;
use crate::backend::Backend;
use crate::task::{Completion, MemberList, Task, TaskRow, distinct_cells};
use crate::units::{Nanos, RequestId, TaskId};

pub struct Replayed<'r> {
    recording: &'r Recording,
    delivered: std::slice::Iter<'r, TaskId>,
    /// Set at the end, which stops the driver.
    over: &'r AtomicBool,
    /// The number of rounds that have begun.
    pub begun: usize,
    /// The remaining completions of the current round.
    left: u32,
    told: bool,
    /// For each submitted task, whether it runs.
    running: Vec<bool>,
    difference: Option<Difference>,
    /// The first task after the last recorded one.
    beyond: Option<Difference>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub round: usize,
    pub now: Nanos,
    /// `None` if nothing more was recorded.
    pub recorded: Option<TaskRow>,
    /// `None` if the policy submits nothing more.
    pub decided: Option<Decided>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// With the submission for start and finish.
    pub row: TaskRow,
    /// Without duplicates, in the order of the batch.
    pub requests: Vec<RequestId>,
}

impl<'r> Replayed<'r> {
    /// A task that the recording lacks is accepted as it is. Sets `over` at the end.
    pub fn new(recording: &'r Recording, over: &'r AtomicBool) -> Self {
        over.store(recording.rounds.is_empty(), Ordering::Relaxed);
        Replayed {
            recording,
            delivered: recording.delivered.iter(),
            over,
            begun: 0,
            left: 0,
            told: true,
            running: Vec::with_capacity(recording.tasks.len()),
            difference: None,
            beyond: None,
        }
    }

    pub fn submitted(&self) -> u64 {
        self.running.len() as u64
    }

    /// If the recorded run was complete, no task may be left over on either side.
    pub fn difference(&self) -> Option<Difference> {
        let next = || self.next_recorded().cloned().map(|row| self.differs(Some(row), None));
        let beyond = || self.beyond.clone().filter(|_| self.recording.finished);
        self.difference.clone().or_else(next).or_else(beyond)
    }

    fn next_recorded(&self) -> Option<&'r TaskRow> {
        self.recording.tasks.get(self.running.len()..)?.iter().flatten().next()
    }

    fn differs(&self, recorded: Option<TaskRow>, decided: Option<Decided>) -> Difference {
        Difference { round: self.begun.saturating_sub(1), now: self.now(), recorded, decided }
    }

    fn end(&mut self, difference: Difference) {
        self.difference.get_or_insert(difference);
        self.over.store(true, Ordering::Relaxed);
    }

    /// A task recorded before this round must have been submitted by now.
    fn begin_round(&mut self) {
        let Some(round) = self.recording.rounds.get(self.begun) else { return };
        let missed = self.next_recorded().filter(|row| row.submit < round.now && self.begun > 0);
        if let Some(row) = missed {
            return self.end(self.differs(Some(row.clone()), None));
        }
        self.begun += 1;
        self.left = round.completions;
        self.told = false;
    }

    /// A completion of a task that does not run ends the replay.
    fn complete(&mut self) -> Option<Completion> {
        let task = *self.delivered.next()?;
        let row = self.recording.tasks.get(task.index()).and_then(Option::as_ref);
        match (row, self.running.get_mut(task.index())) {
            (Some(row), Some(running)) if *running => {
                *running = false;
                Some(Completion { task, start: row.start, finish: row.finish })
            }
            _ => {
                self.end(self.differs(row.cloned(), None));
                None
            }
        }
    }
}

impl Backend for Replayed<'_> {
    fn now(&self) -> Nanos {
        self.begun.checked_sub(1).map_or(Nanos::ZERO, |round| self.recording.rounds[round].now)
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>, _: Option<MemberList>) {
        if self.difference.is_some() {
            return;
        }
        let now = self.now();
        let row = TaskRow {
            task: id,
            worker: task.worker,
            stream: task.stream,
            cells: distinct_cells(task.steps),
            batch: task.batch,
            submit: now,
            start: now,
            finish: now,
        };
        let recorded = self.recording.tasks.get(id.index()).and_then(Option::as_ref);
        let decided = |row| Some(Decided { row, requests: requests_of(&MemberList::of(task, None)) });
        match recorded {
            Some(recorded) if TaskRow { start: now, finish: now, ..recorded.clone() } != row => {
                return self.end(self.differs(Some(recorded.clone()), decided(row)));
            }
            None if id.index() >= self.recording.tasks.len() && self.beyond.is_none() => {
                self.beyond = Some(self.differs(None, decided(row)));
            }
            _ => {}
        }
        self.running.push(true);
    }

    fn wait(&mut self, _: Option<Nanos>) -> Option<Completion> {
        if self.told && self.difference.is_none() {
            self.begin_round();
        }
        if self.difference.is_some() {
            return None;
        }
        if self.left > 0 {
            self.left -= 1;
            return self.complete();
        }
        self.told = true;
        if self.begun == self.recording.rounds.len() {
            self.over.store(true, Ordering::Relaxed);
        }
        None
    }

    fn failure(&mut self, request: RequestId) -> Option<String> {
        self.recording.failures.get(&request).cloned()
    }
}

/// In the order of their first nodes, each once.
pub fn requests_of(members: &MemberList) -> Vec<RequestId> {
    let mut seen = BTreeSet::new();
    members.requests().filter(|request| seen.insert(*request)).collect()
}
