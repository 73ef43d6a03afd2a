use crate::base::units::Nanos;

/// The number of requests in the system over time, and the gaps between arrivals.
#[derive(Debug, Default)]
pub struct Presence {
    /// The numbers of the requests with which the quarters of the arrivals begin, and the last one.
    bounds: [u64; 5],
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
}

impl Presence {
    pub(super) fn new(requests: u64) -> Presence {
        let bounds = [0, 1, 2, 3, 4].map(|quarter| {
            let bound = (u128::from(requests) * quarter / 4) as u64;
            bound.min(requests - 1)
        });
        Presence {
            bounds,
            ..Presence::default()
        }
    }

    /// Sets the number of requests in the system from `now` on.
    pub(super) fn set(&mut self, now: Nanos, inside: u64) {
        self.sum += u128::from(self.inside) * u128::from(now.saturating_since(self.since).0);
        self.inside = inside;
        self.since = self.since.max(now);
    }

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

    /// The first and last arrival.
    pub fn arrivals(&self) -> Option<(Nanos, Nanos)> {
        let (_, first) = self.quarters.first()?;
        Some((*first, self.latest))
    }
}
