//! Persistent kernels for recurrent networks (GRNN, sections 5 and 6): all steps of a batch in one launch, with the
//! weights in registers from the first step to the last.
//!
//! A [`Configuration`] has the sizes of a kernel; a [`GpuHost`] compiles and runs it; a [`Layer`] has the network's
//! weights on the GPU, which all its kernels share; a [`PersistentKernel`] runs sequences; a [`Tuner`] finds the
//! fastest mapping; [`measure`] measures the GPU for the performance model.

mod configuration;
mod kernel;
mod layer;
mod micro;
mod persistent;
mod tuned_mapping;
mod tuner;

pub use self::configuration::Configuration;
pub(super) use self::kernel::KernelChoice;
pub use self::layer::Layer;
pub(super) use self::layer::{BESIDE, HIDDEN, INPUTS, LENGTHS, VECTORS};
pub use self::micro::{MICRO, measure, micro_options};
pub use self::persistent::{PersistentKernel, SequenceStates};
pub use self::tuned_mapping::Tuned;
pub use self::tuner::Tuner;
pub use super::compile::{file, headers};
pub use super::host::GpuHost;
