//! Times of operators from a device's data sheet: a roofline with wave quantisation.
//!
//! An operator is one kernel: a launch, then the longer of its products and its memory traffic. A multiprocessor
//! computes one tile of a product at a time, so a product takes `ceil(tiles / multiprocessors)` waves. Libraries have
//! kernels for several shapes of tiles; the fastest counts. Weights move once per batch, everything else once per query
//! (DVABatch, section 3.2).
//!
//! All times are integers, rounded up to a nanosecond, so that none is below the data sheet's limits.

mod device;
mod kernels;
#[cfg(test)]
mod tests;

pub use self::device::Roofline;
pub use self::kernels::Kernels;
