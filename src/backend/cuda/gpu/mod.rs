//! GPUs: the trait [`Device`](super::device::Device) on CUDA.

mod cublas;
pub mod driver;
pub mod libraries;
pub mod nvrtc;
pub mod settings;
