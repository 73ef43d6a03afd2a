//! The scheduling core and the simulator: drawn schedules, laws, exact theory, a naive second implementation, replays.
//!
//! One binary, since each links the library.

mod allocations;
mod continuous;
mod coverage;
mod deadlines;
mod differential;
mod exact;
mod fuzz;
mod golden;
mod grnn;
mod grnn_naive;
mod identities;
mod knee;
mod lab;
mod laws;
mod naive;
mod replay;
mod streamed;
mod streams;
mod theory;

#[path = "../../benches/common/idle.rs"]
mod idle;
#[path = "../recorded/mod.rs"]
mod recorded;
