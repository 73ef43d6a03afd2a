//! Symphony's deferred dispatch (arXiv 2308.07470, section 3): the batch of the requests with the earliest deadlines
//! starts no sooner than it must. Its window opens when one more request would make it too late, and closes at the
//! latest start. Waiting before that lets the batch grow; within the window it does not. Busy workers stagger by
//! themselves. The idle worker with the lowest number takes the batch, so that few workers are needed at low load.
//! `target_batch` is the early drop of the authors' implementation (`kWindowDrop` in its `batch_policy`).

use super::due_first::DueFirst;
use super::prelude::*;
use super::whole::{RuleTimes, policy_from_rule};

/// `kind = "symphony"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Symphony {
    /// The largest batch.
    #[default = 64]
    pub max_batch: u32,
    /// The batch size for which the workers' time is planned. Requests that are due too early for it are dropped, as in
    /// Nexus. With 1, only requests that can't end in time at all are dropped.
    #[default = 1]
    pub target_batch: u32,
    /// The time by which a batch may take longer than the cost table says.
    #[serde(with = "super::values::time_with_unit")]
    pub margin: Nanos,
}

impl Settings for Symphony {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "symphony",
            "whole requests with deadlines: a batch starts when waiting could not let it grow (Symphony)",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        let queue = DueFirst::new("symphony", self.max_batch, self.margin, setup)?;
        require_positive([("target_batch", self.target_batch)])?;
        let target_batch = self.target_batch as usize;
        Ok(policy_from_rule(
            RuleTimes::EachInstant,
            queue,
            DueFirst::arrive,
            move |queue, dispatch| {
                queue.reject_late(dispatch);
                let now = dispatch.now();
                let mut idle = dispatch.idle();
                while let Some(worker) = idle.next(dispatch)
                    && let Some(window) = queue.drop_early(target_batch, dispatch)
                {
                    // The window is in time, but the search may find less: in odd cost tables a smaller batch takes longer.
                    let size = queue.largest_in_time(now).max(window.len());
                    let opens = queue.grows_until(size);
                    if now < opens {
                        return Some(opens);
                    }
                    queue.send(0..size, worker, dispatch, "one more would be too late");
                    queue.reject_late(dispatch);
                }
                queue.next_late()
            },
        ))
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(self.max_batch))
    }
}
