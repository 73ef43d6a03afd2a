use crate::base::units::Nanos;

/// What the requests of a run, or those of one class, add up to. Both kinds of records add requests as they arrived and
/// left.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub slo: Option<Nanos>,
    /// The number of requests with each [`Outcome`](super::Outcome).
    pub outcomes: [u64; 5],
    pub arrived: u64,
    /// The number of requests that arrived after the warm-up.
    pub measured: u64,
    /// The first and last measured arrival.
    pub period: Option<(Nanos, Nanos)>,
    /// The number of measured requests that were served within the objective.
    pub within_slo: u64,
    /// The requests that finished between the first measured arrival of the run and its last arrival.
    pub inside: FinishCounts,
    /// When requests finished after the last arrival of the run: those that missed the objective, and those that met
    /// it.
    pub late: [Vec<Nanos>; 2],
}

#[derive(Clone, Copy, Debug, Default)]
pub struct FinishCounts {
    pub all: u64,
    /// The number of requests that met the objective.
    pub good: u64,
}

impl FinishCounts {
    pub fn add(&mut self, good: bool) {
        self.all += 1;
        self.good += u64::from(good);
    }
}

impl Tally {
    pub fn new(slo: Option<Nanos>) -> Tally {
        Tally {
            slo,
            ..Tally::default()
        }
    }

    /// Adds an arrival that is not before the last one.
    #[inline]
    pub fn add_arrival(&mut self, at: Nanos, measured: bool) {
        self.arrived += 1;
        if measured {
            self.measured += 1;
            let first = self.period.map_or(at, |(first, _)| first);
            self.period = Some((first, at));
        }
    }

    /// Adds the latency of a served request, in nanoseconds. Returns whether it is within the objective.
    #[inline]
    pub fn add_latency(&mut self, latency: u64, measured: bool) -> bool {
        let good = self.slo.is_some_and(|slo| latency <= slo.0);
        self.within_slo += u64::from(good && measured);
        good
    }

    /// Adds a request that finished at or after the first measured arrival of the run. `late` says whether it finished
    /// after the last arrival of the run.
    #[inline]
    pub fn add_finish(&mut self, at: Nanos, good: bool, late: bool) {
        if late {
            self.late[usize::from(good)].push(at)
        } else {
            self.inside.add(good)
        }
    }
}
