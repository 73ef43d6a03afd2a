use std::collections::HashMap;
use std::iter::Sum;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::stream::{Rules, Stream};
use super::tokens::Tokens;
use crate::base::units::{Nanos, RequestId, TaskId, WorkerId};
use crate::core::task::{Completion, OpenTask, Reason, Round, Step, TaskRow, distinct_cells};
use crate::core::workload::class::Classes;
use crate::core::workload::shape::Shape;
use crate::core::workload::trace::{Request, Requests};

/// How a request ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Served,
    /// Turned away before its deadline.
    Rejected,
    /// Turned away at its deadline or later.
    Expired,
    Failed,
    /// The run was stopped, or the policy forgot it.
    #[default]
    Unfinished,
}

/// What to record beyond what every summary needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep {
    /// A row for each task.
    pub tasks: bool,
    /// For the timeline's arrows.
    pub first_tasks: bool,
    /// The events at each instant, for a replay.
    pub rounds: bool,
    /// Why each task was submitted, as text.
    pub reasons: bool,
    /// Ends the run early.
    pub limit: Option<Limit>,
    /// Forgets requests after they have left.
    pub stream: Option<Rules>,
}

/// Ends a run once it is certain that it misses an objective.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub slo: Nanos,
    /// The first request that counts.
    pub from: u64,
    /// How many may take longer.
    pub late: u32,
}

/// Why a request failed that is still in the system when nothing runs or arrives any more.
pub(crate) const LOST: &str = "the policy neither served nor rejected it";

/// The record of one run. Instants are plain numbers, not `Option`s, which would double the memory of ten million
/// requests; `happened` reads them.
#[derive(Debug, Default)]
pub struct Recorder {
    keep: Keep,
    /// Steps with higher numbers are operators.
    cells: usize,
    this_round: Round,
    /// Instead of what the fields below keep of requests.
    pub stream: Option<Box<Stream>>,
    /// When each worker was busy since it last had no task: disjoint, ascending.
    spans: Vec<Vec<(Nanos, Nanos)>>,
    /// [`Nanos::MAX`] until then, as for `start` and `finish`.
    pub arrival: Vec<Nanos>,
    pub start: Vec<Nanos>,
    pub finish: Vec<Nanos>,
    /// For the log; `None` if the caller has not told.
    pub shapes: Option<Arc<[Shape]>>,
    pub classes: Option<Arc<Classes>>,
    pub rejected: u64,
    /// Those that count for the limit.
    late: u32,
    /// For looking up a request among the rejections.
    turned_away: HashMap<RequestId, Nanos>,
    /// In the order of rejection.
    pub rejections: Vec<(RequestId, Nanos)>,
    /// Those of them for which the policy gave a reason.
    pub refusals: Vec<(RequestId, Nanos, String)>,
    /// Of language models.
    pub tokens: Option<Box<Tokens>>,
    /// The requests that left without a result and why, in that order.
    pub failures: Vec<(RequestId, Nanos, String)>,
    /// From arrival to handover, in the order of arrival, if rounds are kept.
    pub lateness: Vec<Nanos>,
    pub rounds: Vec<Round>,
    /// In the order in which the policy learned of them, if rounds are kept.
    pub delivered: Vec<TaskId>,
    /// In the order of submission, if kept.
    pub tasks: Vec<TaskRow>,
    /// If kept, and if the policy gives reasons.
    pub reasons: Vec<(TaskId, Reason)>,
    /// If kept; `None` until the request starts.
    pub first_task: Vec<Option<TaskId>>,
    pub task_count: u64,
    pub batch_sum: u64,
    /// By cell type and batch size: the number of executions. Operators follow the cell types.
    pub batches: Vec<Vec<u64>>,
    /// Including padding. A cell with an input of n tokens counts n times; operators count the cells that they belong
    /// to.
    pub executed_cells: u64,
    /// Executed cells without padding.
    pub useful_cells: u64,
    /// How long at least one task of each worker was running.
    pub busy: Vec<Nanos>,
    pub end: Nanos,
    /// Host time, so never part of a reproducible result.
    pub decisions: Decisions,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Decisions {
    /// Calls of the policy that submitted a task.
    pub calls: u64,
    pub tasks: u64,
    pub time: Duration,
}

impl Sum for Decisions {
    fn sum<I: Iterator<Item = Decisions>>(iter: I) -> Decisions {
        iter.fold(Decisions::default(), |a, b| Decisions {
            calls: a.calls + b.calls,
            tasks: a.tasks + b.tasks,
            time: a.time + b.time,
        })
    }
}

/// The instant, if the event has happened.
pub(crate) fn happened(at: Nanos) -> Option<Nanos> {
    (at != Nanos::MAX).then_some(at)
}

impl Recorder {
    pub(crate) fn reasons(&mut self) -> Option<&mut Vec<(TaskId, Reason)>> {
        self.keep.reasons.then_some(&mut self.reasons)
    }

    pub fn new(requests: usize, workers: usize, cells: usize, keep: Keep) -> Self {
        Recorder {
            keep,
            cells,
            arrival: vec![Nanos::MAX; requests],
            start: vec![Nanos::MAX; requests],
            finish: vec![Nanos::MAX; requests],
            spans: vec![Vec::new(); workers],
            first_task: vec![None; if keep.first_tasks { requests } else { 0 }],
            batches: vec![Vec::new(); cells],
            busy: vec![Nanos::ZERO; workers],
            ..Recorder::default()
        }
    }

    /// Shapes and classes, for results.
    pub fn tell_of(&mut self, requests: &Requests) {
        self.shapes = Some(Arc::clone(&requests.shapes));
        self.classes.clone_from(&requests.classes);
    }

    /// The requests that arrived, in the order of arrival.
    pub fn in_order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.arrival.len() as u32)
            .filter(|&r| happened(self.arrival[r as usize]).is_some())
            .collect();
        // Stable, and linear for a trace in order.
        order.sort_by_key(|&r| self.arrival[r as usize]);
        order
    }

    /// When and how each request left, served or not; [`Nanos::MAX`] for requests still in the system.
    pub fn departures(&self) -> Vec<(Nanos, Outcome)> {
        let served =
            |finish: &Nanos| happened(*finish).map_or(Outcome::Unfinished, |_| Outcome::Served);
        let mut departures: Vec<_> = self
            .finish
            .iter()
            .map(|finish| (*finish, served(finish)))
            .collect();
        for (request, at) in &self.rejections {
            let deadline = self
                .classes
                .as_ref()
                .and_then(|classes| classes.class(*request).deadline);
            let expired = deadline.is_some_and(|deadline| {
                at.saturating_since(self.arrival[request.index()]) >= deadline
            });
            departures[request.index()] = (
                *at,
                if expired {
                    Outcome::Expired
                } else {
                    Outcome::Rejected
                },
            );
        }
        for (request, at, _) in &self.failures {
            departures[request.index()] = (*at, Outcome::Failed);
        }
        departures
    }

    #[inline]
    pub(crate) fn arrived(&mut self, request: &Request<'_>, handled: Nanos) {
        self.this_round.arrivals += 1;
        if let Shape::Llm { output, .. } = request.shape {
            self.tokens
                .get_or_insert_default()
                .arrived(request.id, *output);
        }
        match &mut self.stream {
            Some(stream) => stream.arrived(request),
            None => self.arrival[request.id.index()] = request.arrival,
        }
        if self.keep.rounds {
            self.lateness
                .push(handled.saturating_since(request.arrival));
        }
    }

    pub(crate) fn delivered(&mut self, task: TaskId) {
        self.this_round.completions += 1;
        if self.keep.rounds {
            self.delivered.push(task);
        }
    }

    /// The policy has been given all events of this instant.
    pub(crate) fn round(&mut self, now: Nanos) {
        let round = Round {
            now,
            ..std::mem::take(&mut self.this_round)
        };
        if self.keep.rounds {
            self.rounds.push(round);
        }
    }

    pub(crate) fn failed(&mut self, request: RequestId, at: Nanos, reason: String) {
        self.failures.push((request, at, reason));
        if let Some(stream) = &mut self.stream {
            return stream.left(request, at, Outcome::Failed);
        }
        assert_eq!(
            self.finish[request.index()],
            Nanos::MAX,
            "request {request} failed after it had finished"
        );
    }

    /// Nothing runs or arrives any more: what is still in the system is lost.
    pub(crate) fn over(&mut self, at: Nanos) {
        if let Some(stream) = &self.stream {
            let lost: Vec<RequestId> = stream.remaining().collect();
            return lost
                .into_iter()
                .for_each(|request| self.failed(request, at, LOST.into()));
        }
        let happened = |times: &[Nanos]| times.iter().filter(|at| **at != Nanos::MAX).count();
        if happened(&self.arrival)
            == happened(&self.finish) + self.rejections.len() + self.failures.len()
        {
            return;
        }
        for (request, (left, _)) in (0..).map(RequestId).zip(self.departures()) {
            if left == Nanos::MAX && self.arrival[request.index()] != Nanos::MAX {
                self.failed(request, at, LOST.into());
            }
        }
    }

    /// Before each of them is called finished.
    pub(crate) fn load(&self, requests: &[RequestId]) {
        if let Some(stream) = &self.stream {
            stream.load(requests);
        }
    }

    #[inline]
    pub(crate) fn finished(&mut self, request: RequestId, at: Nanos) {
        if let Some(stream) = &mut self.stream {
            return stream.left(request, at, Outcome::Served);
        }
        let finish = &mut self.finish[request.index()];
        assert_eq!(*finish, Nanos::MAX, "request {request} finished twice");
        assert!(
            !self.turned_away.contains_key(&request),
            "request {request} finished after it had been rejected"
        );
        *finish = at;
        if let Some(Limit { slo, from, .. }) = self.keep.limit {
            let late = at.saturating_since(self.arrival[request.index()]) > slo;
            self.late += u32::from(late && request.0 >= from);
        }
    }

    /// The sequences that a completed task has ended.
    #[inline]
    pub(crate) fn ended(&mut self, completion: &Completion, task: &OpenTask) -> &[RequestId] {
        match (&mut self.tokens, task.iteration) {
            (Some(tokens), Some(iteration)) => tokens.iterated(iteration, task, completion),
            _ => &[],
        }
    }

    pub(crate) fn preempted(&mut self, requests: &mut Vec<RequestId>) {
        let preempted = requests.drain(..);
        if let Some(tokens) = &mut self.tokens {
            preempted.for_each(|request| tokens.preempted(request));
        }
    }

    /// Whether the run has reached its limit.
    pub(crate) fn has_missed(&self) -> bool {
        self.keep.limit.is_some_and(|limit| self.late > limit.late)
    }

    pub(crate) fn rejected(&mut self, request: RequestId, at: Nanos) {
        self.rejected += 1;
        if let Some(tokens) = &mut self.tokens {
            tokens.rejected(request);
        }
        if let Some(stream) = &mut self.stream {
            return stream.left(request, at, Outcome::Rejected);
        }
        assert_eq!(
            self.finish[request.index()],
            Nanos::MAX,
            "request {request} was rejected after it had finished"
        );
        let before = self.turned_away.insert(request, at);
        assert_eq!(before, None, "request {request} was rejected twice");
        self.rejections.push((request, at));
    }

    #[inline]
    pub(crate) fn completed(&mut self, completion: &Completion, task: &OpenTask) {
        if let Some(stream) = &mut self.stream {
            task.requests
                .iter()
                .for_each(|request| stream.started(*request, completion.start));
        }
        for request in task.requests.iter().filter(|_| self.stream.is_none()) {
            let rejected = self
                .turned_away
                .get(request)
                .is_some_and(|at| *at <= task.submit);
            assert!(
                !rejected,
                "request {request} was submitted after it had been rejected"
            );
            let start = &mut self.start[request.index()];
            if completion.start < *start {
                *start = completion.start;
                if let Some(first) = self.first_task.get_mut(request.index()) {
                    *first = Some(completion.task);
                }
            }
        }
        self.task_count += 1;
        self.batch_sum += u64::from(task.batch);
        self.useful_cells += task.useful_cells;
        self.was_busy(task.worker, completion.start, completion.finish);
        self.end = self.end.max(completion.finish);
        let operators = task
            .steps
            .iter()
            .any(|step| step.cell.index() >= self.cells);
        self.executed_cells += match task.iteration {
            Some(_) => task.steps.iter().map(|step| u64::from(step.batch)).sum(),
            None if operators => task.useful_cells,
            None => task.steps.iter().map(Step::cells).sum(),
        };
        for step in &task.steps {
            if self.batches.len() <= step.cell.index() {
                self.batches.resize_with(step.cell.index() + 1, Vec::new);
            }
            let sizes = &mut self.batches[step.cell.index()];
            if sizes.len() <= step.batch as usize {
                sizes.resize(step.batch as usize + 1, 0);
            }
            sizes[step.batch as usize] += u64::from(step.times);
        }
        if self.keep.tasks {
            self.keep_task(completion, task);
        }
    }

    /// Tasks of other streams may have overlapped it.
    fn was_busy(&mut self, worker: WorkerId, start: Nanos, finish: Nanos) {
        let (spans, busy) = (
            &mut self.spans[worker.index()],
            &mut self.busy[worker.index()],
        );
        let first = spans.partition_point(|span| span.1 < start);
        let touched = spans[first..].partition_point(|span| span.0 <= finish);
        if touched == 0 {
            spans.insert(first, (start, finish));
            *busy += finish - start;
            return;
        }
        // The task and all spans that it touches become one.
        let known: Nanos = spans[first..first + touched]
            .iter()
            .map(|span| span.1 - span.0)
            .sum();
        let last = spans[first + touched - 1];
        let merged = (start.min(spans[first].0), finish.max(last.1));
        spans[first] = merged;
        spans.drain(first + 1..first + touched);
        *busy += (merged.1 - merged.0) - known;
    }

    /// All later tasks of the worker start after the earlier ones.
    pub(crate) fn idles(&mut self, worker: WorkerId) {
        self.spans[worker.index()].clear();
    }

    fn keep_task(&mut self, completion: &Completion, task: &OpenTask) {
        let (
            cells,
            Completion {
                task: id,
                start,
                finish,
            },
        ) = (distinct_cells(&task.steps), *completion);
        let OpenTask {
            worker,
            stream,
            batch,
            submit,
            ..
        } = *task;
        let row = TaskRow {
            task: id,
            worker,
            stream,
            cells,
            batch,
            submit,
            start,
            finish,
        };
        // Tasks of several workers finish out of order; the log is in the order of submission.
        let place = self
            .tasks
            .iter()
            .rposition(|t| t.task < row.task)
            .map_or(0, |p| p + 1);
        self.tasks.insert(place, row);
    }

    pub(crate) fn decided(&mut self, time: Duration, tasks: u64) {
        self.decisions.calls += 1;
        self.decisions.tasks += tasks;
        self.decisions.time += time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::{CellId, StreamId};

    #[test]
    fn the_first_task_is_the_one_that_starts_first() {
        let mut record = Recorder::new(
            2,
            2,
            1,
            Keep {
                tasks: true,
                first_tasks: true,
                ..Keep::default()
            },
        );
        for (task, worker, start, finish) in [(1, 1, 20, 30), (0, 0, 10, 40)] {
            let open = OpenTask {
                worker: WorkerId(worker),
                stream: StreamId(0),
                steps: vec![Step {
                    cell: CellId(0),
                    batch: 1,
                    times: 1,
                    input: 0,
                }],
                batch: 1,
                useful_cells: 1,
                submit: Nanos(5),
                requests: vec![RequestId(0)],
                iteration: None,
            };
            let (start, finish) = (Nanos(start), Nanos(finish));
            record.completed(
                &Completion {
                    task: TaskId(task),
                    start,
                    finish,
                },
                &open,
            );
        }
        assert_eq!(record.start, [Nanos(10), Nanos::MAX]);
        assert_eq!(record.first_task, [Some(TaskId(0)), None]);
        assert_eq!(
            record.tasks.iter().map(|t| t.task.0).collect::<Vec<_>>(),
            [0, 1],
            "in order of submission"
        );
        assert_eq!(record.busy, [Nanos(30), Nanos(10)]);
        assert!(
            Recorder::new(2, 2, 1, Keep::default())
                .first_task
                .is_empty()
        );
    }

    #[test]
    fn a_worker_is_busy_while_at_least_one_task_runs() {
        let busy = |spans: &[(u64, u64)]| {
            let mut record = Recorder::new(0, 1, 1, Keep::default());
            spans.iter().for_each(|(start, finish)| {
                record.was_busy(WorkerId(0), Nanos(*start), Nanos(*finish))
            });
            record.busy[0].0
        };
        assert_eq!(busy(&[(1, 3), (3, 4), (6, 9)]), 6);
        assert_eq!(busy(&[(2, 5), (1, 7), (4, 9)]), 8);
        assert_eq!(busy(&[(5, 6), (8, 9), (12, 12), (0, 10)]), 10);
        // Not in the order of the finishes.
        assert_eq!(busy(&[(10, 12), (3, 5), (4, 11)]), 9);

        let mut rng = crate::core::workload::random::sequence(1, 0, "spans");
        for _ in 0..200 {
            let mut span = || {
                let start = rand::RngExt::random_range(&mut rng, 0..40);
                (start, start + rand::RngExt::random_range(&mut rng, 0..9))
            };
            let spans: Vec<(u64, u64)> = (0..12).map(|_| span()).collect();
            let covered = (0..50)
                .filter(|at| {
                    spans
                        .iter()
                        .any(|(start, finish)| start <= at && at < finish)
                })
                .count();
            assert_eq!(busy(&spans), covered as u64, "{spans:?}");
        }
    }
}
