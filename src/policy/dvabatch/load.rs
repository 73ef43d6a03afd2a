//! Policy III (DVABatch, section 7.2): requests that come while a batch is under way join it, if it is not too far.

use super::conditions::{Conditions, Enter, Entry, Lines};
use super::window;
use crate::units::Nanos;

/// For load diversity. Whoever waits joins the newest batch, as long as that is younger than a threshold and not full; else a new batch
/// begins.
pub struct ByLoad {
    /// The most queries in a batch.
    pub max_batch: u32,
    /// How long the first of a new batch waits for others.
    pub window: Nanos,
    /// The age up to which a batch takes in others: the paper's T_comp_wait. Zero: it takes nobody in.
    pub threshold: Nanos,
}

impl Conditions for ByLoad {
    fn enter(&mut self, entry: &Entry<'_>) -> Option<Enter> {
        let (line, length, arrival) = entry.lines.oldest()?;
        let most = self.max_batch as usize;
        if let Some(row) = entry.stretchable {
            let room = most.saturating_sub(row.live as usize);
            if entry.now.saturating_since(row.created) < self.threshold && room > 0 {
                return Some(Enter::Stretch { count: length.min(room) });
            }
        }
        if length < most && arrival.saturating_add(self.window) > entry.now {
            return None;
        }
        let count = length.min(most);
        let input = entry.lines.first(line, count).map(|query| query.input).max().unwrap_or(0);
        Some(Enter::New { line, count, input })
    }

    fn wake_at(&self, lines: &Lines, now: Nanos) -> Option<Nanos> {
        window::next(lines.iter().map(|(_, _, arrival)| arrival.saturating_add(self.window)), now)
    }
}
