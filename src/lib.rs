//! The laboratory for batching policies in DNN inference serving.
//!
//! The modules stand in the order in which a request passes through them.

pub mod error;
pub mod files;
pub mod units;

pub mod scenario;
pub mod workload;

pub mod policy;

pub mod driver;

pub mod backend;
pub mod cost;
pub mod network;

pub mod metrics;
pub mod plot;

pub mod conformance;
pub mod experiment;
pub mod explain;
pub mod figures;
pub mod jit;
pub mod profile;
pub mod validate;

pub mod cli;
