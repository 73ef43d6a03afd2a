//! How long a task takes on the simulated device.

pub mod table;
