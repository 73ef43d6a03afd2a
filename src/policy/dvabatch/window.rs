//! Batch windows: a request waits for others so long at most.

use crate::units::Nanos;

/// The first of these instants that is still to come. One that has come waits for the device, not for the clock.
pub fn next(ends: impl Iterator<Item = Nanos>, now: Nanos) -> Option<Nanos> {
    ends.filter(|end| *end > now).min()
}
