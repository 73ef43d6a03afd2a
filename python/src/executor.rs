//! A function of Python as an executor: it serves the tasks of a real run.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use batchlab::backend::Backend;
use batchlab::error::{Error, Result};
use batchlab::network::Network;
use batchlab::run::executor::{Executor, Loaded, Preparation, StepLog, WorkerSettings};
use batchlab::task::{Completion, MemberList, Task};
use batchlab::units::{Nanos, RequestId, TaskId};
use batchlab::workload::trace::Requests;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::worker::run_thread;

/// The executor of the function that is being served.
pub static PYTHON: PythonExecutor = PythonExecutor {
    function: Mutex::new(None),
};

/// A function that computes batches, and what gives it the payload of a request.
pub struct ServedFunction {
    pub function: Py<PyAny>,
    pub payload: Option<Py<PyAny>>,
}

#[derive(Debug)]
pub struct PythonExecutor {
    function: Mutex<Option<Arc<ServedFunction>>>,
}

impl std::fmt::Debug for ServedFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.function)
    }
}

/// Held by the call whose function is served. Real runs of several threads follow one another.
static SERVED: Mutex<()> = Mutex::new(());

/// Serves a function until it is dropped.
pub struct Serving(#[expect(dead_code, reason = "it is held")] MutexGuard<'static, ()>);

impl PythonExecutor {
    /// Serves a function, once no other is served.
    pub fn serve(&self, function: &Arc<ServedFunction>) -> Serving {
        let turn = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
        *self.function.lock().expect(UNBROKEN) = Some(Arc::clone(function));
        Serving(turn)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        PYTHON.function.lock().expect(UNBROKEN).take();
    }
}

const UNBROKEN: &str = "nothing panics while it holds the lock";

impl Executor for PythonExecutor {
    fn name(&self) -> &'static str {
        "python"
    }

    fn about(&self) -> &'static str {
        "A function of Python; a worker is a thread"
    }

    fn load(&self, network: Network, workers: &WorkerSettings) -> Result<Box<dyn Loaded>> {
        let function = self.function.lock().expect(UNBROKEN).clone();
        let function = function.ok_or_else(|| {
            Error::input("backend: \"python\" needs a function; give it as run=f")
        })?;
        Ok(Box::new(LoadedFunction {
            function,
            network: Arc::new(network),
            workers: workers.count,
        }))
    }
}

struct LoadedFunction {
    function: Arc<ServedFunction>,
    network: Arc<Network>,
    workers: usize,
}

impl Loaded for LoadedFunction {
    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    fn describe(&self) -> String {
        Python::attach(|py| {
            let function = self.function.function.bind(py);
            let part = |name: &str| {
                let part = function
                    .getattr(name)
                    .and_then(|part| part.extract::<String>());
                part.unwrap_or_else(|_| "?".into())
            };
            format!(
                "the function {}.{} of Python",
                part("__module__"),
                part("__qualname__")
            )
        })
    }

    fn start(
        &mut self,
        requests: &Requests,
        _: &Preparation,
        _: StepLog,
    ) -> Result<Box<dyn Backend + '_>> {
        let (reporter, reports) = channel();
        let mut workers = Vec::new();
        let epoch = now();
        for worker in 0..self.workers {
            let (jobs, queue) = channel();
            let function = Arc::clone(&self.function);
            let requests = requests.clone();
            let reporter = reporter.clone();
            let thread = std::thread::Builder::new().name(format!("worker {worker}"));
            let spawned = thread.spawn(move || {
                let mut body = move || serve_jobs(&function, &requests, epoch, &queue, &reporter);
                run_thread(&mut body);
            });
            let thread = spawned.map_err(|cause| {
                Error::failure(format!("worker {worker} can't be started: {cause}"))
            })?;
            workers.push(FunctionWorker {
                jobs: Some(jobs),
                thread: Some(thread),
            });
        }
        Ok(Box::new(FunctionBackend {
            epoch,
            workers,
            reports,
            ended: BinaryHeap::new(),
            unfinished: 0,
            last: Nanos::ZERO,
            failures: BTreeMap::new(),
        }))
    }
}

/// A request as the function sees it.
#[pyclass(frozen, get_all, module = "batchlab")]
pub struct ServedRequest {
    /// Its number, in the order of arrival.
    id: u64,
    /// Its length: steps, source steps, nodes or tokens.
    length: u32,
    /// The name of its class; None without classes.
    class_: Option<String>,
    /// What `payload(id)` has returned; None without such a function.
    payload: Py<PyAny>,
}

struct Job {
    task: TaskId,
    requests: Vec<RequestId>,
}

struct JobReport {
    completion: Completion,
    requests: Vec<RequestId>,
    /// Why the function failed.
    failure: Option<String>,
}

fn serve_jobs(
    served: &ServedFunction,
    requests: &Requests,
    epoch: Instant,
    queue: &Receiver<Job>,
    reporter: &Sender<JobReport>,
) {
    for job in queue {
        let batch = Python::attach(|py| to_batch(py, served, requests, &job.requests));
        let start = since(epoch);
        let outcome = batch
            .and_then(|batch| Python::attach(|py| served.function.call1(py, (batch,)).map(drop)));
        let report = JobReport {
            completion: Completion {
                task: job.task,
                start,
                finish: since(epoch),
            },
            requests: job.requests,
            failure: outcome.err().map(|exception| exception.to_string()),
        };
        if reporter.send(report).is_err() {
            return;
        }
    }
}

fn to_batch(
    py: Python<'_>,
    served: &ServedFunction,
    requests: &Requests,
    ids: &[RequestId],
) -> PyResult<Py<PyList>> {
    let batch = PyList::empty(py);
    for id in ids {
        let payload = match &served.payload {
            Some(payload) => payload.call1(py, (id.0,))?,
            None => py.None(),
        };
        let class = requests
            .classes
            .as_ref()
            .map(|classes| classes.class(*id).name.to_string());
        batch.append(Bound::new(
            py,
            ServedRequest {
                id: id.0,
                length: requests.shapes[id.index()].length(),
                class_: class,
                payload,
            },
        )?)?;
    }
    Ok(batch.unbind())
}

#[expect(clippy::disallowed_methods, reason = "the backend owns the clock")]
fn now() -> Instant {
    Instant::now()
}

fn since(epoch: Instant) -> Nanos {
    now().duration_since(epoch).into()
}

struct FunctionWorker {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

struct FunctionBackend {
    epoch: Instant,
    workers: Vec<FunctionWorker>,
    reports: Receiver<JobReport>,
    /// The completions to report, ordered by finish, then by submission. The last item is the start.
    ended: BinaryHeap<Reverse<(Nanos, TaskId, Nanos)>>,
    unfinished: usize,
    /// The finish of the last completion, since the times of two threads may cross.
    last: Nanos,
    failures: BTreeMap<RequestId, String>,
}

/// The longest wait after which the engine may look whether the user has stopped the run.
const LOOK: Duration = Duration::from_millis(20);

impl FunctionBackend {
    fn take(&mut self, report: JobReport) {
        let Completion {
            task,
            start,
            finish,
        } = report.completion;
        self.ended.push(Reverse((finish, task, start)));
        if let Some(failure) = report.failure {
            for request in report.requests {
                self.failures
                    .entry(request)
                    .or_insert_with(|| failure.clone());
            }
        }
    }

    /// The next completion up to an instant.
    fn pop(&mut self, until: Option<Nanos>) -> Option<Completion> {
        let Reverse((finish, ..)) = self.ended.peek()?;
        if until.is_some_and(|until| *finish > until) {
            return None;
        }
        let Reverse((finish, task, start)) = self.ended.pop()?;
        self.unfinished -= 1;
        self.last = finish.max(self.last);
        Some(Completion {
            task,
            start,
            finish: self.last,
        })
    }
}

impl Backend for FunctionBackend {
    fn now(&self) -> Nanos {
        since(self.epoch)
    }

    fn wants_members(&self) -> bool {
        true
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>, members: Option<MemberList>) {
        let mut requests: Vec<RequestId> = match members {
            Some(MemberList::Nodes(nodes)) => nodes.iter().map(|node| node.request).collect(),
            Some(MemberList::Parts(parts)) => parts.iter().map(|part| part.request).collect(),
            _ => task.requests.to_vec(),
        };
        let mut seen = std::collections::BTreeSet::new();
        requests.retain(|request| seen.insert(*request));
        self.unfinished += 1;
        if let Some(jobs) = &self.workers[task.worker.index()].jobs {
            let _ = jobs.send(Job { task: id, requests });
        }
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        loop {
            while let Ok(report) = self.reports.try_recv() {
                self.take(report);
            }
            if let Some(completion) = self.pop(until) {
                return Some(completion);
            }
            let left = match until {
                None if self.unfinished == 0 => return None,
                None => LOOK,
                Some(until) => {
                    let left = until.saturating_since(self.now());
                    if left == Nanos::ZERO {
                        return None;
                    }
                    Duration::from(left)
                }
            };
            match self.reports.recv_timeout(left.min(LOOK)) {
                Ok(report) => self.take(report),
                Err(RecvTimeoutError::Timeout) if until.is_some() && left > LOOK => return None,
                Err(_) => {}
            }
        }
    }

    fn failure(&mut self, request: RequestId) -> Option<String> {
        self.failures.remove(&request)
    }
}

impl Drop for FunctionBackend {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            worker.jobs = None;
        }
        for worker in &mut self.workers {
            if let Some(thread) = worker.thread.take() {
                let _ = thread.join();
            }
        }
    }
}
