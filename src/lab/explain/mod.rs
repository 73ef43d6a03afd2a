//! Why a request took as long as it did, and why a task was formed as it was. The logs record no reasons, so the run is
//! repeated (a real run is replayed) and its tasks are inspected as they are formed.

pub mod request;
pub mod slowest;
pub mod task;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::base::error::{Error, Result};
use crate::base::units::{RequestId, TaskId};
use crate::core::backend::watcher::{Watch, WatchedBackend, Watcher};
use crate::core::record::RecordOptions;
use crate::core::record::full::{FullRecord, to_instant};
use crate::core::summary::summarize;
use crate::core::task::{ExtraTime, MemberList, Reason, Step, Task, TaskRow};
use crate::core::workload::model::CellType;
use crate::core::workload::trace::Requests;
use crate::lab::results::logs::{LogRow as _, RequestLine};
use crate::lab::results::write;
use crate::lab::run::executor::{Executors, SelectedBackend};
use crate::lab::run::inputs::RunInputs;
use crate::lab::run::prepare;
use crate::lab::validate::recording::{Recording, read_bytes};
use crate::lab::validate::replay::replay;
use crate::lab::validate::results::{RecordedPoint, Results};

/// What is explained of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExplainedSubject {
    /// The lives of requests.
    Requests(Vec<RequestId>),
    /// The reasons of a task.
    Task(TaskId),
}

/// A task as the policy formed it.
#[derive(Clone, Debug)]
pub struct FormedTask {
    pub task: TaskId,
    pub steps: Vec<Step>,
    /// Whether the steps are operators of cells.
    pub operators: bool,
    /// Whether the task is an iteration of a language model. Then a step's batch is the number of tokens that are fed.
    pub iteration: bool,
    /// The cells without padding.
    pub useful_cells: u64,
    /// Whether the states had to be gathered.
    pub gather: bool,
    pub extra: ExtraTime,
    pub members: MemberList,
}

impl FormedTask {
    /// The cells including padding, or the tokens of a language model. Operators have no padding and count as the cells
    /// that they belong to.
    pub fn cells(&self) -> u64 {
        if self.operators {
            self.useful_cells
        } else if self.iteration {
            self.steps.iter().map(|step| u64::from(step.batch)).sum()
        } else {
            self.runs()
        }
    }

    /// The cells or operators that the task executes.
    pub fn runs(&self) -> u64 {
        self.steps.iter().map(Step::cells).sum()
    }
}

/// A run that was repeated to see its tasks as they were formed.
pub struct RepeatedRun {
    pub policy: String,
    pub point: String,
    /// The model's cell types, then their operators if the policy runs those.
    pub steps: Vec<CellType>,
    pub requests: Arc<Requests>,
    /// The record, with all tasks and reasons.
    pub record: FullRecord,
    /// The tasks that concern one of the subjects, in the order of submission.
    pub formed: Vec<FormedTask>,
}

impl RepeatedRun {
    /// Repeats a run. Fails if a real run has no recording, if the results differ from the logs, or if the subject does
    /// not exist.
    pub fn run(
        results: &Results,
        point: &RecordedPoint,
        subject: &ExplainedSubject,
        executors: &Executors,
    ) -> Result<RepeatedRun> {
        let mut formed = Vec::new();
        let cells = results.scenario(point).workload.model.cell_types().len();
        let mut see = |id: TaskId, task: &Task<'_>, members: Option<&MemberList>| {
            let concerned = |members: &&MemberList| match subject {
                ExplainedSubject::Task(task) => id == *task,
                ExplainedSubject::Requests(requests) => members
                    .requests()
                    .any(|request| requests.contains(&request)),
            };
            formed.extend(members.filter(concerned).map(|members| FormedTask {
                task: id,
                steps: task.steps.to_vec(),
                operators: task.steps.iter().any(|step| step.cell.index() >= cells),
                iteration: task.iteration.is_some(),
                useful_cells: task.useful_cells,
                gather: task.gather,
                extra: task.extra,
                members: members.clone(),
            }));
        };
        let watcher = Watcher {
            watch: Watch {
                members: true,
                ..Watch::default()
            },
            see: &mut see,
            queued: None,
        };
        let (inputs, record) = if Recording::is_in(&point.folder) {
            repeat_recording(results, point, watcher)?
        } else {
            repeat_simulation(results, point, watcher, executors)?
        };
        let requests = inputs.requests(0)?;
        let (what, number, count) = match subject {
            ExplainedSubject::Requests(of) => {
                let last = of.iter().max().map_or(0, |request| request.0);
                ("request", last, requests.len() as u64)
            }
            ExplainedSubject::Task(task) => ("task", task.0, record.execution.task_count),
        };
        if number >= count {
            let last = count.saturating_sub(1);
            return Err(Error::mistake(
                &point.folder,
                format!("has no {what} {number}; its {what}s are 0 to {last}"),
            ));
        }
        let policy = results.scenario(point).policies[point.run.policy].name();
        Ok(RepeatedRun {
            policy,
            point: point.run.load.to_string(),
            steps: inputs.steps.to_vec(),
            requests,
            record,
            formed,
        })
    }

    /// The row of a task, or `None` if the task did not finish.
    pub fn row(&self, task: TaskId) -> Option<&TaskRow> {
        let place = self
            .record
            .execution
            .tasks
            .binary_search_by_key(&task, |row| row.task)
            .ok()?;
        Some(&self.record.execution.tasks[place]).filter(|row| to_instant(row.finish).is_some())
    }

    pub fn reason(&self, task: TaskId) -> Option<&Reason> {
        let reasons = &self.record.execution.reasons;
        reasons
            .binary_search_by_key(&task, |(id, _)| *id)
            .ok()
            .map(|place| &reasons[place].1)
    }

    /// The names of a task's cells.
    pub fn names(&self, row: &TaskRow) -> String {
        write::joined_names(&row.cells, &self.steps)
    }

    /// The names of a task's cells; if there are more than three, the first and a count.
    pub fn short_names(&self, row: &TaskRow) -> String {
        match row.cells.as_slice() {
            [first, rest @ ..] if rest.len() > 2 => {
                format!("{} and {} more", self.steps[first.index()].name, rest.len())
            }
            _ => self.names(row),
        }
    }

    /// The other tasks on the worker and stream of a task.
    pub fn neighbours(&self, of: &TaskRow) -> impl Iterator<Item = &TaskRow> {
        let place = (of.worker, of.stream);
        self.record
            .execution
            .tasks
            .iter()
            .filter(move |row| (row.worker, row.stream) == place && row.task != of.task)
    }
}

type RepeatedRecord<'r> = Result<(RunInputs<'r>, FullRecord)>;

/// Repeats a simulated run and compares its log.
fn repeat_simulation<'r>(
    results: &'r Results,
    point: &RecordedPoint,
    watcher: Watcher<'_>,
    executors: &Executors,
) -> RepeatedRecord<'r> {
    let Ok(simulator) = executors.simulator(&results.backend) else {
        let why = "has no rounds.csv, without which the decisions of a run on a real backend can't be gone through again; \
            run it with output.tasks = true";
        return Err(Error::mistake(&point.folder, why));
    };
    let (inputs, device) = prepare(
        results.scenario(point),
        SelectedBackend::Simulated(simulator),
    )?;
    if inputs.compact_options(point.run.load).is_some() {
        let why =
            "its record is a stream, which forgets requests; run it with output.record = \"full\"";
        return Err(Error::mistake(&point.folder, why));
    }
    let record = {
        let mut run = inputs.prepare(
            &point.run,
            RecordOptions {
                tasks: true,
                reasons: true,
                ..RecordOptions::default()
            },
        )?;
        let mut backend = device
            .start_simulator(&inputs, &point.run, &run.requests)
            .expect("the target is simulated");
        run.serve(
            &mut WatchedBackend {
                backend: &mut *backend,
                watcher,
            },
            &AtomicBool::new(false),
        )?;
        run.record
    };

    let mut again = Vec::new();
    let warmup = summarize(&record, &inputs.measure(point.run.load)).warmup;
    write::write_requests(&mut again, &record, warmup)
        .map_err(|cause| Error::failure(format!("the log of the run: {cause}")))?;
    match read_bytes(&point.folder, RequestLine::FILE)? {
        Some(then) if then != again => Err(Error::mistake(
            &point.folder,
            "requests.csv differs from the results of its scenario now: the cost table or the program has changed; run the \
             scenario again, and explain that",
        )),
        _ => Ok((inputs, record)),
    }
}

/// Replays the recording of a real run.
fn repeat_recording<'r>(
    results: &'r Results,
    point: &RecordedPoint,
    watcher: Watcher<'_>,
) -> RepeatedRecord<'r> {
    let inputs = RunInputs::new(results.scenario(point))?;
    let recording = Recording::read(&point.folder, &inputs.steps)?;
    let replay = replay(&inputs, point, &recording, watcher)?;
    match replay.difference {
        Some(difference) => Err(Error::failure(format!(
            "{}: the run is not decided in the same way again, so that nothing can be said of its reasons: {difference}",
            point.folder.display()
        ))),
        None => Ok((inputs, replay.record)),
    }
}
