//! Clockwork (OSDI'20, section 5.3): execution times are known, so a request has a latest start for each batch size. A
//! request with a batch size is a strategy. An idle worker takes the strategy with the earliest latest start that is
//! not over, and adds the requests that are due next. Larger batches have to start earlier, so they come first. A
//! request is rejected as soon as it can't end in time even alone, before it takes any of the GPU's time.

use std::ops::Range;

use super::due_first::{DueFirst, first_in};
use super::prelude::*;
use super::values::BatchSizes;
use super::whole::{RuleTimes, policy_from_rule};

/// `kind = "clockwork"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Clockwork {
    /// The sizes of batches, ascending from 1.
    #[default(vec![1, 2, 4, 8, 16])]
    pub batch_sizes: Vec<u32>,
    /// The time by which a batch may take longer than the cost table says.
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
        let (Some(1), Some(largest)) = (self.batch_sizes.first(), self.batch_sizes.last()) else {
            return Err("batch_sizes: must begin with 1, so that each request has a batch".into());
        };
        BatchSizes(Some(self.batch_sizes.clone())).check(&[])?;
        let queue = DueFirst::new("clockwork", *largest, self.margin, setup)?;
        let batch_sizes = self.batch_sizes.clone();
        Ok(policy_from_rule(
            RuleTimes::EachInstant,
            queue,
            DueFirst::arrive,
            move |queue, dispatch| {
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
            },
        ))
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        let largest = self.batch_sizes.last()?;
        Some(Batches::Requests(*largest))
    }
}

/// The members of the strategy with the earliest latest start that is not before `now`. If several have the same latest
/// start, the largest is taken.
fn strategy(queue: &mut DueFirst, batch_sizes: &[u32], now: Nanos) -> Option<Range<usize>> {
    let waiting = queue.waiting();
    let mut earliest = Nanos::MAX;
    let mut best = None;
    for size in batch_sizes.iter().map(|size| *size as usize) {
        if size > waiting {
            break;
        }
        // For a given size, later requests may start later, so the first batch that is in time has the earliest latest
        // start.
        let first = if latest_start(queue, 0..size, now).is_some() {
            0
        } else {
            first_in(1..waiting - size + 1, |from| {
                latest_start(queue, from..from + size, now).is_some()
            })
        };
        let members = first..first + size;
        if members.end <= waiting
            && let Some(latest) = latest_start(queue, members.clone(), now)
            && (best.is_none() || latest <= earliest)
        {
            earliest = latest;
            best = Some(members);
        }
    }
    best
}

/// The latest start of these requests, unless it is over.
fn latest_start(queue: &mut DueFirst, members: Range<usize>, now: Nanos) -> Option<Nanos> {
    queue.start_by(members, 0).filter(|latest| now <= *latest)
}
