//! Names in the `cell` column of cost tables that are not cells.

/// Overhead of each task, by batch size.
pub const TASK: &str = "task";
/// Overhead of a gather, by batch size.
pub const GATHER: &str = "gather";
/// Time from the submission to the start of a task on an idle worker, by batch size.
pub const LAUNCH: &str = "launch";
/// Overhead of a task of whole requests, by the number of requests. As a suffix (`CELL.whole`): the time of the cell's
/// steps in such tasks.
pub const WHOLE: &str = "whole";
/// Passing results to the next level in a loop over levels (Fold), by their number.
pub const COPY: &str = "copy";
/// Calling a cell on no rows in such a loop; `batch` is 1.
pub const EMPTY: &str = "empty";
/// The least time of a launch of operators, by its rows.
pub const KERNEL: &str = "kernel";
/// Suffix: the additional time of a cell that follows a cell of another type.
pub const SWITCH: &str = "switch";
/// Suffix: the time of a step in a launch of the cell's persistent kernel. With another `.launch`: the launch's own time.
pub const PERSISTENT: &str = "persistent";

/// Names that no cell may have.
pub(super) const RESERVED: [&str; 7] = [TASK, GATHER, LAUNCH, WHOLE, COPY, EMPTY, KERNEL];
