//! Times of operators from a device's data sheet: a roofline with wave quantisation.
//!
//! An operator is one kernel. It takes a launch, and behind that what is longer of its products and what it moves. Products are
//! cut into tiles, a multiprocessor computes a tile at a time, and so a product takes as many waves as the fullest multiprocessor has
//! tiles: `ceil(tiles / multiprocessors)`. A library has kernels for several shapes of tiles, and the fastest of them counts. Weights are
//! moved once for a batch, everything else for each query (DVABatch, section 3.2).
//!
//! All of it is exact: whole numbers, rounded up to a nanosecond, so that no time is below what the data sheet allows.
//!
//! The **preferred batch** is the smallest power of two that fills the device: doubling it takes at least half as long again, launches apart.
//! Below it a batch costs little more than half of it; above it nothing much is gained.

mod device;
mod kernels;
#[cfg(test)]
mod tests;

pub use self::device::Roofline;
pub use self::kernels::Kernels;
