//! The rows of a task of whole requests.

use super::device::BatchShape;
use super::streams::GatheredNode;

/// The rows of a cell type in a task of whole requests, since the last gather. They stand in the order of their ends,
/// the last one first. So ended rows are behind the others, and a smaller batch runs over the same rows.
#[derive(Debug, Default)]
pub struct WholeRows {
    /// The shape of the gather, or `None` before it.
    gathered: Option<BatchShape>,
    /// The rows that have not ended, each with the node that was gathered.
    rows: Vec<GatheredNode>,
    /// The number of launches since the gather.
    launches: u32,
}

impl WholeRows {
    pub fn clear(&mut self) {
        self.gathered = None;
        self.rows.clear();
    }

    /// The shape of a launch of this many rows that continues without a gather. `None` if it has no room for the rows
    /// that have not ended, or if fewer rows were gathered.
    pub fn shape(&self, rows: u32) -> Option<BatchShape> {
        let gathered = self.gathered?;
        if self.rows.len() <= rows as usize && rows <= gathered.rows {
            Some(BatchShape { rows, ..gathered })
        } else {
            None
        }
    }

    /// Replaces the rows by those of a gather, and leaves the memory of the old ones in `rows`.
    pub fn begin(&mut self, gathered: BatchShape, rows: &mut Vec<GatheredNode>) {
        self.gathered = Some(gathered);
        std::mem::swap(&mut self.rows, rows);
        self.launches = 0;
    }

    /// Continues every row with its next node.
    pub fn advance(&mut self) {
        self.launches += 1;
    }

    /// Removes a row whose last node is queued, and returns it with that node.
    pub fn pop_ended(&mut self) -> Option<GatheredNode> {
        let has_ended = |row: &mut GatheredNode| row.last - row.node < self.launches;
        let row = self.rows.pop_if(has_ended)?;
        Some(GatheredNode {
            node: row.last,
            ..row
        })
    }

    /// Removes all rows, and returns each with the node that was queued last.
    pub fn drain(&mut self) -> impl Iterator<Item = GatheredNode> {
        self.gathered = None;
        let queued = self.launches.saturating_sub(1);
        self.rows.drain(..).map(move |row| GatheredNode {
            node: row.node + queued,
            ..row
        })
    }
}
