//! Clockwork (OSDI'20, section 5.3): execution times are known, so a request has a latest start for each batch size, its
//! strategies. An idle worker takes the strategy with the earliest latest start that is not over: the request with those
//! that are due next. Larger batches have to start earlier, so they come first. A request is rejected as soon as it can't
//! end in time even alone, before it takes any of the GPU's time.

use std::ops::Range;

use super::due_first::{DueFirst, first_in};
use super::prelude::*;
use super::values::BatchSizes;
use super::whole::by_rule;

/// `kind = "clockwork"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Clockwork {
    /// The sizes of batches, ascending from 1.
    #[default(vec![1, 2, 4, 8, 16])]
    pub batch_sizes: Vec<u32>,
    /// What a batch may take longer than the cost table says.
    #[serde(with = "super::values::time_with_unit")]
    pub margin: Nanos,
}

impl Settings for Clockwork {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "clockwork",
            "whole requests with deadlines: the batch that has to start first, hopeless ones rejected (Clockwork)",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        let Some(largest) = self.batch_sizes.last().filter(|_| self.batch_sizes[0] == 1) else {
            return Err("batch_sizes: must begin with 1, so that each request has a batch".into());
        };
        BatchSizes(Some(self.batch_sizes.clone())).check(&[])?;
        let queue = DueFirst::new("clockwork", *largest, self.margin, setup)?;
        let batch_sizes = self.batch_sizes.clone();
        Ok(by_rule(queue, DueFirst::arrive, move |queue, dispatch| {
            queue.reject_late(dispatch);
            let mut idle = dispatch.idle();
            while let Some(worker) = idle.next(dispatch)
                && let Some(members) = strategy(queue, &batch_sizes, dispatch.now())
            {
                queue.send(
                    members,
                    worker,
                    dispatch,
                    "the strategy whose latest start comes first",
                );
            }
            queue.next_late()
        }))
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        self.batch_sizes
            .last()
            .map(|largest| Batches::Requests(*largest))
    }
}

/// The members of the strategy with the earliest latest start from now on; of equal ones, the largest.
fn strategy(queue: &mut DueFirst, batch_sizes: &[u32], now: Nanos) -> Option<Range<usize>> {
    let (waiting, mut best) = (queue.waiting(), None);
    for size in batch_sizes
        .iter()
        .map(|size| *size as usize)
        .take_while(|size| *size <= waiting)
    {
        let mut in_time = |from: usize| {
            queue
                .start_by(from..from + size, 0)
                .filter(|latest| now <= *latest)
        };
        // Of one size, those that are due later may start later, so the first that is in time has to start first.
        let first = if in_time(0).is_some() {
            0
        } else {
            first_in(1..waiting - size + 1, |from| in_time(from).is_some())
        };
        if first + size <= waiting
            && let Some(latest) = in_time(first)
            && best.as_ref().is_none_or(|(other, _)| latest <= *other)
        {
            best = Some((latest, first..first + size));
        }
    }
    best.map(|(_, members)| members)
}
