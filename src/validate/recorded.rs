//! The recording of a run, read from the logs of its point.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::results::columns::ROUNDS;
use crate::results::read::{CsvFile, CsvRow};
use crate::task::{Round, TaskRow};
use crate::units::{CellId, Nanos, RequestId, StreamId, TaskId, WorkerId};
use crate::workload::model::CellType;

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

/// Only real backends write it.
const ROUNDS_FILE: &str = "rounds.csv";

impl Recording {
    pub fn is_in(folder: &Path) -> bool {
        folder.join(ROUNDS_FILE).is_file()
    }

    pub fn read(folder: &Path, cells: &[CellType]) -> Result<Recording> {
        let (rounds, delivered) = read_rounds(&folder.join(ROUNDS_FILE))?;
        let tasks_file = folder.join("tasks.csv");
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
            failures: read_failures(&folder.join("failures.csv"))?,
            finished: folder.join("point.json").is_file(),
        })
    }

    /// In the order of arrival.
    pub fn handled(&self) -> impl Iterator<Item = Nanos> {
        self.rounds.iter().flat_map(|round| std::iter::repeat_n(round.now, round.arrivals as usize))
    }

    pub fn told(&self) -> impl Iterator<Item = (TaskId, Nanos)> {
        let instants = self.rounds.iter().flat_map(|round| std::iter::repeat_n(round.now, round.completions as usize));
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
                    return Err(format!("round {number} of rounds.csv has task {task}, which tasks.csv does not have"));
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
        if let Some(hole) = self.tasks.iter().position(Option::is_none).filter(|_| self.finished) {
            return Err(format!("tasks.csv has no task {hole}, though the run went on to its end"));
        }
        let silent = self.tasks.iter().flatten().find(|row| !told[row.task.index()]);
        if let Some(row) = silent {
            return Err(format!(
                "task {} finished at {} ns by tasks.csv, but no round of rounds.csv has it done",
                row.task, row.finish.0
            ));
        }
        let counted: u64 = self.rounds.iter().map(|round| u64::from(round.arrivals)).sum();
        match requests.filter(|requests| *requests != counted) {
            Some(requests) => Err(format!("{counted} requests arrived by rounds.csv, {requests} by requests.csv")),
            None => Ok(()),
        }
    }
}

fn read_rounds(path: &Path) -> Result<(Vec<Round>, Vec<TaskId>)> {
    let mut rows = CsvFile::open(path)?;
    let [now_ns, completed, arrived] = ROUNDS;
    let (now_ns, completed, arrived) = (rows.column(now_ns)?, rows.column(completed)?, rows.column(arrived)?);
    let (mut rounds, mut delivered): (Vec<Round>, Vec<TaskId>) = (Vec::new(), Vec::new());
    while let Some(row) = rows.read()? {
        let now = Nanos(row.needed(now_ns)?);
        if rounds.last().is_some_and(|before| before.now > now) {
            return Err(row.error(now_ns, "is before the round above"));
        }
        let before = delivered.len();
        for task in row.text(completed).split(';').filter(|task| !task.is_empty()) {
            let number =
                task.parse().map_err(|_| row.error(completed, &format!("\"{task}\" is not a task's number")))?;
            delivered.push(TaskId(number));
        }
        let arrivals = u32::try_from(row.needed(arrived)?).map_err(|_| row.error(arrived, "is too many"))?;
        rounds.push(Round { now, completions: (delivered.len() - before) as u32, arrivals });
    }
    Ok((rounds, delivered))
}

fn read_tasks(path: &Path, cells: &[CellType]) -> Result<Vec<Option<TaskRow>>> {
    let mut rows = CsvFile::open(path)?;
    let (task, worker, stream) = (rows.column("task")?, rows.column("worker")?, rows.column("stream")?);
    let (cell, batch) = (rows.column("cell")?, rows.column("batch")?);
    let (submit, start, finish) = (rows.column("submit_ns")?, rows.column("start_ns")?, rows.column("finish_ns")?);
    let mut tasks: Vec<Option<TaskRow>> = Vec::new();
    while let Some(row) = rows.read()? {
        let small = |column| -> Result<u16> {
            u16::try_from(row.needed(column)?).map_err(|_| row.error(column, &format!("at most {}", u16::MAX)))
        };
        let read = TaskRow {
            task: TaskId(row.needed(task)?),
            worker: WorkerId(small(worker)?),
            stream: StreamId(small(stream)?),
            cells: row.text(cell).split('+').map(|name| find_cell(row, cell, name, cells)).collect::<Result<_>>()?,
            batch: u32::try_from(row.needed(batch)?).map_err(|_| row.error(batch, "is too large"))?,
            submit: Nanos(row.needed(submit)?),
            start: Nanos(row.needed(start)?),
            finish: Nanos(row.needed(finish)?),
        };
        if read.start < read.submit || read.finish < read.start {
            return Err(row.error(start, "a task is submitted, starts and finishes in this order"));
        }
        // A run has few open tasks at a time, so an interruption leaves few gaps.
        const MOST_MISSING: u64 = 1 << 20;
        if read.task.0 < tasks.len() as u64 || read.task.0 - tasks.len() as u64 > MOST_MISSING {
            return Err(row.error(task, "does not follow on the task above"));
        }
        tasks.resize(read.task.index(), None);
        tasks.push(Some(read));
    }
    Ok(tasks)
}

fn find_cell(
    row: CsvRow<'_>,
    column: crate::results::read::CsvColumn,
    name: &str,
    cells: &[CellType],
) -> Result<CellId> {
    let known = || cells.iter().map(|cell| cell.name.as_str()).collect::<Vec<_>>().join(", ");
    match cells.iter().position(|cell| cell.name == name) {
        Some(index) => Ok(CellId(index as u16)),
        None => Err(row.error(column, &format!("\"{name}\" is no cell of the model; there are {}", known()))),
    }
}

fn read_failures(path: &Path) -> Result<BTreeMap<RequestId, String>> {
    let mut failures = BTreeMap::new();
    if path.is_file() {
        let mut rows = CsvFile::open(path)?;
        let (id, reason) = (rows.column("id")?, rows.column("reason")?);
        while let Some(row) = rows.read()? {
            let request = u32::try_from(row.needed(id)?).map_err(|_| row.error(id, "is no request"))?;
            failures.insert(RequestId(request), row.text(reason).to_string());
        }
    }
    Ok(failures)
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
