//! The record of a run that forgets requests after they have left: exact counts and sums, and histograms for quantiles.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;

use hdrhistogram::Histogram;

use super::part::{Completions, Part, Window};
use super::recorder::Outcome;
use super::stats::Quantile;
use super::summary::{Summary, Times};
use super::validity::{FEWEST_ARRIVALS, SERVICES_IN_A_QUARTER, grows};
use crate::base::units::{Nanos, RequestId};
use crate::core::workload::class::Class;
use crate::core::workload::trace::Request;

/// Three decimal digits: a quantile is wrong by at most 0.1 %.
const DIGITS: u8 = 3;

/// What is known before the run.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Of the whole run, at least 1.
    pub requests: u64,
    /// Requests at the start that do not count.
    pub warmup: u64,
    pub slo: Option<Nanos>,
    /// Each request whose number is a multiple is logged.
    pub log_every: u64,
}

/// A logged request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged {
    pub request: RequestId,
    pub life: Life,
    pub finish: Nanos,
    pub outcome: Outcome,
}

/// From a request's arrival on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    pub arrival: Nanos,
    /// [`Nanos::MAX`] before its first task.
    pub start: Nanos,
    /// Of its shape.
    pub length: u32,
    /// 0 without classes.
    pub class: u16,
    left: bool,
}

#[derive(Debug)]
pub struct Stream {
    rules: Rules,
    classes: Vec<Class>,
    /// From the oldest in the system on, by number.
    lives: VecDeque<Life>,
    /// The number of the first of `lives`.
    oldest: u64,
    presence: Presence,
    whole: Streamed,
    by_class: Vec<Streamed>,
    /// In the order in which they left.
    pub log: Vec<Logged>,
}

/// The requests of the run or of one class.
#[derive(Debug, Default)]
struct Streamed {
    part: Part,
    spans: [Spans; 3],
    /// The completions of one instant, that of the last one before the window.
    latest: (Nanos, Completions),
}

/// Times with their exact sum and maximum.
#[derive(Debug)]
pub(super) struct Spans {
    sum: u128,
    max: u64,
    histogram: Histogram<u64>,
}

impl Default for Spans {
    fn default() -> Spans {
        Spans {
            sum: 0,
            max: 0,
            histogram: Histogram::new(DIGITS).expect("the digits are from 0 to 5"),
        }
    }
}

impl Spans {
    /// A span that occurred so often, at least once.
    pub fn add(&mut self, span: u64, times: u64) {
        self.sum += u128::from(span) * u128::from(times);
        self.max = self.max.max(span);
        self.histogram
            .record_n(span, times)
            .expect("the histogram grows");
    }

    /// `None` for too few.
    pub fn quantile(&self, quantile: Quantile) -> Option<Nanos> {
        let enough = self.histogram.len() >= quantile.samples_needed() as u64;
        enough.then(|| {
            Nanos(
                self.histogram
                    .value_at_quantile(quantile.share())
                    .min(self.max),
            )
        })
    }

    pub fn times(&self) -> Times {
        let samples = self.histogram.len();
        let mean = (samples > 0).then(|| self.sum as f64 / samples as f64);
        let quantiles = Quantile::ALL.map(|quantile| self.quantile(quantile).map(|at| at.0));
        Times::new(samples, mean, mean.map(|_| self.max), quantiles)
    }
}

/// The number in the system over time, and the gaps between arrivals.
#[derive(Debug, Default)]
struct Presence {
    /// The numbers of the requests with which the quarters of the arrivals begin, and the last one.
    bounds: [u64; 5],
    inside: u64,
    since: Nanos,
    /// In request-nanoseconds.
    sum: u128,
    /// The sum and the instant at each quarter of the arrivals, from the start on.
    quarters: Vec<(u128, Nanos)>,
    /// The last arrival.
    latest: Nanos,
    /// Of the gaps between arrivals, in square nanoseconds: at most the square of the last arrival.
    squares: u128,
}

impl Presence {
    fn new(requests: u64) -> Presence {
        let bound = |quarter: u64| (u128::from(requests) * u128::from(quarter) / 4) as u64;
        Presence {
            bounds: [0, 1, 2, 3, 4].map(|quarter| bound(quarter).min(requests - 1)),
            ..Presence::default()
        }
    }

    fn change(&mut self, now: Nanos, to: u64) {
        self.sum += u128::from(self.inside) * u128::from(now.saturating_since(self.since).0);
        (self.inside, self.since) = (to, self.since.max(now));
    }

    fn arrived(&mut self, number: u64, at: Nanos) {
        self.change(at, self.inside + 1);
        if number > 0 {
            self.squares += u128::from((at - self.latest).0).pow(2);
        }
        self.latest = at;
        while self
            .bounds
            .get(self.quarters.len())
            .is_some_and(|bound| number >= *bound)
        {
            self.quarters.push((self.sum, at));
        }
    }

    /// By the rule for whole records, with quarters of the arrivals instead of their time. `service` is in nanoseconds.
    fn saturated(&self, requests: u64, service: u64) -> Option<bool> {
        let of_quarter = |pair: &[(u128, Nanos)]| {
            let span = pair[1].1 - pair[0].1;
            (span.0 > 0).then(|| ((pair[1].0 - pair[0].0) as f64 / span.0 as f64, span.0))
        };
        let quarters: Vec<(f64, u64)> = self
            .quarters
            .windows(2)
            .map(of_quarter)
            .collect::<Option<_>>()?;
        let [_, second, third, fourth] = quarters.try_into().ok()?;
        if requests < FEWEST_ARRIVALS as u64 || fourth.1 < SERVICES_IN_A_QUARTER * service {
            return None;
        }
        let gaps = (requests - 1) as f64;
        let mean_gap = (self.latest - self.quarters[0].1).0 as f64 / gaps;
        let variation = (self.squares as f64 / gaps / mean_gap.powi(2) - 1.0)
            .max(0.0)
            .sqrt();
        grows(
            [second, third, fourth].map(|(mean, _)| mean),
            requests as f64,
            variation,
        )
    }
}

impl Streamed {
    fn new(slo: Option<Nanos>) -> Streamed {
        Streamed {
            part: Part::new(slo),
            ..Streamed::default()
        }
    }

    /// The window begins with this instant.
    fn begin(&mut self, at: Nanos) {
        let (latest, completions) = self.latest;
        self.part.inside = if latest == at {
            completions
        } else {
            Completions::default()
        };
    }

    /// `late`: after the last arrival of the run.
    fn served(&mut self, life: &Life, at: Nanos, measured: bool, late: bool) {
        let latency = at.saturating_since(life.arrival).0;
        let compute = at.saturating_since(life.start).0;
        if measured {
            let [latencies, queueing, computing] = &mut self.spans;
            latencies.add(latency, 1);
            queueing.add(latency - compute, 1);
            computing.add(compute, 1);
        }
        let good = self.part.served(latency, measured);
        self.part.completed(at, good, late);
        if self.part.period.is_none() {
            if self.latest.0 != at {
                self.latest = (at, Completions::default());
            }
            self.latest.1.add(good);
        }
    }

    fn summary(&self, window: Option<Window>) -> Summary {
        self.part
            .summary(window, self.spans.each_ref().map(Spans::times))
    }
}

impl Stream {
    pub fn new(rules: Rules, classes: Vec<Class>) -> Stream {
        let by_class = classes
            .iter()
            .map(|class| Streamed::new(class.slo.or(rules.slo)))
            .collect();
        Stream {
            rules,
            classes,
            lives: VecDeque::new(),
            oldest: 0,
            presence: Presence::new(rules.requests),
            whole: Streamed::new(rules.slo),
            by_class,
            log: Vec::new(),
        }
    }

    pub(super) fn arrived(&mut self, request: &Request<'_>) {
        let (number, at) = (request.id.0, request.arrival);
        let measured = number >= self.rules.warmup;
        let of_class = |of: &Class| {
            request
                .class
                .is_some_and(|class| Arc::ptr_eq(&of.name, &class.name))
        };
        let class = self.classes.iter().position(of_class).unwrap_or(0);
        if measured && self.whole.part.period.is_none() {
            self.by_class
                .iter_mut()
                .chain([&mut self.whole])
                .for_each(|streamed| streamed.begin(at));
        }
        self.each_with(class, |streamed| streamed.part.arrived(at, measured));
        self.presence.arrived(number, at);
        let (length, class) = (request.shape.length(), class as u16);
        self.lives.push_back(Life {
            arrival: at,
            start: Nanos::MAX,
            length,
            class,
            left: false,
        });
    }

    /// The class, if there are classes, and the whole run.
    fn each_with(&mut self, class: usize, change: impl FnMut(&mut Streamed)) {
        self.by_class
            .get_mut(class)
            .into_iter()
            .chain([&mut self.whole])
            .for_each(change);
    }

    fn life(&mut self, request: RequestId) -> &mut Life {
        let place = request
            .0
            .checked_sub(self.oldest)
            .expect("a request that has left is not heard of again");
        &mut self.lives[place as usize]
    }

    /// Loads what is used next, all at once: each is far from the others in memory.
    pub(super) fn load(&self, requests: &[RequestId]) {
        let of = |request: &RequestId| {
            // Both ends: some lie across two cache lines.
            let life = &self.lives[(request.0 - self.oldest) as usize];
            life.arrival.0 ^ u64::from(life.class)
        };
        black_box(requests.iter().fold(0, |all, request| all ^ of(request)));
    }

    pub(super) fn started(&mut self, request: RequestId, at: Nanos) {
        let life = self.life(request);
        assert!(
            !life.left,
            "request {request} was submitted after it had left"
        );
        life.start = life.start.min(at);
    }

    pub(super) fn left(&mut self, request: RequestId, at: Nanos, mut outcome: Outcome) {
        let life = *self.life(request);
        assert!(!life.left, "request {request} left twice");
        // Only now: a flag that was just written holds up the copy of what is around it.
        self.life(request).left = true;
        while self.lives.front().is_some_and(|life| life.left) {
            self.lives.pop_front();
            self.oldest += 1;
        }
        self.presence.change(at, self.presence.inside - 1);
        let class = usize::from(life.class);
        let deadline = self.classes.get(class).and_then(|class| class.deadline);
        if outcome == Outcome::Rejected
            && deadline.is_some_and(|time| at.saturating_since(life.arrival) >= time)
        {
            outcome = Outcome::Expired;
        }
        let (all, last) = (
            self.rules.requests,
            self.whole.part.period.map_or(Nanos::ZERO, |(_, last)| last),
        );
        let late = self.oldest + self.lives.len() as u64 == all && at > last;
        let measured = request.0 >= self.rules.warmup;
        self.each_with(class, |streamed| {
            streamed.part.outcomes[outcome as usize] += 1;
            if outcome == Outcome::Served {
                streamed.served(&life, at, measured, late);
            }
        });
        if request.0.is_multiple_of(self.rules.log_every) {
            self.log.push(Logged {
                request,
                life,
                finish: at,
                outcome,
            });
        }
    }

    /// Those in the system.
    pub(super) fn remaining(&self) -> impl Iterator<Item = RequestId> {
        let inside = (self.oldest..)
            .zip(&self.lives)
            .filter(|(_, life)| !life.left);
        inside.map(|(request, _)| RequestId(request))
    }

    pub fn class_name(&self, life: &Life) -> &str {
        self.classes
            .get(usize::from(life.class))
            .map_or("", |class| &class.name)
    }

    /// Without what concerns tasks and workers.
    pub(super) fn summary(&self) -> Summary {
        let window = self.whole.part.window();
        let classes = self.classes.iter().zip(&self.by_class);
        let service = self.whole.spans[2].histogram.value_at_quantile(0.5);
        Summary {
            saturated: self.presence.saturated(self.rules.requests, service),
            classes: classes
                .map(|(class, streamed)| (class.name.to_string(), streamed.summary(window)))
                .collect(),
            ..self.whole.summary(window)
        }
    }

    /// The first and last arrival.
    pub(super) fn arrivals(&self) -> Option<(Nanos, Nanos)> {
        self.presence
            .quarters
            .first()
            .map(|(_, first)| (*first, self.presence.latest))
    }
}
