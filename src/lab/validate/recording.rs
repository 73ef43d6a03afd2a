//! The recording of a run, read from the logs of its point.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::base::error::{Error, Result};
use crate::base::units::{CellId, Nanos, RequestId, TaskId};
use crate::core::task::{Round, TaskRow};
use crate::core::workload::model::CellType;
use crate::lab::results::logs::{FailureLine, LogRow, RoundLine, TaskLine};
use crate::lab::results::read::Log;

/// The events of a run and its tasks.
#[derive(Debug)]
pub struct Recording {
    /// The events before each decision; instants never decrease.
    pub rounds: Vec<Round>,
    /// The tasks in the order in which the policy learned of their completion.
    pub reported: Vec<TaskId>,
    /// The tasks by number; `None` for a task that was still running when the run was interrupted.
    pub tasks: Vec<Option<TaskRow>>,
    pub failures: BTreeMap<RequestId, String>,
    /// Whether the run reached its end.
    pub finished: bool,
}

impl Recording {
    /// Whether a point has a recording. Only real backends write one.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(RoundLine::FILE).is_file()
    }

    pub fn read(folder: &Path, cells: &[CellType]) -> Result<Recording> {
        let (rounds, reported) = read_rounds(&folder.join(RoundLine::FILE))?;
        let tasks_file = folder.join(TaskLine::FILE);
        if !tasks_file.is_file() {
            return Err(Error::input(format!(
                "{}: is not there, and decisions are compared with it; run with output.tasks = true",
                tasks_file.display()
            )));
        }
        Ok(Recording {
            rounds,
            reported,
            tasks: read_tasks(&tasks_file, cells)?,
            failures: read_failures(&folder.join(FailureLine::FILE))?,
            finished: folder.join("point.json").is_file(),
        })
    }

    /// When each request was handed to the policy, in the order of arrival.
    pub fn handovers(&self) -> impl Iterator<Item = Nanos> {
        self.rounds
            .iter()
            .flat_map(|round| std::iter::repeat_n(round.now, round.arrivals as usize))
    }

    /// When the policy learned of each task's completion.
    pub fn reports(&self) -> impl Iterator<Item = (TaskId, Nanos)> {
        let instants = self
            .rounds
            .iter()
            .flat_map(|round| std::iter::repeat_n(round.now, round.completions as usize));
        self.reported.iter().copied().zip(instants)
    }

    /// Checks the logs against each other: each task's completion is reported once, not before its finish, and the
    /// rounds count each of the `requests`, if known.
    pub fn check(&self, requests: Option<u64>) -> Result<(), String> {
        let mut is_reported = vec![false; self.tasks.len()];
        let mut reported = self.reported.iter();
        for (number, round) in self.rounds.iter().enumerate() {
            for task in reported.by_ref().take(round.completions as usize) {
                let Some(Some(row)) = self.tasks.get(task.index()) else {
                    return Err(format!(
                        "round {number} of rounds.csv has task {task}, which tasks.csv does not have"
                    ));
                };
                if std::mem::replace(&mut is_reported[task.index()], true) {
                    return Err(format!(
                        "rounds.csv has task {task} done twice, for the second time in round {number}"
                    ));
                }
                if row.finish > round.now {
                    return Err(format!(
                        "task {task} finished at {} ns by tasks.csv, but round {number} of rounds.csv, at {} ns, has it \
                         done before",
                        row.finish.0, round.now.0
                    ));
                }
            }
        }
        if let Some(hole) = self
            .tasks
            .iter()
            .position(Option::is_none)
            .filter(|_| self.finished)
        {
            return Err(format!(
                "tasks.csv has no task {hole}, though the run went on to its end"
            ));
        }
        let unreported = self
            .tasks
            .iter()
            .flatten()
            .find(|row| !is_reported[row.task.index()]);
        if let Some(row) = unreported {
            return Err(format!(
                "task {} finished at {} ns by tasks.csv, but no round of rounds.csv has it done",
                row.task, row.finish.0
            ));
        }
        let counted: u64 = self
            .rounds
            .iter()
            .map(|round| u64::from(round.arrivals))
            .sum();
        match requests.filter(|requests| *requests != counted) {
            Some(requests) => Err(format!(
                "{counted} requests arrived by rounds.csv, {requests} by requests.csv"
            )),
            None => Ok(()),
        }
    }
}

fn read_rounds(path: &Path) -> Result<(Vec<Round>, Vec<TaskId>)> {
    let mut rows = Log::open(path)?;
    let mut rounds: Vec<Round> = Vec::new();
    let mut reported: Vec<TaskId> = Vec::new();
    while let Some(RoundLine {
        now_ns: now,
        completed,
        arrived: arrivals,
    }) = rows.read()?
    {
        if rounds.last().is_some_and(|before| before.now > now) {
            return Err(rows.error("now_ns", "is before the round above"));
        }
        let before = reported.len();
        for task in completed.split(';').filter(|task| !task.is_empty()) {
            let number = task.parse();
            let number = number.map_err(|_| {
                rows.error("completed", &format!("\"{task}\" is not a task's number"))
            })?;
            reported.push(TaskId(number));
        }
        rounds.push(Round {
            now,
            completions: (reported.len() - before) as u32,
            arrivals,
        });
    }
    Ok((rounds, reported))
}

fn read_tasks(path: &Path, cells: &[CellType]) -> Result<Vec<Option<TaskRow>>> {
    let mut rows = Log::open(path)?;
    let mut tasks: Vec<Option<TaskRow>> = Vec::new();
    while let Some(TaskLine {
        task,
        worker,
        stream,
        cell,
        batch,
        submit_ns: submit,
        start_ns,
        finish_ns,
    }) = rows.read()?
    {
        let (Some(start), Some(finish)) = (start_ns, finish_ns) else {
            return Err(rows.error(
                "finish_ns",
                "start and finish are needed; a task that did not finish has no row",
            ));
        };
        let cells = cell
            .split('+')
            .map(|name| find_cell(name, cells).map_err(|problem| rows.error("cell", &problem)))
            .collect::<Result<_>>()?;
        if start < submit || finish < start {
            return Err(rows.error(
                "start_ns",
                "a task is submitted, starts and finishes in this order",
            ));
        }
        // A run has few open tasks at a time, so an interruption leaves few gaps.
        const MOST_MISSING: u64 = 1 << 20;
        if task.0 < tasks.len() as u64 || task.0 - tasks.len() as u64 > MOST_MISSING {
            return Err(rows.error("task", "does not follow on the task above"));
        }
        tasks.resize(task.index(), None);
        tasks.push(Some(TaskRow {
            task,
            worker,
            stream,
            cells,
            batch,
            submit,
            start,
            finish,
        }));
    }
    Ok(tasks)
}

fn find_cell(name: &str, cells: &[CellType]) -> Result<CellId, String> {
    match cells.iter().position(|cell| cell.name == name) {
        Some(place) => Ok(CellId(place as u16)),
        None => {
            let known: Vec<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
            let known = known.join(", ");
            Err(format!(
                "\"{name}\" is not a cell of the model; there are {known}"
            ))
        }
    }
}

fn read_failures(path: &Path) -> Result<BTreeMap<RequestId, String>> {
    let Some(mut rows) = Log::open_if_there(path)? else {
        return Ok(BTreeMap::new());
    };
    std::iter::from_fn(|| rows.read().transpose())
        .map(|line| line.map(|FailureLine { id, reason, .. }| (id, reason)))
        .collect()
}

/// The contents of a log, or `None` if the file does not exist.
pub fn read_bytes(folder: &Path, log: &str) -> Result<Option<Vec<u8>>> {
    let path: PathBuf = folder.join(log);
    match std::fs::read(&path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(Error::unreadable(&path, &cause)),
    }
}
