//! Parts of policies that know deadlines: requests by their deadline, and the time that a batch of them takes.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::prelude::*;
use super::whole::{PaddedBatch, Waiting};
use crate::core::cost::CostModel;

/// Waiting sequences, the earliest deadline first; those with equal deadlines are in the order of arrival. Sequences
/// without a deadline come last. Batches are padded to their longest member.
pub struct DueFirst {
    max_batch: usize,
    margin: Nanos,
    costs: Arc<dyn CostModel>,
    /// The requests that wait. Each is due the margin before its deadline.
    waiting: VecDeque<Waiting>,
    batch: PaddedBatch,
}

impl DueFirst {
    /// An empty queue for batches of at most `max_batch`, which end the margin before the earliest deadline of their
    /// members.
    pub fn new(
        who: &str,
        max_batch: u32,
        margin: Nanos,
        setup: &Setup<'_>,
    ) -> Result<DueFirst, String> {
        setup.require_sequences(who)?;
        require_positive([("max_batch", max_batch)])?;
        let costs = setup.costs.cloned().ok_or_else(|| {
            format!(
                "{who} must know how long a batch takes; name a cost table (device.costs) or a data sheet \
                 (device.roofline)"
            )
        })?;
        Ok(DueFirst {
            max_batch: max_batch as usize,
            margin,
            costs,
            waiting: VecDeque::new(),
            batch: PaddedBatch::default(),
        })
    }

    pub fn arrive(&mut self, request: &Request<'_>) {
        let due = match request.deadline {
            Some(deadline) => deadline.saturating_since(self.margin),
            None => Nanos::MAX,
        };
        let place = self.waiting.partition_point(|other| other.due <= due);
        self.waiting.insert(place, Waiting::new(request, due));
    }

    /// The largest batch that can be formed, whatever its time.
    pub fn most(&self) -> usize {
        self.waiting.len().min(self.max_batch)
    }

    /// The number of requests that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The size of the largest batch of the first requests that ends in time if it starts now. The search assumes that
    /// larger batches take longer.
    pub fn largest_in_time(&mut self, now: Nanos) -> usize {
        let first_late = first_in(1..self.most() + 1, |size| {
            self.start_by(0..size, 0).is_none_or(|latest| latest < now)
        });
        first_late - 1
    }

    /// The latest start of these requests, with `more` like the longest of them; `None` if they can't end in time.
    pub fn start_by(&mut self, members: Range<usize>, more: u32) -> Option<Nanos> {
        let due = self.waiting[members.start].due;
        if due == Nanos::MAX {
            return Some(due);
        }
        self.batch.fill(self.waiting.range(members));
        let time = self.batch.time(more, &*self.costs);
        if time <= due { Some(due - time) } else { None }
    }

    /// The instant until which one more request, like the longest of the first `size`, could join them in time. It is
    /// zero if the batch is full, if others wait already, or if there is no deadline.
    pub fn grows_until(&mut self, size: usize) -> Nanos {
        if size < self.waiting.len() || size == self.max_batch || self.waiting[0].due == Nanos::MAX
        {
            return Nanos::ZERO;
        }
        self.start_by(0..size, 1).unwrap_or_default()
    }

    /// Sends these requests to a worker.
    pub fn send(
        &mut self,
        members: Range<usize>,
        worker: WorkerId,
        dispatch: &mut Dispatch<'_>,
        rule: &str,
    ) {
        let size = members.len();
        let before = self.waiting.len();
        self.batch.fill(self.waiting.drain(members));
        dispatch.submit_because(&self.batch.task(worker), || Reason {
            what: "the requests with the earliest deadlines that are still to be met".into(),
            size: format!("{size} of {before} that wait: {rule}"),
            when: format!("worker {worker} had nothing to do"),
        });
    }

    /// Nexus's early drop: rejects the first requests until a window of the next ones ends in time if it starts now,
    /// and returns that window. `None` if no request is left.
    pub fn drop_early(
        &mut self,
        window: usize,
        dispatch: &mut Dispatch<'_>,
    ) -> Option<Range<usize>> {
        while let Some(first) = self.waiting.front().map(|waiting| waiting.request) {
            let members = 0..window.min(self.most());
            if let Some(latest) = self.start_by(members.clone(), 0)
                && dispatch.now() <= latest
            {
                return Some(members);
            }
            dispatch.reject(first);
            self.waiting.pop_front();
        }
        None
    }

    /// Rejects the requests that can't end in time even in a batch of one.
    pub fn reject_late(&mut self, dispatch: &mut Dispatch<'_>) {
        self.drop_early(1, dispatch);
    }

    /// The instant at which [`DueFirst::reject_late`] has to look again.
    pub fn next_late(&mut self) -> Option<Nanos> {
        self.waiting.front()?;
        let latest = self.start_by(0..1, 0)?;
        Some(latest.saturating_add(Nanos(1)))
    }
}

/// The first number of a range for which `holds` is true, if it is true for all numbers after that; the end of the
/// range if it is true for none. Otherwise any number of the range may be returned.
pub fn first_in(mut range: Range<usize>, mut holds: impl FnMut(usize) -> bool) -> usize {
    while !range.is_empty() {
        let middle = (range.start + range.end) / 2;
        if holds(middle) {
            range.end = middle;
        } else {
            range.start = middle + 1;
        }
    }
    range.start
}
