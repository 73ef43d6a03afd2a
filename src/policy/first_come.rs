//! Whole requests, first come first served: an idle worker takes those that have waited longest, up to so many at once.

use std::collections::VecDeque;
use std::collections::vec_deque::Drain;

use crate::task::{Dispatch, Reason};
use crate::units::{RequestId, WorkerId};

/// The requests that wait, in the order of their arrival, with what the policy keeps of each.
pub(super) struct FirstCome<K> {
    max_batch: usize,
    requests: VecDeque<RequestId>,
    kept: VecDeque<K>,
    /// Those of the batch that was taken last, kept for its memory alone.
    taken: Vec<RequestId>,
}

/// A batch of the requests that have waited longest.
#[derive(Clone, Copy)]
pub(super) struct Taken<'a> {
    pub worker: WorkerId,
    pub requests: &'a [RequestId],
    /// How many still wait behind them.
    pub left: usize,
    /// The most that could have been taken.
    pub max_batch: usize,
}

impl<K> FirstCome<K> {
    /// An empty queue, of which a worker takes up to `max_batch` requests at once.
    pub fn new(max_batch: u32) -> Self {
        let max_batch = max_batch as usize;
        FirstCome { max_batch, requests: VecDeque::new(), kept: VecDeque::new(), taken: Vec::new() }
    }

    /// A request joins behind all others.
    pub fn arrive(&mut self, request: RequestId, kept: K) {
        self.requests.push_back(request);
        self.kept.push_back(kept);
    }

    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Takes a batch for a worker, with what was kept of its requests.
    pub fn take(&mut self, worker: WorkerId) -> (Taken<'_>, Drain<'_, K>) {
        let size = self.requests.len().min(self.max_batch);
        self.taken.clear();
        self.taken.extend(self.requests.drain(..size));
        let taken = Taken { worker, requests: &self.taken, left: self.requests.len(), max_batch: self.max_batch };
        (taken, self.kept.drain(..size))
    }

    /// Has `submit` make tasks of a batch for each idle worker, as long as requests wait.
    pub fn schedule(
        &mut self,
        dispatch: &mut Dispatch<'_>,
        mut submit: impl FnMut(Taken<'_>, Drain<'_, K>, &mut Dispatch<'_>),
    ) {
        for worker in dispatch.workers() {
            if dispatch.is_idle(worker) && !self.is_empty() {
                let (taken, kept) = self.take(worker);
                submit(taken, kept, dispatch);
            }
        }
    }
}

impl Taken<'_> {
    /// How many there were to take from.
    pub fn waiting(&self) -> usize {
        self.requests.len() + self.left
    }

    /// Why these are a task.
    pub fn reason(&self) -> Reason {
        let Taken { worker, requests, left, max_batch } = self;
        Reason {
            what: "the requests that have waited longest".into(),
            size: match left {
                0 => format!("all {} that wait", requests.len()),
                _ => format!("max_batch ({max_batch}) of {} that wait", self.waiting()),
            },
            when: format!("worker {worker} had nothing to do"),
        }
    }

    /// Why so many, where the batch is evaluated as one.
    pub fn size_of_evaluation(&self) -> String {
        let (waiting, max_batch) = (self.waiting(), self.max_batch);
        match self.left {
            0 => format!("all {waiting} waiting requests (max_batch is {max_batch})"),
            _ => format!("max_batch ({max_batch}) of {waiting} waiting requests"),
        }
    }
}
