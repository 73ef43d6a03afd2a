//! Just-in-time dynamic batching (Zha et al., 2019): how many launches its look-up table saves, counted for a file of trees.
//!
//! The paper's Table 1 counts launches of a child-sum tree-LSTM on pairs of sentences, with and without batching. [`sample`] says
//! what is counted together (a tree, or a pair of trees, in which order), [`count`] counts calls of whole cells, [`kernels`] the
//! operators inside of them.

pub mod count;
pub mod kernels;
pub mod sample;
mod slots;
mod table1;

pub(super) use table1::{CLAIMS, EXHIBITS};
pub use table1::{Launches, not_at_hand};
