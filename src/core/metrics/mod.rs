//! The record of a run and its metrics, defined in docs/METRICS.md.

pub mod recorder;

pub mod stats;
pub mod validity;

pub mod attainment;
mod part;
pub mod stream;
pub mod summary;
pub mod tokens;

pub mod bounds;
pub mod laws;

#[cfg(test)]
pub(crate) mod tests;
