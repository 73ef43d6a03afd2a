use std::collections::VecDeque;
use std::hint::black_box;

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
}

/// The lives of the requests in the system.
///
/// Numbers run from the oldest request on, and many of these requests have left, so a number costs 4 bytes only. The
/// lives lie close together, each in the place that was vacated last.
#[derive(Debug, Default)]
pub(super) struct Lives {
    /// The place of each life from `oldest` on, or [`HAS_LEFT`].
    places: VecDeque<u32>,
    /// The number of the oldest request in the system.
    oldest: u64,
    lives: Vec<RequestLife>,
    vacant: Vec<u32>,
}

/// The place of a request that has left.
const HAS_LEFT: u32 = u32::MAX;

impl Lives {
    /// The number of requests that have arrived.
    pub fn count_arrived(&self) -> u64 {
        self.oldest + self.places.len() as u64
    }

    /// The requests in the system, in the order of their numbers.
    pub fn requests(&self) -> Vec<RequestId> {
        (self.oldest..)
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
        self.places.push_back(place);
    }

    /// The life of a request.
    ///
    /// # Panics
    /// The request has left.
    #[inline]
    pub fn get_mut(&mut self, request: RequestId) -> &mut RequestLife {
        let place = self.index(request).map_or(HAS_LEFT, |i| self.places[i]);
        assert!(
            place != HAS_LEFT,
            "request {request} was submitted after it had left"
        );
        &mut self.lives[place as usize]
    }

    /// Removes a request.
    ///
    /// # Panics
    /// The request has left.
    #[inline]
    pub fn remove(&mut self, request: RequestId) -> RequestLife {
        let index = self.index(request);
        let place = index.map_or(HAS_LEFT, |i| {
            std::mem::replace(&mut self.places[i], HAS_LEFT)
        });
        assert!(place != HAS_LEFT, "request {request} left twice");
        self.vacant.push(place);
        while self.places.front() == Some(&HAS_LEFT) {
            self.places.pop_front();
            self.oldest += 1;
        }
        self.lives[place as usize]
    }

    /// Loads the lives of requests into the cache. The processor does not wait for one before it loads the next.
    #[inline]
    pub fn load(&self, requests: &[RequestId]) {
        let mut all = 0;
        for request in requests {
            let place = self.index(*request).and_then(|i| self.places.get(i));
            if let Some(life) = place.and_then(|place| self.lives.get(*place as usize)) {
                // A life may lie across two cache lines, so both ends are read.
                all ^= life.arrival.0 ^ u64::from(life.class);
            }
        }
        black_box(all);
    }

    /// The index of a request in `places`. `None` if it and all before it have left.
    #[inline]
    fn index(&self, request: RequestId) -> Option<usize> {
        Some(request.0.checked_sub(self.oldest)? as usize)
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
                lives.load(&[request]);
                assert_eq!(lives.remove(request), life);
            }
            assert_eq!(lives.count_arrived(), number + 1);
            assert!(lives.requests().iter().eq(known.keys()));
        }
        assert!(lives.lives.len() < 200, "places are used again");
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
            });
        }
        lives.remove(RequestId(0));
        lives.remove(RequestId(0));
    }
}
