//! What is simulated: workloads, costs, policies, the simulated device, the engine that runs them, and the record of a
//! run. This module uses no command line, no figures and no GPU.

pub mod task;

pub mod workload;

pub mod cost;

pub mod policy;

pub mod backend;
pub mod sim;

pub mod record;

pub mod summary;

pub mod engine;

pub mod conformance;
