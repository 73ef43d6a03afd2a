//! Persistent kernels: whole sequences in one launch, held against the cells of the CPU's network.

mod bench;
mod compile;
mod faults;
mod sequences;
