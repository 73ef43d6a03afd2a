//! What happened in a run, and what it comes to.

pub mod recorder;

pub mod stats;
pub mod summary;

pub mod logs;
pub mod timeline;
