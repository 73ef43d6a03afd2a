//! The laboratory for batching policies in DNN inference serving.
//!
//! A **scenario** (TOML) names a workload, arrivals, a device and policies. The engine replays the same trace of
//! requests through each policy on a backend: the simulated GPU, the CPU or CUDA. The recorder writes logs and
//! summaries, from which tables and figures are drawn:
//!
//! ```text
//! scenario ─> trace ─> requests ─> policy ─> engine ─> backend ─> recorder ─> results ─> figures
//! ```
//!
//! The program is `batchlab sim SCENARIO`; see the README. As a library, the crate serves authors of policies, cost
//! models and backends. [`prelude`] has the names that they need.
//!
//! # A policy of your own
//!
//! 1. A struct holds the keys of the policy's table in the scenario, and implements [`Settings`](policy::registry::Settings).
//! 2. The policy's state implements [`Policy`](policy::Policy): requests arrive, tasks complete, and
//!    [`schedule`](policy::Policy::schedule) submits a [`Task`](task::Task) to each idle worker through
//!    [`Dispatch`](task::Dispatch).
//! 3. [`Registry::with`](policy::registry::Registry::with) adds it to the command line:
//!    `batchlab::cli::main(&Registry::standard().with::<Yours>())`.
//! 4. [`conformance::check`] runs the laws of every policy on random workloads.
//!
//! `examples/policy-crate` is all of it. `examples/own_selection.rs` replaces only the rule by which cellular batching
//! chooses the next cell type ([`SelectionRule`](policy::cellular::SelectionRule)). `examples/early_exit.rs` is a
//! policy of stages.
//!
//! # A cost model or a backend of your own
//!
//! A [`CostModel`](cost::CostModel) gives the simulated device its times; one method suffices. A
//! [`Backend`](backend::Backend) has three methods: the clock, submission, and waiting for completions.
//! `examples/own_backend.rs` registers one, so that `--backend NAME` reaches it.
//!
//! # Rooms
//!
//! The modules of the crate are in rooms: `base`, `core`, `devices`, `lab`, `papers` and `cli`. A room uses only those
//! declared before it, and a module only those declared before it in its room; `tests/tidy` checks it.

#![deny(unsafe_code)]

mod base;

mod core;

mod devices;

mod lab;

mod papers;

pub mod cli;

pub mod prelude;

pub use base::shipped::{MemoryFile, Shipped};
pub use base::{error, precision, step_kernels, units};
pub use core::{backend, conformance, cost, engine, policy, record, sim, summary, task, workload};
pub use devices::{cpu, cuda, network};
pub use lab::run as experiment;
pub use lab::{
    explain, figures, import, profile, results, run, scenario, search, usability, validate,
};
