//! The inputs of figures (results folders and single files), and the policies and points chosen from them.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::points::{is_point, point};
use super::searched::{KNEE, TUNE, WORKERS};
use super::style::Style;
use super::{PlotOptions, Undrawn, names, nothing};
use crate::base::error::{Error, Result};
use crate::base::units::Nanos;
use crate::lab::results::logs::{LogRow, RequestLine};
use crate::lab::results::read::{CsvRow, Log};
use crate::lab::results::saved_results::{SavedResults, read_json};
use crate::lab::results::sweep_keys::{self, Swept, distinct};

/// With a swept key on the x axis; if all loads have more, one load is shown.
const MOST_SERIES: usize = 8;

#[derive(Debug)]
pub struct PlotInputs {
    pub folders: Vec<ResultsFolder>,
    pub files: Vec<PathBuf>,
    /// The place of each policy in the palette.
    places: Vec<(String, usize)>,
}

#[derive(Debug)]
pub struct ResultsFolder {
    /// The scenario's name: the last part of the path, or more if several folders have that name.
    pub name: String,
    pub results: SavedResults,
    pub(super) full: PathBuf,
    /// The policies of the summary, then those that only searches have found.
    policies: Vec<String>,
}

/// A policy's rows in one folder's summary, with one combination of swept keys.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    pub label: String,
    /// The same in every figure of these inputs, whatever policies are chosen.
    pub style: Style,
    /// The policy and its swept keys; [`Series::label`] may extend it.
    pub name: String,
    pub policy: &'a str,
    /// The swept keys and their values. In figures by class, the class is the key `class`.
    pub swept: Vec<Swept>,
    /// With a swept key on the x axis, each load is a series.
    pub(super) load: Option<&'a str>,
    /// In the order of the x axis; rows without a rate come last.
    pub rows: Vec<SeriesRow<'a>>,
    pub(super) folder: &'a ResultsFolder,
}

#[derive(Clone, Debug)]
pub struct SeriesRow<'a> {
    pub row: CsvRow<'a>,
    /// The row of all requests, if this is the row of a class; otherwise the same row.
    pub whole: CsvRow<'a>,
    /// The value of the swept key on the x axis.
    pub x: Option<String>,
    /// Infinite for closed loops and traces.
    rate: f64,
}

/// A folder and its series.
pub type Part<'s> = (&'s ResultsFolder, Vec<&'s Series<'s>>);

impl PlotInputs {
    /// Results folders, and files of lengths or traces.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<PlotInputs> {
        let mut inputs = PlotInputs {
            folders: Vec::new(),
            files: Vec::new(),
            places: Vec::new(),
        };
        for path in paths.iter().map(AsRef::as_ref) {
            let kind = std::fs::metadata(path).map_err(|cause| Error::unreadable(path, &cause))?;
            if !kind.is_dir() {
                inputs.files.push(path.to_path_buf());
                continue;
            }
            let folder = ResultsFolder::open(path)?;
            if inputs.folders.iter().any(|other| other.full == folder.full) {
                return Err(Error::input(format!(
                    "{}: this results folder is named twice",
                    path.display()
                )));
            }
            inputs.folders.push(folder);
        }
        inputs.tell_apart();
        inputs.places = names::places(&inputs.kinds());
        Ok(inputs)
    }

    /// The policies of all folders, with their kinds where the settings say them.
    fn kinds(&self) -> Vec<(String, Option<String>)> {
        let mut all: Vec<(String, Option<String>)> = Vec::new();
        for folder in &self.folders {
            let of_search = |file| read_json(&folder.results.path.join(file));
            let settings = folder
                .results
                .settings()
                .or_else(|_| of_search("knee.json"));
            let settings = settings
                .or_else(|_| of_search("workers.json"))
                .unwrap_or_default();
            let kinds = names::kinds(&settings);
            for policy in &folder.policies {
                let kind = kinds
                    .iter()
                    .find(|(label, _)| label == policy)
                    .map(|(_, kind)| kind.to_string());
                match all.iter_mut().find(|(label, _)| label == policy) {
                    Some((_, known)) => *known = known.take().or(kind),
                    None => all.push((policy.clone(), kind)),
                }
            }
        }
        all
    }

    /// Extends equal names by as many parts of the paths as make them different.
    fn tell_apart(&mut self) {
        let deepest = self
            .folders
            .iter()
            .map(|folder| folder.full.iter().count())
            .max()
            .unwrap_or(0);
        for parts in 2..=deepest {
            let names: Vec<String> = self
                .folders
                .iter()
                .map(|folder| folder.name.clone())
                .collect();
            for folder in &mut self.folders {
                if names.iter().filter(|other| **other == folder.name).count() > 1 {
                    let all: Vec<_> = folder
                        .full
                        .iter()
                        .map(|part| part.to_string_lossy())
                        .collect();
                    folder.name = all[all.len().saturating_sub(parts)..].join("/");
                }
            }
        }
    }

    /// All that appear in legends.
    pub fn names(&self) -> Vec<String> {
        let policies = self
            .folders
            .iter()
            .flat_map(|folder| folder.policies.clone());
        let folders = self.folders.iter().map(|folder| folder.name.clone());
        policies
            .chain(folders)
            .chain(self.files.iter().map(|file| stem(file)))
            .collect()
    }

    /// The swept keys, if no folder has several loads to draw figures over.
    pub fn keys_of_one_load(&self) -> Vec<String> {
        if self.has_no_summary() {
            return Vec::new();
        }
        let loads = |folder: &ResultsFolder| {
            distinct(folder.results.rows().filter_map(|row| row.point().ok())).len()
        };
        if self.folders.iter().any(|folder| loads(folder) > 1) {
            return Vec::new();
        }
        self.swept_keys().into_iter().map(String::from).collect()
    }

    fn swept_keys(&self) -> Vec<&str> {
        distinct(
            self.folders
                .iter()
                .flat_map(|folder| &folder.results.swept)
                .map(String::as_str),
        )
    }

    /// The chosen policies, in the summaries' order or the one asked for. With panels, equal policies of several folders have
    /// one label and one style.
    pub fn series(&self, options: &PlotOptions) -> Result<Vec<Series<'_>>, Undrawn> {
        let Some(first) = self.folders.first() else {
            return Err(nothing(
                "this kind of figure needs a results folder, the one with summary.csv",
            ));
        };
        let known: Vec<&str> = self
            .places
            .iter()
            .map(|(policy, _)| policy.as_str())
            .collect();
        let order = names::ordered(&options.look.order, &known)?;
        let mut all = Vec::new();
        for folder in &self.folders {
            all.extend(folder.series(options, &order)?);
        }
        let present = distinct(all.iter().map(|s| s.policy));
        let chosen = names::chosen("--policies", &options.policies, &present)?;
        let is_chosen = |s: &Series<'_>| chosen.contains(&s.policy);
        if options.x.is_some() && all.iter().filter(|s| is_chosen(s)).count() > MOST_SERIES {
            let point = point(&all, options)?;
            all.retain(|s| s.load == Some(point.as_str()));
        }
        self.name(&mut all, options);
        match (&options.x, all.is_empty()) {
            (Some(key), true) => Err(self.not_swept(key).into()),
            (None, true) if first.results.has_summary() => Err(nothing(format!(
                "{}: has no rows",
                first.results.path.join("summary.csv").display()
            ))),
            (None, true) => Err(nothing(format!(
                "{}: has no summary.csv",
                first.results.path.display()
            ))),
            _ => Ok(all.into_iter().filter(is_chosen).collect()),
        }
    }

    /// The style of a policy's combination of swept keys with this number. All have the policy's colour; the first
    /// has its line and marker, too.
    pub fn style(&self, policy: &str, combination: usize) -> Style {
        let place = self
            .places
            .iter()
            .find(|(known, _)| known == policy)
            .map_or(0, |(_, place)| *place);
        Style {
            color: Style::of(place).color,
            ..Style::of(place + combination)
        }
    }

    /// Whether all folders are of searches.
    pub fn has_no_summary(&self) -> bool {
        self.folders
            .iter()
            .all(|folder| !folder.results.has_summary())
    }

    /// Labels and styles.
    fn name(&self, all: &mut [Series<'_>], options: &PlotOptions) {
        let loads = distinct(all.iter().filter_map(|s| s.load)).len();
        let mut of_policy: Vec<(&str, &str)> = Vec::new();
        for s in all.iter_mut() {
            let folder = if options.panels {
                s.folder.full.to_str().unwrap_or_default()
            } else {
                ""
            };
            let before = of_policy
                .iter()
                .filter(|other| **other == (s.policy, folder))
                .count();
            of_policy.push((s.policy, folder));
            s.style = self.style(s.policy, before);
            let name = sweep_keys::label(s.policy, &s.swept);
            s.name = match options.look.name(&name) {
                same if same == name => sweep_keys::label(options.look.name(s.policy), &s.swept),
                other => other.into(),
            };
            s.name.extend(
                s.load
                    .filter(|_| loads > 1)
                    .map(|load| format!(", at {load}")),
            );
        }
        let names: Vec<String> = all.iter().map(|s| s.name.clone()).collect();
        for s in all {
            s.label = match names.iter().filter(|other| **other == s.name).count() {
                several if several > 1 && !options.panels => {
                    format!("{}: {}", options.look.name(&s.folder.name), s.name)
                }
                _ => s.name.clone(),
            };
        }
    }

    fn not_swept(&self, key: &str) -> Error {
        Error::input(match self.swept_keys().join(", ") {
            none if none.is_empty() => {
                format!(
                    "--x {key}: these results are of no sweep; run the scenario with --sweep {key}=V1,V2"
                )
            }
            keys => format!(
                "--x {key}: is not a swept key of these results at this point; there are {keys}"
            ),
        })
    }

    /// The compared point, and the chosen policies that have it.
    pub fn at_point(&self, options: &PlotOptions) -> Result<(String, Vec<Series<'_>>), Undrawn> {
        let mut series = self.series(options)?;
        let point = point(&series, options)?;
        series.retain(|s| s.row_at(&point).is_some());
        Ok((point, series))
    }

    /// The points as of [`PlotInputs::at_point`]. With panels, each folder has its own, with the folder's name.
    pub fn at_points(
        &self,
        options: &PlotOptions,
    ) -> Result<Vec<(String, String, Vec<Series<'_>>)>, Undrawn> {
        if !options.panels {
            let (point, series) = self.at_point(options)?;
            return Ok(vec![(String::new(), point, series)]);
        }
        let series = self.series(options)?;
        let of_folder = |folder: &ResultsFolder| {
            let mut own: Vec<Series<'_>> =
                series.iter().filter(|s| s.is_of(folder)).cloned().collect();
            let point = point(&own, options)?;
            own.retain(|s| s.row_at(&point).is_some());
            Ok((options.look.name(&folder.name).to_string(), point, own))
        };
        let with_series = self
            .folders
            .iter()
            .filter(|folder| series.iter().any(|s| s.is_of(folder)));
        with_series.map(of_folder).collect()
    }

    /// The load that figures show because none is chosen; `None` if they show all, or there is only one.
    pub fn default_point(&self, options: &PlotOptions) -> Option<String> {
        let loads = self
            .folders
            .iter()
            .flat_map(|folder| folder.results.rows())
            .filter_map(|row| row.point().ok());
        let several = distinct(loads).len() > 1 && options.point.is_none();
        let series = self.series(options).ok().filter(|_| several)?;
        let shown = distinct(series.iter().filter_map(|s| s.load));
        match options.x {
            Some(_) => shown
                .first()
                .filter(|_| shown.len() == 1)
                .map(ToString::to_string),
            None => point(&series, options).ok(),
        }
    }

    /// Of the scenarios, if it is the same for all results.
    pub fn slo(&self) -> Option<Nanos> {
        let first = self.folders.first()?.slo();
        first.filter(|_| self.folders.iter().all(|folder| folder.slo() == first))
    }

    /// The policies of all folders, each once with its style, and the series of each folder that has some.
    pub fn by_folder<'s>(
        &'s self,
        series: &'s [Series<'s>],
    ) -> (Vec<(&'s str, Style)>, Vec<Part<'s>>) {
        let mut policies: Vec<(&str, Style)> = Vec::new();
        for s in series {
            if policies.iter().all(|(name, _)| *name != s.name) {
                policies.push((&s.name, s.style));
            }
        }
        let of = |folder| (folder, series.iter().filter(|s| s.is_of(folder)).collect());
        let parts: Vec<Part<'_>> = self.folders.iter().map(of).collect();
        (
            policies,
            parts
                .into_iter()
                .filter(|(_, own)| !own.is_empty())
                .collect(),
        )
    }
}

pub fn stem(path: &Path) -> String {
    path.file_stem()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

impl ResultsFolder {
    fn open(path: &Path) -> Result<ResultsFolder> {
        let searches = [KNEE, WORKERS, TUNE];
        let results = SavedResults::open_or(path, &searches.each_ref().map(|search| search.file))?;
        let mut policies: Vec<String> =
            results.rows().map(|row| row.policy().to_string()).collect();
        for search in searches {
            policies.extend(
                search
                    .read(path)?
                    .into_iter()
                    .flat_map(|(rows, _)| rows)
                    .map(|row| row.policy),
            );
        }
        let policies = distinct(policies);
        // `.` and `..` have no name.
        let full = path
            .canonicalize()
            .map_err(|cause| Error::unreadable(path, &cause))?;
        let name = full.file_name().map_or_else(
            || path.display().to_string(),
            |n| n.to_string_lossy().into_owned(),
        );
        Ok(ResultsFolder {
            name,
            results,
            full,
            policies,
        })
    }

    /// Those of the summary; by class, those of classes, each with that of all requests.
    fn rows(&self, options: &PlotOptions) -> Result<Vec<(CsvRow<'_>, CsvRow<'_>)>> {
        if !options.by_class {
            return Ok(self.results.rows().map(|row| (row, row)).collect());
        }
        let mut all = Vec::new();
        for row in self.results.class_rows() {
            let place = (row.policy(), self.results.place(row)?);
            let is_same = |whole: &CsvRow<'_>| {
                self.results
                    .place(*whole)
                    .is_ok_and(|at| (whole.policy(), at) == place)
            };
            let whole = self
                .results
                .rows()
                .find(is_same)
                .ok_or_else(|| row.error("point", "is not in summary.csv"))?;
            all.push((row, whole));
        }
        match all.is_empty() {
            true => Err(Error::at(
                &self.results.path,
                "--by-class: has no classes.csv; a scenario with [[class]] gives one",
            )),
            false => Ok(all),
        }
    }

    /// The folder's series, by policy in this order and then by swept values. They have no names and styles yet.
    fn series(&self, options: &PlotOptions, order: &[&str]) -> Result<Vec<Series<'_>>> {
        let mut all: Vec<Series<'_>> = Vec::new();
        for (row, whole) in self.rows(options)? {
            let (policy, mut swept, mut load, mut x) =
                (row.policy(), self.results.swept_of(row)?, None, None);
            if options.by_class {
                swept.insert(0, ("class".into(), row.text("class")?.into()));
            }
            if let Some(asked) = &options.x {
                let point = row.point()?;
                let key = swept
                    .iter()
                    .position(|(key, _)| key == asked || sweep_keys::short_key(key) == asked);
                let Some(key) = key.filter(|_| {
                    options
                        .point
                        .as_ref()
                        .is_none_or(|asked| is_point(point, asked))
                }) else {
                    continue;
                };
                (load, x) = (Some(point), Some(swept.remove(key).1));
            }
            let at = all
                .iter()
                .position(|s| s.policy == policy && s.swept == swept && s.load == load);
            let at = at.unwrap_or_else(|| {
                let (label, name, style, rows) =
                    (String::new(), String::new(), Style::of(0), Vec::new());
                all.push(Series {
                    label,
                    style,
                    name,
                    policy,
                    swept,
                    load,
                    rows,
                    folder: self,
                });
                all.len() - 1
            });
            all[at].rows.push(SeriesRow {
                row,
                whole,
                x,
                rate: row.rate()?.unwrap_or(f64::INFINITY),
            });
        }
        for s in &mut all {
            s.rows.sort_by(|a, b| match (&a.x, &b.x) {
                (Some(a), Some(b)) => sweep_keys::order(a, b),
                _ => a.rate.total_cmp(&b.rate),
            });
        }
        let place = |s: &Series<'_>| order.iter().position(|policy| *policy == s.policy);
        all.sort_by(|a, b| {
            let values = a
                .swept
                .iter()
                .zip(&b.swept)
                .map(|((_, a), (_, b))| sweep_keys::order(a, b));
            place(a)
                .cmp(&place(b))
                .then(values.fold(Ordering::Equal, Ordering::then))
        });
        Ok(all)
    }

    /// `None` if the scenario has none, or several.
    fn slo(&self) -> Option<Nanos> {
        let settings = self.results.settings().ok()?;
        let classes = settings
            .pointer("/scenario/class")
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        let several = classes > 0 || self.results.swept.iter().any(|key| key == "metrics.slo");
        Nanos::parse(settings.pointer("/scenario/metrics/slo")?.as_str()?)
            .ok()
            .filter(|_| !several)
    }

    /// The model's name without its file or parameter, such as `dnn`.
    pub fn model(&self) -> Option<String> {
        let name = self
            .results
            .settings()
            .ok()?
            .pointer("/scenario/workload/model")?
            .as_str()?
            .to_string();
        name.split(':').next().map(String::from)
    }
}

impl<'a> Series<'a> {
    pub fn is_of(&self, folder: &ResultsFolder) -> bool {
        std::ptr::eq(self.folder, folder)
    }

    /// `point`: a load, or also the name of the point's folder.
    pub fn row_at(&self, point: &str) -> Option<CsvRow<'a>> {
        let place = |row| self.folder.results.place(row);
        let is_at = |row: &CsvRow<'a>| {
            row.point().is_ok_and(|load| load == point)
                || place(*row).is_ok_and(|place| place == point)
        };
        self.rows.iter().map(|row| row.row).find(is_at)
    }

    /// Whether the run of a point was saturated.
    pub fn saturated_at(&self, point: &str) -> Result<bool> {
        let at = |row: &&SeriesRow<'a>| {
            let place = self.folder.results.place(row.row);
            row.row.point().is_ok_and(|load| load == point)
                || place.is_ok_and(|place| place == point)
        };
        self.rows
            .iter()
            .find(at)
            .map_or(Ok(false), |row| row.whole.saturated())
    }

    /// The class, in figures by class.
    pub fn class(&self) -> Option<&str> {
        sweep_keys::value(&self.swept, "class")
    }

    /// Where a log of a point is, and its rows, if it was written.
    pub fn log<T: LogRow>(&self, point: &str) -> Result<(PathBuf, Option<Log<T>>)> {
        let results = &self.folder.results;
        let place = self
            .row_at(point)
            .map_or(Ok(point.into()), |row| results.place(row))?;
        Ok((
            results.file(self.policy, &place, T::FILE)?,
            results.log(self.policy, &place)?,
        ))
    }

    /// [`Undrawn::Nothing`] if it was not written.
    pub fn requests(&self, point: &str) -> Result<(PathBuf, Log<RequestLine>), Undrawn> {
        let (path, rows) = self.log(point)?;
        let hint = "a run writes it with output.requests = true";
        let rows =
            rows.ok_or_else(|| nothing(format!("there is no {}; {hint}", path.display())))?;
        Ok((path, rows))
    }
}
