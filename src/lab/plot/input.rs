//! The inputs of figures (results folders and single files), and the policies and points chosen from them.

use std::path::{Path, PathBuf};

use super::folder::{ResultsFolder, Series};
use super::look::Look;
use super::names;
use super::options::PlotOptions;
use super::points::choose_point;
use super::style::Style;
use super::undrawn::{Undrawn, nothing};
use crate::base::error::{Error, Result};
use crate::base::units::Nanos;
use crate::lab::results::sweep_keys::{self, distinct};

/// The largest number of series of a figure with a swept key on the x axis and several loads. If there are more, it
/// shows one load.
const MOST_SERIES: usize = 8;

/// The inputs of figures.
#[derive(Debug)]
pub struct PlotInputs {
    pub folders: Vec<ResultsFolder>,
    pub files: Vec<PathBuf>,
    /// The place of each policy in the palette.
    places: Vec<(String, usize)>,
}

/// The series of a folder.
pub struct FolderSeries<'s> {
    pub folder: &'s ResultsFolder,
    pub series: Vec<&'s Series<'s>>,
}

/// The series that have a point.
pub struct PointSeries<'a> {
    /// The folder's name, if the figure has a panel for each folder.
    pub heading: String,
    pub point: String,
    pub series: Vec<Series<'a>>,
}

impl PlotInputs {
    /// Opens results folders, and files of lengths or traces.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<PlotInputs> {
        let mut inputs = PlotInputs {
            folders: Vec::new(),
            files: Vec::new(),
            places: Vec::new(),
        };
        for path in paths {
            let path = path.as_ref();
            let found = std::fs::metadata(path).map_err(|cause| Error::unreadable(path, &cause))?;
            if !found.is_dir() {
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
        inputs.make_names_differ();
        inputs.places = names::places(&inputs.policies());
        Ok(inputs)
    }

    /// The policies of all folders, with their kinds where the settings say them.
    fn policies(&self) -> Vec<(String, Option<String>)> {
        let mut all: Vec<(String, Option<String>)> = Vec::new();
        for folder in &self.folders {
            let kinds = folder.kinds();
            for policy in &folder.policies {
                let kind = kinds
                    .iter()
                    .find(|(label, _)| label == policy)
                    .map(|(_, kind)| kind.clone());
                match all.iter_mut().find(|(label, _)| label == policy) {
                    Some((_, known)) => *known = known.take().or(kind),
                    None => all.push((policy.clone(), kind)),
                }
            }
        }
        all
    }

    /// Extends equal names by as many parts of the paths as make them different.
    fn make_names_differ(&mut self) {
        let depths = self.folders.iter().map(|folder| folder.full.iter().count());
        let deepest = depths.max().unwrap_or(0);
        for parts in 2..=deepest {
            let names: Vec<String> = self
                .folders
                .iter()
                .map(|folder| folder.name.clone())
                .collect();
            for folder in &mut self.folders {
                if names.iter().filter(|other| **other == folder.name).count() > 1 {
                    folder.name = folder.last_parts(parts);
                }
            }
        }
    }

    /// All names that appear in legends.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for folder in &self.folders {
            names.extend(folder.policies.clone());
        }
        for folder in &self.folders {
            names.push(folder.name.clone());
        }
        for file in &self.files {
            names.push(stem(file));
        }
        names
    }

    /// The swept keys, if no folder has several loads to draw figures over.
    pub fn keys_of_one_load(&self) -> Vec<String> {
        if self.has_no_summary() {
            return Vec::new();
        }
        for folder in &self.folders {
            let loads = distinct(folder.results.rows().filter_map(|row| row.point().ok()));
            if loads.len() > 1 {
                return Vec::new();
            }
        }
        self.swept_keys().into_iter().map(String::from).collect()
    }

    fn swept_keys(&self) -> Vec<&str> {
        let keys = self
            .folders
            .iter()
            .flat_map(|folder| &folder.results.swept)
            .map(String::as_str);
        distinct(keys)
    }

    /// The options with the font that was read. Labels have to name policies and folders that there are.
    pub(super) fn resolve(&self, options: &PlotOptions) -> Result<PlotOptions> {
        let face = options.read_face()?;
        let without_labels = PlotOptions {
            look: Look {
                label: Vec::new(),
                ..options.look.clone()
            },
            ..options.clone()
        };
        let mut known = self.names();
        let series = self.series(&without_labels).unwrap_or_default();
        known.extend(series.into_iter().map(|series| series.name));
        Ok(PlotOptions {
            look: options.look.with_labels(&distinct(known))?,
            face,
            ..options.clone()
        })
    }

    /// The chosen policies, in the summaries' order or the one asked for. With panels, equal policies of several
    /// folders have one label and one style.
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
        let order = names::order(&options.look.order, &known)?;
        let mut all = Vec::new();
        for folder in &self.folders {
            all.extend(folder.series(options, &order)?);
        }
        let present = distinct(all.iter().map(|s| s.policy));
        let chosen = names::chosen("--policies", &options.policies, &present)?;
        if options.x.is_some() {
            let shown = all.iter().filter(|s| chosen.contains(&s.policy)).count();
            if shown > MOST_SERIES {
                let point = choose_point(&all, options)?;
                all.retain(|s| s.load == Some(point.as_str()));
            }
        }
        self.name_series(&mut all, options);
        if all.is_empty() {
            return Err(match &options.x {
                Some(key) => self.unswept_error(key).into(),
                None if first.results.has_summary() => nothing(format!(
                    "{}: has no rows",
                    first.results.path.join("summary.csv").display()
                )),
                None => nothing(format!(
                    "{}: has no summary.csv",
                    first.results.path.display()
                )),
            });
        }
        all.retain(|s| chosen.contains(&s.policy));
        Ok(all)
    }

    /// The style of a policy's combination of swept keys with this number. All combinations have the policy's colour;
    /// the first also has its line and marker.
    pub fn style(&self, policy: &str, combination: usize) -> Style {
        let place = self
            .places
            .iter()
            .find(|(known, _)| known == policy)
            .map_or(0, |(_, place)| *place);
        Style {
            color: Style::number(place).color,
            ..Style::number(place + combination)
        }
    }

    /// Whether all folders have results of searches only.
    pub fn has_no_summary(&self) -> bool {
        self.folders
            .iter()
            .all(|folder| !folder.results.has_summary())
    }

    /// Gives series their names, labels and styles.
    fn name_series(&self, all: &mut [Series<'_>], options: &PlotOptions) {
        let loads = distinct(all.iter().filter_map(|s| s.load));
        let mut named: Vec<(&str, &str)> = Vec::new();
        for s in all.iter_mut() {
            let folder = if options.panels {
                s.folder.full.to_str().unwrap_or_default()
            } else {
                ""
            };
            let combination = named
                .iter()
                .filter(|other| **other == (s.policy, folder))
                .count();
            named.push((s.policy, folder));
            s.style = self.style(s.policy, combination);
            let name = sweep_keys::label(s.policy, &s.swept);
            let shown = options.look.name(&name);
            s.name = if shown == name {
                sweep_keys::label(options.look.name(s.policy), &s.swept)
            } else {
                shown.into()
            };
            if let Some(load) = s.load
                && loads.len() > 1
            {
                s.name += &format!(", at {load}");
            }
        }
        let names: Vec<String> = all.iter().map(|s| s.name.clone()).collect();
        for s in all {
            let is_repeated = names.iter().filter(|other| **other == s.name).count() > 1;
            s.label = if is_repeated && !options.panels {
                format!("{}: {}", options.look.name(&s.folder.name), s.name)
            } else {
                s.name.clone()
            };
        }
    }

    fn unswept_error(&self, key: &str) -> Error {
        let keys = self.swept_keys();
        if keys.is_empty() {
            return Error::input(format!(
                "--x {key}: these results are of no sweep; run the scenario with --sweep {key}=V1,V2"
            ));
        }
        Error::input(format!(
            "--x {key}: is not a swept key of these results at this point; there are {}",
            keys.join(", ")
        ))
    }

    /// The compared point, and the chosen policies that have it.
    pub fn compared_point(
        &self,
        options: &PlotOptions,
    ) -> Result<(String, Vec<Series<'_>>), Undrawn> {
        let mut series = self.series(options)?;
        let point = choose_point(&series, options)?;
        series.retain(|s| s.row_at(&point).is_some());
        Ok((point, series))
    }

    /// The point of [`PlotInputs::compared_point`] or, with panels, that of each folder.
    pub fn compared_points(&self, options: &PlotOptions) -> Result<Vec<PointSeries<'_>>, Undrawn> {
        if !options.panels {
            let (point, series) = self.compared_point(options)?;
            return Ok(vec![PointSeries {
                heading: String::new(),
                point,
                series,
            }]);
        }
        let all = self.series(options)?;
        let mut points = Vec::new();
        for folder in &self.folders {
            let mut series: Vec<Series<'_>> =
                all.iter().filter(|s| s.is_of(folder)).cloned().collect();
            if series.is_empty() {
                continue;
            }
            let point = choose_point(&series, options)?;
            series.retain(|s| s.row_at(&point).is_some());
            points.push(PointSeries {
                heading: options.look.name(&folder.name).to_string(),
                point,
                series,
            });
        }
        Ok(points)
    }

    /// The load that figures show because none is chosen, or `None` if they show all, or if there is only one.
    pub fn default_point(&self, options: &PlotOptions) -> Option<String> {
        let loads = self
            .folders
            .iter()
            .flat_map(|folder| folder.results.rows())
            .filter_map(|row| row.point().ok());
        if distinct(loads).len() <= 1 || options.point.is_some() {
            return None;
        }
        let series = self.series(options).ok()?;
        if options.x.is_none() {
            return choose_point(&series, options).ok();
        }
        let shown = distinct(series.iter().filter_map(|s| s.load));
        match shown[..] {
            [only] => Some(only.to_string()),
            _ => None,
        }
    }

    /// The latency objective of the scenarios, if it is the same for all results.
    pub fn slo(&self) -> Option<Nanos> {
        let first = self.folders.first()?.slo();
        if self.folders.iter().all(|folder| folder.slo() == first) {
            first
        } else {
            None
        }
    }

    /// The series of each folder that has some.
    pub fn group_by_folder<'s>(&'s self, series: &'s [Series<'s>]) -> Vec<FolderSeries<'s>> {
        let mut parts = Vec::new();
        for folder in &self.folders {
            let own: Vec<&Series<'_>> = series.iter().filter(|s| s.is_of(folder)).collect();
            if !own.is_empty() {
                parts.push(FolderSeries {
                    folder,
                    series: own,
                });
            }
        }
        parts
    }
}

/// The names of series, each once with its style.
pub fn distinct_names<'s>(series: &'s [Series<'s>]) -> Vec<(&'s str, Style)> {
    let mut policies: Vec<(&str, Style)> = Vec::new();
    for s in series {
        if policies.iter().all(|(name, _)| *name != s.name) {
            policies.push((&s.name, s.style));
        }
    }
    policies
}

/// The name of a file without its ending.
pub fn stem(path: &Path) -> String {
    match path.file_stem() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => String::new(),
    }
}
