//! The batches that a persistent kernel can run, and how all others run.
//!
//! Few batches have good kernels: rows of the grid hold equal numbers of sequences, so a prime batch has one row, or
//! one row per sequence. A batch is therefore padded to the cheapest larger one, if that costs less. A batch larger
//! than all of them runs as consecutive launches, as few and as even as possible: the paper's GRU of 1024 takes exactly
//! twice as long at batch 20 as at batch 10 (Table 3).

use super::space::LARGEST_GROUP;
use super::{Cell, Device, Ranked, Space, rank};
use crate::error::{Error, Result};

/// The best kernel for each batch.
#[derive(Clone, Debug)]
pub struct Launches {
    /// For batches from 1 to the largest with a valid mapping: the batch that it is padded to, and its mapping.
    kernels: Vec<(u32, Ranked)>,
}

impl Launches {
    /// Finds the best kernels of a cell on a device.
    pub fn new(cell: Cell, hidden: u32, device: &Device, space: &Space) -> Launches {
        // A work group holds a column of outputs of its tile, so tiles are at most a warp high; and each row has a
        // block.
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

    /// The largest batch of one launch; `None` if the weights do not fit.
    pub fn largest(&self) -> Option<u32> {
        u32::try_from(self.kernels.len()).ok().filter(|largest| *largest > 0)
    }

    /// Fails if there is no kernel for any batch.
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

    /// The number of sequences in each launch of a batch; empty if the weights do not fit.
    pub fn sizes(&self, batch: u32) -> impl Iterator<Item = u32> + use<> {
        let count = self.largest().map_or(0, |largest| batch.div_ceil(largest));
        // If the batch does not divide evenly, the first launches have one sequence more.
        (0..count).map(move |launch| batch / count + u32::from(launch < batch % count))
    }

    /// The launches of a batch in order: the padded batch of each, and its mapping.
    pub fn of(&self, batch: u32) -> impl Iterator<Item = &(u32, Ranked)> {
        self.sizes(batch).map(|size| &self.kernels[size as usize - 1])
    }
}
