//! Policy I (DVABatch, section 7.2): queries of similar length share a batch, batches run side by side.

use super::conditions::{Conditions, Enter, Entry, Lines};
use super::room::Room;
use super::table::Query;
use super::window;
use crate::units::Nanos;

/// For input diversity. Queries wait in lines by length, and each batch is padded to its longest.
pub struct ByInput {
    /// The range of lengths that share a line.
    pub width: u32,
    /// The length of a query is the size of its input; that of a chain is the number of its steps.
    pub sized: bool,
    /// Inputs are padded to the end of their line's range, though not beyond this; `None` to pad them to the longest of the batch.
    pub padded: Option<u32>,
    /// The most queries in a batch, and in all of the worker's batches.
    pub max_batch: u32,
    /// How long the first of a line waits for others, even if the device has room.
    pub window: Nanos,
    /// Whether there is room for a new batch beside those that are under way. It need not fit whole: short queries that run beside long
    /// ones overtake them.
    pub room: Room,
}

impl Conditions for ByInput {
    fn line(&self, query: &Query) -> u32 {
        (if self.sized { query.input } else { query.nodes }.max(1) - 1) / self.width
    }

    fn enter(&mut self, entry: &Entry<'_>) -> Option<Enter> {
        let most = self.max_batch.saturating_sub(entry.table.active()) as usize;
        if most == 0 || !self.room.is_left(entry.table) {
            return None;
        }
        let due = |(_, length, arrival): &(u32, usize, Nanos)| {
            *length >= self.max_batch as usize || arrival.saturating_add(self.window) <= entry.now
        };
        let (line, length, _) = entry.lines.iter().filter(due).min_by_key(|(line, _, arrival)| (*arrival, *line))?;
        let count = length.min(most);
        let longest = entry.lines.first(line, count).map(|query| query.input).max().unwrap_or(0);
        let input = self.padded.map_or(longest, |most| (line + 1).saturating_mul(self.width).min(most).max(longest));
        Some(Enter::New { line, count, input })
    }

    fn wake_at(&self, lines: &Lines, now: Nanos) -> Option<Nanos> {
        window::next(lines.iter().map(|(_, _, arrival)| arrival.saturating_add(self.window)), now)
    }
}
