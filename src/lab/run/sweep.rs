//! The run of a sweep: its points, the folder of its results, and the report.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rayon::prelude::*;
use serde_json::json;

use super::executor::SelectedBackend;
use super::folder::{EarlierResults, Folder, write_lengths};
use super::inputs::RunInputs;
use super::job::{Run, SweepRun};
use super::lock::Lock;
use super::memory::{MemoryAtOnce, RunMemory};
use super::point::{HostMeasurements, KeptRun, Point, PointResult};
use super::shard::{self, PlannedPoint, Shard};
use super::target::{Target, describe_simulated};
use super::verify::Verified;
use crate::base::clock;
use crate::base::error::{Error, Result};
use crate::core::record::execution::Decisions;
use crate::core::summary::Summary;
use crate::lab::results::summary::SummaryRow;
use crate::lab::results::write;
use crate::lab::scenario::{Load, Record, Scenario};

#[derive(Clone, Debug)]
pub struct RunOptions {
    pub backend: SelectedBackend,
    /// The folder within which each scenario has the folder of its results.
    pub out: PathBuf,
    /// Simulated replications have their own random sequences; real ones repeat the first.
    pub replications: u32,
    /// Whether points that an earlier run has finished are kept.
    pub resume: bool,
    /// The shard to run, and whether each of [`points`] belongs to it. The files of other shards are left alone.
    pub shard: Option<(Shard, Vec<bool>)>,
}

#[derive(Debug)]
pub struct RunReport {
    pub folder: Folder,
    /// The summary; empty for a shard.
    pub rows: Vec<SummaryRow>,
    /// Why cells ran in traditional kernels although persistent ones were asked for.
    pub traditional: Option<String>,
    pub decisions: Decisions,
    /// The number of finished runs.
    pub finished: usize,
    /// The number of all runs.
    pub runs: usize,
    /// The number of runs that earlier calls have finished.
    pub taken_over: usize,
    pub verified: Verified,
    /// The number of requests that failed in finished real runs.
    pub failed: u64,
    /// The first failures of each of these runs, with the reasons.
    pub failures: Vec<String>,
    /// Whether the file system kept other runs away from the folder.
    pub locked: bool,
}

impl RunReport {
    pub fn is_interrupted(&self) -> bool {
        self.finished < self.runs
    }
}

/// The scenarios of a sweep with all that their runs need, checked before the first run.
pub struct Sweep<'s> {
    scenarios: &'s [Scenario],
    options: &'s RunOptions,
    runs: Vec<SweepRun>,
    /// The scenarios as they were prepared; `None` for one without runs in this shard.
    variants: Vec<Option<Variant<'s>>>,
    /// The memory of a run of each scenario.
    memory: Vec<RunMemory>,
    stop: &'s AtomicBool,
    /// The lock on the folder, from the start of the runs on.
    lock: Option<Lock>,
}

struct Variant<'s> {
    inputs: RunInputs<'s>,
    target: Target,
}

/// What the folder held before the runs.
struct Opened {
    /// The folder as each variant sees it.
    folders: Vec<Folder>,
    /// The result of each run; `None` if it was not finished before.
    finished: Vec<Option<Summary>>,
    lock: Lock,
}

impl<'s> Sweep<'s> {
    /// Reads the inputs and prepares the targets. When `stop` is set, finished runs and the logs of the current real
    /// run are kept. Scenarios of a real run must be [complete].
    ///
    /// # Errors
    /// Fails if the runs that all threads carry out at once need more memory than is free.
    pub fn prepare(
        scenarios: &'s [Scenario],
        options: &'s RunOptions,
        stop: &'s AtomicBool,
    ) -> Result<Sweep<'s>> {
        let threads = if options.backend.is_real() {
            1
        } else {
            rayon::current_num_threads()
        };
        Sweep::prepare_on(threads, scenarios, options, stop)
    }

    /// Does the same as [`Sweep::prepare`] for runs that are carried out, or written, one by one.
    pub fn prepare_one_by_one(
        scenarios: &'s [Scenario],
        options: &'s RunOptions,
        stop: &'s AtomicBool,
    ) -> Result<Sweep<'s>> {
        Sweep::prepare_on(1, scenarios, options, stop)
    }

    /// Prepares runs of which as many as `threads` are carried out at once.
    fn prepare_on(
        threads: usize,
        scenarios: &'s [Scenario],
        options: &'s RunOptions,
        stop: &'s AtomicBool,
    ) -> Result<Sweep<'s>> {
        let runs = list_runs(scenarios, options);
        let needed: BTreeSet<usize> = runs.iter().map(|run| run.variant).collect();
        let shared = Arc::default();
        let mut all_inputs = Vec::new();
        let mut memory = vec![RunMemory::default(); scenarios.len()];
        for (index, scenario) in scenarios.iter().enumerate() {
            if needed.contains(&index) {
                let inputs = RunInputs::share(scenario, Arc::clone(&shared))?.until(stop);
                let lists_trees = options.backend.is_real() || scenario.lists_trees();
                memory[index] = inputs.memory(lists_trees)?;
                all_inputs.push(Some(inputs));
            } else {
                all_inputs.push(None);
            }
        }
        // A target draws requests when it is prepared.
        MemoryAtOnce::new(memory_by_requests(&runs, &memory), threads)
            .require(&scenarios[largest(&memory)])?;
        let mut variants = Vec::new();
        for inputs in all_inputs {
            variants.push(match inputs {
                Some(inputs) => Some(Variant {
                    target: Target::new(&inputs, options.backend)?,
                    inputs,
                }),
                None => None,
            });
        }
        Ok(Sweep {
            scenarios,
            options,
            runs,
            variants,
            memory,
            stop,
            lock: None,
        })
    }

    /// Runs every point and writes the results. `progress` is called after each run. The folder stays locked until the
    /// sweep is dropped.
    pub fn run(&mut self, progress: &(dyn Fn() + Sync)) -> Result<RunReport> {
        let clock = clock::now();
        let Opened {
            folders,
            finished,
            lock,
        } = self.open()?;
        let (results, first_error) = self.run_each(finished, progress, |run, finished| {
            if let Some(summary) = finished {
                return Ok(PointResult {
                    summary,
                    host: None,
                });
            }
            self.point(run, &folders).run()
        });
        self.finish(&folders, &results, first_error, lock, clock.elapsed())
    }

    /// Runs every point and keeps the records in memory. Writes nothing: the folder of the report may not exist.
    ///
    /// # Errors
    /// Fails before the first run if the records need more memory than is free, and otherwise as a run does.
    pub fn run_in_memory(&self, progress: &(dyn Fn() + Sync)) -> Result<(RunReport, Vec<KeptRun>)> {
        MemoryAtOnce::add_records(memory_by_requests(&self.runs, &self.memory))
            .require_kept(&self.scenarios[largest(&self.memory)])?;
        let folders = self.folders()?;
        let runs = vec![(); self.runs.len()];
        let (kept, first_error) = self.run_each(runs, progress, |run, ()| self.keep(run, &folders));
        if let Some(error) = first_error {
            return Err(error);
        }
        let mut results = Vec::new();
        for (run, kept) in self.runs.iter().zip(&kept) {
            let result = kept
                .as_ref()
                .map(|kept| self.point(run, &folders).result(kept));
            results.push(result);
        }
        let rows = self.summary_rows(&results);
        let report = self.report(folders[0].clone(), rows, &results, true)?;
        Ok((report, kept.into_iter().flatten().collect()))
    }

    /// Runs one point, by its place among all, and keeps its record in memory.
    pub fn run_point_in_memory(&self, place: usize) -> Result<KeptRun> {
        self.keep(&self.runs[place], &self.folders()?)
    }

    fn keep(&self, run: &SweepRun, folders: &[Folder]) -> Result<KeptRun> {
        let mut point = self.point(run, folders);
        point.records_all_tasks = true;
        point.keep(run.variant)
    }

    /// Writes the results of a sweep that was [run in memory](Sweep::run_in_memory), with the same scenarios and
    /// options. `progress` is called after each run that is written.
    ///
    /// # Panics
    /// If runs are missing.
    pub fn write(&mut self, kept: &[&KeptRun], progress: &(dyn Fn() + Sync)) -> Result<RunReport> {
        assert_eq!(kept.len(), self.runs.len(), "all runs were kept");
        let clock = clock::now();
        let Opened { folders, lock, .. } = self.open()?;
        let (results, first_error) = self.run_each(kept.to_vec(), progress, |run, kept| {
            self.point(run, &folders).write_kept(kept)
        });
        self.finish(&folders, &results, first_error, lock, clock.elapsed())
    }

    /// Does the work for each run, with what is known of it, on all threads unless the backend is real. After an error,
    /// the other runs are stopped.
    fn run_each<K: Send, R: Send>(
        &self,
        known: Vec<K>,
        progress: &(dyn Fn() + Sync),
        work: impl Fn(&SweepRun, K) -> Result<R> + Sync,
    ) -> (Vec<Option<R>>, Option<Error>) {
        let first_error = Mutex::new(None);
        let run_point = |(run, known): (&SweepRun, K)| match work(run, known) {
            Ok(result) => {
                progress();
                Some(result)
            }
            Err(Error::Interrupted) => None,
            Err(error) => {
                // Other runs would probably fail in the same way, for example because the disk is full.
                self.stop.store(true, Ordering::Relaxed);
                first_error
                    .lock()
                    .expect("no run panics while it holds the lock")
                    .get_or_insert(error);
                None
            }
        };
        let results = if self.options.backend.is_real() {
            self.runs.iter().zip(known).map(run_point).collect()
        } else {
            self.runs
                .par_iter()
                .zip(known)
                .with_max_len(1)
                .map(run_point)
                .collect()
        };
        let first_error = first_error
            .into_inner()
            .expect("no run panics while it holds the lock");
        (results, first_error)
    }

    /// Writes what summarises the runs.
    fn finish(
        &mut self,
        folders: &[Folder],
        results: &[Option<PointResult>],
        first_error: Option<Error>,
        lock: Lock,
        wall: Duration,
    ) -> Result<RunReport> {
        let folder = folders[0].clone();
        let mut rows = Vec::new();
        if self.options.shard.is_none() {
            rows = self.summary_rows(results);
            // A lost target may have finished some runs before, so their results are still written.
            if !rows.is_empty() || first_error.is_none() {
                write_summaries(&folder, &rows, results, wall)?;
            }
        }
        if let Some(error) = first_error {
            return Err(error);
        }
        let report = self.report(folder, rows, results, lock.held)?;
        if self.options.shard.is_none() && !report.is_interrupted() {
            lock.complete();
        }
        self.lock = Some(lock);
        Ok(report)
    }

    fn point<'a>(&'a self, run: &'a SweepRun, folders: &'a [Folder]) -> Point<'a> {
        let variant = self.variants[run.variant]
            .as_ref()
            .expect("the variants of runs are prepared");
        Point {
            run: &run.run,
            inputs: &variant.inputs,
            target: &variant.target,
            folder: &folders[run.variant],
            stop: self.stop,
            records_all_tasks: false,
        }
    }

    /// The folder of the results as each variant sees it.
    fn folders(&self) -> Result<Vec<Folder>> {
        let options = self.options;
        let mut devices = Vec::new();
        for variant in &self.variants {
            devices.push(match variant {
                Some(variant) => variant.target.describe(),
                None => describe_simulated(options.backend),
            });
        }
        Folder::open_variants(self.scenarios, &devices, &options.out, options.backend)
    }

    /// Locks the folder, clears it unless runs are kept, and writes what is known before the runs.
    fn open(&self) -> Result<Opened> {
        let options = self.options;
        let folders = self.folders()?;
        let folder = &folders[0];
        let shard = options.shard.as_ref().map(|(shard, _)| *shard);
        let lock = Lock::take(&folder.path, shard)?;
        let mut finished = vec![None; self.runs.len()];
        if options.resume || shard.is_some() {
            finished = Folder::read_finished(&folders, &self.runs)?;
            Folder::refuse_others(&folders)?;
        } else {
            folder.clear();
        }
        Folder::write_settings(
            &folders,
            self.scenarios,
            ("run.json", options.backend, options.replications),
            None,
        )?;
        if shard.is_none() {
            // An old summary would lack the runs that are now added.
            let _ = std::fs::remove_file(folder.summary());
            self.write_inputs(folder)?;
        }
        Ok(Opened {
            folders,
            finished,
            lock,
        })
    }

    /// Writes `lengths.csv` and `bounds.json`, each only if it is the same in all variants.
    fn write_inputs(&self, folder: &Folder) -> Result<()> {
        let mut samples = Vec::new();
        for variant in self.variants.iter().flatten() {
            samples.push(variant.inputs.sample()?);
        }
        write_lengths(&folder.path, &samples)?;
        let mut bounds = Vec::new();
        for variant in self.variants.iter().flatten() {
            bounds.push(variant.target.bounds(&variant.inputs)?);
        }
        match &bounds[0] {
            Some(first) if bounds.iter().flatten().all(|one| one == first) => {
                folder.write_bounds(first)
            }
            _ => Ok(()),
        }
    }

    /// A row for each point whose replications are all finished.
    fn summary_rows(&self, results: &[Option<PointResult>]) -> Vec<SummaryRow> {
        let mut runs: Vec<(&SweepRun, &Option<PointResult>)> =
            self.runs.iter().zip(results).collect();
        runs.sort_by_key(|(run, _)| run.row);
        let mut rows = Vec::new();
        for point in runs.chunk_by(|(a, _), (b, _)| a.row == b.row) {
            let (run, _) = point[0];
            let summaries: Option<Vec<Summary>> = point
                .iter()
                .map(|(_, result)| Some(result.as_ref()?.summary.clone()))
                .collect();
            let Some(runs) = summaries else {
                continue;
            };
            let policy = run.policy(self.scenarios);
            rows.push(SummaryRow {
                policy: policy.label.clone(),
                swept: policy.swept.clone(),
                backend: self.options.backend.name().into(),
                point: run.run.load.to_string(),
                runs,
                class: String::new(),
            });
        }
        rows
    }

    fn report(
        &self,
        folder: Folder,
        rows: Vec<SummaryRow>,
        results: &[Option<PointResult>],
        locked: bool,
    ) -> Result<RunReport> {
        let mut traditional = None;
        for variant in self.variants.iter().flatten() {
            traditional = traditional.or(variant.target.traditional(&variant.inputs)?);
        }
        let finished: Vec<&PointResult> = results.iter().flatten().collect();
        let hosts: Vec<&HostMeasurements> = finished
            .iter()
            .filter_map(|point| point.host.as_ref())
            .collect();
        Ok(RunReport {
            folder,
            rows,
            traditional,
            decisions: hosts.iter().map(|host| host.decisions).sum(),
            finished: finished.len(),
            runs: results.len(),
            taken_over: finished.len() - hosts.len(),
            verified: hosts.iter().map(|host| host.verified).sum(),
            failed: finished.iter().map(|point| point.summary.failed).sum(),
            failures: hosts
                .iter()
                .flat_map(|host| host.failures.clone())
                .collect(),
            locked,
        })
    }
}

fn write_summaries(
    folder: &Folder,
    rows: &[SummaryRow],
    results: &[Option<PointResult>],
    wall: Duration,
) -> Result<()> {
    write::write_summary(&folder.summary(), rows)?;
    write::write_differences(&folder.path.join("differences.csv"), rows)?;
    write::write_classes(&folder.path.join("classes.csv"), rows)?;
    let hosts = results
        .iter()
        .flatten()
        .filter_map(|point| point.host.as_ref());
    folder.write_host(&hosts.map(|host| &host.row).collect::<Vec<_>>(), wall)
}

/// The default bound of real runs, which hold the states of all requests in memory.
const MAX_WAITING: u32 = 1_000_000;

/// Sets the default bound on waiting requests in scenarios of real runs that have none.
pub fn complete(scenarios: &mut [Scenario], backend: SelectedBackend) {
    if backend.is_real() {
        for scenario in scenarios {
            scenario.device.max_waiting.get_or_insert(MAX_WAITING);
        }
    }
}

/// Runs a scenario that has no sweep, as [`run_sweep`] does.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions,
    stop: &AtomicBool,
    progress: &(dyn Fn() + Sync),
) -> Result<RunReport> {
    run_sweep(std::slice::from_ref(scenario), options, stop, progress)
}

/// Prepares and runs the scenarios of a sweep. `progress` is called after each run.
pub fn run_sweep(
    scenarios: &[Scenario],
    options: &RunOptions,
    stop: &AtomicBool,
    progress: &(dyn Fn() + Sync),
) -> Result<RunReport> {
    let mut scenarios = scenarios.to_vec();
    complete(&mut scenarios, options.backend);
    Sweep::prepare(&scenarios, options, stop)?.run(progress)
}

/// Lists the points of a simulated sweep, and which ones are finished if `earlier` results count. Writes nothing.
///
/// # Errors
/// Fails if the folder was written with other settings, and these are refused.
pub fn points(
    scenarios: &[Scenario],
    options: &RunOptions,
    earlier: EarlierResults,
) -> Result<Vec<PlannedPoint>> {
    let runs = list_runs(scenarios, options);
    let mut finished = vec![None; runs.len()];
    if earlier != EarlierResults::Unread {
        let devices = vec![describe_simulated(options.backend); scenarios.len()];
        let mut folders =
            Folder::open_variants(scenarios, &devices, &options.out, options.backend)?;
        if earlier == EarlierResults::IgnoreOthers {
            folders = folders.into_iter().map(Folder::ignore_others).collect();
        } else {
            Folder::refuse_others(&folders)?;
        }
        finished = Folder::read_finished(&folders, &runs)?;
    }
    let mut points = Vec::new();
    for (run, finished) in runs.iter().zip(finished) {
        let scenario = &scenarios[run.variant];
        let mut point = PlannedPoint::new(
            scenario,
            run.policy(scenarios),
            run.run.load.to_string(),
            run.run.replication,
            shard::cost(scenario),
        );
        point.finished = finished.is_some();
        points.push(point);
    }
    Ok(points)
}

/// Estimates the memory of a simulated sweep's runs on this many threads. Runs nothing.
pub fn estimate_memory(
    scenarios: &[Scenario],
    options: &RunOptions,
    threads: usize,
) -> Result<MemoryAtOnce> {
    let mut memory = Vec::with_capacity(scenarios.len());
    let mut known = BTreeMap::new();
    for scenario in scenarios {
        let workload = &scenario.workload;
        let is_stream = scenario.output.record == Record::Stream;
        let lists_trees = scenario.lists_trees();
        let key = json!([workload, scenario.classes, is_stream, lists_trees]).to_string();
        if let Some(same) = known.get(&key) {
            memory.push(*same);
            continue;
        }
        let inputs = RunInputs::new(scenario)?;
        let mut one = inputs.memory(lists_trees)?;
        if let Load::Trace { .. } = workload.load {
            let count = inputs.requests(0)?.len() as u64;
            one.requests += RunMemory::new(scenario, count, 0).requests;
        }
        known.insert(key, one);
        memory.push(one);
    }
    let runs = list_runs(scenarios, options);
    Ok(MemoryAtOnce::new(
        memory_by_requests(&runs, &memory),
        threads,
    ))
}

/// The memory of each run with the number of its requests, which the runs of a replication of a scenario share.
fn memory_by_requests<'r>(
    runs: &'r [SweepRun],
    memory: &'r [RunMemory],
) -> impl Iterator<Item = ((usize, u32), RunMemory)> + 'r {
    runs.iter()
        .map(|run| ((run.variant, run.run.replication), memory[run.variant]))
}

/// The place of the scenario whose runs need the most memory.
fn largest(memory: &[RunMemory]) -> usize {
    let places = 0..memory.len();
    places
        .max_by_key(|place| memory[*place].total())
        .unwrap_or(0)
}

/// Lists the runs of all shards, or of one. Neighbours share their requests. Policies take turns under each load: in
/// real runs together with the variants, so that slow drifts affect all; in simulated runs, so that every shard gets a
/// mix of policies.
fn list_runs(scenarios: &[Scenario], options: &RunOptions) -> Vec<SweepRun> {
    let mut first = Vec::new();
    for (variant, scenario) in scenarios.iter().enumerate() {
        for policy in 0..scenario.policies.len() {
            for load in scenario.points() {
                let run = Run {
                    policy,
                    load,
                    replication: 0,
                };
                first.push(SweepRun {
                    variant,
                    run,
                    row: first.len(),
                });
            }
        }
    }
    let loads: Vec<usize> = scenarios
        .iter()
        .map(|scenario| scenario.points().len())
        .collect();
    first.sort_by_key(|run| {
        let variant = if options.backend.is_real() {
            0
        } else {
            run.variant
        };
        (variant, run.row % loads[run.variant])
    });
    let mut all = Vec::new();
    for replication in 0..options.replications {
        for first in &first {
            let mut run = *first;
            run.run.replication = replication;
            all.push(run);
        }
    }
    if let Some((_, own)) = &options.shard {
        let mut own = own.iter();
        all.retain(|_| own.next().copied().unwrap_or(false));
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::core::policy::registry::{PolicyKind, Registry, Settings, Setup};
    use crate::core::policy::{Outcomes, Policy};
    use crate::core::task::Dispatch;
    use crate::core::workload::trace::Request;

    const SCENARIO: &str = "
        name = 'once'
        workload = { model = 'lstm', dataset = 'constant:3', requests = 20 }
        arrivals = { process = 'poisson', rates = [1000] }
        device.costs = 'own.csv'
        policy = [{ kind = 'cellular', label = 'A' }, { kind = 'cellular', label = 'B' }]
    ";

    #[test]
    fn a_cost_table_is_read_once() {
        let desk = tempfile::tempdir().unwrap();
        let file = desk.path().join("s.toml");
        let table = desk.path().join("own.csv");
        fs::write(&file, SCENARIO).unwrap();
        fs::write(&table, "cell,batch,ns\nlstm,1,1000\nlstm,64,2000\n").unwrap();
        let sweeps = ["device.workers=1,2".to_string()];
        let scenarios = Scenario::expand(&file, &[], &sweeps, &Registry::standard()).unwrap();
        fs::remove_file(table).unwrap();

        let options = RunOptions {
            backend: SelectedBackend::SIM,
            out: desk.path().join("out"),
            replications: 1,
            resume: false,
            shard: None,
        };
        let report = run_sweep(&scenarios, &options, &AtomicBool::new(false), &|| ()).unwrap();
        assert_eq!((report.finished, report.rows.len()), (4, 4));
    }

    #[test]
    fn a_trace_is_read_once() {
        let desk = tempfile::tempdir().unwrap();
        let file = desk.path().join("s.toml");
        let trace = desk.path().join("own.csv");
        let text = "
            name = 'once'
            workload = { model = 'lstm', trace = 'own.csv' }
            device.costs = 'scenarios/costs/unit.csv'
            policy = [{ kind = 'cellular' }]
        ";
        fs::write(&file, text).unwrap();
        fs::write(&trace, "id,arrival_ns,shape\n0,0,chain:2\n1,9,chain:3\n").unwrap();
        let sweeps = ["device.workers=1,2".to_string()];
        let scenarios = Scenario::expand(&file, &[], &sweeps, &Registry::standard()).unwrap();
        let Load::Trace { trace: input, .. } = &scenarios[1].workload.load else {
            panic!("the scenario names a trace")
        };
        input.read().unwrap();
        fs::remove_file(trace).unwrap();

        let options = options(&desk.path().join("out"));
        let report = run_sweep(&scenarios, &options, &AtomicBool::new(false), &|| ()).unwrap();
        assert_eq!(report.rows.len(), 2);
    }

    fn options(out: &Path) -> RunOptions {
        RunOptions {
            backend: SelectedBackend::SIM,
            out: out.to_path_buf(),
            replications: 2,
            resume: false,
            shard: None,
        }
    }

    /// The files below a folder with their contents, without the times of the host.
    fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![folder.to_path_buf()];
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if !path.ends_with("host.json") {
                    let name = path.strip_prefix(folder).unwrap().to_path_buf();
                    found.insert(name, fs::read(path).unwrap());
                }
            }
        }
        found
    }

    #[test]
    fn results_that_were_kept_in_memory_give_the_same_files() {
        let desk = tempfile::tempdir().unwrap();
        let scenario = crate::MemoryFile::new("mine", SCENARIO.as_bytes());
        let costs =
            crate::MemoryFile::new("own.csv", b"cell,batch,ns\nlstm,1,1000\nlstm,64,2000\n");
        let costs = format!("device.costs={:?}", costs.path().display().to_string());
        let sweeps = ["device.workers=1,2".to_string()];
        let registry = Registry::standard();
        let scenarios = Scenario::expand(scenario.path(), &[costs], &sweeps, &registry).unwrap();
        let stop = AtomicBool::new(false);

        let written = options(&desk.path().join("written"));
        let expected = run_sweep(&scenarios, &written, &stop, &|| ()).unwrap();
        let later = options(&desk.path().join("later"));
        let mut sweep = Sweep::prepare(&scenarios, &later, &stop).unwrap();
        let (report, kept) = sweep.run_in_memory(&|| ()).unwrap();
        assert_eq!(report.rows, expected.rows);
        assert!(
            !later.out.exists(),
            "nothing is written before it is asked for"
        );
        let kept: Vec<&KeptRun> = kept.iter().collect();
        sweep.write(&kept, &|| ()).unwrap();
        assert_eq!(contents(&later.out), contents(&written.out));
        let execution = kept[7].execution();
        assert!(
            !execution.tasks.is_empty(),
            "the second replication has its tasks"
        );
    }

    #[derive(Debug)]
    struct GivesUp;

    impl Settings for GivesUp {
        fn describe(&self) -> PolicyKind {
            PolicyKind::new("gives-up", "for tests")
        }

        fn build(&self, _: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
            Ok(Box::new(GivesUp))
        }
    }

    impl Policy for GivesUp {
        fn arrive(&mut self, _: &Request<'_>, _: &mut Outcomes) {}

        fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
            dispatch.fail(Error::failure("no idea what to do"));
        }
    }

    #[test]
    fn a_policy_that_fails_ends_the_run_with_its_error() {
        let desk = tempfile::tempdir().unwrap();
        fs::write(desk.path().join("own.csv"), "cell,batch,ns\nlstm,1,1000\n").unwrap();
        let file = desk.path().join("s.toml");
        fs::write(&file, SCENARIO).unwrap();
        let kind = GivesUp.describe();
        let registry = Registry::standard().with_parser(kind, Default::default(), |_| {
            Ok((Arc::new(GivesUp), Default::default()))
        });
        let overrides = ["policy.B.kind=gives-up".to_string()];
        let scenarios = Scenario::expand(&file, &overrides, &[], &registry).unwrap();
        let options = options(&desk.path().join("out"));
        let ended = run_sweep(&scenarios, &options, &AtomicBool::new(false), &|| ());
        let error = ended.unwrap_err().to_string();
        assert!(
            error.starts_with("\"B\" at 1000: ") && error.ends_with("s: no idea what to do"),
            "{error}"
        );
    }
}
