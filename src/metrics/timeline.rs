//! The Perfetto timeline of a run.
