//! The command line as a user calls it: output, files and exit codes.

mod arrivals;
mod classes;
mod compare;
mod continuous;
#[cfg(target_os = "linux")]
mod cuda;
mod desk;
mod determinism;
mod explain;
mod export;
mod files;
mod folders;
mod graphs;
mod grnn;
#[cfg(target_os = "linux")]
#[path = "../host_cuda/mod.rs"]
mod host_cuda;
#[cfg(unix)]
mod interruption;
mod jit;
mod knee;
mod mistakes;
mod neighbours;
mod networks;
mod noise;
mod options;
mod plots;
mod profile;
mod real;
#[path = "../recorded/mod.rs"]
mod recorded;
mod replay;
mod report;
mod reproduce;
mod setup;
mod shards;
mod shipped;
mod sweep;
mod traces;
mod validate;
mod verify;
