//! Runs of a scenario: the points and their files.
//!
//! A point is one policy under one load. Each replication is a separate run, which draws its workload from the seed and
//! writes a summary and logs. Simulated runs are spread over threads; real runs go one after the other. A run is a
//! chain of calls: [`Sweep::run`], `Point::run`, [`Target::execute`](target::Target::execute), and the engine.

pub mod bounds;
pub mod executor;
pub mod fingerprint;
pub mod folder;
pub mod inputs;
mod job;
pub mod lock;
pub mod memory;
pub mod notes;
mod point;
pub mod shard;
pub mod shared_requests;
pub mod standard;
mod sweep;
pub mod target;
pub mod time_budget;
mod tolerance;
pub mod verify;

pub use self::job::Run;
pub use self::point::{KeptRecord, KeptRun};
pub use self::sweep::{
    RunOptions, RunReport, Sweep, complete, estimate_memory, points, run, run_sweep,
};
pub use self::target::prepare;
