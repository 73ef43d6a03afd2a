//! The batches that a persistent kernel can run, and how all others run.
//!
//! Few batches have good kernels: rows of the grid hold equal numbers of sequences, so that a prime batch has one row or a row for each
//! sequence. A batch therefore runs padded to the larger one, if there is any, that costs the least. One that is larger than all of them runs as
//! consecutive launches, as few and as even as can be: the paper's GRU of 1024 with batch 20 takes exactly twice the time of batch 10 (Table 3).

use super::space::LARGEST_GROUP;
use super::{Cell, Device, Ranked, Space, rank};
use crate::error::{Error, Result};

/// The best kernel for each batch.
#[derive(Clone, Debug)]
pub struct Launches {
    /// For batches from 1 on: the batch that it runs as, with its best mapping. Up to the largest batch that any mapping is valid for.
    kernels: Vec<(u32, Ranked)>,
}

impl Launches {
    /// Looks for the best kernels of a cell on a device.
    pub fn new(cell: Cell, hidden: u32, device: &Device, space: &Space) -> Launches {
        // A work group holds the outputs of a column of its tile, so that tiles are at most a warp high; and each row has a block.
        let most = LARGEST_GROUP * device.multiprocessors;
        let mut kernels = Vec::new();
        let mut best: Option<(u32, Ranked)> = None;
        for batch in (1..=most).rev() {
            if let Some(first) = rank(cell, hidden, batch, device, space).first()
                && best.is_none_or(|(_, best)| first.cost.total() <= best.cost.total())
            {
                best = Some((batch, *first));
            }
            kernels.extend(best);
        }
        kernels.reverse();
        Launches { kernels }
    }

    /// The largest batch that runs in one launch; `None` where the weights do not fit.
    pub fn largest(&self) -> Option<u32> {
        u32::try_from(self.kernels.len()).ok().filter(|largest| *largest > 0)
    }

    /// Checks that there is a kernel for some batch.
    ///
    /// # Errors
    /// There is none, and what to do.
    pub fn check(&self, cell: Cell, hidden: u32, device: &str) -> Result<()> {
        match self.largest() {
            Some(_) => Ok(()),
            None => Err(Error::input(format!(
                "no persistent kernel runs {} with hidden {hidden} on the {device}: its registers do not hold the weights; leave device.grnn out, \
                 or take a smaller workload.hidden",
                cell.name()
            ))),
        }
    }

    /// The sequences in each launch for a batch. None where the weights do not fit.
    pub fn sizes(&self, batch: u32) -> impl Iterator<Item = u32> + use<> {
        let count = self.largest().map_or(0, |largest| batch.div_ceil(largest));
        // The first ones have one sequence more, where they can't all have as many.
        (0..count).map(move |launch| batch / count + u32::from(launch < batch % count))
    }

    /// The launches for a batch, one behind the other: the batch that each runs as, and its mapping.
    pub fn of(&self, batch: u32) -> impl Iterator<Item = &(u32, Ranked)> {
        self.sizes(batch).map(|size| &self.kernels[size as usize - 1])
    }
}
