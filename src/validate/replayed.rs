//! A backend that runs nothing: it tells the driver again what was recorded, instant by instant.
//!
//! The instant of a round decides which requests have arrived by then, so that the driver's source needs to know nothing
//! of the recording. What the policy submits is held against the recorded tasks, and the first that differs ends the
//! replay: from there on the recording has nothing to say of what the policy would have met.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::backend::Backend;
use crate::task::{Completion, MemberList, Members, Task};
use crate::task::{Round, TaskRow, distinct_cells};
use crate::units::{Nanos, RequestId, TaskId};

/// Plays the rounds of a run.
pub struct Replayed<'r> {
    rounds: &'r [Round],
    delivered: std::slice::Iter<'r, TaskId>,
    tasks: &'r [Option<TaskRow>],
    failures: &'r BTreeMap<RequestId, String>,
    /// Set when there is nothing more to play; the driver then stops.
    over: &'r AtomicBool,
    /// How many rounds have begun; the last of them is the present one.
    begun: usize,
    /// The completions of the present round that have not been told.
    left: u32,
    /// The driver has been told all of the present round.
    told: bool,
    /// Tasks that were submitted, and of each whether it runs.
    running: Vec<bool>,
    difference: Option<Difference>,
    /// The first task behind the last of the recorded ones.
    beyond: Option<Difference>,
}

/// Where a policy first decided otherwise than the recording has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The round, from 0.
    pub round: usize,
    /// Its instant.
    pub now: Nanos,
    /// The task that was recorded; `None` where the policy had submitted nothing more.
    pub recorded: Option<TaskRow>,
    /// The task that was decided; `None` where the policy submits nothing more.
    pub decided: Option<Decided>,
}

/// A task as the policy decided it in a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// As the log would have it, but for its start and finish, which are those of its submission.
    pub row: TaskRow,
    /// The requests of its batch, in order, each once.
    pub requests: Vec<RequestId>,
}

impl<'r> Replayed<'r> {
    /// Plays these rounds with the completions of `delivered`, whose times are those of `tasks`, by their numbers; a task
    /// that is `None` there is taken as it comes. `over` is set when nothing is left to play.
    pub fn new(
        rounds: &'r [Round],
        delivered: &'r [TaskId],
        tasks: &'r [Option<TaskRow>],
        failures: &'r BTreeMap<RequestId, String>,
        over: &'r AtomicBool,
    ) -> Self {
        over.store(rounds.is_empty(), Ordering::Relaxed);
        Replayed {
            rounds,
            delivered: delivered.iter(),
            tasks,
            failures,
            over,
            begun: 0,
            left: 0,
            told: true,
            running: Vec::with_capacity(tasks.len()),
            difference: None,
            beyond: None,
        }
    }

    /// How many rounds were played.
    pub fn played(&self) -> usize {
        self.begun
    }

    /// How many tasks the policy submitted.
    pub fn submitted(&self) -> u64 {
        self.running.len() as u64
    }

    /// The first decision that was not the recorded one. With `finished`, the run that was recorded had come to its end,
    /// so that no task may be left on either side.
    pub fn difference(&self, finished: bool) -> Option<Difference> {
        let next = || self.next_recorded().cloned().map(|row| self.differs(Some(row), None));
        let beyond = || self.beyond.clone().filter(|_| finished);
        self.difference.clone().or_else(next).or_else(beyond)
    }

    /// The recorded task that the policy has to submit next, if one is known.
    fn next_recorded(&self) -> Option<&'r TaskRow> {
        self.tasks.get(self.running.len()..)?.iter().flatten().next()
    }

    fn differs(&self, recorded: Option<TaskRow>, decided: Option<Decided>) -> Difference {
        Difference { round: self.begun.saturating_sub(1), now: self.now(), recorded, decided }
    }

    /// Ends the replay at a difference.
    fn end(&mut self, difference: Difference) {
        self.difference.get_or_insert(difference);
        self.over.store(true, Ordering::Relaxed);
    }

    /// Goes on to the next round. A task that was recorded before it, and not submitted since, will not come any more.
    fn begin_round(&mut self) {
        let Some(round) = self.rounds.get(self.begun) else { return };
        let missed = self.next_recorded().filter(|row| row.submit < round.now && self.begun > 0);
        if let Some(row) = missed {
            return self.end(self.differs(Some(row.clone()), None));
        }
        self.begun += 1;
        self.left = round.completions;
        self.told = false;
    }

    /// The next completion of the round. One of a task that does not run, of which the driver knows nothing, ends the
    /// replay.
    fn complete(&mut self) -> Option<Completion> {
        let task = *self.delivered.next()?;
        let row = self.tasks.get(task.index()).and_then(Option::as_ref);
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
        self.begun.checked_sub(1).map_or(Nanos::ZERO, |round| self.rounds[round].now)
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
        let recorded = self.tasks.get(id.index()).and_then(Option::as_ref);
        let decided = |row| Some(Decided { row, requests: requests_of(task) });
        match recorded {
            Some(recorded) if TaskRow { start: now, finish: now, ..recorded.clone() } != row => {
                return self.end(self.differs(Some(recorded.clone()), decided(row)));
            }
            None if id.index() >= self.tasks.len() && self.beyond.is_none() => {
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
        if self.begun == self.rounds.len() {
            self.over.store(true, Ordering::Relaxed);
        }
        None
    }

    fn failure(&mut self, request: RequestId) -> Option<String> {
        self.failures.get(&request).cloned()
    }
}

/// The requests of a batch, in the order of their first nodes.
fn requests_of(task: &Task<'_>) -> Vec<RequestId> {
    let mut requests = match task.members {
        Members::Requests => task.requests.to_vec(),
        Members::Nodes(list) => {
            let mut nodes = Vec::with_capacity(task.batch as usize);
            list(&mut nodes);
            nodes.iter().map(|node| node.request).collect()
        }
        Members::Parts(list) => {
            let mut parts = Vec::with_capacity(task.batch as usize);
            list(&mut parts);
            parts.iter().map(|part| part.request).collect()
        }
    };
    let mut seen = std::collections::BTreeSet::new();
    requests.retain(|request| seen.insert(*request));
    requests
}
