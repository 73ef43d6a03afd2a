//! DVABatch (Cui et al., 2022): networks are cut into stages, and batches are made, stretched and split at the boundaries between
//! them.
//!
//! | file | of the paper |
//! | --- | --- |
//! | `table` | the batch table with its status map, and the operations new, stretch and split (section 5) |
//! | `buffers` | buffer pairs, their states, and what makes a pair legitimate (section 6.1) |
//! | `executor` | a stage's queue and states (section 6.2, figure 11) |
//! | `mechanism` | all of these together, for one worker |
//! | `conditions` | what a user decides (section 7.2, figure 12), and the way in |
//! | `input`, `operator`, `load` | the paper's policies I, II and III; II has III at its entry where both are wanted |
//! | `room` | whether the device has room for one more batch |
//! | `slicing`, `durations` | what stages run, and how long they take |
//! | `policy`, `settings`, `times` | the whole as a policy, and what scenarios say of it |
//! | `lazy` | LazyBatch, which is a part of it |

use std::fmt;

pub mod buffers;
pub mod conditions;
pub mod durations;
pub mod executor;
pub mod input;
pub mod lazy;
pub mod load;
pub mod mechanism;
pub mod operator;
pub mod policy;
pub mod room;
pub mod settings;
pub mod slicing;
pub mod table;
#[cfg(test)]
mod tests;
pub mod times;
mod window;

pub use lazy::Lazy;
pub use settings::DvaBatch;

/// The number of a stage, from 0. Chains have as many as they have steps, where a stage is a single one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stage(pub u32);

impl Stage {
    /// The position in a vector that holds one entry for each.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The stage behind it.
    pub fn next(self) -> Stage {
        Stage(self.0 + 1)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
