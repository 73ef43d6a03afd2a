//! GPUs as the backend drives them, on libraries that stand in for the driver, NVRTC and cuBLAS and run the project's kernels
//! on the CPU: what they compute is compared with requests that the CPU runs alone.

#![cfg(target_os = "linux")]

mod bench;
mod faults;
#[path = "../host_cuda/mod.rs"]
mod host_cuda;
mod listed;
mod memory;
mod networks;
mod order;
mod persistent;
mod sequences;
