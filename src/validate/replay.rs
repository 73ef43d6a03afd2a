//! Replay: a policy gets the events of a recorded run again, and must decide the same.
//!
//! Decisions depend only on requests, completions and the instants of the policy's calls. A difference reveals another
//! influence: a clock, the order of a hash map, another version of the policy.

use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

use super::recorded::{Recording, bytes_of};
use super::results::Point;
use crate::backend::watched::{Watched, Watcher};
use crate::error::{Error, Result};
use crate::experiment::inputs::Inputs;
use crate::metrics::recorder::{Keep, Recorder};
use crate::metrics::summary::summarize;
use crate::results::logs::{LogRow, RequestLine, TaskLine};
use crate::results::write;
use crate::task::{Round, TaskRow};
use crate::units::RequestId;
use crate::validate::replayed::{Difference, Replayed};
use crate::workload::model::CellType;

#[derive(Debug)]
pub struct Replay {
    /// Replayed, and recorded.
    pub rounds: (usize, usize),
    pub tasks: u64,
    pub finished: bool,
    /// `None` if the logs are equal, byte for byte.
    pub difference: Option<String>,
    /// The record, with the recorded times.
    pub record: Recorder,
}

/// Replays a recorded run. Reasons are kept if the watcher wants the members.
pub fn replay(inputs: &Inputs<'_>, point: &Point, recording: &Recording, watcher: Watcher<'_>) -> Result<Replay> {
    let cells = &inputs.steps;
    let rounds = &recording.rounds;
    let over = AtomicBool::new(false);
    let keep = Keep { tasks: true, rounds: true, reasons: watcher.members, ..Keep::default() };
    let mut backend = Replayed::new(recording, &over);
    let mut run = inputs.prepare(&point.run, keep)?;
    match run.serve(&mut Watched { backend: &mut backend, watcher }, &over) {
        // The driver stops at the end of the recording.
        Ok(()) | Err(Error::Interrupted) => {}
        Err(error) => return Err(error),
    }
    let record = run.record;

    let requests = bytes_of(&point.folder, RequestLine::FILE)?;
    let difference = recording
        .agrees_with_itself(requests.as_deref().map(rows))
        .err()
        .or_else(|| other_arrivals(&rounds[..backend.begun], &record.rounds))
        .or_else(|| backend.difference().map(|difference| described(&difference, rounds, cells)));
    let difference = match difference {
        Some(difference) => Some(difference),
        None if backend.begun < rounds.len() => {
            Some(format!("nothing is left to do after round {} of {}", backend.begun, rounds.len()))
        }
        None => {
            let warmup = summarize(&record, &inputs.measure(point.run.load)).warmup;
            other_bytes(point, &record, requests.as_deref(), cells, warmup)?
        }
    };
    let rounds = (backend.begun, rounds.len());
    Ok(Replay { rounds, tasks: backend.submitted(), finished: recording.finished, difference, record })
}

fn rows(log: &[u8]) -> u64 {
    (log.iter().filter(|byte| **byte == b'\n').count() as u64).saturating_sub(1)
}

fn other_arrivals(recorded: &[Round], replayed: &[Round]) -> Option<String> {
    let mut pairs = recorded.iter().zip(replayed).enumerate();
    let (number, (one, other)) = pairs.find(|(_, (one, other))| one.arrivals != other.arrivals)?;
    let (now, counted) = (one.now.0, counted(one.arrivals, "arrival"));
    let replayed = other.arrivals;
    Some(format!("round {number} at {now} ns: {counted} were recorded, by the arrivals of this run it is {replayed}"))
}

fn other_bytes(
    point: &Point,
    record: &Recorder,
    requests: Option<&[u8]>,
    cells: &[CellType],
    warmup: u64,
) -> Result<Option<String>> {
    let unwritable = |cause: std::io::Error| Error::failed(format!("the replay's log: {cause}"));
    let mut replayed = Vec::new();
    write::tasks(&mut replayed, record, cells).map_err(unwritable)?;
    let tasks = bytes_of(&point.folder, TaskLine::FILE)?;
    let difference = tasks.and_then(|tasks| first_difference(TaskLine::FILE, &tasks, &replayed));
    let Some(requests) = requests.filter(|_| difference.is_none()) else { return Ok(difference) };
    replayed.clear();
    write::requests(&mut replayed, record, warmup).map_err(unwritable)?;
    Ok(first_difference(RequestLine::FILE, requests, &replayed))
}

fn first_difference(log: &str, recorded: &[u8], replayed: &[u8]) -> Option<String> {
    if recorded == replayed {
        return None;
    }
    let (mut one, mut other) = (recorded.split(|byte| *byte == b'\n'), replayed.split(|byte| *byte == b'\n'));
    let mut line = 0;
    loop {
        line += 1;
        let pair = (one.next(), other.next());
        if pair.0 != pair.1 {
            let text = |line: Option<&[u8]>| line.map_or("nothing".into(), |l| String::from_utf8_lossy(l).into_owned());
            return Some(format!("line {line} of {log}\n  recorded  {}\n  replayed  {}", text(pair.0), text(pair.1)));
        }
    }
}

const LISTED: usize = 20;

fn described(difference: &Difference, rounds: &[Round], cells: &[CellType]) -> String {
    let Difference { round, now, recorded, decided } = difference;
    let mut text = format!("round {round} at {} ns", now.0);
    if let Some(told) = rounds.get(*round) {
        let _ = write!(text, " ({}, {})", counted(told.completions, "completion"), counted(told.arrivals, "arrival"));
    }
    let task = recorded.as_ref().or(decided.as_ref().map(|decided| &decided.row)).map(|row| row.task);
    if let Some(task) = task {
        let _ = write!(text, ", task {task}");
    }
    let recorded = recorded.as_ref().map_or("nothing".into(), |row| task_text(row, cells));
    let decided = decided.as_ref().map_or("nothing".into(), |decided| {
        format!("{}, of {}", task_text(&decided.row, cells), listed(&decided.requests))
    });
    let _ = write!(text, "\n  recorded  {recorded}\n  decided   {decided}");
    text
}

fn task_text(row: &TaskRow, cells: &[CellType]) -> String {
    let TaskRow { worker, stream, batch, submit, .. } = row;
    let names = write::joined_names(&row.cells, cells);
    format!("{names} in a batch of {batch} on worker {worker}, stream {stream}, at {} ns", submit.0)
}

fn listed(requests: &[RequestId]) -> String {
    let ids: Vec<String> = requests.iter().take(LISTED).map(ToString::to_string).collect();
    let more = requests.len().saturating_sub(LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("request{} {}{more}", if requests.len() == 1 { "" } else { "s" }, ids.join(", "))
}

fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
