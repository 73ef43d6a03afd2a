//! Late Batching: cellular batching with ahead-of-time scheduling (AISys'17, section 3).
//!
//! A device executes blocks in the order of pushing, so the driver forms the next block while one runs. A queued block
//! is closed; new requests join the next one. Workers with the fewest unfinished blocks come first, so that none idles
//! while another looks ahead. A chain stays on a worker while it has unfinished blocks of the cell type.

use super::cellular::core::Core;
use super::cellular::{Algorithm1, Cellular};
use super::prelude::*;
use super::values::{BatchSizes, PerCell};

/// `kind = "late"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Late {
    /// The largest block.
    #[default(PerCell::All(512))]
    pub max_batch: PerCell,
    /// The smallest block formed while another is unfinished.
    #[default(PerCell::All(1))]
    pub min_batch: PerCell,
    pub batch_sizes: BatchSizes,
    /// Queued blocks of a device besides the running one.
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
        Ok(Box::new(Core::new(
            Algorithm1,
            &self.cellular(),
            self.lookahead,
            setup,
        )?))
    }

    fn largest_batches(&self, setup: &Setup<'_>) -> Option<Batches> {
        self.cellular().largest_batches(setup)
    }

    fn batch_sizes(&self) -> &[u32] {
        self.batch_sizes.list()
    }
}

impl Late {
    /// One block for each decision.
    fn cellular(&self) -> Cellular {
        let Late {
            max_batch,
            min_batch,
            batch_sizes,
            ..
        } = self.clone();
        Cellular {
            max_tasks: 1,
            max_batch,
            min_batch,
            batch_sizes,
            chunk: 1,
        }
    }
}
