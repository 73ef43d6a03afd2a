use std::sync::Arc;

use super::execution::Execution;
use super::histogram::DurationHistogram;
use super::lives::Lives;
pub use super::lives::RequestLife;
use super::parts::LatencyParts;
use super::presence::Presence;
use super::tally::{FinishCounts, Tally};
use super::{LOST, Outcome, ReasonedDeparture, RecordOptions, Recorder};
use crate::base::units::{Nanos, RequestId};
use crate::core::task::{Completion, OpenTask};
use crate::core::workload::class::Class;
use crate::core::workload::trace::Request;

/// What a compact record has to know before the run.
#[derive(Clone, Copy, Debug)]
pub struct CompactOptions {
    /// The number of requests of the whole run, at least 1.
    pub requests: u64,
    /// The number of requests at the start that do not count.
    pub warmup: u64,
    /// Whether the record counts how many independent requests the measured ones are worth.
    pub counts_independent: bool,
    pub slo: Option<Nanos>,
    /// The record logs each request whose number is a multiple of this one.
    pub log_every: u64,
}

/// A logged request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedRequest {
    pub request: RequestId,
    pub life: RequestLife,
    /// When the request left.
    pub departure: Nanos,
    pub outcome: Outcome,
}

/// A record that forgets requests after they have left.
#[derive(Debug)]
pub struct CompactRecord {
    pub execution: Execution,
    options: CompactOptions,
    pub(crate) classes: Vec<Class>,
    lives: Lives,
    /// The lives of the requests that leave at an instant, kept for its memory.
    leaving: Vec<RequestLife>,
    /// The number of the next request to arrive that the record logs.
    next_logged: u64,
    pub(crate) presence: Presence,
    pub(crate) parts: Option<LatencyParts>,
    pub(crate) whole: CompactGroup,
    pub(crate) by_class: Vec<CompactGroup>,
    /// The logged requests, in the order in which they left.
    pub log: Vec<LoggedRequest>,
    explained_rejections: Vec<ReasonedDeparture>,
    failures: Vec<ReasonedDeparture>,
}

/// The requests of the run or of one class.
#[derive(Debug, Default)]
pub struct CompactGroup {
    pub tally: Tally,
    /// The times of the measured requests from arrival to finish.
    pub latency: DurationHistogram,
    /// The times of the measured requests from arrival to start.
    pub queue: DurationHistogram,
    /// The times of the measured requests from start to finish.
    pub compute: DurationHistogram,
    /// The last instant before the window at which requests finished, and those requests.
    latest: (Nanos, FinishCounts),
}

/// The times of a served request, in nanoseconds.
#[derive(Clone, Copy)]
struct ServedTimes {
    /// From arrival to finish.
    latency: u64,
    /// From start to finish.
    service: u64,
}

impl CompactGroup {
    fn new(slo: Option<Nanos>) -> CompactGroup {
        CompactGroup {
            tally: Tally::new(slo),
            ..CompactGroup::default()
        }
    }

    /// Begins the window with this instant.
    fn begin_window(&mut self, at: Nanos) {
        let (latest, finishes) = self.latest;
        self.tally.inside = if latest == at {
            finishes
        } else {
            FinishCounts::default()
        };
    }

    /// Adds a served request. `late` says whether it finished after the last arrival of the run.
    #[inline(always)]
    fn add_served(&mut self, times: ServedTimes, at: Nanos, measured: bool, late: bool) {
        let ServedTimes { latency, service } = times;
        self.tally.outcomes[Outcome::Served as usize] += 1;
        if measured {
            self.latency.add(latency, 1);
            self.queue.add(latency - service, 1);
            self.compute.add(service, 1);
        }
        let good = self.tally.add_latency(latency, measured);
        self.tally.add_finish(at, good, late);
        if self.tally.period.is_none() {
            if self.latest.0 != at {
                self.latest = (at, FinishCounts::default());
            }
            self.latest.1.add(good);
        }
    }
}

impl CompactRecord {
    pub fn new(
        workers: usize,
        cells: usize,
        options: CompactOptions,
        classes: Vec<Class>,
    ) -> CompactRecord {
        let by_class = classes
            .iter()
            .map(|class| CompactGroup::new(class.slo.or(options.slo)))
            .collect();
        CompactRecord {
            execution: Execution::new(workers, cells, RecordOptions::default()),
            options,
            classes,
            lives: Lives::default(),
            leaving: Vec::new(),
            next_logged: 0,
            presence: Presence::new(options.requests),
            parts: options
                .counts_independent
                .then(|| LatencyParts::new(options.requests.saturating_sub(options.warmup))),
            whole: CompactGroup::new(options.slo),
            by_class,
            log: Vec::new(),
            explained_rejections: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// The first and last arrival.
    pub fn arrivals(&self) -> Option<(Nanos, Nanos)> {
        self.presence.arrivals()
    }

    /// The name of a request's class, or an empty text without classes.
    pub fn class_name(&self, life: &RequestLife) -> &str {
        match self.classes.get(usize::from(life.class)) {
            Some(class) => &class.name,
            None => "",
        }
    }

    /// The place of a request's class, or 0 without classes.
    #[inline]
    fn class_of(&self, request: &Request<'_>) -> usize {
        let Some(class) = request.class else {
            return 0;
        };
        self.classes
            .iter()
            .position(|known| Arc::ptr_eq(&known.name, &class.name))
            .unwrap_or(0)
    }

    /// Changes the group of the class, if there are classes, and that of the whole run.
    #[inline]
    fn change_groups(&mut self, class: usize, mut change: impl FnMut(&mut CompactGroup)) {
        if let Some(group) = self.by_class.get_mut(class) {
            change(group);
        }
        change(&mut self.whole);
    }

    /// Adds a served request. `late` says whether it finished after the last arrival of the run.
    #[inline]
    fn add_served(&mut self, request: RequestId, life: &RequestLife, at: Nanos, late: bool) {
        let times = ServedTimes {
            latency: at.saturating_since(life.arrival).0,
            service: at.saturating_since(life.start).0,
        };
        let ServedTimes { latency, service } = times;
        self.presence
            .add_served(request.0, latency - service, service);
        let rank = request.0.checked_sub(self.options.warmup);
        if let (Some(parts), Some(rank)) = (&mut self.parts, rank) {
            parts.add(rank, latency);
        }
        let measured = rank.is_some();
        if let Some(own) = self.by_class.get_mut(usize::from(life.class)) {
            own.add_served(times, at, measured, late);
        }
        self.whole.add_served(times, at, measured, late);
    }

    /// Records that requests left at the same instant.
    fn leave(&mut self, requests: &[RequestId], at: Nanos, outcome: Outcome) {
        let mut lives = std::mem::take(&mut self.leaving);
        self.lives.remove_all(requests, &mut lives);
        let inside = self.presence.inside - requests.len() as u64;
        self.presence.set(at, inside);
        let all_arrived = self.lives.count_arrived() == self.options.requests;
        let period = self.whole.tally.period;
        let late = all_arrived && at > period.map_or(Nanos::ZERO, |(_, last)| last);
        for (request, life) in requests.iter().zip(&lives) {
            self.leave_one(*request, life, at, outcome, late);
        }
        lives.clear();
        self.leaving = lives;
    }

    /// Records that a request left. `late` says whether that was after the last arrival of the run.
    #[inline]
    fn leave_one(
        &mut self,
        request: RequestId,
        life: &RequestLife,
        at: Nanos,
        mut outcome: Outcome,
        late: bool,
    ) {
        if outcome == Outcome::Served {
            self.add_served(request, life, at, late);
        } else {
            if outcome == Outcome::Rejected && self.is_expired(life, at) {
                outcome = Outcome::Expired;
            }
            self.change_groups(usize::from(life.class), |group| {
                group.tally.outcomes[outcome as usize] += 1;
            });
        }
        if life.is_logged {
            self.log.push(LoggedRequest {
                request,
                life: *life,
                departure: at,
                outcome,
            });
        }
    }

    /// Whether a request that is rejected at this instant has reached its deadline.
    fn is_expired(&self, life: &RequestLife, at: Nanos) -> bool {
        let class = self.classes.get(usize::from(life.class));
        let deadline = class.and_then(|class| class.deadline);
        deadline.is_some_and(|deadline| at.saturating_since(life.arrival) >= deadline)
    }
}

impl Recorder for CompactRecord {
    fn execution(&self) -> &Execution {
        &self.execution
    }

    fn execution_mut(&mut self) -> &mut Execution {
        &mut self.execution
    }

    #[inline(always)]
    fn arrive(&mut self, request: &Request<'_>, _handled: Nanos) {
        self.execution.this_round.arrivals += 1;
        let number = request.id.0;
        let at = request.arrival;
        let class = self.class_of(request);
        let measured = number >= self.options.warmup;
        if measured && self.whole.tally.period.is_none() {
            for group in &mut self.by_class {
                group.begin_window(at);
            }
            self.whole.begin_window(at);
        }
        self.change_groups(class, |group| group.tally.add_arrival(at, measured));
        self.presence.add_arrival(number, at);
        let is_logged = number == self.next_logged;
        if is_logged {
            self.next_logged += self.options.log_every;
        }
        self.lives.push(RequestLife {
            arrival: at,
            start: Nanos::MAX,
            length: request.shape.length(),
            class: class as u16,
            is_logged,
        });
    }

    #[inline]
    fn start(&mut self, completion: &Completion, task: &OpenTask) {
        for &request in &task.requests {
            let life = self.lives.get_mut(request);
            life.start = life.start.min(completion.start);
        }
    }

    fn finish(&mut self, requests: &[RequestId], at: Nanos) {
        self.leave(requests, at, Outcome::Served);
    }

    fn reject(&mut self, request: RequestId, at: Nanos) {
        self.leave(&[request], at, Outcome::Rejected);
    }

    fn explain_rejection(&mut self, request: RequestId, at: Nanos, reason: String) {
        self.explained_rejections.push((request, at, reason));
    }

    fn fail(&mut self, request: RequestId, at: Nanos, reason: String) {
        self.failures.push((request, at, reason));
        self.leave(&[request], at, Outcome::Failed);
    }

    fn fail_remaining(&mut self, at: Nanos) {
        for request in self.lives.requests() {
            self.fail(request, at, LOST.into());
        }
    }

    fn failures(&self) -> &[ReasonedDeparture] {
        &self.failures
    }

    fn explained_rejections(&self) -> &[ReasonedDeparture] {
        &self.explained_rejections
    }
}
