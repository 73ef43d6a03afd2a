//! Late Batching: cellular batching with ahead-of-time scheduling (AISys'17, section 3).
//!
//! A device executes blocks in the order of pushing, so the driver forms the next block while one runs. A queued block
//! is closed; new requests join the next one. Workers with the fewest unfinished blocks come first, so that none idles
//! while another looks ahead. A chain stays on a worker while it has unfinished blocks of the cell type.

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::cellular::Algorithm1;
use super::cellular::core::{Core, largest_batches};
use super::registry::{Batches, PolicyKind, Settings, Setup};
use super::values::{BatchSizes, PerCell};
use super::{Completed, Outcomes, Policy};
use crate::task::Dispatch;
use crate::workload::trace::Request;

/// `kind = "late"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Late {
    /// The largest block.
    #[default(PerCell::All(512))]
    pub max_batch: PerCell<u32>,
    /// The smallest block formed while another is unfinished.
    #[default(PerCell::All(1))]
    pub min_batch: PerCell<u32>,
    pub batch_sizes: BatchSizes,
    /// Queued blocks of a device besides the running one.
    #[default = 1]
    pub lookahead: u32,
}

impl Settings for Late {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new("late", "cell by cell, the next block formed while the last one runs (Late Batching)")
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        let core = Core::new(Algorithm1, [&self.max_batch, &self.min_batch], &self.batch_sizes, 1, setup)?;
        Ok(Box::new(LatePolicy { lookahead: self.lookahead as usize, core }))
    }

    fn largest_batches(&self, setup: &Setup<'_>) -> Option<Batches> {
        largest_batches(&self.max_batch, &self.batch_sizes, setup)
    }

    fn batch_sizes(&self) -> &[u32] {
        self.batch_sizes.list()
    }
}

struct LatePolicy {
    lookahead: usize,
    core: Core<Algorithm1>,
}

impl Policy for LatePolicy {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        self.core.arrive(request);
    }

    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        self.core.complete(completed, outcomes);
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        for unfinished in 0..=self.lookahead {
            let mut workers = dispatch.with_unfinished(unfinished);
            // Only busy workers have nodes pinned to them.
            while (unfinished > 0 || self.core.some_ready())
                && let Some(worker) = workers.next(dispatch)
            {
                if let Some(choice) = self.core.choose(worker) {
                    self.core.batch(choice, worker, 1, dispatch);
                }
            }
        }
    }

    fn works_ahead(&self) -> bool {
        self.lookahead > 0
    }
}
