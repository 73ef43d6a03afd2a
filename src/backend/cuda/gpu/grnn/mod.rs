//! Persistent kernels for recurrent networks (GRNN, sections 5 and 6): all steps of a batch in one launch, with the weights in
//! registers from the first to the last.
//!
//! [`Configuration`] says what a kernel is compiled and launched with.

mod configuration;

pub use self::configuration::{Configuration, HEADERS};
