//! What simulated runs are worth: real runs beside them.

pub mod compare;
pub mod results;
