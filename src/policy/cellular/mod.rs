//! Cellular batching: BatchMaker's Algorithm 1 (section 4.3).
//!
//! Requests are cut into subgraphs of one cell type; whenever a worker is idle, one cell type is chosen, and up to
//! `max_tasks` tasks of ready nodes are formed from the front of that type's queue. So a request joins the running ones
//! at the next task, and leaves when its own last cell is done.
//!
//! With `chunk` above 1 a task runs so many steps of each of its chains, as a persistent kernel does that keeps the weights on chip: requests join
//! and leave between tasks alone, and those that end inside of one are padded to the longest of the others.

mod chain_queue;
mod chunk;
pub(super) mod core;
mod graph_queue;
mod identity;
mod requests;

use serde::{Deserialize, Serialize};

use self::core::Core;
use super::registry::{Batches, Settings, Setup};
use super::values::PerCell;
use super::{Completed, Outcomes, Policy};
use crate::task::Dispatch;
use crate::workload::trace::Request;

/// `kind = "cellular"`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cellular {
    /// The most tasks that one scheduling decision gives to a worker (MaxTasksToSubmit).
    pub max_tasks: u32,
    /// The largest batch (`Bsizes.Max()`), for all cells or by cell.
    pub max_batch: PerCell<u32>,
    /// The smallest batch that is submitted behind the first of a decision (`Bsizes.Min()`), for all cells or by cell.
    pub min_batch: PerCell<u32>,
    /// How many steps of each chain a task runs. BatchMaker runs one.
    pub chunk: u32,
}

impl Default for Cellular {
    fn default() -> Self {
        Cellular { max_tasks: 5, max_batch: PerCell::All(512), min_batch: PerCell::All(1), chunk: 1 }
    }
}

impl Settings for Cellular {
    const KIND: &'static str = "cellular";
    const ABOUT: &'static str = "cell by cell: requests join and leave the running batch at every step (BatchMaker)";

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        if self.max_tasks == 0 {
            return Err("max_tasks: 0 is too small; at least 1".into());
        }
        if self.chunk == 0 {
            return Err("chunk: 0 is too small; at least 1".into());
        }
        if let Some(cell) = setup.cells.iter().find(|cell| self.chunk > 1 && !cell.chain) {
            return Err(format!(
                "chunk: {} steps are of chains, and subgraphs of the cell \"{}\" are none; leave it out, or set it to 1",
                self.chunk, cell.name
            ));
        }
        let core = Core::new(&self.max_batch, &self.min_batch, self.chunk, setup)?;
        Ok(Box::new(CellularPolicy { max_tasks: self.max_tasks, core }))
    }

    fn largest_batches(&self, setup: &Setup<'_>) -> Option<Batches> {
        self.max_batch.resolve("max_batch", setup.cells).ok().map(Batches::Nodes)
    }

    fn runs_parts(&self) -> bool {
        self.chunk > 1
    }
}

struct CellularPolicy {
    max_tasks: u32,
    core: Core,
}

impl Policy for CellularPolicy {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        self.core.arrive(request);
    }

    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        self.core.complete(completed, outcomes);
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        for worker in dispatch.workers() {
            if dispatch.is_idle(worker)
                && let Some(choice) = self.core.choose(worker)
            {
                self.core.batch(choice, worker, self.max_tasks, dispatch);
            }
        }
    }
}
