//! The folder of a scenario's results: where files lie, what makes the run repeatable, and what is finished.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::prepared::Prepared;
use super::{Options, Run, SIM};
use crate::error::{Error, Result};
use crate::files::{PARTIAL_PREFIX, folder_name, write_whole};
use crate::metrics::recorder::Decisions;
use crate::metrics::summary::Summary;
use crate::scenario::{Load, Scenario};
use crate::workload::random::fnv1a;
use crate::workload::shape::Shape;

/// The logs of a point.
const LOGS: &[&str] = &["requests.csv", "tasks.csv", "batches.csv", "timeline.json"];

/// The folder of one scenario's results.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    policies: Vec<String>,
    /// Tells runs apart that would come to other results.
    fingerprint: String,
}

/// A finished run, as its file has it.
#[derive(Serialize, Deserialize)]
struct Point {
    fingerprint: String,
    summary: Summary,
}

impl Folder {
    /// Makes the folder, removes what a killed run left half written, and writes what reproduces this one.
    ///
    /// # Errors
    /// A folder or file that can't be written.
    pub fn open(scenario: &Scenario, prepared: &Prepared<'_>, options: &Options) -> Result<Folder> {
        let path = options.out.join(folder_name(&scenario.name));
        fs::create_dir_all(&path).map_err(|cause| Error::unwritable(&path, &cause))?;
        let policies = scenario.policies.iter().map(|policy| folder_name(&policy.label)).collect();
        let mut folder = Folder { path, policies, fingerprint: String::new() };
        folder.remove_partial_files();
        // A summary of an earlier run must not stand beside the points of this one.
        let _ = fs::remove_file(folder.summary());

        let reproduces = json!({
            "scenario": scenario.resolved_json(),
            "seed": scenario.seed,
            "replications": options.replications,
            "version": env!("CARGO_PKG_VERSION"),
            "git_commit": env!("BATCHLAB_COMMIT"),
            "backend": SIM,
            "device": "simulated",
        });
        folder.fingerprint = fingerprint(scenario)?;
        write_json(&folder.path.join("run.json"), &reproduces)?;
        folder.write_lengths(&prepared.requests(0)?.shapes)?;
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A row for each policy and point.
    pub fn summary(&self) -> PathBuf {
        self.path.join("summary.csv")
    }

    /// The folder of a point.
    pub fn point(&self, run: &Run) -> PathBuf {
        self.path.join(&self.policies[run.policy]).join(run.load.to_string())
    }

    fn point_file(&self, run: &Run) -> PathBuf {
        self.point(run).join(match run.replication {
            0 => "point.json".to_string(),
            later => format!("point-{}.json", later + 1),
        })
    }

    /// The summary of a run that is finished already, if it may be taken over.
    pub fn finished(&self, run: &Run, resume: bool) -> Option<Summary> {
        if !resume {
            return None;
        }
        let text = fs::read_to_string(self.point_file(run)).ok()?;
        let point: Point = serde_json::from_str(&text).ok()?;
        (point.fingerprint == self.fingerprint).then_some(point.summary)
    }

    /// Removes what runs of another scenario under this name left in the folders of these runs: a log that is not written
    /// this time must not be taken for one of this scenario.
    pub fn remove_stale(&self, runs: &[Run]) {
        for run in runs.iter().filter(|run| self.finished(run, true).is_none()) {
            let logs = if run.replication == 0 { LOGS } else { &[] };
            let logs = logs.iter().map(|log| self.point(run).join(log));
            for file in logs.chain([self.point_file(run)]) {
                // Most often there is none; one that can't be removed can't be written over either, which is told then.
                let _ = fs::remove_file(file);
            }
        }
    }

    /// Writes that a run is finished.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn write_finished(&self, run: &Run, summary: &Summary) -> Result<()> {
        let point = Point { fingerprint: self.fingerprint.clone(), summary: summary.clone() };
        write_json(&self.point_file(run), &point)
    }

    /// Writes what the host's clock measured, the only file in which two runs of one seed differ.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn write_host(
        &self,
        runs: &[Run],
        hosts: impl Iterator<Item = Option<(Duration, Decisions)>>,
        wall: Duration,
    ) -> Result<()> {
        let runs: Vec<Value> = runs
            .iter()
            .zip(hosts)
            .filter_map(|(run, host)| host.map(|(wall, decisions)| self.host_row(run, wall, decisions)))
            .collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let host = json!({
            "finished_unix_s": now,
            "wall_s": wall.as_secs_f64(),
            "threads": rayon::current_num_threads(),
            "runs": runs,
        });
        write_json(&self.path.join("host.json"), &host)
    }

    fn host_row(&self, run: &Run, wall: Duration, decisions: Decisions) -> Value {
        let per = |count: u64| (count > 0).then(|| decisions.time.as_nanos() as f64 / count as f64);
        json!({
            "policy": self.policies[run.policy],
            "point": run.load.to_string(),
            "replication": run.replication,
            "wall_s": wall.as_secs_f64(),
            "decisions": decisions.calls,
            "scheduler_ns_per_decision": per(decisions.calls),
            "scheduler_ns_per_task": per(decisions.tasks),
        })
    }

    /// How often each length occurs among the requests.
    fn write_lengths(&self, shapes: &[Shape]) -> Result<()> {
        let mut counts = std::collections::BTreeMap::new();
        for shape in shapes {
            let sides = match shape {
                Shape::Seq2Seq { source, target } => (*source, Some(*target)),
                other => (other.length(), None),
            };
            *counts.entry(sides).or_insert(0u64) += 1;
        }
        write_whole(&self.path.join("lengths.csv"), |out| {
            let pairs = counts.keys().any(|(_, target)| target.is_some());
            writeln!(out, "{}", if pairs { "src_len,tgt_len,count" } else { "length,count" })?;
            for ((length, target), count) in &counts {
                match target {
                    Some(target) => writeln!(out, "{length},{target},{count}")?,
                    None => writeln!(out, "{length},{count}")?,
                }
            }
            Ok(())
        })
    }

    fn remove_partial_files(&self) {
        let mut folders = vec![self.path.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(entry.path());
                } else if entry.file_name().to_string_lossy().starts_with(PARTIAL_PREFIX) {
                    // Whether it goes or stays changes no result.
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
    }
}

/// Of all that decides a run's results: the scenario, the files that it names, and the program.
fn fingerprint(scenario: &Scenario) -> Result<String> {
    let mut resolved = scenario.resolved_json();
    if let Some(root) = resolved.as_object_mut() {
        // Figures are drawn anew in any case.
        if let Some(Value::Object(output)) = root.get_mut("output") {
            output.retain(|key, _| !["plots", "plot_point", "title"].contains(&key.as_str()));
        }
    }
    let mut text = format!("{} {} {resolved}", env!("CARGO_PKG_VERSION"), env!("BATCHLAB_COMMIT"));
    let named = match &scenario.workload.load {
        Load::Drawn { dataset, .. } => dataset.path(),
        Load::Trace { trace, .. } => trace.path(),
    };
    let files = scenario.policies.iter().map(|policy| policy.costs.path()).chain([named]);
    for file in files.filter(|file| file.is_file()) {
        let bytes = fs::read(file).map_err(|cause| Error::unreadable(file, &cause))?;
        text.push_str(&format!(" {:016x}", fnv1a(&bytes)));
    }
    Ok(format!("{:016x}", fnv1a(text.as_bytes())))
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    write_whole(path, |out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    })
}
