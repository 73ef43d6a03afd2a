//! The time that a command with real runs may take.

use std::time::Instant;

use crate::base::clock;

/// Seconds of the host's clock, counted down from when the budget was made.
#[derive(Clone, Copy, Debug)]
pub struct TimeBudget {
    begin: Instant,
    seconds: f64,
}

impl TimeBudget {
    pub fn new(seconds: f64) -> TimeBudget {
        TimeBudget {
            begin: clock::now(),
            seconds,
        }
    }

    pub fn elapsed_seconds(&self) -> f64 {
        (clock::now() - self.begin).as_secs_f64()
    }

    /// What is left, at least 0.
    pub fn remaining_seconds(&self) -> f64 {
        (self.seconds - self.elapsed_seconds()).max(0.0)
    }
}
