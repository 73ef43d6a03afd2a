//! How long a thread of a real backend sleeps or spins while it waits.

use std::time::Duration;

/// The longest wait before the engine checks whether the user wants to stop.
pub const GLANCE: Duration = Duration::from_millis(50);

/// An upper bound on how late a sleeping thread wakes up. A thread ends its sleep this much earlier, and then spins.
pub const OVERSLEEP: Duration = Duration::from_micros(200);

/// How often a spinning thread looks between two reads of the clock.
pub const LOOKS: u32 = 32;
