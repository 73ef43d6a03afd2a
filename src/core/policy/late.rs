//! Late Batching: cellular batching with ahead-of-time scheduling (AISys'17, section 3).
//!
//! A device executes blocks in the order in which they were pushed, so the next block is formed while one runs. A
//! queued block is closed, and new requests join the next one. Workers with the smallest number of unfinished blocks
//! come first, so that none idles while another looks ahead. A chain stays on a worker while it has unfinished blocks
//! of the cell type.

use super::cellular::Cellular;
use super::prelude::*;
use super::values::{BatchSizes, PerCell};

/// `kind = "late"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Late {
    /// The largest block.
    #[default(PerCell::All(512))]
    pub max_batch: PerCell,
    /// The smallest block that is formed while another is unfinished.
    #[default(PerCell::All(1))]
    pub min_batch: PerCell,
    pub batch_sizes: BatchSizes,
    /// The number of queued blocks of a device in addition to the running one.
    #[default = 1]
    pub lookahead: u32,
}

impl Settings for Late {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "late",
            "cell by cell, the next block formed while the last one runs (Late Batching)",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        self.as_cellular().build(setup)
    }

    fn largest_batches(&self, setup: &Setup<'_>) -> Option<Batches> {
        self.as_cellular().largest_batches(setup)
    }

    fn batch_sizes(&self) -> &[u32] {
        self.batch_sizes.list()
    }

    fn lists_trees(&self) -> bool {
        false
    }
}

impl Late {
    /// Cellular batching that forms one block in each decision, ahead of time.
    fn as_cellular(&self) -> Cellular {
        Cellular {
            max_tasks: 1,
            max_batch: self.max_batch.clone(),
            min_batch: self.min_batch.clone(),
            batch_sizes: self.batch_sizes.clone(),
            chunk: 1,
            ahead: self.lookahead,
        }
    }
}
