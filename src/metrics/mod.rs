//! What happened in a run, and what it comes to. docs/METRICS.md states every definition as a formula.
//!
//! The modules stand in the order in which a record passes through them.

pub mod recorder;

pub mod stats;
pub mod warmup;

pub mod extrapolation;
pub mod lateness;
mod saturation;
pub mod summary;

pub mod bounds;

pub mod laws;

#[cfg(test)]
pub(crate) mod records;
