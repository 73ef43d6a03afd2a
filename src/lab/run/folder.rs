//! The folder of a scenario's results: its files, and the record that reproduces the run.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rayon::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::executor::SelectedBackend;
use super::fingerprint::{InputHashes, fingerprints, hash};
use super::job::{Run, SweepRun};
use super::verify::Verified;
use crate::base::clock;
use crate::base::error::{Error, Result};
use crate::base::files::{PARTIAL, folder_name, write_whole};
use crate::base::units::Nanos;
use crate::core::backend::Launched;
use crate::core::record::execution::Execution;
use crate::core::summary::Summary;
use crate::core::summary::bounds::Bounds;
use crate::core::summary::validity::Lateness;
use crate::core::workload::shape::Shape;
use crate::core::workload::shared_list::SharedList;
use crate::core::workload::trace::Requests;
use crate::lab::results::logs::{LogRow as _, RequestLine, RoundLine, TaskLine};
use crate::lab::results::sweep_keys;
use crate::lab::scenario::{PolicyEntry, Scenario, figure_files};
use crate::lab::usability::judge_table;

/// The format of `run.json` and of marks. It changes when the meaning of these files does.
const FORMAT: u64 = 1;

/// The files of a run, next to the folders of its policies.
const RUN_FILES: [&str; 8] = [
    "summary.csv",
    "differences.csv",
    "classes.csv",
    "run.json",
    "host.json",
    "lengths.csv",
    "bounds.json",
    "report.html",
];
/// The logs of a point.
const LOGS: [&str; 4] = [
    RequestLine::FILE,
    TaskLine::FILE,
    RoundLine::FILE,
    "timeline.json",
];
/// The start and the end of a file's name, with the number of the replication between them.
type NumberedName = (&'static str, &'static str);

/// The files of each replication of a point.
const REPLICATION_FILES: [NumberedName; 5] = [POINT, INTERRUPTED, FAILURES, REJECTIONS, BATCHES];
const POINT: NumberedName = ("point", ".json");
const SEARCH: NumberedName = ("search", ".json");
const INTERRUPTED: NumberedName = ("interrupted", ".json");
pub(super) const FAILURES: NumberedName = ("failures", ".csv");
pub(super) const REJECTIONS: NumberedName = ("rejections", ".csv");
pub(super) const BATCHES: NumberedName = ("batches", ".csv");

/// The folder of a scenario's results, with the policies and fingerprints of that scenario.
#[derive(Clone, Debug)]
pub struct Folder {
    pub path: PathBuf,
    pub(super) policies: Vec<PolicyEntry>,
    /// What the runs execute on, in words.
    device: String,
    /// The hashes of the scenario's input files, by the name in the scenario.
    inputs: Vec<(String, String)>,
    /// For each policy, a hash of everything that determines its results.
    fingerprints: Vec<String>,
    /// What becomes of results with other fingerprints.
    earlier: EarlierResults,
}

/// How a command treats the results that are in its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlierResults {
    /// They are not read, and all points count as missing.
    Unread,
    /// They count, and those of other settings are an error, because the command goes on with what is there.
    RefuseOthers,
    /// They count, but those of other settings count as missing, as in a plan.
    IgnoreOthers,
}

/// The mark of a finished point or search, with its summary or its rounds. It counts only while all files that it lists
/// exist.
#[derive(Serialize, Deserialize)]
struct FinishedMark<T> {
    fingerprint: String,
    #[serde(default, skip_serializing_if = "FileSizes::is_empty")]
    files: FileSizes,
    #[serde(flatten)]
    found: BTreeMap<String, T>,
}

/// The sizes of files in bytes, by name.
pub(super) type FileSizes = BTreeMap<String, u64>;

impl Folder {
    /// The folder as each scenario of a sweep sees it: they share its path. `devices` describes what each runs on.
    pub(crate) fn open_variants<S: Borrow<Scenario>>(
        scenarios: &[S],
        devices: &[String],
        out: &Path,
        backend: SelectedBackend,
    ) -> Result<Vec<Folder>> {
        let path = out.join(folder_name(&scenarios[0].borrow().name));
        let mut hashes = InputHashes::default();
        let mut folders = Vec::new();
        for (scenario, device) in scenarios.iter().map(Borrow::borrow).zip(devices) {
            folders.push(Folder {
                path: path.clone(),
                policies: scenario.policies.clone(),
                device: device.clone(),
                inputs: hashes.inputs(scenario)?,
                fingerprints: fingerprints(scenario, device, backend.is_real(), &mut hashes)?,
                earlier: EarlierResults::RefuseOthers,
            });
        }
        Ok(folders)
    }

    /// The same folder for a search, whose `settings` are hashed into the fingerprints.
    pub(crate) fn with_search(self, settings: &str) -> Folder {
        let fingerprints = self
            .fingerprints
            .iter()
            .map(|fingerprint| hash(&format!("{fingerprint} {settings}")))
            .collect();
        Folder {
            fingerprints,
            ..self
        }
    }

    /// The same folder, in which results of other settings count as missing.
    pub(crate) fn ignore_others(self) -> Folder {
        Folder {
            earlier: EarlierResults::IgnoreOthers,
            ..self
        }
    }

    /// Refuses a folder whose `run.json` is of another format, or of other settings of one of these policies.
    pub(super) fn refuse_others(folders: &[Folder]) -> Result<()> {
        let path = folders[0].path.join("run.json");
        let Some(run) = read_json::<Value>(&path) else {
            return Ok(());
        };
        let format = run["format"].as_u64();
        if format != Some(FORMAT) {
            let other = format.map_or("without a number".into(), |other| other.to_string());
            return Err(Error::input(format!(
                "{}: is of format {other}, but this version of the program goes on with format {FORMAT} only; give another \
                 --out",
                path.display()
            )));
        }
        for (name, fingerprint) in folders.iter().flat_map(Folder::fingerprints_by_name) {
            let earlier = run["fingerprints"].get(name);
            if earlier.is_some_and(|earlier| earlier != fingerprint) {
                return Err(other_settings(&path));
            }
        }
        Ok(())
    }

    fn fingerprints_by_name(&self) -> impl Iterator<Item = (String, &String)> {
        self.policies
            .iter()
            .map(PolicyEntry::name)
            .zip(&self.fingerprints)
    }

    /// Writes `run.json`, or the corresponding file of a search with the words of its command, unless the file already
    /// says the same.
    pub(crate) fn write_settings<S: Borrow<Scenario>>(
        folders: &[Folder],
        scenarios: &[S],
        (file, backend, replications): (&str, SelectedBackend, u32),
        command: Option<&[String]>,
    ) -> Result<()> {
        let scenarios: Vec<&Scenario> = scenarios.iter().map(Borrow::borrow).collect();
        let folder = &folders[0];
        let scenario = scenarios[0];
        let mut names = Map::new();
        let mut inputs = Map::new();
        for folder in folders {
            for policy in &folder.policies {
                names.insert(policy.label.clone(), json!(folder_name(&policy.label)));
            }
            for (given, hash) in &folder.inputs {
                inputs.insert(given.clone(), json!(hash));
            }
        }
        let fingerprints: BTreeMap<String, &String> = folders
            .iter()
            .flat_map(Folder::fingerprints_by_name)
            .collect();
        let mut settings = json!({
            "format": FORMAT,
            "scenario": scenario.resolved_json(),
            "seed": scenario.seed,
            "replications": replications,
            "version": env!("CARGO_PKG_VERSION"),
            "git_commit": env!("BATCHLAB_COMMIT"),
            "backend": backend.name(),
            "device": folder.device,
            "file": scenario.file.to_string_lossy(),
            "inputs": inputs,
            "folders": names,
            "fingerprints": fingerprints,
        });
        if scenarios.len() > 1 {
            settings["variants"] = scenarios
                .iter()
                .map(|scenario| scenario.resolved_json())
                .collect();
        }
        let unusable = unusable_costs(&scenarios);
        if !backend.is_real() && !unusable.is_empty() {
            settings["not_usable"] = json!(unusable);
        }
        if let Some(command) = command {
            settings["command"] = json!(command);
        }
        let path = folder.path.join(file);
        let text = format!("{settings:#}\n");
        // All shards of one run write the same text.
        if fs::read_to_string(&path).is_ok_and(|there| there == text) {
            return Ok(());
        }
        write_whole(&path, |out| out.write_all(text.as_bytes()))
    }

    pub(super) fn write_bounds(&self, bounds: &Bounds) -> Result<()> {
        write_json(&self.path.join("bounds.json"), bounds)
    }

    /// Removes the results of an earlier run, but not those of searches. A file that can't be removed can't be
    /// overwritten either; writing it reports the error.
    pub(super) fn clear(&self) {
        // Marks are removed first, so that a killed process leaves no mark whose files are gone.
        self.remove_from_points(|_, name| has_name(POINT, name));
        let run_files = RUN_FILES.iter().map(ToString::to_string);
        for file in run_files.chain(figure_files()) {
            let _ = fs::remove_file(self.path.join(file));
        }
        self.remove_from_points(|_, name| {
            LOGS.contains(&name) || REPLICATION_FILES.iter().any(|file| has_name(*file, name))
        });
    }

    /// Removes what searches of one kind have found.
    pub(crate) fn clear_searches(&self, kind: &str) {
        self.remove_from_points(|point, name| {
            point.split(',').next() == Some(kind) && has_name(SEARCH, name)
        });
    }

    /// Removes the files for which `is_removed(point, file)` holds, then folders that are empty.
    fn remove_from_points(&self, is_removed: impl Fn(&str, &str) -> bool) {
        for policy in folders_in(&self.path) {
            for point in folders_in(&policy) {
                let point_name = point
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                for file in fs::read_dir(&point).into_iter().flatten().flatten() {
                    if is_removed(&point_name, &file.file_name().to_string_lossy()) {
                        let _ = fs::remove_file(file.path());
                    }
                }
                let _ = fs::remove_dir(point);
            }
            let _ = fs::remove_dir(policy);
        }
    }

    pub fn summary(&self) -> PathBuf {
        self.path.join("summary.csv")
    }

    pub fn point(&self, run: &Run) -> PathBuf {
        self.path_of_point(run.policy, &run.load.to_string())
    }

    /// The folder of a policy under a load, or of its searches of one kind.
    fn path_of_point(&self, policy: usize, load: &str) -> PathBuf {
        let entry = &self.policies[policy];
        self.path
            .join(folder_name(&entry.label))
            .join(sweep_keys::point_folder(load, &entry.swept))
    }

    /// Creates a folder where the files of a run are written, until [`Folder::publish`] moves them.
    pub(super) fn stage(&self) -> Result<TempDir> {
        let within = self.path.join(PARTIAL);
        tempfile::tempdir_in(&within).map_err(|cause| Error::unwritable(&within, &cause))
    }

    /// Moves the files of a run to the point's folder, after they have been written to the disk.
    pub(super) fn publish(&self, run: &Run, stage: &TempDir) -> Result<FileSizes> {
        let point = self.point(run);
        for stale in [POINT, INTERRUPTED, FAILURES, REJECTIONS] {
            // An error is usual here, because there is no stale file.
            let _ = fs::remove_file(point.join(numbered_name(run.replication, stale)));
        }
        move_files(stage.path(), &point).map_err(|cause| Error::unwritable(&point, &cause))
    }

    /// The summary of each run, or `None` if the run is not finished or one of its files is missing.
    ///
    /// # Errors
    /// Fails if a run was finished with other settings.
    pub(super) fn read_finished(
        folders: &[Folder],
        runs: &[SweepRun],
    ) -> Result<Vec<Option<Summary>>> {
        let read: Vec<Result<Option<Summary>>> = runs
            .par_iter()
            .map(|SweepRun { variant, run, .. }| {
                let folder = &folders[*variant];
                let mark = numbered_name(run.replication, POINT);
                folder.read_mark(&folder.point(run).join(mark), run.policy)
            })
            .collect();
        // The results are collected in order, so that the first error is reported.
        read.into_iter().collect()
    }

    fn read_mark<T: DeserializeOwned>(&self, path: &Path, policy: usize) -> Result<Option<T>> {
        let Some(FinishedMark {
            fingerprint,
            files,
            mut found,
        }) = read_json(path)
        else {
            return Ok(None);
        };
        if fingerprint != self.fingerprints[policy] {
            return match self.earlier {
                EarlierResults::RefuseOthers => Err(other_settings(path)),
                EarlierResults::IgnoreOthers | EarlierResults::Unread => Ok(None),
            };
        }
        for (name, bytes) in &files {
            let has_size = fs::metadata(path.with_file_name(name))
                .is_ok_and(|metadata| metadata.len() == *bytes);
            if !has_size {
                return Ok(None);
            }
        }
        Ok(found.pop_first().map(|(_, found)| found))
    }

    fn write_mark(
        &self,
        path: &Path,
        policy: usize,
        files: FileSizes,
        name: &str,
        found: impl Serialize,
    ) -> Result<()> {
        let found = BTreeMap::from([(name.to_string(), found)]);
        write_json(
            path,
            &FinishedMark {
                fingerprint: self.fingerprints[policy].clone(),
                files,
                found,
            },
        )
    }

    /// Writes the summary of a finished or an interrupted run. They have different file names, so that neither is
    /// mistaken for the other.
    pub(super) fn write_point(
        &self,
        run: &Run,
        summary: &Summary,
        files: FileSizes,
        interrupted: bool,
    ) -> Result<()> {
        let name = if interrupted { INTERRUPTED } else { POINT };
        let path = self.point(run).join(numbered_name(run.replication, name));
        self.write_mark(&path, run.policy, files, "summary", summary)
    }

    fn search_file(&self, kind: &str, policy: usize, replication: u32) -> PathBuf {
        self.path_of_point(policy, kind)
            .join(numbered_name(replication, SEARCH))
    }

    /// Reads what a replication of a search has found, round by round.
    pub(crate) fn read_search<T: DeserializeOwned>(
        &self,
        kind: &str,
        policy: usize,
        replication: u32,
    ) -> Result<Vec<T>> {
        Ok(self
            .read_mark(&self.search_file(kind, policy, replication), policy)?
            .unwrap_or_default())
    }

    pub(crate) fn write_search(
        &self,
        kind: &str,
        policy: usize,
        replication: u32,
        rounds: &[impl Serialize],
    ) -> Result<()> {
        self.write_mark(
            &self.search_file(kind, policy, replication),
            policy,
            FileSizes::new(),
            "rounds",
            rounds,
        )
    }

    /// Writes `host.json`, the only file in which two simulated runs of one seed differ.
    pub(super) fn write_host(&self, runs: &[&Value], wall: Duration) -> Result<()> {
        let host = json!({
            "device": self.device,
            "finished_unix_s": clock::unix_seconds(),
            "wall_s": wall.as_secs_f64(),
            "threads": rayon::current_num_threads(),
            "runs": runs,
        });
        write_json(&self.path.join("host.json"), &host)
    }

    /// The entry in `host.json` of a run that took `wall`, including the time for writing its files.
    pub(super) fn host_row(
        &self,
        run: &Run,
        execution: &Execution,
        launched: Option<&Launched>,
        verified: &Verified,
        lateness: Option<Lateness>,
        wall: Duration,
    ) -> Value {
        let policy = &self.policies[run.policy];
        let decisions = &execution.decisions;
        let mut row = json!({
            "policy": folder_name(&policy.label),
            "point": sweep_keys::point_folder(&run.load.to_string(), &policy.swept),
            "replication": run.replication,
            "wall_s": wall.as_secs_f64(),
            "decisions": decisions.calls,
            "scheduler_ns_per_decision": decisions.ns_per_call(),
            "scheduler_ns_per_task": decisions.ns_per_task(),
        });
        if let Some(launched) = launched {
            row["scheduler_s"] = json!(decisions.timed.time.as_secs_f64());
            let busy = execution
                .busy
                .iter()
                .copied()
                .fold(Nanos::ZERO, Nanos::saturating_add);
            row["busy_s"] = json!(busy.as_secs_f64());
            row["launches"] = json!(launched.launches);
            row["copies"] = json!(launched.copies);
            row["copied_bytes"] = json!(launched.copied_bytes);
            row["copying_s"] = json!(launched.copying.as_secs_f64());
        }
        if let Some(lateness) = lateness {
            row["lateness"] = json!(lateness);
            row["verified"] = json!(verified.requests);
            if let Some(largest) = verified.largest {
                row["largest_error"] = json!(largest.error);
                row["largest_error_of_tolerated"] = json!(largest.of_tolerated);
            }
        }
        row
    }
}

/// Writes `lengths.csv`, if all these requests have the same shapes.
pub(crate) fn write_lengths(folder: &Path, samples: &[Arc<Requests>]) -> Result<()> {
    let shapes = &samples[0].shapes;
    if samples.iter().any(|sample| sample.shapes != *shapes) {
        return Ok(());
    }
    let counts = count_lengths(shapes);
    let has_pairs = counts.keys().any(|(_, second)| second.is_some());
    write_whole(&folder.join("lengths.csv"), |out| {
        if has_pairs {
            writeln!(out, "src_len,tgt_len,count")?;
        } else {
            writeln!(out, "length,count")?;
        }
        for ((length, second), count) in &counts {
            match second {
                None => writeln!(out, "{length},{count}")?,
                Some(second) => writeln!(out, "{length},{second},{count}")?,
            }
        }
        Ok(())
    })
}

/// The length of a request, or both lengths of a pair.
type Lengths = (u32, Option<u32>);

/// Lengths below this number are counted in a list.
const SHORT: usize = 1 << 12;

/// The number of requests of each length.
fn count_lengths(shapes: &SharedList<Shape>) -> BTreeMap<Lengths, u64> {
    let mut short = [0; SHORT];
    let mut counts = BTreeMap::new();
    for shape in shapes.iter() {
        let lengths = match shape {
            Shape::Seq2Seq { source, target } => (*source, Some(*target)),
            Shape::Llm { prompt, output } => (*prompt, Some(*output)),
            other => (other.length(), None),
        };
        match lengths {
            (length, None) if (length as usize) < SHORT => short[length as usize] += 1,
            _ => *counts.entry(lengths).or_insert(0) += 1,
        }
    }
    for (length, count) in (0..).zip(short) {
        if count > 0 {
            counts.insert((length, None), count);
        }
    }
    counts
}

/// The name of the mark of a finished replication.
pub(crate) fn mark_of_point(replication: u32) -> String {
    numbered_name(replication, POINT)
}

/// Whether a file is the mark of a finished replication or search.
pub(crate) fn is_mark_of_point(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    has_name(POINT, &name) || has_name(SEARCH, &name)
}

/// Moves all files of a folder to another, after they have been written to the disk.
fn move_files(from: &Path, to: &Path) -> io::Result<FileSizes> {
    fs::create_dir_all(to)?;
    let mut sizes = FileSizes::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let file = File::open(entry.path())?;
        file.sync_data()?;
        fs::rename(entry.path(), to.join(&name))?;
        sizes.insert(name.to_string_lossy().into_owned(), file.metadata()?.len());
    }
    Ok(sizes)
}

fn other_settings(path: &Path) -> Error {
    Error::input(format!(
        "{}: was run with other settings, seed, input files or another version of the program, so that --resume and \
         --shard can't go on with it; leave them out to replace what is there, or give another --out",
        path.display()
    ))
}

/// The name of a replication's file.
pub(super) fn numbered_name(replication: u32, (stem, ending): NumberedName) -> String {
    match replication {
        0 => format!("{stem}{ending}"),
        later => format!("{stem}-{}{ending}", later + 1),
    }
}

fn has_name((stem, ending): NumberedName, name: &str) -> bool {
    name.starts_with(stem) && name.ends_with(ending)
}

/// The folders of policies in the folder of a run, or those of points in the folder of a policy.
fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && entry.file_name() != PARTIAL {
            folders.push(entry.path());
        }
    }
    folders
}

/// Reads a file; `None` if it is missing, damaged or not a regular file, since a pipe would block.
fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    if !path.is_file() {
        return None;
    }
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    write_whole(path, |out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    })
}

/// The cost tables that cannot be used, each with the reasons.
fn unusable_costs(scenarios: &[&Scenario]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for scenario in scenarios {
        for (name, table) in scenario.cost_tables() {
            let usability = judge_table(table);
            if !usability.is_usable() {
                all.insert(format!("{name}: {}", usability.reasons().join("; ")));
            }
        }
    }
    all
}
