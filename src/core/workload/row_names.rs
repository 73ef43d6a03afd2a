//! Names in the `cell` column of cost tables that are not cells. They are here, below [`cost`](crate::core::cost),
//! because files of networks refuse cells with these names.

/// The overhead of a task, by batch size.
pub const TASK: &str = "task";
/// The overhead of a gather, by batch size.
pub const GATHER: &str = "gather";
/// The time from the submission to the start on an idle worker, by batch size.
pub const LAUNCH: &str = "launch";
/// The overhead of a task of whole requests, by their number. As a suffix (`CELL.whole`) it names the cell's steps in
/// such tasks.
pub const WHOLE: &str = "whole";
/// The time of passing results to a loop's next level (Fold), by their number.
pub const COPY: &str = "copy";
/// The time of copying the states that a task takes from other workers, by their number.
pub const TRANSFER: &str = "transfer";
/// The time of a call of a cell for no rows, in such a loop; `batch` is 1.
pub const EMPTY: &str = "empty";
/// The least time of a launch of operators, by rows.
pub const KERNEL: &str = "kernel";
/// A suffix: the extra time after a cell of another type.
pub const SWITCH: &str = "switch";
/// A suffix: the share of the device that a step uses while other streams run, in parts per million.
pub const DEMAND: &str = "demand";
/// The bandwidth of the device's memory, in 10^6 bytes per second; `batch` is 1.
pub const BANDWIDTH: &str = "bandwidth_mb_s";
/// A suffix: a step in the cell's persistent kernel; with another `.launch`, the launch itself.
pub const PERSISTENT: &str = "persistent";

/// The rows that only a policy reads, to compute the extra time of its tasks.
pub const POLICY_ROWS: [&str; 2] = [COPY, EMPTY];

/// The names that no cell may have.
pub(super) const RESERVED: [&str; 9] = [
    TASK, GATHER, LAUNCH, WHOLE, COPY, TRANSFER, EMPTY, KERNEL, BANDWIDTH,
];
