//! The record of a run, and the metrics computed from it. docs/METRICS.md defines each metric by a formula.

pub mod recorder;

pub mod stats;
pub mod validity;

pub mod summary;

pub mod bounds;
pub mod laws;

#[cfg(test)]
pub(crate) mod records;
