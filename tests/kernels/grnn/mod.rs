//! Persistent kernels: whole sequences in one launch, held against the cells of the CPU's network; and the micro-benchmarks for their
//! model.

mod bench;
mod compile;
mod faults;
mod micro;
mod sequences;
