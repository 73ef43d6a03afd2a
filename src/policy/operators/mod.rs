//! Requests as graphs of operators, for policies that batch below the level of cells.
//!
//! [`classes`] says which operators run as one: all nodes of a cell type that as many cells stand before are a class and have the same
//! operators. [`batch`] holds the nodes of the requests of a batch and counts them by class and depth, so that no operator of a
//! single node is ever looked at. [`launches`] are what such a policy comes to, and become the steps of a task.

pub mod batch;
pub mod by_depth;
pub mod classes;
pub mod launches;
#[cfg(test)]
pub(crate) mod naive;
