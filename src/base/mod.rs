//! What all other modules use: units, errors, files, memory, the host's clock.

pub mod clock;
pub mod error;
pub mod hash;
pub mod units;

pub mod memory;

pub mod files;
pub mod grow;
pub mod precision;
pub mod shipped;
pub mod step_kernels;
