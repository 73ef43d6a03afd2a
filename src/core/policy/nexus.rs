//! Nexus's early drop (SOSP'19, section 6.3): a window as long as the planned batch slides over the queue. It stops at
//! the first request that can wait for the whole window to run. Earlier requests are dropped, because a batch small
//! enough for them would lower the throughput.

use super::due_first::DueFirst;
use super::prelude::*;
use super::whole::{RuleTimes, policy_from_rule};

/// `kind = "nexus"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Nexus {
    /// The length of the window: the largest batch, for which the workers' time is planned.
    #[default = 16]
    pub max_batch: u32,
    /// The time by which a batch may take longer than the cost table says.
    #[serde(with = "super::values::time_with_unit")]
    pub margin: Nanos,
}

impl Settings for Nexus {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "nexus",
            "whole requests with deadlines: early ones are dropped for the sake of full batches (Nexus)",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        let queue = DueFirst::new("nexus", self.max_batch, self.margin, setup)?;
        Ok(policy_from_rule(
            RuleTimes::EachInstant,
            queue,
            DueFirst::arrive,
            |queue, dispatch| {
                let mut idle = dispatch.idle();
                while let Some(worker) = idle.next(dispatch)
                    && let Some(window) = queue.drop_early(usize::MAX, dispatch)
                {
                    queue.send(
                        window,
                        worker,
                        dispatch,
                        "the first window that ends in time",
                    );
                }
                None
            },
        ))
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(self.max_batch))
    }
}
