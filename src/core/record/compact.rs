use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;

use super::execution::Execution;
use super::histogram::DurationHistogram;
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

/// What is kept of a request while it is in the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLife {
    pub arrival: Nanos,
    /// The start of the first task, or [`Nanos::MAX`] before it.
    pub start: Nanos,
    /// The length of the request's shape.
    pub length: u32,
    /// The place of the request's class, or 0 without classes.
    pub class: u16,
    left: bool,
}

/// A record that forgets requests after they have left.
#[derive(Debug)]
pub struct CompactRecord {
    pub execution: Execution,
    options: CompactOptions,
    pub(crate) classes: Vec<Class>,
    /// The requests from the oldest in the system on, by number.
    lives: VecDeque<RequestLife>,
    /// The number of the first request in `lives`.
    oldest: u64,
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
    fn add_served(&mut self, life: &RequestLife, at: Nanos, measured: bool, late: bool) {
        let latency = at.saturating_since(life.arrival).0;
        let compute = at.saturating_since(life.start).0;
        if measured {
            self.latency.add(latency, 1);
            self.queue.add(latency - compute, 1);
            self.compute.add(compute, 1);
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
            lives: VecDeque::new(),
            oldest: 0,
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

    /// The place of a request that has arrived in `lives`.
    fn place_of_life(&self, request: RequestId) -> usize {
        request
            .0
            .checked_sub(self.oldest)
            .expect("a request that has left is not heard of again") as usize
    }

    /// Adds a served request to what is known of the whole run.
    fn add_served(&mut self, request: RequestId, life: &RequestLife, at: Nanos) {
        let latency = at.saturating_since(life.arrival).0;
        let service = at.saturating_since(life.start).0;
        self.presence
            .add_served(request.0, latency - service, service);
        if let Some(parts) = &mut self.parts
            && let Some(rank) = request.0.checked_sub(self.options.warmup)
        {
            parts.add(rank, latency);
        }
    }

    /// Forgets the oldest requests, up to the first one that is in the system.
    fn forget_oldest(&mut self) {
        while self.lives.front().is_some_and(|life| life.left) {
            self.lives.pop_front();
            self.oldest += 1;
        }
    }

    fn leave(&mut self, request: RequestId, at: Nanos, mut outcome: Outcome) {
        let place = self.place_of_life(request);
        let known = &mut self.lives[place];
        assert!(!known.left, "request {request} left twice");
        // The flag is set after the copy, because a write just before the copy would delay it.
        let life = *known;
        known.left = true;
        if place == 0 {
            self.forget_oldest();
        }
        self.presence.set(at, self.presence.inside - 1);
        let class = usize::from(life.class);
        let deadline = self.classes.get(class).and_then(|class| class.deadline);
        if outcome == Outcome::Rejected
            && deadline.is_some_and(|time| at.saturating_since(life.arrival) >= time)
        {
            outcome = Outcome::Expired;
        }
        let all_arrived = self.oldest + self.lives.len() as u64 == self.options.requests;
        let period = self.whole.tally.period;
        let late = all_arrived && at > period.map_or(Nanos::ZERO, |(_, last)| last);
        let measured = request.0 >= self.options.warmup;
        if outcome == Outcome::Served {
            self.add_served(request, &life, at);
        }
        self.change_groups(class, |group| {
            group.tally.outcomes[outcome as usize] += 1;
            if outcome == Outcome::Served {
                group.add_served(&life, at, measured, late);
            }
        });
        if request.0.is_multiple_of(self.options.log_every) {
            self.log.push(LoggedRequest {
                request,
                life,
                departure: at,
                outcome,
            });
        }
    }
}

impl Recorder for CompactRecord {
    fn execution(&self) -> &Execution {
        &self.execution
    }

    fn execution_mut(&mut self) -> &mut Execution {
        &mut self.execution
    }

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
        self.lives.push_back(RequestLife {
            arrival: at,
            start: Nanos::MAX,
            length: request.shape.length(),
            class: class as u16,
            left: false,
        });
    }

    #[inline]
    fn start(&mut self, completion: &Completion, task: &OpenTask) {
        for &request in &task.requests {
            let place = self.place_of_life(request);
            let life = &mut self.lives[place];
            assert!(
                !life.left,
                "request {request} was submitted after it had left"
            );
            life.start = life.start.min(completion.start);
        }
    }

    /// The records of the requests are far from each other in memory, so all are loaded at once.
    fn prefetch(&self, requests: &[RequestId]) {
        let mut all = 0;
        for request in requests {
            let life = &self.lives[self.place_of_life(*request)];
            // A record may lie across two cache lines, so both ends are read.
            all ^= life.arrival.0 ^ u64::from(life.class);
        }
        black_box(all);
    }

    fn finish(&mut self, request: RequestId, at: Nanos) {
        self.leave(request, at, Outcome::Served);
    }

    fn reject(&mut self, request: RequestId, at: Nanos) {
        self.leave(request, at, Outcome::Rejected);
    }

    fn explain_rejection(&mut self, request: RequestId, at: Nanos, reason: String) {
        self.explained_rejections.push((request, at, reason));
    }

    fn fail(&mut self, request: RequestId, at: Nanos, reason: String) {
        self.failures.push((request, at, reason));
        self.leave(request, at, Outcome::Failed);
    }

    fn fail_remaining(&mut self, at: Nanos) {
        let remaining: Vec<RequestId> = (self.oldest..)
            .zip(&self.lives)
            .filter(|(_, life)| !life.left)
            .map(|(request, _)| RequestId(request))
            .collect();
        for request in remaining {
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
