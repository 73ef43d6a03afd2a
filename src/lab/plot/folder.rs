//! A results folder as figures read it, and the series of its policies.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::names;
use super::options::PlotOptions;
use super::search_file::{KNEE, TUNE, WORKERS};
use super::style::Style;
use super::undrawn::{Undrawn, nothing};
use crate::base::error::{Error, Result};
use crate::base::units::Nanos;
use crate::lab::results::logs::{LogRow, RequestLine};
use crate::lab::results::read::{CsvRow, Log};
use crate::lab::results::saved_results::{SavedResults, read_json};
use crate::lab::results::sweep_keys::{self, Swept, distinct};

/// A results folder of a run or of a search.
#[derive(Debug)]
pub struct ResultsFolder {
    /// The scenario's name: the last part of the path, or more if several folders have that name.
    pub name: String,
    pub results: SavedResults,
    /// The folder's whole path.
    pub(super) full: PathBuf,
    /// The policies of the summary, then those that only searches have found.
    pub(super) policies: Vec<String>,
}

/// A policy's rows in one folder's summary, with one combination of swept keys.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    pub label: String,
    /// The style, which is the same in every figure of these inputs, whichever policies are chosen.
    pub style: Style,
    /// The policy and its swept keys; [`Series::label`] may extend it.
    pub name: String,
    pub policy: &'a str,
    /// The swept keys and their values. In figures by class, the class is the key `class`.
    pub swept: Vec<Swept>,
    /// The load, if a swept key is on the x axis; each load is then a series.
    pub(super) load: Option<&'a str>,
    /// The rows in the order of the x axis. Rows without a rate come last.
    pub rows: Vec<SeriesRow<'a>>,
    pub(super) folder: &'a ResultsFolder,
}

/// A row of a summary.
#[derive(Clone, Debug)]
pub struct SeriesRow<'a> {
    pub row: CsvRow<'a>,
    /// The row of all requests, if this is the row of a class; otherwise the same row.
    pub whole: CsvRow<'a>,
    /// The value of the swept key on the x axis.
    pub x: Option<String>,
    /// The rate, which is infinite for closed loops and traces.
    rate: f64,
}

impl ResultsFolder {
    pub fn open(path: &Path) -> Result<ResultsFolder> {
        let searches = [KNEE, WORKERS, TUNE];
        let results = SavedResults::open_or(path, &searches.each_ref().map(|search| search.file))?;
        let mut policies: Vec<String> =
            results.rows().map(|row| row.policy().to_string()).collect();
        for search in searches {
            if let Some((rows, _)) = search.read(path)? {
                policies.extend(rows.into_iter().map(|row| row.policy));
            }
        }
        // The whole path has a name even if the given one is `.` or `..`.
        let full = path
            .canonicalize()
            .map_err(|cause| Error::unreadable(path, &cause))?;
        let name = match full.file_name() {
            Some(name) => name.to_string_lossy().into_owned(),
            None => path.display().to_string(),
        };
        Ok(ResultsFolder {
            name,
            results,
            full,
            policies: distinct(policies),
        })
    }

    /// The kind of each policy, by its label, as the settings of the run or the search say.
    pub(super) fn kinds(&self) -> Vec<(String, String)> {
        let path = &self.results.path;
        let settings = self
            .results
            .settings()
            .or_else(|_| read_json(&path.join("knee.json")))
            .or_else(|_| read_json(&path.join("workers.json")))
            .unwrap_or_default();
        names::kinds(&settings)
            .into_iter()
            .map(|(label, kind)| (label.to_string(), kind.to_string()))
            .collect()
    }

    /// The last `count` parts of the path.
    pub(super) fn last_parts(&self, count: usize) -> String {
        let all: Vec<_> = self
            .full
            .iter()
            .map(|part| part.to_string_lossy())
            .collect();
        all[all.len().saturating_sub(count)..].join("/")
    }

    /// The rows of the summary, or of the classes in figures by class. Next to each is the row of all requests.
    fn rows(&self, options: &PlotOptions) -> Result<Vec<(CsvRow<'_>, CsvRow<'_>)>> {
        if !options.by_class {
            return Ok(self.results.rows().map(|row| (row, row)).collect());
        }
        let mut all = Vec::new();
        for row in self.results.class_rows() {
            let place = self.results.place(row)?;
            let whole = self.results.rows().find(|whole| {
                whole.policy() == row.policy()
                    && self.results.place(*whole).is_ok_and(|other| other == place)
            });
            match whole {
                Some(whole) => all.push((row, whole)),
                None => return Err(row.error("point", "is not in summary.csv")),
            }
        }
        if all.is_empty() {
            return Err(Error::mistake(
                &self.results.path,
                "--by-class: has no classes.csv; a scenario with [[class]] gives one",
            ));
        }
        Ok(all)
    }

    /// The folder's series, by policy in this order and then by swept values. They have no names and styles yet.
    pub(super) fn series(&self, options: &PlotOptions, order: &[&str]) -> Result<Vec<Series<'_>>> {
        let mut all: Vec<Series<'_>> = Vec::new();
        for (row, whole) in self.rows(options)? {
            let policy = row.policy();
            let mut swept = self.results.swept_of(row)?;
            if options.by_class {
                swept.insert(0, ("class".into(), row.text("class")?.into()));
            }
            let mut load = None;
            let mut x = None;
            if let Some(asked) = &options.x {
                let point = row.point()?;
                let is_shown = match &options.point {
                    Some(asked) => is_point(point, asked),
                    None => true,
                };
                let place = swept
                    .iter()
                    .position(|(key, _)| key == asked || sweep_keys::short_key(key) == asked);
                let Some(place) = place.filter(|_| is_shown) else {
                    continue;
                };
                load = Some(point);
                x = Some(swept.remove(place).1);
            }
            let series_row = SeriesRow {
                row,
                whole,
                x,
                rate: row.rate()?.unwrap_or(f64::INFINITY),
            };
            let known = all
                .iter_mut()
                .find(|s| s.policy == policy && s.swept == swept && s.load == load);
            match known {
                Some(series) => series.rows.push(series_row),
                None => all.push(Series {
                    label: String::new(),
                    style: Style::number(0),
                    name: String::new(),
                    policy,
                    swept,
                    load,
                    rows: vec![series_row],
                    folder: self,
                }),
            }
        }
        for series in &mut all {
            series.rows.sort_by(SeriesRow::compare);
        }
        all.sort_by(|a, b| compare_swept(&a.swept, &b.swept));
        // The sort is stable, so the series of a policy stay in the order of their swept values.
        all.sort_by_key(|series| order.iter().position(|policy| *policy == series.policy));
        Ok(all)
    }

    /// The latency objective of the scenario, or `None` if it has none or several.
    pub(super) fn slo(&self) -> Option<Nanos> {
        let settings = self.results.settings().ok()?;
        let has_classes = settings
            .pointer("/scenario/class")
            .and_then(Value::as_array)
            .is_some_and(|classes| !classes.is_empty());
        let is_swept = self.results.swept.iter().any(|key| key == "metrics.slo");
        if has_classes || is_swept {
            return None;
        }
        let text = settings.pointer("/scenario/metrics/slo")?.as_str()?;
        Nanos::parse(text).ok()
    }

    /// The model's name without its file or parameter, such as `dnn`.
    pub fn model(&self) -> Option<String> {
        let settings = self.results.settings().ok()?;
        let name = settings.pointer("/scenario/workload/model")?.as_str()?;
        name.split(':').next().map(String::from)
    }
}

/// Whether a point is the one asked for. A rate can be written in several ways.
pub fn is_point(point: &str, asked: &str) -> bool {
    point == asked
        || matches!((point.parse::<f64>(), asked.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
}

/// The order of two combinations of the same swept keys.
fn compare_swept(a: &[Swept], b: &[Swept]) -> Ordering {
    for ((_, a), (_, b)) in a.iter().zip(b) {
        let order = sweep_keys::order(a, b);
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

impl<'a> SeriesRow<'a> {
    /// The order of two rows along the x axis.
    fn compare(&self, other: &SeriesRow<'a>) -> Ordering {
        match (&self.x, &other.x) {
            (Some(a), Some(b)) => sweep_keys::order(a, b),
            _ => self.rate.total_cmp(&other.rate),
        }
    }
}

impl<'a> Series<'a> {
    pub fn is_of(&self, folder: &ResultsFolder) -> bool {
        std::ptr::eq(self.folder, folder)
    }

    /// The row of a point, which is a load or the name of the point's folder.
    pub fn row_at(&self, point: &str) -> Option<CsvRow<'a>> {
        self.series_row_at(point).map(|row| row.row)
    }

    fn series_row_at(&self, point: &str) -> Option<&SeriesRow<'a>> {
        let results = &self.folder.results;
        self.rows.iter().find(|one| {
            one.row.point().is_ok_and(|load| load == point)
                || results.place(one.row).is_ok_and(|place| place == point)
        })
    }

    /// Whether the run of a point was saturated.
    pub fn saturated_at(&self, point: &str) -> Result<bool> {
        match self.series_row_at(point) {
            Some(row) => row.whole.is_saturated(),
            None => Ok(false),
        }
    }

    /// The class, in figures by class.
    pub fn class(&self) -> Option<&str> {
        sweep_keys::value(&self.swept, "class")
    }

    /// The path of a point's log, and its rows if the log was written.
    pub fn log<T: LogRow>(&self, point: &str) -> Result<(PathBuf, Option<Log<T>>)> {
        let results = &self.folder.results;
        let place = match self.row_at(point) {
            Some(row) => results.place(row)?,
            None => point.into(),
        };
        Ok((
            results.file(self.policy, &place, T::FILE)?,
            results.log(self.policy, &place)?,
        ))
    }

    /// The path of a point's log of requests, and its rows.
    ///
    /// # Errors
    /// [`Undrawn::Nothing`] if the log was not written.
    pub fn requests(&self, point: &str) -> Result<(PathBuf, Log<RequestLine>), Undrawn> {
        let (path, rows) = self.log(point)?;
        match rows {
            Some(rows) => Ok((path, rows)),
            None => Err(nothing(format!(
                "there is no {}; a run writes it with output.requests = true",
                path.display()
            ))),
        }
    }
}
