//! The CUDA backend: the same policies on GPUs.

pub mod device;
pub mod gpu;
