//! Clockwork (OSDI'20, section 5.3): execution times are known, so a request has a latest start for each batch size, its
//! strategies. An idle worker takes the strategy with the earliest latest start that is not over: the request with those
//! that are due next. Larger batches have to start earlier, so they come first. A request is rejected as soon as it can't
//! end in time even alone, before it takes any of the GPU's time.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::due_first::DueFirst;
use super::registry::{Batches, PolicyKind, Settings, Setup};
use super::values::BatchSizes;
use super::{Outcomes, Policy};
use crate::task::Dispatch;
use crate::units::Nanos;
use crate::workload::trace::Request;

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
        Ok(Box::new(ClockworkPolicy { queue, batch_sizes: self.batch_sizes.clone(), wake: None }))
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        self.batch_sizes.last().map(|largest| Batches::Requests(*largest))
    }
}

struct ClockworkPolicy {
    queue: DueFirst,
    batch_sizes: Vec<u32>,
    wake: Option<Nanos>,
}

impl ClockworkPolicy {
    /// The members of the strategy with the earliest latest start from now on; of equal ones, the largest.
    fn strategy(&mut self, now: Nanos) -> Option<Range<usize>> {
        let ClockworkPolicy { queue, batch_sizes, .. } = self;
        let (waiting, mut best) = (queue.waiting(), None);
        for size in batch_sizes.iter().map(|size| *size as usize).take_while(|size| *size <= waiting) {
            let mut in_time = |from: usize| queue.start_by(from..from + size).filter(|latest| now <= *latest);
            // Of one size, those that are due later may start later, so the first that is in time has to start first.
            let (mut from, mut to) = (0, waiting - size + 1);
            let mut middle = 0;
            while from < to {
                match in_time(middle) {
                    Some(_) => to = middle,
                    None => from = middle + 1,
                }
                middle = (from + to) / 2;
            }
            if from + size <= waiting
                && let Some(latest) = in_time(from)
                && best.as_ref().is_none_or(|(other, _)| latest <= *other)
            {
                best = Some((latest, from..from + size));
            }
        }
        best.map(|(_, members)| members)
    }
}

impl Policy for ClockworkPolicy {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        self.queue.arrive(request);
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        self.queue.reject_late(dispatch);
        let mut idle = dispatch.idle();
        while let Some(worker) = idle.next(dispatch)
            && let Some(members) = self.strategy(dispatch.now())
        {
            self.queue.send(members, worker, dispatch, "the strategy whose latest start comes first");
        }
        self.wake = self.queue.next_late();
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.wake
    }
}
