//! The laboratory for batching policies in DNN inference serving.
//!
//! A module uses only modules that stand before it.

#![deny(unsafe_code)]

mod clock;
pub mod error;
pub mod units;

pub mod files;
pub mod gpu_settings;
pub mod task;

pub mod workload;

pub mod cost;

pub mod policy;

pub mod network;

pub mod backend;

pub mod metrics;

pub mod driver;

pub mod results;

pub mod conformance;
pub mod plot;
pub mod scenario;

pub mod experiment;

pub mod validate;

pub mod explain;
pub mod papers;
pub mod profile;

pub mod cli;
