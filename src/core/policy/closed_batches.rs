//! Batches that are closed before an instance takes them, as in Triton 21.10.
//!
//! A batch that is formed goes to the queue of the rate limiter, and later requests are not added to it (`IsStaleState`
//! in `dynamic_batch_scheduler.cc`). The queue takes batches while it has fewer than two for each instance
//! (`PayloadSlotAvailable` in `rate_limiter.cc`). With a delay, an instance that takes the first merges those behind it
//! that are old enough (`Dequeue` in `instance_queue.cc`).

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::whole::{PaddedBatch, Waiting};
use crate::base::units::Nanos;

/// The release of Triton whose batcher forms the batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Version {
    /// A batch is closed when it is formed (releases 21.09 to 21.12).
    #[serde(rename = "21.10")]
    Closed,
    /// A batch takes in requests until an instance takes it (from 22.01 on).
    #[default]
    #[serde(rename = "22.03")]
    Open,
}

/// The queue of closed batches, in the order in which they were closed.
pub struct ClosedBatches {
    /// The largest number of batches in the queue.
    most: usize,
    max_batch: usize,
    delay: Nanos,
    /// The size of each batch.
    sizes: VecDeque<usize>,
    /// The members of all batches, one batch after another.
    members: VecDeque<Waiting>,
}

/// The number of closed batches for each instance.
const BATCHES_PER_INSTANCE: usize = 2;

impl ClosedBatches {
    /// The queue of all workers' instances, or `None` if the version closes no batches.
    pub fn new(
        version: Option<Version>,
        instances: usize,
        max_batch: u32,
        delay: Nanos,
    ) -> Option<ClosedBatches> {
        if version != Some(Version::Closed) {
            return None;
        }
        Some(ClosedBatches {
            most: BATCHES_PER_INSTANCE * instances,
            max_batch: max_batch as usize,
            delay,
            sizes: VecDeque::new(),
            members: VecDeque::new(),
        })
    }

    /// Whether another batch can be closed.
    pub fn has_place(&self) -> bool {
        self.sizes.len() < self.most
    }

    /// Closes a batch of these members.
    pub fn close(&mut self, members: impl IntoIterator<Item = Waiting>) {
        let before = self.members.len();
        self.members.extend(members);
        self.sizes.push_back(self.members.len() - before);
    }

    /// Fills `batch` with the first closed batch and those behind it that merge with it. Returns their number, which is
    /// 0 if no batch is closed.
    pub fn take(&mut self, now: Nanos, batch: &mut PaddedBatch) -> usize {
        batch.clear();
        let mut merged = 0;
        while let Some(&size) = self.sizes.front()
            && (merged == 0 || self.merges(size, batch.requests.len(), now))
        {
            batch.extend(self.members.drain(..size));
            self.sizes.pop_front();
            merged += 1;
        }
        merged
    }

    /// Whether the first closed batch, of this size, merges with a batch of `taken` requests.
    fn merges(&self, size: usize, taken: usize, now: Nanos) -> bool {
        if self.delay == Nanos::ZERO || taken + size > self.max_batch {
            return false;
        }
        let mut members = self.members.iter().take(size);
        members.any(|member| member.arrival.saturating_add(self.delay) < now)
    }
}

/// Why a batch that consists of `merged` closed batches has its size.
pub fn reason(size: usize, merged: usize, delay: Nanos) -> String {
    match merged {
        1 => format!("the {size} of the batch that was closed first"),
        _ => format!(
            "the {size} of the {merged} batches that were closed first: each but the first has a member older than {delay}"
        ),
    }
}
