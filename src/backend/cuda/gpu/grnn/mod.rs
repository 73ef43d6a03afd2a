//! Persistent kernels for recurrent networks (GRNN, sections 5 and 6): all steps of a batch in one launch, with the weights in
//! registers from the first to the last.
//!
//! A [`Configuration`] says what a kernel is compiled and launched with; a [`Host`] has what that takes; a [`Layer`] is the
//! network's weights on the GPU, which all kernels of a network share; a [`Persistent`] kernel runs sequences;
//! a [`Tuner`] finds the fastest. What the performance model has to know of a GPU, [`measure`] finds out.

mod chosen;
mod configuration;
mod host;
mod kernel;
mod layer;
mod loaded;
mod micro;
mod persistent;
mod tune;

pub use self::chosen::Chosen;
pub use self::configuration::{Configuration, HEADERS};
pub use self::host::Host;
pub(in crate::backend::cuda::gpu) use self::kernel::At;
pub use self::layer::Layer;
pub use self::micro::{MICRO, MICRO_HEADERS, measure, micro_options};
pub use self::persistent::{Persistent, States};
pub use self::tune::{Tuned, Tuner};
