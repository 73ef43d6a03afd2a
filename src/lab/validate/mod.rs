//! Checks of the simulator against real runs: replay, the error ledger, and comparisons.

pub mod compare;
pub mod ledger;
pub mod recording;
pub mod replay;
pub mod rerun;
pub mod results;
pub mod set;
