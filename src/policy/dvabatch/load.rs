//! Policy III (DVABatch, section 7.2): requests that come while a batch is under way join it, if it is not too far.

use super::conditions::{Conditions, Enter, Entry, Lines};
use super::durations::Durations;
use super::room::Room;
use super::table::Row;
use super::window;
use crate::units::Nanos;

/// For load diversity. Whoever waits joins the newest batch, as long as that is young and not full. Else a new batch begins, as soon as the
/// device has room for one.
pub struct ByLoad {
    /// The most queries in a batch.
    pub max_batch: u32,
    /// How long the first of a new batch waits for others.
    pub window: Nanos,
    /// The age up to which a batch takes in others.
    pub comp_wait: CompWait,
    /// Whether a new batch finds room beside those that are under way.
    pub room: Room,
}

/// Up to when a batch is stretched.
pub enum CompWait {
    /// The paper's threshold: up to this age. Zero: it takes nobody in.
    Age(Nanos),
    /// While the device has no room for another batch, and while that saves the newcomers, who would otherwise wait until the batch is
    /// done, at least as much as the batch loses, which waits until they have caught up.
    Gain(Durations),
}

impl CompWait {
    fn lasts(&self, row: &Row, newcomers: u32, entry: &Entry<'_>, room: &Room) -> bool {
        match self {
            CompWait::Age(most) => entry.now.saturating_since(row.created) < *most,
            CompWait::Gain(durations) => {
                let furthest = row.furthest();
                let rest = durations.from(furthest.next(), row.live, row.input);
                let catch_up = durations.through(furthest, newcomers, row.input);
                !room.fits(newcomers, row.input, entry.table)
                    && u128::from(rest.0) * u128::from(newcomers) >= u128::from(catch_up.0) * u128::from(row.live)
            }
        }
    }
}

impl Conditions for ByLoad {
    fn enter(&mut self, entry: &Entry<'_>) -> Option<Enter> {
        let (line, length, arrival) = entry.lines.oldest()?;
        if let Some(row) = entry.stretchable {
            let count = (self.max_batch - row.live.min(self.max_batch)).min(length as u32);
            if count > 0 && self.comp_wait.lasts(row, count, entry, &self.room) {
                return Some(Enter::Stretch { count: count as usize });
            }
        }
        let most = self.max_batch as usize;
        if length < most && arrival.saturating_add(self.window) > entry.now {
            return None;
        }
        let count = length.min(most);
        let input = entry.lines.first(line, count).map(|query| query.input).max().unwrap_or(0);
        self.room.fits(count as u32, input, entry.table).then_some(Enter::New { line, count, input })
    }

    fn wake_at(&self, lines: &Lines, now: Nanos) -> Option<Nanos> {
        window::next(lines.iter().map(|(_, _, arrival)| arrival.saturating_add(self.window)), now)
    }
}
