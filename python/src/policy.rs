//! Policies in Python: their settings, and the adaptor between an object of Python and the core's trait.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use batchlab::error::Error;
use batchlab::policy::registry::{
    Batches, ParsedSettings, PolicyKind, PolicyValues, Registry, Settings, Setup,
};
use batchlab::policy::{Completed, Outcomes, Policy};
use batchlab::task;
use batchlab::units::{Nanos, RequestId, WorkerId};
use batchlab::workload::trace;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::Value;

use crate::dispatch::{Dispatch, Rules, Task, WantedTask, WantedWork};
use crate::errors::Raised;
use crate::live::{OpenTasks, Stage};
use crate::request::Request;
use crate::turn::{Turn, within_policy};

/// A kind of policy whose objects a function of Python makes.
#[pyclass(frozen, module = "batchlab")]
pub struct PolicyClass {
    kind: PolicyKind,
    /// Called with the parameters as keyword arguments, it returns a fresh object.
    make: Py<PyAny>,
    /// A hash of the source, which results record.
    source: String,
    /// The parameters with their defaults.
    defaults: PolicyValues,
}

/// The names of kinds, which live as long as the process.
static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

fn intern(text: &str) -> &'static str {
    let mut names = NAMES
        .lock()
        .expect("nothing panics while it holds the names");
    if let Some(known) = names.get(text) {
        return known;
    }
    let name: &'static str = Box::leak(text.to_string().into_boxed_str());
    names.insert(name);
    name
}

/// The key with which results record the hash of a policy's source.
const SOURCE: &str = "source";

#[pymethods]
impl PolicyClass {
    #[new]
    fn new(
        name: &str,
        about: &str,
        make: Py<PyAny>,
        source: String,
        defaults: &str,
    ) -> PyResult<PolicyClass> {
        let defaults = serde_json::from_str(defaults)
            .map_err(|cause| PyValueError::new_err(cause.to_string()))?;
        Ok(PolicyClass {
            kind: PolicyKind::new(intern(name), intern(about)),
            make,
            source,
            defaults,
        })
    }

    /// The name of the kind.
    #[getter]
    fn name(&self) -> &'static str {
        self.kind.name
    }
}

impl PolicyClass {
    fn parse(class: &Py<PolicyClass>, mut values: PolicyValues, raised: &Raised) -> ParsedSettings {
        let own = class.get();
        values.remove(SOURCE);
        let settings = PythonSettings {
            class: Python::attach(|py| class.clone_ref(py)),
            values: values.clone(),
            raised: raised.clone(),
            spare: Arc::default(),
            traits: OnceLock::new(),
        };
        values.insert(SOURCE.into(), own.source.clone().into());
        (Arc::new(settings), values)
    }

    /// Makes an object with these parameters.
    fn object(&self, py: Python<'_>, values: &PolicyValues) -> PyResult<Py<PyAny>> {
        let parameters = PyDict::new(py);
        for (key, value) in values {
            parameters.set_item(key, to_python(py, value)?)?;
        }
        self.make.call(py, (), Some(&parameters))
    }
}

/// The registry with these kinds. `raised` gets the exceptions of their policies.
pub fn registry(classes: &[Py<PolicyClass>], raised: &Raised) -> Registry {
    let mut registry = Registry::standard();
    for class in classes {
        let own = class.get();
        let class = Python::attach(|py| class.clone_ref(py));
        let raised = raised.clone();
        let defaults = own.defaults.clone();
        registry = registry.with_parser(own.kind, defaults, move |table| {
            let values: PolicyValues =
                serde::Deserialize::deserialize(toml::de::Deserializer::from(table))?;
            Ok(PolicyClass::parse(&class, values, &raised))
        });
    }
    registry
}

fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(truth) => truth.into_pyobject(py)?.to_owned().into_any(),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => number.into_pyobject(py)?.into_any(),
            (None, Some(number)) => number.into_pyobject(py)?.into_any(),
            (None, None) => number
                .as_f64()
                .unwrap_or_default()
                .into_pyobject(py)?
                .into_any(),
        },
        Value::String(text) => text.into_pyobject(py)?.into_any(),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(to_python(py, item)?)?;
            }
            list.into_any()
        }
        Value::Object(table) => {
            let dict = PyDict::new(py);
            for (key, value) in table {
                dict.set_item(key, to_python(py, value)?)?;
            }
            dict.into_any()
        }
    })
}

/// The settings of a policy in Python.
struct PythonSettings {
    class: Py<PolicyClass>,
    values: PolicyValues,
    raised: Raised,
    /// An object that was made and not used, for example by the check of the scenario.
    spare: Arc<Mutex<Option<Py<PyAny>>>>,
    traits: OnceLock<PolicyTraits>,
}

impl fmt::Debug for PythonSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}",
            self.class.get().kind.name,
            Value::from(self.values.clone())
        )
    }
}

/// What a policy's attributes say.
#[derive(Clone, Debug)]
struct PolicyTraits {
    max_batch: Option<MaxBatch>,
    works_ahead: bool,
    takes_all_models: bool,
}

#[derive(Clone, Debug, FromPyObject)]
enum MaxBatch {
    All(u32),
    OfCells(std::collections::BTreeMap<String, u32>),
}

impl PolicyTraits {
    fn read(object: &Bound<'_, PyAny>) -> PyResult<PolicyTraits> {
        let max_batch = object
            .getattr_opt("max_batch")?
            .filter(|value| !value.is_none());
        let max_batch: Option<MaxBatch> = match max_batch {
            None => None,
            Some(value) => Some(value.extract().map_err(|_| {
                PyTypeError::new_err(format!(
                    "max_batch: {value} is neither a number of at least 1 nor a dict of such numbers by cell"
                ))
            })?),
        };
        let smallest = match &max_batch {
            Some(MaxBatch::OfCells(sizes)) => sizes.values().min().copied(),
            Some(MaxBatch::All(size)) => Some(*size),
            None => None,
        };
        if smallest == Some(0) {
            return Err(PyValueError::new_err("max_batch: must be at least 1"));
        }
        let works_ahead = match object.getattr_opt("works_ahead")? {
            Some(value) => value.is_truthy()?,
            None => false,
        };
        let models: String = match object.getattr_opt("models")? {
            Some(value) => value.extract()?,
            None => "chains".into(),
        };
        if models != "chains" && models != "all" {
            return Err(PyValueError::new_err(format!(
                "models: \"{models}\" is neither \"chains\" nor \"all\""
            )));
        }
        Ok(PolicyTraits {
            max_batch,
            works_ahead,
            takes_all_models: models == "all",
        })
    }

    /// The largest number of nodes of each cell in a batch.
    fn max_nodes(&self, setup: &Setup<'_>) -> Result<Vec<u32>, String> {
        let names: Vec<&str> = setup.cells.iter().map(|cell| cell.name.as_str()).collect();
        let mut most = Vec::new();
        for name in &names {
            most.push(match &self.max_batch {
                None => u32::MAX,
                Some(MaxBatch::All(size)) => *size,
                Some(MaxBatch::OfCells(sizes)) => *sizes
                    .get(*name)
                    .ok_or_else(|| format!("max_batch: has no size for the cell \"{name}\""))?,
            });
        }
        if let Some(MaxBatch::OfCells(sizes)) = &self.max_batch
            && let Some(unknown) = sizes.keys().find(|key| !names.contains(&key.as_str()))
        {
            return Err(format!(
                "max_batch: unknown cell \"{unknown}\"; the cells are {}",
                names.join(", ")
            ));
        }
        Ok(most)
    }

    fn max_requests(&self) -> u32 {
        match self.max_batch {
            Some(MaxBatch::All(size)) => size,
            _ => u32::MAX,
        }
    }
}

impl PythonSettings {
    fn build_object(
        &self,
        py: Python<'_>,
        setup: &Setup<'_>,
    ) -> PyResult<Result<Box<dyn Policy>, String>> {
        let spare = self.spare().take();
        let object = match spare {
            Some(object) => object,
            None => self.class.get().object(py, &self.values)?,
        };
        let traits = PolicyTraits::read(object.bind(py))?;
        let name = self.class.get().kind.name;
        if !traits.takes_all_models {
            let refused = setup.require_sequences(&format!("{name} (models = \"chains\")"));
            if let Err(why) = refused {
                return Ok(Err(why));
            }
        }
        let max_nodes = match traits.max_nodes(setup) {
            Ok(sizes) => sizes,
            Err(why) => return Ok(Err(why)),
        };
        let rules = Rules {
            policy: POLICIES.fetch_add(1, Ordering::Relaxed),
            cells: setup.cells.iter().map(|cell| cell.name.clone()).collect(),
            max_requests: traits.max_requests(),
            max_nodes,
            tasks: Mutex::new(OpenTasks::new(setup.workers)),
        };
        let adaptor = PythonPolicy::new(self, py, object, rules, &traits)?;
        let _ = self.traits.set(traits);
        Ok(Ok(Box::new(adaptor)))
    }

    fn spare(&self) -> std::sync::MutexGuard<'_, Option<Py<PyAny>>> {
        self.spare
            .lock()
            .expect("nothing panics while it holds the object")
    }
}

/// The number of policies that were made, by which each knows its own requests.
static POLICIES: AtomicU64 = AtomicU64::new(0);

impl Settings for PythonSettings {
    fn describe(&self) -> PolicyKind {
        self.class.get().kind
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        Python::attach(|py| {
            // A call that was interrupted may go on without its caller, with other runs of the policy.
            if self.raised.is_interrupted(py) {
                return Err("was interrupted".into());
            }
            let built = within_policy(|| self.build_object(py, setup));
            built.unwrap_or_else(|exception| {
                let why = format!("was not built: {exception}");
                self.raised.keep(exception);
                Err(why)
            })
        })
    }

    fn largest_batches(&self, setup: &Setup<'_>) -> Option<Batches> {
        let traits = self.traits.get()?;
        match traits.max_batch.as_ref()? {
            MaxBatch::All(size) => Some(Batches::Requests(*size)),
            MaxBatch::OfCells(_) => traits.max_nodes(setup).ok().map(Batches::Nodes),
        }
    }
}

/// The adaptor: it gathers the events of an instant, calls the object's methods, and carries out what they want.
struct PythonPolicy {
    object: Option<Py<PyAny>>,
    spare: Arc<Mutex<Option<Py<PyAny>>>>,
    arrive: Option<Py<PyAny>>,
    complete: Option<Py<PyAny>>,
    schedule: Py<PyAny>,
    wake_at: Option<Py<PyAny>>,
    rules: Arc<Rules>,
    works_ahead: bool,
    raised: Raised,
    arrived: Vec<Request>,
    /// The tasks that ended at this instant, if `complete` wants to know.
    ended: Vec<Task>,
    /// The tasks that are not done, in the order of submission.
    running: std::collections::VecDeque<Option<RunningTask>>,
    /// The number of the first task in `running`.
    first_running: u64,
    /// The members of the last task of each worker.
    last_members: Vec<Option<u64>>,
    wake: Option<Nanos>,
    has_failed: bool,
    turn: Option<Turn>,
}

struct RunningTask {
    work: WantedWork,
    members: Option<Py<PyList>>,
}

/// What a policy was doing when it raised.
struct Failure {
    exception: PyErr,
    /// Its method, and the request if one is known.
    place: String,
}

impl Failure {
    fn within(method: &'static str) -> impl Fn(PyErr) -> Failure {
        move |exception| Failure {
            exception,
            place: format!("in {method}"),
        }
    }

    fn about(method: &str, request: Option<u64>, exception: PyErr) -> Failure {
        let place = match request {
            Some(request) => format!("in {method}, request {request}"),
            None => format!("in {method}"),
        };
        Failure { exception, place }
    }
}

impl PythonPolicy {
    fn new(
        settings: &PythonSettings,
        py: Python<'_>,
        object: Py<PyAny>,
        rules: Rules,
        traits: &PolicyTraits,
    ) -> PyResult<PythonPolicy> {
        let own = object.bind(py);
        let method = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            let method = own.getattr_opt(name)?.filter(|method| !method.is_none());
            Ok(method.map(Bound::unbind))
        };
        let schedule = method("schedule")?.ok_or_else(|| {
            PyTypeError::new_err(format!(
                "{} has no method schedule(self, dispatch)",
                own.get_type()
                    .name()
                    .map_or_else(|_| String::new(), |name| name.to_string())
            ))
        })?;
        let workers = rules.tasks().unfinished.len();
        Ok(PythonPolicy {
            arrive: method("arrive")?,
            complete: method("complete")?,
            wake_at: method("wake_at")?,
            schedule,
            object: Some(object.clone_ref(py)),
            spare: Arc::clone(&settings.spare),
            rules: Arc::new(rules),
            works_ahead: traits.works_ahead,
            raised: settings.raised.clone(),
            arrived: Vec::new(),
            ended: Vec::new(),
            running: std::collections::VecDeque::new(),
            first_running: 0,
            last_members: vec![None; workers],
            wake: None,
            has_failed: false,
            turn: None,
        })
    }

    /// Calls the methods that have something to learn, then `schedule`, and carries out what they want.
    fn call_methods(
        &mut self,
        py: Python<'_>,
        dispatch: &mut task::Dispatch<'_>,
    ) -> Result<(), Failure> {
        if let Some(complete) = &self.complete
            && !self.ended.is_empty()
        {
            let ended: PyResult<Vec<Bound<'_, Task>>> = self
                .ended
                .drain(..)
                .map(|task| Bound::new(py, task))
                .collect();
            let ended = ended.and_then(|tasks| PyList::new(py, tasks));
            let ended = ended.map_err(Failure::within("complete"))?;
            complete
                .call1(py, (ended,))
                .map_err(Failure::within("complete"))?;
        }
        if !self.arrived.is_empty() {
            let only = if self.arrived.len() == 1 {
                Some(self.arrived[0].id)
            } else {
                None
            };
            let fail = |exception| Failure::about("arrive", only, exception);
            let arrived: PyResult<Vec<Bound<'_, Request>>> = self
                .arrived
                .drain(..)
                .map(|request| Bound::new(py, request))
                .collect();
            if let Some(arrive) = &self.arrive {
                let arrived = arrived
                    .and_then(|requests| PyList::new(py, requests))
                    .map_err(fail)?;
                arrive.call1(py, (arrived,)).map_err(fail)?;
            }
        }
        let mut idle = Vec::new();
        let mut offer = dispatch.idle();
        while let Some(worker) = offer.next(dispatch) {
            idle.push(worker.0);
        }
        let own = Dispatch::new(Arc::clone(&self.rules), dispatch.now().0, idle);
        let own = Bound::new(py, own).map_err(Failure::within("schedule"))?;
        let called = self.schedule.call1(py, (&own,));
        let mut own = own.borrow_mut();
        own.close();
        let mistake = own.mistake.take();
        match (called, mistake) {
            (Err(exception), mistake) => {
                let request = mistake.and_then(|(_, request)| request);
                return Err(Failure::about("schedule", request, exception));
            }
            (Ok(_), Some((exception, request))) => {
                return Err(Failure::about("schedule", request, exception));
            }
            (Ok(_), None) => {}
        }
        for wanted in own.wanted.drain(..) {
            self.submit(wanted, dispatch);
        }
        for (request, reason) in own.rejected.drain(..) {
            match reason {
                None => dispatch.reject(RequestId(request)),
                Some(reason) => dispatch.reject_because(RequestId(request), reason),
            }
        }
        if let Some(wake_at) = &self.wake_at {
            let wake = wake_at
                .call0(py)
                .and_then(|at| at.extract::<Option<i64>>(py));
            let wake = wake.map_err(Failure::within("wake_at"))?;
            self.wake = wake.and_then(|at| u64::try_from(at).ok()).map(Nanos);
        }
        Ok(())
    }

    fn submit(&mut self, wanted: WantedTask, dispatch: &mut task::Dispatch<'_>) {
        let WantedTask {
            worker,
            work,
            members,
        } = wanted;
        match &work {
            WantedWork::Requests(batch, _) => {
                dispatch.submit(&batch.task(WorkerId(worker)));
            }
            WantedWork::Nodes(batch) => {
                let last = &mut self.last_members[usize::from(worker)];
                batch.submit(worker, last, |task| {
                    dispatch.submit(task);
                });
            }
        }
        let members = if self.complete.is_some() {
            Some(members)
        } else {
            None
        };
        self.running.push_back(Some(RunningTask { work, members }));
    }
}

impl Policy for PythonPolicy {
    fn arrive(&mut self, request: &trace::Request<'_>, _: &mut Outcomes) {
        self.arrived.push(Request::new(self.rules.policy, request));
    }

    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        let place = (completed.task.0 - self.first_running) as usize;
        let task = self.running[place].take().expect("a task ends once");
        while let Some(None) = self.running.front() {
            self.running.pop_front();
            self.first_running += 1;
        }
        self.rules.tasks().close(completed.task.0);
        match &task.work {
            WantedWork::Requests(batch, live) => {
                for (request, live) in batch.requests.iter().zip(live) {
                    live.enter(Stage::Finished);
                    outcomes.finish(*request);
                }
            }
            WantedWork::Nodes(batch) => batch
                .finish_requests()
                .for_each(|request| outcomes.finish(request)),
        }
        if let Some(members) = task.members {
            self.ended.push(Task {
                task: completed.task.0,
                worker: completed.worker.0,
                start: completed.start.0,
                finish: completed.finish.0,
                members,
            });
        }
    }

    fn schedule(&mut self, dispatch: &mut task::Dispatch<'_>) {
        if self.has_failed {
            return; // The run ends at this instant.
        }
        let is_first = self.turn.is_none();
        if is_first {
            self.turn = Some(Turn::take());
        }
        Python::attach(|py| {
            if is_first {
                let thread = py
                    .import("threading")
                    .and_then(|module| module.call_method0("get_ident"));
                if let (Ok(ident), Some(turn)) =
                    (thread.and_then(|ident| ident.extract()), &self.turn)
                {
                    turn.set_ident(ident);
                }
            }
            let called = within_policy(|| self.call_methods(py, dispatch));
            if let Err(Failure { exception, place }) = called {
                self.has_failed = true;
                dispatch.fail(Error::failure(place));
                self.raised.keep(exception);
            }
        });
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.wake
    }

    fn works_ahead(&self) -> bool {
        self.works_ahead
    }
}

impl Drop for PythonPolicy {
    /// Gives an object that was never used to the next run.
    fn drop(&mut self) {
        if self.turn.is_none() && self.arrived.is_empty() {
            let mut spare = self
                .spare
                .lock()
                .expect("nothing panics while it holds the object");
            *spare = self.object.take();
        }
    }
}
