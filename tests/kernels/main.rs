//! The GPU's kernels, without a GPU: what they compute, on the CPU through the host shim, and that they compile for each
//! kind of GPU with the registers that they may have.
//!
//! A [`device::Device`] does what the backend does on a GPU, with memory and products of the test's own. Each gather and
//! each step goes through [`checked`], which looks at every number that a kernel may have written: states against the
//! equations in float64 and, in float32, against the cells of the CPU's network; operands bit by bit.

#![cfg(target_os = "linux")]

#[path = "../host_cuda/mod.rs"]
mod host_cuda;

mod chains;
mod checked;
mod compile;
mod device;
mod equations;
mod faults;
mod fused;
mod grnn;
mod layer;
mod listed;
mod memory;
mod requests;
mod sequences;
mod shim;
mod signals;
mod stand_ins;
mod trees;
mod words;

use self::host_cuda::Element;

/// The number formats, and sizes that hit whole vectors, tails, rows that begin anywhere, and more units than a block has
/// threads.
mod sizes {
    use proptest::prelude::*;

    use super::*;

    pub fn element() -> impl Strategy<Value = Element> {
        prop::sample::select(Element::ALL.to_vec())
    }

    pub fn width() -> impl Strategy<Value = u32> {
        prop_oneof![4 => 1..70u32, 1 => Just(150), 1 => Just(256), 1 => Just(260), 1 => Just(516)]
    }

    pub fn vocabulary() -> impl Strategy<Value = u32> {
        1..90u32
    }

    /// A hidden width and that of the embedding.
    pub fn widths() -> impl Strategy<Value = (u32, u32)> {
        // Widths in which all rows begin where vectors do are few among all pairs.
        prop_oneof![2 => (width(), width()), 1 => (1..90u32, 1..90u32).prop_map(|(h, e)| (4 * h, 4 * e))]
    }
}
