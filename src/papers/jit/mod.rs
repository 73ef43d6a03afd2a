//! JIT dynamic batching (*Just-in-Time Dynamic-Batching*, 2019): the launches of its Table 1, the times of its Table 2,
//! and the checks of its claims.

mod claims;
pub mod count;
pub mod kernels;
pub mod launches;
pub mod processor;
pub mod sample;

pub(super) use claims::CHECKS;
