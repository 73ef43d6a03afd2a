//! Whether the simulator tells what a real system does: runs that were recorded are played back and taken apart.

pub mod recorded;
pub mod replay;
pub mod results;
