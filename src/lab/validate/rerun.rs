//! Verification of a results folder: the run that its `run.json` describes is made again, elsewhere, and the files are
//! compared byte for byte. Runs on a real device, whose times can't be made again, are replayed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Map, Value};

use super::ledger::replay_with_ledger;
use super::recording::Recording;
use super::results::{Results, require_same_inputs, restore};
use crate::base::error::{Error, Result, refuse_if};
use crate::base::files::{PARTIAL, folder_name};
use crate::core::policy::registry::Registry;
use crate::lab::figures;
use crate::lab::results::logs::{LogRow as _, RequestLine, RoundLine, TaskLine};
use crate::lab::results::saved_results::read_json;
use crate::lab::run::executor::{Executors, SelectedBackend};
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
}

/// A file of a results folder, and what is to be said of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileNote {
    pub file: String,
    pub what: String,
}

/// Why files that hold times of the host are not compared.
const HOST: &str = "has times of the host, which are never the same";
const NOT_MADE: &str = "nothing in the folder says how it was made";

/// The keys of JSON files that name the build of the program or are made from its name.
const OF_THE_BUILD: [&str; 4] = ["version", "git_commit", "fingerprint", "fingerprints"];

/// What a run did, as its `run.json` says.
struct RecordedRun {
    scenarios: Vec<Scenario>,
    backend: String,
    replications: u32,
    /// The labels of policies that this program does not have.
    unknown: Vec<String>,
    /// Whether this build of the program made the run.
    same_build: bool,
}

/// The settings files of searches.
const SEARCHES: [&str; 2] = ["knee.json", "workers.json"];

/// A search to make again: the words of its command, and where its results go.
pub struct SearchAgain {
    pub words: Vec<String>,
    pub scenario: String,
    pub out: PathBuf,
}

/// Makes a search again.
pub type MakeSearch<'a> = dyn Fn(&SearchAgain) -> Result<()> + 'a;

impl Verification {
    /// Runs again what a folder has, in a temporary folder, and compares.
    ///
    /// # Errors
    /// The folder has no run, or the run can't be made again: an input is missing or has changed, or no policy of it is
    /// known.
    pub fn run(
        folder: &Path,
        registry: &Registry,
        executors: &Executors,
        search: &MakeSearch<'_>,
        stop: &AtomicBool,
    ) -> Result<Verification> {
        let mut searches = Vec::new();
        for name in SEARCHES {
            let file = folder.join(name);
            if file.is_file() {
                searches.push((file.clone(), read_run(&file, registry)?));
            }
        }
        let file = folder.join("run.json");
        let mut run = None;
        if file.is_file() {
            run = Some(read_run(&file, registry)?);
        }
        let Some(known) = run.as_ref().or(searches.first().map(|(_, search)| search)) else {
            return Err(Error::mistake(
                folder,
                "has no run.json; name the folder that a run wrote its results to, such as results/sim/NAME",
            ));
        };
        let mut verification = Verification::default();
        if !known.same_build {
            verification.notes.push(format!(
                "another build of the program made the results; {} of JSON files are not compared",
                OF_THE_BUILD.join(", ")
            ));
        }
        let there = files_below(folder)?;
        let is_recorded = there.iter().any(|file| file.ends_with(RoundLine::FILE));
        if is_recorded || executors.executor(&known.backend).is_ok() {
            verification.replay(folder, registry)?;
            return Ok(verification);
        }
        let place = tempfile::tempdir().map_err(|cause| {
            Error::failure(format!("a temporary folder cannot be made: {cause}"))
        })?;
        let out = place.path();
        if let Some(run) = &run {
            let simulator = executors.simulator(&run.backend)?;
            run_again(run, SelectedBackend::Simulated(simulator), out, stop)?;
        }
        for (file, recorded) in &searches {
            if !recorded.unknown.is_empty() {
                continue;
            }
            match search_again(file, out)? {
                Some(again) => search(&again)?,
                None => verification.notes.push(format!(
                    "{} does not say with which options it was made, since an earlier version wrote it",
                    file.display()
                )),
            }
        }
        let fresh = out.join(folder_name(&known.scenarios[0].name));
        verification.compare(folder, &fresh, known)?;
        Ok(verification)
    }

    fn compare(&mut self, folder: &Path, fresh: &Path, run: &RecordedRun) -> Result<()> {
        let there = files_below(folder)?;
        let made = files_below(fresh)?;
        for file in there.union(&made) {
            let above = file
                .components()
                .next()
                .map(|part| part.as_os_str().to_string_lossy());
            let policy = above.unwrap_or_default();
            let is_of_all = file.components().count() == 1;
            if file.ends_with("host.json") {
                self.leave_out(file, HOST);
            } else if run.unknown.iter().any(|label| folder_name(label) == policy) {
                self.leave_out(file, "its policy is not in this program");
            } else if is_of_all && !run.unknown.is_empty() {
                self.leave_out(file, "it also has policies that are not in this program");
            } else if !there.contains(file) {
                self.differ(file, "is missing".into());
            } else if !made.contains(file) {
                self.leave_out(file, NOT_MADE);
            } else {
                let read = |root: &Path| {
                    let path = root.join(file);
                    fs::read(&path).map_err(|cause| Error::unreadable(&path, &cause))
                };
                match difference(file, &read(folder)?, &read(fresh)?, run.same_build) {
                    None => self.equal += 1,
                    Some(what) => self.differ(file, what),
                }
            }
        }
        Ok(())
    }

    /// Replays the recorded runs of a real device.
    fn replay(&mut self, folder: &Path, registry: &Registry) -> Result<()> {
        let results = Results::open(folder, registry)?;
        let recorded: Vec<_> = results
            .points
            .iter()
            .filter(|point| Recording::is_in(&point.folder))
            .collect();
        refuse_if(recorded.is_empty(), || {
            Error::mistake(
                folder,
                "its times were measured, and no point has the rounds.csv from which a replay makes its decisions again",
            )
        })?;
        let mut inputs = Vec::new();
        for scenario in &results.scenarios {
            inputs.push(RunInputs::new(scenario)?);
        }
        let replays = recorded
            .par_iter()
            .map(|point| Ok(replay_with_ledger(&inputs[point.variant], point, None)?.0))
            .collect::<Result<Vec<_>>>()?;
        let mut compared = BTreeSet::new();
        for (point, replay) in recorded.iter().zip(replays) {
            let logs = [RequestLine::FILE, TaskLine::FILE].map(|log| point.folder.join(log));
            compared.extend(logs.iter().cloned());
            match replay.difference {
                None => self.equal += logs.iter().filter(|log| log.is_file()).count(),
                Some(what) => {
                    let name = point.folder.strip_prefix(folder).unwrap_or(&point.folder);
                    self.differ(name, format!("another decision in the replay: {what}"));
                }
            }
        }
        for file in files_below(folder)? {
            if file.ends_with("host.json") {
                self.leave_out(&file, HOST);
            } else if !compared.contains(&folder.join(&file)) {
                self.leave_out(
                    &file,
                    "its times were measured; a replay repeats decisions only",
                );
            }
        }
        Ok(())
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

/// The search that a settings file describes; `None` if the file has no command.
fn search_again(file: &Path, out: &Path) -> Result<Option<SearchAgain>> {
    let settings = read_json(file)?;
    let Some(words) = settings.get("command").and_then(Value::as_array) else {
        return Ok(None);
    };
    let words: Vec<String> = words
        .iter()
        .filter_map(|word| Some(word.as_str()?.to_string()))
        .collect();
    let begins_well = words
        .first()
        .is_some_and(|name| ["find-knee", "find-workers"].contains(&name.as_str()));
    // A file from elsewhere must not choose where results are written.
    let is_option = |word: &String| {
        let known = [
            "--slo=",
            "--ttft=",
            "--tbt=",
            "--quantile=",
            "--tolerance=",
            "--rate=",
        ];
        let more = ["--replications=", "--max-", "--set=", "--sweep=", "--seed="];
        known
            .iter()
            .chain(&more)
            .any(|start| word.starts_with(start))
    };
    refuse_if(!begins_well || !words[1..].iter().all(is_option), || {
        Error::mistake(file, "command: is not a search of batchlab")
    })?;
    let scenario = settings.get("file").and_then(Value::as_str);
    Ok(Some(SearchAgain {
        words,
        scenario: scenario.unwrap_or_default().to_string(),
        out: out.to_path_buf(),
    }))
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
    let policies = run.pointer("/scenario/policy").and_then(Value::as_array);
    refuse_if(policies.is_some_and(Vec::is_empty), || {
        let unknown: Vec<String> = unknown.iter().cloned().collect();
        Error::mistake(
            file,
            format_args!(
                "no policy of it is in this program ({}), as policies in Python or in another crate are not; verify it with \
                 the program that made it, or run it again there",
                unknown.join(", ")
            ),
        )
    })?;
    let (scenarios, backend) = restore(&run, file, registry)?;
    for scenario in &scenarios {
        require_same_inputs(scenario.inputs(), &run, file)?;
    }
    let text = |key: &str| run.get(key).and_then(Value::as_str).unwrap_or_default();
    let same_build = text("version") == env!("CARGO_PKG_VERSION")
        && text("git_commit") == env!("BATCHLAB_COMMIT");
    let replications = run.get("replications").and_then(Value::as_u64);
    Ok(RecordedRun {
        scenarios,
        backend,
        replications: replications.and_then(|n| n.try_into().ok()).unwrap_or(1),
        unknown: unknown.into_iter().collect(),
        same_build,
    })
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
    if !same_build && is_json {
        let parse = |bytes| {
            let mut value: Map<String, Value> = serde_json::from_slice(bytes).ok()?;
            value.retain(|key, _| !OF_THE_BUILD.contains(&key.as_str()));
            Some(value)
        };
        let again = parse(made);
        if again.is_some() && parse(there) == again {
            return None;
        }
    }
    let lines = |bytes: &[u8]| -> Vec<String> {
        let lines = bytes.split(|byte| *byte == b'\n');
        lines
            .map(|line| shorten(&String::from_utf8_lossy(line)))
            .collect()
    };
    let there = lines(there);
    let made = lines(made);
    let place = there
        .iter()
        .zip(&made)
        .position(|(one, other)| one != other);
    let place = place.unwrap_or(there.len().min(made.len()));
    let line = |lines: &[String]| lines.get(place).cloned().unwrap_or("nothing".into());
    Some(format!(
        "line {}: {} is there, a new run gives {}",
        place + 1,
        line(&there),
        line(&made)
    ))
}

/// The start of a long line.
fn shorten(line: &str) -> String {
    const MOST: usize = 60;
    match line.char_indices().nth(MOST) {
        Some((place, _)) => format!("\"{}…\"", &line[..place]),
        None => format!("\"{line}\""),
    }
}
