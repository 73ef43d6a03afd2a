//! The recording of a run, read from the logs of its point.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::base::error::{Error, Result};
use crate::base::units::{CellId, Nanos, RequestId, TaskId};
use crate::core::task::{Round, TaskRow};
use crate::core::workload::model::CellType;
use crate::lab::results::logs::{FailureLine, LogRow, RoundLine, TaskLine};
use crate::lab::results::read::Log;

#[derive(Debug)]
pub struct Recording {
    /// The events before each decision; instants never decrease.
    pub rounds: Vec<Round>,
    pub delivered: Vec<TaskId>,
    /// By number; `None` for a task that still ran at an interruption.
    pub tasks: Vec<Option<TaskRow>>,
    pub failures: BTreeMap<RequestId, String>,
    pub finished: bool,
}

impl Recording {
    /// Only real backends write rounds.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(RoundLine::FILE).is_file()
    }

    pub fn read(folder: &Path, cells: &[CellType]) -> Result<Recording> {
        let (rounds, delivered) = read_rounds(&folder.join(RoundLine::FILE))?;
        let tasks_file = folder.join(TaskLine::FILE);
        if !tasks_file.is_file() {
            return Err(Error::input(format!(
                "{}: is not there, and decisions are compared with it; run with output.tasks = true",
                tasks_file.display()
            )));
        }
        Ok(Recording {
            rounds,
            delivered,
            tasks: read_tasks(&tasks_file, cells)?,
            failures: read_failures(&folder.join(FailureLine::FILE))?,
            finished: folder.join("point.json").is_file(),
        })
    }

    /// In the order of arrival.
    pub fn handled(&self) -> impl Iterator<Item = Nanos> {
        self.rounds
            .iter()
            .flat_map(|round| std::iter::repeat_n(round.now, round.arrivals as usize))
    }

    pub fn told(&self) -> impl Iterator<Item = (TaskId, Nanos)> {
        let instants = self
            .rounds
            .iter()
            .flat_map(|round| std::iter::repeat_n(round.now, round.completions as usize));
        self.delivered.iter().copied().zip(instants)
    }

    /// Checks the logs against each other: each finished task is delivered once, not before its finish, and the rounds
    /// count each of the `requests`, if known.
    pub fn agrees_with_itself(&self, requests: Option<u64>) -> Result<(), String> {
        let mut told = vec![false; self.tasks.len()];
        let mut delivered = self.delivered.iter();
        for (number, round) in self.rounds.iter().enumerate() {
            for task in delivered.by_ref().take(round.completions as usize) {
                let Some(Some(row)) = self.tasks.get(task.index()) else {
                    return Err(format!(
                        "round {number} of rounds.csv has task {task}, which tasks.csv does not have"
                    ));
                };
                if std::mem::replace(&mut told[task.index()], true) {
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
        let silent = self
            .tasks
            .iter()
            .flatten()
            .find(|row| !told[row.task.index()]);
        if let Some(row) = silent {
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
    let (mut rounds, mut delivered): (Vec<Round>, Vec<TaskId>) = (Vec::new(), Vec::new());
    while let Some(RoundLine {
        now_ns: now,
        completed,
        arrived: arrivals,
    }) = rows.read()?
    {
        if rounds.last().is_some_and(|before| before.now > now) {
            return Err(rows.error("now_ns", "is before the round above"));
        }
        let before = delivered.len();
        for task in completed.split(';').filter(|task| !task.is_empty()) {
            let number = task.parse();
            let number = number.map_err(|_| {
                rows.error("completed", &format!("\"{task}\" is not a task's number"))
            })?;
            delivered.push(TaskId(number));
        }
        rounds.push(Round {
            now,
            completions: (delivered.len() - before) as u32,
            arrivals,
        });
    }
    Ok((rounds, delivered))
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
        let find = |name| {
            let known = || {
                cells
                    .iter()
                    .map(|cell| cell.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let unknown = || {
                rows.error(
                    "cell",
                    &format!("\"{name}\" is no cell of the model; there are {}", known()),
                )
            };
            let place = cells
                .iter()
                .position(|cell| cell.name == name)
                .ok_or_else(unknown)?;
            Ok(CellId(place as u16))
        };
        let cells = cell.split('+').map(find).collect::<Result<_>>()?;
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

fn read_failures(path: &Path) -> Result<BTreeMap<RequestId, String>> {
    let Some(mut rows) = Log::open_if_there(path)? else {
        return Ok(BTreeMap::new());
    };
    std::iter::from_fn(|| rows.read().transpose())
        .map(|line| line.map(|FailureLine { id, reason, .. }| (id, reason)))
        .collect()
}

/// `None` if it does not exist.
pub fn bytes_of(folder: &Path, log: &str) -> Result<Option<Vec<u8>>> {
    let path: PathBuf = folder.join(log);
    match std::fs::read(&path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(Error::unreadable(&path, &cause)),
    }
}
