//! What a run's requests add up to, or those of one class: counts, and rates in a window of the run.

use super::summary::{Summary, Times, share};
use crate::base::units::{Nanos, Rate};

/// Whether the record keeps all requests or not, these are told as they arrived and left.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    slo: Option<Nanos>,
    /// By [`Outcome`](super::recorder::Outcome).
    pub outcomes: [u64; 5],
    arrived: u64,
    measured: u64,
    /// The first and last measured arrival.
    pub period: Option<(Nanos, Nanos)>,
    within_slo: u64,
    /// From the first measured arrival of the run to its last arrival.
    pub inside: Completions,
    /// After the last arrival of the run: not within the objective, and within it.
    late: [Vec<Nanos>; 2],
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Completions {
    all: u64,
    good: u64,
}

impl Completions {
    pub fn add(&mut self, good: bool) {
        self.all += 1;
        self.good += u64::from(good);
    }
}

/// The window contains at least this fraction of the completions after its start.
const WINDOW_SHARE: (usize, usize) = (9, 10);

/// Both ends are included.
#[derive(Clone, Copy)]
pub(super) struct Window {
    from: Nanos,
    to: Nanos,
}

impl Part {
    pub fn new(slo: Option<Nanos>) -> Part {
        Part {
            slo,
            ..Part::default()
        }
    }

    /// In the order of arrival.
    pub fn arrived(&mut self, at: Nanos, measured: bool) {
        self.arrived += 1;
        if measured {
            self.measured += 1;
            self.period = Some((self.period.map_or(at, |(first, _)| first), at));
        }
    }

    /// Whether the latency, in nanoseconds, is within the objective.
    pub fn served(&mut self, latency: u64, measured: bool) -> bool {
        let good = self.slo.is_some_and(|slo| latency <= slo.0);
        self.within_slo += u64::from(good && measured);
        good
    }

    /// Not before the first measured arrival of the run. `late`: after its last arrival.
    pub fn completed(&mut self, at: Nanos, good: bool, late: bool) {
        if late {
            self.late[usize::from(good)].push(at)
        } else {
            self.inside.add(good)
        }
    }

    /// The window in which completions are counted: from the first measured arrival to the last arrival, so that
    /// stragglers don't count as idle capacity, but until nine tenths of the completions after its start, so that an
    /// overloaded run is measured while it works. If all requests arrive at once, it is the whole run.
    pub fn window(&self) -> Option<Window> {
        let (from, last) = self.period?;
        let inside = self.inside.all as usize;
        let all = inside + self.late.iter().map(Vec::len).sum::<usize>();
        let needed = if from == last {
            all
        } else {
            (all * WINDOW_SHARE.0).div_ceil(WINDOW_SHARE.1)
        };
        let Some(place) = needed.checked_sub(inside + 1) else {
            return Some(Window { from, to: last });
        };
        let mut late = self.late.concat();
        let (_, to, _) = late.select_nth_unstable(place);
        Some(Window { from, to: *to })
    }

    /// All completions per second, and those within the objective.
    fn rates(&self, window: Window) -> Option<[Rate; 2]> {
        let seconds = (window.to - window.from).as_secs_f64();
        let late = |times: &Vec<Nanos>| times.iter().filter(|at| **at <= window.to).count() as u64;
        let [missed, good] = self.late.each_ref().map(late);
        let counts = [self.inside.all + missed + good, self.inside.good + good];
        (seconds > 0.0).then(|| counts.map(|count| Rate(count as f64 / seconds)))
    }

    /// Of the latency, the time in the queue and that in tasks; without what concerns tasks and workers.
    pub fn summary(
        &self,
        window: Option<Window>,
        [latency, queue, compute]: [Times; 3],
    ) -> Summary {
        let period = self
            .period
            .map_or(0.0, |(first, last)| (last - first).as_secs_f64());
        let achieved = (period > 0.0).then(|| Rate((self.measured - 1) as f64 / period));
        let rates = window.and_then(|window| self.rates(window));
        let [completed, rejected, expired, ..] = self.outcomes;
        Summary {
            offered: achieved,
            achieved,
            throughput: rates.map(|[all, _]| all),
            goodput: rates.filter(|_| self.slo.is_some()).map(|[_, good]| good),
            completed,
            failed: self.arrived - completed - rejected - expired,
            rejected: rejected + expired,
            expired,
            warmup: self.arrived - self.measured,
            slo: self.slo,
            within_slo: self.slo.and_then(|_| share(self.within_slo, self.measured)),
            latency,
            queue,
            compute,
            ..Summary::default()
        }
    }
}
