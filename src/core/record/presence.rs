use super::histogram::DurationHistogram;
use crate::base::units::Nanos;

/// The first and the last of this number of parts represent the beginning and the end.
const PARTS: u64 = 10;

/// What the rule of saturation needs to know of a run: the number of requests in the system over time, the gaps between
/// arrivals, and the times of the first and the last requests.
#[derive(Debug, Default)]
pub struct Presence {
    /// The numbers of the requests with which the quarters of the arrivals begin, and the last one.
    pub bounds: [u64; 5],
    /// The number of requests of the whole run.
    pub requests: u64,
    /// The number of the first, and of the last, requests whose times are kept.
    pub part: u64,
    /// The number of requests in the system.
    pub(super) inside: u64,
    since: Nanos,
    /// The integral of `inside`, in request-nanoseconds.
    sum: u128,
    /// The sum and the instant at the start of each quarter of the arrivals, and at the last arrival.
    pub quarters: Vec<(u128, Nanos)>,
    /// The last arrival.
    pub latest: Nanos,
    /// The sum of the squares of the gaps between arrivals: at most the square of the last arrival.
    pub squares: u128,
    /// The times from start to finish of the first tenth of the requests.
    pub first_services: DurationHistogram,
    /// The times from arrival to start of the last tenth of the requests.
    pub last_waits: DurationHistogram,
}

impl Presence {
    /// Nothing of a run with this number of requests, at least 1.
    pub fn new(requests: u64) -> Presence {
        let bounds = [0, 1, 2, 3, 4].map(|quarter| {
            let bound = (u128::from(requests) * quarter / 4) as u64;
            bound.min(requests - 1)
        });
        Presence {
            bounds,
            requests,
            part: requests.div_ceil(PARTS),
            ..Presence::default()
        }
    }

    /// Sets the number of requests in the system from `now` on.
    #[inline]
    pub(super) fn set(&mut self, now: Nanos, inside: u64) {
        self.sum += u128::from(self.inside) * u128::from(now.saturating_since(self.since).0);
        self.inside = inside;
        self.since = self.since.max(now);
    }

    #[inline]
    pub(super) fn add_arrival(&mut self, number: u64, at: Nanos) {
        self.set(at, self.inside + 1);
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

    /// Adds a served request with its times from arrival to start and from start to finish, in nanoseconds.
    #[inline]
    pub fn add_served(&mut self, number: u64, wait: u64, service: u64) {
        if number < self.part {
            self.first_services.add(service, 1);
        }
        if number >= self.requests - self.part {
            self.last_waits.add(wait, 1);
        }
    }

    /// The first and last arrival.
    pub fn arrivals(&self) -> Option<(Nanos, Nanos)> {
        let (_, first) = self.quarters.first()?;
        Some((*first, self.latest))
    }
}
