//! The inputs of figures (results folders and single files), and the policies and points chosen from them.

use std::path::{Path, PathBuf};

use super::axis::number;
use super::legend::{Entry, Key};
use super::style::Style;
use super::{Options, Undrawn, nothing};
use crate::error::{Error, Result};
use crate::files::folder_name;
use crate::metrics::bounds::Bounds;
use crate::results::read::{CsvFile, CsvRow, CsvTable};
use crate::workload::model::Model;

#[derive(Debug)]
pub struct Inputs {
    folders: Vec<Folder>,
    files: Vec<PathBuf>,
}

#[derive(Debug)]
pub struct Folder {
    pub path: PathBuf,
    /// The scenario's name: the last part of the path, or more if several folders have that name.
    pub name: String,
    full: PathBuf,
    summary: CsvTable,
    /// In the order of the summary, with their rows.
    policies: Vec<(String, Vec<usize>)>,
}

/// A policy's rows in one folder's summary.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    pub label: String,
    /// The same in every figure of these inputs, whatever policies are chosen.
    pub style: Style,
    folder: &'a Folder,
    policy: &'a str,
    rows: &'a [usize],
}

impl Inputs {
    /// Results folders, and files of lengths or traces.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Inputs> {
        let mut inputs = Inputs { folders: Vec::new(), files: Vec::new() };
        for path in paths.iter().map(AsRef::as_ref) {
            let kind = std::fs::metadata(path).map_err(|cause| Error::unreadable(path, &cause))?;
            match kind.is_dir() {
                true => {
                    let folder = Folder::open(path)?;
                    if inputs.folders.iter().any(|other| other.full == folder.full) {
                        return Err(Error::input(format!("{}: this results folder is named twice", path.display())));
                    }
                    inputs.folders.push(folder);
                }
                false => inputs.files.push(path.to_path_buf()),
            }
        }
        inputs.tell_apart();
        Ok(inputs)
    }

    /// Extends equal names by as many parts of the paths as make them different.
    fn tell_apart(&mut self) {
        let name = |folder: &Folder, parts: usize| {
            let all: Vec<_> = folder.full.iter().map(|part| part.to_string_lossy()).collect();
            all[all.len().saturating_sub(parts)..].join("/")
        };
        let deepest = self.folders.iter().map(|folder| folder.full.iter().count()).max().unwrap_or(0);
        for parts in 2..=deepest {
            let names: Vec<String> = self.folders.iter().map(|folder| folder.name.clone()).collect();
            for folder in &mut self.folders {
                if names.iter().filter(|other| **other == folder.name).count() > 1 {
                    folder.name = name(folder, parts);
                }
            }
        }
    }

    pub fn folders(&self) -> &[Folder] {
        &self.folders
    }

    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// All that appear in legends.
    pub fn names(&self) -> Vec<String> {
        let policies = self.folders.iter().flat_map(|folder| folder.policies.iter().map(|(policy, _)| policy.clone()));
        let folders = self.folders.iter().map(|folder| folder.name.clone());
        policies.chain(folders).chain(self.files.iter().map(|file| stem(file))).collect()
    }

    /// If it is the only input.
    pub fn only_folder(&self) -> Option<&Path> {
        match (self.folders.as_slice(), self.files.as_slice()) {
            ([folder], []) => Some(&folder.path),
            _ => None,
        }
    }

    /// The chosen policies, in the summaries' order.
    pub fn series(&self, options: &Options) -> Result<Vec<Series<'_>>, Undrawn> {
        if self.folders.is_empty() {
            return Err(nothing("this kind of figure needs a results folder, the one with summary.csv"));
        }
        let all: Vec<(&Folder, &str, &[usize])> = self
            .folders
            .iter()
            .flat_map(|folder| folder.policies.iter().map(move |(policy, rows)| (folder, policy.as_str(), &rows[..])))
            .collect();
        let chosen = chosen_policies(&options.policies, &all.iter().map(|(_, p, _)| *p).collect::<Vec<_>>())?;
        let label = |folder: &Folder, policy: &str| match all.iter().filter(|(_, other, _)| *other == policy).count() {
            1 => policy.to_string(),
            _ => format!("{}: {policy}", folder.name),
        };
        let series: Vec<Series<'_>> = all
            .iter()
            .enumerate()
            .filter(|(_, (_, policy, _))| chosen.as_ref().is_none_or(|chosen| chosen.iter().any(|c| c == policy)))
            .map(|(i, &(folder, policy, rows))| Series {
                label: label(folder, policy),
                style: Style::of(i),
                folder,
                policy,
                rows,
            })
            .collect();
        match series.is_empty() {
            true => Err(nothing(format!("{}: has no rows", self.folders[0].path.join("summary.csv").display()))),
            false => Ok(series),
        }
    }
}

fn chosen_policies(asked: &[String], known: &[&str]) -> Result<Option<Vec<String>>> {
    if asked.is_empty() {
        return Ok(None);
    }
    let mut chosen = Vec::new();
    for text in asked {
        // A label may contain a comma, so the whole text comes first.
        let parts: Vec<&str> = match known.contains(&text.as_str()) {
            true => vec![text],
            false => text.split(',').map(str::trim).collect(),
        };
        for part in parts {
            if !known.contains(&part) {
                let known = distinct(known.iter().copied()).join(", ");
                return Err(Error::input(format!("--policies: unknown policy \"{part}\"; there are {known}")));
            }
            chosen.push(part.to_string());
        }
    }
    Ok(Some(chosen))
}

/// The point whose requests are compared: the user's choice, or the highest rate that saturates no policy.
pub fn point(series: &[Series<'_>], options: &Options) -> Result<String> {
    let mut known = Vec::new();
    for s in series {
        let column = s.folder.summary.column("point")?;
        known.extend(s.rows().map(|row| row.text(column).to_string()));
    }
    let known = distinct(known.iter().map(String::as_str));
    if let Some(asked) = &options.point {
        let same = |point: &&&str| {
            **point == asked || matches!((point.parse::<f64>(), asked.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
        };
        return match known.iter().find(same) {
            Some(point) => Ok(point.to_string()),
            None => Err(Error::input(format!(
                "--point: no point \"{asked}\" in these results; there are {}",
                known.join(", ")
            ))),
        };
    }
    let mut best: Option<(f64, &str)> = None;
    for point in &known {
        let mut held = true;
        let mut rate = f64::NEG_INFINITY;
        for s in series {
            if let Some(row) = s.row_at(point)? {
                held &= !s.saturated(row)?;
                rate = rate.max(s.number(row, "offered_rps")?.unwrap_or(f64::NEG_INFINITY));
            }
        }
        if held && best.is_none_or(|(highest, _)| rate > highest) {
            best = Some((rate, point));
        }
    }
    Ok(best.map_or(known[0], |(_, point)| point).to_string())
}

/// The part of an axis label with the point's rate or clients. Empty for a trace, and where the title names the load.
pub fn at_point(point: &str, options: &Options) -> String {
    let (before, load) = match (point.parse::<f64>(), point.strip_prefix("clients-")) {
        (Ok(rate), _) => ("at", format!("{} requests/s", number(rate))),
        (_, Some(clients)) => ("with", format!("{clients} clients")),
        _ => return String::new(),
    };
    match options.title.as_deref().is_some_and(|title| says(title, &load)) {
        true => String::new(),
        false => format!(" {before} {load}"),
    }
}

/// With or without commas between thousands, but not as the end of a larger number.
fn says(title: &str, load: &str) -> bool {
    [load.to_string(), load.replace(',', "")].iter().any(|load| {
        title
            .match_indices(load.as_str())
            .any(|(at, _)| !title[..at].ends_with(|c: char| c.is_ascii_digit() || c == ','))
    })
}

pub fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

pub fn line_legend(series: &[Series<'_>]) -> Vec<Entry> {
    series.iter().map(|s| Entry::new(&s.label, Key::Line(s.style))).collect()
}

impl Folder {
    fn open(path: &Path) -> Result<Folder> {
        let file = path.join("summary.csv");
        if !file.is_file() {
            return Err(Error::input(format!("{}: has no summary.csv{}", path.display(), scenarios_below(path))));
        }
        let summary = CsvTable::read(&file)?;
        let column = summary.column("policy")?;
        let mut policies: Vec<(String, Vec<usize>)> = Vec::new();
        for (index, row) in summary.rows().enumerate() {
            let policy = row.text(column);
            match policies.iter_mut().find(|(known, _)| known == policy) {
                Some((_, rows)) => rows.push(index),
                None => policies.push((policy.to_string(), vec![index])),
            }
        }
        // `.` and `..` have no name.
        let full = path.canonicalize().map_err(|cause| Error::unreadable(path, &cause))?;
        let name = full.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
        Ok(Folder { path: path.to_path_buf(), full, name, summary, policies })
    }

    /// `None` for runs on a real device.
    pub fn bounds(&self) -> Result<Option<Bounds>> {
        let path = self.path.join("bounds.json");
        let Ok(text) = std::fs::read_to_string(&path) else { return Ok(None) };
        let parsed = serde_json::from_str(&text);
        parsed.map(Some).map_err(|cause| Error::input(format!("{}: {cause}; run the scenario again", path.display())))
    }

    pub fn model(&self) -> Option<Model> {
        let text = std::fs::read_to_string(self.path.join("run.json")).ok()?;
        let run: serde_json::Value = serde_json::from_str(&text).ok()?;
        Model::parse(run.pointer("/scenario/workload/model")?.as_str()?).ok()
    }
}

/// For a user who named the parent folder of results.
fn scenarios_below(path: &Path) -> String {
    let mut below: Vec<String> = std::fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().join("summary.csv").is_file())
        .map(|entry| entry.path().display().to_string())
        .collect();
    below.sort();
    match below.as_slice() {
        [] => "; name the folder that a run wrote its results to".into(),
        [first, ..] => format!("; it holds the results of {} scenarios: name one, such as {first}", below.len()),
    }
}

fn distinct<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for text in texts {
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    seen
}

impl<'a> Series<'a> {
    /// [`Series::label`] may extend it.
    pub fn policy(&self) -> &'a str {
        self.policy
    }

    pub fn is_of(&self, folder: &Folder) -> bool {
        std::ptr::eq(self.folder, folder)
    }

    pub fn rows(&self) -> impl Iterator<Item = CsvRow<'a>> {
        let folder = self.folder;
        self.rows.iter().map(|&index| folder.summary.row(index))
    }

    /// Rows without a rate come last, in the summary's order, as do closed loops, whose rate depends on the system.
    pub fn rows_by_rate(&self) -> Result<Vec<CsvRow<'a>>> {
        let point = self.folder.summary.column("point").ok();
        let mut rows = Vec::new();
        for row in self.rows() {
            let closed = point.is_some_and(|point| row.text(point).starts_with("clients-"));
            let rate = self.number(row, "offered_rps")?.filter(|_| !closed);
            rows.push((rate.unwrap_or(f64::INFINITY), row));
        }
        rows.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }

    /// `None` if the field is empty, such as a quantile of too few samples.
    pub fn number(&self, row: CsvRow<'_>, name: &'static str) -> Result<Option<f64>> {
        row.number(self.folder.summary.column(name)?)
    }

    /// Summaries without the column: less than 95 % of the offered rate was delivered.
    pub fn saturated(&self, row: CsvRow<'_>) -> Result<bool> {
        if let Ok(column) = self.folder.summary.column("saturated") {
            return match row.text(column) {
                "true" => Ok(true),
                "false" | "" => Ok(false),
                other => Err(row.error(column, &format!("\"{other}\" is neither true nor false"))),
            };
        }
        let (offered, served) = (self.number(row, "offered_rps")?, self.number(row, "throughput_rps")?);
        Ok(matches!((offered, served), (Some(offered), Some(served)) if served < 0.95 * offered))
    }

    pub fn point<'r>(&self, row: CsvRow<'r>) -> Result<&'r str> {
        Ok(row.text(self.folder.summary.column("point")?))
    }

    pub fn row_at(&self, point: &str) -> Result<Option<CsvRow<'a>>> {
        let column = self.folder.summary.column("point")?;
        Ok(self.rows().find(|row| row.text(column) == point))
    }

    /// Requests that the summary leaves out.
    pub fn warmup(&self, point: &str) -> Result<u64> {
        match (self.row_at(point)?, self.folder.summary.column("warmup")) {
            (Some(row), Ok(column)) => Ok(row.number(column)?.map_or(0, |requests| requests.round() as u64)),
            _ => Ok(0),
        }
    }

    pub fn log(&self, point: &str, file: &str) -> PathBuf {
        self.folder.path.join(folder_name(self.policy)).join(point).join(file)
    }

    /// [`Undrawn::Nothing`] if it was not written.
    pub fn requests(&self, point: &str) -> Result<(PathBuf, CsvFile), Undrawn> {
        let path = self.log(point, "requests.csv");
        match self.open_log(point, "requests.csv")? {
            Some(rows) => Ok((path, rows)),
            None => {
                let why = format!("there is no {}; a run writes it with output.requests = true", path.display());
                Err(nothing(why))
            }
        }
    }

    pub fn open_log(&self, point: &str, file: &'static str) -> Result<Option<CsvFile>> {
        CsvFile::open_if_there(&self.log(point, file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_does_not_repeat_the_title() {
        let label = |title: &str| at_point("5000", &Options { title: Some(title.into()), ..Options::default() });
        assert_eq!(at_point("5000", &Options::default()), " at 5,000 requests/s");
        assert_eq!(label("CDF at 15,000 requests/s"), " at 5,000 requests/s");
        assert_eq!(label("CDF at 5,000 requests/s"), "");
        assert_eq!(label("CDF, 5000 requests/s"), "");
    }

    #[test]
    fn a_label_with_a_comma_can_be_chosen() {
        let known = ["padded (10, 512)", "cellular", "merged"];
        let chosen = |asked: &[&str]| chosen_policies(&asked.iter().map(|a| a.to_string()).collect::<Vec<_>>(), &known);
        assert_eq!(chosen(&["padded (10, 512)"]).unwrap().unwrap(), ["padded (10, 512)"]);
        assert_eq!(chosen(&["merged,cellular"]).unwrap().unwrap(), ["merged", "cellular"]);
        let error = chosen(&["celular"]).unwrap_err().to_string();
        assert!(error.contains("\"celular\"; there are padded (10, 512), cellular, merged"), "{error}");
    }
}
