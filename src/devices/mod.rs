//! What computes: networks, and the backends that run them on CPUs and GPUs.

pub mod network;

mod shared;

mod places;
mod ready_list;

pub mod cpu;
pub mod cuda;

#[cfg(test)]
mod tests;
