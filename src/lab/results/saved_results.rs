//! A results folder, read back: the rows of its summary, its settings and its logs.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::columns::Metric;
use super::logs::LogRow;
use super::read::{CsvRow, CsvTable, Log};
use super::sweep_keys::{self, Swept};
use crate::base::error::{Error, Result};
use crate::base::files::folder_name;
use crate::core::summary::bounds::Bounds;

/// The files of a results folder.
#[derive(Debug)]
pub struct SavedResults {
    pub path: PathBuf,
    /// The rows of the summary, or `None` if the folder has the results of a search.
    summary: Option<CsvTable>,
    /// The rows of each class, if requests have classes.
    classes: Option<CsvTable>,
    /// The names of the columns that hold swept keys.
    pub swept: Vec<String>,
}

impl SavedResults {
    pub fn open(path: &Path) -> Result<SavedResults> {
        SavedResults::open_or(path, &[])
    }

    /// Opens a folder that has a summary or, instead of it, one of these files.
    pub fn open_or(path: &Path, others: &[&str]) -> Result<SavedResults> {
        let file = within(path, &["summary.csv"])?;
        if !file.is_file() {
            if others.iter().any(|other| path.join(other).is_file()) {
                return Ok(SavedResults {
                    path: path.to_path_buf(),
                    summary: None,
                    classes: None,
                    swept: Vec::new(),
                });
            }
            return Err(Error::mistake(
                path,
                format_args!("has no summary.csv{}", scenarios_below(path)),
            ));
        }
        let summary = CsvTable::read(&file)?;
        for row in summary.rows() {
            row.text("policy")?;
        }
        let classes = within(path, &["classes.csv"])?;
        let classes = if classes.is_file() {
            Some(CsvTable::read(&classes)?)
        } else {
            None
        };
        for row in classes.iter().flat_map(CsvTable::rows) {
            row.text("policy")?;
        }
        let mut saved = SavedResults {
            path: path.to_path_buf(),
            summary: Some(summary),
            classes,
            swept: Vec::new(),
        };
        // A summary without settings has no swept keys. Every swept key is listed with a policy of the first scenario.
        let settings = saved.settings().unwrap_or_default();
        let policies = settings
            .pointer("/scenario/policy")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let pairs: Vec<&Value> = policies
            .filter_map(|policy| policy["swept"].as_array())
            .flatten()
            .collect();
        let names = saved
            .summary
            .iter()
            .flat_map(|summary| summary.file.names());
        saved.swept = names
            .filter(|name| pairs.iter().any(|pair| pair[0] == *name))
            .map(String::from)
            .collect();
        Ok(saved)
    }

    /// The swept keys of a row.
    pub fn swept_of(&self, row: CsvRow<'_>) -> Result<Vec<Swept>> {
        let mut swept = Vec::new();
        for key in &self.swept {
            // A key of another policy has no value.
            let value = row.text(key)?;
            if !value.is_empty() {
                swept.push((key.clone(), value.to_string()));
            }
        }
        Ok(swept)
    }

    /// The name of the folder that holds a row's point.
    pub fn place(&self, row: CsvRow<'_>) -> Result<String> {
        Ok(sweep_keys::point_folder(row.point()?, &self.swept_of(row)?))
    }

    pub fn rows(&self) -> impl Iterator<Item = CsvRow<'_>> {
        self.summary.iter().flat_map(CsvTable::rows)
    }

    /// The rows of each class. There are none without classes.
    pub fn class_rows(&self) -> impl Iterator<Item = CsvRow<'_>> {
        self.classes.iter().flat_map(CsvTable::rows)
    }

    pub fn has_summary(&self) -> bool {
        self.summary.is_some()
    }

    /// A file in the folder of a policy's point.
    pub fn file(&self, policy: &str, place: &str, name: &str) -> Result<PathBuf> {
        within(&self.path, &[&folder_name(policy), place, name])
    }

    /// Opens a log of a policy's point, or returns `None` if it was not written.
    pub fn log<T: LogRow>(&self, policy: &str, place: &str) -> Result<Option<Log<T>>> {
        Log::open_if_there(&self.file(policy, place, T::FILE)?)
    }

    /// The contents of `run.json`: the scenario and what determined its results.
    pub fn settings(&self) -> Result<Value> {
        read_json(&within(&self.path, &["run.json"])?)
    }

    /// The contents of `bounds.json`, or `None` for runs on a real device.
    pub fn bounds(&self) -> Result<Option<Bounds>> {
        let path = within(&self.path, &["bounds.json"])?;
        let Ok(text) = fs::read_to_string(&path) else {
            return Ok(None);
        };
        let parsed = serde_json::from_str(&text).map(Some);
        parsed
            .map_err(|cause| Error::mistake(&path, format_args!("{cause}; run the scenario again")))
    }
}

/// The path of a file in a results folder. Fails if it or a folder in between is a link, because a link in a folder
/// from elsewhere could point to any file.
pub fn within(folder: &Path, parts: &[&str]) -> Result<PathBuf> {
    let mut path = folder.to_path_buf();
    for part in parts {
        path.push(part);
        if path.is_symlink() {
            return Err(Error::mistake(
                &path,
                "is a link; results are read only from their own folder",
            ));
        }
    }
    Ok(path)
}

pub fn read_json(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).map_err(|cause| Error::unreadable(path, &cause))?;
    serde_json::from_str(&text)
        .map_err(|cause| Error::mistake(path, format_args!("is not JSON: {cause}")))
}

/// The end of the error message about a folder without results, which may be the parent of results folders.
pub fn scenarios_below(path: &Path) -> String {
    let entries = fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let mut below: Vec<PathBuf> = entries
        .filter(|path| path.join("summary.csv").is_file())
        .collect();
    below.sort();
    match &*below {
        [] => "; name the folder that a run wrote its results to, such as results/sim/NAME".into(),
        [only] => format!("; the results are in {}", only.display()),
        [first, ..] => format!(
            "; it holds the results of {} scenarios: name one, such as {}",
            below.len(),
            first.display()
        ),
    }
}

/// The fields of a row of a summary.
impl<'a> CsvRow<'a> {
    pub fn policy(&self) -> &'a str {
        self.text("policy")
            .expect("a summary that is open has policies")
    }

    pub fn point(&self) -> Result<&'a str> {
        self.text("point")
    }

    /// The value of a metric, or `None` if the field is empty, such as a quantile of too few samples.
    pub fn metric(&self, metric: Metric) -> Result<Option<f64>> {
        self.number(metric.name())
    }

    /// The value of a metric, or `None` if the field is empty or the summary, of an earlier version, lacks the column.
    pub fn metric_if_known(&self, metric: Metric) -> Result<Option<f64>> {
        self.text(metric.name())
            .map_or(Ok(None), |_| self.metric(metric))
    }

    /// The ends of the 95 % interval over replications, or `None` without replications.
    pub fn interval(&self, metric: Metric) -> Result<Option<[f64; 2]>> {
        let column = format!("{}_ci", metric.name());
        let half = self
            .text(&column)
            .map_or(Ok(None), |_| self.number(&column))?;
        Ok(half
            .zip(self.metric(metric)?)
            .map(|(half, middle)| [middle - half, middle + half]))
    }

    /// The number of runs that the row combines; 1 in summaries of earlier versions.
    pub fn replications(&self) -> Result<u64> {
        self.text("replications")
            .map_or(Ok(1), |_| self.whole("replications"))
    }

    /// Whether requests were handed over in time, as they always are in a simulation.
    pub fn is_valid(&self) -> Result<bool> {
        match self.text("valid") {
            Ok("true" | "") | Err(_) => Ok(true),
            Ok("false") => Ok(false),
            Ok(other) => {
                Err(self.error("valid", &format!("\"{other}\" is neither true nor false")))
            }
        }
    }

    /// The offered rate, or `None` for points without a rate and for closed loops, whose rate depends on the system.
    pub fn rate(&self) -> Result<Option<f64>> {
        let closed = self
            .point()
            .is_ok_and(|point| point.starts_with("clients-"));
        Ok(self.metric(Metric::Offered)?.filter(|_| !closed))
    }

    /// Whether requests were rejected.
    pub fn rejects(&self) -> Result<bool> {
        Ok(self
            .metric_if_known(Metric::Rejected)?
            .is_some_and(|requests| requests > 0.0))
    }

    /// The number of requests in the warm-up, which the metrics leave out.
    pub fn warmup(&self) -> Result<u64> {
        Ok(self
            .metric_if_known(Metric::Warmup)?
            .map_or(0, |requests| requests.round() as u64))
    }

    /// Whether the system did not keep up. Without the column, it did not if it served less than 95 % of the offered
    /// rate.
    pub fn is_saturated(&self) -> Result<bool> {
        match self.text("saturated") {
            Ok("true") => Ok(true),
            Ok("false" | "") => Ok(false),
            Ok(other) => Err(self.error(
                "saturated",
                &format!("\"{other}\" is neither true nor false"),
            )),
            Err(_) => {
                let offered = self.metric(Metric::Offered)?;
                let served = self.metric(Metric::Throughput)?;
                Ok(offered
                    .zip(served)
                    .is_some_and(|(offered, served)| served < 0.95 * offered))
            }
        }
    }
}
