//! Names in the `cell` column of cost tables that are not cells.

/// The cell of language models.
pub const ITERATION: &str = "iteration";
/// Overhead of a task, by batch size.
pub const TASK: &str = "task";
/// Overhead of a gather, by batch size.
pub const GATHER: &str = "gather";
/// From the submission to the start on an idle worker, by batch size.
pub const LAUNCH: &str = "launch";
/// Overhead of a task of whole requests, by their number. As a suffix (`CELL.whole`): the cell's steps in such tasks.
pub const WHOLE: &str = "whole";
/// Passing results to a loop's next level (Fold), by their number.
pub const COPY: &str = "copy";
/// States that a task takes from other workers, by their number.
pub const TRANSFER: &str = "transfer";
/// A cell without rows in such a loop; `batch` is 1.
pub const EMPTY: &str = "empty";
/// The least time of a launch of operators, by rows.
pub const KERNEL: &str = "kernel";
/// Suffix: extra time after a cell of another type.
pub const SWITCH: &str = "switch";
/// Suffix: the share of the device that a step uses beside those of other streams, in parts per million.
pub const DEMAND: &str = "demand";
/// The bandwidth of the device's memory, in 10^6 bytes per second; `batch` is 1.
pub const BANDWIDTH: &str = "bandwidth_mb_s";
/// Suffix: a step in the cell's persistent kernel. With another `.launch`: the launch itself.
pub const PERSISTENT: &str = "persistent";

/// The rows that only a policy reads, to compute the extra time of its tasks.
pub const POLICY_ROWS: [&str; 2] = [COPY, EMPTY];

pub(super) const RESERVED: [&str; 9] = [
    TASK, GATHER, LAUNCH, WHOLE, COPY, TRANSFER, EMPTY, KERNEL, BANDWIDTH,
];
