//! The host's clock, for real backends and for what a run writes about itself to `host.json`. No simulated time depends
//! on it.
//!
//! Clippy denies the two functions of `std` everywhere else; `tests/tidy` lists the modules that may call these.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The present instant of the monotonic clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the monotonic clock"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Seconds since the start of 1970, 0 for a clock before that.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the date"
)]
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
