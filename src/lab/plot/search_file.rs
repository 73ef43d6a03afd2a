//! The files that searches write: `knee.csv`, `workers.csv` and `tune.csv`.

use std::path::Path;

use crate::base::error::{Error, Result};
use crate::lab::results::read::{CsvRow, CsvTable};
use crate::lab::results::saved_results::within;
use crate::lab::results::sweep_keys::Swept;

/// The columns that are not swept keys.
const COLUMNS: [&str; 18] = [
    "policy",
    "rate_rps",
    "slo_ms",
    "quantile",
    "round",
    "knee_rps",
    "knee_rps_ci",
    "replications",
    "workers",
    "latency_ms",
    "lowest_rps",
    "lowest_rps_ci",
    "limiting_class",
    "fewer_latency_ms",
    "fewer_miss",
    "chosen",
    "requests",
    "caveat",
];

/// A column with what a search looks for, and the label of its axis.
type AnswerColumn = (&'static str, &'static str);

const RATE: AnswerColumn = ("knee_rps", "Highest rate (requests/s)");
const WORKER_COUNT: AnswerColumn = ("workers", "Smallest number of workers");

/// A file of a search.
pub struct SearchFile {
    pub file: &'static str,
    /// The columns that can have the answers; each file has one.
    answers: &'static [AnswerColumn],
    /// The command that writes the file.
    pub command: &'static str,
}

pub const KNEE: SearchFile = SearchFile {
    file: "knee.csv",
    answers: &[RATE],
    command: "find-knee",
};
pub const WORKERS: SearchFile = SearchFile {
    file: "workers.csv",
    answers: &[WORKER_COUNT],
    command: "find-workers",
};
pub const TUNE: SearchFile = SearchFile {
    file: "tune.csv",
    answers: &[RATE, WORKER_COUNT],
    command: "tune",
};

/// A row of such a file.
#[derive(Clone, Debug)]
pub struct SearchRow {
    pub policy: String,
    pub swept: Vec<Swept>,
    /// The answer, or `None` if the objective is met nowhere.
    pub answer: Option<f64>,
    /// The ends of the answer's 95 % interval over replications.
    pub interval: Option<[f64; 2]>,
    pub replications: Option<u64>,
    /// Whether `tune` eliminated the settings before the last round.
    pub is_out: bool,
    /// Whether something limited the search.
    pub is_limited: bool,
}

impl SearchFile {
    /// Reads the rows of a folder and the label of their answers, or `None` if the file isn't there.
    pub fn read(&self, folder: &Path) -> Result<Option<(Vec<SearchRow>, &'static str)>> {
        let path = within(folder, &[self.file])?;
        if !path.is_file() {
            return Ok(None);
        }
        let table = CsvTable::read(&path)?;
        let (answer, label) = self.answer_column(&table, &path)?;
        let keys: Vec<&str> = table
            .file
            .names()
            .filter(|name| !COLUMNS.contains(name))
            .collect();
        let mut rows = Vec::new();
        for row in table.rows() {
            rows.push(read_row(&row, answer, &keys)?);
        }
        let mut rounds = Vec::new();
        for row in table.rows() {
            rounds.push(optional_number(&row, "round")?);
        }
        let last = rounds.iter().flatten().copied().fold(0.0, f64::max);
        for (row, round) in rows.iter_mut().zip(rounds) {
            row.is_out = round.is_some_and(|round| round < last);
        }
        Ok(Some((rows, label)))
    }

    /// The column with the answers that the table has.
    fn answer_column(&self, table: &CsvTable, path: &Path) -> Result<AnswerColumn> {
        for answer in self.answers {
            if table.file.names().any(|name| name == answer.0) {
                return Ok(*answer);
            }
        }
        let known: Vec<&str> = self.answers.iter().map(|(column, _)| *column).collect();
        Err(Error::mistake(
            path,
            format_args!(
                "has no column {}; {} writes it",
                known.join(" or "),
                self.command
            ),
        ))
    }
}

fn read_row(row: &CsvRow<'_>, answer: &str, keys: &[&str]) -> Result<SearchRow> {
    let half = optional_number(row, "knee_rps_ci")?;
    let mut swept: Vec<Swept> = Vec::new();
    for key in keys {
        let value = row.text(key)?;
        if !value.is_empty() {
            swept.push((key.to_string(), value.to_string()));
        }
    }
    let value = row.number(answer)?;
    let interval = match (half, value) {
        (Some(half), Some(middle)) => Some([middle - half, middle + half]),
        _ => None,
    };
    Ok(SearchRow {
        policy: row.text("policy")?.into(),
        swept,
        answer: value,
        interval,
        replications: optional_number(row, "replications")?.map(|runs| runs as u64),
        is_out: false,
        is_limited: row.text("caveat").is_ok_and(|why| !why.is_empty()),
    })
}

/// The number in a column, or `None` if the field is empty or there is no such column.
fn optional_number(row: &CsvRow<'_>, column: &str) -> Result<Option<f64>> {
    if row.text(column).is_err() {
        return Ok(None);
    }
    row.number(column)
}
