//! Late Batching: cell by cell as in cellular batching, with ahead-of-time scheduling (AISys'17, section 3).
//!
//! The order in which blocks are pushed to a device is the order in which it executes them. So the driver knows what a block
//! makes ready as soon as it is pushed, and forms the next one without waiting for a completion: the device finds it in its
//! queue when the block before it is done. Of BatchMaker's Algorithm 1 this is the case of one task for each decision, which
//! is made while the worker still runs. A block that waits in the queue is closed; a request that arrives joins the one behind it.
//!
//! On several workers those that have the fewest unfinished blocks are offered work first, so that none stands idle while
//! another looks ahead. A chain that a worker has begun stays in its blocks, before chains that wait, until the worker has
//! none left of the chain's cell type.

use serde::{Deserialize, Serialize};

use super::cellular::core::Core;
use super::registry::{Batches, Settings, Setup};
use super::values::PerCell;
use super::{Completed, Outcomes, Policy};
use crate::task::Dispatch;
use crate::workload::trace::Request;

/// `kind = "late"`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Late {
    /// The largest block, for all cells or by cell.
    pub max_batch: PerCell<u32>,
    /// The smallest block that is formed ahead, behind one that is not finished, for all cells or by cell.
    pub min_batch: PerCell<u32>,
    /// How many blocks may stand in a device's queue behind the one that runs.
    pub lookahead: u32,
}

impl Default for Late {
    fn default() -> Self {
        Late { max_batch: PerCell::All(512), min_batch: PerCell::All(1), lookahead: 1 }
    }
}

impl Settings for Late {
    const KIND: &'static str = "late";
    const ABOUT: &'static str = "cell by cell, the next block formed while the last one runs (Late Batching)";

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        let core = Core::new(&self.max_batch, &self.min_batch, 1, setup)?;
        Ok(Box::new(LatePolicy { lookahead: self.lookahead as usize, core }))
    }

    fn largest_batches(&self, setup: &Setup<'_>) -> Option<Batches> {
        self.max_batch.resolve("max_batch", setup.cells).ok().map(Batches::Nodes)
    }
}

struct LatePolicy {
    lookahead: usize,
    core: Core,
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
            for worker in dispatch.workers() {
                if dispatch.unfinished(worker) == unfinished
                    && let Some(choice) = self.core.choose(worker)
                {
                    self.core.batch(choice, worker, 1, dispatch);
                }
            }
        }
    }

    fn works_ahead(&self) -> bool {
        self.lookahead > 0
    }
}
