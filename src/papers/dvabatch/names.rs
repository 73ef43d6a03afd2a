//! The names of DVABatch's scenarios, policies and loads.

use crate::papers::paper::Paper;

/// The labels of the policies in the scenarios.
pub const ZERO: &str = "ZeroBatch";
pub const DELAY: &str = "DelayBatch";
pub const DVA: &str = "DVABatch";

/// The label of batches that can't be entered or left between stages.
pub const PLAIN: &str = "Single-entry single-exit";
/// The label of DVABatch without stretch and early exits.
pub const SPLIT: &str = "DVABatch-split";

/// The loads of Figure 14.
pub const LOADS: [&str; 3] = ["low", "medium", "high"];
/// The loads as shares of DelayBatch's peak.
pub const SHARES: [f64; 3] = [0.25, 0.6, 0.9];

/// The numbers of buffer pairs in Figure 19.
pub const PAIRS: [u32; 5] = [1, 2, 3, 4, 5];

/// The numbers of stages in Figure 20.
pub const STAGES: [u32; 6] = [1, 2, 4, 8, 16, 20];

/// The files of a list, each with the paper's name.
pub fn named_files(list: &str) -> &'static [[String; 2]] {
    Paper::DvaBatch.names(list)
}
