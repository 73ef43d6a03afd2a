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

#[derive(Debug)]
pub struct SavedResults {
    pub path: PathBuf,
    /// `None` of a search.
    summary: Option<CsvTable>,
    /// The rows by class, if requests have classes.
    classes: Option<CsvTable>,
    /// The columns of swept keys.
    pub swept: Vec<String>,
}

impl SavedResults {
    pub fn open(path: &Path) -> Result<SavedResults> {
        SavedResults::open_or(path, &[])
    }

    /// One of these files may be there instead of a summary.
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
            return Err(Error::at(
                path,
                format_args!("has no summary.csv{}", scenarios_below(path)),
            ));
        }
        let summary = CsvTable::read(&file)?;
        summary
            .rows()
            .try_for_each(|row| row.text("policy").map(drop))?;
        let classes = within(path, &["classes.csv"])?;
        let classes = classes
            .is_file()
            .then(|| CsvTable::read(&classes))
            .transpose()?;
        classes
            .iter()
            .flat_map(CsvTable::rows)
            .try_for_each(|row| row.text("policy").map(drop))?;
        let mut saved = SavedResults {
            path: path.to_path_buf(),
            summary: Some(summary),
            classes,
            swept: Vec::new(),
        };
        // A summary alone, without its settings, is of no sweep. Each swept key concerns a policy of the first scenario.
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
        let is_swept = |name: &&str| pairs.iter().any(|pair| pair[0] == *name);
        let names = saved
            .summary
            .iter()
            .flat_map(|summary| summary.file.names());
        saved.swept = names.filter(is_swept).map(String::from).collect();
        Ok(saved)
    }

    /// The swept keys of a row.
    pub fn swept_of(&self, row: CsvRow<'_>) -> Result<Vec<Swept>> {
        let values = self
            .swept
            .iter()
            .map(|key| Ok((key.clone(), row.text(key)?.to_string())));
        let concern = |pair: &Result<Swept>| !matches!(pair, Ok((_, value)) if value.is_empty());
        values.filter(concern).collect()
    }

    /// The name of the folder of a row's point.
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

    /// A file of a policy at a place.
    pub fn file(&self, policy: &str, place: &str, name: &str) -> Result<PathBuf> {
        within(&self.path, &[&folder_name(policy), place, name])
    }

    /// `None` if it was not written.
    pub fn log<T: LogRow>(&self, policy: &str, place: &str) -> Result<Option<Log<T>>> {
        Log::open_if_there(&self.file(policy, place, T::FILE)?)
    }

    /// `run.json`: the scenario and what determined its results.
    pub fn settings(&self) -> Result<Value> {
        read_json(&within(&self.path, &["run.json"])?)
    }

    /// `None` for runs on a real device.
    pub fn bounds(&self) -> Result<Option<Bounds>> {
        let path = within(&self.path, &["bounds.json"])?;
        let Ok(text) = fs::read_to_string(&path) else {
            return Ok(None);
        };
        let parsed = serde_json::from_str(&text).map(Some);
        parsed.map_err(|cause| Error::at(&path, format_args!("{cause}; run the scenario again")))
    }
}

/// A file in a results folder. Fails if it or a folder in between is a link: a stranger's folder may have one to any file.
pub fn within(folder: &Path, parts: &[&str]) -> Result<PathBuf> {
    let mut path = folder.to_path_buf();
    for part in parts {
        path.push(part);
        if path.is_symlink() {
            return Err(Error::at(
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
        .map_err(|cause| Error::at(path, format_args!("is not JSON: {cause}")))
}

/// For a user who named the parent folder of results.
fn scenarios_below(path: &Path) -> String {
    let entries = fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let mut below: Vec<PathBuf> = entries
        .filter(|path| path.join("summary.csv").is_file())
        .collect();
    below.sort();
    match below.first() {
        None => {
            "; name the folder that a run wrote its results to, such as results/sim/NAME".into()
        }
        Some(first) => {
            format!(
                "; it holds the results of {} scenarios: name one, such as {}",
                below.len(),
                first.display()
            )
        }
    }
}

/// A row of a summary.
impl<'a> CsvRow<'a> {
    pub fn policy(&self) -> &'a str {
        self.text("policy")
            .expect("a summary that is open has policies")
    }

    pub fn point(&self) -> Result<&'a str> {
        self.text("point")
    }

    /// `None` if the field is empty, such as a quantile of too few samples.
    pub fn metric(&self, metric: Metric) -> Result<Option<f64>> {
        self.number(metric.name())
    }

    /// Earlier summaries lack columns.
    pub fn metric_if_known(&self, metric: Metric) -> Result<Option<f64>> {
        self.text(metric.name())
            .map_or(Ok(None), |_| self.metric(metric))
    }

    /// The ends of the 95 % interval over replications; `None` without replications.
    pub fn interval(&self, metric: Metric) -> Result<Option<[f64; 2]>> {
        let column = format!("{}_ci", metric.name());
        let half = self
            .text(&column)
            .map_or(Ok(None), |_| self.number(&column))?;
        Ok(half
            .zip(self.metric(metric)?)
            .map(|(half, middle)| [middle - half, middle + half]))
    }

    /// Runs behind the row; 1 in earlier summaries.
    pub fn replications(&self) -> Result<u64> {
        self.text("replications")
            .map_or(Ok(1), |_| self.whole("replications"))
    }

    /// Whether requests were handed over in time; simulated ones always are.
    pub fn is_valid(&self) -> Result<bool> {
        match self.text("valid") {
            Ok("true" | "") | Err(_) => Ok(true),
            Ok("false") => Ok(false),
            Ok(other) => {
                Err(self.error("valid", &format!("\"{other}\" is neither true nor false")))
            }
        }
    }

    /// `None` for points without a rate and for closed loops, whose rate depends on the system.
    pub fn rate(&self) -> Result<Option<f64>> {
        let closed = self
            .point()
            .is_ok_and(|point| point.starts_with("clients-"));
        Ok(self.metric(Metric::Offered)?.filter(|_| !closed))
    }

    /// Whether requests were turned away.
    pub fn rejects(&self) -> Result<bool> {
        Ok(self
            .metric_if_known(Metric::Rejected)?
            .is_some_and(|requests| requests > 0.0))
    }

    /// Requests that the metrics leave out.
    pub fn warmup(&self) -> Result<u64> {
        Ok(self
            .metric_if_known(Metric::Warmup)?
            .map_or(0, |requests| requests.round() as u64))
    }

    /// Summaries without the column: less than 95 % of the offered rate was delivered.
    pub fn saturated(&self) -> Result<bool> {
        match self.text("saturated") {
            Ok("true") => Ok(true),
            Ok("false" | "") => Ok(false),
            Ok(other) => Err(self.error(
                "saturated",
                &format!("\"{other}\" is neither true nor false"),
            )),
            Err(_) => {
                let (offered, served) = (
                    self.metric(Metric::Offered)?,
                    self.metric(Metric::Throughput)?,
                );
                Ok(offered
                    .zip(served)
                    .is_some_and(|(offered, served)| served < 0.95 * offered))
            }
        }
    }
}
