//! The control limit of batch service queues (Xu, Zhou, Niu: arXiv 2301.12865): an idle worker waits until `wait_for`
//! requests are there, then takes all of them, up to the cap. For Poisson arrivals and one worker, the best policy for a
//! sum of latency and busy time has this form; `batchlab tune --optimal` computes its `wait_for`.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::registry::{Batches, PolicyKind, Settings, Setup};
use super::values::at_least_1;
use super::whole::{PaddedBatch, Taken, Waiting};
use super::{Outcomes, Policy};
use crate::task::{Dispatch, Reason};
use crate::units::Nanos;
use crate::workload::trace::Request;

/// `kind = "control-limit"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct ControlLimit {
    /// The least number of waiting requests for which an idle worker starts (the limit Q).
    #[default = 1]
    pub wait_for: u32,
    /// The largest batch.
    #[default = 64]
    pub max_batch: u32,
    /// The age at which a request is served even if fewer wait, so that the last ones of a run end. The theory has no such
    /// limit.
    #[serde(with = "super::values::time_with_unit")]
    #[default(Nanos(10_000_000_000))]
    pub window: Nanos,
}

impl Settings for ControlLimit {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "control-limit",
            "whole sequences: waits for a number of requests, then takes all (batch queues)",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        setup.require_sequences("control-limit")?;
        at_least_1([("wait_for", self.wait_for), ("max_batch", self.max_batch)])?;
        if self.wait_for > self.max_batch {
            let ControlLimit { wait_for, max_batch, .. } = self;
            return Err(format!("wait_for: {wait_for} requests never fit in a batch; at most max_batch ({max_batch})"));
        }
        Ok(Box::new(ControlLimitPolicy {
            settings: self.clone(),
            queue: VecDeque::new(),
            batch: PaddedBatch::default(),
            wake: None,
        }))
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(self.max_batch))
    }
}

struct ControlLimitPolicy {
    settings: ControlLimit,
    queue: VecDeque<Waiting>,
    batch: PaddedBatch,
    wake: Option<Nanos>,
}

impl Policy for ControlLimitPolicy {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        self.queue.push_back(Waiting::new(request, Nanos::MAX));
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        let ControlLimit { wait_for, max_batch, window } = self.settings;
        let mut idle = dispatch.idle();
        self.wake = None;
        while let Some(oldest) = self.queue.front()
            && let Some(worker) = idle.next(dispatch)
        {
            let (expires, waiting) = (oldest.arrival.saturating_add(window), self.queue.len());
            if waiting < wait_for as usize && dispatch.now() < expires {
                self.wake = Some(expires);
                return;
            }
            let size = waiting.min(max_batch as usize);
            self.batch.fill(self.queue.drain(..size));
            let taken =
                Taken { worker, requests: &self.batch.requests, left: waiting - size, max_batch: max_batch as usize };
            dispatch.submit_because(&self.batch.task(worker), || Reason {
                when: match waiting < wait_for as usize {
                    true => format!("the oldest had waited for the window ({window})"),
                    false => format!("worker {worker} had nothing to do, and at least {wait_for} waited (wait_for)"),
                },
                ..taken.reason()
            });
        }
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.wake
    }
}
