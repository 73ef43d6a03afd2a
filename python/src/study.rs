//! Runs of scenarios, and their results in memory.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use batchlab::error::{Error, Result};
use batchlab::figures;
use batchlab::results::columns::Value;
use batchlab::results::logs::{RequestLine, TokenLine};
use batchlab::results::{summary, write};
use batchlab::run::executor::{Executors, SelectedBackend, Verify};
use batchlab::run::folder::EarlierResults;
use batchlab::run::notes::judge_rows;
use batchlab::run::shard::PlannedPoint;
use batchlab::run::{self, KeptRecord, KeptRun, RunOptions, RunReport, Sweep};
use batchlab::scenario::Scenario;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;

use crate::columns;
use crate::errors::{InputError, Raised, without_hashes};
use crate::executor::{PYTHON, ServedFunction};
use crate::policy::{PolicyClass, registry};
use crate::scenario::expand;
use crate::table::{Table, batch_of};
use crate::worker::{AskProgress, StopFlag, supervise, thread_pool};

/// The runs of a scenario or of a sweep, and their results.
#[pyclass(frozen, module = "batchlab")]
pub struct Study {
    inner: Arc<StudyResults>,
}

struct StudyResults {
    scenarios: Vec<Scenario>,
    options: RunOptions,
    threads: Option<usize>,
    report: RunReport,
    notes: Vec<String>,
    /// The records of the runs that are in memory. For results in files, those of runs that were repeated.
    kept: Vec<OnceLock<KeptRun>>,
    points: Vec<PlannedPoint>,
    raised: Raised,
    /// The function that has served the requests.
    function: Option<Arc<ServedFunction>>,
    /// Held while files are written. An interrupted call leaves that to its thread, for which the next call waits.
    writing: Mutex<()>,
}

/// What is to be run.
struct StudyRequest {
    scenario: PathBuf,
    overrides: Vec<String>,
    sweeps: Vec<String>,
    seed: Option<u64>,
    backend: String,
    is_real: bool,
    verify: Verify,
    replications: u32,
    resume: bool,
    threads: Option<usize>,
    out: PathBuf,
    in_memory: bool,
}

/// A run: policy, load, number of the replication, swept keys with their values, and folder.
type RunNames = (String, String, u32, Vec<(String, String)>, PathBuf);

/// The steps that are done, and all steps once they are known.
#[derive(Default)]
struct Steps {
    done: AtomicU64,
    all: AtomicU64,
}

/// Runs a scenario.
#[pyfunction]
#[pyo3(signature = (scenario, *, overrides, sweeps, seed, backend, real, verify, replications, resume, threads, out,
                    in_memory, policies, function=None, payload=None, report=None))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub fn run_scenario(
    py: Python<'_>,
    scenario: PathBuf,
    overrides: Vec<String>,
    sweeps: Vec<String>,
    seed: Option<u64>,
    backend: String,
    real: bool,
    verify: &str,
    replications: u32,
    resume: bool,
    threads: Option<usize>,
    out: PathBuf,
    in_memory: bool,
    policies: Vec<Py<PolicyClass>>,
    function: Option<Py<PyAny>>,
    payload: Option<Py<PyAny>>,
    report: Option<Py<PyAny>>,
) -> PyResult<Study> {
    let verify = match verify {
        "sample" => Verify::Sample,
        "all" => Verify::All,
        "none" => Verify::None,
        other => {
            let why = format!("verify: \"{other}\" is neither \"sample\", \"all\" nor \"none\"");
            return Err(InputError::new_err(why));
        }
    };
    let request = StudyRequest {
        scenario,
        overrides,
        sweeps,
        seed,
        backend,
        is_real: real,
        verify,
        replications,
        resume,
        threads,
        out,
        in_memory,
    };
    let raised = Raised::default();
    let kinds = registry(&policies, &raised);
    let function = function.map(|function| Arc::new(ServedFunction { function, payload }));
    let steps = Arc::new(Steps::default());
    let progress = report.map(|report| (report, ask(&steps)));
    let kept = raised.clone();
    let outcome = supervise(py, StopFlag::new(), progress, move |stop| {
        let _serving = function.as_ref().map(|function| PYTHON.serve(function));
        let request = &request;
        let scenarios = expand(
            &request.scenario,
            &request.overrides,
            &request.sweeps,
            request.seed,
            &kinds,
        )?;
        let pool = thread_pool(request.threads)?;
        let study = pool.install(|| request.run(scenarios, stop, &steps, kept))?;
        Ok(StudyResults { function, ..study })
    })?;
    let study = outcome.map_err(|error| raised.exception(py, &error))?;
    raised.refuse()?;
    Ok(Study {
        inner: Arc::new(study),
    })
}

fn ask(steps: &Arc<Steps>) -> AskProgress {
    let steps = Arc::clone(steps);
    Box::new(move || {
        let all = steps.all.load(Ordering::Relaxed);
        let done = steps.done.load(Ordering::Relaxed);
        Some((done, all)).filter(|_| all > 0)
    })
}

impl StudyRequest {
    fn run(
        &self,
        mut scenarios: Vec<Scenario>,
        stop: &'static std::sync::atomic::AtomicBool,
        steps: &Steps,
        raised: Raised,
    ) -> Result<StudyResults> {
        let executors = Executors::standard().with(&PYTHON);
        let backend = if self.is_real {
            SelectedBackend::Real(executors.executor(&self.backend)?, self.verify)
        } else {
            SelectedBackend::Simulated(executors.simulator(&self.backend)?)
        };
        run::complete(&mut scenarios, backend);
        let options = RunOptions {
            backend,
            out: self.out.clone(),
            replications: self.replications,
            resume: self.resume,
            shard: None,
        };
        let points = run::points(&scenarios, &options, EarlierResults::Unread)?;
        steps.all.store(points.len() as u64, Ordering::Relaxed);
        let progress = || {
            steps.done.fetch_add(1, Ordering::Relaxed);
        };
        let mut sweep = Sweep::prepare(&scenarios, &options, stop)?;
        let mut kept = points.iter().map(|_| OnceLock::new()).collect::<Vec<_>>();
        let report = if self.in_memory {
            let (report, runs) = sweep.run_in_memory(&progress)?;
            kept = runs.into_iter().map(OnceLock::from).collect();
            report
        } else {
            sweep.run(&progress)?
        };
        drop(sweep);
        if report.is_interrupted() {
            return Err(Error::Interrupted);
        }
        let notes = report.notes(&scenarios);
        let mut notes: Vec<String> = notes.iter().map(|note| without_hashes(note)).collect();
        if !self.in_memory {
            let drawn = figures::draw(&scenarios[0], &report.folder.path, &[])?;
            notes.extend(drawn.undrawn.iter().map(|why| format!("no figure: {why}")));
        }
        if report.failed > 0 {
            notes.push(format!("{} requests failed", report.failed));
        }
        if self.is_real {
            notes.push(judge_rows(&report.rows).sentence());
        }
        Ok(StudyResults {
            scenarios,
            options,
            threads: self.threads,
            report,
            notes,
            kept,
            points,
            raised,
            function: None,
            writing: Mutex::default(),
        })
    }
}

impl Study {
    /// The record of a run. A simulated run whose results went to files is repeated, since they lack later replications.
    fn kept_run(&self, py: Python<'_>, place: usize) -> PyResult<&KeptRun> {
        let Some(cell) = self.inner.kept.get(place) else {
            return Err(PyIndexError::new_err(format!("there is no run {place}")));
        };
        if cell.get().is_none() {
            let run = self.run_again(py, place)?;
            let _ = cell.set(run);
        }
        Ok(cell.get().expect("it was set"))
    }

    fn run_again(&self, py: Python<'_>, place: usize) -> PyResult<KeptRun> {
        let study = Arc::clone(&self.inner);
        let outcome = supervise(py, StopFlag::new(), None, move |stop| {
            let pool = thread_pool(study.threads)?;
            pool.install(|| {
                let sweep = Sweep::prepare_one_by_one(&study.scenarios, &study.options, stop)?;
                sweep.run_point_in_memory(place)
            })
        })?;
        outcome.map_err(|error| self.inner.raised.exception(py, &error))
    }
}

#[pymethods]
impl Study {
    /// The names of the runs.
    fn points(&self) -> Vec<RunNames> {
        let points = self.inner.points.iter();
        points
            .map(|point| {
                (
                    point.policy.clone(),
                    point.load.clone(),
                    point.replication - 1,
                    point.swept.clone(),
                    point.folder(),
                )
            })
            .collect()
    }

    /// The columns of summary.csv. The policy, the point and the swept keys stand first.
    fn summary(&self) -> PyResult<Table> {
        let rows = &self.inner.report.rows;
        let columns = summary::columns(rows, false);
        let mut named = Vec::new();
        for column in &columns {
            let values: Vec<Value> = rows.iter().map(|row| column.value(row)).collect();
            named.push((column.name.to_string(), columns::value_column(&values)));
        }
        let swept: Vec<String> = rows
            .iter()
            .flat_map(|row| row.swept.iter().map(|(key, _)| key.clone()))
            .collect();
        let place = |name: &str| match name {
            "policy" => 0,
            "point" => 1,
            name if swept.iter().any(|key| key == name) => 2,
            _ => 3,
        };
        named.sort_by_key(|(name, _)| place(name));
        batch_of(named)
    }

    /// The columns of requests.csv of a run.
    fn requests(&self, py: Python<'_>, place: usize) -> PyResult<Table> {
        let kept = self.kept_run(py, place)?;
        let batch = py.detach(|| {
            let mut tokens: Vec<TokenLine> = Vec::new();
            let lines: Vec<RequestLine> = match &kept.record {
                KeptRecord::Full(output) => {
                    let record = &output.record;
                    let lines: Vec<RequestLine> =
                        write::request_lines(record, kept.summary.warmup).collect();
                    tokens.extend(
                        lines
                            .iter()
                            .filter_map(|line| write::token_line(record, line.id)),
                    );
                    lines
                }
                KeptRecord::Compact(output) => {
                    write::logged_request_lines(&output.record, kept.summary.warmup).collect()
                }
            };
            columns::request_columns(&lines, &tokens)
        });
        let batch = batch.map_err(|cause| PyValueError::new_err(cause.to_string()))?;
        Ok(Table::new(batch))
    }

    /// The columns of tasks.csv of a run.
    fn tasks(&self, py: Python<'_>, place: usize) -> PyResult<Table> {
        let kept = self.kept_run(py, place)?;
        let batch = py.detach(|| {
            let lines: Vec<_> = write::task_lines(kept.execution(), &kept.steps).collect();
            columns::task_columns(&lines)
        });
        let batch = batch.map_err(|cause| PyValueError::new_err(cause.to_string()))?;
        Ok(Table::new(batch))
    }

    /// The columns of batches.csv of a run.
    fn batches(&self, py: Python<'_>, place: usize) -> PyResult<Table> {
        let kept = self.kept_run(py, place)?;
        let lines: Vec<_> = write::batch_lines(kept.execution(), &kept.steps).collect();
        let batch = columns::batch_columns(&lines);
        let batch = batch.map_err(|cause| PyValueError::new_err(cause.to_string()))?;
        Ok(Table::new(batch))
    }

    /// Whether tasks and requests are logged.
    #[getter]
    fn logs(&self) -> (bool, bool) {
        let output = &self.inner.scenarios[0].output;
        (output.requests, output.tasks)
    }

    #[getter]
    fn name(&self) -> &str {
        &self.inner.scenarios[0].name
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.inner.notes.clone()
    }

    /// The number of requests that failed.
    #[getter(failed)]
    fn failed_requests(&self) -> u64 {
        self.inner.report.failed
    }

    /// The folder of the results, which exists if they were written.
    #[getter]
    fn path(&self) -> PathBuf {
        self.inner.report.folder.path.clone()
    }

    /// Writes the results of runs in memory. Returns their folder, which is within `out`.
    #[pyo3(signature = (out, report=None))]
    fn write(&self, py: Python<'_>, out: PathBuf, report: Option<Py<PyAny>>) -> PyResult<PathBuf> {
        let study = Arc::clone(&self.inner);
        let steps = Arc::new(Steps::default());
        let progress = report.map(|report| (report, ask(&steps)));
        let outcome = supervise(py, StopFlag::new(), progress, move |stop| {
            let _writing = study.writing.lock().unwrap_or_else(PoisonError::into_inner);
            let pool = thread_pool(study.threads)?;
            let _serving = study
                .function
                .as_ref()
                .map(|function| PYTHON.serve(function));
            pool.install(|| {
                let options = RunOptions {
                    out,
                    ..study.options.clone()
                };
                let mut sweep = Sweep::prepare_one_by_one(&study.scenarios, &options, stop)?;
                let kept: Vec<&KeptRun> = study.kept.iter().filter_map(OnceLock::get).collect();
                steps.all.store(kept.len() as u64, Ordering::Relaxed);
                let written = || {
                    steps.done.fetch_add(1, Ordering::Relaxed);
                };
                let report = sweep.write(&kept, &written)?;
                Ok(report.folder.path)
            })
        })?;
        outcome.map_err(|error| self.inner.raised.exception(py, &error))
    }
}
