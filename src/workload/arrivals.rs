//! When requests arrive.

use crate::units::{Nanos, RequestId};
use crate::workload::trace::{Request, Requests};

/// Where the driver takes requests from.
pub trait Source {
    /// When the next request arrives, as far as that is known.
    fn peek(&self) -> Option<Nanos>;

    /// The next request.
    ///
    /// # Panics
    /// When there is none; [`Source::peek`] says so.
    fn pop(&mut self) -> Request<'_>;

    /// A request has left the system; in a closed loop its client thinks, then sends the next.
    fn left(&mut self, request: RequestId, now: Nanos);
}

/// Requests that arrive at given times, whatever the system does.
#[derive(Debug)]
pub struct OpenLoop<'a> {
    requests: &'a Requests,
    arrivals: &'a [Nanos],
    next: usize,
}

impl<'a> OpenLoop<'a> {
    /// All requests of a trace, with an arrival time for each, not descending.
    ///
    /// # Panics
    /// When there are not as many times as requests.
    pub fn new(requests: &'a Requests, arrivals: &'a [Nanos]) -> Self {
        assert_eq!(requests.len(), arrivals.len(), "every request has an arrival time");
        OpenLoop { requests, arrivals, next: 0 }
    }
}

impl Source for OpenLoop<'_> {
    fn peek(&self) -> Option<Nanos> {
        self.arrivals.get(self.next).copied()
    }

    fn pop(&mut self) -> Request<'_> {
        let id = self.next;
        self.next += 1;
        self.requests.request(RequestId(id as u32), self.arrivals[id])
    }

    fn left(&mut self, _: RequestId, _: Nanos) {}
}
