//! How a backend on the machine's clock waits.

use std::time::Duration;

/// The driver looks up at least this often, so that a user who wants to stop is heard.
pub const GLANCE: Duration = Duration::from_millis(50);

/// A thread that sleeps wakes late by less than this, so that it sleeps so much shorter and spins for the rest.
pub const OVERSLEEP: Duration = Duration::from_micros(200);

/// Looks that are taken between two glances at the clock while spinning.
pub const LOOKS: u32 = 32;
