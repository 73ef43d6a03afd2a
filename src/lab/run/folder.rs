//! The folder of a scenario's results: its files, and the record that reproduces the run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum as _;
use rayon::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::executor::SelectedBackend;
use super::fingerprint::{fingerprints, hash, hash_of};
use super::inputs::RunInputs;
use super::target::Target;
use super::verify::Verified;
use super::{Job, Run};
use crate::base::error::{Error, Result};
use crate::base::files::{PARTIAL, folder_name, write_whole};
use crate::base::units::Nanos;
use crate::core::backend::Launched;
use crate::core::record::execution::Execution;
use crate::core::summary::Summary;
use crate::core::summary::validity::Lateness;
use crate::core::workload::shape::Shape;
use crate::lab::plot;
use crate::lab::results::logs::{LogRow as _, RequestLine, RoundLine, TaskLine};
use crate::lab::results::sweep_keys;
use crate::lab::scenario::{PolicyEntry, Scenario};

/// Of `run.json` and marks. Another number is another meaning of these files.
const FORMAT: u64 = 1;

const OF_THE_RUN: [&str; 12] = [
    "summary.csv",
    "differences.csv",
    "classes.csv",
    "run.json",
    "host.json",
    "lengths.csv",
    "bounds.json",
    "report.html",
    // Of searches with other settings, perhaps.
    "knee.csv",
    "knee.json",
    "workers.csv",
    "workers.json",
];
const LOGS: [&str; 4] = [
    RequestLine::FILE,
    TaskLine::FILE,
    RoundLine::FILE,
    "timeline.json",
];
/// By the start and the end of their names.
const OF_A_REPLICATION: [(&str, &str); 5] = [POINT, INTERRUPTED, FAILURES, REJECTIONS, BATCHES];
const POINT: (&str, &str) = ("point", ".json");
const SEARCH: (&str, &str) = ("search", ".json");
const INTERRUPTED: (&str, &str) = ("interrupted", ".json");
pub(super) const FAILURES: (&str, &str) = ("failures", ".csv");
pub(super) const REJECTIONS: (&str, &str) = ("rejections", ".csv");
pub(super) const BATCHES: (&str, &str) = ("batches", ".csv");

#[derive(Clone, Debug)]
pub struct Folder {
    pub path: PathBuf,
    pub(super) policies: Vec<PolicyEntry>,
    device: String,
    fingerprints: Vec<String>,
}

/// What a finished point or search leaves: its summary or its rounds. It counts while all of the files are there.
#[derive(Serialize, Deserialize)]
struct Mark<T> {
    fingerprint: String,
    #[serde(default, skip_serializing_if = "Files::is_empty")]
    files: Files,
    #[serde(flatten)]
    found: BTreeMap<String, T>,
}

/// Names and sizes in bytes.
pub(super) type Files = BTreeMap<String, u64>;

impl Folder {
    /// One for each scenario of a sweep, within the same path. `devices` describes theirs.
    pub(super) fn of(
        scenarios: &[&Scenario],
        devices: &[String],
        out: &Path,
        target: SelectedBackend,
    ) -> Result<Vec<Folder>> {
        let path = out.join(folder_name(&scenarios[0].name));
        let of = |(scenario, device): (&&Scenario, &String)| {
            let fingerprints = fingerprints(scenario, device, target.is_real())?;
            let (path, policies, device) =
                (path.clone(), scenario.policies.clone(), device.clone());
            Ok(Folder {
                path,
                policies,
                device,
                fingerprints,
            })
        };
        scenarios.iter().zip(devices).map(of).collect()
    }

    /// As it is, for points with other fingerprints: those of a search that `settings` describes.
    pub(super) fn for_search(self, settings: &str) -> Folder {
        let fingerprints = self
            .fingerprints
            .iter()
            .map(|of_policy| hash(&format!("{of_policy} {settings}")))
            .collect();
        Folder {
            fingerprints,
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
        let mut now = folders.iter().flat_map(Folder::named_fingerprints);
        match now.any(|(name, now)| {
            run["fingerprints"]
                .get(name)
                .is_some_and(|then| then != now)
        }) {
            true => Err(other_settings(&path)),
            false => Ok(()),
        }
    }

    fn named_fingerprints(&self) -> impl Iterator<Item = (String, &String)> {
        self.policies
            .iter()
            .map(PolicyEntry::name)
            .zip(&self.fingerprints)
    }

    /// Writes `run.json`, or that of a search, if it is not there yet.
    pub(super) fn write_settings(
        folders: &[Folder],
        scenarios: &[&Scenario],
        (file, target, replications): (&str, SelectedBackend, u32),
    ) -> Result<()> {
        let (folder, scenario) = (&folders[0], scenarios[0]);
        let policies = scenarios.iter().flat_map(|scenario| &scenario.policies);
        let names: Map<String, Value> = policies
            .map(|policy| (policy.label.clone(), json!(folder_name(&policy.label))))
            .collect();
        let mut inputs = Map::new();
        for (given, path) in scenarios.iter().flat_map(|scenario| scenario.inputs()) {
            inputs.insert(given.to_string(), json!(hash_of(path)?));
        }
        let fingerprints: BTreeMap<String, &String> = folders
            .iter()
            .flat_map(Folder::named_fingerprints)
            .collect();
        let mut reproduces = json!({
            "format": FORMAT,
            "scenario": scenario.resolved_json(),
            "seed": scenario.seed,
            "replications": replications,
            "version": env!("CARGO_PKG_VERSION"),
            "git_commit": env!("BATCHLAB_COMMIT"),
            "backend": target.name(),
            "device": folder.device,
            "file": scenario.file.to_string_lossy(),
            "inputs": inputs,
            "folders": names,
            "fingerprints": fingerprints,
        });
        if scenarios.len() > 1 {
            reproduces["variants"] = scenarios
                .iter()
                .map(|scenario| scenario.resolved_json())
                .collect();
        }
        let (path, text) = (folder.path.join(file), format!("{reproduces:#}\n"));
        match fs::read_to_string(&path).is_ok_and(|there| there == text) {
            true => Ok(()), // Shards of one run all have the same.
            false => write_whole(&path, |out| out.write_all(text.as_bytes())),
        }
    }

    /// Writes `lengths.csv` and `bounds.json`, each only if it is the same in all variants.
    pub(super) fn write_inputs(&self, variants: &[&(RunInputs<'_>, Target)]) -> Result<()> {
        let requests = variants
            .iter()
            .map(|(inputs, _)| inputs.sample())
            .collect::<Result<Vec<_>>>()?;
        if requests.iter().all(|one| one.shapes == requests[0].shapes) {
            self.write_lengths(&requests[0].shapes)?;
        }
        let bounds = variants
            .iter()
            .map(|(inputs, device)| device.bounds(inputs))
            .collect::<Result<Vec<_>>>()?;
        match &bounds[0] {
            Some(first) if bounds.iter().flatten().all(|one| one == first) => {
                write_json(&self.path.join("bounds.json"), first)
            }
            _ => Ok(()),
        }
    }

    /// Removes the results of an earlier run. A file that can't be removed can't be overwritten either; writing it
    /// reports the error.
    pub(super) fn clear(&self) {
        // Marks go first, so that no kill leaves one whose files are gone.
        self.remove_from_points(|_, name| is_of(POINT, name) || is_of(SEARCH, name));
        let of_kind = |kind: &plot::FigureKind| {
            ["svg", "png", "pdf"].map(|ending| format!("{kind}.{ending}"))
        };
        let figures = plot::FigureKind::value_variants().iter().flat_map(of_kind);
        for file in OF_THE_RUN.iter().map(ToString::to_string).chain(figures) {
            let _ = fs::remove_file(self.path.join(file));
        }
        self.remove_from_points(|_, name| {
            LOGS.contains(&name) || OF_A_REPLICATION.iter().any(|of| is_of(*of, name))
        });
    }

    /// Removes what searches of one kind have found.
    pub(super) fn clear_searches(&self, kind: &str) {
        let of_kind = |point: &str| point.split(',').next() == Some(kind);
        self.remove_from_points(|point, name| of_kind(point) && is_of(SEARCH, name));
    }

    /// By the names of the point and the file. Folders that are empty afterwards go too.
    fn remove_from_points(&self, removed: impl Fn(&str, &str) -> bool) {
        for policy in folders_in(&self.path) {
            for point in folders_in(&policy) {
                let of = point
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                for file in fs::read_dir(&point).into_iter().flatten().flatten() {
                    if removed(&of, &file.file_name().to_string_lossy()) {
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
        self.place(run.policy, &run.load.to_string())
    }

    /// Of a policy under a load, or of its searches of one kind.
    fn place(&self, policy: usize, load: &str) -> PathBuf {
        let entry = &self.policies[policy];
        self.path
            .join(folder_name(&entry.label))
            .join(sweep_keys::point_folder(load, &entry.swept))
    }

    /// Where the files of a run are written, until [`Folder::publish`] moves them.
    pub(super) fn stage(&self) -> Result<TempDir> {
        let within = self.path.join(PARTIAL);
        tempfile::tempdir_in(&within).map_err(|cause| Error::unwritable(&within, &cause))
    }

    /// Moves the files of a run to the point's folder; the disk has them then.
    pub(super) fn publish(&self, run: &Run, stage: &TempDir) -> Result<Files> {
        let point = self.point(run);
        let unwritable = |cause: io::Error| Error::unwritable(&point, &cause);
        fs::create_dir_all(&point).map_err(unwritable)?;
        for stale in [POINT, INTERRUPTED, FAILURES, REJECTIONS] {
            // Usually there is none.
            let _ = fs::remove_file(point.join(numbered(run.replication, stale)));
        }
        let publish = |file: io::Result<fs::DirEntry>| {
            let (name, path) = file.map(|file| (file.file_name(), file.path()))?;
            let file = File::open(&path)?;
            file.sync_data()?;
            fs::rename(&path, point.join(&name))?;
            Ok((name.to_string_lossy().into_owned(), file.metadata()?.len()))
        };
        fs::read_dir(stage.path())
            .and_then(|files| files.map(publish).collect())
            .map_err(unwritable)
    }

    /// `None` for each run that is not finished, or of which a file is missing.
    ///
    /// # Errors
    /// It was finished with other settings.
    pub(super) fn finished(folders: &[Folder], jobs: &[Job]) -> Result<Vec<Option<Summary>>> {
        let finished = |Job { variant, run, .. }: &Job| {
            let folder = &folders[*variant];
            folder.read_mark(
                &folder.point(run).join(numbered(run.replication, POINT)),
                run.policy,
            )
        };
        // One after the other again, so that the first error is told.
        jobs.par_iter()
            .map(finished)
            .collect::<Vec<_>>()
            .into_iter()
            .collect()
    }

    fn read_mark<T: DeserializeOwned>(&self, path: &Path, policy: usize) -> Result<Option<T>> {
        let Some(Mark {
            fingerprint,
            files,
            mut found,
        }) = read_json(path)
        else {
            return Ok(None);
        };
        if fingerprint != self.fingerprints[policy] {
            return Err(other_settings(path));
        }
        let size = |name: &String| {
            fs::metadata(path.with_file_name(name))
                .map(|found| found.len())
                .ok()
        };
        let complete = files.iter().all(|(name, bytes)| size(name) == Some(*bytes));
        Ok(found
            .pop_first()
            .map(|(_, found)| found)
            .filter(|_| complete))
    }

    fn write_mark(
        &self,
        path: &Path,
        policy: usize,
        files: Files,
        name: &str,
        found: impl Serialize,
    ) -> Result<()> {
        let found = BTreeMap::from([(name.to_string(), found)]);
        write_json(
            path,
            &Mark {
                fingerprint: self.fingerprints[policy].clone(),
                files,
                found,
            },
        )
    }

    /// Of a finished run, or of an interrupted one: a separate file, so that the two are not mistaken for each other.
    pub(super) fn write_point(
        &self,
        run: &Run,
        summary: &Summary,
        files: Files,
        interrupted: bool,
    ) -> Result<()> {
        let name = numbered(
            run.replication,
            if interrupted { INTERRUPTED } else { POINT },
        );
        self.write_mark(
            &self.point(run).join(name),
            run.policy,
            files,
            "summary",
            summary,
        )
    }

    fn search_file(&self, kind: &str, policy: usize, replication: u32) -> PathBuf {
        self.place(policy, kind).join(numbered(replication, SEARCH))
    }

    /// What a replication of a search has found, round by round.
    pub(super) fn searched<T: DeserializeOwned>(
        &self,
        kind: &str,
        policy: usize,
        replication: u32,
    ) -> Result<Vec<T>> {
        Ok(self
            .read_mark(&self.search_file(kind, policy, replication), policy)?
            .unwrap_or_default())
    }

    pub(super) fn write_searched(
        &self,
        kind: &str,
        policy: usize,
        replication: u32,
        rounds: &[impl Serialize],
    ) -> Result<()> {
        self.write_mark(
            &self.search_file(kind, policy, replication),
            policy,
            Files::new(),
            "rounds",
            rounds,
        )
    }

    /// The only file in which two simulated runs of one seed differ.
    pub(super) fn write_host(&self, runs: &[&Value], wall: Duration) -> Result<()> {
        let now = crate::base::clock::unix_seconds();
        let host = json!({
            "device": self.device,
            "finished_unix_s": now,
            "wall_s": wall.as_secs_f64(),
            "threads": rayon::current_num_threads(),
            "runs": runs,
        });
        write_json(&self.path.join("host.json"), &host)
    }

    /// Of a run that took `wall`, its files included.
    pub(super) fn host_row(
        &self,
        run: &Run,
        Execution {
            decisions, busy, ..
        }: &Execution,
        launched: Option<&Launched>,
        verified: &Verified,
        lateness: Option<Lateness>,
        wall: Duration,
    ) -> Value {
        let per = |count: u64| (count > 0).then(|| decisions.time.as_nanos() as f64 / count as f64);
        let mut row = json!({
            "policy": folder_name(&self.policies[run.policy].label),
            "point": sweep_keys::point_folder(&run.load.to_string(), &self.policies[run.policy].swept),
            "replication": run.replication,
            "wall_s": wall.as_secs_f64(),
            "decisions": decisions.calls,
            "scheduler_ns_per_decision": per(decisions.calls),
            "scheduler_ns_per_task": per(decisions.tasks),
        });
        if let Some(launched) = launched {
            row["scheduler_s"] = json!(decisions.time.as_secs_f64());
            let busy = busy
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

    fn write_lengths(&self, shapes: &[Shape]) -> Result<()> {
        let mut counts = BTreeMap::new();
        for shape in shapes {
            let sides = match shape {
                Shape::Seq2Seq {
                    source: a,
                    target: b,
                }
                | Shape::Llm {
                    prompt: a,
                    output: b,
                } => vec![*a, *b],
                other => vec![other.length()],
            };
            *counts.entry(sides).or_insert(0u64) += 1;
        }
        write_whole(&self.path.join("lengths.csv"), |out| {
            let pairs = counts.keys().any(|sides| sides.len() > 1);
            writeln!(
                out,
                "{}",
                if pairs {
                    "src_len,tgt_len,count"
                } else {
                    "length,count"
                }
            )?;
            counts.iter().try_for_each(|(sides, count)| {
                let sides: String = sides.iter().map(|side| format!("{side},")).collect();
                writeln!(out, "{sides}{count}")
            })
        })
    }
}

fn other_settings(path: &Path) -> Error {
    Error::input(format!(
        "{}: was run with other settings, seed, input files or another version of the program, so that --resume and \
         --shard can't go on with it; leave them out to replace what is there, or give another --out",
        path.display()
    ))
}

/// The name of a replication's file.
pub(super) fn numbered(replication: u32, (stem, ending): (&str, &str)) -> String {
    match replication {
        0 => format!("{stem}{ending}"),
        later => format!("{stem}-{}{ending}", later + 1),
    }
}

fn is_of((stem, ending): (&str, &str), name: &str) -> bool {
    name.starts_with(stem) && name.ends_with(ending)
}

/// Of policies, or of points.
fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of_results = entries.filter(|entry| {
        entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.file_name() != PARTIAL
    });
    of_results.map(|entry| entry.path()).collect()
}

/// `None` if it is missing, damaged, or no file: a pipe would block.
fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let text = path.is_file().then(|| fs::read_to_string(path).ok())??;
    serde_json::from_str(&text).ok()
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    write_whole(path, |out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    })
}
