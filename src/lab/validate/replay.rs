//! Replay: a policy gets the events of a recorded run again, and must decide the same.
//!
//! Decisions depend only on requests, completions and the instants of the policy's calls. A difference reveals another
//! influence: a clock, the order of a hash map, another version of the policy.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use super::recording::{Recording, read_bytes};
use super::results::RecordedPoint;
use crate::base::error::{Error, Result, plural};
use crate::base::units::{Nanos, RequestId, TaskId};
use crate::core::backend::Backend;
use crate::core::backend::watcher::{WatchedBackend, Watcher};
use crate::core::record::RecordOptions;
use crate::core::record::full::FullRecord;
use crate::core::summary::summarize;
use crate::core::task::{Completion, MemberList, Round, Task, TaskRow, distinct_cells};
use crate::core::workload::model::CellType;
use crate::lab::results::logs::{LogRow, RequestLine, TaskLine};
use crate::lab::results::write;
use crate::lab::run::inputs::RunInputs;

/// The result of a replay.
#[derive(Debug)]
pub struct Replay {
    /// The numbers of replayed and of recorded rounds.
    pub rounds: (usize, usize),
    pub tasks: u64,
    /// Whether the recorded run reached its end.
    pub finished: bool,
    /// The first difference, or `None` if the logs are equal byte for byte.
    pub difference: Option<String>,
    /// The record, with the recorded times.
    pub record: FullRecord,
}

/// Replays a recorded run. Reasons are kept if the watcher wants the members.
pub fn replay(
    inputs: &RunInputs<'_>,
    point: &RecordedPoint,
    recording: &Recording,
    watcher: Watcher<'_>,
) -> Result<Replay> {
    let rounds = &recording.rounds;
    let over = AtomicBool::new(rounds.is_empty());
    let keep = RecordOptions {
        tasks: true,
        rounds: true,
        reasons: watcher.watch.members,
        ..RecordOptions::default()
    };
    let mut backend = ReplayBackend {
        recording,
        cells: &inputs.steps,
        reported: recording.reported.iter(),
        over: &over,
        begun: 0,
        left: None,
        running: Vec::with_capacity(recording.tasks.len()),
        difference: None,
    };
    let mut run = inputs.prepare(&point.run, keep)?;
    match run.serve(
        &mut WatchedBackend {
            backend: &mut backend,
            watcher,
        },
        &over,
    ) {
        // The engine stops at the end of the recording.
        Ok(()) | Err(Error::Interrupted) => {}
        Err(error) => return Err(error),
    }
    let record = run.record;
    let begun = backend.begun;
    let requests = read_bytes(&point.folder, RequestLine::FILE)?;
    let mut difference = recording
        .check(requests.as_deref().map(count_rows))
        .err()
        .or_else(|| other_arrivals(&rounds[..begun], &record.execution.rounds))
        .or_else(|| backend.difference());
    if difference.is_none() && begun < rounds.len() {
        difference = Some(format!(
            "nothing is left to do after round {begun} of {}",
            rounds.len()
        ));
    }
    if difference.is_none() {
        let warmup = summarize(&record, &inputs.measure(point.run.load)).warmup;
        difference = other_bytes(point, &record, requests, &inputs.steps, warmup)?;
    }
    let tasks = backend.running.len() as u64;
    Ok(Replay {
        rounds: (begun, rounds.len()),
        tasks,
        finished: recording.finished,
        difference,
        record,
    })
}

/// The number of lines of a log after its header.
fn count_rows(log: &[u8]) -> u64 {
    let lines = log.iter().filter(|byte| **byte == b'\n').count();
    (lines as u64).saturating_sub(1)
}

fn other_arrivals(recorded: &[Round], replayed: &[Round]) -> Option<String> {
    let mut pairs = recorded.iter().zip(replayed).enumerate();
    let (number, (one, other)) = pairs.find(|(_, (one, other))| one.arrivals != other.arrivals)?;
    let now = one.now.0;
    let counted = plural(one.arrivals as usize, "arrival");
    let replayed = other.arrivals;
    Some(format!(
        "round {number} at {now} ns: {counted} were recorded, by the arrivals of this run it is {replayed}"
    ))
}

fn other_bytes(
    point: &RecordedPoint,
    record: &FullRecord,
    requests: Option<Vec<u8>>,
    cells: &[CellType],
    warmup: u64,
) -> Result<Option<String>> {
    let mut replayed = [Vec::new(), Vec::new()];
    let written = write::write_tasks(&mut replayed[0], &record.execution, cells)
        .and_then(|()| write::write_requests(&mut replayed[1], record, warmup));
    written.map_err(|cause| Error::failure(format!("the replay's log: {cause}")))?;
    let recorded = [read_bytes(&point.folder, TaskLine::FILE)?, requests];
    let mut logs = [TaskLine::FILE, RequestLine::FILE]
        .into_iter()
        .zip(recorded.iter().zip(&replayed));
    Ok(logs.find_map(|(log, (recorded, replayed))| {
        first_difference(log, recorded.as_ref()?, replayed)
    }))
}

fn first_difference(log: &str, recorded: &[u8], replayed: &[u8]) -> Option<String> {
    if recorded == replayed {
        return None;
    }
    let mut lines = [recorded, replayed].map(|log| log.split(|byte| *byte == b'\n'));
    let pairs = std::iter::repeat_with(|| lines.each_mut().map(Iterator::next));
    let (line, pair) = (1..).zip(pairs).find(|(_, [one, other])| one != other)?;
    let [recorded, replayed] =
        pair.map(|line| line.map_or("nothing".into(), String::from_utf8_lossy));
    Some(format!(
        "line {line} of {log}\n  recorded  {recorded}\n  replayed  {replayed}"
    ))
}

/// A backend that repeats the recorded completions, round by round. Submitted tasks are compared with the recorded
/// ones; the first difference ends the replay, since no record says what would follow. A task that the recording of an
/// interrupted run lacks is accepted.
struct ReplayBackend<'r> {
    recording: &'r Recording,
    cells: &'r [CellType],
    /// The recorded completions that have not been reported yet.
    reported: std::slice::Iter<'r, TaskId>,
    /// Set at the end, which stops the engine.
    over: &'r AtomicBool,
    /// The number of rounds that have begun.
    begun: usize,
    /// The remaining completions of the current round, or `None` once the engine knows that there are no more.
    left: Option<u32>,
    /// Whether each submitted task runs.
    running: Vec<bool>,
    difference: Option<String>,
}

impl<'r> ReplayBackend<'r> {
    /// The difference of the replay. A recorded task that was not submitted is also a difference.
    fn difference(&self) -> Option<String> {
        if self.difference.is_some() {
            return self.difference.clone();
        }
        let left = self.next_recorded()?;
        Some(self.differs(Some(left), None))
    }

    /// The next recorded task that has not been submitted.
    fn next_recorded(&self) -> Option<&'r TaskRow> {
        self.recording
            .tasks
            .get(self.running.len()..)?
            .iter()
            .flatten()
            .next()
    }

    /// Describes the recorded task and the one that the policy decided upon, with its requests.
    fn differs(
        &self,
        recorded: Option<&TaskRow>,
        decided: Option<(&TaskRow, &[RequestId])>,
    ) -> String {
        let round = self.begun.saturating_sub(1);
        let events = self
            .recording
            .rounds
            .get(round)
            .map_or(String::new(), |told| {
                format!(
                    " ({}, {})",
                    plural(told.completions as usize, "completion"),
                    plural(told.arrivals as usize, "arrival")
                )
            });
        let row = recorded.or(decided.map(|(row, _)| row));
        let task = row.map_or(String::new(), |row| format!(", task {}", row.task));
        let text = |row: &TaskRow| {
            let TaskRow {
                worker,
                stream,
                batch,
                submit,
                ..
            } = row;
            let names = write::joined_names(&row.cells, self.cells);
            format!(
                "{names} in a batch of {batch} on worker {worker}, stream {stream}, at {} ns",
                submit.0
            )
        };
        let recorded = recorded.map_or("nothing".into(), text);
        let decided = decided.map_or("nothing".into(), |(row, requests)| {
            format!("{}, of {}", text(row), list_requests(requests))
        });
        let now = self.now().0;
        format!(
            "round {round} at {now} ns{events}{task}\n  recorded  {recorded}\n  decided   {decided}"
        )
    }

    fn end(&mut self, difference: String) {
        self.difference.get_or_insert(difference);
        self.over.store(true, Ordering::Relaxed);
    }

    /// Begins a round. All tasks that were recorded before it must have been submitted.
    fn begin_round(&mut self) {
        let Some(round) = self.recording.rounds.get(self.begun) else {
            return;
        };
        let missed = self
            .next_recorded()
            .filter(|row| row.submit < round.now && self.begun > 0);
        if let Some(row) = missed {
            return self.end(self.differs(Some(row), None));
        }
        self.begun += 1;
        self.left = Some(round.completions);
    }

    /// The next completion of the round. If its task does not run, the replay ends.
    fn complete(&mut self) -> Option<Completion> {
        let task = *self.reported.next()?;
        let row = self
            .recording
            .tasks
            .get(task.index())
            .and_then(Option::as_ref);
        match (row, self.running.get_mut(task.index())) {
            (Some(row), Some(running)) if *running => {
                *running = false;
                Some(Completion {
                    task,
                    start: row.start,
                    finish: row.finish,
                })
            }
            _ => {
                self.end(self.differs(row, None));
                None
            }
        }
    }
}

impl Backend for ReplayBackend<'_> {
    fn now(&self) -> Nanos {
        self.begun
            .checked_sub(1)
            .map_or(Nanos::ZERO, |round| self.recording.rounds[round].now)
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
        let requests = || requests_of(&MemberList::from_task(task, None));
        match self.recording.tasks.get(id.index()) {
            Some(Some(recorded))
                if TaskRow {
                    start: now,
                    finish: now,
                    ..recorded.clone()
                } != row =>
            {
                return self.end(self.differs(Some(recorded), Some((&row, &requests()))));
            }
            None if self.recording.finished => {
                return self.end(self.differs(None, Some((&row, &requests()))));
            }
            _ => {}
        }
        self.running.push(true);
    }

    fn wait(&mut self, _: Option<Nanos>) -> Option<Completion> {
        if self.left.is_none() && self.difference.is_none() {
            self.begin_round();
        }
        if self.difference.is_some() {
            return None;
        }
        if let Some(left @ 1..) = self.left {
            self.left = Some(left - 1);
            return self.complete();
        }
        self.left = None;
        if self.begun == self.recording.rounds.len() {
            self.over.store(true, Ordering::Relaxed);
        }
        None
    }

    fn failure(&mut self, request: RequestId) -> Option<String> {
        self.recording.failures.get(&request).cloned()
    }
}

/// The requests of a task, each once, in the order of their first nodes.
pub fn requests_of(members: &MemberList) -> Vec<RequestId> {
    let mut seen = BTreeSet::new();
    members
        .requests()
        .filter(|request| seen.insert(*request))
        .collect()
}

/// The largest number of requests that a message lists.
const LISTED: usize = 20;

fn list_requests(requests: &[RequestId]) -> String {
    let ids: Vec<String> = requests
        .iter()
        .take(LISTED)
        .map(ToString::to_string)
        .collect();
    let more = requests.len().saturating_sub(LISTED);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!(
        "request{} {}{more}",
        if requests.len() == 1 { "" } else { "s" },
        ids.join(", ")
    )
}
