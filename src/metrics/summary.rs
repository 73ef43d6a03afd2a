//! Summary of a run.
