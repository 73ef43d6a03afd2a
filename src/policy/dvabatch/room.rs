//! Whether the device has room for one more batch.

use super::durations::Durations;
use super::table::BatchTable;
use crate::units::Share;

/// Batches run side by side to fill a device that each of them leaves half empty. On a full one they only slow each other down, so that
/// newcomers do better to wait, and become one batch.
pub struct Room(
    /// What batches can use of the device. `None`, where no costs are known: there always is room.
    pub Option<Durations>,
);

impl Room {
    /// Whether the batches that are under way leave some of the device.
    pub fn is_left(&self, table: &BatchTable) -> bool {
        self.0.as_ref().is_none_or(|durations| used(durations, table) < Share::WHOLE.0)
    }

    /// Whether a new batch and those that are under way can all run at full speed. One alone always fits.
    pub fn fits(&self, batch: u32, input: u32, table: &BatchTable) -> bool {
        let Some(durations) = &self.0 else { return true };
        let used = used(durations, table);
        used == 0 || used + durations.demand(batch, input).0 <= Share::WHOLE.0
    }
}

/// What the batches that are under way can use.
fn used(durations: &Durations, table: &BatchTable) -> u64 {
    table.rows().map(|(_, row)| durations.demand(row.live, row.input).0).sum()
}
