//! What computes: networks, and the backends that run them on CPUs and GPUs.

pub mod network;

mod task_checks;
mod waiting;

mod longest_first;
mod ready_list;

pub mod cpu;
pub mod cuda;

#[cfg(test)]
mod tests;
