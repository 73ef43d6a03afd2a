//! Arrival times: an open [`Process`] gives them before the run, a [`ClosedLoop`] during it.

mod process;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::iter::Copied;
use std::ops::Deref;
use std::slice::Iter;

use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};

pub use self::process::{ArrivalTimes, PROCESSES, Process, check_rate};
use crate::base::error::{Error, Result, refuse_if};
use crate::base::units::{Nanos, RequestId};
use crate::core::workload::random::RandomSequence;
use crate::core::workload::trace::{Request, Requests};

/// The latest arrival: half of the clock's range (292 years).
pub const LAST_ARRIVAL: Nanos = Nanos(u64::MAX / 2);

/// Refuses arrivals so late that the clock could end before the requests are served; `times` do not descend.
pub fn within_the_clock(times: &[Nanos]) -> Result<()> {
    match times.last() {
        Some(last) => last_within_the_clock(times.len() as u64, *last),
        None => Ok(()),
    }
}

/// Refuses a last arrival so late that the clock could end before all requests are served.
pub fn last_within_the_clock(requests: u64, last: Nanos) -> Result<()> {
    refuse_if(last > LAST_ARRIVAL, || {
        let seconds = last.as_secs_f64();
        let most = LAST_ARRIVAL.as_secs_f64();
        Error::input(format!(
            "the last of {requests} requests arrives after {seconds:.3e} s; it may arrive up to {most:.3e} s, so take \
             fewer requests or a higher rate"
        ))
    })
}

/// The requests of a run with their arrivals.
pub trait RequestSource {
    /// When the next request arrives; `None` if no request is left, or before another one leaves.
    fn peek(&self) -> Option<Nanos>;

    /// The next request.
    ///
    /// # Panics
    /// [`RequestSource::peek`] returns `None`.
    fn pop(&mut self) -> Request<'_>;

    /// Takes note that requests have left. In a closed loop their clients think, then send the next ones.
    fn note_departures(&mut self, requests: &[RequestId], now: Nanos);
}

/// The requests of a source, in the order of their numbers.
pub trait RequestSupply {
    fn count(&self) -> u64;

    /// The next request, with its arrival.
    ///
    /// # Panics
    /// All requests have been taken.
    fn next(&mut self, arrival: Nanos) -> Request<'_>;
}

/// Requests in memory.
pub struct RequestsInMemory<R> {
    requests: R,
    next: u64,
}

impl<R: Deref<Target = Requests>> RequestsInMemory<R> {
    pub fn new(requests: R) -> Self {
        RequestsInMemory { requests, next: 0 }
    }
}

impl<R: Deref<Target = Requests>> RequestSupply for RequestsInMemory<R> {
    fn count(&self) -> u64 {
        self.requests.len() as u64
    }

    fn next(&mut self, arrival: Nanos) -> Request<'_> {
        self.next += 1;
        self.requests.request(RequestId(self.next - 1), arrival)
    }
}

/// Requests at given times, whatever the system does.
pub struct OpenLoop<S, T> {
    requests: S,
    times: T,
    next: Option<Nanos>,
}

impl<'a> OpenLoop<RequestsInMemory<&'a Requests>, Copied<Iter<'a, Nanos>>> {
    pub fn new(requests: &'a Requests, arrivals: &'a [Nanos]) -> Self {
        assert_eq!(
            requests.len(),
            arrivals.len(),
            "every request has an arrival time"
        );
        OpenLoop::from_supply(RequestsInMemory::new(requests), arrivals.iter().copied())
    }
}

impl<S: RequestSupply, T: Iterator<Item = Nanos>> OpenLoop<S, T> {
    /// Requests at times; there are at least as many requests as times.
    pub fn from_supply(requests: S, mut times: T) -> Self {
        OpenLoop {
            requests,
            next: times.next(),
            times,
        }
    }
}

impl<S: RequestSupply, T: Iterator<Item = Nanos>> RequestSource for OpenLoop<S, T> {
    fn peek(&self) -> Option<Nanos> {
        self.next
    }

    fn pop(&mut self) -> Request<'_> {
        let at = self
            .next
            .expect("a request is taken only when there is one");
        self.next = self.times.next();
        self.requests.next(at)
    }

    fn note_departures(&mut self, _: &[RequestId], _: Nanos) {}
}

/// The time that a client thinks before it sends its next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Think {
    Constant(Nanos),
    Exponential(Nanos),
}

/// Clients that send a request, wait until it has left, think, and send the next, until no request is left. Each has
/// its own random sequence, so that the order of completions does not affect the draws.
pub struct ClosedLoop<S> {
    requests: S,
    think: Think,
    thoughts: Vec<RandomSequence>,
    /// When each waiting client sends; ties go to the lower one.
    due: BinaryHeap<Reverse<(Nanos, u32)>>,
    sent: u64,
    /// The client of each request in the system.
    sender: HashMap<RequestId, u32>,
}

impl<'a> ClosedLoop<RequestsInMemory<&'a Requests>> {
    pub fn new(
        requests: &'a Requests,
        clients: u32,
        think: Think,
        rng: &mut RandomSequence,
    ) -> Self {
        ClosedLoop::from_supply(RequestsInMemory::new(requests), clients, think, rng)
    }
}

impl<S: RequestSupply> ClosedLoop<S> {
    /// Clients that take their requests from a supply.
    pub fn from_supply(requests: S, clients: u32, think: Think, rng: &mut RandomSequence) -> Self {
        // Other clients would never send: the first ones send all requests at once.
        let clients = requests.count().min(clients.into()) as u32;
        ClosedLoop {
            requests,
            think,
            thoughts: (0..clients).map(|_| rng.fork()).collect(),
            due: (0..clients)
                .map(|client| Reverse((Nanos::ZERO, client)))
                .collect(),
            sent: 0,
            sender: HashMap::new(),
        }
    }
}

impl<S: RequestSupply> RequestSource for ClosedLoop<S> {
    fn peek(&self) -> Option<Nanos> {
        let some_left = self.sent < self.requests.count();
        self.due
            .peek()
            .filter(|_| some_left)
            .map(|Reverse((at, _))| *at)
    }

    fn pop(&mut self) -> Request<'_> {
        let Reverse((at, client)) = self
            .due
            .pop()
            .expect("a request is taken only when there is one");
        self.sender.insert(RequestId(self.sent), client);
        self.sent += 1;
        self.requests.next(at)
    }

    fn note_departures(&mut self, requests: &[RequestId], now: Nanos) {
        for request in requests {
            let client = self.sender.remove(request).expect("a request leaves once");
            let think = match self.think {
                Think::Constant(time) => time,
                Think::Exponential(mean) => {
                    let times: f64 = Exp1.sample(&mut self.thoughts[client as usize]);
                    Nanos::round(mean.0 as f64 * times)
                }
            };
            self.due.push(Reverse((now.saturating_add(think), client)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::workload::model::Model;
    use crate::core::workload::random;
    use crate::core::workload::shape::Shape;

    fn requests(n: usize) -> Requests {
        Requests::unfold(vec![Shape::Chain(1); n].into(), &Model::Lstm).unwrap()
    }

    #[test]
    fn clients_of_a_closed_loop_wait_for_their_answer() {
        let requests = requests(5);
        let mut source = ClosedLoop::new(
            &requests,
            2,
            Think::Constant(Nanos(10)),
            &mut random::sequence(1, 0, "think"),
        );
        let first = source.pop();
        assert_eq!((first.id, first.arrival), (RequestId(0), Nanos::ZERO));
        source.pop();
        assert_eq!(source.peek(), None, "both clients wait");
        source.note_departures(&[RequestId(1)], Nanos(7));
        assert_eq!(source.peek(), Some(Nanos(17)));
        source.note_departures(&[RequestId(0)], Nanos(7));
        // Both are due at 17: client 0 sends first, although its answer came last.
        assert_eq!(
            (source.pop().id, source.pop().id),
            (RequestId(2), RequestId(3))
        );
        assert_eq!(
            source.sender,
            HashMap::from([(RequestId(2), 0), (RequestId(3), 1)])
        );
        source.note_departures(&[RequestId(2)], Nanos(20));
        source.note_departures(&[RequestId(3)], Nanos(20));
        assert_eq!(source.pop().arrival, Nanos(30));
        assert_eq!(
            source.peek(),
            None,
            "all requests are sent, though a client would send more"
        );
    }

    #[test]
    fn clients_without_a_request_take_no_memory() {
        let requests = requests(3);
        let think = Think::Exponential(Nanos(10));
        let mut source = ClosedLoop::new(
            &requests,
            u32::MAX,
            think,
            &mut random::sequence(1, 0, "think"),
        );
        assert_eq!([0; 3].map(|_| source.pop().arrival), [Nanos::ZERO; 3]);
        assert_eq!((source.sender.len(), source.thoughts.len()), (3, 3));
    }

    #[test]
    fn the_order_of_answers_shifts_no_thought() {
        let requests = requests(4);
        let times = |order: [u32; 2]| {
            let think = Think::Exponential(Nanos(1_000_000));
            let mut source =
                ClosedLoop::new(&requests, 2, think, &mut random::sequence(1, 0, "think"));
            source.pop();
            source.pop();
            order
                .iter()
                .for_each(|id| source.note_departures(&[RequestId((*id).into())], Nanos(5)));
            [source.pop().arrival, source.pop().arrival]
        };
        assert_eq!(times([0, 1]), times([1, 0]));
    }

    #[test]
    fn thoughts_have_the_asked_mean() {
        let requests = requests(20_001);
        let think = Think::Exponential(Nanos(1_000));
        let mut source = ClosedLoop::new(&requests, 1, think, &mut random::sequence(1, 0, "think"));
        let mut now = source.pop().arrival;
        for id in 0..20_000 {
            source.note_departures(&[RequestId(id)], now);
            now = source.pop().arrival;
        }
        assert!((now.0 as f64 / 20_000.0 - 1_000.0).abs() < 30.0, "{now}");
    }
}
