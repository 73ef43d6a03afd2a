//! Verification of a results folder: the run that its `run.json` describes is made again, elsewhere, and the files are
//! compared byte for byte. Runs on a real device, whose times can't be made again, are replayed.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::{fs, mem};

use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Map, Value};

use super::ledger::replay_with_ledger;
use super::recording::Recording;
use super::results::{RecordedPoint, list_points, require_same_inputs, restore};
use crate::base::error::{Context as _, Error, Result, refuse_if};
use crate::base::files::{PARTIAL, folder_name};
use crate::core::policy::registry::Registry;
use crate::core::summary::Summary;
use crate::lab::figures;
use crate::lab::results::logs::{LogRow as _, RequestLine, RoundLine, TaskLine};
use crate::lab::results::saved_results::{read_json, scenarios_below};
use crate::lab::results::summary::SummaryRow;
use crate::lab::results::write;
use crate::lab::run::executor::{Executors, SelectedBackend};
use crate::lab::run::folder::{is_mark_of_point, mark_of_point, write_lengths};
use crate::lab::run::inputs::RunInputs;
use crate::lab::run::{RunOptions, run_sweep};
use crate::lab::scenario::Scenario;

/// How the files of a results folder compare with those of the same run made again.
#[derive(Debug, Default, Serialize)]
pub struct Verification {
    /// The number of files that are equal.
    pub equal: usize,
    pub different: Vec<FileNote>,
    /// Files that can't be compared, with the reason.
    pub unverified: Vec<FileNote>,
    pub notes: Vec<String>,
    /// Files of which all is said.
    #[serde(skip)]
    done: BTreeSet<PathBuf>,
    #[serde(skip)]
    missing: Vec<PathBuf>,
    /// Why a search was not repeated, by its name.
    #[serde(skip)]
    unrepeated: BTreeMap<&'static str, String>,
}

/// A file or a point of a results folder, and what is to be said of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileNote {
    pub file: String,
    pub what: String,
}

const RUN: &str = "run.json";
const HOST: &str = "host.json";
const SUMMARY: &str = "summary.csv";
/// Why files that hold times of the host are not compared.
const HAS_HOST_TIMES: &str = "has times of the host, which are never the same";
const NOT_MADE: &str = "nothing in the folder says how it was made";
const MEASURED: &str = "its times were measured; a replay repeats decisions only";
const TUNED: &str =
    "no file says with which options tune ran; call it again with another --out, and compare";

/// The way out for results of policies that this program does not have.
const ELSEWHERE: &str = "verify it with the program that made it, or run it again there";

/// The logs that a replay makes again.
const REPLAYED: [&str; 2] = [RequestLine::FILE, TaskLine::FILE];

/// The keys of JSON files that name the build of the program or are made from its name.
const OF_THE_BUILD: [&str; 4] = ["version", "git_commit", "fingerprint", "fingerprints"];

/// What a run or a search did, as its settings file says.
struct RecordedRun {
    /// The settings file.
    file: PathBuf,
    /// The name of the scenario.
    name: String,
    /// The scenarios without the policies that this program does not have; empty if it has none of them.
    scenarios: Vec<Scenario>,
    backend: String,
    replications: u32,
    /// The labels of policies that this program does not have.
    unknown: BTreeSet<String>,
    /// Whether this build of the program made the run.
    same_build: bool,
}

/// The names of searches, whose settings files are `knee.json` and `workers.json`.
const SEARCHES: [&str; 2] = ["knee", "workers"];

/// A search to make again.
pub struct SearchAgain<'a> {
    /// The words of its command without the scenario.
    pub words: Vec<String>,
    /// The scenarios of its sweep, as the folder has them.
    pub scenarios: &'a [Scenario],
    /// The folder for its results.
    pub out: &'a Path,
}

/// Makes a search again.
pub type MakeSearch<'a> = dyn Fn(&SearchAgain<'_>) -> Result<()> + 'a;

impl Verification {
    /// Runs again what a folder has, in a temporary folder, and compares.
    ///
    /// # Errors
    /// The folder has no run, or nothing of it can be made again: an input is missing or has changed, or no policy of it
    /// is known.
    pub fn run(
        folder: &Path,
        registry: &Registry,
        executors: &Executors,
        search: &MakeSearch<'_>,
        stop: &AtomicBool,
    ) -> Result<Verification> {
        let there = files_below(folder)?;
        let mut searches = Vec::new();
        for name in SEARCHES {
            let file = folder.join(format!("{name}.json"));
            if file.is_file() {
                searches.push((name, read_run(&file, registry)?));
            }
        }
        let file = folder.join(RUN);
        let mut run = None;
        if file.is_file() {
            run = Some(read_run(&file, registry)?);
        }
        let all: Vec<&RecordedRun> = run
            .iter()
            .chain(searches.iter().map(|(_, run)| run))
            .collect();
        let Some(first) = all.first() else {
            return Err(refuse_without_run(folder, &there));
        };
        refuse_if(all.iter().all(|run| run.scenarios.is_empty()), || {
            let unknown: Vec<&str> = first.unknown.iter().map(String::as_str).collect();
            Error::mistake(
                &first.file,
                format_args!(
                    "no policy of it is in this program ({}), as policies in Python or in another crate are not; {ELSEWHERE}",
                    unknown.join(", ")
                ),
            )
        })?;
        let mut verification = Verification::default();
        let same_build = all.iter().all(|run| run.same_build);
        if !same_build {
            verification.notes.push(format!(
                "another build of the program made the results; {} of JSON files are not compared",
                OF_THE_BUILD.join(", ")
            ));
        }
        let place = tempfile::tempdir().map_err(|cause| {
            Error::failure(format!("a temporary folder cannot be made: {cause}"))
        })?;
        let out = place.path();
        let fresh = out.join(folder_name(&first.name));
        if let Some(run) = run.as_ref().filter(|run| !run.scenarios.is_empty()) {
            let is_recorded = there.iter().any(|file| file.ends_with(RoundLine::FILE));
            if is_recorded || executors.executor(&run.backend).is_ok() {
                verification.replay(folder, &fresh, &there, run)?;
            } else {
                let simulator = executors.simulator(&run.backend)?;
                run_again(run, SelectedBackend::Simulated(simulator), out, stop)?;
            }
        }
        for name in SEARCHES {
            let recorded = searches.iter().find(|(other, _)| *other == name);
            let recorded = recorded.map(|(_, recorded)| recorded);
            verification.search_again(name, recorded, out, search)?;
        }
        verification.compare(folder, &fresh, &there, run.as_ref(), same_build)?;
        refuse_if(
            verification.equal == 0 && verification.different.is_empty(),
            || verification.refuse_all(folder),
        )?;
        Ok(verification)
    }

    /// Makes a search again, or keeps the reason why it can't be.
    fn search_again(
        &mut self,
        name: &'static str,
        recorded: Option<&RecordedRun>,
        out: &Path,
        search: &MakeSearch<'_>,
    ) -> Result<()> {
        let command = format!("find-{name}");
        let reason = match recorded {
            None => {
                format!(
                    "there is no {name}.json, so that the search is not finished; call {command} with --resume"
                )
            }
            Some(recorded) if !recorded.unknown.is_empty() => {
                let unknown: Vec<&str> = recorded.unknown.iter().map(String::as_str).collect();
                format!(
                    "the search has policies that are not in this program ({}); {ELSEWHERE}",
                    unknown.join(", ")
                )
            }
            Some(recorded) => {
                if let Some(words) = read_command(&recorded.file, &command)? {
                    let again = SearchAgain {
                        words,
                        scenarios: &recorded.scenarios,
                        out,
                    };
                    return search(&again).within(recorded.file.display());
                }
                format!(
                    "an earlier version made the search and does not say with which options; call {command} again"
                )
            }
        };
        self.unrepeated.insert(name, reason);
        Ok(())
    }

    /// Compares the files of the folder with those that were made again.
    fn compare(
        &mut self,
        folder: &Path,
        fresh: &Path,
        there: &BTreeSet<PathBuf>,
        run: Option<&RecordedRun>,
        same_build: bool,
    ) -> Result<()> {
        let mut made = BTreeSet::new();
        if fresh.is_dir() {
            made = files_below(fresh)?;
        }
        let is_run = run.is_some_and(|run| !run.scenarios.is_empty());
        if is_run {
            made.insert(HOST.into());
        }
        let unknown = run.map(|run| &run.unknown).into_iter().flatten();
        let unknown: BTreeSet<String> = unknown.map(|label| folder_name(label)).collect();
        for file in there.union(&made) {
            let above = file.iter().next().unwrap_or_default().to_string_lossy();
            let is_of_run = search_of(file).is_none();
            if self.done.contains(file) {
                // All is said of it.
            } else if is_of_run && unknown.contains(&*above) {
                self.leave_out(file, "its policy is not in this program");
            } else if is_of_run && is_of_all(file) && !unknown.is_empty() {
                self.leave_out(file, "it also has policies that are not in this program");
            } else if !there.contains(file) {
                self.missing.push(file.clone());
            } else if file.ends_with(HOST) {
                self.leave_out(file, HAS_HOST_TIMES);
            } else if !made.contains(file) {
                let reason = self.explain_unmade(file);
                self.leave_out(file, &reason);
            } else {
                let read = |root: &Path| {
                    let path = root.join(file);
                    fs::read(&path).map_err(|cause| Error::unreadable(&path, &cause))
                };
                match difference(file, &read(folder)?, &read(fresh)?, same_build) {
                    None => self.equal += 1,
                    Some(what) => self.differ(file, what),
                }
            }
        }
        self.list_missing(there);
        Ok(())
    }

    /// Lists the files that are missing, and the points of which all files are.
    fn list_missing(&mut self, there: &BTreeSet<PathBuf>) {
        let begun: BTreeSet<&Path> = there.iter().filter_map(|file| file.parent()).collect();
        let mut points = BTreeSet::new();
        let mut is_unfinished = false;
        for file in mem::take(&mut self.missing) {
            is_unfinished |= file.ends_with(SUMMARY) || is_mark_of_point(&file);
            match file.parent() {
                Some(point) if !is_of_all(&file) && !begun.contains(point) => {
                    points.insert(point.to_path_buf());
                }
                _ => self.differ(&file, "is missing".into()),
            }
        }
        for point in points {
            self.differ(&point, "is missing with all its files".into());
        }
        if is_unfinished {
            self.notes.push(
                "files are missing as in a run that is not finished or whose shards are not merged; if it is one, go on \
                 with --resume, then verify"
                    .into(),
            );
        }
    }

    /// Why a file has nothing to be compared with.
    fn explain_unmade(&self, file: &Path) -> String {
        match search_of(file) {
            Some(name) if name.starts_with("tune") => TUNED.into(),
            Some(name) => self
                .unrepeated
                .get(name)
                .map_or(NOT_MADE, |reason| reason)
                .into(),
            None => NOT_MADE.into(),
        }
    }

    /// The refusal of a folder in which nothing can be compared.
    fn refuse_all(&self, folder: &Path) -> Error {
        let reasons: BTreeSet<&str> = self
            .unverified
            .iter()
            .map(|note| &*note.what)
            .filter(|reason| *reason != HAS_HOST_TIMES)
            .collect();
        let reasons: Vec<&str> = reasons.into_iter().collect();
        let reasons = reasons.join("; ");
        Error::mistake(
            folder,
            format_args!("nothing in it can be compared: {reasons}"),
        )
    }

    /// Replays the recorded runs of a real device, and makes its summaries again from what each point says of itself.
    fn replay(
        &mut self,
        folder: &Path,
        fresh: &Path,
        there: &BTreeSet<PathBuf>,
        run: &RecordedRun,
    ) -> Result<()> {
        let mut inputs = Vec::new();
        for scenario in &run.scenarios {
            inputs.push(RunInputs::new(scenario)?);
        }
        let points = list_points(folder, &run.scenarios);
        let mut rows = Vec::new();
        let mut recorded = Vec::new();
        for point in &points {
            if let Some(runs) = self.check_marks(folder, &point.folder, run.replications)? {
                let entry = &run.scenarios[point.variant].policies[point.run.policy];
                rows.push(SummaryRow {
                    policy: entry.label.clone(),
                    swept: entry.swept.clone(),
                    backend: run.backend.clone(),
                    point: point.run.load.to_string(),
                    class: String::new(),
                    runs,
                });
            }
            if Recording::is_in(&point.folder) && point.folder.join(TaskLine::FILE).is_file() {
                recorded.push(point);
            }
        }
        let is_whole = self.different.is_empty() && self.missing.is_empty();
        refuse_if(recorded.is_empty() && is_whole, || {
            Error::mistake(
                folder,
                "its times were measured, and no point has the rounds.csv from which a replay makes its decisions again",
            )
        })?;
        let differences: Vec<Result<_>> = recorded
            .par_iter()
            .map(|point| {
                let (replay, _) = replay_with_ledger(&inputs[point.variant], point, None)?;
                Ok(replay.difference)
            })
            .collect();
        for (point, difference) in recorded.iter().zip(differences) {
            let name = point.folder.strip_prefix(folder).unwrap_or(&point.folder);
            let mut logs = REPLAYED.map(|log| name.join(log)).to_vec();
            logs.retain(|log| folder.join(log).is_file());
            match difference {
                Ok(None) => self.equal += logs.len(),
                Ok(Some(what)) => {
                    self.differ(name, format!("the replay decides differently: {what}"));
                }
                // A log is damaged.
                Err(Error::Input(why)) => self.differ(name, why),
                Err(error) => return Err(error),
            }
            self.done.extend(logs);
        }
        self.leave_out_measured(&points, folder, there);
        write_again(&run.scenarios[0], &inputs, &rows, folder, fresh)
    }

    /// Leaves out the files of points that are not replayed.
    fn leave_out_measured(
        &mut self,
        points: &[RecordedPoint],
        folder: &Path,
        there: &BTreeSet<PathBuf>,
    ) {
        let places: BTreeSet<&Path> = points
            .iter()
            .filter_map(|point| point.folder.strip_prefix(folder).ok())
            .collect();
        for file in there {
            let is_in_point = file.parent().is_some_and(|place| places.contains(place));
            let reason = match file.to_str() {
                Some(RUN) => "says what was run",
                _ if is_in_point => MEASURED,
                _ => continue,
            };
            if self.done.insert(file.clone()) {
                self.leave_out(file, reason);
            }
        }
    }

    /// Checks the files of a point against its marks: all that they name have to be there, with their sizes. Returns the
    /// summaries of all replications, or `None` if one has none.
    fn check_marks(
        &mut self,
        folder: &Path,
        point: &Path,
        replications: u32,
    ) -> Result<Option<Vec<Summary>>> {
        let name = point.strip_prefix(folder).unwrap_or(point);
        let mut summaries = Vec::new();
        for replication in 0..replications {
            let mark = mark_of_point(replication);
            let path = point.join(&mark);
            if !path.is_file() {
                self.missing.push(name.join(&mark));
                continue;
            }
            let bytes = fs::read(&path).map_err(|cause| Error::unreadable(&path, &cause))?;
            let found: Value = match serde_json::from_slice(&bytes) {
                Ok(found) => found,
                Err(cause) => {
                    self.differ(&name.join(&mark), format!("is not JSON: {cause}"));
                    continue;
                }
            };
            let files = found.get("files").and_then(Value::as_object);
            for (file, bytes) in files.into_iter().flatten() {
                let file_name = name.join(file);
                match fs::metadata(point.join(file)) {
                    Err(_) => self.missing.push(file_name),
                    Ok(file_there)
                        if REPLAYED.contains(&&**file)
                            || Some(file_there.len()) == bytes.as_u64() => {}
                    Ok(file_there) => {
                        let bytes_there = file_there.len();
                        self.differ(
                            &file_name,
                            format!("has {bytes_there} bytes, but {bytes} by {mark}"),
                        );
                        self.done.insert(file_name);
                    }
                }
            }
            let summary = found.get("summary").cloned().unwrap_or_default();
            match serde_json::from_value(summary) {
                Ok(summary) => summaries.push(summary),
                Err(cause) => {
                    self.differ(
                        &name.join(&mark),
                        format!("has no summary that this program reads: {cause}"),
                    );
                }
            }
        }
        Ok(Some(summaries).filter(|found| found.len() == replications as usize))
    }

    fn differ(&mut self, file: &Path, what: String) {
        self.different.push(FileNote {
            file: file.display().to_string(),
            what,
        });
    }

    fn leave_out(&mut self, file: &Path, why: &str) {
        self.unverified.push(FileNote {
            file: file.display().to_string(),
            what: why.into(),
        });
    }
}

/// Whether a file lies in the folder itself, since it is about all points.
fn is_of_all(file: &Path) -> bool {
    file.components().count() == 1
}

/// The name of the search that a file of a results folder belongs to, such as `knee` or `tune-1`; `None` for files of
/// runs.
fn search_of(file: &Path) -> Option<&str> {
    let parts: Option<Vec<&str>> = file.iter().map(OsStr::to_str).collect();
    let name = match parts?[..] {
        [name] => name.split('.').next(),
        [_, point, mark] if mark.starts_with("search") => point.split(',').next(),
        _ => None,
    };
    name.filter(|name| SEARCHES.contains(name) || name.starts_with("tune"))
}

/// The refusal of a folder without a settings file.
fn refuse_without_run(folder: &Path, there: &BTreeSet<PathBuf>) -> Error {
    let searches: BTreeSet<&str> = there.iter().filter_map(|file| search_of(file)).collect();
    for name in SEARCHES {
        if searches.contains(name) {
            return Error::mistake(
                folder,
                format_args!(
                    "has no {name}.json: its search is not finished, or its shards are not merged; call find-{name} with \
                     --resume, then verify"
                ),
            );
        }
    }
    if !searches.is_empty() {
        return Error::mistake(folder, format_args!("has answers of tune only: {TUNED}"));
    }
    let mut above = folder.ancestors().skip(1).take(2);
    match above.find(|above| above.join(RUN).is_file()) {
        Some(above) => Error::mistake(
            folder,
            format_args!(
                "is a part of results, which are verified as a whole; name {}",
                above.display()
            ),
        ),
        None => Error::mistake(
            folder,
            format_args!("has no {RUN}{}", scenarios_below(folder)),
        ),
    }
}

/// Simulates a run again, with its figures.
fn run_again(
    run: &RecordedRun,
    backend: SelectedBackend,
    out: &Path,
    stop: &AtomicBool,
) -> Result<()> {
    let options = RunOptions {
        backend,
        out: out.to_path_buf(),
        replications: run.replications,
        resume: false,
        shard: None,
    };
    let report = run_sweep(&run.scenarios, &options, stop, &|| ())?;
    if report.is_interrupted() {
        return Err(Error::Interrupted);
    }
    figures::draw(&run.scenarios[0], &report.folder.path, &[])?;
    Ok(())
}

/// Writes again what a run writes beside its points: the summaries, the lengths and the figures.
fn write_again(
    scenario: &Scenario,
    inputs: &[RunInputs<'_>],
    rows: &[SummaryRow],
    folder: &Path,
    fresh: &Path,
) -> Result<()> {
    write::write_summary(&fresh.join(SUMMARY), rows)?;
    write::write_differences(&fresh.join("differences.csv"), rows)?;
    write::write_classes(&fresh.join("classes.csv"), rows)?;
    let mut samples = Vec::new();
    for inputs in inputs {
        samples.push(inputs.sample()?);
    }
    write_lengths(fresh, &samples)?;
    if folder.join(SUMMARY).is_file() {
        figures::draw_from(scenario, folder, fresh, &[])?;
    }
    Ok(())
}

/// The words of the command that a settings file of a search has; `None` if it has none.
fn read_command(file: &Path, name: &str) -> Result<Option<Vec<String>>> {
    let settings = read_json(file)?;
    let Some(words) = settings.get("command").and_then(Value::as_array) else {
        return Ok(None);
    };
    let words: Vec<String> = words
        .iter()
        .filter_map(|word| Some(word.as_str()?.to_string()))
        .collect();
    // A file from elsewhere must not choose where results are written.
    const OPTIONS: [&str; 11] = [
        "--slo=",
        "--ttft=",
        "--tbt=",
        "--quantile=",
        "--tolerance=",
        "--rate=",
        "--replications=",
        "--max-",
        "--set=",
        "--sweep=",
        "--seed=",
    ];
    let is_option = |word: &String| OPTIONS.iter().any(|option| word.starts_with(option));
    let is_search = words.first().is_some_and(|first| first == name);
    refuse_if(!is_search || !words[1..].iter().all(is_option), || {
        Error::mistake(file, format_args!("command: is not a call of {name}"))
    })?;
    Ok(Some(words))
}

/// Reads the scenarios of a run without the policies that this program does not have.
fn read_run(file: &Path, registry: &Registry) -> Result<RecordedRun> {
    let mut run = read_json(file)?;
    let mut unknown = BTreeSet::new();
    for key in ["scenario", "variants"] {
        let scenarios = match run.get_mut(key) {
            Some(Value::Array(several)) => several.iter_mut().collect(),
            Some(one) => vec![one],
            None => Vec::new(),
        };
        for scenario in scenarios {
            leave_out_unknown(scenario, registry, &mut unknown);
        }
    }
    let text = |key: &str| run.pointer(key).and_then(Value::as_str).unwrap_or_default();
    let mut recorded = RecordedRun {
        file: file.to_path_buf(),
        name: text("/scenario/name").into(),
        scenarios: Vec::new(),
        backend: text("/backend").into(),
        replications: 1,
        unknown,
        same_build: text("/version") == env!("CARGO_PKG_VERSION")
            && text("/git_commit") == env!("BATCHLAB_COMMIT"),
    };
    if let Some(replications) = run.get("replications").and_then(Value::as_u64) {
        recorded.replications = replications.try_into().unwrap_or(u32::MAX);
    }
    let policies = run.pointer("/scenario/policy").and_then(Value::as_array);
    if !policies.is_some_and(Vec::is_empty) {
        recorded.scenarios = restore(&run, file, registry)?.0;
    }
    for scenario in &recorded.scenarios {
        require_same_inputs(scenario, scenario.inputs(), &run, file)?;
    }
    Ok(recorded)
}

/// Removes the policies of unknown kinds from a scenario, and the look of its figures, which may name them.
fn leave_out_unknown(scenario: &mut Value, registry: &Registry, unknown: &mut BTreeSet<String>) {
    let Some(policies) = scenario.get_mut("policy").and_then(Value::as_array_mut) else {
        return;
    };
    let before = policies.len();
    policies.retain(|policy| {
        let text = |key: &str| policy.get(key).and_then(Value::as_str).unwrap_or_default();
        let is_known = registry.keys(text("kind")).is_some();
        if !is_known {
            unknown.insert(text("label").to_string());
        }
        is_known
    });
    if policies.len() < before
        && let Some(output) = scenario.get_mut("output").and_then(Value::as_object_mut)
    {
        output.remove("figure");
    }
}

/// The files below a folder, by relative path, without those of unfinished runs.
fn files_below(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|cause| Error::unreadable(&folder, &cause))?;
        for entry in entries {
            let entry = entry.map_err(|cause| Error::unreadable(&folder, &cause))?;
            let kind = entry
                .file_type()
                .map_err(|cause| Error::unreadable(&entry.path(), &cause))?;
            let name = entry.file_name();
            if name == PARTIAL || name == ".lock" {
                continue;
            }
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                let path = entry.path();
                found.insert(path.strip_prefix(root).unwrap_or(&path).to_path_buf());
            } else {
                return Err(Error::mistake(
                    &entry.path(),
                    "is not a regular file; results have none of another kind",
                ));
            }
        }
    }
    Ok(found)
}

/// The first difference of two files, or `None` if they are equal.
fn difference(file: &Path, there: &[u8], made: &[u8], same_build: bool) -> Option<String> {
    if there == made {
        return None;
    }
    let is_json = file.extension().is_some_and(|ending| ending == "json");
    if is_json
        && !same_build
        && let Some(there) = parse_without_build(there)
        && let Some(made) = parse_without_build(made)
    {
        return json_difference("", Some(&there), Some(&made));
    }
    let there = lines(there);
    let made = lines(made);
    let place = there
        .iter()
        .zip(&made)
        .position(|(one, other)| one != other);
    let place = place.unwrap_or(there.len().min(made.len()));
    let line = |lines: &[Cow<'_, str>]| {
        let line = lines.get(place);
        line.map_or("nothing".into(), |line| format!("\"{}\"", shorten(line)))
    };
    Some(format!(
        "line {}: {}",
        place + 1,
        describe_values(&line(&there), &line(&made))
    ))
}

fn describe_values(there: &str, made: &str) -> String {
    format!("the folder has {there}, a new run gives {made}")
}

fn lines(bytes: &[u8]) -> Vec<Cow<'_, str>> {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.map(String::from_utf8_lossy).collect()
}

/// An object of a JSON file without what names the build; `None` if the file has none.
fn parse_without_build(bytes: &[u8]) -> Option<Value> {
    let mut object: Map<String, Value> = serde_json::from_slice(bytes).ok()?;
    object.retain(|key, _| !OF_THE_BUILD.contains(&key.as_str()));
    Some(object.into())
}

/// The first key of which the values differ, such as `scenario.device.workers`.
fn json_difference(key: &str, there: Option<&Value>, made: Option<&Value>) -> Option<String> {
    let below = |part: &dyn Display| match key {
        "" => part.to_string(),
        key => format!("{key}.{part}"),
    };
    match (there, made) {
        (Some(Value::Object(there)), Some(Value::Object(made))) => {
            let more = made.keys().filter(|key| !there.contains_key(*key));
            let mut keys = there.keys().chain(more);
            keys.find_map(|key| json_difference(&below(key), there.get(key), made.get(key)))
        }
        (Some(Value::Array(there)), Some(Value::Array(made))) => {
            let mut places = 0..there.len().max(made.len());
            places.find_map(|place| {
                json_difference(&below(&place), there.get(place), made.get(place))
            })
        }
        (there, made) if there == made => None,
        (there, made) => {
            let text = |value: Option<&Value>| {
                value.map_or("nothing".into(), |value| shorten(&value.to_string()))
            };
            Some(format!(
                "{key}: {}",
                describe_values(&text(there), &text(made))
            ))
        }
    }
}

/// The start of a long text.
fn shorten(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((place, _)) => format!("{}…", &text[..place]),
        None => text.into(),
    }
}
