use crate::base::units::{Nanos, RequestId};

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
    /// Whether the record logs the request.
    pub is_logged: bool,
}

/// The lives of the requests in the system.
///
/// Numbers run from the oldest request on, and many of these requests have left, so a number costs 4 bytes only. The
/// lives lie close together, each in the place that was vacated last.
#[derive(Debug, Default)]
pub(super) struct Lives {
    /// The place of each life from the number `first` on, or [`HAS_LEFT`].
    places: Vec<u32>,
    /// The number of the request with the first place.
    first: u64,
    /// The number of places before that of the oldest request in the system.
    passed: usize,
    lives: Vec<RequestLife>,
    vacant: Vec<u32>,
}

/// The place of a request that has left.
const HAS_LEFT: u32 = u32::MAX;

impl Lives {
    /// The number of requests that have arrived.
    pub fn count_arrived(&self) -> u64 {
        self.first + self.places.len() as u64
    }

    /// The requests in the system, in the order of their numbers.
    pub fn requests(&self) -> Vec<RequestId> {
        (self.first..)
            .zip(&self.places)
            .filter(|(_, place)| **place != HAS_LEFT)
            .map(|(request, _)| RequestId(request))
            .collect()
    }

    /// Adds the next request.
    #[inline]
    pub fn push(&mut self, life: RequestLife) {
        let place = match self.vacant.pop() {
            Some(place) => {
                self.lives[place as usize] = life;
                place
            }
            None => {
                self.lives.push(life);
                self.lives.len() as u32 - 1
            }
        };
        if self.places.len() == self.places.capacity() {
            self.forget_passed();
        }
        self.places.push(place);
    }

    /// Removes the places before that of the oldest request, if they are at least half of all.
    #[cold]
    fn forget_passed(&mut self) {
        if 2 * self.passed >= self.places.len() {
            self.places.drain(..self.passed);
            self.first += self.passed as u64;
            self.passed = 0;
        }
    }

    /// The life of a request.
    ///
    /// # Panics
    /// The request has left.
    #[inline]
    pub fn get_mut(&mut self, request: RequestId) -> &mut RequestLife {
        let place = match self.places.get(self.index(request)) {
            Some(&place) if place != HAS_LEFT => place,
            _ => panic!("request {request} was submitted after it had left"),
        };
        &mut self.lives[place as usize]
    }

    /// Removes requests, and appends their lives to `removed`.
    ///
    /// All places are looked up before the first life. None waits for another, so the processor loads them at the same
    /// time.
    ///
    /// # Panics
    /// A request has left.
    pub fn remove_all(&mut self, requests: &[RequestId], removed: &mut Vec<RequestLife>) {
        let before = self.vacant.len();
        for &request in requests {
            let index = self.index(request);
            let place = match self.places.get_mut(index) {
                Some(place) if *place != HAS_LEFT => std::mem::replace(place, HAS_LEFT),
                _ => panic!("request {request} left twice"),
            };
            self.vacant.push(place);
        }
        let places = &self.vacant[before..];
        removed.extend(places.iter().map(|place| self.lives[*place as usize]));
        while self.places.get(self.passed) == Some(&HAS_LEFT) {
            self.passed += 1;
        }
    }

    /// The index of a request in `places`, which is none of them if the request has left long ago.
    #[inline]
    fn index(&self, request: RequestId) -> usize {
        request.0.wrapping_sub(self.first) as usize
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;

    use super::*;
    use crate::core::workload::random;

    /// Requests arrive and leave in random order, and a map knows the same.
    #[test]
    fn lives_are_as_in_a_map() {
        let mut rng = random::sequence(1, 0, "lives");
        let mut lives = Lives::default();
        let mut known = std::collections::BTreeMap::new();
        for number in 0..2_000 {
            let life = RequestLife {
                arrival: Nanos(number),
                start: Nanos::MAX,
                length: rng.random_range(1..100),
                class: rng.random_range(0..3),
                is_logged: rng.random(),
            };
            lives.push(life);
            known.insert(RequestId(number), life);
            while rng.random_bool(0.5)
                && let Some(index) = known.len().checked_sub(1)
            {
                let place = rng.random_range(0..=index);
                let (&request, _) = known.iter().nth(place).unwrap();
                lives.get_mut(request).start = Nanos(7);
                let mut life = known.remove(&request).unwrap();
                life.start = Nanos(7);
                let mut removed = Vec::new();
                lives.remove_all(&[request], &mut removed);
                assert_eq!(removed, [life]);
            }
            assert_eq!(lives.count_arrived(), number + 1);
            assert!(lives.requests().iter().eq(known.keys()));
        }
        assert!(lives.lives.len() < 200, "places are used again");
        assert!(lives.places.capacity() < 2_000, "old numbers are forgotten");
    }

    #[test]
    #[should_panic(expected = "request 0 left twice")]
    fn a_request_leaves_once() {
        let mut lives = Lives::default();
        for arrival in [1, 2] {
            lives.push(RequestLife {
                arrival: Nanos(arrival),
                start: Nanos::MAX,
                length: 1,
                class: 0,
                is_logged: false,
            });
        }
        lives.remove_all(&[RequestId(0)], &mut Vec::new());
        lives.remove_all(&[RequestId(0)], &mut Vec::new());
    }
}
