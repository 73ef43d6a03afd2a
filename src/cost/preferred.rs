//! The batch that fills a device, read off times.

use crate::units::Nanos;

/// Nothing is said to prefer a larger batch.
pub const LARGEST: u32 = 1024;

/// The smallest power of two up to [`LARGEST`] whose doubling takes at least half as long again: below it a batch costs little more than
/// half of it, and above it nothing much is gained (DVABatch, section 3.2).
pub fn preferred(time: impl Fn(u32) -> Nanos) -> u32 {
    let fills = |batch: &u32| 2 * u128::from(time(2 * batch).0) >= 3 * u128::from(time(*batch).0);
    (0..LARGEST.ilog2()).map(|power| 1 << power).find(fills).unwrap_or(LARGEST)
}
