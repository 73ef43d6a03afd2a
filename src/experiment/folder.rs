//! The folder of a scenario's results: its files, and the record that reproduces the run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::point::{Host, PointResult};
use super::{Job, Options, Run, Variant};
use crate::error::{Error, Result};
use crate::files::{PARTIAL_PREFIX, folder_name, write_whole};
use crate::metrics::summary::Summary;
use crate::plot;
use crate::results::logs::{LogRow as _, RequestLine, RoundLine, TaskLine};
use crate::results::swept;
use crate::scenario::{Load, PolicyEntry, Scenario};
use crate::shipped;
use crate::workload::random::fnv1a;
use crate::workload::shape::Shape;

const OF_THE_RUN: [&str; 10] = [
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
    "workers.csv",
];
const LOGS: [&str; 4] = [RequestLine::FILE, TaskLine::FILE, RoundLine::FILE, "timeline.json"];
/// By the start and the end of their names.
const OF_A_REPLICATION: [(&str, &str); 4] = [POINT, INTERRUPTED, FAILURES, BATCHES];
const POINT: (&str, &str) = ("point", ".json");
const INTERRUPTED: (&str, &str) = ("interrupted", ".json");
const FAILURES: (&str, &str) = ("failures", ".csv");
const BATCHES: (&str, &str) = ("batches", ".csv");

#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    policies: Vec<PolicyEntry>,
    device: String,
    fingerprints: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Point {
    fingerprint: String,
    summary: Summary,
}

impl Folder {
    /// One for each variant, within the same path. Removes partial files and, unless runs are resumed, earlier results.
    pub fn open(variants: &[Variant<'_>], options: &Options, jobs: &[Job]) -> Result<Vec<Folder>> {
        let scenario = variants[0].inputs.scenario();
        let path = options.out.join(folder_name(&scenario.name));
        let of = |variant: &Variant<'_>| {
            let (scenario, device) = (variant.inputs.scenario(), variant.device.describe());
            let fingerprints = fingerprints(scenario, &device, options.target.is_real())?;
            Ok(Folder { path: path.clone(), policies: scenario.policies.clone(), device, fingerprints })
        };
        let folders = variants.iter().map(of).collect::<Result<Vec<_>>>()?;
        let folder = &folders[0];
        if options.resume {
            jobs.iter().try_for_each(|job| folders[job.variant].refuse_other(&job.run))?;
            // It would lack the runs that are now added.
            let _ = fs::remove_file(folder.summary());
        } else {
            folder.clear();
        }
        fs::create_dir_all(&folder.path).map_err(|cause| Error::unwritable(&folder.path, &cause))?;
        folder.remove_partial_files();
        folder.write_settings(variants, options)?;
        folder.write_inputs(variants)?;
        Ok(folders)
    }

    /// Writes `run.json`.
    fn write_settings(&self, variants: &[Variant<'_>], options: &Options) -> Result<()> {
        let scenarios: Vec<&Scenario> = variants.iter().map(|variant| variant.inputs.scenario()).collect();
        let scenario = scenarios[0];
        let policies = scenarios.iter().flat_map(|scenario| &scenario.policies);
        let folders: Map<String, Value> =
            policies.map(|policy| (policy.label.clone(), json!(folder_name(&policy.label)))).collect();
        let mut inputs = Map::new();
        for scenario in &scenarios {
            inputs.extend(inputs_of(scenario)?);
        }
        let mut reproduces = json!({
            "scenario": scenario.resolved_json(),
            "seed": scenario.seed,
            "replications": options.replications,
            "version": env!("CARGO_PKG_VERSION"),
            "git_commit": env!("BATCHLAB_COMMIT"),
            "backend": options.target.name(),
            "device": self.device,
            "file": scenario.file.to_string_lossy(),
            "inputs": inputs,
            "folders": folders,
        });
        if scenarios.len() > 1 {
            reproduces["variants"] = scenarios.iter().map(|scenario| scenario.resolved_json()).collect();
        }
        write_json(&self.path.join("run.json"), &reproduces)
    }

    /// Writes `lengths.csv` and `bounds.json`, each only if it is the same in all variants.
    fn write_inputs(&self, variants: &[Variant<'_>]) -> Result<()> {
        let requests = variants.iter().map(|variant| variant.inputs.requests(0)).collect::<Result<Vec<_>>>()?;
        if requests.iter().all(|one| one.shapes == requests[0].shapes) {
            self.write_lengths(&requests[0].shapes)?;
        }
        let bounds =
            variants.iter().map(|variant| variant.device.bounds(&variant.inputs)).collect::<Result<Vec<_>>>()?;
        match &bounds[0] {
            Some(first) if bounds.iter().flatten().all(|one| one == first) => {
                write_json(&self.path.join("bounds.json"), first)
            }
            _ => Ok(()),
        }
    }

    /// A file that can't be removed can't be overwritten either; writing it reports the error.
    fn clear(&self) {
        let figures = plot::KINDS.iter().flat_map(|kind| [format!("{kind}.svg"), format!("{kind}.png")]);
        for file in OF_THE_RUN.iter().map(ToString::to_string).chain(figures) {
            let _ = fs::remove_file(self.path.join(file));
        }
        for policy in folders_in(&self.path) {
            for point in folders_in(&policy) {
                for file in fs::read_dir(&point).into_iter().flatten().flatten() {
                    let name = file.file_name().to_string_lossy().into_owned();
                    let of_a_replication =
                        OF_A_REPLICATION.iter().any(|(stem, ending)| name.starts_with(stem) && name.ends_with(ending));
                    if LOGS.contains(&name.as_str()) || of_a_replication {
                        let _ = fs::remove_file(file.path());
                    }
                }
                let _ = fs::remove_dir(point); // Only if it is empty.
            }
            let _ = fs::remove_dir(policy);
        }
    }

    /// Resuming must not replace finished runs that would have other results today.
    fn refuse_other(&self, run: &Run) -> Result<()> {
        match self.read_point(run) {
            None => Ok(()),
            Some(point) if point.fingerprint == self.fingerprints[run.policy] => Ok(()),
            Some(_) => Err(Error::input(format!(
                "{}: was run with other settings, seed, input files or another version of the program, so that --resume \
                 can't go on with it; leave --resume out to replace what is there, or give another --out",
                self.point_file(run).display()
            ))),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn summary(&self) -> PathBuf {
        self.path.join("summary.csv")
    }

    pub fn differences(&self) -> PathBuf {
        self.path.join("differences.csv")
    }

    pub fn classes(&self) -> PathBuf {
        self.path.join("classes.csv")
    }

    pub fn point(&self, run: &Run) -> PathBuf {
        let entry = &self.policies[run.policy];
        self.path.join(folder_name(&entry.label)).join(swept::place(&run.load.to_string(), &entry.swept))
    }

    fn point_file(&self, run: &Run) -> PathBuf {
        self.of_replication(run, POINT)
    }

    pub fn failures(&self, run: &Run) -> PathBuf {
        self.of_replication(run, FAILURES)
    }

    pub fn batches(&self, run: &Run) -> PathBuf {
        self.of_replication(run, BATCHES)
    }

    fn of_replication(&self, run: &Run, (stem, ending): (&str, &str)) -> PathBuf {
        self.point(run).join(match run.replication {
            0 => format!("{stem}{ending}"),
            later => format!("{stem}-{}{ending}", later + 1),
        })
    }

    pub fn finished(&self, run: &Run) -> Option<Summary> {
        self.read_point(run).map(|point| point.summary)
    }

    fn read_point(&self, run: &Run) -> Option<Point> {
        serde_json::from_str(&fs::read_to_string(self.point_file(run)).ok()?).ok()
    }

    pub fn write_finished(&self, run: &Run, summary: &Summary) -> Result<()> {
        // Usually there is none.
        let _ = fs::remove_file(self.of_replication(run, INTERRUPTED));
        self.write_point(&self.point_file(run), run, summary)
    }

    /// A separate file, so that it is not mistaken for the summary of a finished run.
    pub fn write_interrupted(&self, run: &Run, summary: &Summary) -> Result<()> {
        self.write_point(&self.of_replication(run, INTERRUPTED), run, summary)
    }

    fn write_point(&self, path: &Path, run: &Run, summary: &Summary) -> Result<()> {
        let fingerprint = self.fingerprints[run.policy].clone();
        write_json(path, &Point { fingerprint, summary: summary.clone() })
    }

    /// The only file in which two simulated runs of one seed differ.
    pub(super) fn write_host(&self, runs: &[Value], wall: Duration) -> Result<()> {
        let now = crate::clock::unix_seconds();
        let host = json!({
            "device": self.device,
            "finished_unix_s": now,
            "wall_s": wall.as_secs_f64(),
            "threads": rayon::current_num_threads(),
            "runs": runs,
        });
        write_json(&self.path.join("host.json"), &host)
    }

    pub(super) fn host_row(&self, run: &Run, finished: &PointResult) -> Option<Value> {
        let Host { wall, decisions, verified, failures: _ } = finished.host.as_ref()?;
        let per = |count: u64| (count > 0).then(|| decisions.time.as_nanos() as f64 / count as f64);
        let mut row = json!({
            "policy": folder_name(&self.policies[run.policy].label),
            "point": swept::place(&run.load.to_string(), &self.policies[run.policy].swept),
            "replication": run.replication,
            "wall_s": wall.as_secs_f64(),
            "decisions": decisions.calls,
            "scheduler_ns_per_decision": per(decisions.calls),
            "scheduler_ns_per_task": per(decisions.tasks),
        });
        if let Some(lateness) = finished.summary.lateness {
            row["lateness"] = json!(lateness);
            row["verified"] = json!(verified.requests);
            if let Some(largest) = verified.largest {
                row["largest_error"] = json!(largest.error);
                row["largest_error_of_tolerated"] = json!(largest.of_tolerated);
            }
        }
        Some(row)
    }

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
            folders.extend(folders_in(&folder));
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                if entry.file_name().to_string_lossy().starts_with(PARTIAL_PREFIX) {
                    // A partial file that stays changes no result.
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
    }
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

/// For each policy, a hash of everything that determines its results. Other policies and the list of loads are left
/// out, so that either can grow when a sweep is resumed; so are costs in real runs.
fn fingerprints(scenario: &Scenario, device: &str, real: bool) -> Result<Vec<String>> {
    let mut common = scenario.resolved_json();
    let root = common.as_object_mut().expect("a scenario is a table");
    let mut policies =
        root.remove("policy").map_or(Vec::new(), |policies| policies.as_array().cloned().unwrap_or_default());
    for (table, keys) in [("output", &["plots", "plot_point", "title"][..]), ("arrivals", &["rates", "clients"])] {
        if let Some(Value::Object(table)) = root.get_mut(table) {
            table.retain(|key, _| !keys.contains(&key.as_str()));
        }
    }
    if let Some(scale @ Value::Array(_)) = root.get_mut("workload").and_then(|table| table.get_mut("time_scale")) {
        scale.take();
    }
    if real {
        root.remove("overhead");
        for table in root.get_mut("device").into_iter().chain(&mut policies).filter_map(Value::as_object_mut) {
            table.retain(|key, _| !["costs", "roofline", "overhead"].contains(&key.as_str()));
        }
    }
    let named = match &scenario.workload.load {
        Load::Drawn { dataset, .. } => dataset.path(),
        Load::Trace { trace, .. } => trace.path(),
    };
    let model = scenario.workload.model.file().map(|(_, path)| path);
    let inputs =
        [Some(named), scenario.workload.weights.as_deref(), model].map(|file| file.map_or(Ok(String::new()), hash_of));
    let [named, weights, model] = inputs;
    let of_classes = scenario.classes.iter().filter_map(|class| class.dataset.as_deref()).map(hash_of);
    let of_classes = of_classes.collect::<Result<String>>()?;
    let common = format!(
        "{} {} {} {common} {} {} {} {of_classes}",
        env!("CARGO_PKG_VERSION"),
        env!("BATCHLAB_COMMIT"),
        device,
        named?,
        weights?,
        model?
    );
    policies
        .iter()
        .zip(&scenario.policies)
        .map(|(settings, policy)| {
            let costs = policy.costs.as_deref().filter(|_| !real);
            let roofline = scenario.device.roofline.as_deref().filter(|_| !real);
            let [costs, roofline] = [costs, roofline].map(|file| file.map_or(Ok(String::new()), hash_of));
            let all = format!("{common} {settings} {} {}", costs?, roofline?);
            Ok(format!("{:016x}", fnv1a(all.as_bytes())))
        })
        .collect()
}

fn inputs_of(scenario: &Scenario) -> Result<Map<String, Value>> {
    scenario.inputs().map(|(given, path)| Ok((given.to_string(), json!(hash_of(path)?)))).collect()
}

/// Empty for a generator.
pub fn hash_of(file: &Path) -> Result<String> {
    if !shipped::is_file(file) {
        return Ok(String::new());
    }
    let bytes = shipped::read(file).map_err(|cause| Error::unreadable(file, &cause))?;
    Ok(format!("{:016x}", fnv1a(&bytes)))
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    write_whole(path, |out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    })
}
