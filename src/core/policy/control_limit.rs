//! The control limit of batch service queues (Xu, Zhou, Niu: arXiv 2301.12865): an idle worker waits until there are
//! `wait_for` requests, then takes all of them, up to the cap. For Poisson arrivals and one worker, the best policy for
//! a sum of latency and busy time has this form; `batchlab tune --optimal` computes its `wait_for`.

use super::prelude::*;
use super::whole::{FirstCome, PaddedBatch, RuleTimes, Waiting, policy_from_rule};
use crate::base::error::refuse_if;

/// `kind = "control-limit"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct ControlLimit {
    /// The smallest number of waiting requests for which an idle worker starts (the limit Q).
    #[default = 1]
    pub wait_for: u32,
    /// The largest batch.
    #[default = 64]
    pub max_batch: u32,
    /// The age at which a request is served even if fewer wait, so that the last requests of a run are served. The
    /// theory has no such limit.
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
        let ControlLimit {
            wait_for,
            max_batch,
            window,
        } = *self;
        require_positive([("wait_for", wait_for), ("max_batch", max_batch)])?;
        refuse_if(wait_for > max_batch, || {
            format!(
                "wait_for: {wait_for} requests never fit in a batch; at most max_batch ({max_batch})"
            )
        })?;
        let mut batch = PaddedBatch::default();
        Ok(policy_from_rule(
            RuleTimes::IdleWorkers,
            FirstCome::new(max_batch),
            arrive,
            move |queue, dispatch| {
                let mut idle = dispatch.idle();
                while let Some(oldest) = queue.first()
                    && let Some(worker) = idle.next(dispatch)
                {
                    let expires = oldest.arrival.saturating_add(window);
                    let is_short = queue.len() < wait_for as usize;
                    if is_short && dispatch.now() < expires {
                        return Some(expires);
                    }
                    let (taken, members) = queue.take(worker);
                    batch.fill(members);
                    dispatch.submit_because(&batch.task(worker), || Reason {
                        when: if is_short {
                            format!("the oldest had waited for the window ({window})")
                        } else {
                            format!(
                                "worker {worker} had nothing to do, and at least {wait_for} waited (wait_for)"
                            )
                        },
                        ..taken.reason()
                    });
                }
                None
            },
        ))
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(self.max_batch))
    }

    fn full_batch(&self) -> Option<u32> {
        (self.window > Nanos::ZERO).then_some(self.wait_for)
    }
}

fn arrive(queue: &mut FirstCome<Waiting>, request: &Request<'_>) {
    queue.arrive(request.id, Waiting::new(request, Nanos::MAX));
}
