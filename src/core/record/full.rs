use std::collections::HashMap;
use std::sync::Arc;

use super::execution::Execution;
use super::tokens::Tokens;
use super::{LOST, Limit, Outcome, ReasonedDeparture, RecordOptions, Recorder};
use crate::base::units::{Nanos, RequestId, TaskId, WorkerId};
use crate::core::task::{Completion, OpenTask};
use crate::core::workload::class::Classes;
use crate::core::workload::shape::Shape;
use crate::core::workload::shared_list::SharedList;
use crate::core::workload::trace::{Request, Requests};

/// The record of all requests of a run. Instants are plain numbers, not `Option`s, which would double the memory of ten
/// million requests: [`Nanos::MAX`] means that the event has not happened, and `to_instant` reads them.
#[derive(Debug, Default)]
pub struct FullRecord {
    pub execution: Execution,
    /// The arrival of each request.
    pub arrival: Vec<Nanos>,
    /// The start of each request's first task.
    pub start: Vec<Nanos>,
    /// When each request was served.
    pub finish: Vec<Nanos>,
    /// The shapes for the log, or `None` if the caller has not passed the requests.
    pub shapes: Option<SharedList<Shape>>,
    pub classes: Option<Arc<Classes>>,
    /// The number of late requests that count for the limit.
    late: u32,
    /// When each rejected request was rejected.
    rejected: HashMap<RequestId, Nanos>,
    /// The rejected requests in the order of rejection.
    pub rejections: Vec<(RequestId, Nanos)>,
    /// The rejections for which the policy gave a reason.
    pub explained_rejections: Vec<ReasonedDeparture>,
    /// The requests that failed and why, in the order in which they left.
    pub failures: Vec<ReasonedDeparture>,
    /// The tokens of a language model.
    pub tokens: Option<Box<Tokens>>,
    /// The times from arrival to handover in the order of arrival, if rounds are kept.
    pub lateness: Vec<Nanos>,
    /// The first task of each request that has started, if first tasks are kept.
    pub first_task: Vec<Option<TaskId>>,
}

/// The instant of an event, or `None` if the event has not happened.
pub(crate) fn to_instant(at: Nanos) -> Option<Nanos> {
    if at == Nanos::MAX { None } else { Some(at) }
}

fn count_instants(times: &[Nanos]) -> usize {
    times.iter().filter(|at| **at != Nanos::MAX).count()
}

impl FullRecord {
    pub fn new(requests: usize, workers: usize, cells: usize, options: RecordOptions) -> Self {
        let first_tasks = if options.first_tasks { requests } else { 0 };
        FullRecord {
            execution: Execution::new(workers, cells, options),
            arrival: vec![Nanos::MAX; requests],
            start: vec![Nanos::MAX; requests],
            finish: vec![Nanos::MAX; requests],
            first_task: vec![None; first_tasks],
            ..FullRecord::default()
        }
    }

    /// Sets the shapes and classes of the requests, for results.
    pub fn describe_requests(&mut self, requests: &Requests) {
        self.shapes = Some(requests.shapes.clone());
        self.classes.clone_from(&requests.classes);
    }

    /// The requests that arrived, in the order of arrival.
    pub fn arrival_order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.arrival.len() as u32)
            .filter(|&request| self.arrival[request as usize] != Nanos::MAX)
            .collect();
        // The sort is stable, and linear for a trace in order.
        order.sort_by_key(|&request| self.arrival[request as usize]);
        order
    }

    /// When and how each request left.
    pub fn departures(&self) -> Departures<'_> {
        let mut departures = Departures {
            finish: &self.finish,
            all: Vec::new(),
        };
        if self.rejections.is_empty() && self.failures.is_empty() {
            return departures;
        }
        departures.all = (0..self.finish.len())
            .map(|id| departures.get(id))
            .collect();
        for &(request, at) in &self.rejections {
            let outcome = if self.is_expired(request, at) {
                Outcome::Expired
            } else {
                Outcome::Rejected
            };
            departures.all[request.index()] = (at, outcome);
        }
        for (request, at, _) in &self.failures {
            departures.all[request.index()] = (*at, Outcome::Failed);
        }
        departures
    }

    /// Whether a request that is rejected at this instant has reached its deadline.
    fn is_expired(&self, request: RequestId, at: Nanos) -> bool {
        let Some(classes) = &self.classes else {
            return false;
        };
        let waited = at.saturating_since(self.arrival[request.index()]);
        let deadline = classes.class(request).deadline;
        deadline.is_some_and(|deadline| waited >= deadline)
    }
}

/// When and how requests left.
#[derive(Debug)]
pub struct Departures<'a> {
    finish: &'a [Nanos],
    /// The departure of each request; empty if all that left were served.
    all: Vec<(Nanos, Outcome)>,
}

impl Departures<'_> {
    /// The departure of the request with this number; [`Nanos::MAX`] while it is in the system.
    #[inline]
    pub fn get(&self, id: usize) -> (Nanos, Outcome) {
        if let Some(departure) = self.all.get(id) {
            return *departure;
        }
        let finish = self.finish[id];
        match to_instant(finish) {
            Some(_) => (finish, Outcome::Served),
            None => (finish, Outcome::Unfinished),
        }
    }
}

impl Recorder for FullRecord {
    fn execution(&self) -> &Execution {
        &self.execution
    }

    fn execution_mut(&mut self) -> &mut Execution {
        &mut self.execution
    }

    #[inline]
    fn arrive(&mut self, request: &Request<'_>, handled: Nanos) {
        self.execution.this_round.arrivals += 1;
        if let Shape::Llm { output, .. } = request.shape {
            self.tokens
                .get_or_insert_default()
                .add_sequence(request.id, *output);
        }
        self.arrival[request.id.index()] = request.arrival;
        if self.execution.options.rounds {
            self.lateness
                .push(handled.saturating_since(request.arrival));
        }
    }

    #[inline]
    fn start(&mut self, completion: &Completion, task: &OpenTask) {
        for request in &task.requests {
            let was_rejected = self
                .rejected
                .get(request)
                .is_some_and(|at| *at <= task.submit);
            assert!(
                !was_rejected,
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
    }

    fn finish(&mut self, requests: &[RequestId], at: Nanos) {
        for &request in requests {
            let finish = &mut self.finish[request.index()];
            assert_eq!(*finish, Nanos::MAX, "request {request} finished twice");
            assert!(
                !self.rejected.contains_key(&request),
                "request {request} finished after it had been rejected"
            );
            *finish = at;
            if let Some(Limit { slo, from, .. }) = self.execution.options.limit {
                let late = at.saturating_since(self.arrival[request.index()]) > slo;
                self.late += u32::from(late && request.0 >= from);
            }
        }
    }

    fn reject(&mut self, request: RequestId, at: Nanos) {
        if let Some(tokens) = &mut self.tokens {
            tokens.stop(request);
        }
        assert_eq!(
            self.finish[request.index()],
            Nanos::MAX,
            "request {request} was rejected after it had finished"
        );
        let before = self.rejected.insert(request, at);
        assert_eq!(before, None, "request {request} was rejected twice");
        self.rejections.push((request, at));
    }

    fn explain_rejection(&mut self, request: RequestId, at: Nanos, reason: String) {
        self.explained_rejections.push((request, at, reason));
    }

    fn fail(&mut self, request: RequestId, at: Nanos, reason: String) {
        self.failures.push((request, at, reason));
        assert_eq!(
            self.finish[request.index()],
            Nanos::MAX,
            "request {request} failed after it had finished"
        );
    }

    fn fail_remaining(&mut self, at: Nanos) {
        let departed = count_instants(&self.finish) + self.rejections.len() + self.failures.len();
        if count_instants(&self.arrival) == departed {
            return;
        }
        let departures = self.departures();
        let mut lost = Vec::new();
        for (id, arrival) in self.arrival.iter().enumerate() {
            if departures.get(id).0 == Nanos::MAX && *arrival != Nanos::MAX {
                lost.push(RequestId(id as u64));
            }
        }
        for request in lost {
            self.fail(request, at, LOST.into());
        }
    }

    #[inline]
    fn end_sequences(&mut self, completion: &Completion, task: &OpenTask) -> &[RequestId] {
        match (&mut self.tokens, task.iteration) {
            (Some(tokens), Some(iteration)) => {
                tokens.complete_iteration(iteration, task, completion)
            }
            _ => &[],
        }
    }

    #[inline]
    fn repeat(&mut self, completion: &Completion, task: &OpenTask, now: Nanos) {
        if let (Some(tokens), Some(iteration)) = (&mut self.tokens, task.iteration) {
            tokens.repeat_iteration(iteration, task.worker, completion);
        }
        self.execution.repeat(completion, task, now);
    }

    fn quiet_iterations(&self, worker: WorkerId) -> u64 {
        match &self.tokens {
            Some(tokens) if self.execution.was_idle(worker) => tokens.quiet_iterations(worker),
            _ => 0,
        }
    }

    #[inline]
    fn preempt(&mut self, requests: &mut Vec<RequestId>) {
        let preempted = requests.drain(..);
        if let Some(tokens) = &mut self.tokens {
            preempted.for_each(|request| tokens.preempt(request));
        }
    }

    fn has_missed(&self) -> bool {
        let limit = self.execution.options.limit;
        limit.is_some_and(|limit| self.late > limit.late)
    }

    fn failures(&self) -> &[ReasonedDeparture] {
        &self.failures
    }

    fn explained_rejections(&self) -> &[ReasonedDeparture] {
        &self.explained_rejections
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::base::units::{CellId, StreamId};
    use crate::core::task::Step;

    #[test]
    fn the_first_task_is_the_one_that_starts_first() {
        let options = RecordOptions {
            tasks: true,
            first_tasks: true,
            ..RecordOptions::default()
        };
        let mut record = FullRecord::new(2, 2, 1, options);
        for (task, worker, start, finish) in [(1, 1, 20, 30), (0, 0, 10, 40)] {
            let open = OpenTask {
                worker: WorkerId(worker),
                stream: StreamId(0),
                steps: smallvec![Step {
                    cell: CellId(0),
                    batch: 1,
                    times: 1,
                    input: 0,
                }],
                batch: 1,
                useful_cells: 1,
                submit: Nanos(5),
                requests: smallvec![RequestId(0)],
                iteration: None,
                listed: None,
            };
            let completion = Completion {
                task: TaskId(task),
                start: Nanos(start),
                finish: Nanos(finish),
            };
            record.complete(&completion, &open);
        }
        assert_eq!(record.start, [Nanos(10), Nanos::MAX]);
        assert_eq!(record.first_task, [Some(TaskId(0)), None]);
        let order: Vec<u64> = record
            .execution
            .tasks
            .iter()
            .map(|row| row.task.0)
            .collect();
        assert_eq!(order, [0, 1], "in order of submission");
        assert_eq!(record.execution.busy, [Nanos(30), Nanos(10)]);
        let record = FullRecord::new(2, 2, 1, RecordOptions::default());
        assert!(record.first_task.is_empty());
    }
}
