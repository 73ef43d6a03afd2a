//! Whether the simulator tells what a real system does: runs that were recorded are played back and taken apart, and
//! real runs are set beside simulated ones.

pub mod compare;
pub mod ledger;
pub mod recorded;
pub mod replay;
pub mod replayed;
pub mod results;
pub mod set;
